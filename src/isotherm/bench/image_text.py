"""`isotherm bench image-text`: what a CLIP step costs beyond its two towers, and the memory of its losses.

A step draws the crops, embeds images and captions, takes the loss both ways, and moves the weights; the towers alone do
the same passes forward and backward, and move, on crops that are ready. Decoding is `bench data`'s. The losses' memory
is that of one forward and backward on embeddings, at N pairs and at N / 4: it must grow with N·D, four times, where a
matrix of similarities grows with N², sixteen times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from isotherm.bench.measure import Target, best_times, peak_extra_memory
from isotherm.encoders import encoder, head, text
from isotherm.encoders.towers import Projections, Towers
from isotherm.losses.loss import Loss
from isotherm.methods.clip import CLIP, PairNetwork, image_text
from isotherm.methods.method import Given
from isotherm.nn import CACRLoss, DySTreSSLoss, InfoNCELoss, SigLIPLoss
from isotherm.temperature import Learnable
from isotherm.types import Batch
from isotherm.views import recipe

ALONE = "towers alone"
LOSSES: Mapping[str, Callable[[], Loss]] = {
    "InfoNCE, learnt temperature": lambda: InfoNCELoss(Learnable(0.07)),
    "SigLIP": SigLIPLoss,
    "DySTreSS": DySTreSSLoss,
    "CACR": CACRLoss,
}
MORE = 0.05
"""What a step may cost beyond its towers."""
WIDTH = 128
FEWER = 4
"""The losses' memory is taken at so many times fewer pairs, too."""
GROWTH = 5.0
"""What it may grow by in between: as N·D does, and a little for the noise of a high-water mark."""
WORDS = [f"a photo of number {i}, taken on day {i * i}" for i in range(64)]


@dataclass(frozen=True)
class Size:
    """How large the towers and batches are."""

    network: str = "resnet18"
    edge: int = 64
    batch: int = 64
    text: Mapping[str, Any] = field(default_factory=lambda: {"width": 256, "layers": 4, "heads": 4})
    pairs: int = 8192
    """Of the losses' memory."""


@dataclass(frozen=True)
class Result:
    """Seconds of a step, by loss and of the towers alone; extra bytes of each loss, where the kernel says them."""

    size: Size
    seconds: dict[str, float]
    memory: dict[str, tuple[int | None, int | None]]
    """At few pairs and at many."""


def run(rounds: int, note: Callable[[str, str], None], size: Size = Size()) -> Result:  # noqa: B008 - frozen
    calls = contenders(size)
    best = dict.fromkeys(calls, float("inf"))
    for what, call in calls.items():
        note("warming up", what)
        call()
    for what, seconds in best_times(calls, rounds):
        best[what] = min(best[what], seconds)
        note("timing", f"{what} {1e3 * best[what]:,.0f} ms")
    memory = {}
    for what, make in LOSSES.items():
        note("memory", what)
        memory[what] = (_memory(make(), size.pairs // FEWER), _memory(make(), size.pairs))
    return Result(size, best, memory)


def _memory(loss: Loss, pairs: int) -> int | None:
    """Extra bytes of a second pass: the first has grown what grows once."""
    z = [torch.randn(pairs, WIDTH, requires_grad=True) for _ in range(2)]
    _once(loss, *z)
    return peak_extra_memory(partial(_once, loss, *z))


def _once(loss: Loss, images: Tensor, texts: Tensor) -> None:
    image_text(loss, images, [texts]).backward()


def targets(result: Result) -> list[Target]:
    judged, alone = [], result.seconds[ALONE]
    for what in LOSSES:
        extra = result.seconds[what] / alone - 1
        judged.append(Target(f"{what}: a step over its towers", f"≤ {MORE:.0%} more", f"{extra:+.1%}", extra <= MORE))
    for what, (few, many) in result.memory.items():
        if few and many:
            growth = many / few
            name = f"{what}: memory, {FEWER} times the pairs"
            judged.append(Target(name, f"≤ {GROWTH:g}× (N² is {FEWER**2}×)", f"{growth:.1f}×", growth <= GROWTH))
    return judged


def contenders(size: Size) -> dict[str, Callable[[], object]]:
    """A step of each way, with the same towers."""
    pixels = torch.randint(0, 256, (size.batch, 3, size.edge, size.edge), dtype=torch.uint8)
    ids, crops = torch.arange(size.batch), recipe("clip", 1, size.edge)
    tokenizer = text.train_tokenizer(WORDS, 300)
    (ready,) = crops(pixels, ids)

    def network() -> PairNetwork:
        torch.manual_seed(0)
        image = encoder(size.network, channels=3, size=size.edge)
        towers = Towers(image, text.small(tokenizer, **size.text))
        return PairNetwork(towers, Projections(*(head("linear", width, width=WIDTH) for width in towers.widths)))

    captions = network().encoder.text_encoder
    tokens = captions.padded(captions.tokens([WORDS[i % len(WORDS)] for i in range(size.batch)]))

    def step(module: torch.nn.Module, value: Callable[[], Tensor]) -> Callable[[], object]:
        optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4)
        module.train()

        def once() -> None:
            optimizer.zero_grad()
            value().backward()
            optimizer.step()

        return once

    alone = network()
    calls = {ALONE: step(alone, lambda: alone.image(ready).square().mean() + alone.text(tokens).square().mean())}
    for what, make in LOSSES.items():
        method = CLIP(network(), make(), Given(WIDTH, views=2))

        def clip(method: CLIP = method) -> Tensor:
            batch = Batch([*crops(pixels, ids), tokens], ids, ids)
            embedded = method.embed(batch)
            return method.objective(embedded, (), batch)

        calls[what] = step(method, clip)
    return calls
