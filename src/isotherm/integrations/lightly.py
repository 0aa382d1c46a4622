"""Losses with the names, settings and calls of lightly's: change the import and nothing else.

Values and gradients are lightly's in one process. In several, the negatives are always everyone's and the gradient is
that of one process, whatever `gather_distributed` says (docs/guides/multi-gpu-gradients.md). lightly is not imported.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from isotherm import nn
from isotherm.momentum import Queue

__all__ = ["BarlowTwinsLoss", "DCLLoss", "DCLWLoss", "NTXentLoss", "VICRegLoss"]


class NTXentLoss(nn.NTXentLoss):
    """`lightly.loss.NTXentLoss`: `isotherm.nn.NTXentLoss`, with a `Queue` where a memory bank is asked for.

    `memory_bank_size` is (keys, width); the bank takes view 1 after every call that trains. Unlike lightly's, it is
    part of the `state_dict`.
    """

    def __init__(
        self,
        temperature: float = 0.5,
        memory_bank_size: int | Sequence[int] = 0,
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(temperature)
        self.memory_bank_size, self.gather_distributed = memory_bank_size, gather_distributed
        self.memory_bank: Queue | None = None
        if isinstance(memory_bank_size, int):
            if memory_bank_size:
                raise ValueError(f"memory_bank_size is (keys, width), such as ({memory_bank_size}, 128); got no width.")
        else:
            size, width = memory_bank_size
            self.memory_bank = Queue(size, width)

    def forward(self, out0: Tensor, out1: Tensor) -> Tensor:  # type: ignore[override]
        """The loss of two views; with a bank, view 0 asks and view 1 answers."""
        if self.memory_bank is None:
            return super().forward(out0, out1)
        value = super().forward(out0, out1, negatives=self.memory_bank.keys.to(out0.device))
        if out0.requires_grad:
            self.memory_bank.push(out1)
        return value


class DCLLoss(nn.DCLLoss):
    """`lightly.loss.DCLLoss`: `isotherm.nn.DCLLoss`. Of weights there is `DCLWLoss`."""

    def __init__(
        self, temperature: float = 0.1, weight_fn: object | None = None, gather_distributed: bool = False
    ) -> None:
        if weight_fn is not None:
            raise ValueError("weight_fn is not taken; DCLWLoss has the paper's weights (negative von Mises–Fisher).")
        super().__init__(temperature)
        self.weight_fn, self.gather_distributed = weight_fn, gather_distributed


class DCLWLoss(nn.DCLWLoss):
    """`lightly.loss.DCLWLoss`: `isotherm.nn.DCLWLoss`."""

    def __init__(self, temperature: float = 0.1, sigma: float = 0.5, gather_distributed: bool = False) -> None:
        super().__init__(temperature, sigma)
        self.gather_distributed = gather_distributed


class BarlowTwinsLoss(nn.BarlowTwinsLoss):
    """`lightly.loss.BarlowTwinsLoss`: `isotherm.nn.BarlowTwinsLoss`."""

    def __init__(self, lambda_param: float = 5e-3, gather_distributed: bool = False) -> None:
        super().__init__(lambda_param)
        self.lambda_param, self.gather_distributed = lambda_param, gather_distributed


class VICRegLoss(nn.VICRegLoss):
    """`lightly.loss.VICRegLoss`: `isotherm.nn.VICRegLoss`."""

    def __init__(
        self,
        lambda_param: float = 25.0,
        mu_param: float = 25.0,
        nu_param: float = 1.0,
        gather_distributed: bool = False,
        eps: float = 0.0001,
    ) -> None:
        if eps != 0.0001:
            raise ValueError(f"eps is 0.0001, as in the paper; got {eps}.")
        super().__init__(lambda_param, mu_param, nu_param)
        self.lambda_param, self.mu_param, self.nu_param = lambda_param, mu_param, nu_param
        self.gather_distributed, self.eps = gather_distributed, eps
