"""The few values that flow between the modules. No logic lives here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from torch import Tensor

if TYPE_CHECKING:
    from isotherm.engine.masks import Mask

Reduction = Literal["mean", "sum", "none"]
"""One number for the batch, or one per query (view-major: all of view 0, then view 1, …)."""

TemperatureLike = float | Tensor | Callable[[Tensor], Tensor]
"""A number, a learnable scalar, an `isotherm.temperature` object, or any function s ↦ τ(s)."""


class Batch(NamedTuple):
    """What the loader deals out: ``for views, labels, indices in loader.epoch(0)``."""

    views: list[Tensor]
    """One float (N, C, H, W) tensor per view."""
    labels: Tensor
    """(N,)"""
    indices: Tensor
    """(N,): the images' indices in their set."""


class Visitors(Protocol):
    """Candidates of other processes, which come block by block (`isotherm.world.Ring`)."""

    rows: Tensor
    """What this process sends to the others."""

    def visit(self, rows: Tensor, see: Callable[[int, Tensor], None]) -> None: ...

    def carry(self, rows: Tensor, see: Callable[[int, Tensor, Tensor], None]) -> Tensor: ...

    def total(self, rows: Tensor) -> Tensor: ...

    def largest(self, number: Tensor) -> Tensor: ...


@dataclass(frozen=True, eq=False)
class Pairs:
    """Who is compared with whom: one block of queries against one block of candidates.

    Embeddings are unit rows. `positives` holds, for each query, the similarity to each of its positives.
    Values computed from a block come in the order of `query_views`, each view's items in batch order.
    """

    queries: Tensor
    """(n, d)"""
    candidates: Tensor | None
    """(m, d), or None: the queries are their own candidates, and the similarity matrix is symmetric."""
    positives: Tensor
    """(queries, p): similarity of each query to each of its positives."""
    hidden: Mask
    """Candidates that are not negatives of a query: itself, and its positives."""
    negatives: int
    """How many negatives each query has."""
    query_views: tuple[int, ...] = (0,)
    """Which views the queries are."""
    mutual: bool = False
    """The candidates are queries too: each similarity serves its row and its column."""
    partners: tuple[Tensor, ...] = ()
    """The positives themselves, (n, d) each, where they are at hand: exact distances need them."""
    item_views: tuple[Tensor, ...] = ()
    """Where the queries are small crops: the large views of their items, (n, d) each, which tell how it looks."""
    only_positives: Mask | None = None
    """Where positives are too many to list (labels): hides everything that is not one."""
    itself: Mask | None = None
    """With `only_positives`: hides the query itself and nothing else."""
    positive_counts: Tensor | None = None
    """With `only_positives`: how many each query has."""
    visitors: Visitors | None = None
    """Further candidates, those of other processes; `candidates` and the masks are then those of this process."""
