"""`isotherm encode`: embeddings of image files and lines of text by a run, or by anybody's encoder of images."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from isotherm import files
from isotherm.checks import did_you_mean
from isotherm.data.captioned import said
from isotherm.data.sets import SETS
from isotherm.data.sources.decode import fill, pool
from isotherm.encoders.features import features
from isotherm.encoders.text import TextEncoder
from isotherm.encoders.towers import digest_of
from isotherm.evaluate.embed import EmbeddedSet
from isotherm.evaluate.models import open_model
from isotherm.train import names, runs
from isotherm.train.commandline import recorded
from isotherm.train.modality import ImageTextModality, SentenceModality, modality_of
from isotherm.train.modality.modality import Modality
from isotherm.train.shared import shared_card

AT_ONCE = 256
"""Images that are decoded together."""
TEXT = (".txt",)
SHOWN = 1000
"""Characters of a line that are kept beside its embedding: all lines take the room of the longest."""
MADE_BY = "images_made_by"
"""In embeddings.npz: the digest of the model."""


@dataclass(frozen=True)
class Embedder:
    """What makes embeddings: of images, of texts, or of both in one space."""

    name: str
    images: Callable[[Tensor], Tensor] | None
    """Of pixels, uint8 (N, channels, size, size)."""
    texts: Callable[[Sequence[str]], Tensor] | None
    channels: int = 3
    size: int = 0
    digest: str = ""
    """Of its weights: what tells embeddings by it from those by another."""


@dataclass(frozen=True)
class Encoded:
    """Embeddings by what they are of, in the order of the files."""

    images: Tensor | None
    files: tuple[Path, ...]
    texts: Tensor | None
    lines: tuple[str, ...]
    notes: tuple[str, ...] = ()
    digest: str = ""
    """Of the model that made them."""

    def arrays(self) -> dict[str, np.ndarray]:
        """What embeddings.npz holds."""
        parts: dict[str, np.ndarray] = {}
        if self.images is not None:
            parts |= {"images": self.images.numpy(), "image_files": np.array([str(path) for path in self.files])}
            parts[MADE_BY] = np.array([self.digest])
        if self.texts is not None:
            parts |= {"texts": self.texts.numpy(), "text_lines": np.array([line[:SHOWN] for line in self.lines])}
        return parts


OURS = ({"embeddings.npy", "ids.npy"}, {"images.npy", f"{MADE_BY}.npy"}, {"texts.npy", "text_lines.npy"})
"""What is in the files that `write` writes."""


def open_embedder(source: str) -> Embedder:
    """A run on images, sentences or pairs, whose data need not be there, a folder that was pulled, or an encoder that
    `evaluate --on` takes.

    Towers give embeddings in their common space, an encoder of one modality its features, as it is exported.
    """
    path = Path(source)
    if modality_at(path) is ImageTextModality:
        towers = runs.open_towers(path)
        digest = digest_of(towers.network).hex()
        return Embedder(path.name, towers.embed_pixels, towers.embed_texts, 3, towers.size, digest)
    if (encoder := text_encoder_of(path)) is not None:
        return Embedder(path.name, None, encoder.encode)
    model = open_model(source)
    if model.channels not in (1, 3):
        raise ValueError(f"{source} takes {model.channels} channels, which no file of an image has.")

    def embed(pixels: Tensor) -> Tensor:
        return features(model.encoder, model.recipe.plain(pixels, model.size), model.layer).float().cpu()

    return Embedder(model.name, embed, None, model.channels, model.size, digest_of(model.encoder).hex())


def modality_at(path: Path) -> type[Modality] | None:
    """What a run learnt from; None of what is no run."""
    is_run = (path / names.CONFIG).exists()
    return modality_of(recorded(runs.read_config(path), path / names.CONFIG)) if is_run else None


def text_encoder_of(path: Path) -> TextEncoder | None:
    """The encoder of a run on sentences, or of one that was pulled; None of everything else."""
    modality = modality_at(path)
    if modality is not SentenceModality and not (modality is None and "model" in (shared_card(path) or {})):
        return None
    encoder = runs.load_encoder(path)
    assert isinstance(encoder, TextEncoder)
    return encoder


def encode(source: str, paths: Sequence[Path], note: Callable[[str, str], None] = lambda stage, what: None) -> Encoded:
    """Embeddings of images (files, and folders of them) and of the lines of text files."""
    images, texts, notes = _gather(paths)
    embedder = open_embedder(source)
    if images and embedder.images is None:
        raise ValueError(f"{source} learnt from sentences and embeds no images; {images[0]} is one.")
    if texts and embedder.texts is None:
        raise ValueError(f"{source} learnt from images alone and embeds no text; leave the text files out.")
    note("embedding", f"{len(images):,} images, {len(texts):,} texts")
    z, whole, broken = embed_files(embedder, images) if images else (None, (), [])
    by_text = None if not texts else _texts(embedder, texts)
    if long := sum(len(line) > SHOWN for line in texts):
        notes.append(f"text_lines has the first {SHOWN:,} characters of {long:,} longer lines")
    if broken:
        notes.append(said(f"{len(broken)} of {len(images)} images left out", broken))
    return Encoded(z, whole, by_text, tuple(texts), tuple(notes), embedder.digest)


def _texts(embedder: Embedder, texts: Sequence[str]) -> Tensor:
    assert embedder.texts is not None
    with torch.no_grad():
        return embedder.texts(list(texts)).float().cpu()


@torch.no_grad()
def embed_files(embedder: Embedder, paths: Sequence[Path]) -> tuple[Tensor, tuple[Path, ...], list[str]]:
    """Embeddings of the images that can be decoded, which those are, and what is wrong with the others."""
    assert embedder.images is not None
    parts, whole, broken = [], [], []
    with pool() as threads:
        for start in range(0, len(paths), AT_ONCE):
            some = list(paths[start : start + AT_ONCE])
            pixels = np.zeros((len(some), embedder.channels, embedder.size, embedder.size), np.uint8)
            failed = dict(fill(pixels, 0, some, True, threads).failed)
            rows = [row for row in range(len(some)) if row not in failed]
            broken += [f"{some[row]} {why}" for row, why in sorted(failed.items())]
            whole += [some[row] for row in rows]
            if rows:
                parts.append(embedder.images(torch.from_numpy(pixels[rows])))
    if not parts:
        raise ValueError(f"no image can be decoded; {broken[0]}.")
    return torch.cat(parts), tuple(whole), broken


def _gather(paths: Sequence[Path]) -> tuple[list[Path], list[str], list[str]]:
    """Files of images, lines of text, and what of them was left out."""
    images: list[Path] = []
    texts: list[str] = []
    notes = []
    for path in paths:
        if path.suffix.lower() in TEXT and path.is_file():
            try:
                lines = files.lines(path)
            except UnicodeDecodeError as error:
                raise ValueError(f"{path} is not UTF-8: {error.reason} at byte {error.start}.") from error
            kept = [line.strip() for line in lines if line.strip()]
            if len(kept) < len(lines):
                notes.append(f"{path}: {len(lines) - len(kept)} empty lines left out")
            texts += kept
        else:
            images += image_files(path)
    if not images and not texts:
        raise ValueError(f"no images and no lines of text in {', '.join(map(str, paths))}.")
    return images, texts, notes


def image_files(path: Path) -> list[Path]:
    """An image, or the images in a folder and below it, in order."""
    if path.is_dir():
        found = sorted(p for p in path.rglob("*") if p.is_file() and p.suffix.lower() in image_suffixes())
        if not found:
            raise ValueError(f"{path} holds no images.")
        return found
    if not path.exists():
        raise ValueError(f"there is no file or folder {path}, and no set{did_you_mean(str(path), SETS, listed=())}")
    if path.suffix.lower() not in image_suffixes():
        raise ValueError(f"{path} is neither an image nor a .txt file with a text per line.")
    return [path]


@cache
def image_suffixes() -> frozenset[str]:
    """Endings that Pillow reads as images."""
    known = Image.registered_extensions()
    return frozenset(ending for ending, kind in known.items() if kind in Image.OPEN and kind not in ("PDF", "EPS"))


def write(path: Path, encoded: Encoded | EmbeddedSet) -> None:
    """embeddings.npz, whole or not at all."""
    arrays: dict[str, Any] = encoded.arrays()
    files.write_whole(path, lambda file: np.savez(file, **arrays))


def is_embeddings(path: Path) -> bool:
    """Whether there is nothing to lose: no file, or one that `write` wrote."""
    if not path.is_file():
        return True
    try:
        with zipfile.ZipFile(path) as file:
            names = set(file.namelist())
    except (zipfile.BadZipFile, OSError):
        return False
    return any(own <= names for own in OURS)
