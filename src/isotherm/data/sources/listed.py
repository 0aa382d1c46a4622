"""Medical sets as they are published: images in folders, their labels in a list beside them (DySTreSS, Table 11)."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import numpy as np

from isotherm.data.images import Images
from isotherm.data.sources import folder as folders
from isotherm.data.sources.reading import count, damaged, in_range, make_images, one_split, stable_id

Layout = Literal["mura", "isic2016", "mhist", "chaoyang"]
Rows = Iterator[tuple[str, int]]
"""Files below the folder, and their labels; −1 where nobody knows."""
CLASSES: Mapping[str, tuple[str, ...]] = {
    "mura": ("normal", "abnormal"),
    "isic2016": ("benign", "malignant"),
    "mhist": ("HP", "SSA"),
    "chaoyang": ("normal", "serrated", "adenocarcinoma", "adenoma"),
}
"""In the order of DySTreSS's class weights; of two the second is the positive one."""


def read(
    folder: Path,
    split: str = "train",
    layout: Layout = "mhist",
    size: int = 224,
    bad: Literal["skip", "error"] = "skip",
    cache: Path | str | None = None,
) -> Images:
    """One split, the middle square of each image, size×size, RGB; decoded once, then memory-mapped.

    A listed file that is not there or is no image is skipped and counted, or an error (`bad`).
    """
    one_split(layout, split, ("train", "test"))
    folder = next((p for p in (folder / NESTED.get(layout, "."), folder) if p.is_dir()), folder)
    rows = list(LISTS[layout](folder, split))
    there = [(file, label) for file, label in rows if (folder / file).is_file()]
    missing = len(rows) - len(there)
    if not there:
        raise FileNotFoundError(f"{folder} lists {len(rows):,} images of '{split}' and holds none of them")
    if missing and bad == "error":
        absent = next(file for file, _ in rows if not (folder / file).is_file())
        raise FileNotFoundError(f"{folder / absent} is listed and not there ({count(missing, 'such file')})")
    kept, tally, pixels, file = folders.decoded(folder, [name for name, _ in there], size, cache)
    if tally.failed and bad == "error":
        raise damaged(folder / there[tally.failed[0][0]][0], tally.failed[0][1])
    of = dict(there)
    labels = in_range(np.array([of[name] for name in kept]), len(CLASSES[layout]), folder, unknown=True)
    notes = tally.notes("RGB")
    if skipped := missing + len(tally.failed):
        notes.append(f"{count(skipped, 'listed file')} skipped: not there, or no image")
    ids = np.array([stable_id(name) for name in kept], dtype=np.int64)
    return make_images(layout, pixels, labels, ids, CLASSES[layout], notes=notes, file=file)


def _mura(folder: Path, split: str) -> Rows:
    """MURA v1.1: {train,valid}_image_paths.csv, a path a line; the study's folder ends in _positive or _negative."""
    listed = folder / f"{'train' if split == 'train' else 'valid'}_image_paths.csv"
    for (path,) in _lines(listed, 1):
        study = path.split("/")[-2] if path.count("/") > 1 else ""
        ending = study.rpartition("_")[2]
        if ending not in ("positive", "negative"):
            raise damaged(listed, f"the folder of {path} must end in _positive or _negative")
        yield path.removeprefix("MURA-v1.1/"), int(ending == "positive")


def _isic2016(folder: Path, split: str) -> Rows:
    """ISIC 2016, part 3: an image's name and benign or malignant (train), or 0.0 or 1.0 (test)."""
    part = "Training" if split == "train" else "Test"
    listed = folder / f"ISBI2016_ISIC_Part3_{part}_GroundTruth.csv"
    meaning = {"benign": 0, "malignant": 1, "0.0": 0, "1.0": 1, "0": 0, "1": 1}
    for name, said in _lines(listed, 2):
        if said not in meaning:
            raise damaged(listed, f"{name} is '{said}', wanted is benign or malignant, 0.0 or 1.0")
        yield f"ISBI2016_ISIC_Part3_{part}_Data/{name}.jpg", meaning[said]


def _mhist(folder: Path, split: str) -> Rows:
    """MHIST: annotations.csv with Image Name, Majority Vote Label, …, Partition; the images in images/."""
    listed = folder / "annotations.csv"
    head, *rows = list(_lines(listed, 4))
    columns = {name: head.index(name) for name in ("Image Name", "Majority Vote Label", "Partition") if name in head}
    if len(columns) < 3:
        raise damaged(listed, "it needs the columns Image Name, Majority Vote Label and Partition")
    for row in rows:
        if row[columns["Partition"]] == split:
            label = row[columns["Majority Vote Label"]]
            if label not in CLASSES["mhist"]:
                raise damaged(listed, f"{row[0]} is '{label}', wanted is HP or SSA")
            yield f"images/{row[columns['Image Name']]}", CLASSES["mhist"].index(label)


def _chaoyang(folder: Path, split: str) -> Rows:
    """Chaoyang: {train,test}.json, a list of {"name": "train/….JPG", "label": 0 … 3}."""
    listed = folder / f"{split}.json"
    if not listed.is_file():
        raise FileNotFoundError(f"{folder} holds no {listed.name}")
    try:
        for row in json.loads(listed.read_text(encoding="utf-8")):
            yield str(row["name"]), int(row["label"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise damaged(listed, 'a list of {"name": …, "label": …} is wanted') from error


def _lines(listed: Path, columns: int) -> Iterator[list[str]]:
    if not listed.is_file():
        raise FileNotFoundError(f"{listed.parent} holds no {listed.name}")
    with listed.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        for row in csv.reader(file):
            cells = [cell.strip() for cell in row]
            if not any(cells):
                continue
            if len(cells) < columns:
                raise damaged(listed, f"a line has {len(cells)} columns, {columns} are wanted: {','.join(cells)[:60]}")
            yield cells


LISTS: Mapping[str, Callable[[Path, str], Rows]] = {
    "mura": _mura,
    "isic2016": _isic2016,
    "mhist": _mhist,
    "chaoyang": _chaoyang,
}
NESTED = {"mura": "MURA-v1.1", "chaoyang": "chaoyang"}
"""The folder that the archive unpacks to, where it has one."""
