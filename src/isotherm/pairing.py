"""Who is compared with whom. Normalization and the checks of the inputs happen here, once.

Every function takes embeddings as they leave the network, (N, D) tensors, one per view, and gives blocks of
`Pairs`. A loss sees only those. Where several processes train together, each brings its own queries and
sees everyone's candidates (`isotherm.world`): gathered, or its own and visitors (`world.exchange`).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from isotherm import world
from isotherm.engine.masks import Mask, Nothing, Periodic, Same, Unlike
from isotherm.engine.once import once_differentiable
from isotherm.types import Pairs
from isotherm.waiting import may_wait, spoilt

Views = Sequence[Tensor]


def in_batch(views: Views) -> list[Pairs]:
    """SimCLR: every embedding is a query; every view of every other item is a negative."""
    views = unit_views(views)
    n, everyone = _batch(views)
    count = len(views)
    positives = torch.cat(_positives(views))
    negatives = count * (everyone.total - 1)
    every_view = tuple(range(count))
    z = torch.cat(list(views))
    if _at_home():
        return [Pairs(z, None, positives, Periodic(n), negatives, every_view, visitors=_visitors(z))]
    candidates = torch.cat([world.gather(v) for v in views])
    hidden = Same(everyone.mine.repeat(count), everyone.all.repeat(count))
    return [Pairs(z, candidates, positives, hidden, negatives, every_view)]


def cross_view(views: Views, symmetric: bool = True) -> list[Pairs]:
    """CLIP, SimCSE, CMC: an item in one view looks for itself among the items of another view.

    Symmetric: every pair of views, both ways. Otherwise view 0 asks each of the others.
    """
    views = unit_views(views)
    n, everyone = _batch(views)
    pairs = []
    for a, b in combinations(range(len(views)), 2):
        positive = (views[a] * views[b]).sum(1, keepdim=True)
        if symmetric and world.size() == 1:
            both = torch.cat([positive, positive])
            pairs.append(Pairs(views[a], views[b], both, Periodic(n), n - 1, (a, b), mutual=True))
            continue
        ways = [(a, b), (b, a)] if symmetric else [(a, b)] if a == 0 else []
        for query, other in ways:
            pairs.append(_one_way(views[query], views[other], positive, everyone, query))
    return pairs


def query_view(views: Views, from_other_views: bool = False) -> list[Pairs]:
    """CACR: each view asks in turn; its other views are positives, the other items of its own view negatives.

    `from_other_views` takes the negatives from where the positives come: the other items of the other views.
    """
    views = unit_views(views)
    n, everyone = _batch(views)
    pairs = []
    for a, positives in enumerate(_positives(views)):
        partners = tuple(views[:a] + views[a + 1 :])
        theirs = partners if from_other_views else (views[a],)
        negatives = len(theirs) * (everyone.total - 1)
        candidates = torch.cat(theirs) if from_other_views else None
        hidden: Mask = Periodic(n)
        visitors = _visitors(views[a] if candidates is None else candidates)
        if not _at_home():
            hidden = Same(everyone.mine, everyone.all.repeat(len(theirs)))
            candidates = torch.cat([world.gather(view) for view in theirs])
        pairs.append(
            Pairs(views[a], candidates, positives, hidden, negatives, (a,), partners=partners, visitors=visitors)
        )
    return pairs


def queued(views: Views, queue: Tensor, with_queries: bool = False, among: Views = ()) -> list[Pairs]:
    """MoCo v2: view 0 asks; its other views are positives; a queue of past keys holds the negatives.

    A queue (N, K, D) has K negatives for each query, which has no others. `with_queries` adds the other items' queries
    to the negatives (CACR, Alg. 3), `among` the other items of further views.
    """
    views = unit_views(views)
    own = isinstance(queue, Tensor) and queue.ndim == 3
    if own and len(queue) != len(views[0]):
        raise ValueError(f"negatives must hold K rows per query, ({len(views[0])}, K, D); got {tuple(queue.shape)}.")
    negatives = unit(_like(queue.flatten(0, 1) if own else queue, views[0], "negatives"), "negatives")
    queries, *partners = views
    positives = torch.stack([(queries * v).sum(1) for v in partners], 1)
    if own:
        mine = torch.arange(len(queries), device=queries.device)
        others = Unlike(Same(mine, mine.repeat_interleave(queue.shape[1])), Nothing())
        return [Pairs(queries, negatives, positives, others, queue.shape[1], partners=tuple(partners))]
    batch = [queries] if with_queries else []
    if among:
        batch += unit_views([queries, *among])[1:]
    if not batch:
        return [Pairs(queries, negatives, positives, Nothing(), len(negatives), partners=tuple(partners))]
    _, everyone = _batch(views)
    past = everyone.all.new_full((len(negatives),), -1)
    hidden = Same(everyone.mine, torch.cat([past, _ids(everyone).repeat(len(batch))]))
    candidates = torch.cat([negatives, *(_rows(z) for z in batch)])
    count = len(negatives) + len(batch) * (everyone.total - 1)
    visitors = _visitors(*batch)  # the queue is everywhere the same
    return [Pairs(queries, candidates, positives, hidden, count, partners=tuple(partners), visitors=visitors)]


def one_way(queries: Tensor, *keys: Tensor, further: Tensor | None = None) -> list[Pairs]:
    """MoCo v3, SimCSE: a query looks for its keys, one of each other view, among the keys of the whole batch.

    `further` (M, D) are more negatives for every query: SimCSE's hard negatives, one or more for each item.
    """
    q, *partners = unit_views([queries, *keys])
    n, everyone = _batch([q, *partners, *([] if further is None else [further])])
    positives = torch.stack([(q * k).sum(1) for k in partners], 1)
    mine = list(partners)
    negatives = len(partners) * (everyone.total - 1)
    theirs = _ids(everyone).repeat(len(partners))
    hidden: Mask = Periodic(n) if _at_home() else Same(everyone.mine, theirs)
    if further is not None:
        mine.append(unit(_like(further, q, "further negatives"), "further negatives"))
        counts = world.counts(len(further), q.device)
        nobody = theirs.new_full((len(further) if _at_home() else sum(counts),), -1)
        hidden = Same(everyone.mine, torch.cat([theirs, nobody]))
        negatives += sum(counts)
    candidates = torch.cat([_rows(k) for k in mine])
    return [Pairs(q, candidates, positives, hidden, negatives, partners=tuple(partners), visitors=_visitors(*mine))]


def banked(queries: Tensor, index: Tensor, bank: Tensor, among: Tensor | None = None) -> list[Pairs]:
    """Instance discrimination: a query looks for its own entry in a memory bank.

    `index` says which entry is whose; `among` names the entries that may be negatives (all of them by default).
    """
    q = unit(queries, "queries")
    index = index.clone()  # backward reads it again, and the caller may fill it anew
    if index.shape != (len(q),):
        raise ValueError(f"index must name one bank entry per query, shape ({len(q)},); got {tuple(index.shape)}.")
    entries = unit(_like(bank, q, "bank"), "bank")
    if may_wait() and len(index) and not (int(index.min()) >= 0 and int(index.max()) < len(entries)):
        raise ValueError(
            f"index reaches from {int(index.min())} to {int(index.max())}; the bank has {len(entries)} entries."
        )
    positives = (q * entries[index]).sum(1, keepdim=True)
    if among is None:
        if len(entries) < 2:
            raise ValueError("banked needs at least 2 entries in the bank to have a negative, got 1.")
        columns = torch.arange(len(entries), device=q.device)
        return [Pairs(q, entries, positives, Same(index, columns), len(entries) - 1)]
    known = len(among) > 0
    if may_wait() and known:
        known = int(among.min()) >= 0 and int(among.max()) < len(entries)
    if not known:
        raise ValueError(f"among must name entries of the bank, which has {len(entries)}; got {len(among)} of them.")
    if may_wait() and torch.isin(index, among).any():
        raise ValueError("among must not hold a query's own entry; draw the negatives from the rest of the bank.")
    return [Pairs(q, entries[among], positives, Nothing(), len(among))]


def labelled(embeddings: Tensor, labels: Tensor) -> list[Pairs]:
    """Supervised: everything with the query's label is a positive, everything else a negative."""
    z = unit(embeddings, "embeddings")
    labels = torch.as_tensor(labels, device=z.device)
    if labels.shape != (len(z),):
        raise ValueError(f"labels must hold one label per embedding, shape ({len(z)},); got {tuple(labels.shape)}.")
    everyone = _Everyone([z])
    every_label = world.gather(labels)
    place, others = _classes(every_label)
    mine = place[everyone.mine]
    itself: Mask = Periodic(len(z)) if _at_home() else Same(everyone.mine, everyone.all)
    same = Same(mine, mine, place.split(everyone.counts)) if world.by_ring() else Same(mine, place)
    return [
        Pairs(
            z,
            None if _at_home() else world.gather(z),
            z.new_empty(len(z), 0),
            same,
            negatives=0,
            only_positives=Unlike(same, itself),
            itself=itself,
            positive_counts=others[everyone.mine].to(z.dtype),
            visitors=_visitors(z),
        )
    ]


def _classes(labels: Tensor) -> tuple[Tensor, Tensor]:
    """A whole number for each label, and how many others have it; there must be one."""
    if not may_wait():
        ordered = labels.sort().values
        place, behind = (torch.searchsorted(ordered, labels, side=side) for side in ("left", "right"))
        others = (behind - place - 1).to(torch.float32)
        return place, spoilt(others, others == 0)
    kinds, place, counts = torch.unique(labels, return_inverse=True, return_counts=True)
    if (counts < 2).any():
        lonely = kinds[counts < 2][:3].tolist()
        raise ValueError(
            f"every label needs at least 2 embeddings to have a positive; these have 1: {lonely}"
            f"{' …' if int((counts < 2).sum()) > 3 else ''}. Drop them or sample the batch by label."
        )
    return place, counts[place] - 1


def unit(z: Tensor, name: str) -> Tensor:
    """Rows of length one, in at least float32. Any finite length goes in, however large or small, but not zero."""
    if not _matrix(z, name).is_floating_point():
        raise TypeError(f"{name} must hold floating-point numbers, got {z.dtype}.")
    if not z.numel():
        raise ValueError(f"{name} holds no numbers: shape {tuple(z.shape)}.")
    return _unit_rows(z.to(torch.promote_types(z.dtype, torch.float32)), [name])


def as_views(views: Views, at_least: int = 1) -> list[Tensor]:
    """The views checked against each other, finite, in at least float32; lengths as they come."""
    views = _alike(views)
    items = _Everyone(views).total
    if items < at_least:
        raise ValueError(f"at least {at_least} items are needed, got {items}. Use a larger batch.")
    for i, view in enumerate(views if may_wait() else []):
        finite = torch.isfinite(view.detach()).all(1)
        if not finite.all():
            raise ValueError(_bad_rows(~finite, "NaN or infinite numbers", [f"view {i}"]))
    return views


def unit_views(views: Views) -> list[Tensor]:
    """The views checked against each other, with unit rows."""
    views = _alike(views)
    together = _unit_rows(torch.cat(views), [f"view {i}" for i in range(len(views))])
    return list(together.chunk(len(views)))


def _alike(views: Views) -> list[Tensor]:
    """The views, if they have one shape and one device, in one precision of at least float32."""
    if len(views) < 2:
        raise ValueError(
            f"at least 2 views of each item are needed, got {len(views)}: loss(z0, z1), or loss(*z.chunk(2)) of one "
            "tensor that has both, one below the other."
        )
    first = _matrix(views[0], "view 0")
    if not first.numel():
        raise ValueError(f"views hold no numbers: shape {tuple(first.shape)}.")
    for i, view in enumerate(views):
        _matrix(view, f"view {i}")
        if view.shape != first.shape:
            raise ValueError(
                f"views must have one shape: view 0 is {tuple(first.shape)}, view {i} is {tuple(view.shape)}."
            )
        if view.device != first.device:
            raise ValueError(f"views must be on one device: view 0 is on {first.device}, view {i} on {view.device}.")
        if not view.is_floating_point():
            raise TypeError(f"view {i} must hold floating-point numbers, got {view.dtype}.")
    dtype = functools.reduce(torch.promote_types, (view.dtype for view in views), torch.float32)
    return [view.to(dtype) for view in views]


ORDINARY = (1e-15, 1e15)
"""Lengths whose squares are far from the ends of float32."""


def _unit_rows(z: Tensor, names: Sequence[str]) -> Tensor:
    """`z` with unit rows; `names` are those of its equal parts, for the error."""
    lengths = torch.linalg.vector_norm(z.detach(), dim=1)
    if not may_wait():
        lengths = spoilt(lengths, ~((lengths > ORDINARY[0]) & (lengths < ORDINARY[1])))
    elif not (ORDINARY[0] < lengths.min().item() and lengths.max().item() < ORDINARY[1]):
        # rare: something is wrong, or so long or short that its square leaves the float type
        largest = z.detach().abs().amax(1, keepdim=True)
        for bad, what in (
            (~torch.isfinite(largest[:, 0]), "NaN or infinite numbers"),
            (largest[:, 0] == 0, "zero vectors, which have no direction"),
        ):
            if bad.any():
                raise ValueError(_bad_rows(bad, what, names))
        z = z / largest
        lengths = torch.linalg.vector_norm(z.detach(), dim=1)
    rows: Tensor = _Unit.apply(z, lengths[:, None])  # type: ignore[no-untyped-call]
    return rows


class _Unit(torch.autograd.Function):
    """z/‖z‖, keeping only what its gradient needs: g ↦ (g − (g·u) u)/‖z‖."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, lengths: Tensor) -> Tensor:
        rows = z / lengths
        ctx.save_for_backward(rows, lengths)
        return rows

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        rows, lengths = ctx.saved_tensors
        along = (grad * rows).sum(1, keepdim=True)
        return torch.addcmul(grad, rows, along, value=-1).div_(lengths), None


def _bad_rows(bad: Tensor, what: str, names: Sequence[str]) -> str:
    """Which rows of which part are bad, in one sentence."""
    parts = bad.chunk(len(names))
    part, name = next((p, n) for p, n in zip(parts, names, strict=True) if p.any())
    return f"{name} holds {what}: {int(part.sum())} of {len(part)} rows, the first is row {int(part.int().argmax())}."


class _Everyone:
    """The items of all processes: how many, their global ids, and which are mine."""

    def __init__(self, views: Views) -> None:
        self.views = views
        mine = [len(views[0]), len(views), views[0].shape[1], views[0].dtype.itemsize]
        shapes = world.everyone(mine, views[0].device)
        for what, column in (("views", 1), ("numbers in an embedding", 2), ("bytes in a number", 3)):
            seen = [shape[column] for shape in shapes]
            if len(set(seen)) > 1:  # they would wait for each other for ever
                raise ValueError(f"every process must bring as many {what} as the others; they bring {seen}.")
        self.counts = [shape[0] for shape in shapes]
        self.total = sum(self.counts)

    @functools.cached_property
    def all(self) -> Tensor:
        return torch.arange(self.total, device=self.views[0].device)

    @functools.cached_property
    def mine(self) -> Tensor:
        start = sum(self.counts[: world.rank()])
        return torch.arange(start, start + len(self.views[0]), device=self.views[0].device)


def _at_home() -> bool:
    """Whether the candidates are this process's own: it is alone, or the others' visit."""
    return world.size() == 1 or world.by_ring()


def _visitors(*mine: Tensor) -> world.Ring | None:
    """What this process sends around, and who comes in exchange; None: nobody does."""
    return world.Ring(mine[0] if len(mine) == 1 else torch.cat(mine)) if world.by_ring() else None


def _rows(mine: Tensor) -> Tensor:
    """Those that every query sees at once: one's own where the others' visit, else everyone's."""
    return mine if _at_home() else world.gather(mine)


def _ids(everyone: _Everyone) -> Tensor:
    """The items of `_rows`."""
    return everyone.mine if _at_home() else everyone.all


def _batch(views: Views) -> tuple[int, _Everyone]:
    everyone = _Everyone(views)
    if everyone.total < 2:
        raise ValueError(f"a batch needs at least 2 items to have a negative, got {everyone.total}. Use a larger one.")
    return len(views[0]), everyone


def _positives(views: Views) -> list[Tensor]:
    """For each view the (N, V−1) similarities of its items to their other views."""
    between = {(a, b): (views[a] * views[b]).sum(1) for a, b in combinations(range(len(views)), 2)}
    return [
        torch.stack([between[min(a, b), max(a, b)] for b in range(len(views)) if b != a], 1) for a in range(len(views))
    ]


def _one_way(queries: Tensor, keys: Tensor, positive: Tensor, everyone: _Everyone, view: int) -> Pairs:
    hidden = Periodic(len(queries)) if _at_home() else Same(everyone.mine, everyone.all)
    visitors = _visitors(keys)
    return Pairs(queries, _rows(keys), positive, hidden, everyone.total - 1, (view,), visitors=visitors)


def _matrix(z: Tensor, name: str) -> Tensor:
    if not isinstance(z, Tensor):
        raise TypeError(f"{name} must be a tensor of shape (N, D), got {type(z).__name__}.")
    if z.ndim != 2:
        labels = " Labels go to SupConLoss." if z.ndim == 1 and not z.is_floating_point() else ""
        raise ValueError(f"{name} must have shape (N, D), one row per item; got {tuple(z.shape)}.{labels}")
    return z


def _like(rows: Tensor, queries: Tensor, name: str) -> Tensor:
    """Candidates from elsewhere: as wide as the queries, on their device, in their precision."""
    _matrix(rows, name)
    if len(rows) == 0:
        raise ValueError(f"{name} holds no rows.")
    if rows.shape[1] != queries.shape[1]:
        raise ValueError(f"{name} has width {rows.shape[1]}, the queries have {queries.shape[1]}.")
    if rows.device != queries.device:
        raise ValueError(f"{name} is on {rows.device}, the queries are on {queries.device}.")
    if rows.is_floating_point() and torch.promote_types(rows.dtype, torch.float32) != queries.dtype:
        raise ValueError(f"{name} is {rows.dtype}, the queries are {queries.dtype}; convert one of them.")
    return rows
