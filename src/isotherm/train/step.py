"""One step of training: the gradient of a batch, whole or in parts, and what happens when it is not finite.

A step is a pure function of the state and (seed, step): the batch and its views, the learning rate, the random numbers
of the network. So on a GPU steps are queued without looking at them (`isotherm.waiting`), and a `look` now and then
waits for all of them. If one was not finite, the state from before them is brought back and they are made again, one by
one and with care: what comes of it is what careful steps alone would have come to, to rounding where the temperature
is learnt.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.linalg import LinAlgError  # type: ignore[attr-defined]
from torch.nn.modules.batchnorm import _NormBase

from isotherm import world
from isotherm.gradient_cache import chance, still, take_chance
from isotherm.train.averaging import Averaging
from isotherm.train.schedule import Schedule
from isotherm.train.state import Saved, State
from isotherm.types import Batch
from isotherm.waiting import may_wait, without_waiting


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


class Again(Exception):
    """The steps since the last look are to be made again: the state is that from before them."""


class Stepper:
    """Takes one step after another with the state of a run.

    Each is looked at before the next if `careful`, else they are queued until `look`.
    """

    def __init__(self, fabric: Any, state: State, schedule: Schedule, channels_last: bool, careful: bool) -> None:
        self.fabric, self.state, self.schedule, self.channels_last = fabric, state, schedule, channels_last
        self.config, self.device = state.config, fabric.device
        self.optimizer = fabric.setup_optimizers(state.optimizer)
        self.learning = [p for p in state.method.parameters() if p.requires_grad]
        self.averaging = Averaging(self.learning)
        self.lr = 0.0
        self.careful_until = math.inf if careful else 0
        """The step before which all are looked at one by one."""
        self.taken: list[Tensor] = []
        """Of every step since the last look its loss, its similarity and whether it was good, on the device."""
        self.before: Saved | None = None
        """The state before them, if they were queued."""

    @property
    def queued(self) -> bool:
        """Whether there are steps that nobody has looked at yet."""
        return self.before is not None

    def advance(self, batch: Batch) -> None:
        """One step; raises `NotFinite` if it is taken with care and the run is to stop at one that is not."""
        if self.state.step < self.careful_until:
            self._advance(batch)
            return
        if self.before is None:
            self.before = copy.deepcopy(self.state.saved(self.fabric.strategy.precision.state_dict(), 0))
        try:
            with without_waiting():
                self._advance(batch)
        except (ValueError, LinAlgError):
            if world.size() > 1:  # the others know nothing of it
                raise
            self._go_back(self.state.step + 1)

    def look(self, *flags: bool) -> tuple[list[Step], list[bool]]:
        """Wait for the steps since the last look: what they did, and which of the flags are up on any process.

        Raises `Again` if they were queued and one was not good.
        """
        taken = torch.stack(self.taken)
        up = taken.new_zeros(len(flags))
        for i, flag in enumerate(flags):
            if flag:
                up[i].fill_(1.0)
        shared = world.largest(torch.cat([1 - taken[:, 2], up]))
        numbers: list[float] = torch.cat([taken[:, :2].flatten(), shared]).tolist()  # the one place to wait
        count = len(self.taken)
        bad = [number > 0 for number in numbers[2 * count :]]
        if self.queued and any(bad[:count]):
            self._go_back(self.state.step)
        self.before, self.taken = None, []
        pairs = zip(numbers[0 : 2 * count : 2], numbers[1 : 2 * count : 2], bad[:count], strict=True)
        return [Step(None if skipped else loss, alike) for loss, alike, skipped in pairs], bad[count:]

    def _go_back(self, until: int) -> None:
        """Bring the state from before the queued steps back, to make all up to that one again with care."""
        assert self.before is not None
        self.state.restore(self.before)
        if self.before["precision"]:
            self.fabric.strategy.precision.load_state_dict(self.before["precision"])
        self.before, self.taken, self.careful_until = None, [], until
        raise Again

    def _advance(self, batch: Batch) -> None:
        state, method, config = self.state, self.state.method, self.config
        batch = self._laid_out(batch)
        seed_chance(((config.seed * 1_000_003 + state.step) * 1009 + world.rank()) % (1 << 63), self.device)
        self.lr = self.schedule.rate(state.step)
        for group in state.optimizer.param_groups:
            group["lr"] = self.lr
        method.at(state.step, self.schedule.steps, self.schedule.epoch_steps)
        self.optimizer.zero_grad()
        counted = statistics(method) if config.nonfinite == "skip" and may_wait() else []
        with world.equal_shares(config.batch % world.size() == 0):
            value, alike = self._gradients(batch)
            good = torch.isfinite(value)
            if self._is_good(good):
                if config.clip is not None:
                    self.fabric.clip_gradients(method, self.optimizer, max_norm=config.clip, error_if_nonfinite=False)
                good = good & self._finite_gradients(value)
            if self._is_good(good):
                self._update()
            elif config.nonfinite == "stop":
                raise NotFinite(float(value))
            else:
                state.skipped += 1
                for buffer, before in counted:
                    buffer.copy_(before)
        state.step += 1
        kind = torch.promote_types(value.dtype, torch.float32)
        self.taken.append(torch.stack([number.to(kind) for number in (value, alike, good)]))

    def _is_good(self, good: Tensor) -> bool:
        """Whether to go on with a step: if nobody may look, that is seen later."""
        return not may_wait() or not world.any_of(not bool(good), self.device)

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

    def _gradients(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Everyone's mean gradient of the whole batch, in one go or in parts; the loss and the mean similarity.

        A loss of NaN without any gradient if an embedding is not finite and there is time to see that.
        """
        if self.config.parts > 1:
            return self._gradients_in_parts(batch)
        method = self.state.method
        with self.fabric.autocast():
            embedded, targets = method.embed(batch), method.targets(batch)
            if self._not_finite([*embedded, *targets]):
                return torch.full((), math.nan, device=self.device), torch.zeros((), device=self.device)
            value = method.objective(embedded, targets, batch)
        with self.averaging.during_backward():
            self.fabric.backward(value)
        return value.detach(), self._similarity(embedded)

    def _gradients_in_parts(self, batch: Batch) -> tuple[Tensor, Tensor]:
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
                return torch.full((), math.nan, device=self.device), torch.zeros((), device=self.device)
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
            with self.averaging.during_backward() if i == len(pieces) - 1 else nullcontext():
                torch.autograd.backward([z for z, _ in pairs], [s for _, s in pairs])
        take_chance(after, self.device)
        return value.detach(), self._similarity(whole)

    def _similarity(self, embedded: Sequence[Tensor]) -> Tensor:
        if self.state.method.gives_embeddings:
            return similarity(embedded)
        return embedded[0].new_zeros((), dtype=torch.float32)

    def _not_finite(self, embedded: Sequence[Tensor]) -> bool:
        """Whether any process has an embedding that is not: all must know before they compare, if there is time."""
        if not may_wait():
            return False
        return world.any_of(not all(bool(torch.isfinite(z.detach()).all()) for z in embedded), self.device)

    def _finite_gradients(self, like: Tensor) -> Tensor:
        """Whether the gradients, which are everyone's mean, are finite. Under 16-mixed the scaler sees to them."""
        grads = [p.grad for p in self.learning if p.grad is not None]
        if self.config.precision == "16-mixed" or not grads:
            return torch.ones_like(like, dtype=torch.bool)
        return torch.isfinite(torch.stack(torch._foreach_norm(grads)).sum())


def similarity(embedded: Sequence[Tensor]) -> Tensor:
    """The mean similarity of two different items of this process's batch: 1 when everything has collapsed."""
    z = embedded[0].detach()
    if z.ndim != 2 or len(z) < 2:
        return z.new_zeros((), dtype=torch.float32)
    z = nn.functional.normalize(z.float(), dim=1)
    n = len(z)
    return (z.sum(0).square().sum() - n) / (n * (n - 1))


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


def statistics(module: nn.Module) -> list[tuple[Tensor, Tensor]]:
    """What batch and instance norms have counted, and a copy: a step that is skipped must leave no trace."""
    norms = [m for m in module.modules() if isinstance(m, _NormBase)]
    return [(b, b.clone()) for m in norms for b in m.buffers()]


@torch.no_grad()
def copy_buffers(to: nn.Module, of: nn.Module) -> None:
    for a, b in zip(to.buffers(), of.buffers(), strict=True):
        a.copy_(b)
