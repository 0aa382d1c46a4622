"""Limits on paper: time, memory and traffic of a loss on 1 to 1024 GPUs, from counted work and stated speeds.

    python -m isotherm.bench.scale        the tables of docs/scale.md

Operations, bytes kept and bytes sent are counted as the engine does them, and a test compares the first two with
what a run on two and four processes really did. Times are these counts over the speeds of `A100`, which are
assumptions: nothing here has been timed on a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

NUMBER = 4  # bytes of a float32
GPUS = (1, 8, 64, 256, 1024)
BATCHES = (32_768, 262_144, 1_048_576)
WIDTH = 128
OWN, VISITORS, EVERYONE = 4, 3, 2
"""Blocks of one's own rows that exist at once in every exchange; what a ring adds, of the same size (a visitor, the
next, and a gradient); what gathering adds, of the size of the whole batch (the rows and their gradient)."""


@dataclass(frozen=True)
class Machine:
    """What a GPU and its links do in a second."""

    name: str
    operations: float
    """Of a tile's products in the fused kernels, everything else of the tile included"""
    dense_operations: float
    """Of plain float32 products"""
    memory_traffic: float
    near: float
    """Bytes to another GPU of the machine, one way"""
    far: float
    """Bytes to a GPU of another machine, one way"""
    latency: float
    """Seconds of a message"""
    per_machine: int
    memory: float

    def link(self, gpus: int) -> float:
        """The slowest link of a ring of so many."""
        return self.near if gpus <= self.per_machine else self.far


A100 = Machine("A100 80 GB, 8 per machine", 30e12, 17.5e12, 1.4e12, 250e9, 20e9, 20e-6, 8, 80e9)
"""30 TFLOP/s: three TF32 products for one of FP32, an estimate; 250 GB/s of NVLink and 20 GB/s of a 200 Gb/s adapter
for each GPU; collectives and messages around a ring."""


@dataclass(frozen=True)
class Cost:
    """What one GPU does for a forward and a backward pass."""

    operations: float
    memory: float
    sent: float
    """Bytes"""
    seconds: float


def gathered(items: int, gpus: int, width: int = WIDTH, views: int = 2, machine: Machine = A100) -> Cost:
    """NT-Xent with everyone's rows on each GPU. Alone, each similarity serves its row and its column."""
    rows, mine = views * items, views * items / gpus
    entries = rows**2 / 2 if gpus == 1 else mine * rows
    operations = entry_operations(width) * entries
    block = mine * width * NUMBER
    whole = rows * width * NUMBER
    sent = 3 * whole * (gpus - 1) / gpus  # gathered once; the gradient is summed over all, which takes two
    seconds = operations / machine.operations + sent / machine.link(gpus) + 3 * (gpus - 1) * machine.latency
    memory = OWN * block + (EVERYONE * whole if gpus > 1 else 0)
    return Cost(operations, memory, sent, seconds)


def visited(items: int, gpus: int, width: int = WIDTH, views: int = 2, machine: Machine = A100) -> Cost:
    """NT-Xent with one visiting block after another: the next is on its way while one is worked on."""
    if gpus == 1:
        return gathered(items, 1, width, views, machine)
    mine = views * items / gpus
    home, guest = mine**2 / 2, mine**2
    per_entry = entry_operations(width)
    block = mine * width * NUMBER
    message = block / machine.link(gpus) + machine.latency
    forward, backward = (guest * part * per_entry / machine.operations for part in (1 / 4, 3 / 4))
    step = max(forward, message) + max(backward, message) + message  # a gradient leaves when it is complete
    seconds = home * per_entry / machine.operations + (gpus - 1) * step
    operations = per_entry * (home + (gpus - 1) * guest)
    return Cost(operations, (OWN + VISITORS) * block, 3 * (gpus - 1) * block, seconds)


def entry_operations(width: int) -> int:
    """Of one similarity: computed in both passes, and one product for each side of its gradient."""
    return 8 * width


def dense(items: int, gpus: int, width: int = WIDTH, views: int = 2, machine: Machine = A100) -> Cost:
    """The usual code: one's own rows of the similarity matrix in memory, with its softmax and its gradient."""
    rows, mine = views * items, views * items / gpus
    entries = mine * rows
    seconds = 6 * width * entries / machine.dense_operations + 75 * entries / machine.memory_traffic
    sent = 3 * rows * width * NUMBER * (gpus - 1) / gpus
    memory = 3 * entries * NUMBER + EVERYONE * rows * width * NUMBER
    seconds += sent / machine.link(gpus) + 3 * (gpus - 1) * machine.latency
    return Cost(6 * width * entries, memory, sent, seconds)


@dataclass(frozen=True)
class Published:
    """What Cheng et al. (Inf-CL, arXiv:2410.17243) say of the memory of the loss, and what we count."""

    batch: int
    gpus: int
    times_less: float
    """By how much less it is than OpenCLIP's, which keeps two local matrices of logits (figure 1)"""


INF_CL = (Published(262_144, 8, 78), Published(1_048_576, 128, 281))
CLIP_WIDTH = 768


def less_than_clip(batch: int, gpus: int, width: int = CLIP_WIDTH) -> tuple[float, float]:
    """Bytes of OpenCLIP's two local matrices of logits, and of our ring for the same loss (two towers)."""
    mine = batch / gpus
    logits = 2 * mine * batch * NUMBER
    return logits, visited(batch, gpus, width).memory


def tables() -> Iterator[str]:
    """The tables, as Markdown."""
    yield f"NT-Xent, two views, d = {WIDTH}, forward and backward, for one {A100.name}; a dash: more than its memory."
    yield ""
    yield "| pairs | GPUs | dense: time, memory | gathered: time, memory | ring: time, memory | sends | computes |"
    yield "|---|---|---|---|---|---|---|"
    for items in BATCHES:
        for gpus in GPUS:
            ways = [way(items, gpus) for way in (dense, gathered, visited)]
            cells = [_cell(cost) for cost in ways]
            ring = ways[2]
            row = [f"{items:,}", f"{gpus:,}", *cells, _bytes(ring.sent), f"{ring.operations / 1e12:,.3g} TFLOP"]
            yield f"| {' | '.join(row)} |"
    yield ""
    yield f"Against Inf-CL's published factors (CLIP ViT-L/14, d = {CLIP_WIDTH}):"
    yield ""
    yield "| batch | GPUs | OpenCLIP's logits (counted) | our ring (counted) | times less | Inf-CL, published |"
    yield "|---|---|---|---|---|---|"
    for said in INF_CL:
        logits, ring_bytes = less_than_clip(said.batch, said.gpus)
        factor = f"{logits / ring_bytes:.0f}×"
        sizes = f"{_bytes(logits)} | {_bytes(ring_bytes)}"
        yield f"| {said.batch:,} | {said.gpus} | {sizes} | {factor} | {said.times_less:g}× |"


def _cell(cost: Cost) -> str:
    if cost.memory > A100.memory:
        return "–"
    size = f"{cost.seconds * 1e3:,.3g} ms" if cost.seconds < 1 else f"{cost.seconds:,.3g} s"
    return f"{size}, {_bytes(cost.memory)}"


def _bytes(count: float) -> str:
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{count / size:,.3g} {unit}"
    return f"{count / 1e3:,.3g} KB"


if __name__ == "__main__":
    print("\n".join(tables()))
