r"""What may be said about a row of similarities in one pass: three sums and their exact gradients.

================  ==============================================  ==========================================
reduction         value for query i                               dL/df of entry (i, j), given g_i = dL/dvalue
================  ==============================================  ==========================================
`LogSumExp`       log Σ_j e^{E(s_ij)}                             E: g_i p_ij
`Expectation`     Σ_j p_ij w(s_ij),  p_ij = e^{E_ij} / Σ_k e^E    w: g_i p_ij;  E: g_i p_ij (w_ij − value_i)
`Total`           Σ_j w(s_ij)                                     w: g_i
================  ==============================================  ==========================================

A tile of a symmetric matrix is seen from two *sides*: its rows (summed along dimension 1) and its
columns (along dimension 0). A side says where its queries lie in the vectors of sums.

Exponents need care. While ``|E| ≤ bound`` fits the float type, e^E is summed as it is and one
exponential serves both sides (`fixed`); otherwise every query keeps a running maximum.

Tiles are large and many, so everything is written into buffers that outlive the tile (`Scratch`). The
similarities a reduction is given are its own copy and may be overwritten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from isotherm.engine.elementwise import Elementwise, Linear, Pull
from isotherm.engine.masks import Mask
from isotherm.engine.scratch import Scratch


class Side(NamedTuple):
    """A tile seen from its rows or from its columns."""

    dim: int
    """The dimension that is summed away."""
    at: slice | Tensor
    """Where the queries of this side lie."""
    near: Tensor | None = None
    """In the backward pass: 1 where an entry is among the query's nearest, else 0; None: all count."""


Hide = Callable[[Tensor, float], None]
"""Overwrites what does not count in a tile."""

SIMILARITY = Linear()
"""The similarity itself."""
LOWEST = -1e30  # where a running maximum starts: finite, so that LOWEST − LOWEST is 0 and not NaN


@dataclass
class Sums:
    """The vectors one reduction fills: a running maximum (0 while fixed), Σ e^{E−top}, Σ w e^{E−top}."""

    top: Tensor
    mass: Tensor
    moment: Tensor

    @classmethod
    def start(cls, size: int, like: Tensor, fixed: bool) -> Sums:
        top = like.new_zeros(size) if fixed else like.new_full((size,), LOWEST)
        return cls(top, like.new_zeros(size), like.new_zeros(size))

    def put(self, at: slice | Tensor, other: Sums) -> None:
        """Take these queries' sums from `other`."""
        self.top[at], self.mass[at], self.moment[at] = other.top, other.mass, other.moment

    @property
    def log_mass(self) -> Tensor:
        return self.top + self.mass.log()


@dataclass(frozen=True)
class Gradient:
    """What the backward pass of one reduction needs of every query."""

    upstream: Tensor
    log_mass: Tensor
    value: Tensor
    fixed: bool
    weight: Tensor = field(init=False)  # g_i / Σ_k e^{E_ik}; read only while fixed, where it is finite

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", self.upstream * torch.exp(-self.log_mass))


class Reduction(Protocol):
    """A sum over each query's candidates, filled tile by tile."""

    @property
    def where(self) -> Mask | None:
        """Overrides the pairing's mask."""

    @property
    def functions(self) -> tuple[Elementwise, ...]:
        """What gradients flow through, in the order of `pull`."""

    @property
    def constants(self) -> tuple[Elementwise, ...]:
        """What is evaluated in both passes and no gradient flows through."""

    @property
    def exponent_bound(self) -> float:
        """The largest |E| that is exponentiated."""

    def add(self, sums: Sums, s: Tensor, sides: Sequence[Side], hide: Hide, fixed: bool, scratch: Scratch) -> None:
        """Add one tile to the sums of its queries."""

    def value(self, sums: Sums) -> Tensor:
        """The reduction, when all tiles are in."""

    def pull(
        self, s: Tensor, sides: Sequence[Side], hide: Hide, gradient: Gradient, scratch: Scratch
    ) -> list[tuple[Tensor, Pull]]:
        """dL/df of one tile for each function f, with f's pull."""


def _exponentials(
    energy: Tensor, sums: Sums, sides: Sequence[Side], hide: Hide, fixed: bool, scratch: Scratch
) -> Iterator[tuple[int, slice | Tensor, Tensor]]:
    """e^{E − top} for each side; while fixed it is one tensor for both. Overwrites `energy`."""
    if fixed:
        hide(energy.exp_(), 0.0)
        for dim, at, _ in sides:
            yield dim, at, energy
        return
    hide(energy, -torch.inf)
    for dim, at, _ in sides:
        top = torch.maximum(sums.top[at], energy.amax(dim))
        shrink = (sums.top[at] - top).exp_()
        sums.mass[at].mul_(shrink)
        sums.moment[at].mul_(shrink)
        sums.top[at].copy_(top)
        e = scratch.take("exponential", energy.shape)
        yield dim, at, torch.sub(energy, top.unsqueeze(dim), out=e).exp_()


def _probabilities(
    energy: Tensor, sides: Sequence[Side], hide: Hide, gradient: Gradient, scratch: Scratch
) -> Iterator[tuple[int, slice | Tensor, Tensor]]:
    """g_i p_ij of each side, when e^E itself would overflow. Overwrites `energy`."""
    hide(energy, -torch.inf)
    for dim, at, near in sides:
        p = scratch.take("exponential", energy.shape)
        torch.sub(energy, gradient.log_mass[at].unsqueeze(dim), out=p)
        if near is not None:  # what does not count may overflow
            p.masked_fill_(near == 0, -torch.inf)
        yield dim, at, p.exp_().mul_(gradient.upstream[at].unsqueeze(dim))


def _spread(vector: Tensor, sides: Sequence[Side], out: Tensor) -> Tensor:
    """`vector` laid along the tile, summed over its sides: v_i for one side, v_i + v_j for both, where they count."""
    parts = [vector[at].unsqueeze(dim) for dim, at, _ in sides]
    masks = [side.near for side in sides if side.near is not None]
    if masks:
        torch.mul(masks[0], parts[0], out=out)
        return out if len(parts) == 1 else out.addcmul_(masks[1], parts[1])
    if len(parts) == 1:
        return out.copy_(parts[0].expand_as(out))
    return torch.add(parts[0], parts[1], out=out)


@dataclass(frozen=True)
class LogSumExp:
    """log Σ_j e^{E(s_ij)}, the soft maximum of an energy."""

    energy: Elementwise
    where: Mask | None = None
    constants: tuple[Elementwise, ...] = ()

    @property
    def functions(self) -> tuple[Elementwise, ...]:
        return (self.energy,)

    @property
    def exponent_bound(self) -> float:
        return self.energy.bound

    def add(self, sums: Sums, s: Tensor, sides: Sequence[Side], hide: Hide, fixed: bool, scratch: Scratch) -> None:
        energy, _ = self.energy.on_tile(s, s, scratch)
        for dim, at, e in _exponentials(energy, sums, sides, hide, fixed, scratch):
            sums.mass[at].add_(e.sum(dim))

    def value(self, sums: Sums) -> Tensor:
        return sums.log_mass

    def pull(
        self, s: Tensor, sides: Sequence[Side], hide: Hide, gradient: Gradient, scratch: Scratch
    ) -> list[tuple[Tensor, Pull]]:
        energy, pull = self.energy.on_tile(s, s, scratch)
        de = scratch.take("de", s.shape)
        if gradient.fixed:
            hide(energy.exp_(), 0.0)
            return [(_spread(gradient.weight, sides, out=de).mul_(energy), pull)]
        de.zero_()
        for _, _, p in _probabilities(energy, sides, hide, gradient, scratch):
            de += p
        return [(de, pull)]


@dataclass(frozen=True)
class Expectation:
    """Σ_j p_ij w(s_ij): the mean of w under the softmax p of an energy.

    With `detach_weights` the softmax is a constant for the gradient.
    """

    energy: Elementwise
    of: Elementwise
    detach_weights: bool = False
    where: Mask | None = None

    @property
    def functions(self) -> tuple[Elementwise, ...]:
        return (self.of,) if self.detach_weights else (self.of, self.energy)

    @property
    def constants(self) -> tuple[Elementwise, ...]:
        return (self.energy,) if self.detach_weights else ()

    @property
    def exponent_bound(self) -> float:
        return self.energy.bound

    def add(self, sums: Sums, s: Tensor, sides: Sequence[Side], hide: Hide, fixed: bool, scratch: Scratch) -> None:
        energy, _ = self.energy.on_tile(s, scratch.take("energy", s.shape), scratch)
        w, _ = self.of.on_tile(s, s, scratch)
        product = scratch.take("product", s.shape)
        last = None
        for dim, at, e in _exponentials(energy, sums, sides, hide, fixed, scratch):
            sums.mass[at].add_(e.sum(dim))
            if last is None or not fixed:
                last = torch.mul(e, w, out=product)
            sums.moment[at].add_(last.sum(dim))

    def value(self, sums: Sums) -> Tensor:
        return sums.moment / sums.mass

    def pull(
        self, s: Tensor, sides: Sequence[Side], hide: Hide, gradient: Gradient, scratch: Scratch
    ) -> list[tuple[Tensor, Pull]]:
        energy, pull_energy = self.energy.on_tile(s, scratch.take("energy", s.shape), scratch)
        w, pull_w = self.of.on_tile(s, s, scratch)
        dw, de = scratch.take("dw", s.shape), scratch.take("de", s.shape)
        if gradient.fixed:
            hide(energy.exp_(), 0.0)
            _spread(gradient.weight, sides, out=dw).mul_(energy)
            if not self.detach_weights:
                _spread(gradient.weight * -gradient.value, sides, out=de).mul_(energy).addcmul_(dw, w)
        else:
            dw.zero_()
            de.zero_()
            for dim, at, p in _probabilities(energy, sides, hide, gradient, scratch):
                dw += p
                de.addcmul_(p, w).addcmul_(p, gradient.value[at].unsqueeze(dim), value=-1)
        return [(dw, pull_w)] if self.detach_weights else [(dw, pull_w), (de, pull_energy)]


@dataclass(frozen=True)
class Total:
    """Σ_j w(s_ij), a plain sum."""

    of: Elementwise = SIMILARITY
    where: Mask | None = None
    exponent_bound: float = 0.0
    constants: tuple[Elementwise, ...] = ()

    @property
    def functions(self) -> tuple[Elementwise, ...]:
        return (self.of,)

    def add(self, sums: Sums, s: Tensor, sides: Sequence[Side], hide: Hide, fixed: bool, scratch: Scratch) -> None:
        w, _ = self.of.on_tile(s, s, scratch)
        hide(w, 0.0)
        for dim, at, _ in sides:
            sums.moment[at].add_(w.sum(dim))

    def value(self, sums: Sums) -> Tensor:
        return sums.moment

    def pull(
        self, s: Tensor, sides: Sequence[Side], hide: Hide, gradient: Gradient, scratch: Scratch
    ) -> list[tuple[Tensor, Pull]]:
        _, pull = self.of.on_tile(s, s, scratch)
        dw = _spread(gradient.upstream, sides, out=scratch.take("dw", s.shape))
        hide(dw, 0.0)
        return [(dw, pull)]
