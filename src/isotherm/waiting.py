"""Whether a device may be asked: for a number of a tensor, or for how many of its entries something holds.

On a processor the answer is there. A GPU must first work off all that was queued, and then stands still until the next
piece of work comes. So training queues its steps without asking (`isotherm.train.step`): what would have been refused
becomes NaN instead, the step is seen not to be finite, and it is made again with time to say what is wrong.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

_own = threading.local()


def may_wait() -> bool:
    """Whether this thread may ask a device and wait for its answer."""
    return not getattr(_own, "never", False)


@contextmanager
def without_waiting() -> Iterator[None]:
    """Inside, this thread asks no device for anything."""
    before, _own.never = getattr(_own, "never", False), True
    try:
        yield
    finally:
        _own.never = before


def answers_at_once(rows: Tensor) -> bool:
    """Whether asking about these rows costs nothing: they are on a processor, and the thread may wait."""
    return rows.device.type == "cpu" and may_wait()


def brought(rows: Tensor, device: torch.device | str) -> Tensor:
    """Rows on a device; to a GPU by way of pinned memory, as a copy from elsewhere waits for all that is queued."""
    if torch.device(device).type != "cuda" or rows.device.type != "cpu":
        return rows.to(device)
    return rows.pin_memory().to(device, non_blocking=True)


def spoilt(values: Tensor, where: Tensor) -> Tensor:
    """The values, NaN where something is wrong that nobody has the time to say."""
    return values.masked_fill(where, math.nan)
