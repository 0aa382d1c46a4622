"""`isotherm bench losses --device cuda`: every loss on a GPU, by each path, beside what people would run instead.

What is measured and how is a `Meter`: on a GPU by its events, with the second-level cache flushed; on a processor by
its clock, so that a test can run the whole table where there is no GPU.
"""

from __future__ import annotations

import importlib
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from isotherm.bench import rivals
from isotherm.bench.measure import machine, peak_extra_memory
from isotherm.engine.sizes import tile_edge
from isotherm.losses import catalogue
from isotherm.losses.laws import Maker

PAIRS = (1024, 4096, 8192)
WIDTH = 128
EXACT = 512  # pairs at which gradients are compared with float64
PRODUCT = 4096  # the edge of the product whose speed is the roofline
FLUSHED = 1 << 28  # bytes that are written before a run, more than any second-level cache
Call = Callable[[], object]
Note = Callable[[str, str], None]


class Meter(Protocol):
    """How a device is timed."""

    @property
    def device(self) -> torch.device: ...

    def facts(self) -> dict[str, object]:
        """What the numbers were measured on."""

    def seconds(self, call: Call, rounds: int) -> float:
        """The median time of a call."""

    def extra_bytes(self, call: Call) -> int | None:
        """What a call needs on top of what is there."""

    def launches(self, call: Call) -> int:
        """How many kernels it starts."""


class Cuda:
    """A GPU, by its own events."""

    def __init__(self) -> None:
        if not torch.cuda.is_available():
            raise ValueError("this machine has no CUDA device; `isotherm bench losses` measures its processor.")
        self.device = torch.device("cuda")
        self._flush = torch.empty(FLUSHED, dtype=torch.uint8, device=self.device)

    def facts(self) -> dict[str, object]:
        gpu = torch.cuda.get_device_properties(self.device)
        driver = Path("/proc/driver/nvidia/version")
        return {
            "GPU": f"{gpu.name}, {gpu.total_memory / 2**30:.0f} GiB, sm{gpu.major}{gpu.minor}",
            "driver": driver.read_text().splitlines()[0] if driver.exists() else "unknown",
            "CUDA": torch.version.cuda or f"HIP {torch.version.hip}",
            **_versions(),
        }

    def seconds(self, call: Call, rounds: int) -> float:
        times = []
        for _ in range(rounds):
            self._flush.zero_()
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            call()
            end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end) / 1e3)
        return float(statistics.median(times))

    def extra_bytes(self, call: Call) -> int | None:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        call()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before

    def launches(self, call: Call) -> int:
        kinds = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=kinds) as profile:
            call()
            torch.cuda.synchronize()
        return sum(event.device_type.name == "CUDA" for event in profile.events() or ())


class Processor:
    """This machine's processor, by the clock: to try the table where there is no GPU."""

    device = torch.device("cpu")

    def facts(self) -> dict[str, object]:
        return {**machine(), **_versions()}

    def seconds(self, call: Call, rounds: int) -> float:
        times = []
        for _ in range(rounds):
            began = time.perf_counter()
            call()
            times.append(time.perf_counter() - began)
        return statistics.median(times)

    def extra_bytes(self, call: Call) -> int | None:
        return peak_extra_memory(call)

    def launches(self, call: Call) -> int:
        with _Operations() as counted:  # type: ignore[no-untyped-call]
            call()
        return int(counted.count)


class _Operations(TorchDispatchMode):
    count = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return function(*args, **(kwargs or {}))


def _versions() -> dict[str, object]:
    try:
        triton = importlib.import_module("triton").__version__
    except ImportError:
        triton = "not installed"
    precision = torch.get_float32_matmul_precision()
    return {"torch": torch.__version__, "triton": triton, "python": platform.python_version(), "precision": precision}


@dataclass(frozen=True)
class Row:
    """One contender at one size; where it could not run, only why."""

    name: str
    pairs: int
    path: str
    """kernels, plain, or whose it is"""
    tile: int | None = None
    seconds: float | None = None
    extra_bytes: int | None = None
    tflops: float | None = None
    """Of the 6 d (2n)² operations that a dense NT-Xent's three products take"""
    roofline: float | None = None
    """The same as a part of the speed of one large product"""
    launches: int | None = None
    first_use: float | None = None
    gradient_error: float | None = None
    """Largest, against float64, as a part of the largest gradient"""
    check: str = ""
    """What the kernels' self-check said"""
    why_not: str = ""


def run(meter: Meter, pairs: Sequence[int], rounds: int, note: Note, only: Sequence[str] = ()) -> list[Row]:
    """Everybody at each size."""
    torch.manual_seed(0)
    peak = roofline(meter, rounds)
    makers = [Maker.of(name) for name in only] or [Maker(entry.loss) for entry in catalogue.losses()]
    rows: list[Row] = []
    for n in pairs:
        for maker in makers:
            note(f"{n} pairs", maker.kind.__name__)
            rows.append(_ours(meter, maker, "auto", n, rounds, peak))
            if rows[-1].path == "kernels":
                rows.append(_ours(meter, maker, "plain", n, rounds, peak))
        for name, rival in RIVALS.items():
            note(f"{n} pairs", name)
            with _as_it_was():
                rows.append(_measured(meter, rival, Row(name, n, "rival"), rounds, peak))
    return rows


def roofline(meter: Meter, rounds: int) -> float:
    """Operations a second of one large product, at the precision torch has been told to use."""
    edge = PRODUCT if meter.device.type == "cuda" else 256
    a, b = (torch.randn(edge, edge, device=meter.device) for _ in range(2))
    torch.mm(a, b)
    return 2 * edge**3 / meter.seconds(lambda: torch.mm(a, b), rounds)


def _ours(meter: Meter, maker: Maker, path: str, n: int, rounds: int, peak: float) -> Row:
    before = os.environ.get("ISOTHERM_KERNELS")
    os.environ["ISOTHERM_KERNELS"] = path if before is None or path == "plain" else before
    outcomes: dict[object, str | None] = {}
    if path == "auto" and _kernels() is not None:
        outcomes = _kernels().outcomes
        outcomes.clear()
    try:
        loss = maker()
        row = Row(maker.kind.__name__, n, "plain", tile_edge(meter.device, 2 * n))
        draws = getattr(loss, "generator", None) is not None  # another sample in each precision
        return _measured(meter, lambda z: maker.value(z, loss), row, rounds, peak, outcomes, exact=not draws)
    finally:
        os.environ.pop("ISOTHERM_KERNELS")
        if before is not None:
            os.environ["ISOTHERM_KERNELS"] = before


def _kernels() -> Any:
    try:
        return importlib.import_module("isotherm.engine.device.check")
    except ImportError:
        return None


def _measured(
    meter: Meter,
    value: Callable[[Sequence[Tensor]], Tensor],
    row: Row,
    rounds: int,
    peak: float,
    outcomes: dict[object, str | None] | None = None,
    exact: bool = True,
) -> Row:
    views = [torch.randn(row.pairs, WIDTH, device=meter.device, requires_grad=True) for _ in range(2)]

    def call() -> object:
        return torch.autograd.grad(value(views), views, allow_unused=True)

    facts = asdict(row)
    try:
        began = time.perf_counter()
        call()
        if meter.device.type == "cuda":
            torch.cuda.synchronize()
        facts["first_use"] = time.perf_counter() - began
        if outcomes:
            failed = [why for why in outcomes.values() if why is not None]
            facts |= {"check": failed[0] if failed else "passed", "path": "plain" if failed else "kernels"}
            facts["tile"] = row.tile if failed else None
        facts["seconds"] = meter.seconds(call, rounds)
        facts["extra_bytes"] = meter.extra_bytes(call)
        facts["launches"] = meter.launches(call)
        facts["gradient_error"] = _error(meter.device, value, row.pairs) if exact else None
    except Exception as error:  # a rival that is not installed, a device that is full: the others go on
        reason = " ".join(str(error).split())
        return Row(row.name, row.pairs, row.path, why_not=f"{type(error).__name__}: {reason}"[:160])
    speed = 6 * WIDTH * (2 * row.pairs) ** 2 / facts["seconds"]
    return Row(**facts | {"tflops": speed / 1e12, "roofline": speed / peak})


def _error(device: torch.device, value: Callable[[Sequence[Tensor]], Tensor], pairs: int) -> float | None:
    """How far the gradient is from the one in float64, where that can be had."""
    generator = torch.Generator().manual_seed(0)
    views = [torch.randn(min(EXACT, pairs), WIDTH, generator=generator) for _ in range(2)]
    gradients = []
    for dtype in (torch.float32, torch.float64):
        z = [v.to(device, dtype).requires_grad_() for v in views]
        torch.manual_seed(0)
        try:
            slopes = torch.autograd.grad(value(z), z, allow_unused=True)
        except Exception:  # some rivals know float32 alone
            return None
        gradients.append(torch.cat([s.double() for s in slopes if s is not None]))
    ours, exact = gradients
    return float((ours - exact).abs().max() / exact.abs().max())


@contextmanager
def _as_it_was() -> Iterator[None]:
    """A rival may ask for another precision."""
    before = torch.get_float32_matmul_precision()
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _two(make: Callable[[], rivals.TwoViews]) -> Callable[[Sequence[Tensor]], Tensor]:
    """A rival's loss of two views, built when it is first asked."""
    built: list[rivals.TwoViews] = []

    def value(z: Sequence[Tensor]) -> Tensor:
        if not built:
            built.append(make())
        return built[0](z[0], z[1])

    return value


def _dense_tf32(z: Sequence[Tensor]) -> Tensor:
    torch.set_float32_matmul_precision("high")
    return rivals.dense(z[0], z[1])


RIVALS: dict[str, Callable[[Sequence[Tensor]], Tensor]] = {
    "dense": lambda z: rivals.dense(z[0], z[1]),
    "dense, TF32": _dense_tf32,
    "dense, torch.compile": _two(rivals.compiled),
    "flex_attention, compiled": _two(rivals.compiled_flex),
    "lightly": _two(rivals.lightly),
    "Inf-CL, one direction": _two(rivals.inf_cl),
}
