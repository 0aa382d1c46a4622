"""How far a run is: a bar on a terminal, a line now and then elsewhere; TensorBoard or W&B when asked."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping
from typing import Any, Self

from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from isotherm import extras, screen
from isotherm.measures.catalogue import measures
from isotherm.measures.measure import Measure
from isotherm.train.config import Config, Runtime
from isotherm.train.modality import modality_of
from isotherm.train.starvation import Starvation

EVERY = 5.0
"""Seconds between lines where there is no terminal."""


class Progress:
    """What the loop tells whoever is watching."""

    def __init__(self, steps: int, each: int, config: Config, place: Runtime, leader: bool, start: int) -> None:
        self.steps, self.each, self.batch, self.epochs = steps, each, config.batch, -(-steps // each)
        self.what = modality_of(config).noun
        self.visible = leader and not place.quiet
        self.began, self.first = time.monotonic(), start
        self.last_line = time.monotonic()
        self.sinks = [_sink(name, place, config) for name in place.log] if leader else []
        self.starvation = Starvation()
        self.bar: Any = None
        self.task: Any = None

    def __enter__(self) -> Self:
        if self.visible and sys.stderr.isatty():
            columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeRemainingColumn())
            self.bar = Bar(*columns, console=screen.console(stderr=True))
            self.task = self.bar.add_task("starting", total=self.steps, completed=self.first)
            self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()
        for sink in self.sinks:
            sink.close()

    def step(self, step: int, value: float | None, alike: float) -> None:
        if not self.visible:
            return
        if complaint := self.starvation.complaint():
            self.warn(complaint)
        if self.bar is not None:
            self.bar.update(self.task, completed=step, description=self._where(step, value))
        elif time.monotonic() - self.last_line > EVERY:
            self.last_line = time.monotonic()
            self._line(f"{self._where(step, value)}  {self._left(step)} left")

    def epoch(self, line: Mapping[str, Any]) -> None:
        """The end of an epoch: shown where something was measured."""
        if self.visible and monitored_in(line):
            self._line(described(line, self.epochs))

    def note(self, text: str) -> None:
        if self.visible:
            if self.bar is not None:
                self.bar.update(self.task, description=text)
            else:
                self._line(text)

    def tell(self, text: str) -> None:
        """A line that stays."""
        if self.visible:
            self._line(text)

    def warn(self, text: str) -> None:
        if self.bar is not None:
            self.bar.console.print(f"warning: {text}", highlight=False, markup=False)
        elif self.visible:
            self._line(f"warning: {text}")

    def track(self, line: Mapping[str, Any]) -> None:
        for sink in self.sinks:
            sink.add(line)

    def _rate(self, step: int) -> float:
        return (step - self.first) * self.batch / max(1e-9, time.monotonic() - self.began)

    def _where(self, step: int, value: float | None) -> str:
        loss = "skipped" if value is None else f"loss {value:.4f}"
        return f"epoch {(step - 1) // self.each + 1}/{self.epochs}  {loss}  {self._rate(step):,.0f} {self.what}/s"

    def _left(self, step: int) -> str:
        seconds = (self.steps - step) * self.batch / max(1e-9, self._rate(step))
        return f"{seconds / 60:.0f} min" if seconds > 120 else f"{seconds:.0f} s"

    def _line(self, text: str) -> None:
        if self.bar is not None:
            self.bar.console.print(text, highlight=False, markup=False)
        else:
            print(text, file=sys.stderr, flush=True)


def described(line: Mapping[str, Any], epochs: int) -> str:
    """A line of metrics for people."""
    parts = [f"epoch {math.ceil(line['epoch'])}/{epochs}"]
    if line.get("loss_mean") is not None:
        parts.append(f"loss {line['loss_mean']:.4f}")
    parts += [f"{m.heading} {m.text(line[m.name])}" for m in monitored_in(line)]
    return "  ".join(parts)


def monitored_in(line: Mapping[str, Any]) -> list[Measure]:
    """The measures that a line of metrics holds."""
    return [m for m in measures().values() if m.monitor and line.get(m.name) is not None]


class _TensorBoard:
    def __init__(self, place: Runtime) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ValueError(f"--log tensorboard needs tensorboard: {extras.command('tracking')}.") from error
        self.writer: Any = SummaryWriter(str(place.out))

    def add(self, line: Mapping[str, Any]) -> None:
        for name, value in line.items():
            if isinstance(value, int | float) and name != "step" and math.isfinite(value):
                self.writer.add_scalar(name, value, line["step"])

    def close(self) -> None:
        self.writer.close()


class _WandB:
    def __init__(self, place: Runtime, config: Config) -> None:
        try:
            import wandb
        except ImportError as error:
            raise ValueError(f"--log wandb needs wandb: {extras.command('tracking')}.") from error
        self.run: Any = wandb.init(dir=str(place.out), config=config.as_dict(), id=config.key, resume="allow")

    def add(self, line: Mapping[str, Any]) -> None:
        self.run.log({k: v for k, v in line.items() if k != "step"}, step=line["step"])

    def close(self) -> None:
        self.run.finish()


def _sink(name: str, place: Runtime, config: Config) -> Any:
    if name == "tensorboard":
        return _TensorBoard(place)
    if name == "wandb":
        return _WandB(place, config)
    raise ValueError(f"log takes tensorboard or wandb, got '{name}'.")
