"""`isotherm search`: the images nearest to a sentence, or to another image, and a page that shows them."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from isotherm import __version__
from isotherm.data.captioned import said
from isotherm.data.declared import npz_arrays
from isotherm.data.decoding.one_image import in_mode, open_image
from isotherm.evaluate.encode import MADE_BY, Embedder, embed_files, image_files, image_suffixes, open_embedder
from isotherm.pairing import unit
from isotherm.report import Page, Thumbnail
from isotherm.report.page import number

EDGE = 240
"""Of a picture on the page, in pixels, at most."""
NPZ = ".npz"


@dataclass(frozen=True)
class Answer:
    """What was asked for, and the images nearest to it, the first the nearest."""

    query: str
    images: tuple[Path, ...]
    similarities: tuple[float, ...]


@dataclass(frozen=True)
class Search:
    """The answers to several queries among the same images."""

    name: str
    among: int
    answers: tuple[Answer, ...]
    notes: tuple[str, ...] = ()


def search(
    source: str,
    queries: Sequence[str],
    images: Path,
    top: int = 12,
    note: Callable[[str, str], None] = lambda stage, what: None,
) -> Search:
    """The `top` images of a folder, or of what `isotherm encode` wrote, by cosine similarity to each query.

    A query that is the path of an image is that image.
    """
    stored = _stored(images) if images.suffix == NPZ else None
    paths = image_files(images) if stored is None else ()
    embedder = open_embedder(source)
    if embedder.images is None:
        raise ValueError(f"{source} learnt from sentences and embeds no images.")
    asked = _embed(embedder, source, queries)
    if stored is None:
        note("embedding", f"{len(paths):,} images")
        z, whole, broken = embed_files(embedder, paths)
    else:
        (z, whole, maker), broken = stored, []
        if maker != embedder.digest:
            raise ValueError(f"{images} was made by another model than {source}; embed the images with this one.")
    s = unit(asked.double(), "queries") @ unit(z.double(), "images").T
    values, order = s.sort(dim=1, descending=True, stable=True)
    answers = [
        Answer(query, tuple(whole[i] for i in order[row, :top].tolist()), tuple(values[row, :top].tolist()))
        for row, query in enumerate(queries)
    ]
    notes = [said(f"{len(broken)} of {len(paths)} images left out", broken)] if broken else []
    return Search(embedder.name, len(whole), tuple(answers), tuple(notes))


def _embed(embedder: Embedder, source: str, queries: Sequence[str]) -> Tensor:
    """An embedding of each query, in order."""
    rows = []
    for query in queries:
        path = Path(query)
        if path.suffix.lower() in image_suffixes() and path.is_file():
            z, _, _ = embed_files(embedder, [path])
        elif path.suffix.lower() in image_suffixes():
            raise ValueError(f"there is no image {query}.")
        elif embedder.texts is None:
            raise ValueError(f"{source} learnt from images alone: ask with the path of an image, not '{query}'.")
        elif not query.strip():
            raise ValueError("the query is empty; say what to look for.")
        else:
            with torch.no_grad():
                z = embedder.texts([query])
        rows.append(z)
    return torch.cat(rows)


def _stored(path: Path) -> tuple[Tensor, tuple[Path, ...], str]:
    """Embeddings, what they are of, and the digest of the model that made them."""
    try:
        npz_arrays(path)
        with np.load(path, allow_pickle=False) as arrays:
            z, names, maker = arrays["images"], arrays["image_files"], str(arrays[MADE_BY].tolist()[0])
    except Exception as error:  # a broken archive makes numpy and zipfile raise nearly anything
        raise ValueError(f"{path} is not what `isotherm encode` writes of images: {error}.") from error
    if z.ndim != 2 or z.dtype != np.float32 or names.shape != z.shape[:1] or not len(z):
        raise ValueError(f"{path} is damaged: {z.shape} embeddings and {names.shape} names.")
    return torch.from_numpy(z), tuple(map(Path, names.tolist())), maker


def search_page(result: Search, command: str = "") -> Page:
    """A gallery for each query, images inside it: nothing else is needed to see it."""
    title = f"“{result.answers[0].query}”" if len(result.answers) == 1 else f"{len(result.answers)} queries"
    page = Page(
        title,
        f"The nearest of {result.among:,} images by {result.name}, with their cosine similarities.",
        kicker="Isotherm search",
        footer=f"isotherm {__version__}.",
    )
    for answer in result.answers:
        if len(result.answers) > 1:
            page.section(f"“{answer.query}”")
        shown = zip(answer.images, answer.similarities, strict=True)
        page.gallery([Thumbnail(_png(path), f"{number(value, 3)} · {path.name}") for path, value in shown], photos=True)
    for each in result.notes:
        page.text(each)
    if command:
        page.section("Again")
        page.code(command)
    return page


def _png(path: Path) -> bytes:
    """A small picture of an image's whole; grey where its file is gone since it was embedded."""
    try:
        with open_image(path) as image:
            image.draft("RGB", (2 * EDGE, 2 * EDGE))
            small = in_mode(image, "RGB").copy()  # its pixels are read here, while the file is open
            small.thumbnail((EDGE, EDGE))
    except Exception:  # Pillow's readers raise nearly anything on a broken image
        small = Image.new("RGB", (EDGE, EDGE), (128, 128, 128))
    out = io.BytesIO()
    small.save(out, "PNG", optimize=True)
    return out.getvalue()
