"""Runs as tasks of a Ray cluster that shares the study's folder; Ray tries again what a dead worker had."""

from __future__ import annotations

import importlib
import os
import socket
import time
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from isotherm import doors, extras
from isotherm.experiments.measuring import attempt
from isotherm.experiments.pool import RETRIES
from isotherm.experiments.progress import Progress, Task
from isotherm.experiments.records import Measured
from isotherm.experiments.study import Point


def carry_out_all(todo: Sequence[Point], address: str, progress: Progress) -> Iterator[None]:
    """Carry out these runs on the cluster at `address`: auto, an address, or local for one on this machine."""
    ray = _connected(address)
    remote: Any = ray.remote(num_cpus=1, max_retries=RETRIES)(alone)
    allowed = doors.allowed()
    waiting = {remote.remote(progress.task(p), allowed): p for p in todo}
    for point in todo:
        progress.running[point.config.key] = time.monotonic()
    while waiting:
        if progress.out_of_time:  # Ray has them all: what it has not begun is taken back, and is not waited for
            for task, point in list(waiting.items()):
                if not progress.place(point.config.key).exists():
                    ray.cancel(task)
                    progress.running.pop(point.config.key, None)
                    del waiting[task]
            if not waiting:
                break
        ready, _ = ray.wait(list(waiting), num_returns=1, timeout=1.0)
        for task in ready:
            point = waiting.pop(task)
            try:
                answer = ray.get(task)
            except Exception as error:  # whatever the cluster says of it
                answer = str(error).strip().splitlines()[-1]
            progress.hear(point.config.key, answer)
        yield


def _connected(address: str) -> Any:
    """Ray, connected to the cluster at `address`."""
    try:
        ray: Any = importlib.import_module("ray")
    except ImportError as error:
        raise ValueError(f"--ray needs ray: {extras.command('ray')}.") from error
    _answers(address)
    if not ray.is_initialized():
        try:
            if address == "local":
                ray.init(num_cpus=os.cpu_count(), include_dashboard=False, log_to_driver=False, logging_level="ERROR")
            else:
                ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        except ConnectionError as error:
            raise ValueError(f"no Ray cluster at '{address}'; start one, or use --ray local.") from error
    return ray


def _answers(address: str) -> None:
    """Refuse an address where nobody listens: Ray itself would wait for minutes."""
    host, colon, port = address.rpartition("://")[2].partition(":")
    if not colon or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=3).close()
    except OSError as error:
        raise ValueError(f"no Ray cluster at '{address}'; start one, or use --ray local.") from error


def alone(task: Task, allowed: Sequence[str]) -> Measured | str:
    """A run on one core; names from outside are allowed that the runner allowed."""
    torch.set_num_threads(1)
    doors.allow(*allowed)
    return attempt(*task)
