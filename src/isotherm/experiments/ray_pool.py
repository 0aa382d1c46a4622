"""Runs as tasks of a Ray cluster that shares the study's folder; Ray tries again what a dead worker had."""

from __future__ import annotations

import importlib
import os
import socket
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from isotherm.experiments.measuring import carry_out
from isotherm.experiments.pool import RETRIES
from isotherm.experiments.progress import Board
from isotherm.experiments.study import Point
from isotherm.train.config import Config


def carry_out_all(todo: Sequence[Point], folder: Path, address: str, board: Board) -> Iterator[None]:
    """Carry out these runs on the cluster at `address`: auto, an address, or local for one on this machine."""
    try:
        ray: Any = importlib.import_module("ray")
    except ImportError as error:
        raise ValueError("--ray needs ray: pip install 'isotherm[ray]'.") from error
    _answers(address)
    if not ray.is_initialized():
        try:
            if address == "local":
                ray.init(num_cpus=os.cpu_count(), include_dashboard=False, log_to_driver=False, logging_level="ERROR")
            else:
                ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        except ConnectionError as error:
            raise ValueError(f"no Ray cluster at '{address}'; start one, or use --ray local.") from error
    remote: Any = ray.remote(num_cpus=1, max_retries=RETRIES)(alone)
    waiting = {remote.remote(p.config, (folder / "runs" / p.config.key).resolve(), p.measure): p for p in todo}
    for point in todo:
        board.running[point.config.key] = time.monotonic()
    while waiting:
        ready, _ = ray.wait(list(waiting), num_returns=1, timeout=1.0)
        for task in ready:
            point = waiting.pop(task)
            board.running.pop(point.config.key, None)
            try:
                board.finished[point.config.key] = ray.get(task)
            except Exception as error:  # whatever the cluster says of it
                board.failed[point.config.key] = str(error).strip().splitlines()[-1]
        yield


def _answers(address: str) -> None:
    """Refuse an address where nobody listens: Ray itself would wait for minutes."""
    host, colon, port = address.rpartition("://")[2].partition(":")
    if not colon or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=3).close()
    except OSError as error:
        raise ValueError(f"no Ray cluster at '{address}'; start one, or use --ray local.") from error


def alone(config: Config, folder: Path, groups: Sequence[str]) -> dict[str, Any]:
    """A run on one core."""
    torch.set_num_threads(1)
    return carry_out(config, folder, groups)
