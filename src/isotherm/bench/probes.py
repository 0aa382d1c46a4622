"""`isotherm bench probes`: nearest neighbours, the linear probe and the measures at the size of CIFAR-10."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from isotherm import measures
from isotherm.bench import rivals
from isotherm.bench.measure import Target, best_times, peak_extra_memory
from isotherm.probes.knn import knn
from isotherm.probes.linear import linear
from isotherm.probes.protocols import follow
from isotherm.probes.scores import Score

ITEMS, QUERIES, WIDTH, CLASSES, K = 50_000, 10_000, 512, 10, 200
EMBEDDING = 128
PROTOCOL = "wang-liu"
STRIP = 256
"""Queries at once for those who are given batches."""
OURS = "isotherm"
PRODUCTS = "matrix products alone"
SKLEARN = "scikit-learn NearestNeighbors, brute"
LIGHTLY = "lightly knn_predict, in batches"
FAISS = "faiss IndexFlatIP"


@dataclass(frozen=True)
class Found:
    """Seconds, extra bytes and accuracies of one run."""

    knn: dict[str, float]
    """Seconds of each way to find the neighbours."""
    knn_extra: int | None
    linear: Score
    linear_seconds: float
    protocol: Score
    protocol_seconds: float
    measures: dict[str, float]
    """Seconds of each measure."""
    measures_extra: int | None


def run(rounds: int, peers: bool, note: Callable[[str, str], None]) -> Found:
    """Everything, on made-up features whose classes overlap; the slow protocol runs once."""
    train, labels, test, test_labels = features()
    contenders = _neighbours(train, labels, test, test_labels, peers)
    neighbours = dict.fromkeys(contenders, float("inf"))
    for name, seconds in best_times(contenders, rounds):
        neighbours[name] = min(neighbours[name], seconds)
        note("timing neighbours", f"{name} {neighbours[name]:.2f} s")
    note("neighbours", "memory")
    knn_extra = peak_extra_memory(contenders[OURS])

    best = float("inf")
    for _ in range(rounds):
        started = time.perf_counter()
        exact = linear(train, labels, test, test_labels)
        best = min(best, time.perf_counter() - started)
        note("timing the linear probe", f"{best:.2f} s")
    note("timing the papers' protocol", PROTOCOL)
    started = time.perf_counter()
    slow = follow(PROTOCOL, train, labels, test, test_labels)
    slow_seconds = time.perf_counter() - started

    calls = _measures()
    each = dict.fromkeys(calls, float("inf"))
    for name, seconds in best_times(calls, rounds):
        each[name] = min(each[name], seconds)
        note("timing measures", f"{name} {each[name]:.2f} s")
    note("measures", "memory")
    measures_extra = peak_extra_memory(lambda: [call() for call in calls.values()])
    return Found(neighbours, knn_extra, exact, best, slow, slow_seconds, each, measures_extra)


def targets(result: Found) -> list[Target]:
    """The promises this run can judge."""
    judged = [
        Target(f"kNN, against {rival}", f"≤ {most:g}×", f"{ratio:.2f}×", ratio <= most)
        for rival, most in ((SKLEARN, 1.0), (LIGHTLY, 1.0), (FAISS, 1.3))
        if rival in result.knn
        for ratio in [result.knn[OURS] / result.knn[rival]]
    ]
    if result.knn_extra is not None:
        judged.append(_memory("kNN", result.knn_extra))
    apart = 100 * (result.protocol.accuracy - result.linear.accuracy)
    total = sum(result.measures.values())
    judged += [
        Target("linear probe", "< 15 s", f"{result.linear_seconds:.1f} s", result.linear_seconds < 15),
        Target(f"linear probe, below {PROTOCOL}", "≤ 0.3 points", f"{apart:+.2f} points", apart <= 0.3),
        Target("all measures", "< 20 s", f"{total:.1f} s", total < 20),
    ]
    if result.measures_extra is not None:
        judged.append(_memory("all measures", result.measures_extra))
    return judged


def _memory(what: str, extra: int) -> Target:
    return Target(f"{what}, extra memory", "< 500 MB", f"{extra / 1e6:.0f} MB", extra < 500e6)


def features(items: int = ITEMS, queries: int = QUERIES, seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Features and labels to learn from, and to be asked about: rectified, correlated, of unit length.

    Ten overlapping classes in 32 dimensions, sent through two random layers. Unit length is what a learning rate of 30
    is for.
    """
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    centres, first, second = normal(CLASSES, 32), normal(32, WIDTH) / 32**0.5, normal(WIDTH, WIDTH) / WIDTH**0.5
    labels = torch.randint(0, CLASSES, (items + queries,), generator=generator)
    hidden = torch.tanh((centres[labels] + 1.6 * normal(len(labels), 32)) @ first)
    x = F.normalize(torch.relu(hidden @ second + 0.1 * normal(len(labels), WIDTH)))
    return x[:items], labels[:items], x[items:], labels[items:]


def _neighbours(
    train: Tensor, labels: Tensor, test: Tensor, test_labels: Tensor, peers: bool
) -> dict[str, Callable[[], object]]:
    """Ways to the k nearest; ours and lightly's also vote, and lightly is given features of unit length already."""

    def products() -> None:
        for q in test.split(STRIP):
            torch.mm(q, train.T)

    def sklearn() -> object:
        neighbors = importlib.import_module("sklearn.neighbors")
        fitted = neighbors.NearestNeighbors(n_neighbors=K, algorithm="brute", n_jobs=-1).fit(train.numpy())
        return fitted.kneighbors(test.numpy())

    contenders: dict[str, Callable[[], object]] = {
        OURS: lambda: knn(train, labels, test, test_labels, ks=(1, 10, 20, K)),
        PRODUCTS: products,
        SKLEARN: sklearn,
    }
    if peers:
        rivals.lightly()  # for what it does to import it
        predict = importlib.import_module("lightly.utils.benchmarking").knn_predict
        faiss = importlib.import_module("faiss")
        index = faiss.IndexFlatIP(WIDTH)
        index.add(train.numpy())
        bank = train.T.contiguous()
        contenders[LIGHTLY] = lambda: [predict(q, bank, labels, CLASSES, K, 0.07) for q in test.split(STRIP)]
        contenders[FAISS] = lambda: index.search(test.numpy(), K)
    return contenders


def _measures() -> dict[str, Callable[[], object]]:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(ITEMS) % CLASSES
    z0 = torch.randn(CLASSES, EMBEDDING, generator=generator)[labels]
    z0 += 2 * torch.randn(ITEMS, EMBEDDING, generator=generator)
    z1 = z0 + torch.randn(ITEMS, EMBEDDING, generator=generator)
    return {
        "uniformity": lambda: measures.uniformity(z0),
        "tolerance": lambda: measures.tolerance(z0, labels),
        "alignment": lambda: measures.alignment(z0, z1),
        "interclass_uniformity": lambda: measures.interclass_uniformity(z0, labels),
        "conditional_entropy": lambda: measures.conditional_entropy(z0),
        "local_separation": lambda: measures.local_separation(z0, z1),
        "effective_rank": lambda: measures.effective_rank(z0),
    }
