"""The nearest-neighbour probe against scikit-learn and plain loops."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.neighbors import KNeighborsClassifier

from isotherm.probes import (
    knn,
)
from isotherm.probes.knn import knn_votes, nearest
from probed import GIVEN, XT, YT, X, Y

KS = (1, 3, 10, 200)


def brute_force(weights, k, temperature=0.07):
    """Votes of the k nearest, one query after the other, in float64; the rank of the true class."""
    train, test = X.double().numpy(), XT.double().numpy()
    if weights != "l2":
        train, test = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (train, test))
    found = []
    for x, label in zip(test, YT.tolist(), strict=True):
        distance = np.linalg.norm(train - x, axis=1)
        near = np.argsort(distance, kind="stable")[:k]
        weight = {
            "cosine": lambda near=near, x=x: np.exp(train[near] @ x / temperature),
            "l2": lambda near=near, distance=distance: 1 / distance[near],
            "uniform": lambda near=near: np.ones(len(near)),
        }[weights]()
        votes = np.bincount(Y.numpy()[near], weight, minlength=10)
        found.append(int((votes > votes[label]).sum() + (votes[:label] == votes[label]).sum()))
    return np.array(found)


@pytest.mark.parametrize("weights", ["cosine", "l2", "uniform"])
def test_knn_is_the_vote_of_the_nearest_for_every_k_in_one_pass(weights):
    scores = knn(*GIVEN, ks=KS, weights=weights)
    assert list(scores) == list(KS)
    for k in KS:
        rank = brute_force(weights, k)
        assert scores[k].accuracy == (rank == 0).mean()
        assert scores[k].top5 == (rank < 5).mean()
        assert scores[k].settings["k"] == k
        assert scores[k].n == 360


def test_knn_is_that_of_scikit_learn():
    peers = {"l2": KNeighborsClassifier(10, weights="distance"), "uniform": KNeighborsClassifier(10, metric="cosine")}
    for weights, peer in peers.items():
        right = peer.fit(X.numpy(), Y.numpy()).predict(XT.numpy()) == YT.numpy()
        assert knn(*GIVEN, ks=[10], weights=weights)[10].accuracy == right.mean()


def test_neighbours_at_distance_zero_are_the_only_ones_that_count():
    train = torch.tensor([[1.0, 0.0], [1.0, 1e-4], [1.0, 2e-4], [5.0, 5.0]])
    labels = torch.tensor([1, 0, 0, 0])
    assert knn(train, labels, train[:1], labels[:1], ks=[3], weights="l2")[3].accuracy == 1
    # 2e-4 apart at a distance of 1e3 from the origin: the distances are not formed from their squares
    far = train.double() + 1e3
    assert knn(far, labels, far[:1], labels[:1], ks=[3], weights="l2")[3].accuracy == 1


def test_distances_do_not_overflow():
    for weights in ("l2", "cosine"):
        tiny = knn(X * 1e-30, Y, XT * 1e-30, YT, ks=[5], weights=weights)[5]
        huge = knn(X * 1e30, Y, XT * 1e30, YT, ks=[5], weights=weights)[5]
        assert tiny.accuracy == huge.accuracy == knn(*GIVEN, ks=[5], weights=weights)[5].accuracy
    assert knn(*GIVEN, ks=[20], temperature=1e-4)[20].accuracy == knn(*GIVEN, ks=[1])[1].accuracy


def test_the_first_of_equally_near_items_is_the_nearer_one():
    train = torch.ones(400, 3)
    labels = torch.cat([torch.tensor([2, 1]), torch.zeros(398, dtype=torch.int64)])
    scores = knn(train, labels, train[:1], torch.tensor([2]), ks=[1, 2, 100], weights="uniform")
    assert scores[1].accuracy == 1
    assert scores[2].accuracy == 0  # one vote each for 1 and 2: the lower class
    assert scores[100].accuracy == 0


@pytest.mark.parametrize("off", [0.0, 1000.0, 3000.0])
def test_neighbours_in_a_narrow_cone_are_told_apart(off):
    draw = torch.Generator().manual_seed(0)
    labels = torch.arange(600) % 10
    z = 0.8 * torch.randn(10, 64, generator=draw)[labels] + torch.randn(600, 64, generator=draw) + off
    ours = knn(z[:400], labels[:400], z[400:], labels[400:], ks=[1])[1].accuracy
    theirs = KNeighborsClassifier(1, metric="cosine").fit(z[:400].double(), labels[:400])
    assert ours == theirs.score(z[400:].double(), labels[400:])


def test_the_five_best_classes_are_classes_with_votes_whatever_their_numbers():
    draw = torch.Generator().manual_seed(0)
    z, labels = torch.randn(1000, 16, generator=draw), torch.randint(0, 100, (1000,), generator=draw)
    found = [knn(z[:800], y[:800], z[800:], y[800:], ks=[1], classes=100)[1] for y in (labels, 99 - labels)]
    assert found[0].top5 == found[1].top5 == found[0].accuracy  # one neighbour names one class


def test_strips_of_the_least_height_find_the_same_neighbours():
    s = F.normalize(XT) @ F.normalize(X).T
    strips = list(nearest(F.normalize(XT), F.normalize(X), 30, strip=1))
    assert [rows.start for rows, _, _ in strips] == list(range(0, 360, 32))
    values = torch.cat([v for _, v, _ in strips])
    assert torch.allclose(values, s.sort(1, descending=True).values[:, :30], atol=1e-6)
    assert torch.allclose(s.gather(1, torch.cat([p for _, _, p in strips])), values, atol=1e-6)


def test_votes_are_those_that_are_counted():
    x, y, xt, yt = GIVEN
    votes = knn_votes(x, y, xt, 20, 10)
    assert float((votes.argmax(1) == yt).double().mean()) == knn(*GIVEN, ks=(20,))[20].accuracy
    assert int((votes > 0).sum(1).max()) <= 10
