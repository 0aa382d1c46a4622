"""What a run is: every setting that changes its result, with its default; and where and how it runs."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from isotherm import world
from isotherm.checks import one_of, positive
from isotherm.data import overlay
from isotherm.train import optimizers, schedule
from isotherm.train.choice import Choice
from isotherm.train.layers import FORMER, LATER, PARTS, Settings

Imbalance = Literal["none", "long-tail", "linear", "linear-groups", "exponential", "imagenet100-lt"]
Precision = Literal["32", "bf16-mixed", "16-mixed", "64-true"]


def setting(default: Any, about: str, later: bool = False) -> Any:
    """A setting; one that came `later` is part of a run's key only where it is given, so that older keys stay."""
    facts = {"about": about, "later": later}
    if isinstance(default, list | Mapping):
        return field(default_factory=lambda: copy.copy(default), metadata=facts)
    return field(default=default, metadata=facts)


@dataclass(frozen=True)
class Config:
    """Everything that changes the result of a run."""

    data: str = setting(
        "digits",
        "a named set (isotherm data list), folder:PATH, shards:PATH, parquet:PATH, arrays:PATH, text:PATH, "
        "captions:PATH, or "
        "./FILE.py:FUNCTION",
    )
    split: str = setting("train", "which part to learn from")
    test: str = setting("test", "which part to judge on")
    images: int | None = setting(None, "learn from this many images or sentences only, a seeded choice; null: all")
    imbalance: Imbalance = setting(
        "none",
        "make classes unequal: long-tail, linear, linear-groups (ten, as CACR's code), exponential, imagenet100-lt",
    )
    ratio: float = setting(0.01, "smallest class over largest, of a long tail")
    randbit: int = setting(0, "RandBit: this many shared random bits as further channels (Chen & Li)")
    digits: int = setting(0, "paste this many unique digits on the images (Chen & Li)")
    digit_source: Literal["digits", "mnist"] = setting(
        "digits", "where those digits come from: digits (8×8, embedded) or mnist (28×28)", later=True
    )
    digit_size: int | None = setting(None, "edge those digits are resized to; null: their own", later=True)
    digit_places: overlay.Places = setting(
        "offsets",
        "offsets (0.15, 0.45, 0.75 of the edge, cut at the border) or grid (nine without overlap)",
        later=True,
    )
    digit_blend: overlay.Blend = setting(
        "max", "max (as Chen & Li's notebook) or sum (as their text; at most white)", later=True
    )
    data_options: Settings = setting({}, "options of the data's reader: --data.size 64, or {size: 64}")
    recipe: str | None = setting(None, "how views are drawn; null: what suits the data")
    views: int | None = setting(None, "views of each item; null: what the method needs")
    size: int | None = setting(None, "edge of a view in pixels; null: the recipe's")
    crop_scale: list[float] | None = setting(
        None, "area of a view's crop, as parts of the image's such as [0.14, 1]; null: the recipe's", later=True
    )
    small_crops: int | None = setting(
        None,
        "multi-crop: this many small crops beside the views, which ask and never answer; null: the recipe's",
        later=True,
    )
    small_size: int | None = setting(None, "edge of a small crop in pixels; null: 3/7 of a view's", later=True)
    small_scale: list[float] | None = setting(
        None, "area of a small crop; null: the recipe's, or [0.05, 0.14]", later=True
    )
    normalize: str | None = setting(
        None, "channel statistics: cifar10, cifar100, stl10, imagenet, inception; null: none"
    )
    encoder: Choice = setting(Choice(), "the network whose features are probed; your own: ./FILE.py:NAME")
    text_encoder: Choice = setting(
        Choice(), "of clip: the tower of captions, text_small, minilm, hf:NAME or hf:PATH", later=True
    )
    head: Choice = setting(Choice(), "what makes embeddings of features")
    predictor: Choice = setting(Choice(), "what predicts (mocov3, nnclr, byol, simsiam)")
    method: Choice = setting(Choice(), "how embeddings are made and compared; by default simclr, of sentences simcse")
    loss: Choice = setting(Choice(), "one of isotherm losses, or ./FILE.py:CLASS; by default the method's own")
    epochs: int | None = setting(40, "passes over the data")
    steps: int | None = setting(
        None, "this many optimizer steps instead of epochs, whatever the size of the data", later=True
    )
    batch: int = setting(256, "items per step, over all processes")
    lr: float = setting(0.1, "peak learning rate, before scaling")
    lr_scaling: schedule.Scaling = setting("none", "with the batch: linear is lr·batch/256, sqrt is lr·√batch")
    optimizer: optimizers.Name = setting("sgd", "sgd, lars, adam or adamw")
    momentum: float = setting(0.9, "of sgd and lars; β₁ of adam")
    trust: float = setting(0.001, "of lars: the norm of a layer's step, as a part of the layer's own", later=True)
    nesterov: bool = setting(False, "Nesterov's momentum (sgd)")
    weight_decay: float = setting(5e-4, "weight decay")
    decay_all: bool = setting(True, "false: none for biases and BN")
    schedule: schedule.Shape = setting("cosine", "of the learning rate: constant, step, cosine or linear")
    milestones: list[int] = setting([], "epochs at which the step schedule multiplies by factor")
    factor: float = setting(0.1, "of the step schedule")
    warmup: float = setting(0.0, "epochs of linear warm-up")
    warmup_part: float = setting(0.0, "linear warm-up over this part of all steps, such as 0.05", later=True)
    clip: float | None = setting(None, "largest gradient norm; null: no clipping")
    parts: int = setting(1, "embed the batch in this many parts to save memory; negatives stay those of the whole")
    ema: float | None = setting(None, "keep a moving average of the network with this momentum, and export it")
    precision: Precision = setting("32", "32, bf16-mixed, 16-mixed or 64-true")
    sync_bn: bool = setting(True, "with several processes: BN over everyone's batch")
    nonfinite: Literal["stop", "skip"] = setting(
        "stop", "a loss or gradient that is not finite: stop, or skip the step"
    )
    monitor: int = setting(5, "how many times to measure kNN (of sentences STS-B) and geometry on the way")
    monitor_images: int = setting(2000, "items for that")
    seed: int = setting(0, "of weights, order and views")

    def __post_init__(self) -> None:
        for part in PARTS:
            choice: Mapping[str, Any] = getattr(self, part)
            if not isinstance(choice, Choice):
                object.__setattr__(self, part, Choice.of(choice))
        if self.steps is not None:
            object.__setattr__(self, "epochs", None)  # they follow from the data: one run has one key
        elif self.epochs is None:
            raise ValueError("a run needs a length: give epochs or steps.")
        if self.warmup and self.warmup_part:
            raise ValueError(f"warmup ({self.warmup:g}) and warmup_part ({self.warmup_part:g}): give one of them.")
        self._check_numbers()
        if self.schedule != "step" and self.milestones:
            raise ValueError(f"milestones belong to --schedule step, not {self.schedule}.")
        if self.epochs is not None and self.warmup >= self.epochs and self.warmup > 0:
            raise ValueError(f"a warm-up of {self.warmup:g} epochs leaves nothing of {self.epochs}.")

    def _check_numbers(self) -> None:
        for name in ("batch", "parts"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be 1 or more, got {getattr(self, name)}.")
        for name in ("monitor", "randbit", "digits", "seed", "warmup", "weight_decay"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be 0 or more, got {getattr(self, name)}.")
        for name in ("epochs", "steps", "images", "views", "size", "digit_size", "small_size", "monitor_images"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ValueError(f"{name} must be 1 or more, got {getattr(self, name)}.")
        if self.seed >= 1 << 63:
            raise ValueError(f"seed must be below 2^63, got {self.seed}.")
        positive("trust", self.trust)
        positive("factor", self.factor)
        if not 0 < self.lr < math.inf:
            raise ValueError(f"lr must be positive, got {self.lr}.")
        if self.clip is not None and not self.clip > 0:
            raise ValueError(f"clip must be positive, got {self.clip}.")
        if self.ema is not None and not 0 < self.ema < 1:
            raise ValueError(f"ema lies between 0 and 1, got {self.ema}.")
        for name in ("momentum", "warmup_part"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} lies in [0, 1), got {getattr(self, name)}.")

    def as_dict(self) -> Settings:
        """Plain values, as YAML and JSON hold them."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        plain = {k: v.as_dict() if isinstance(v, Choice) else v for k, v in values.items()}
        return json.loads(json.dumps(plain))  # type: ignore[no-any-return]

    @property
    def key(self) -> str:
        """The same for the same run, and for no other; also across versions."""
        former = {new: old for old, new in FORMER.items()}
        settings = {former.get(name, name): value for name, value in without_later(self.as_dict()).items()}
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]


def without_later(settings: Mapping[str, Any]) -> Settings:
    """Settings as a run has them that was made before some came: without those that came later and say "as before"."""
    plain = dict(settings)
    for f in (f for f in dataclasses.fields(Config) if f.metadata["later"]):
        default = f.default_factory() if callable(f.default_factory) else f.default
        if f.name in plain and plain[f.name] == default:
            del plain[f.name]
    for part in PARTS:
        came = LATER.get((part, plain.get(part, {}).get("name", "")), {})
        if came:
            plain[part] = {k: v for k, v in plain[part].items() if k not in came or v != came[k]}
    return plain


@dataclass(frozen=True)
class Runtime:
    """Where and how a run runs. Nothing here changes its result (but for the rounding of other devices)."""

    out: Path | None = setting(None, "the run's folder")
    resume: bool = setting(False, "continue the run in --out, or start it if there is none")
    device: str = setting("auto", "auto, cpu, cuda, mps")
    checkpoint: float = setting(30.0, "seconds between checkpoints, at least; 0: after every step")
    timeout: float = setting(1800.0, "with several processes: seconds that they wait for one that measures or reads")
    silence: float = setting(
        100.0, "with several processes: seconds after which one without a sign of life, or stuck in a step, is lost"
    )
    exchange: world.Exchange = setting(
        "gather", "with several processes: gather candidates, or a ring of them, which needs less memory"
    )
    prefetch: int = setting(2, "batches prepared ahead")
    channels_last: bool | None = setting(None, "images and weights with channels last; null: on a processor")
    compile: bool = setting(False, "torch.compile the network")
    log: list[str] = setting([], "also to tensorboard or wandb (extra 'tracking')")
    log_every: int = setting(50, "steps between lines of metrics.jsonl")
    careful: bool | None = setting(None, "look at every step before the next; null: on a processor, where it is free")
    quiet: bool = setting(False, "no progress")

    def __post_init__(self) -> None:
        if self.log_every < 1:
            raise ValueError(f"log_every must be 1 or more, got {self.log_every}.")
        one_of("exchange", self.exchange, get_args(world.Exchange))
        positive("timeout", self.timeout)
        positive("silence", self.silence)
        if self.prefetch < 0 or not self.checkpoint >= 0:
            raise ValueError(f"prefetch and checkpoint must be 0 or more, got {self.prefetch} and {self.checkpoint}.")
