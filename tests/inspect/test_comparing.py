"""Files and runs side by side: a star means more than chance."""

import json
import math

import numpy as np
import pytest
import torch

from isotherm import inspect as I
from small_embeddings import CENTRES, CLUSTERS, LABELS, POINT, SPHERE, D, N, save, tensors


def test_files_and_runs_are_compared(tmp_path):
    first, second, run = tmp_path / "a" / "e.npy", tmp_path / "b" / "e.npy", tmp_path / "run"
    for folder in (first.parent, second.parent, run):
        folder.mkdir()
    np.save(first, SPHERE)
    np.save(second, POINT)
    (run / "result.json").write_text(json.dumps({"measures": {"uniformity": -1.0, "knn": {"top1": 0.5}, "note": "x"}}))
    both = {row.measure: row.best for row in I.compare([first, second]).rows}
    assert both["uniformity"] == 0
    found = I.run_compare([first, second, run], output=I.Output(tmp_path / "c.html", tmp_path / "c.json"))
    assert [e.name for e in found.entries] == ["a/e.npy", "b/e.npy", f"{tmp_path.name}/run"]
    rows = {row.measure: row for row in found.rows}
    assert rows["uniformity"].best is None  # a run beside files
    assert rows["uniformity"].values[2] == -1.0
    assert rows["knn.top1"].values == (None, None, 0.5)
    assert rows["mean_similarity"].best is None
    assert json.loads((tmp_path / "c.json").read_text())["entries"] == [e.name for e in found.entries]


def stars(comparison):
    return {row.measure: row.best for row in comparison.rows if row.best is not None}


def test_a_star_means_more_than_chance(tmp_path):
    generator = np.random.default_rng(1)
    for name, spread in (("a", 0.15), ("b", 0.15), ("c", 0.3)):
        z = CENTRES[LABELS] + spread * generator.normal(size=(N, D))
        np.savez(tmp_path / f"{name}.npz", z=z, labels=LABELS)
    a, b, c = (tmp_path / f"{name}.npz" for name in "abc")
    assert stars(I.compare([a, b])) == {}  # two draws of one distribution
    assert stars(I.compare([a, c]))["uniformity"] == 1
    assert stars(I.compare([a, c]))["class_gap"] == 0
    assert "uniformity" not in stars(I.compare([c, a, c]))  # the best two are one


def test_a_share_has_the_error_of_so_many_items_and_no_interval_above_one(tmp_path):
    rng = np.random.default_rng(0)
    labels = np.arange(600) % 40  # 15 of a class: in an eighth of the rows some have nobody of their own
    for name, noise in (("a", 0.05), ("b", 0.06)):
        np.savez(tmp_path / f"{name}.npz", z=np.eye(40)[labels] + noise * rng.standard_normal((600, 40)), labels=labels)
    compared = I.compare([tmp_path / "a.npz", tmp_path / "b.npz"])
    assert [entry.values["nearest_agreement"] for entry in compared.entries] == [1, 1]
    p = 602 / 604  # Agresti & Coull
    for entry in compared.entries:
        assert entry.errors["nearest_agreement"] == pytest.approx(math.sqrt(p * (1 - p) / 600))
    I.run_compare([tmp_path / "a.npz", tmp_path / "b.npz"], output=I.Output(tmp_path / "c.html", None))
    assert '"most":1' in (tmp_path / "c.html").read_text()


def test_nothing_collapsed_or_of_another_width_gets_a_star(tmp_path):
    views = tensors(SPHERE) + 0.3 * torch.randn(N, D, generator=torch.Generator().manual_seed(0))
    np.savez(tmp_path / "a.npz", z=SPHERE, views=views.numpy(), labels=LABELS)
    np.save(tmp_path / "b.npy", POINT)
    generator = np.random.default_rng(1)
    np.save(tmp_path / "turned.npy", generator.normal(size=(D, N)))
    wide = np.repeat(CLUSTERS, 2, 1) + generator.normal(size=(N, 2 * D)) / 9
    np.savez(tmp_path / "wide.npz", z=wide, labels=LABELS)
    assert stars(I.compare([tmp_path / "a.npz", tmp_path / "turned.npy"])) == {}
    assert stars(I.compare([tmp_path / "a.npz", tmp_path / "wide.npz"])).keys() <= {
        *("tolerance", "class_gap", "nearest_agreement", "interclass_uniformity"),
    }
    assert stars(I.compare([tmp_path / "a.npz", tmp_path / "wide.npz"]))["nearest_agreement"] == 1


@pytest.mark.parametrize(
    ("first", "second", "starred"),
    [
        ({"knn": 0.9806}, {"knn": 0.9778}, {}),  # one image of 360
        ({"knn": 0.98}, {"knn": 0.85}, {"knn": 0}),
        ({"uniformity": -3.0, "alignment": 0.3}, {"uniformity": -0.05, "alignment": 0.001}, {}),
    ],
)
def test_runs_are_starred_by_how_many_images_they_were_asked_about(tmp_path, first, second, starred):
    config = {"data": "digits", "test": "test", "head": {"name": "simclr", "width": 128}}
    for name, measured in (("a", first), ("b", second)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "result.json").write_text(json.dumps({"measures": measured, "config": config}))
    assert stars(I.compare([tmp_path / "a", tmp_path / "b"])) == starred
    (tmp_path / "b" / "result.json").write_text(json.dumps({"measures": second, "config": {"data": "cifar10"}}))
    assert stars(I.compare([tmp_path / "a", tmp_path / "b"])) == {}


def test_bad_comparisons_are_refused(tmp_path):
    with pytest.raises(ValueError, match="at least 2 files"):
        I.compare([save(tmp_path, "npy")])
    with pytest.raises(ValueError, match=r"is no finished run: it has no result\.json"):
        I.compare([save(tmp_path, "npy"), tmp_path])
    (tmp_path / "result.json").write_text("[]")
    with pytest.raises(ValueError, match="damaged"):
        I.compare([save(tmp_path, "npy"), tmp_path])
