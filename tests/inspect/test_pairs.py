"""Two modalities from files: what is found, which temperature is advised, and what is refused."""

import json
import math

import numpy as np
import pytest
import torch

from isotherm.cli import main
from isotherm.inspect.pair_advice import AcrossQueries, advise_pairs
from isotherm.inspect.pairs import examine_pairs, inspect_pairs
from isotherm.inspect.reading import Reading

CHANCE = torch.Generator().manual_seed(0)
N, D = 300, 16
COMMON = torch.randn(N, D, generator=CHANCE)
OWNER = torch.arange(N)


def modalities(gap, noise=0.5):
    """Pairs that share a direction each, and a shift that only their modality has."""
    shift = torch.zeros(D)
    shift[0] = gap
    x, y = (COMMON + noise * torch.randn(N, D, generator=CHANCE) for _ in range(2))
    return x + shift, y - shift


def texts_of(health):
    return " ".join(f.text for f in health.findings)


def test_a_gap_is_found_and_told_in_a_sentence():
    near, far = (examine_pairs(*modalities(gap), OWNER) for gap in (0.0, 8.0))
    assert near.values["modality_gap"] < 0.2
    assert far.values["modality_gap"] > 1.0
    assert "share a place on the sphere" in texts_of(near)
    assert "lie in two cones: their centres are 1.7" in texts_of(far)
    assert "each modality keeps to a part of its own" in texts_of(far)


def test_wrong_order_is_found():
    x, y = modalities(0.0)
    health = examine_pairs(x, y.roll(1, 0), OWNER)
    assert "Are images and texts in the same order?" in texts_of(health)
    assert health.findings[0].level == "bad"


def test_the_advised_range_comes_from_the_spread_and_not_from_the_gap():
    """A shift of all similarities changes no share of the repulsion: the reach follows their spread alone."""
    x, y = modalities(0.0)
    queries = AcrossQueries(x, y)
    before = [queries.reach(t) for t in (0.05, 0.2, 1.0)]
    queries.s = queries.s * 0.5 - 0.4
    assert [queries.reach(t / 2) for t in (0.05, 0.2, 1.0)] == pytest.approx(before, rel=1e-4)


def test_where_the_gap_begins_to_close_is_the_margin_over_the_log_of_the_negatives():
    x, y = modalities(1.0)
    u, v = (z / z.norm(dim=1, keepdim=True) for z in (x, y))
    advice = advise_pairs(x, y, OWNER, 0.3, seed=0)
    s = (u @ v.T).numpy()
    margin = np.mean(np.diag(s)) - (s.sum() - np.trace(s)) / (N * (N - 1))
    assert advice.margin == pytest.approx(margin, abs=0.02)  # of a sample of queries
    assert advice.closing == pytest.approx(advice.margin / math.log(N - 1))
    assert advice.range.low < advice.range.high
    assert f"{advice.range.low:g}" in advice.reasoning
    assert "not the gap" in advice.reasoning


def test_files_of_images_and_k_texts_each(tmp_path, capsys):
    x, y = modalities(2.0)
    several = torch.stack([y, y + 0.1], 1).flatten(0, 1)
    np.save(tmp_path / "x.npy", x.numpy())
    np.savez(tmp_path / "t.npz", texts=several.numpy(), other=several.numpy())
    whole = inspect_pairs(tmp_path / "x.npy", f"{tmp_path / 't.npz'}:texts", Reading())
    expected = examine_pairs(x, several, OWNER.repeat_interleave(2))
    assert whole.values == expected.values
    part = inspect_pairs(tmp_path / "x.npy", f"{tmp_path / 't.npz'}:texts", Reading(sample=50, seed=3))
    assert (part.images, part.texts) == (50, 100)
    np.savez(tmp_path / "both.npz", embeddings=x.numpy(), texts=y.numpy())
    out = tmp_path / "a.json"
    assert (
        main(
            [
                "inspect",
                str(tmp_path / "both.npz"),
                "--pairs",
                "texts",
                "--json",
                str(out),
                "--html",
                str(tmp_path / "a.html"),
            ]
        )
        == 0
    )
    said = capsys.readouterr().out
    assert "modality gap" in said
    assert json.loads(out.read_text())["values"]["modality_gap"] > 0.5
    assert "lie in two cones" in (tmp_path / "a.html").read_text()


def test_rows_that_are_dropped_take_their_pairs_with_them(tmp_path):
    x, y = modalities(0.0)
    x[4], y[7] = float("nan"), 0.0
    np.save(tmp_path / "x.npy", x.numpy())
    np.save(tmp_path / "y.npy", y.numpy())
    health = inspect_pairs(tmp_path / "x.npy", str(tmp_path / "y.npy"), Reading(drop=True))
    keep = [i for i in range(N) if i not in (4, 7)]
    assert health.images == health.texts == N - 2
    assert health.values == examine_pairs(x[keep], y[keep], torch.arange(N - 2)).values


@pytest.mark.parametrize(
    ("rows", "width", "words"),
    [(301, D, "301 rows for the 300"), (300, 5, "images are 16 wide, texts 5")],
)
def test_texts_that_do_not_fit_are_refused(rows, width, words, tmp_path):
    np.save(tmp_path / "x.npy", COMMON.numpy())
    np.save(tmp_path / "y.npy", np.random.default_rng(0).standard_normal((rows, width)).astype(np.float32))
    with pytest.raises(ValueError, match=words):
        inspect_pairs(tmp_path / "x.npy", str(tmp_path / "y.npy"), Reading())
    with pytest.raises(ValueError, match="no such file"):
        inspect_pairs(tmp_path / "x.npy", "nothing.npy", Reading())
