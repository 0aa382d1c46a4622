"""Everyone's mean gradient, bucket by bucket, under way while the backward pass still runs.

A bucket is sent as soon as its last gradient is there, the buckets in one order on every process. Who has no gradient
for a parameter counts as zero, unless nobody has one: then it stays without. Exact with batches in parts, too, as only
the last part's backward pass sends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor

from isotherm import world

BUCKET = 25 << 20
"""Bytes of a bucket, about: as DDP has them."""


@dataclass(eq=False)
class Bucket:
    """Parameters of one precision on one device, whose gradients travel together."""

    parameters: list[Tensor] = field(default_factory=list)
    missing: int = 0
    """How many have no gradient of this backward pass yet."""
    has: list[bool] = field(default_factory=list)
    message: Tensor | None = None
    """Everybody's gradients, and for each parameter how many have one."""
    arrive: Callable[[], object] | None = None

    def send(self) -> None:
        """Begin to sum the gradients that are there."""
        self.has = [p.grad is not None for p in self.parameters]
        there = self.parameters[0].new_ones(len(self.parameters))
        for i, has in enumerate(self.has):
            if not has:
                there[i].zero_()
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters]
        self.message = torch.cat([*(g.detach().flatten() for g in gradients), there.detach()])
        self.arrive = world.begin_sum(self.message)

    def receive(self) -> None:
        """Wait for the sums, and give every parameter its mean."""
        assert self.message is not None
        assert self.arrive is not None
        self.arrive()
        *sums, there = self.message.split([*(p.numel() for p in self.parameters), len(self.parameters)])
        known = [1.0] * len(self.has) if all(self.has) else there.tolist()  # asked only where one is lacking here
        for p, total, anybody in zip(self.parameters, sums, known, strict=True):
            if not anybody:
                continue
            if p.grad is None:
                p.grad = torch.zeros_like(p)
            p.grad.copy_((total / world.size()).view_as(p.grad))
        self.message = self.arrive = None


class Averaging:
    """Gives every process the mean of everyone's gradients of these parameters."""

    def __init__(self, parameters: Sequence[Tensor], size: int = BUCKET) -> None:
        self.buckets = _buckets(parameters, size) if world.size() > 1 else []
        self.of = {p: bucket for bucket in self.buckets for p in bucket.parameters}
        self.sent = 0
        self.sending = False
        for p in self.of:
            p.register_post_accumulate_grad_hook(self._arrived)

    @contextmanager
    def during_backward(self) -> Iterator[None]:
        """Inside is the last backward pass of a step: what it completes is sent at once, the rest at its end."""
        self.sent, self.sending = 0, True
        for bucket in self.buckets:
            bucket.missing = len(bucket.parameters)
        try:
            yield
        finally:
            self.sending = False
        for bucket in self.buckets[self.sent :]:
            bucket.send()
        for bucket in self.buckets:
            bucket.receive()

    def _arrived(self, parameter: Tensor) -> None:
        if not self.sending:
            return
        bucket = self.of[parameter]
        if bucket.missing == 0:
            raise RuntimeError("a parameter got a second gradient in one backward pass, after the first was averaged.")
        bucket.missing -= 1
        while self.sent < len(self.buckets) and self.buckets[self.sent].missing == 0:
            self.buckets[self.sent].send()
            self.sent += 1


def _buckets(parameters: Sequence[Tensor], size: int) -> list[Bucket]:
    """The last parameters first, as the backward pass comes to them."""
    buckets: list[Bucket] = []
    for kind in dict.fromkeys((p.dtype, p.device) for p in parameters):
        room = 0
        for p in reversed([p for p in parameters if (p.dtype, p.device) == kind]):
            if room <= 0:
                buckets.append(Bucket())
                room = size
            buckets[-1].parameters.append(p)
            room -= p.numel() * p.element_size()
    return buckets
