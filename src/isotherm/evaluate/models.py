"""Encoders of images to be judged, ours or anybody's, each with the images it wants: size, channels, normalization."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from isotherm.checks import at_least, refusing
from isotherm.data.images import Images
from isotherm.data.undecoded import Undecoded
from isotherm.encoders import NETWORKS, encoder
from isotherm.encoders.build import adopt, from_timm, from_torchvision, installed
from isotherm.encoders.hub import from_hub
from isotherm.encoders.weights import FILES, load_weights, read_weights
from isotherm.probes.extract import probed_layer
from isotherm.train import names, runs
from isotherm.train.choice import Choice
from isotherm.train.commandline import recorded
from isotherm.train.config import Config
from isotherm.train.layers import Settings
from isotherm.train.modality import ImageModality, modality_of
from isotherm.train.modality.images import ENCODER, encoder_of, oddities
from isotherm.views import Recipe, recipe

RANDOM, LIBRARIES = "random:", ("timm:", "torchvision:", "hf:")
SMALL, LARGE = 32, 224
GRAY = (0.299, 0.587, 0.114)
"""Rec. 601: what colours weigh in a grey image."""
Normalize = str | tuple[Any, Any] | None


@dataclass(frozen=True)
class Wanted:
    """What is said about an encoder besides its name."""

    arch: str | None = None
    """The network of a file of weights."""
    size: int | None = None
    normalize: Normalize = None
    """A name of `views.recipes.STATISTICS`, or (mean, std); None: what the model says."""
    seed: int = 0
    """Of random weights."""


@dataclass(frozen=True, eq=False)
class Model:
    """An encoder and the images it wants."""

    name: str
    encoder: nn.Module
    channels: int
    size: int
    recipe: Recipe
    """How images are normalized; its view is the image itself."""
    notes: tuple[str, ...] = ()
    unfinished: str = ""

    @property
    def layer(self) -> str | None:
        return probed_layer(self.encoder)


def open_model(source: str, wanted: Wanted = Wanted()) -> Model:  # noqa: B008 - frozen
    """A run's folder, or one that was pulled; ``timm:NAME``, ``torchvision:NAME``, ``hf:NAME``, a file of weights,
    ``random:`` and a run.

    Naming a library's model asks for its weights. ``random:`` has the same network before it learnt anything.
    """
    at_least(1, size=wanted.size)
    if source.startswith(RANDOM):
        return _random(source.removeprefix(RANDOM), source, wanted)
    for prefix, read in {"timm:": _timm, "torchvision:": _torchvision, "hf:": _hub}.items():
        if source.startswith(prefix):
            if wanted.arch is not None:
                raise ValueError(f"{source} is an architecture already; --arch belongs to a file of weights.")
            network, size, statistics = read(source.removeprefix(prefix))
            return _model(source, network, 3, wanted.size or size, wanted.normalize or statistics)
    path = Path(source)
    if path.suffix in FILES and (wanted.arch is not None or not path.with_suffix(".json").exists()):
        return _file(path, wanted)
    if path.is_file() and path.name != ENCODER:
        raise ValueError(
            f"{source} is no encoder; a run's folder, {', '.join(f'{x}NAME' for x in LIBRARIES)} or weights."
        )
    return _run(path.parent if path.is_file() else path, wanted)


def _model(
    name: str, network: nn.Module, channels: int, size: int, normalize: Normalize, notes: list[str] | None = None
) -> Model:
    """With its recipe, after it was shown two images of its size."""
    adopted = network if hasattr(network, "width") else adopt(network, channels, size)
    shown = recipe("none", 1, size, normalize or None)
    if shown.mean and len(shown.mean) != channels:
        raise ValueError(f"{name} takes {channels} channels, but is normalized by {len(shown.mean)}; say --normalize.")
    return Model(name, adopted.eval(), channels, size, shown, tuple(notes or ()))


def _run(out: Path, wanted: Wanted) -> Model:
    """The encoder that a run left; its data is not needed."""
    if not (out / names.CONFIG).exists() and (card := runs.card_of(out)) is not None:
        return _shared(out, card, wanted)
    if not (out / names.CONFIG).exists():
        raise ValueError(f"{out} is no run: it has no {names.CONFIG}; see --help for other encoders.")
    config: Config = recorded(runs.read_config(out), out / names.CONFIG)
    if modality_of(config) is not ImageModality:
        raise ValueError(f"{out} learnt from {modality_of(config).noun}, and this is about images.")
    if (out / ENCODER).exists():
        network: nn.Module = runs.load_encoder(out)
        card = _card(out)
        channels, size = int(card["channels"]), int(card["size"])
        _refuse_odd(out, card, wanted)
    else:
        opened = runs.open_run(out)
        network = opened.network.encoder
        channels, size = (
            opened.images.shape[0] + opened.images.bits,
            opened.recipe.views[0].size or opened.images.shape[1],
        )
        _refuse_odd(out, oddities(opened.images, opened.recipe), wanted)
    model = _model(
        out.name, network, channels, _allowed(network, wanted.size or size), wanted.normalize or config.normalize
    )
    return replace(model, unfinished=runs.unfinished(out))


def _shared(out: Path, card: Settings, wanted: Wanted) -> Model:
    """An encoder of images that somebody pushed or exported, by its card."""
    if "model" in card:
        raise ValueError(f"{out} reads sentences, and this is about images.")
    network: nn.Module = runs.load_encoder(out)
    _refuse_odd(out, card, wanted)
    with refusing(f"{out} does not say which images it takes"):
        normalize = (card["normalize"]["mean"], card["normalize"]["std"]) if card["normalize"]["mean"] else None
        size = _allowed(network, wanted.size or int(card["size"]))
        return _model(out.name, network, int(card["channels"]), size, wanted.normalize or normalize)


def _card(out: Path) -> Settings:
    card: Settings = json.loads((out / ENCODER).with_suffix(".json").read_text())
    return card


def _refuse_odd(out: Path, card: Settings, wanted: Wanted) -> None:
    """Images are shown here as squares of three channels or one; what learnt from others is not asked."""
    if card.get("randbit"):
        raise ValueError(
            f"{out} learnt from images with {card['randbit']} RandBit planes, which no other images have: "
            f"isotherm evaluate {out}."
        )
    if card.get("shape") and wanted.size is None:
        tall, wide = card["shape"]
        raise ValueError(
            f"{out} learnt from images of {tall} × {wide} pixels, and would be shown squares here: say so with --size "
            "where there is one, or use isotherm.load_encoder."
        )


def _allowed(network: nn.Module, size: int) -> int:
    refuses: Callable[[int, int], str | None] | None = getattr(network, "refuses", None)
    why = None if refuses is None else refuses(size, size)
    if why:
        raise ValueError(
            f"{type(network).__name__} does not take images of {size} pixels: {why.lower()}. Leave --size out."
        )
    return size


def _random(name: str, source: str, wanted: Wanted) -> Model:
    """The same network with new weights, the same for the same seed."""
    out = Path(name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(wanted.seed)
        if name in NETWORKS or name.startswith(("timm:", "torchvision:")):
            size = wanted.size or (SMALL if name in NETWORKS else LARGE)
            return _model(source, encoder(name, 3, size), 3, size, wanted.normalize)
        trained = _run(out, wanted)  # refuses code that nobody allowed, also of the card
        if not (out / ENCODER).exists():
            raise ValueError(f"{out} has not ended; {RANDOM} takes a run that has, or one of: {', '.join(NETWORKS)}.")
        card = _card(out)
        network = encoder_of(Choice.of(card["encoder"]), card["channels"], card["size"])
    return replace(trained, name=f"{RANDOM}{trained.name}", encoder=network.eval(), unfinished="")


def _file(path: Path, wanted: Wanted) -> Model:
    """Weights from a file, in the network that --arch names."""
    if wanted.arch is None:
        raise ValueError(
            f"{path} holds weights, not their network: say it with --arch ({', '.join(NETWORKS)}, timm:NAME)."
        )
    size = wanted.size or (SMALL if wanted.arch in ("convnet", "small_alexnet", "vae") else LARGE)
    given = read_weights(path)
    first = next((t for t in given.values() if t.ndim == 4), None)
    channels = 3 if first is None else int(first.shape[1])
    network = encoder(wanted.arch, channels, size)
    notes = load_weights(network, given, str(path), wanted.arch)
    normalize = wanted.normalize
    if normalize is None and channels == 3:
        normalize = "imagenet"
        notes.append("images are normalized as ImageNet's: nothing else was said (--normalize)")
    return _model(path.name, network, channels, _allowed(network, size), normalize, notes)


def _timm(name: str) -> tuple[nn.Module, int, Normalize]:
    timm = installed("timm", name)
    try:
        network = from_timm(name, 3, {"pretrained": True})
        says = timm.data.resolve_model_data_config(network)
    except (RuntimeError, OSError) as error:
        raise ValueError(f"cannot get the weights of timm:{name} ({_first_line(error)}).") from error
    return network, int(says["input_size"][-1]), (says["mean"], says["std"])


def _torchvision(name: str) -> tuple[nn.Module, int, Normalize]:
    torchvision = installed("torchvision", name)
    try:
        network = from_torchvision(name, 3, {"weights": "DEFAULT"})
        says = torchvision.models.get_model_weights(name).DEFAULT.transforms()
    except (RuntimeError, OSError) as error:
        raise ValueError(f"cannot get the weights of torchvision:{name} ({_first_line(error)}).") from error
    return network, int(says.crop_size[0]), (says.mean, says.std)


def _hub(name: str) -> tuple[nn.Module, int, Normalize]:
    if not name:
        raise ValueError("'hf:' names no model; say hf:PATH or hf:NAME.")
    return from_hub(name)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:160]


def fitted(images: Images, model: Model) -> Images:
    """The images with the channels that the model wants."""
    return with_channels(images, model.channels, model.name)


def with_channels(images: Images, channels: int, name: str) -> Images:
    """The images with so many channels, as `name` wants them: grey ones thrice, coloured ones as grey."""
    have, bits = images.shape[0], images.bits
    if have + bits == channels:
        return images
    if bits == 0 and isinstance(images.pixels, Tensor) and have == 1 and channels == 3:
        return replace(images, pixels=images.pixels.expand(-1, 3, -1, -1), notes=(*images.notes, "grey, shown thrice"))
    if bits == 0 and have == 3 and channels == 1:
        return replace(images, pixels=_gray(images.pixels), file=None, notes=(*images.notes, "colours shown as grey"))
    raise ValueError(f"{name} takes {channels} channels; {images.name} has {have + bits}.")


def _gray(pixels: Tensor | Undecoded) -> Tensor:
    weights = torch.tensor(GRAY)[:, None, None]
    parts = (pixels[rows].float() for rows in torch.arange(len(pixels)).split(4096))
    return torch.cat([(part * weights).sum(1, keepdim=True).round().to(torch.uint8) for part in parts])
