"""The loop: every method's, on any device, in one process or many; killed anywhere, it resumes to the same weights.

A step is a pure function of the state and (seed, step): the batch and its views (`data.loader`), the learning rate, the
random numbers of the network. So a checkpoint needs no position but the step, and no generator's state.
"""

from __future__ import annotations

import copy
import ctypes
import logging
import math
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from isotherm import files, world
from isotherm.encoders.sync_batchnorm import sync_batchnorm
from isotherm.methods import Method, MomentumCopy
from isotherm.train import runs
from isotherm.train.build import Built, build, temperature_of
from isotherm.train.config import Config, Runtime
from isotherm.train.layers import differences, nested
from isotherm.train.optimizers import optimizer
from isotherm.train.progress import Progress
from isotherm.train.schedule import rate, scaled_rate
from isotherm.train.state import Metrics, save_checkpoint

COLLAPSED = 0.99
"""Mean similarity of different items above which a run is said to collapse."""
SHARE = 40
"""A checkpoint is written no sooner than after this many times the time the last one took: under 3 % of the run."""


class Stopped(Exception):
    """Asked to stop: the state is saved, and the run can be resumed."""


class Diverged(ValueError):
    """The loss or a gradient is not finite."""


@dataclass
class State:
    """What a run is made of between two steps."""

    config: Config
    built: Built
    optimizer: torch.optim.Optimizer
    average: MomentumCopy | None = None
    step: int = 0
    seconds: float = 0.0
    skipped: int = 0
    loss_sum: float = 0.0
    loss_count: int = 0
    """Over the epoch so far."""
    best: float = -1.0
    fingerprint: str = ""
    warned: bool = False
    last_save: float = field(default_factory=time.monotonic)
    save_seconds: float = 0.0

    @property
    def method(self) -> Method:
        return self.built.method

    def saved(self, precision: dict[str, Any], metrics: int) -> dict[str, Any]:
        return {
            "config": self.config.as_dict(),
            "step": self.step,
            "method": self.method.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "average": None if self.average is None else self.average.state_dict(),
            "precision": precision,
            "metrics": metrics,
            "seconds": self.seconds,
            "skipped": self.skipped,
            "loss": [self.loss_sum, float(self.loss_count)],
            "best": self.best,
            "fingerprint": self.fingerprint,
            "warned": self.warned,
            "rng": torch.get_rng_state(),
        }

    def restore(self, saved: dict[str, Any]) -> None:
        changed = differences(nested(saved["config"]), self.config.as_dict())
        if changed:
            raise ValueError(f"the checkpoint belongs to a run with other settings ({'; '.join(changed[:6])}).")
        if saved["fingerprint"] != self.fingerprint:
            raise ValueError(
                f"the items of {self.config.data} are not those this run was started with (fingerprint "
                f"{self.fingerprint} instead of {saved['fingerprint']}). Bring the old data back, or start a new run."
            )
        self.method.load_state_dict(saved["method"])
        self.optimizer.load_state_dict(saved["optimizer"] if "optimizer" in saved else saved["optimiser"])
        if self.average is not None:
            self.average.load_state_dict(saved["average"])
        self.step, self.seconds, self.skipped = saved["step"], saved["seconds"], saved["skipped"]
        self.loss_sum, self.loss_count = saved["loss"][0], int(saved["loss"][1])
        self.best, self.warned = saved["best"], saved["warned"]


def train(config: Config, place: Runtime) -> dict[str, Any]:
    """Run a configuration to its end in ``place.out`` and give its result."""
    if place.out is None:
        raise ValueError("a run needs a folder: --out DIR.")
    keep_freed_memory()
    fabric = fabric_for(config, place)
    finished = None
    problem: Exception | None = None
    if world.rank() == 0:  # the others find the folder as it leaves it
        try:
            finished = runs.prepare(place.out, config, place.resume)
        except (ValueError, OSError) as error:
            problem = error
    if world.any_of(problem is not None, fabric.device):
        raise problem or ValueError("the first process could not start; it says why.")
    if world.any_of(finished is not None, fabric.device):
        return finished or {}
    with runs.alone(place.out) if world.rank() == 0 else nullcontext():
        return Run(fabric, config, place).to_the_end()


class Run:
    """One run on one process."""

    def __init__(self, fabric: Any, config: Config, place: Runtime) -> None:
        assert place.out is not None
        self.fabric, self.config, self.place, self.out = fabric, config, place, place.out
        self.device: torch.device = fabric.device
        self.leader = world.rank() == 0
        built = build(config, self.out)
        if world.size() > 1 and config.sync_bn:
            sync_batchnorm(built.method)
        on_processor = self.device.type == "cpu"  # where convolutions are a third faster so
        self.last = on_processor if place.channels_last is None else place.channels_last
        layout: Any = {"memory_format": torch.channels_last} if self.last else {}
        built.method.to(self.device, **layout)
        if config.precision == "64-true":
            built.method.double()
        peak = scaled_rate(config.lr, config.batch, config.lr_scaling)
        made = optimizer(
            config.optimizer,
            built.method,
            peak,
            config.momentum,
            config.weight_decay,
            config.decay_all,
            config.nesterov,
        )
        average = None if config.ema is None else MomentumCopy(built.method.network, config.ema)
        self.state = State(config, built, made, average, fingerprint=built.material.fingerprint())
        self.loader = built.material.loader(built.method.network, self.device, place.prefetch)
        if config.batch // world.size() < 2 * config.parts and config.parts > 1:
            raise ValueError(f"a batch of {config.batch} on {world.size()} processes cannot be cut in {config.parts}.")
        self.steps = config.epochs * len(self.loader)
        self.peak = peak
        self.learning = [p for p in built.method.parameters() if p.requires_grad]
        self.stepper = fabric.setup_optimizers(made)
        saved = runs.last_checkpoint(self.out)
        length = 0
        self.saved_step = -1
        if saved is not None:
            self.state.restore(saved)
            self.saved_step = self.state.step
            self._restore_precision(saved["precision"])
            length = saved["metrics"]
        if place.compile:
            built.method.network.compile()
        self.progress = Progress(self.steps, len(self.loader), config, place, self.leader, self.state.step)
        self.metrics = Metrics(self.out / runs.METRICS, length) if self.leader else None
        self.asked_to_stop: str | None = None

    def to_the_end(self) -> dict[str, Any]:
        began = time.monotonic()
        before = self.state.seconds
        self.state.method.train()
        with self._listening(), self.progress, self.closing():
            for line in self.state.built.material.notes:
                self.progress.tell(line)
            for epoch in range(self.state.step // len(self.loader), self.config.epochs):
                self._epoch(epoch, began, before)
            self.state.seconds = before + time.monotonic() - began
            if self.saved_step != self.state.step:
                self._save()
            self.progress.note("measuring the result")
            result = self._finish()
        world.wait()
        return result

    @contextmanager
    def closing(self) -> Iterator[None]:
        """Close the file of metrics at the end, whatever comes."""
        try:
            yield
        finally:
            if self.metrics is not None:
                self.metrics.close()

    def _epoch(self, epoch: int, began: float, before: float) -> None:
        state, each = self.state, len(self.loader)
        tau = self.state.built.tau
        if tau is not None and state.method.loss is not None:
            state.method.loss.temperature = tau.at(epoch)
        for batch in self.loader.epoch(epoch, state.step - epoch * each):
            value, alike = self.advance(batch)
            state.seconds = before + time.monotonic() - began
            if value is not None:
                state.loss_sum, state.loss_count = state.loss_sum + value, state.loss_count + 1
            self.progress.step(state.step, value, alike)
            if state.step % self.place.log_every == 0 and value is not None:
                self._record({"step": state.step, "loss": value, "lr": self.lr, "similarity": alike})
            if state.step == (epoch + 1) * each:
                self._end_of_epoch(epoch)
            self._maybe_save()

    def advance(self, batch: Any) -> tuple[float | None, float]:
        """One step; its loss, or None if it was skipped, and how alike the embeddings are."""
        state, method = self.state, self.state.method
        if self.config.precision == "64-true":
            batch = batch._replace(views=[v.double() if v.is_floating_point() else v for v in batch.views])
        if self.last and batch.views[0].ndim == 4:
            batch = batch._replace(views=[v.contiguous(memory_format=torch.channels_last) for v in batch.views])
        torch.manual_seed(((self.config.seed * 1_000_003 + state.step) * 1009 + world.rank()) % (1 << 63))
        c = self.config
        self.lr = rate(
            state.step, self.steps, len(self.loader), self.peak, c.schedule, c.milestones, c.factor, c.warmup
        )
        for group in state.optimizer.param_groups:
            group["lr"] = self.lr
        method.at(state.step, self.steps)
        self.stepper.zero_grad()
        counted = statistics(method) if c.nonfinite == "skip" else []
        value, alike = self._gradients(batch)
        good = not world.any_of(not math.isfinite(value), self.device)
        if good:
            world.average_gradients(self.learning)
            if c.clip is not None:
                self.fabric.clip_gradients(method, self.stepper, max_norm=c.clip, error_if_nonfinite=False)
            good = self._finite_gradients()
        if good:
            self.stepper.step()
            method.after_step()
            if state.average is not None:
                state.average.follow(method.network)
                copy_buffers(state.average.network, method.network)
        elif self.config.nonfinite == "stop":
            self._diverged(value, batch)
        else:
            state.skipped += 1
            for buffer, before in counted:
                buffer.copy_(before)
        state.step += 1
        if alike > COLLAPSED and not state.warned and state.step > 10:
            state.warned = True
            self.progress.warn(
                f"step {state.step}: collapse: different items have a mean similarity of {alike:.3f}. "
                "Try a lower temperature, a lower learning rate, or a head that ends in BN."
            )
        return (value if good else None), alike

    def _gradients(self, batch: Any) -> tuple[float, float]:
        """Backward through the whole batch, in one go or in parts; the loss and the mean similarity."""
        method, parts = self.state.method, self.config.parts
        if parts == 1:
            with self.fabric.autocast():
                embedded, targets = method.embed(batch), method.targets(batch)
                if self._not_finite([*embedded, *targets]):
                    return float("nan"), 0.0
                value = method.objective(embedded, targets, batch)
            self.fabric.backward(value)
            return float(value.detach()), similarity(embedded)
        pieces = split(batch, parts)
        states, first, targets = [], [], []
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

    def _diverged(self, value: float, batch: Any) -> None:
        indices = world.gather(batch.indices).cpu()
        state = self.state
        tau = temperature_of(state.method.loss)
        if self.leader:
            replay = {
                "step": state.step,
                "epoch": state.step // len(self.loader),
                "ids": state.built.material.ids[indices],
                "indices": indices,
                "temperature": tau,
                "loss": value,
                "lr": self.lr,
                "config": self.config.as_dict(),
            }
            save_checkpoint(self.out / runs.REPLAY, replay)
        what = "the gradient" if math.isfinite(value) else f"the loss ({value})"
        at = "" if tau is None else f" at temperature {tau:g}"
        raise Diverged(
            f"step {state.step}: {what} is not finite{at}, learning rate {self.lr:g}. The batch is in "
            f"{self.out / runs.REPLAY}; the last checkpoint is untouched. Lower --lr, set --clip, or --nonfinite skip."
        )

    def _end_of_epoch(self, epoch: int) -> None:
        state, config = self.state, self.config
        line: dict[str, Any] = {"step": state.step, "epoch": epoch + 1, "lr": self.lr}
        line["loss_mean"] = state.loss_sum / state.loss_count if state.loss_count else None
        tau = temperature_of(state.method.loss)
        if tau is not None:
            line["temperature"] = tau
        if state.skipped:
            line["skipped"] = state.skipped
        if monitor_due(epoch, config.epochs, config.monitor) and self.leader:
            found = self._monitor(config.monitor_images)
            line |= found
            by = state.built.material.criterion
            if found.get(by, -1.0) > state.best:
                state.best = found[by]
                average = None if state.average is None else state.average.state_dict()
                best = {"step": state.step, by: state.best, "method": state.method.state_dict(), "average": average}
                save_checkpoint(self.out / runs.BEST, best)
        world.wait()
        state.loss_sum, state.loss_count = 0.0, 0
        self.progress.epoch(line)
        self._record({**line, "seconds": round(state.seconds, 3)})

    def _network(self) -> Any:
        """What is measured and exported: the network or its average, in float32."""
        network = self.state.method.network if self.state.average is None else self.state.average.network
        return copy.deepcopy(network).float() if self.config.precision == "64-true" else network

    def _monitor(self, at_most: int | None = None) -> dict[str, float]:
        return self.state.built.material.monitor(self._network(), at_most)

    def _record(self, line: dict[str, Any]) -> None:
        if self.metrics is not None:
            self.metrics.add(line)
            self.progress.track(line)

    def _maybe_save(self) -> None:
        state = self.state
        since = time.monotonic() - state.last_save
        due = since >= max(self.place.checkpoint, SHARE * state.save_seconds if self.place.checkpoint else 0.0)
        asked = world.any_of(self.asked_to_stop is not None, self.device)
        if world.any_of(due and self.leader, self.device) or asked:
            if state.step == self.steps:  # it ends by itself
                return
            self._save()
            if asked:
                raise Stopped(
                    f"stopped after step {state.step} of {self.steps}; everything is saved. "
                    f"The same command with --resume continues."
                )

    def _save(self) -> None:
        began = time.monotonic()
        if self.metrics is not None:
            precision = self.fabric.strategy.precision.state_dict()
            save_checkpoint(self.out / runs.CHECKPOINT, self.state.saved(precision, self.metrics.length()))
        world.wait()
        self.saved_step = self.state.step
        self.state.last_save = time.monotonic()
        self.state.save_seconds = self.state.last_save - began

    def _restore_precision(self, saved: dict[str, Any]) -> None:
        if saved:
            self.fabric.strategy.precision.load_state_dict(saved)

    def _finish(self) -> dict[str, Any]:
        """Measure, export, and say that it is done."""
        result: dict[str, Any] = {}
        if self.leader:
            network = self._network()
            found = self._monitor()
            if self.state.skipped:
                found["skipped"] = float(self.state.skipped)
            self.state.built.material.export(self.out, network.encoder)
            result = runs.result(self.config, found, self.state.seconds, self.steps)
            result["notes"] = list(self.state.built.material.notes)
            files.write_json(self.out / runs.RESULT, result)
        return result

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """SIGTERM and SIGINT finish the step and save; a second one means it."""

        def heard(number: int, frame: FrameType | None) -> None:
            if self.asked_to_stop is not None:
                raise KeyboardInterrupt
            self.asked_to_stop = signal.Signals(number).name
            self.progress.note(f"{self.asked_to_stop}: finishing the step, saving")

        try:
            before = {s: signal.signal(s, heard) for s in (signal.SIGTERM, signal.SIGINT)}
        except ValueError:  # not the main thread: whoever runs us listens
            yield
            return
        try:
            yield
        finally:
            for s, handler in before.items():
                signal.signal(s, handler)


def similarity(embedded: Sequence[Tensor]) -> float:
    """The mean similarity of two different items of this process's batch: 1 when everything has collapsed."""
    z = embedded[0].detach()
    if z.ndim != 2 or len(z) < 2:
        return 0.0
    z = nn.functional.normalize(z.float(), dim=1)
    n = len(z)
    return float((z.sum(0).square().sum() - n) / (n * (n - 1)))


def monitor_due(epoch: int, epochs: int, times: int) -> bool:
    """Whether to measure after this epoch: so many times, evenly, the last time at the end."""
    return times > 0 and (epoch + 1) * times // epochs > epoch * times // epochs


def split(batch: Any, parts: int) -> list[Any]:
    """The batch in parts of items, with all views of each."""
    views = [v.tensor_split(parts) for v in batch.views]
    return [
        batch._replace(views=[v[i] for v in views], labels=labels, indices=indices)
        for i, (labels, indices) in enumerate(
            zip(batch.labels.tensor_split(parts), batch.indices.tensor_split(parts), strict=True)
        )
    ]


def _joined(parts: Sequence[Sequence[Tensor]]) -> list[Tensor]:
    return [torch.cat(list(column)) for column in zip(*parts, strict=True)]


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


def fabric_for(config: Config, place: Runtime) -> Any:
    """Devices, processes and precision. Under torchrun every process joins the others."""
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    accelerator = place.device
    if accelerator == "auto":
        accelerator = "cuda" if torch.cuda.is_available() else "cpu"
    if accelerator not in ("cpu", "cuda", "mps"):
        raise ValueError(f"device must be auto, cpu, cuda or mps; got {place.device!r}.")
    if accelerator == "cuda" and not torch.cuda.is_available():
        raise ValueError("this machine has no CUDA device; use --device cpu.")
    if accelerator == "cpu" and config.precision == "16-mixed":
        raise ValueError("16-mixed needs a GPU; on a processor use --precision bf16-mixed or 32.")
    many: dict[str, Any] = {"devices": 1}
    if processes > 1:
        here = int(os.environ.get("LOCAL_WORLD_SIZE", processes))
        many = {"devices": here, "num_nodes": processes // here, "strategy": "ddp"}
    for name in ("lightning.fabric", "lightning_fabric"):  # it announces itself otherwise
        logging.getLogger(name).setLevel(logging.WARNING)
    fabric = Fabric(accelerator=accelerator, precision=config.precision, **many)
    fabric.launch()
    return fabric


def keep_freed_memory() -> None:
    """Tell glibc to keep what is freed: a step frees and asks again for the same hundreds of megabytes.

    Otherwise every buffer comes back as fresh pages, a third of the time of small networks on a CPU.
    """
    try:
        libc = ctypes.CDLL("libc.so.6")
        trim_threshold, mmap_threshold, top_pad = -1, -3, -2
        libc.mallopt(mmap_threshold, 1 << 30)
        libc.mallopt(trim_threshold, (1 << 31) - 1)
        libc.mallopt(top_pad, 1 << 26)
    except (OSError, AttributeError):  # another libc
        return
