"""Two modalities in one space: how far apart they lie, whether pairs find each other, and which temperature suits them.

Row i of the texts belongs to row i of the images; of K·N texts, K in a row belong to one image.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from isotherm.files import Json
from isotherm.inspect.findings import gravest_first, verdict_of
from isotherm.inspect.formats import arrays
from isotherm.inspect.health import even_uniformity
from isotherm.inspect.pair_advice import PairAdvice, advise_pairs
from isotherm.inspect.reading import Embedding, Reading, read
from isotherm.measures.catalogue import in_groups, measures
from isotherm.measures.embedding import CROWDED, NEARLY_COLLAPSED
from isotherm.measures.measure import take
from isotherm.measures.pairs import PairSubject
from isotherm.report import Finding, Page, number

APART, CLOSE = 0.5, 0.2
"""Modality gaps above which the modalities lie in two cones, and below which they share a place."""
BETTER_THAN_CHANCE = 3.0
"""R@10 over what a random order gives, below which pairs do not find each other."""
ALL = 1 << 62
GROUPS = ("retrieval", "two modalities")


@dataclass(frozen=True, eq=False)
class PairHealth:
    """What two modalities in one space are like."""

    name: str
    images: int
    texts: int
    d: int
    values: dict[str, float]
    """The measures by name; `uniformity` is that of the images."""
    limit: float
    """The uniformity of points spread evenly over the sphere of this dimension."""
    findings: tuple[Finding, ...]
    advice: PairAdvice

    def rows(self) -> list[tuple[str, str, str]]:
        """Title, value and meaning of every measure."""
        known = measures()
        return [(known[n].title, _text(n, v), known[n].meaning) for n, v in self.values.items()]

    def as_dict(self) -> Json:
        """Every number and sentence, for JSON."""
        return {
            "name": self.name,
            "images": self.images,
            "texts": self.texts,
            "dimensions": self.d,
            "values": self.values,
            "findings": [{key: getattr(f, key) for key in ("level", "text", "why", "remark")} for f in self.findings],
            "advice": self.advice.as_dict(),
        }


def examine_pairs(
    images: Tensor, texts: Tensor, owner: Tensor, name: str = "pairs", seed: int = 0, notes: tuple[Finding, ...] = ()
) -> PairHealth:
    """Examine embeddings of images (N, D) and of texts (C, D); `owner` (C,) is the index of each text's image."""
    if images.shape[1] != texts.shape[1]:
        raise ValueError(f"images are {images.shape[1]} wide, texts {texts.shape[1]}: one space has one width.")
    subject = PairSubject(images, texts, owner, seed)
    taken = [measures()["uniformity"], *in_groups(GROUPS)]
    values: dict[str, float] = take(taken, subject)
    limit = even_uniformity(images.shape[1])
    advice = advise_pairs(images, texts, owner, values["modality_gap"], seed)
    findings = gravest_first([*notes, *_findings(values, limit, len(images), len(texts))])
    return PairHealth(name, len(images), len(texts), images.shape[1], values, limit, findings, advice)


def inspect_pairs(path: Path | str, pairs: str, reading: Reading) -> PairHealth:
    """Read embeddings of images from a file, and of texts from another (or FILE:KEY, or a key of the first)."""
    images = read(path, None, None, reading.key, reading.sample, reading.seed, reading.drop)
    texts = _texts(Path(path), pairs, reading)
    if texts.total % images.total:
        raise ValueError(
            f"{texts.name} has {texts.total:,} rows for the {images.total:,} of {images.name}: as many, or so many "
            "times as many (K texts in a row for each image), are wanted."
        )
    each = texts.total // images.total
    place = torch.full((images.total,), -1)
    place[images.rows] = torch.arange(len(images.rows))
    owner = place[texts.rows // each]
    used = torch.zeros(len(images.z), dtype=torch.bool)
    used[owner[owner >= 0]] = True
    owner = torch.where(owner >= 0, (used.cumsum(0) - 1)[owner.clamp_min(0)], owner)
    z, y, owner = images.z[used], texts.z[owner >= 0], owner[owner >= 0]
    if len(z) < 2:
        raise ValueError(f"{path} and {pairs} have {len(z)} pairs that can be used; at least 2 are needed.")
    name = f"{images.name} and {texts.name}"
    notes = [*images.notes, *texts.notes]
    if len(images.rows) < images.total and reading.sample is not None:
        text = f"A sample: recall and ranks are among {len(z):,} of {images.total:,} images, easier than among all."
        notes.append(Finding("look", text, "--sample", remark=True))
    return examine_pairs(z, y, owner, name, reading.seed, tuple(notes))


def _texts(path: Path, pairs: str, reading: Reading) -> Embedding:
    if pairs in arrays(path):
        return read(path, key=pairs, sample=ALL, drop=reading.drop)
    file, colon, key = pairs.rpartition(":")
    if Path(pairs).exists() or not colon:
        file, key = pairs, ""
    if not Path(file).exists():
        raise ValueError(f"pairs '{pairs}': there is no such file, and no such array in {path}.")
    return read(file, key=key or None, sample=ALL, drop=reading.drop)


def _findings(values: dict[str, float], limit: float, images: int, texts: int) -> Iterator[Finding]:
    gap = values["modality_gap"]
    said = f"modality gap {number(gap)}; two cones above {APART}, one place below {CLOSE}"
    if gap > APART:
        yield Finding(
            "look",
            f"Images and texts lie in two cones: their centres are {number(gap)} apart. Retrieval across is unharmed, "
            "since all candidates are shifted alike; searching images and texts together is not: images come before "
            "captions for an image, and the other way round. Subtracting each modality's mean closes most of it.",
            said,
        )
    else:
        share = "share a place on the sphere" if gap < CLOSE else "lie somewhat apart"
        yield Finding("good" if gap < CLOSE else "look", f"Images and texts {share}.", said)
    for what, name in (("images", "uniformity"), ("texts", "text_uniformity")):
        part = values[name] / limit
        if part < NEARLY_COLLAPSED:
            yield Finding(
                "bad",
                f"The {what} are nearly one point: their tower or its head has collapsed.",
                _of(values[name], limit),
            )
        elif part < CROWDED:
            yield Finding("look", f"The {what} use a small part of the sphere.", _of(values[name], limit))
        else:
            yield Finding("good", f"The {what} are spread well over the sphere.", _of(values[name], limit))
    joint, apart = values["joint_uniformity"], min(values["uniformity"], values["text_uniformity"])
    if joint < apart - 0.1:
        yield Finding(
            "look",
            "Together they are spread more evenly than either alone: each modality keeps to a part of its own.",
            f"uniformity of both {number(joint)}, of the better spread one alone {number(apart)}",
        )
    yield from _retrieved(values, images, texts)


def _retrieved(values: dict[str, float], images: int, texts: int) -> Iterator[Finding]:
    found, back = values["image_to_text_r10"], values["text_to_image_r10"]
    each = texts / images
    chance = min(1.0, 10 * each / texts)
    rate = f"R@10 {found:.1%} and {back:.1%}, by chance about {chance:.1%}"
    if images <= 20:
        yield Finding("look", f"{images} images are too few to say whether pairs find each other.", rate)
    elif min(found, back) < BETTER_THAN_CHANCE * chance:
        yield Finding(
            "bad",
            "Pairs do not find each other: the order is hardly better than a random one. Are images and texts in the "
            "same order?",
            f"{rate}; below {BETTER_THAN_CHANCE:g} times chance",
        )
    else:
        yield Finding(
            "good",
            f"Of {images:,} images {found:.1%} find a caption of theirs among the first ten, of {texts:,} texts "
            f"{back:.1%} their image.",
            rate,
        )


def _of(value: float, limit: float) -> str:
    return f"uniformity {number(value)} of {number(limit, 3)} at best"


def _text(name: str, value: float) -> str:
    return f"{100 * value:.1f} %" if measures()[name].unit == "%" else number(value)


def page_of_pairs(health: PairHealth, command: str = "") -> Page:
    """The page: what was found, the measures, the advice."""
    lead = f"{health.images:,} images, {health.texts:,} texts, {health.d:,} dimensions: how do they lie?"
    page = Page(f"Pairs {health.name}", lead, kicker="Isotherm inspect", verdict=verdict_of(health.findings))
    page.findings(health.findings)
    page.section("Measures")
    page.table(("measure", "value", "what it means"), health.rows())
    page.section("Temperature")
    page.text(health.advice.reasoning)
    if command:
        page.section("Again")
        page.code(command)
    return page
