"""Retrieval and two modalities against plain numpy: ranks by sorting, every distance by itself."""

import numpy as np
import pytest
import torch

from isotherm.measures import geometry
from isotherm.measures.catalogue import in_groups, measures
from isotherm.measures.measure import take
from isotherm.measures.pairs import PairSubject
from isotherm.measures.retrieval import retrieval

CHANCE = torch.Generator().manual_seed(0)
IMAGES = torch.randn(40, 6, generator=CHANCE, dtype=torch.float64)
COUNTS = torch.randint(1, 6, (40,), generator=CHANCE)
OWNER = torch.arange(40).repeat_interleave(COUNTS)[torch.randperm(int(COUNTS.sum()), generator=CHANCE)]
TEXTS = IMAGES[OWNER] + torch.randn(len(OWNER), 6, generator=CHANCE, dtype=torch.float64)


def unit(z):
    z = z.numpy()
    return z / np.linalg.norm(z, axis=1, keepdims=True)


def by_sorting():
    """R@k and median rank, each query's candidates sorted one after the other."""
    x, y, owner = unit(IMAGES), unit(TEXTS), OWNER.numpy()
    to_text = [1 + min(np.flatnonzero(owner[np.argsort(-(x[i] @ y.T))] == i)) for i in range(len(x))]
    to_image = [1 + int(np.flatnonzero(np.argsort(-(y[c] @ x.T)) == owner[c])[0]) for c in range(len(y))]
    return to_text, to_image


def test_retrieval_is_that_of_sorted_candidates():
    result = retrieval(IMAGES, TEXTS, OWNER)
    for way, ranks in zip((result.image_to_text, result.text_to_image), by_sorting(), strict=True):
        for k in (1, 5, 10):
            assert way.recalls[k] == pytest.approx(np.mean(np.array(ranks) <= k), abs=1e-12)
        assert way.median == np.median(ranks)
        assert way.n == len(ranks)
    recalls = [np.mean(np.array(ranks) <= k) for ranks in by_sorting() for k in (1, 5, 10)]
    assert result.mean_recall == pytest.approx(np.mean(recalls), abs=1e-12)
    assert 0.1 < result.image_to_text.recalls[1] < 0.9


def test_one_point_finds_nothing_and_a_perfect_embedding_everything():
    owner = torch.arange(30)
    same = torch.ones(30, 4)
    nothing = retrieval(same, same, owner)
    assert nothing.mean_recall == 0
    assert nothing.image_to_text.median == 30
    z = torch.randn(30, 8, generator=CHANCE)
    assert retrieval(z, z, owner).image_to_text.recalls == {1: 1.0, 5: 1.0, 10: 1.0}


def test_measures_of_two_modalities_are_numpys():
    x, y, owner = unit(IMAGES), unit(TEXTS), OWNER.numpy()
    values = take(in_groups(["retrieval", "two modalities", "geometry"]), PairSubject(IMAGES, TEXTS, OWNER))

    def uniformity(z):
        d = ((z[:, None] - z[None]) ** 2).sum(-1)
        return np.log(np.mean(np.exp(-2 * d[~np.eye(len(z), dtype=bool)])))

    expected = {
        "modality_gap": np.linalg.norm(x.mean(0) - y.mean(0)),
        "pair_alignment": np.mean([((x[owner[c]] - y[c]) ** 2).sum() for c in range(len(y))]),
        "uniformity": uniformity(x),
        "text_uniformity": uniformity(y),
        "joint_uniformity": uniformity(np.concatenate([x, y])),
    }
    for name, value in expected.items():
        assert values[name] == pytest.approx(value, rel=1e-9), name
    assert {"image_to_text_r1", "text_to_image_r10", "mean_recall", "image_to_text_median"} <= values.keys()
    assert measures()["mean_recall"].unit == "%"


def test_the_gap_of_one_cloud_is_small_and_of_two_poles_is_two():
    z = torch.randn(4000, 16, generator=CHANCE)
    assert geometry.modality_gap(z[:2000], z[2000:]) < 0.1
    pole = torch.zeros(5, 3)
    pole[:, 0] = 1
    assert geometry.modality_gap(pole, -pole) == pytest.approx(2)


@pytest.mark.parametrize(
    ("owner", "words"),
    [
        (torch.arange(39), "the image of each of 40 texts"),
        (torch.arange(40) + 1, "reaches from 1 to 40; there are 40 images"),
        (torch.zeros(40, dtype=torch.int64), "39 of 40 images have no text"),
    ],
)
def test_owners_that_do_not_fit_are_refused(owner, words):
    with pytest.raises(ValueError, match=words):
        retrieval(IMAGES, IMAGES, owner)


def test_an_embedding_with_a_zero_row_has_no_measures():
    broken = IMAGES.clone()
    broken[3] = 0
    assert take(in_groups(["retrieval"]), PairSubject(broken, TEXTS, OWNER)) == {}
