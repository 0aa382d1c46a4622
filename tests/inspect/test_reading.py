"""Reading embedding files: every format, labels beside them, what is refused, what is only sampled."""

import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from isotherm import inspect as I
from isotherm.bench.measure import peak_extra_memory
from isotherm.inspect import reading
from small_embeddings import CLUSTERS, LABELS, RANDOM, SPHERE, D, N, save, tensors


@pytest.mark.parametrize("form", ["npy", "npz", "pt", "safetensors", "parquet", "feather", "jsonl"])
def test_every_format_gives_the_same_rows(tmp_path, form):
    found = I.read(save(tmp_path, form))
    assert torch.equal(found.z, tensors(CLUSTERS))
    if form != "npy":
        assert torch.equal(found.labels, torch.from_numpy(LABELS))
        assert found.classes[0] == ("kind 0" if form in ("parquet", "feather", "jsonl") else "0")
    part = I.read(save(tmp_path, form), sample=50, seed=3)
    assert torch.equal(part.z, tensors(CLUSTERS)[part.rows])
    assert len(part.z) == 50
    assert part.total == N
    if form != "npy":
        assert torch.equal(part.labels, torch.from_numpy(LABELS)[part.rows])
    assert torch.equal(part.rows, I.read(save(tmp_path, form), sample=50, seed=3).rows)
    assert not torch.equal(part.rows, I.read(save(tmp_path, form), sample=50, seed=4).rows)


def test_parquet_may_have_a_column_a_dimension(tmp_path):

    pq.write_table(pa.table({**{f"x{i}": CLUSTERS[:, i] for i in range(D)}, "label": LABELS}), tmp_path / "e.parquet")
    found = I.read(tmp_path / "e.parquet")
    assert torch.equal(found.z, tensors(CLUSTERS))
    assert len(found.classes) == 4


@pytest.mark.parametrize(
    ("write", "name"),
    [
        (lambda p: np.save(p, LABELS), "l.npy"),
        (lambda p: np.savez(p, y=LABELS, more=SPHERE), "l.npz"),
        (lambda p: p.write_text("\n".join(f"c{c}" for c in LABELS)), "l.txt"),
        (lambda p: p.write_text("\n".join(["label", *map(str, LABELS)])), "l.csv"),
        (lambda p: p.write_text("\n".join(map(str, LABELS))), "l.csv"),
        (lambda p: p.write_text("\n".join(["name,kind", *(f"n{i},k{c}" for i, c in enumerate(LABELS))])), "l.csv:kind"),
    ],
)
def test_labels_come_from_another_file(tmp_path, write, name):
    write(tmp_path / name.split(":")[0])
    found = I.read(save(tmp_path, "npy"), str(tmp_path / name))
    assert torch.equal(found.labels, torch.from_numpy(LABELS))


@pytest.mark.parametrize("kind", ["float64", "float16", "bfloat16", ">f4", "int8", "V2"])
def test_any_real_numbers_are_read(tmp_path, kind):
    path = tmp_path / ("e.pt" if kind == "bfloat16" else "e.npy")
    if kind == "bfloat16":
        torch.save(tensors(CLUSTERS).bfloat16(), path)
    elif kind == "V2":  # what numpy makes of bfloat16
        np.save(path, tensors(CLUSTERS).bfloat16().view(torch.int16).numpy().view("V2"))
    else:
        np.save(path, (CLUSTERS * 100 if kind == "int8" else CLUSTERS).astype(kind))
    found = I.read(path)
    assert found.z.dtype == torch.float32
    assert torch.nn.functional.cosine_similarity(found.z, tensors(CLUSTERS)).min() > 0.99
    said = [f.text for f in found.notes]
    assert bool(said) == (kind in ("int8", "V2")), said


def bad(z=CLUSTERS, **changes):
    """A copy with a few numbers changed."""
    z = z.copy()
    for row, value in changes.get("rows", {}).items():
        z[row] = value
    return z


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        (
            bad(rows={7: np.nan, 300: np.inf}),
            {},
            r"2 of 400 rows hold NaN, infinite or missing numbers: rows 7, 300\..*--drop",
        ),
        (bad(rows={12: 0}), {}, "1 of 400 rows hold nothing but zeros, which have no direction: row 12"),
        (CLUSTERS[:, 0], {}, r"a 2-D array is wanted, one row per item; it has one of shape .400,."),
        (CLUSTERS[:, :1], {}, "holds 400 × 1: one number an item; an embedding has 2 dimensions or more"),
        (CLUSTERS[None], {}, "2-D array"),
        (CLUSTERS[:1], {}, "1 usable embeddings; at least 2"),
        (CLUSTERS.astype(str), {}, "must hold real numbers, got <U"),
        (CLUSTERS > 0, {}, "must hold real numbers, got bool"),
        (CLUSTERS.astype(complex), {}, "must hold real numbers, got complex"),
        (CLUSTERS.astype(object), {}, r"is refused: it holds Python objects"),
        (CLUSTERS, {"sample": 1}, "at least 2 rows"),
        (CLUSTERS, {"key": "z"}, "has no 'z'"),
        (CLUSTERS, {"labels": "nowhere.npy"}, "labels 'nowhere.npy': there is no such file"),
    ],
)
def test_bad_arrays_are_refused_in_one_sentence(tmp_path, content, options, words):
    np.save(tmp_path / "e.npy", content)
    with pytest.raises(ValueError, match=words) as refused:
        I.read(tmp_path / "e.npy", **options)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (LABELS[:50], "has 50 rows for 400 embeddings"),
        (LABELS + 0.5, "integers or texts"),
        (np.eye(4)[LABELS], "one-hot rows take the argmax"),
    ],
)
def test_bad_labels_are_refused(tmp_path, labels, words):
    np.save(tmp_path / "l.npy", labels)
    with pytest.raises(ValueError, match=words):
        I.read(save(tmp_path, "npy"), str(tmp_path / "l.npy"))


def test_pickles_are_refused_and_never_run(tmp_path):
    class Trap:
        def __reduce__(self):
            return (open, (str(tmp_path / "sprung"), "w"))

    for name in ("e.pkl", "e.npy", "e.pt"):
        (tmp_path / name).write_bytes(pickle.dumps(Trap()))
        with pytest.raises(ValueError, match=r"refused: .* any program") as refused:
            I.read(tmp_path / name)
        assert "\n" not in str(refused.value)
    torch.save({"model": Trap()}, tmp_path / "f.pt")
    with pytest.raises(ValueError, match=r"refused: .* any program"):
        I.read(tmp_path / "f.pt")
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("name", ["e.npy", "e.npz", "e.pt", "e.safetensors", "e.parquet"])
@pytest.mark.parametrize("content", [b"", b"rubbish" * 50])
def test_damaged_files_are_refused(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=rf"{name} (cannot be read as|is refused)") as refused:
        I.read(tmp_path / name)
    assert "\n" not in str(refused.value)


def test_what_is_no_file_is_refused(tmp_path):
    with pytest.raises(ValueError, match="there is no file"):
        I.read(tmp_path / "none.npy")
    with pytest.raises(ValueError, match="is a folder"):
        I.read(tmp_path)
    (tmp_path / "e.xyz").write_text("")
    with pytest.raises(ValueError, match=r"unknown format '\.xyz'; known are \.npy"):
        I.read(tmp_path / "e.xyz")
    np.savez(tmp_path / "e.npz", a=SPHERE, b=CLUSTERS)
    with pytest.raises(ValueError, match=r"several arrays; say which with --key: a 400×16, b 400×16"):
        I.read(tmp_path / "e.npz")
    assert torch.equal(I.read(tmp_path / "e.npz", key="b").z, tensors(CLUSTERS))


def test_bad_rows_can_be_left_out(tmp_path):
    np.savez(tmp_path / "e.npz", z=bad(rows={7: np.nan, 9: 0}), labels=LABELS, second=bad(SPHERE, rows={11: np.nan}))
    found = I.read(tmp_path / "e.npz", views="second", drop=True)
    assert len(found.z) == len(found.labels) == len(found.views) == N - 3
    assert not {7, 9, 11} & set(found.rows.tolist())
    assert [f.level for f in found.notes].count("bad") == 3


def test_a_huge_file_is_mapped_and_sampled(tmp_path):
    """10 GB that hardly exist on the disk: only the sampled rows may be touched."""
    path = tmp_path / "huge.npy"
    array = np.lib.format.open_memmap(path, "w+", np.float32, (20_000_000, 128))
    indices = np.sort(np.random.default_rng(0).choice(20_000_000, 200, replace=False))
    array[indices] = RANDOM.normal(size=(200, 128))
    del array
    with pytest.raises(ValueError, match=r"20,000,000 embeddings; .* hours\. Give a sample, such as --sample 50000"):
        I.read(path)
    samples = []
    used = peak_extra_memory(lambda: samples.append(I.read(path, sample=200)))
    assert used is None or used < 50e6
    assert samples[0].rows.tolist() == indices.tolist()
    path.unlink()


def test_limit_can_be_overruled_by_asking_for_all(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "LIMIT", 100)
    with pytest.raises(ValueError, match="--sample 400 for all"):
        I.read(save(tmp_path, "npy"))
    assert len(I.read(save(tmp_path, "npy"), sample=N).z) == N
