"""A few drawn images with captions, in every layout that is read, and small runs on them."""

import csv
import io
import json
import tarfile

import numpy as np
import pytest
from PIL import Image

pa = pytest.importorskip("pyarrow", reason="the extra 'parquet' is not installed")
pq = pytest.importorskip("pyarrow.parquet", reason="the extra 'parquet' is not installed")

COLOURS = {"red": (220, 30, 30), "green": (30, 200, 40), "blue": (40, 60, 220), "yellow": (230, 220, 40)}
SHAPES = ("top", "bottom", "left", "right")
QUICK = {
    "method": "clip",
    "encoder.widths": [8, 16],
    "text_encoder.width": 16,
    "text_encoder.layers": 1,
    "text_encoder.heads": 2,
    "text_encoder.vocabulary": 300,
    "head.width": 8,
    "size": 16,
    "batch": 8,
    "epochs": 2,
    "monitor": 0,
}


def picture(colour, shape, seed=0):
    """A bar of a colour at one side, on noise."""
    chance = np.random.default_rng(seed)
    pixels = chance.integers(90, 160, (20, 24, 3), dtype=np.uint8)
    where = {"top": np.s_[:8], "bottom": np.s_[-8:], "left": np.s_[:, :8], "right": np.s_[:, -8:]}[shape]
    pixels[where] = COLOURS[colour]
    return Image.fromarray(pixels)


def encoded(image, form="PNG", **options):
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def rows(repeats=2):
    """(name, encoded image, captions)."""
    kinds = [(c, s) for c in COLOURS for s in SHAPES] * repeats
    for i, (colour, shape) in enumerate(kinds):
        captions = [f"a {colour} bar at the {shape}", f"{shape}: {colour} paint", f"number {i} is {colour}"]
        yield f"{i:03d}", encoded(picture(colour, shape, i)), captions


def as_parquet(path, items, labelled=False):
    """The hub's layout; labelled: the number of each colour in place of captions."""
    images = [{"bytes": image, "path": None} for _, image, _ in items]
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    columns = {
        "image": pa.array(images, kind),
        "captions": pa.array([captions for *_, captions in items], pa.list_(pa.string())),
    }
    if labelled:
        columns["label"] = pa.array([colour_of(captions) for *_, captions in items], pa.int64())
        del columns["captions"]
    features = {"label": {"names": list(COLOURS), "_type": "ClassLabel"}} if labelled else {}
    hub = {"huggingface": json.dumps({"info": {"features": features}})}
    pq.write_table(pa.table(columns).replace_schema_metadata(hub), path)
    return path


def colour_of(captions):
    return list(COLOURS).index(captions[0].split()[1])


def as_csv(folder, items, delimiter=","):
    path = folder / ("pairs.tsv" if delimiter == "\t" else "pairs.csv")
    with path.open("w", newline="") as file:
        table = csv.writer(file, delimiter=delimiter)
        table.writerow(["filepath", "caption"])
        for name, image, captions in items:
            (folder / f"{name}.png").write_bytes(image)
            table.writerows([f"{name}.png", caption] for caption in captions)
    return path


def as_jsonl(folder, items):
    path = folder / "pairs.jsonl"
    lines = []
    for name, image, captions in items:
        (folder / f"{name}.png").write_bytes(image)
        lines.append(json.dumps({"image": f"{name}.png", "captions": captions}))
    path.write_text("\n".join(lines) + "\n")
    return path


def as_shards(folder, items, shards=2):
    """Half of the captions as .txt, one per line, half as .json."""
    items = list(items)
    for number in range(shards):
        with tarfile.open(folder / f"train-{number:03d}.tar", "w") as tar:
            for i, (name, image, captions) in enumerate(items[number::shards]):
                text = ("txt", "\n".join(captions)) if i % 2 else ("json", json.dumps({"caption": captions}))
                add(tar, f"{name}.png", image)
                add(tar, f"{name}.{text[0]}", text[1].encode())
    return folder


def add(tar, name, content):
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


def folder_of(path):
    """A folder with train.parquet and test.parquet."""
    path.mkdir(exist_ok=True)
    items = list(rows())
    as_parquet(path / "train.parquet", items)
    as_parquet(path / "test.parquet", items[:16])
    return path
