"""What the kernels are asked to do: functions, masks and reductions of the engine as they take them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import triton
from torch import Tensor

from isotherm.engine.device import functions
from isotherm.engine.device.blocks import WIDEST_ROW, precision
from isotherm.engine.elementwise import Elementwise, OnDevice
from isotherm.engine.masks import Mask, Nothing, Periodic, Same, Unlike
from isotherm.engine.reductions import SIMILARITY, Expectation, LogSumExp, Reduction, Total
from isotherm.types import Pairs

KINDS: dict[type, int] = {LogSumExp: 0, Expectation: 1, Total: 2}


@dataclass(frozen=True)
class Function:
    """A function of one similarity, as the kernels take it."""

    code: Callable[..., object]
    gives: int
    numbers: Tensor
    learned: bool

    @classmethod
    def of(cls, f: Elementwise, device: torch.device) -> Function | None:
        described: OnDevice | None = getattr(f, "on_device", lambda: None)()
        if described is None:
            return None
        code = functions.BY_NAME[described.code] if isinstance(described.code, str) else described.code
        numbers = described.numbers
        if isinstance(numbers, Tensor):
            learned = numbers.requires_grad
            return cls(code, functions.SHAPES[described.gives], numbers.to(torch.float32), learned)
        return cls(code, functions.SHAPES[described.gives], _on(device, tuple(map(float, numbers))), False)


@functools.lru_cache(maxsize=64)
def _on(device: torch.device, numbers: tuple[float, ...]) -> Tensor:
    with torch.inference_mode(False):
        return torch.tensor((*numbers, *(0.0,) * (5 - len(numbers))), dtype=torch.float32, device=device)


@dataclass(frozen=True, eq=False)
class Hidden:
    """A mask as the kernels take it."""

    period: int | None = None
    items: tuple[Tensor, Tensor] | None = None
    """Of the rows and of the columns; hidden where equal."""
    labels: tuple[Tensor, Tensor] | None = None
    """Hidden where different."""

    @classmethod
    def of(cls, mask: Mask) -> Hidden | None:
        if isinstance(mask, Nothing):
            return cls()
        if isinstance(mask, Periodic):
            return cls(period=mask.period)
        if isinstance(mask, Same):
            return cls(items=(mask.row_ids.contiguous(), mask.col_ids.contiguous()))
        itself = cls.of(mask.itself) if isinstance(mask, Unlike) else None
        if not isinstance(mask, Unlike) or itself is None:
            return None
        labels = (mask.labels.row_ids.contiguous(), mask.labels.col_ids.contiguous())
        return cls(itself.period, itself.items, labels)

    @property
    def flags(self) -> dict[str, bool]:
        return {
            "PERIODIC": self.period is not None,
            "SAME": self.items is not None,
            "UNLIKE": self.labels is not None,
        }

    def tensors(self, like: Tensor, flip: bool) -> tuple[Tensor, ...]:
        nobody = like.new_zeros(1, dtype=torch.int64)
        pairs = [pair or (nobody, nobody) for pair in (self.items, self.labels)]
        return tuple(t for pair in pairs for t in (pair[::-1] if flip else pair))


@dataclass(frozen=True, eq=False)
class Job:
    """One reduction that the kernels can do."""

    reduction: Reduction
    energy: Function
    weight: Function
    hidden: Hidden
    symmetric: bool
    mutual: bool
    top_k: int | None
    width: int
    precision: str

    @property
    def kind(self) -> int:
        return KINDS[type(self.reduction)]

    @property
    def detach(self) -> bool:
        return bool(getattr(self.reduction, "detach_weights", False))

    @property
    def learn(self) -> int:
        """Which function has a learnable number: 1 the energy, 2 the weight, 0 none."""
        return 1 if self.energy.learned and not self.detach else 2 if self.weight.learned else 0

    @property
    def scale(self) -> Tensor | None:
        """The learnable number."""
        return (None, self.energy.numbers, self.weight.numbers)[self.learn]

    @property
    def key(self) -> tuple[object, ...]:
        """What another compilation is needed for."""
        shape = (self.symmetric, self.mutual, self.top_k is None, triton.next_power_of_2(self.width), self.precision)
        what = tuple((f.code, f.gives, f.learned) for f in (self.energy, self.weight))
        return (self.kind, self.detach, what, tuple(self.hidden.flags.values()), shape)

    @property
    def constants(self) -> dict[str, Any]:
        return {
            "ENERGY": self.energy.code,
            "ESHAPE": self.energy.gives,
            "WEIGHT": self.weight.code,
            "WSHAPE": self.weight.gives,
            "KIND": self.kind,
            **self.hidden.flags,
        }

    @property
    def numbers(self) -> tuple[Tensor, Tensor]:
        """Of the energy and of the weight."""
        return self.energy.numbers.detach(), self.weight.numbers.detach()


def plan(pairs: Pairs, reduction: Reduction, top_k: int | None) -> Job | None:
    """The job of the kernels; None where they do not know a function or a mask."""
    device, columns = pairs.queries.device, len(pairs.queries if pairs.candidates is None else pairs.candidates)
    hidden = Hidden.of(pairs.hidden if top_k is not None else reduction.where or pairs.hidden)
    energy = Function.of(getattr(reduction, "energy", SIMILARITY), device)
    weight = Function.of(getattr(reduction, "of", SIMILARITY), device)
    if type(reduction) not in KINDS or hidden is None or energy is None or weight is None:
        return None
    if (energy.learned and weight.learned) or (top_k is not None and columns > WIDEST_ROW):
        return None
    width = pairs.queries.shape[1]
    how = precision(device)
    return Job(reduction, energy, weight, hidden, pairs.candidates is None, pairs.mutual, top_k, width, how)
