"""What a run is: every setting that changes its result, with its default; and how those are read.

A setting comes from a preset, then a YAML file, then the command line, each over the one before. Five of them name
something that has settings of its own (encoder, head, predictor, method, loss): these are the constructor's arguments,
found by looking, and written ``--loss NTXentLoss --loss.temperature 0.1`` or, in YAML,
``loss: {name: NTXentLoss, temperature: 0.1}``. Naming another one starts from that one's defaults.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import hashlib
import inspect
import json
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import yaml
from jsonargparse import ArgumentError, ArgumentParser
from torch import Tensor

from isotherm import doors, temperature
from isotherm.checks import did_you_mean
from isotherm.data.sentences import is_text
from isotherm.encoders import HEADS, NETWORKS, text
from isotherm.losses import catalogue
from isotherm.losses.loss import Loss
from isotherm.methods.build import METHODS, named
from isotherm.train import optimizers, schedule
from isotherm.train.presets import PRESETS, USUAL

Choice = dict[str, Any]
"""A name and the settings of what it names."""
PARTS = ("encoder", "head", "predictor", "method", "loss")
FORMER = {"normalise": "normalize", "watch": "monitor", "watch_images": "monitor_images"}
"""Settings by the names they had before 0.2: still read, and what a run's key is made of."""
Imbalance = Literal["none", "long-tail", "linear", "exponential"]
Precision = Literal["32", "bf16-mixed", "16-mixed", "64-true"]


def setting(default: Any, about: str) -> Any:
    if isinstance(default, list | dict):
        return field(default_factory=default.copy, metadata={"about": about})
    return field(default=default, metadata={"about": about})


@dataclass(frozen=True)
class Config:
    """Everything that changes the result of a run."""

    data: str = setting(
        "digits", "a named set (isotherm data list), or folder:PATH, parquet:PATH, arrays:PATH, text:PATH"
    )
    split: str = setting("train", "which part to learn from")
    test: str = setting("test", "which part to judge on")
    images: int | None = setting(None, "learn from this many images or sentences only, a seeded choice; null: all")
    imbalance: Imbalance = setting("none", "make the classes unequal: long-tail, linear or exponential")
    ratio: float = setting(0.01, "smallest class over largest, of a long tail")
    randbit: int = setting(0, "RandBit: this many shared random bits as further channels (Chen & Li)")
    digits: int = setting(0, "paste this many unique digits on the images (Chen & Li)")
    data_options: dict[str, Any] = setting({}, "options of the data's reader, such as {size: 64}")
    recipe: str | None = setting(None, "how views are drawn; null: what suits the data")
    views: int | None = setting(None, "views of each item; null: what the method needs")
    size: int | None = setting(None, "edge of a view in pixels; null: the recipe's")
    normalize: str | None = setting(None, "channel statistics: cifar10, cifar100, stl10, imagenet; null: none")
    encoder: Choice = setting({}, "the network whose features are probed")
    head: Choice = setting({}, "what makes embeddings of features")
    predictor: Choice = setting({}, "what predicts (mocov3, byol, simsiam)")
    method: Choice = setting({}, "how embeddings are made and compared; by default simclr, of sentences simcse")
    loss: Choice = setting({}, "a loss of isotherm.nn (isotherm losses); by default the method's own")
    epochs: int = setting(40, "passes over the data")
    batch: int = setting(256, "items per step, over all processes")
    lr: float = setting(0.1, "peak learning rate, before scaling")
    lr_scaling: schedule.Scaling = setting("none", "with the batch: linear is lr·batch/256, sqrt is lr·√batch")
    optimizer: optimizers.Name = setting("sgd", "sgd, lars, adam or adamw")
    momentum: float = setting(0.9, "of sgd and lars; β₁ of adam")
    nesterov: bool = setting(False, "Nesterov's momentum (sgd)")
    weight_decay: float = setting(5e-4, "weight decay")
    decay_all: bool = setting(True, "false: none for biases and BN")
    schedule: schedule.Shape = setting("cosine", "of the learning rate: constant, step, cosine or linear")
    milestones: list[int] = setting([], "epochs at which the step schedule multiplies by factor")
    factor: float = setting(0.1, "of the step schedule")
    warmup: float = setting(0.0, "epochs of linear warm-up")
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
        for name in ("epochs", "batch", "parts"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be 1 or more, got {getattr(self, name)}.")
        for name in ("monitor", "randbit", "digits", "seed", "warmup", "weight_decay"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be 0 or more, got {getattr(self, name)}.")
        for name in ("images", "views", "size", "monitor_images"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ValueError(f"{name} must be 1 or more, got {getattr(self, name)}.")
        if not 0 < self.lr < float("inf"):
            raise ValueError(f"lr must be positive, got {self.lr}.")
        if self.clip is not None and not self.clip > 0:
            raise ValueError(f"clip must be positive, got {self.clip}.")
        if self.ema is not None and not 0 < self.ema < 1:
            raise ValueError(f"ema lies between 0 and 1, got {self.ema}.")
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum lies in [0, 1), got {self.momentum}.")
        if self.schedule != "step" and self.milestones:
            raise ValueError(f"milestones belong to --schedule step, not {self.schedule}.")
        if self.warmup >= self.epochs and self.warmup > 0:
            raise ValueError(f"a warm-up of {self.warmup:g} epochs leaves nothing of {self.epochs}.")

    def as_dict(self) -> dict[str, Any]:
        """Plain values, as YAML and JSON hold them."""
        return json.loads(json.dumps(dataclasses.asdict(self)))  # type: ignore[no-any-return]

    @property
    def key(self) -> str:
        """The same for the same run, and for no other; also across versions."""
        former = {new: old for old, new in FORMER.items()}
        settings = {former.get(name, name): value for name, value in self.as_dict().items()}
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Runtime:
    """Where and how a run runs. Nothing here changes its result (but for the rounding of other devices)."""

    out: Path | None = setting(None, "the run's folder")
    resume: bool = setting(False, "continue the run in --out, or start it if there is none")
    device: str = setting("auto", "auto, cpu, cuda, mps")
    checkpoint: float = setting(30.0, "seconds between checkpoints, at least; 0: after every step")
    prefetch: int = setting(2, "batches prepared ahead")
    channels_last: bool | None = setting(None, "images and weights with channels last; null: on a processor")
    compile: bool = setting(False, "torch.compile the network")
    log: list[str] = setting([], "also to tensorboard or wandb (extra 'tracking')")
    log_every: int = setting(50, "steps between lines of metrics.jsonl")
    quiet: bool = setting(False, "no progress")

    def __post_init__(self) -> None:
        if self.log_every < 1:
            raise ValueError(f"log_every must be 1 or more, got {self.log_every}.")
        if self.prefetch < 0 or not self.checkpoint >= 0:
            raise ValueError(f"prefetch and checkpoint must be 0 or more, got {self.prefetch} and {self.checkpoint}.")


def configure(settings: Mapping[str, Any] | None = None, preset: str | None = None) -> Config:
    """A configuration from dotted or nested settings over a preset: ``configure({"loss.temperature": 0.1})``."""
    merged = merge(preset_settings(preset), nested(settings or {}))
    return _config(merged, [])[0]


def parse(argv: Sequence[str]) -> tuple[Config, Runtime, bool]:
    """The command line: the configuration, the place, and whether the configuration is only to be printed."""
    argv = [a for word in argv for a in (word.split("=", 1) if word.startswith("--") and "=" in word else [word])]
    argv = [f"--{FORMER[word[2:]]}" if word.startswith("--") and word[2:] in FORMER else word for word in argv]
    preset, argv = _taken(argv, "--preset")
    file, argv = _taken(argv, "--config")
    only_print = "--print_config" in argv
    argv = [a for a in argv if a != "--print_config"]
    settings = merge(preset_settings(preset), read_yaml(Path(file)) if file else {})
    for part in PARTS:
        name, argv = _taken(argv, f"--{part}")
        if name is not None:
            settings = merge(settings, {part: {"name": name}})
    data, _ = _taken(argv, "--data")
    settings = merge(settings, {} if data is None else {"data": data})  # what is usual depends on it
    config, place = _config(settings, argv)
    return config, place, only_print


def preset_settings(name: str | None) -> dict[str, Any]:
    if name is None:
        return {}
    if name not in PRESETS:
        raise ValueError(f"no preset '{name}'{did_you_mean(name, PRESETS)}")
    return nested(PRESETS[name].settings)


def nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted names taken apart; a part that is only a name becomes {name: …}."""
    made: dict[str, Any] = {}
    for name, value in settings.items():
        first, dot, rest = FORMER.get(name, name).partition(".")
        only_name = not dot and first in PARTS and isinstance(value, str)
        made = merge(made, {first: {rest: value} if dot else {"name": value} if only_name else value})
    return made


def merge(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`over` laid on `under`. A part with another name forgets the settings of the one below."""
    made = dict(under)
    for name, value in over.items():
        below = made.get(name)
        if name in PARTS and isinstance(value, Mapping) and isinstance(below, Mapping):
            other = "name" in value and value["name"] != below.get("name", value["name"])
            made[name] = dict(value) if other else {**below, **value}
        elif isinstance(value, Mapping) and isinstance(below, Mapping):
            made[name] = {**below, **value}
        else:
            made[name] = value
    return made


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What differs between two configurations, one line each."""
    flat_old, flat_new = flat(old), flat(new)
    return [
        f"{name}: {flat_old.get(name, 'not set')} → {flat_new.get(name, 'not set')}"
        for name in dict.fromkeys([*flat_old, *flat_new])
        if flat_old.get(name) != flat_new.get(name)
    ]


def flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted names."""
    made: dict[str, Any] = {}
    for name, value in settings.items():
        if name in PARTS and isinstance(value, Mapping):
            made |= {name if k == "name" else f"{name}.{k}": v for k, v in value.items()}
        else:
            made[name] = value
    return made


def build_loss(choice: Choice) -> tuple[Loss | None, temperature.CosineSchedule | None]:
    """The loss that is named, and the schedule of its temperature if it has one."""
    if not choice:
        return None, None
    settings = {k: v for k, v in choice.items() if k != "name"}
    over_epochs = None
    tau = settings.get("temperature")
    if isinstance(tau, Mapping):
        made = _temperature(tau)
        if isinstance(made, temperature.CosineSchedule):
            over_epochs, made = made, made.at(0)
        settings["temperature"] = made
    return _loss_class(choice["name"])(**settings), over_epochs


def _temperature(choice: Mapping[str, Any]) -> Any:
    """``{name: Cosine, tau_min: 0.07, tau_max: 0.2}`` of isotherm.temperature."""
    known = ("Constant", "Cosine", "Linear", "Exponential", "Monotone", "Shifted", "Learnable", "CosineSchedule")
    name = choice.get("name")
    if name not in known:
        raise ValueError(f"no temperature '{name}'; there is: {', '.join(known)}.")
    kind = getattr(temperature, str(name))
    try:
        return kind(**{k: v for k, v in choice.items() if k != "name"})
    except TypeError as error:
        raise ValueError(f"temperature {name}: {str(error).partition('__init__() ')[2] or error}.") from error


def _loss_class(name: str) -> type[Loss]:
    if doors.is_outside(name):
        kind: type[Loss] = doors.load(name)
        return kind
    found = {e.name: e.loss for e in catalogue.losses()}
    if name not in found:
        raise ValueError(f"no loss '{name}'{did_you_mean(name, found)}")
    return found[name]


def read_yaml(path: Path) -> dict[str, Any]:
    try:
        found = yaml.safe_load(path.read_text())
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path} must hold settings, one per line (name: value); got a {type(found).__name__}.")
    return nested({str(k): v for k, v in found.items()})


def _taken(argv: Sequence[str], option: str) -> tuple[str | None, list[str]]:
    """The value of an option, the last one if it is there several times, and the other words."""
    value, rest, words = None, [], iter(argv)
    for word in words:
        if word == option:
            value = next(words, None)
            if value is None or value.startswith("--"):
                raise ValueError(f"{option} needs a value.")
        else:
            rest.append(word)
    return value, rest


Spec = tuple[Any, Any, str]
"""Type, default, help."""


def _config(settings: Mapping[str, Any], argv: Sequence[str]) -> tuple[Config, Runtime]:
    settings = dict(settings)
    for part in PARTS:
        chosen = settings.setdefault(part, {})
        if not isinstance(chosen, Mapping) or not isinstance(chosen.get("name", ""), str):
            raise ValueError(f"{part} must be a name, or {{name: …, settings}}; got {chosen!r}.")
    settings = completed(merge(usual(settings), settings))
    method = named(str(settings["method"]["name"]))
    if method.loss is None:
        if settings["loss"].get("name"):
            raise ValueError(
                f"method '{settings['method']['name']}' has its own objective and takes no loss, "
                f"got {settings['loss']['name']}."
            )
        settings["loss"] = {}
    elif "name" not in settings["loss"]:
        settings["loss"] = {"name": method.loss, **settings["loss"]}
    specs = specifications(settings)
    given = {(f"{name}.name" if name in PARTS else name): value for name, value in flat(settings).items()}
    for name in given:
        _known(name, specs, "")
    for word in argv:
        if word.startswith("--"):
            _known(word[2:].removesuffix("+"), specs, "--")
    values = _parsed(specs, given, argv)
    found: dict[str, Any] = {part: {} for part in PARTS}
    for name, value in values.items():
        part, dot, key = name.partition(".")
        if dot:
            found[part][key] = value
        else:
            found[name] = value
    place = {f.name: found.pop(f.name) for f in dataclasses.fields(Runtime)}
    place["out"] = Path(place["out"]) if place["out"] is not None else None
    return Config(**found), Runtime(**place)


def completed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Every part with a name: the method's default where none is given."""
    method = method_of(settings)
    names = {"method": method, "encoder": named(method).encoder, "head": named(method).head, "predictor": "simclr"}
    return {**settings, **{part: {"name": name, **settings[part]} for part, name in names.items()}}


def method_of(settings: Mapping[str, Any]) -> str:
    """The method that is named, or the usual one for the data."""
    return str(settings["method"].get("name", "simcse" if is_text(str(settings.get("data"))) else "simclr"))


def usual(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What goes without saying for this method and encoder, under whatever is said."""
    method = method_of(settings)
    if method != "simcse":
        return {}
    scratch = settings["encoder"].get("name", named(method).encoder) == text.SMALL
    return nested(USUAL["sentences from scratch" if scratch else "sentences"])


def specifications(settings: Mapping[str, Any]) -> dict[str, Spec]:
    """Every setting there is for these choices, by its dotted name."""
    specs: dict[str, Spec] = {}
    hints = typing.get_type_hints(Config)
    for f in dataclasses.fields(Config):
        if f.name in PARTS:
            if settings[f.name]:
                specs[f"{f.name}.name"] = (str, settings[f.name]["name"], f.metadata["about"])
                specs |= {f"{f.name}.{k}": v for k, v in _settings_of(f.name, settings[f.name]["name"]).items()}
            continue
        specs[f.name] = (hints[f.name], _default_of(f), f.metadata["about"])
    hints = typing.get_type_hints(Runtime)
    for f in dataclasses.fields(Runtime):
        specs[f.name] = (str | None if f.name == "out" else hints[f.name], _default_of(f), f.metadata["about"])
    return specs


def _default_of(f: dataclasses.Field[Any]) -> Any:
    return f.default if f.default_factory is dataclasses.MISSING else f.default_factory()


def _settings_of(part: str, name: str) -> dict[str, Spec]:
    """The settings of what is named: its constructor's arguments."""
    if part == "loss":
        return _arguments(_loss_class(name), ("reduction", "generator"), {})
    if part == "method":
        return {k: _spec(p) for k, p in named(name).settings.items()}
    if part == "encoder":
        if name == text.SMALL:
            return {"vocabulary": (int, text.VOCABULARY, ""), **_arguments(text.small, ("tokenizer",), {})}
        if text.is_text_encoder(name):
            return _arguments(text.pretrained, ("name",), {})
        if ":" in name:
            return {"settings": (dict[str, Any], {}, "settings of the library's constructor")}
        if name not in NETWORKS:
            there = [*NETWORKS, text.SMALL, text.INSTALLED, "hf:NAME", "timm:NAME", "torchvision:NAME"]
            raise ValueError(f"no encoder '{name}'{did_you_mean(name, there)}")
        network, fixed = NETWORKS[name]
        found = _arguments(network, ("channels", "size", *fixed), {})
        by_size = {k: (found[k][0] | None, None, "") for k in ("small", "patch") if k in found}
        return found | by_size  # these follow the size of the images unless given
    if name not in HEADS:
        raise ValueError(f"no {part} '{name}'{did_you_mean(name, HEADS)}")
    return _arguments(HEADS[name].kind, ("features",), HEADS[name].settings)


def _arguments(of: Callable[..., Any], without: Sequence[str], defaults: Mapping[str, Any]) -> dict[str, Spec]:
    made = of.__init__ if isinstance(of, type) else of  # type: ignore[misc]
    parameters = inspect.signature(made, eval_str=True).parameters
    chosen = {k: p for k, p in parameters.items() if k not in ("self", *without)}
    return {k: _spec(p.replace(default=defaults.get(k, p.default))) for k, p in chosen.items()}


def _spec(parameter: inspect.Parameter) -> Spec:
    return _readable(parameter.annotation), parameter.default, ""


def _readable(hint: Any) -> Any:
    """A type that can be written down: a temperature is a number or {name: …}."""
    if get_origin(hint) in (Union, types.UnionType):
        members = get_args(hint)
        if any(get_origin(m) is collections.abc.Callable or m is Tensor for m in members):
            return float | dict[str, Any]
    if get_origin(hint) is collections.abc.Sequence:
        return list[get_args(hint)[0]]  # type: ignore[misc]
    return hint


def _known(name: str, specs: Mapping[str, Spec], dashes: str) -> None:
    first = ".".join(name.split(".")[:2])
    if name in specs or first in specs or name.split(".", maxsplit=1)[0] in specs:
        return
    part = name.split(".", maxsplit=1)[0]
    if part in PARTS and f"{part}.name" in specs:
        those = [k.partition(".")[2] for k in specs if k.startswith(f"{part}.") and k != f"{part}.name"]
        what = f"{part} '{specs[f'{part}.name'][1]}'"
        dotted = [f"{dashes}{part}.{k}" for k in those]
        hint = did_you_mean(f"{dashes}{name}", dotted, those or ["none"], lead="it has")
        raise ValueError(f"{what} has no setting '{name.partition('.')[2]}'{hint}")
    shown = [f"{dashes}{k.removesuffix('.name')}" for k in specs]
    hint = did_you_mean(f"{dashes}{name}", shown, ["isotherm train --help"], lead="see")
    raise ValueError(f"no setting '{dashes}{name}'{hint}")


def _parsed(specs: Mapping[str, Spec], given: Mapping[str, Any], argv: Sequence[str]) -> dict[str, Any]:
    """Every setting's value, of its type."""
    parser = ArgumentParser(exit_on_error=False, prog="isotherm train", add_help=False)
    for name, (kind, default, _) in specs.items():
        missing = default is inspect.Parameter.empty
        parser.add_argument(f"--{name}", type=kind, default=None if missing else default)
    words = []
    flags = {f"--{name}" for name, (kind, _, _) in specs.items() if kind is bool}
    for i, word in enumerate(argv):  # --resume alone means --resume true
        words.append(word)
        if word in flags and (i + 1 == len(argv) or argv[i + 1].startswith("--")):
            words.append("true")
    try:
        checked = parser.parse_object(_tree(given), defaults=False)
        parser.set_defaults({name: checked[name] for name in given})
        found = parser.parse_args(words)
    except ArgumentError as error:
        raise ValueError(_one_line(str(error), specs, given, words)) from error
    values = {name: _plain(found[name]) for name in specs}
    for name, (kind, default, _) in specs.items():
        if values[name] is None and default is not None and type(None) not in get_args(kind):
            raise ValueError(f"{name} must be {_wanted(kind)}; got null.")
    return values


def _tree(given: Mapping[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, value in given.items():
        part, dot, key = name.partition(".")
        if dot:
            made.setdefault(part, {})[key] = value
        else:
            made[name] = value
    return made


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _one_line(message: str, specs: Mapping[str, Spec], given: Mapping[str, Any], words: Sequence[str]) -> str:
    """jsonargparse's complaint in a sentence."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    if lines[0].startswith('Parser key "'):
        name = lines[0].split('"')[1]
        kind = specs[name][0] if name in specs else None
        said = [words[i + 1] for i, word in enumerate(words[:-1]) if word == f"--{name}"]
        got = said[-1] if said else given.get(name)
        return f"{name.removesuffix('.name')} must be {_wanted(kind)}; got {got!r}."
    return " ".join(lines) + ("" if lines[-1].endswith(".") else ".")


WORDS: dict[Any, str] = {int: "a whole number", float: "a number", bool: "true or false", str: "a word"}


def _wanted(kind: Any) -> str:
    """A type in words."""
    if kind in WORDS:
        return WORDS[kind]
    if kind is type(None):
        return "null"
    origin = get_origin(kind)
    if origin is Literal:
        return "one of " + ", ".join(str(v) for v in get_args(kind))
    if origin in (Union, types.UnionType):
        return " or ".join(_wanted(k) for k in get_args(kind))
    if origin is list:
        return "a list such as [1, 2]"
    if origin is dict:
        return "{name: …}"
    return str(kind)


def help_text(argv: Sequence[str] = ()) -> str:
    """Every setting, what it is, its default: what `isotherm train --help` shows."""
    chosen: dict[str, Any] = {}
    words = [a for a in argv if a not in ("--help", "-h")]
    for part in PARTS:
        name, _ = _taken(words, f"--{part}")
        chosen[part] = {"name": name} if name else {}
    chosen["data"] = _taken(words, "--data")[0]
    chosen = completed(merge(usual(chosen), chosen))
    method = named(chosen["method"]["name"])
    if method.loss and not chosen["loss"]:
        chosen["loss"] = {"name": method.loss}
    goes = {k: v for k, v in flat(chosen).items() if v is not None}
    specs = {k: (kind, goes.get(k, default), about) for k, (kind, default, about) in specifications(chosen).items()}
    lines = []
    for name, (kind, default, about) in specs.items():
        shown = "" if default in (None, inspect.Parameter.empty) or default in ([], {}) else f" ({_default(default)})"
        if name.endswith(".name"):
            part = name.removesuffix(".name")
            lines.append(f"  --{part} NAME".ljust(30) + f"{about}{shown}")
        elif "." in name:
            lines.append(f"    --{name}".ljust(30) + f"{_wanted(kind)}{shown}")
        else:
            lines.append(f"  --{name}".ljust(30) + f"{about}{shown}")
    return "\n".join(lines)


def _default(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def settings_of(choice: Choice) -> dict[str, Any]:
    """The settings of what a choice names."""
    return {k: v for k, v in choice.items() if k != "name"}


def listing() -> str:
    """The presets and the methods, a line each."""
    rows = ["presets (--preset NAME --print_config shows one):"]
    rows += [f"  {name:<24}{preset.about}" for name, preset in PRESETS.items()]
    rows += ["", "methods:"]
    rows += [f"  {name:<24}{found.about}" for name, found in METHODS.items()]
    return "\n".join(rows)
