"""The loop: every method's, on any device, in one process or many; killed anywhere, it resumes to the same weights.

A step is a pure function of the state and (seed, step) (`train.step`). So a checkpoint needs no position but the step,
and no generator's state.
"""

from __future__ import annotations

import copy
import itertools
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import torch

from isotherm import doors, files, world
from isotherm.encoders.sync_batchnorm import sync_batchnorm
from isotherm.methods import MomentumCopy, Network
from isotherm.train import names, outcome, runs
from isotherm.train.build import Built, build, material, temperature_of
from isotherm.train.config import Config, Runtime
from isotherm.train.devices import fabric_for, keep_freed_memory, on_all, refuse_unlike
from isotherm.train.lookup import code_in
from isotherm.train.modality import first_run
from isotherm.train.modality.modality import Opened
from isotherm.train.optimizers import optimizer
from isotherm.train.progress import Progress
from isotherm.train.result import WARNING, RunResult
from isotherm.train.schedule import Schedule, scaled_rate
from isotherm.train.state import Metrics, State, refuse_other_items, save_checkpoint
from isotherm.train.step import Again, NotFinite, Step, Stepper
from isotherm.types import Batch

SHARE = 40
"""A checkpoint is written no sooner than after this many times the time the last one took: under 3 % of the run."""


WAIT = 2.0
"""Seconds between looks at what another process makes."""
Given = TypeVar("Given")
Line = dict[str, float | None]
"""A line of metrics."""


class Stopped(Exception):
    """Asked to stop by a signal: the state is saved, and the run can be resumed."""

    def __init__(self, message: str, by: str) -> None:
        super().__init__(message)
        self.exit_code = 128 + signal.Signals[by]
        """As a shell has it of a program that a signal ended: what was to follow on success does not."""


class Diverged(ValueError):
    """The loss or a gradient is not finite."""


@dataclass(frozen=True, eq=False)
class Finished:
    """A run that has ended: its result, and the run itself, ready to be probed."""

    result: RunResult
    opened: Opened


def train(config: Config, place: Runtime) -> RunResult:
    """Run a configuration to its end in ``place.out`` and give its result; only the first process measures."""
    return _ended(config, place)[0]


def run_to_end(config: Config, place: Runtime) -> Finished:
    """The same, and the run as `runs.reopen` would give it: from memory, unless it had ended before."""
    result, run = _ended(config, place)
    assert place.out is not None
    return Finished(result, runs.reopen(place.out) if run is None else run.opened())


def _ended(config: Config, place: Runtime) -> tuple[RunResult, Run | None]:
    """A run's result, and the run if it was not at its end already."""
    if place.out is None:
        raise ValueError("a run needs a folder: --out DIR.")
    out = place.out
    doors.allow(*code_in(config.as_dict()))  # whoever has a configuration in hand was asked when it was read
    keep_freed_memory()
    _begin_with_masked_words(config, place)
    fabric = fabric_for(config, place)
    with ExitStack() as held:
        held.enter_context(world.company(place.timeout, place.silence))
        held.enter_context(world.exchange(place.exchange))
        folder = runs.taken(place.out, config, place.resume)
        finished = _by_the_first(lambda: held.enter_context(folder), fabric.device)
        if world.any_of(finished is not None, fabric.device):
            _by_the_first(lambda: _refuse_other_data(config, out), fabric.device)
            return finished or runs.read_result(place.out), None
        run = Run(fabric, config, place)
        return run.to_the_end(), run


def _begin_with_masked_words(config: Config, place: Runtime) -> None:
    """Make the run that a run of sentences begins with, if it begins with one and nobody has made it yet."""
    first = first_run.before(config)
    if first is None or place.out is None or runs.looked_into(place.out, config, place.resume) is not None:
        return
    out, told = first_run.folder(config), place.quiet or os.environ.get("RANK", "0") != "0"  # no group is there yet
    while True:
        if not told:
            print(f"first masked words, {first.steps:,} steps, made once and kept in {out}", file=sys.stderr)
        try:
            _ended(first, replace(place, out=out, resume=True, log=[]))
        except runs.Busy:
            told = True
            time.sleep(WAIT)
        else:
            return


def _refuse_other_data(config: Config, out: Path) -> None:
    """Refuse the result of a run that learnt from other data than is behind the name now.

    Where the data, or a checkpoint that knows it, is not at hand, the result is taken as it is.
    """
    try:
        saved, now = runs.last_checkpoint(out), material(config, out).fingerprint()
    except (ValueError, OSError):
        return
    if saved is not None:
        refuse_other_items(config, saved, now)


def _by_the_first(act: Callable[[], Given], device: torch.device) -> Given | None:
    """What the first process gets from this, nothing on the others; a refusal there ends all of them, or all wait."""
    result, problem = None, None
    if world.rank() == 0:
        try:
            result = act()
        except (ValueError, OSError) as error:
            problem = error
    if world.any_of(problem is not None, device):
        kind = runs.Busy if world.any_of(isinstance(problem, runs.Busy), device) else ValueError
        raise problem or kind("the first process could not start; it says why.")
    return result


class Run:
    """One run on one process."""

    def __init__(self, fabric: Any, config: Config, place: Runtime) -> None:
        assert place.out is not None
        self.fabric, self.config, self.place, self.out = fabric, config, place, place.out
        self.device: torch.device = fabric.device
        self.leader = world.rank() == 0
        on_processor = self.device.type == "cpu"  # where convolutions are a third faster so
        channels_last = on_processor if place.channels_last is None else place.channels_last
        built = on_all(lambda: self._built(channels_last), self.device)
        refuse_unlike(config, place.exchange, built.material.fingerprint, self.device)
        _by_the_first(built.material.check, self.device)
        self.loader = built.material.loader(built.method.network, self.device, place.prefetch)
        if config.batch // world.size() < 2 * config.parts and config.parts > 1:
            raise ValueError(f"a batch of {config.batch} on {world.size()} processes cannot be cut in {config.parts}.")
        self.steps = steps_of(config, len(self.loader))
        self.epochs = -(-self.steps // len(self.loader))
        """The last may be cut short."""
        self.looks = looks_of(self.steps, len(self.loader), config.monitor, by_steps=config.steps is not None)
        self.state = self._begun(built)
        careful = on_processor if place.careful is None else place.careful
        self.stepper = Stepper(fabric, self.state, self._schedule(), channels_last, careful)
        length = self._restored()
        if place.compile:
            built.method.network.compile()
        self.progress = Progress(self.steps, len(self.loader), config, place, self.leader, self.state.step)
        self.metrics = _by_the_first(lambda: self._recorded(length), self.device)
        self.asked_to_stop: str | None = None
        self.began = time.monotonic()
        """When it would have begun, had it never been interrupted."""

    def _built(self, channels_last: bool) -> Built:
        """Everything the configuration names, on this process's device."""
        built = build(self.config, self.out)
        if world.size() > 1 and self.config.sync_bn:
            sync_batchnorm(built.method)
        layout: Any = {"memory_format": torch.channels_last} if channels_last else {}
        built.method.to(self.device, **layout)
        if self.config.precision == "64-true":
            built.method.double()
        return built

    def _begun(self, built: Built) -> State:
        """The state before the first step."""
        c = self.config
        rule = optimizer(
            c.optimizer,
            built.method,
            self._peak(),
            c.momentum,
            c.weight_decay,
            c.decay_all,
            c.nesterov,
            c.trust,
            fused=c.precision == "16-mixed" and c.clip is None,  # its scaler asks any other after every step
        )
        average = None if c.ema is None else MomentumCopy(built.method.network, c.ema)
        return State(c, built, rule, average, self.steps, fingerprint=built.material.fingerprint())

    def _peak(self) -> float:
        return scaled_rate(self.config.lr, self.config.batch, self.config.lr_scaling)

    def _schedule(self) -> Schedule:
        c, each = self.config, len(self.loader)
        warmup = c.warmup_part * self.steps / each if c.warmup_part else c.warmup
        if round(warmup * each) >= self.steps and warmup > 0:
            raise ValueError(f"a warm-up of {warmup:g} epochs, {round(warmup * each)} steps, leaves no other steps.")
        return Schedule(self._peak(), self.steps, each, c.schedule, c.milestones, c.factor, warmup)

    def _restored(self) -> int:
        """Go on from the last checkpoint, if there is one; how long the metrics were then."""
        saved = runs.last_checkpoint(self.out)
        self.saved_step = -1
        if saved is None:
            return 0
        self.state.restore(saved)
        self.saved_step = self.state.step
        if saved["precision"]:
            self.fabric.strategy.precision.load_state_dict(saved["precision"])
        return int(saved["metrics"])

    def _recorded(self, length: int) -> Metrics:
        """Now that nothing can be refused any more, say in the folder which run this is."""
        metrics = Metrics(self.out / names.METRICS, length)
        self.state.built.material.keep(self.out)
        runs.record(self.out, self.config)
        return metrics

    def to_the_end(self) -> RunResult:
        self.began = time.monotonic() - self.state.seconds
        self.state.method.train()
        with self._listening(), self.progress, self.closing():
            for line in self._notes():
                self.progress.tell(line)
            for epoch in range(self.state.step // len(self.loader), self.epochs):
                self._epoch(epoch)
            self.state.seconds = time.monotonic() - self.began
            if self.saved_step != self.state.step:
                self._save()
            self.progress.note("measuring the result")
            world.doing("measuring the result")
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

    def _epoch(self, epoch: int) -> None:
        state, each = self.state, len(self.loader)
        tau = self.state.built.tau
        if tau is not None and state.method.loss is not None:
            state.method.loss.temperature = tau.at(epoch)
        end = min((epoch + 1) * each, self.steps)
        while state.step < end:
            world.doing(f"reading for epoch {epoch + 1}")
            batches = self.loader.epoch(epoch, state.step - epoch * each)
            with suppress(Again):  # the batches of the steps that are made again are dealt again
                for batch in itertools.islice(batches, end - state.step):
                    self._take(batch)
                    if self._time_to_look(end):
                        asked, due = self._look(self.asked_to_stop is not None, self._save_is_due())
                        if state.step == end or state.step in self.looks:
                            self._sum_up()
                        if state.step == end:
                            state.loss_sum, state.loss_count = 0.0, 0
                        if asked or due:
                            self._save_between_steps(asked)

    def _time_to_look(self, end: int) -> bool:
        """Whether to wait for queued steps: to log, measure or save, at the end of an epoch; with care always."""
        step = self.state.step
        if not self.stepper.queued or step % self.place.log_every == 0 or step == end or step in self.looks:
            return True
        return world.size() == 1 and (self.asked_to_stop is not None or self._save_is_due())

    def advance(self, batch: Batch) -> Step:
        """One step by itself, taken with care."""
        self.stepper.careful_until = max(self.stepper.careful_until, self.state.step + 1)
        self._take(batch)
        return self.stepper.look()[0][0]

    def _take(self, batch: Batch) -> None:
        """One step, or its place in the queue."""
        try:
            self.stepper.advance(batch)
        except NotFinite as error:
            raise self._diverged(error.loss, batch) from None
        self._tell_the_others()

    def _tell_the_others(self) -> None:
        """That this process is as far as this; the next step is soon to come where nothing is queued or compiled."""
        world.taken(self.state.step, steady=self.device.type == "cpu" and not self.place.compile)

    def _look(self, *flags: bool) -> list[bool]:
        """Wait for the steps since the last look and record them; which of the flags are up on any process."""
        steps, up = self.stepper.look(*flags)
        state = self.state
        state.seconds = time.monotonic() - self.began
        for number, (value, alike) in enumerate(steps, state.step - len(steps) + 1):
            if value is not None:
                state.loss_sum, state.loss_count = state.loss_sum + value, state.loss_count + 1
                if number > self.steps - max(1, self.steps // 10):
                    state.late_sum, state.late_count = state.late_sum + value, state.late_count + 1
            self._warn_of_collapse(number, alike)
        value, alike = steps[-1]
        self.progress.step(state.step, value, alike)
        if state.step % self.place.log_every == 0 and value is not None:
            self._record({"step": state.step, "loss": value, "lr": self.stepper.lr, "similarity": alike})
        return up

    def _warn_of_collapse(self, number: int, alike: float) -> None:
        """A warning when the embeddings begin to collapse."""
        if alike > outcome.COLLAPSED and not self.state.warned and number > 10:
            self.state.warned = True
            self.progress.warn(
                f"step {number}: collapse: different items have a mean similarity of {alike:.3f}. "
                "Try a lower temperature, a lower learning rate, or a head that ends in BN."
            )

    def _diverged(self, value: float, batch: Batch) -> Diverged:
        """Keep the batch, and say what happened."""
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
                "lr": self.stepper.lr,
                "config": self.config.as_dict(),
            }
            save_checkpoint(self.out / names.REPLAY, replay)
        what = "the gradient" if math.isfinite(value) else f"the loss ({value})"
        at = "" if tau is None else f" at temperature {tau:g}"
        return Diverged(
            f"step {state.step}: {what} is not finite{at}, learning rate {self.stepper.lr:g}. The batch is in "
            f"{self.out / names.REPLAY}; the last checkpoint is untouched. Lower --lr, set --clip, or --nonfinite skip."
        )

    def _sum_up(self) -> None:
        """A line about the epoch so far, with what is measured on the way."""
        state, config = self.state, self.config
        line: Line = {"step": state.step, "epoch": passes(state.step, len(self.loader)), "lr": self.stepper.lr}
        line["loss_mean"] = state.loss_sum / state.loss_count if state.loss_count else None
        if state.step == self.steps and state.late_count:
            line["loss_last_tenth"] = state.late_sum / state.late_count
        tau = temperature_of(state.method.loss)
        if tau is not None:
            line["temperature"] = tau
        if state.skipped:
            line["skipped"] = state.skipped
        if state.step in self.looks and self.leader:
            world.doing(f"measuring after step {state.step}")
            measures = self.monitored(config.monitor_images)
            line |= measures
            by = state.built.material.criterion
            if measures.get(by, -1.0) > state.best:
                state.best = measures[by]
                average = None if state.average is None else state.average.state_dict()
                best = {"step": state.step, by: state.best, "method": state.method.state_dict(), "average": average}
                save_checkpoint(self.out / names.BEST, best)
        world.wait()
        self.progress.epoch(line)
        self._record({**line, "seconds": round(state.seconds, 3)})

    def _network(self) -> Network:
        """What is measured and exported: the network or its average, in float32."""
        network = self.state.method.network if self.state.average is None else self.state.average.network
        assert isinstance(network, Network)
        return copy.deepcopy(network).float() if self.config.precision == "64-true" else network

    def opened(self) -> Opened:
        """This run as `runs.reopen` would give it: a copy of the network on the processor, and the data at hand."""
        network = copy.deepcopy(self._network())
        for ours, trained in zip(network.parameters(), self.state.method.network.parameters(), strict=True):
            ours.requires_grad_(trained.requires_grad)  # an average has none
            ours.grad = None
        network.to("cpu", memory_format=torch.contiguous_format)  # type: ignore[call-overload]
        return self.state.built.material.opened(self.out, network)

    def monitored(self, at_most: int | None = None) -> dict[str, float]:
        """What is measured on the way and at the end; at most so many items."""
        return self.state.built.material.monitor(self._network(), at_most)

    def _record(self, line: Line) -> None:
        if self.metrics is not None:
            self.metrics.add(line)
            self.progress.track(line)

    def _save_is_due(self) -> bool:
        state = self.state
        since = time.monotonic() - state.last_save
        enough = max(self.place.checkpoint, SHARE * state.save_seconds if self.place.checkpoint else 0.0)
        return self.leader and since >= enough

    def _save_between_steps(self, asked: bool) -> None:
        """Save, and stop if that was asked for."""
        state = self.state
        if state.step == self.steps:  # it ends by itself
            return
        self._save()
        if asked:
            raise Stopped(
                f"stopped after step {state.step} of {self.steps}; everything is saved. "
                f"The same command with --resume continues.",
                self.asked_to_stop or "SIGTERM",  # another process heard it
            )

    def _save(self) -> None:
        began = time.monotonic()
        world.doing(f"saving after step {self.state.step}")
        if self.metrics is not None:
            precision = self.fabric.strategy.precision.state_dict()
            save_checkpoint(self.out / names.CHECKPOINT, self.state.saved(precision, self.metrics.length()))
        world.wait()
        self.saved_step = self.state.step
        self.state.last_save = time.monotonic()
        self.state.save_seconds = self.state.last_save - began
        self._tell_the_others()

    def _finish(self) -> RunResult:
        """Measure, export, and say that it is done."""
        measures: dict[str, float] = {}
        data = ""
        if self.leader:
            measures = self.monitored()
            if self.state.skipped:
                measures["skipped"] = float(self.state.skipped)
            self.state.built.material.export(self.out, self._network().encoder)
            data = self.state.built.material.data()
        notes = self._notes()  # also what measuring has found
        if self.leader:
            notes += self._warnings(measures)
        result = RunResult.of(self.config, measures, self.state.seconds, self.steps, data, notes)
        if self.leader:
            files.write_json(self.out / names.RESULT, result.as_dict())
        return result

    def _notes(self) -> tuple[str, ...]:
        """What a reader should know of the data and of the method's settings for them."""
        return (*self.state.built.material.notes, *self.state.method.notes)

    def _warnings(self, measures: Mapping[str, float]) -> tuple[str, ...]:
        """What is wrong with the network at the end."""
        loss = self.state.method.loss
        learnt = self.state.built.material.learnt(self._network())
        labels = loss is not None and loss.takes_labels
        compares = self.state.method.compares
        return tuple(f"{WARNING}{text}" for text in outcome.warnings(measures, learnt, compares, labels))

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


def steps_of(config: Config, each: int) -> int:
    """How many steps a run takes, given those of an epoch."""
    if config.steps is not None:
        return config.steps
    assert config.epochs is not None  # a configuration has one or the other
    return config.epochs * each


def passes(step: int, each: int) -> float:
    """How often the data were seen after so many steps: a whole number at the end of an epoch."""
    return step // each if step % each == 0 else round(step / each, 3)


def looks_of(steps: int, each: int, times: int, by_steps: bool) -> frozenset[int]:
    """After which steps to measure: so many times, evenly, the last time at the end.

    Epochs are looked at where they end. Runs of so many steps are compared with runs of other batches, whose epochs end
    elsewhere: these are looked at after equal parts of their training.
    """
    if not times:
        return frozenset()
    if by_steps:
        return frozenset(round(k * steps / times) for k in range(1, times + 1)) - {0}
    ends = [*range(0, steps, each), steps]
    return frozenset(end for start, end in pairwise(ends) if end * times // steps > start * times // steps)
