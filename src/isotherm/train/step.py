"""One step of training: the gradient of a batch, whole or in parts, and what happens when it is not finite.

A step is a pure function of the state and (seed, step): the batch and its views, the learning rate, the random numbers
of the network.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from isotherm import world
from isotherm.train.schedule import Schedule
from isotherm.train.state import State
from isotherm.types import Batch


class Step(NamedTuple):
    """What a step did."""

    loss: float | None
    """None: it was skipped."""
    similarity: float
    """How alike the embeddings of different items are."""


class NotFinite(Exception):
    """The loss or a gradient is not finite; nothing was changed."""

    def __init__(self, loss: float) -> None:
        super().__init__(f"a loss of {loss}")
        self.loss = loss


class Stepper:
    """Takes one step after another with the state of a run."""

    def __init__(self, fabric: Any, state: State, schedule: Schedule, channels_last: bool) -> None:
        self.fabric, self.state, self.schedule, self.channels_last = fabric, state, schedule, channels_last
        self.config, self.device = state.config, fabric.device
        self.optimizer = fabric.setup_optimizers(state.optimizer)
        self.learning = [p for p in state.method.parameters() if p.requires_grad]
        self.lr = 0.0

    def advance(self, batch: Batch) -> Step:
        """One step; raises `NotFinite` where the run is to stop at one that is not."""
        state, method, config = self.state, self.state.method, self.config
        batch = self._laid_out(batch)
        seed_chance(((config.seed * 1_000_003 + state.step) * 1009 + world.rank()) % (1 << 63), self.device)
        self.lr = self.schedule.rate(state.step)
        for group in state.optimizer.param_groups:
            group["lr"] = self.lr
        method.at(state.step, self.schedule.steps, self.schedule.epoch_steps)
        self.optimizer.zero_grad()
        counted = statistics(method) if config.nonfinite == "skip" else []
        value, alike = self._gradients(batch)
        good = not world.any_of(not math.isfinite(value), self.device)
        if good:
            world.average_gradients(self.learning)
            if config.clip is not None:
                self.fabric.clip_gradients(method, self.optimizer, max_norm=config.clip, error_if_nonfinite=False)
            good = self._finite_gradients()
        if good:
            self._update()
        elif config.nonfinite == "stop":
            raise NotFinite(value)
        else:
            state.skipped += 1
            for buffer, before in counted:
                buffer.copy_(before)
        state.step += 1
        return Step(value if good else None, alike)

    def _laid_out(self, batch: Batch) -> Batch:
        """The views in the precision and memory order of the network."""
        if self.config.precision == "64-true":
            batch = batch._replace(views=[v.double() if v.is_floating_point() else v for v in batch.views])
        if self.channels_last and batch.views[0].ndim == 4:
            batch = batch._replace(views=[_by_channels(v) for v in batch.views])
        return batch

    def _update(self) -> None:
        """Move the weights, and whatever follows them."""
        self.optimizer.step()
        self.state.method.after_step()
        if self.state.average is not None:
            self.state.average.follow(self.state.method.network)
            copy_buffers(self.state.average.network, self.state.method.network)

    def _gradients(self, batch: Batch) -> tuple[float, float]:
        """Backward through the whole batch, in one go or in parts; the loss and the mean similarity."""
        if self.config.parts > 1:
            return self._gradients_in_parts(batch)
        method = self.state.method
        with self.fabric.autocast():
            embedded, targets = method.embed(batch), method.targets(batch)
            if self._not_finite([*embedded, *targets]):
                return float("nan"), 0.0
            value = method.objective(embedded, targets, batch)
        self.fabric.backward(value)
        return float(value.detach()), similarity(embedded)

    def _gradients_in_parts(self, batch: Batch) -> tuple[float, float]:
        """Embed each part, compare all of them at once, and embed each again for its gradient."""
        method = self.state.method
        pieces = split(batch, self.config.parts)
        states, first = [], []
        with self.fabric.autocast():
            with torch.no_grad(), still(method):
                for piece in pieces:
                    states.append(chance(self.device))
                    first.append(method.embed(piece))
            targets = _joined([method.targets(piece) for piece in pieces])
            whole = [z.detach().requires_grad_() for z in _joined(first)]
            if self._not_finite([*whole, *targets]):
                return float("nan"), 0.0
            value = method.objective(whole, targets, batch)
        self.fabric.backward(value)
        slopes = [torch.zeros_like(z) if z.grad is None else z.grad for z in whole]
        after = chance(self.device)
        counts = [len(piece.indices) for piece in pieces]
        for i, piece in enumerate(pieces):
            take_chance(states[i], self.device)
            with self.fabric.autocast():
                again = method.embed(piece)
            pairs = [(z, s.split(counts)[i]) for z, s in zip(again, slopes, strict=True) if z.requires_grad]
            torch.autograd.backward([z for z, _ in pairs], [s for _, s in pairs])
        take_chance(after, self.device)
        return float(value.detach()), similarity(whole)

    def _not_finite(self, embedded: Sequence[Tensor]) -> bool:
        """Whether any process has an embedding that is not: all must know before they compare."""
        return world.any_of(not all(bool(torch.isfinite(z.detach()).all()) for z in embedded), self.device)

    def _finite_gradients(self) -> bool:
        """Whether the gradients, which are everyone's mean, are finite. Under 16-mixed the scaler sees to them."""
        grads = [p.grad for p in self.learning if p.grad is not None]
        if self.config.precision == "16-mixed" or not grads:
            return True
        return bool(torch.isfinite(torch.stack(torch._foreach_norm(grads)).sum()))


def similarity(embedded: Sequence[Tensor]) -> float:
    """The mean similarity of two different items of this process's batch: 1 when everything has collapsed."""
    z = embedded[0].detach()
    if z.ndim != 2 or len(z) < 2:
        return 0.0
    z = nn.functional.normalize(z.float(), dim=1)
    n = len(z)
    return float((z.sum(0).square().sum() - n) / (n * (n - 1)))


def split(batch: Batch, parts: int) -> list[Batch]:
    """The batch in parts of items, with all views of each."""
    views = [v.tensor_split(parts) for v in batch.views]
    return [
        batch._replace(views=[v[i] for v in views], labels=labels, indices=indices)
        for i, (labels, indices) in enumerate(
            zip(batch.labels.tensor_split(parts), batch.indices.tensor_split(parts), strict=True)
        )
    ]


def _by_channels(view: Tensor) -> Tensor:
    """Images with channels last; tokens and features as they are."""
    return view.contiguous(memory_format=torch.channels_last) if view.ndim == 4 else view


def _joined(parts: Sequence[Sequence[Tensor]]) -> list[Tensor]:
    return [torch.cat(list(column)) for column in zip(*parts, strict=True)]


def seed_chance(seed: int, device: torch.device) -> None:
    """`torch.manual_seed` for the processor and this device alone.

    That one writes down where it was called from for every kind of device, which takes 3 ms: a fifth of a small step.
    """
    torch.default_generator.manual_seed(seed)
    if device.type != "cpu":
        torch.get_device_module(device).manual_seed(seed)


def chance(device: torch.device) -> list[Tensor]:
    """Where the random numbers of the processor and of the device are."""
    here = [torch.get_rng_state()]
    return [*here, torch.cuda.get_rng_state(device)] if device.type == "cuda" else here


def take_chance(state: Sequence[Tensor], device: torch.device) -> None:
    torch.set_rng_state(state[0])
    if device.type == "cuda":
        torch.cuda.set_rng_state(state[1], device)


@contextmanager
def still(module: nn.Module) -> Iterator[None]:
    """BN counts nothing: this pass will be made again."""
    norms = [(m, m.momentum) for m in module.modules() if isinstance(m, _BatchNorm) and m.momentum is not None]
    for m, _ in norms:
        m.momentum = 0.0
    try:
        yield
    finally:
        for m, momentum in norms:
            m.momentum = momentum


def statistics(module: nn.Module) -> list[tuple[Tensor, Tensor]]:
    """What BN has counted, and a copy: a step that is skipped must leave no trace."""
    norms = [m for m in module.modules() if isinstance(m, _BatchNorm)]
    return [(b, b.clone()) for m in norms for b in m.buffers()]


@torch.no_grad()
def copy_buffers(to: nn.Module, of: nn.Module) -> None:
    for a, b in zip(to.buffers(), of.buffers(), strict=True):
        a.copy_(b)
