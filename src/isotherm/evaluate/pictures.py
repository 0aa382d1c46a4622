"""The page of an evaluation on other data: where the encoder is right, where it is wrong, and the images to see it."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from isotherm import __version__
from isotherm.data.images import Images
from isotherm.evaluate.assessment import Options
from isotherm.evaluate.transfer import OnSet, TransferAssessment
from isotherm.pairing import unit
from isotherm.probes.knn import knn_votes, nearest
from isotherm.probes.scores import wilson
from isotherm.report import HeatMap, Page, Thumbnail

EDGE = 96
"""Of a picture, in pixels, at least."""
QUERIES, NEIGHBOURS, MISTAKES = 8, 7, 24
MATRIX = 20
"""Classes of a confusion matrix, at most: those that are confused most."""
VOTERS = 20


def transfer_page(assessment: TransferAssessment, options: Options) -> Page:
    """The scores, then for every set its confusions, its classes, neighbours and mistakes."""
    model = assessment.model
    names = ", ".join(on.target.name for on in assessment.sets)
    lead = f"What {model.name} knows about {names}, shown as {model.size}×{model.size} images."
    page = Page(
        f"{model.name} on other data",
        lead,
        kicker="Isotherm evaluate",
        footer=f"isotherm {__version__}. Random choices use seed {options.seed}.",
    )
    page.section("Probes")
    for table in assessment.tables():
        page.table(table.heads, table.rows)
    page.text("\n\n".join(assessment.lines()))
    for on in assessment.sets:
        if not on.target.several:
            _add_set(page, on)
    if options.command:
        page.section("Again")
        page.code(options.command)
    return page


def _add_set(page: Page, on: OnSet) -> None:
    test, name = on.target.test, on.target.name
    logits, by = _judged(on)
    if logits is None:
        return
    names = _names(test, on.target.train)
    asked = len(torch.unique(test.labels))
    page.section(name, f"As the {by} probe answers: {len(test):,} test images in {asked:,} classes.")
    predicted = logits.argmax(1)
    page.figure(_confusion(test, predicted, names))
    _add_classes(page, test, predicted, names)
    _add_mistakes(page, test, logits, names)
    if on.features is not None:
        _add_neighbours(page, on, names)


def _judged(on: OnSet) -> tuple[Tensor | None, str]:
    """Logits of a probe, or the votes of neighbours where no probe has any."""
    if on.logits is not None or on.features is None:
        return on.logits, on.by
    train, test = on.features
    k = min(VOTERS, len(train))
    classes = max(int(on.target.train.labels.max()), int(on.target.test.labels.max())) + 1
    votes = knn_votes(train, on.target.train.labels, test, k, classes)
    return (votes / votes.sum(1, keepdim=True)).clamp_min(1e-12).log(), f"{k} nearest neighbours"


def _names(*parts: Images) -> list[str]:
    """Of every class that a part of the set has: what is asked may be taken for one that only training had."""
    named = max((part.classes for part in parts), key=len)
    largest = max(int(part.labels.max()) for part in parts)
    return [*named, *(str(c) for c in range(len(named), largest + 1))]


def _confusion(test: Images, predicted: Tensor, names: Sequence[str]) -> HeatMap:
    """What a class is taken for, in percent of its images; of many classes those that are confused most."""
    classes = len(names)
    counts = torch.zeros(classes, classes)
    counts.index_put_((test.labels, predicted), torch.ones(len(predicted)), accumulate=True)
    wrong = counts.sum(1) - counts.diagonal() + counts.sum(0) - counts.diagonal()
    shown = torch.argsort(wrong, descending=True, stable=True)[:MATRIX].sort().values
    share = 100 * counts[shown][:, shown] / counts[shown].sum(1, keepdim=True).clamp_min(1)
    labels = [names[int(c)] for c in shown]
    kept = "" if classes <= MATRIX else f" The {MATRIX} classes of {classes:,} that are confused most."
    return HeatMap(
        "Confusion matrix",
        labels,
        labels,
        share.double().numpy().round(1),
        x="taken for",
        y="is",
        note=f"Percent of the images of a row's class.{kept}",
    )


def _add_classes(page: Page, test: Images, predicted: Tensor, names: Sequence[str]) -> None:
    rows = []
    for c, name in enumerate(names):
        of = predicted[test.labels == c]
        if not len(of):
            continue
        hits = int((of == c).sum())
        low, high = wilson(hits, len(of))
        wrong = of[of != c]
        often = int(torch.bincount(wrong).argmax()) if len(wrong) else None
        taken = "" if often is None else f"{names[often]} ({int((wrong == often).sum())})"
        rows.append((hits / len(of), name, len(of), f"{100 * low:.1f} to {100 * high:.1f}", taken))
    rows.sort(key=lambda row: row[0])
    columns = ["class", "accuracy, %", "95 % interval", "images", "most often taken for"]
    cells = [[name, round(100 * share, 2), interval, n, taken] for share, name, n, interval, taken in rows]
    caption = f"Accuracy of {len(rows):,} classes, the lowest first"
    if len(rows) <= MATRIX:
        page.table(columns, cells, caption)
        return
    with page.fold(caption):
        page.table(columns, cells)


def _add_mistakes(page: Page, test: Images, logits: Tensor, names: Sequence[str]) -> None:
    p = logits.double().softmax(1)
    sure, predicted = p.max(1)
    wrong = torch.nonzero(predicted != test.labels)[:, 0]
    if not len(wrong):
        page.text("It makes no mistake.")
        return
    first = wrong[torch.argsort(sure[wrong], descending=True, stable=True)][:MISTAKES]
    page.text(
        f"The {len(first)} mistakes it is most confident of, of {len(wrong):,}: what it says, how sure, what it is."
    )
    pixels = test.at(first)
    page.gallery(
        [
            Thumbnail(
                png(x),
                f"{names[int(predicted[i])]} {100 * float(sure[i]):.0f} %, is {names[int(test.labels[i])]}",
                "bad",
            )
            for i, x in zip(first.tolist(), pixels, strict=True)
        ]
    )


def _add_neighbours(page: Page, on: OnSet, names: Sequence[str]) -> None:
    """Some test images, evenly from all, and the training images next to each."""
    assert on.features is not None
    train, test = on.target.train, on.target.test
    asked = torch.linspace(0, len(test) - 1, min(QUERIES, len(test))).long()
    k = min(NEIGHBOURS, len(train))
    bank = unit(on.features[0], "train").float()
    queries = unit(on.features[1][asked], "test").float()
    near = torch.cat([indices for _, _, indices in nearest(queries, bank, k)])
    page.text("Test images and the training images that are nearest to them, by the cosine of their features.")
    for row, query in zip(near, asked.tolist(), strict=True):
        label = int(test.labels[query])
        pictures = [Thumbnail(png(test.at(torch.tensor([query]))[0]), f"asked: {names[label]}")]
        for i, x in zip(row.tolist(), train.at(row), strict=True):
            same = int(train.labels[i]) == label
            pictures.append(Thumbnail(png(x), names[int(train.labels[i])], "good" if same else "bad"))
        page.gallery(pictures)


def png(pixels: Tensor) -> bytes:
    """An image (C, H, W) of bytes as PNG, a whole number of times larger: pixels stay pixels."""
    x = pixels[:3] if pixels.shape[0] >= 3 else pixels[:1].expand(3, -1, -1)
    times = max(1, -(-EDGE // x.shape[1]))
    array = np.ascontiguousarray(x.permute(1, 2, 0).numpy()).repeat(times, 0).repeat(times, 1)
    out = io.BytesIO()
    Image.fromarray(array).save(out, format="PNG", optimize=True)
    return out.getvalue()
