"""What must be true of every loss, whatever it says: the proof that a new one needs. `isotherm check` prints it.

Each law is a function of a `Maker`, which makes the loss with given settings; it raises `Broken` with a sentence. A law
that cannot hold for a loss is named in `EXEMPT`, or in the class's own ``exempt = {"law": "why"}``, with its reason.
"""

from __future__ import annotations

import copy
import inspect
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.multiprocessing.spawn import ProcessException, spawn
from torch.utils._python_dispatch import TorchDispatchMode

from isotherm import doors, world
from isotherm.checks import parameters
from isotherm.engine import tile_size
from isotherm.losses import catalogue
from isotherm.losses.loss import Loss

EXEMPT = {
    ("views", "BYOLLoss"): "view 0 is the prediction, the others are targets",
    ("views", "SimSiamLoss"): "view 0 is the prediction, the others are targets",
    ("gradient", "BYOLLoss"): "targets get no gradient; test_identities compares with an expression that detaches",
    ("gradient", "SimSiamLoss"): "targets get no gradient; test_identities compares with an expression that detaches",
    ("gradient", "MACLLoss"): "its weight and temperature are constants; test_identities detaches likewise",
    ("gradient", "DCLWLoss"): "its weights are constants; test_identities detaches likewise",
    ("gradient", "ARBLoss"): "a basis gets no gradient; test_whitening compares with an oracle that holds it",
    ("rotation", "BarlowTwinsLoss"): "compares single features",
    ("rotation", "VICRegLoss"): "compares single features",
    ("rotation", "ZeroCLLoss"): "compares single features",
    ("rotation", "ZeroFCLLoss"): "compares single features",
    ("rotation", "ZeroICLLoss"): "takes the mean of an embedding's numbers",
    ("rotation", "ARBLoss"): "compares single features",
    ("rotation", "WMSELoss"): "a Cholesky factor depends on the order of the features",
    ("rotation", "GeneralizedContrastiveLoss"): "swd projects on a random basis: invariant in distribution only",
    ("length", "BarlowTwinsLoss"): "does not normalize",
    ("length", "VICRegLoss"): "does not normalize",
    ("length", "WMSELoss"): "whitens what is not normalized",
    ("length", "ZeroCLLoss"): "does not normalize",
    ("length", "ZeroFCLLoss"): "does not normalize",
    ("length", "ZeroICLLoss"): "standardizes with a least variance of 1e-5",
    ("length", "ARBLoss"): "does not normalize",
}
SMOOTH = {name: {"detach": False} for name in ("DySTreSSLoss", "ZeroCLLoss", "ZeroFCLLoss", "ZeroICLLoss")}
"""Settings under which the gradient is that of the value; the default detaches τ(s), or a whitening matrix."""
EXTREMES = (0.001, 0.02, 100.0)
"""Temperatures at which everything must stay finite."""
SPLITS = ((4, 4), (3, 5))
"""Items of each of two processes."""
SEED = 5
"""Of the random numbers that a loss draws."""


class Broken(AssertionError):
    """A law that does not hold; the message says how."""


class NotApplicable(Exception):
    """A law that says nothing about this loss; the message says why."""


class Maker:
    """Makes one loss, by its class or by a name that another process can find it under."""

    def __init__(self, kind: type[Loss], name: str | None = None) -> None:
        self.kind, self.name = kind, name or kind.__name__
        self.knows = parameters(kind)

    @classmethod
    def of(cls, name: str) -> Maker:
        """By a name of ours, ``./mine.py:MyLoss`` or ``package.module:Class``."""
        if doors.is_outside(name) and name.endswith(".py"):
            name = f"{name}:{_only_loss(name)}"
        kind = doors.load(name) if doors.is_outside(name) else catalogue.loss(name)
        if not (inspect.isclass(kind) and issubclass(kind, Loss)):
            got = kind.__name__ if inspect.isclass(kind) else f"a {type(kind).__name__}"
            raise ValueError(f"{name} is no loss: a class that extends isotherm.nn.Loss is wanted, got {got}.")
        return cls(kind, name)

    def __call__(self, **settings: Any) -> Loss:
        if "generator" in self.knows:
            settings.setdefault("generator", torch.Generator().manual_seed(SEED))
        return self.kind(**settings)

    def value(self, views: Sequence[Tensor], loss: Loss | None = None, **more: Any) -> Tensor:
        """The loss of these views, however it is called."""
        loss = self() if loss is None else loss
        if self.kind.takes_labels:
            result: Tensor = loss(torch.cat(list(views)), labels(len(views[0])).repeat(len(views)))
        else:
            result = loss(*views, **more)
        return result

    @property
    def takes_negatives(self) -> bool:
        return not self().without_negatives


def _only_loss(place: str) -> str:
    """The name of the one loss that a file writes."""
    module = doors.module_of(place)
    own = [k for k, v in vars(module).items() if inspect.isclass(v) and v.__module__ == module.__name__]
    losses = [k for k in own if issubclass(getattr(module, k), Loss) and not k.startswith("_")]
    if len(losses) == 1:
        return losses[0]
    if not losses:
        raise ValueError(f"{place} has no loss: a class that extends isotherm.nn.Loss is wanted.")
    raise ValueError(f"{place} has several losses; name one: {', '.join(f'{place}:{each}' for each in losses)}.")


def views(count: int = 2, n: int = 7, d: int = 5, seed: int = 0, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """Views that are alike, as trained ones are: a common part and a part of their own."""
    generator = torch.Generator().manual_seed(seed)
    common = torch.randn(n, d, generator=generator, dtype=dtype)
    return [common + 0.5 * torch.randn(n, d, generator=generator, dtype=dtype) for _ in range(count)]


def labels(n: int) -> Tensor:
    return torch.arange(n) % 3


def order(make: Maker) -> None:
    """The order of the batch does not matter."""
    for count in (2, 4):
        z = views(count, n=6)
        shuffled = torch.randperm(6, generator=torch.Generator().manual_seed(1))
        if make.kind.takes_labels:
            shuffled = torch.tensor([3, 1, 2, 0, 4, 5])  # keeps i mod 3 with i: labels move along
        _close(make.value(z), make.value([v[shuffled] for v in z]), 1e-12, f"{count} views in another order of items")


def order_of_views(make: Maker) -> None:
    """The order of the views does not matter."""
    z = views(3)
    _close(make.value(z), make.value([z[2], z[0], z[1]]), 1e-12, "three views in another order")


def gradient(make: Maker) -> None:
    """The gradient is that of finite differences."""
    for count in (2, 3):
        z = [v.requires_grad_() for v in views(count, n=6, d=3, seed=2)]
        loss = make(**SMOOTH.get(make.name, {}))
        generator: Any = getattr(loss, "generator", None)
        state = generator.get_state() if generator else None

        def value(*z: Tensor, loss: Loss = loss, generator: Any = generator, state: Any = state) -> Tensor:
            if state is not None:
                generator.set_state(state)
            return make.value(z, loss)

        try:
            torch.autograd.gradcheck(value, z, eps=1e-6, atol=1e-6)
        except RuntimeError as error:
            said = " ".join(str(error).split())
            raise Broken(f"{count} views: {said[:300]}") from error


def tiles(make: Maker) -> None:
    """How the work is cut into tiles changes nothing."""
    whole = [v.requires_grad_() for v in views(3)]
    value = make.value(whole)
    value.backward()
    for edge in (1, 3, 4, 1000):
        tiled = [v.requires_grad_() for v in views(3)]
        with tile_size(edge):
            same = make.value(tiled)
        same.backward()
        _close(same, value, 1e-12, f"tiles of {edge}")
        for a, b in zip(whole, tiled, strict=True):
            _close(a.grad, b.grad, 1e-10, f"gradient with tiles of {edge}")


class LargestTensor(TorchDispatchMode):
    """Remembers the most numbers any operation produced in one tensor."""

    entries = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for t in out if isinstance(out, tuple | list) else [out]:
            if isinstance(t, Tensor):
                self.entries = max(self.entries, t.untyped_storage().nbytes() // t.element_size())
        return out


class Kept:
    """Counts the numbers that are kept for backward; what a tile keeps for itself is given back with it."""

    numbers = 0

    def pack(self, tensor: Tensor) -> Held:
        return Held(self, tensor)


class Held:
    """A tensor that counts while it lives."""

    def __init__(self, kept: Kept, tensor: Tensor) -> None:
        self.kept, self.tensor = kept, tensor
        kept.numbers += tensor.numel()

    def __del__(self) -> None:
        self.kept.numbers -= self.tensor.numel()


def memory(make: Maker) -> None:
    """Nothing of size N × N ever exists, in the batch or with a queue."""
    n, d, edge = 768, 4, 32
    for queue in (False, True) if make.takes_negatives else (False,):
        z = [v.requires_grad_() for v in views(2, n=n, d=d, dtype=torch.float32)]
        more: dict[str, Any] = {"negatives": views(1, n=2 * n, d=d, dtype=torch.float32)[0]} if queue else {}
        kept = Kept()
        with tile_size(edge), LargestTensor() as largest:  # type: ignore[no-untyped-call]
            with torch.autograd.graph.saved_tensors_hooks(kept.pack, lambda held: held.tensor):
                value = make.value(z, **more)
            numbers = kept.numbers
            value.backward()
        if numbers >= 40 * n * d:  # n² is 144 · n·d here
            raise Broken(f"keeps {numbers:,} numbers for backward; {40 * n * d:,} are allowed at n = {n}, d = {d}.")
        if largest.entries > edge * 2 * n + 8 * n * d:
            raise Broken(f"made a tensor of {largest.entries:,} numbers at n = {n}, d = {d} with tiles of {edge}.")


def extremes(make: Maker) -> None:
    """Value and gradient are finite at any temperature, for degenerate embeddings, in half precision."""
    for settings in _extreme_settings(make):
        for kind, pair in _degenerate(10, 8):  # whitening takes more items than numbers
            for dtype in (torch.float32, torch.float16, torch.bfloat16):
                z = [v.to(dtype).clone().requires_grad_() for v in pair]
                where = f"{kind} embeddings in {str(dtype).removeprefix('torch.')}, settings {settings or 'as default'}"
                value = make.value(z, make(**settings))
                value.backward()
                if value.dtype != torch.float32 or not torch.isfinite(value):
                    raise Broken(f"the value is {value.item()} in {value.dtype}: {where}.")
                if any(v.grad is not None and not torch.isfinite(v.grad).all() for v in z):
                    raise Broken(f"a gradient is not finite: {where}.")


def _extreme_settings(make: Maker) -> list[dict[str, float]]:
    if "temperature" in make.knows:
        return [{"temperature": t} for t in EXTREMES]
    if {"tau_min", "tau_max"} <= set(make.knows):
        return [{"tau_min": t, "tau_max": 2 * t} for t in EXTREMES]
    if {"t_pos", "t_neg"} <= set(make.knows):
        return [{"t_pos": 1 / t, "t_neg": 1 / t} for t in EXTREMES]
    return [{"t": 1 / t} for t in EXTREMES] if "t" in make.knows else [{}]


def _degenerate(n: int, d: int) -> Iterator[tuple[str, tuple[Tensor, Tensor]]]:
    a, b = views(2, n=n, d=d, dtype=torch.float32)
    yield "random", (a, b)
    yield "identical", (torch.ones(n, d), torch.ones(n, d))
    yield "opposite", (a, -a)
    a, b = a.clone(), b.clone()
    a[1], b[1] = a[0], b[0]
    yield "duplicated", (a, b)


def rotation(make: Maker) -> None:
    """A rotation of the sphere does not matter."""
    z = views(2)
    turn = torch.linalg.qr(torch.randn(5, 5, generator=torch.Generator().manual_seed(4), dtype=torch.float64)).Q
    _close(make.value(z), make.value([v @ turn for v in z]), 1e-11, "after a rotation")


def length(make: Maker) -> None:
    """The length of the embeddings does not matter."""
    z = views(2)
    lengths = torch.tensor([1e-30, 1e-3, 1, 2, 1e3, 1e30, 1e150], dtype=torch.float64)
    _close(make.value(z), make.value([v * lengths[:, None] for v in z]), 1e-11, "with other lengths")


def per_query(make: Maker) -> None:
    """One value per query with reduction="none", whose mean is the loss, and whose sum is with reduction="sum"."""
    try:
        loss = make(reduction="none")
    except (ValueError, TypeError) as error:
        raise NotApplicable(str(error)) from error
    z = views(3)
    each = make.value(z, loss)
    if each.ndim != 1 or len(each) % len(z[0]):
        raise Broken(f"three views of 7 items gave values of shape {tuple(each.shape)}; (7,) or (21,) is wanted.")
    _close(each.mean(), make.value(z), 1e-7, "the mean of the values per query")
    _close(each.sum(), make.value(z, make(reduction="sum")), 1e-7, 'the sum with reduction="sum"')


def autocast(make: Maker) -> None:
    """Autocast around it does not touch the similarities, nor around its backward pass."""

    def embedded() -> list[Tensor]:
        return [v.requires_grad_() for v in views(2, n=32, d=16, dtype=torch.float32)]

    plain, half, whole = embedded(), embedded(), embedded()
    expected = make.value(plain)
    expected.backward()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = make.value(half)
        make.value(whole).backward()
    value.backward()
    _close(value, expected, 0.0, "under autocast")
    for a, b, c in zip(plain, half, whole, strict=True):
        _close(b.grad, a.grad, 0.0, "the gradient under autocast")
        _close(c.grad, a.grad, 0.0, "the gradient with backward() under autocast")


def without_gradient(make: Maker) -> None:
    """Without gradient the value is the same."""
    z = views(2)
    with torch.no_grad():
        value = make.value(z)
    if value.requires_grad:
        raise Broken("the value asks for a gradient inside torch.no_grad().")
    _close(value, make.value([v.clone().requires_grad_() for v in z]).detach(), 1e-12, "without gradient")


def copies(make: Maker) -> None:
    """It can be copied, and prints its settings."""
    loss = make()
    if "generator" in make.knows:
        loss.generator = None
    if repr(copy.deepcopy(loss)) != repr(loss):
        raise Broken(f"a copy prints as {copy.deepcopy(loss)!r}, the original as {loss!r}.")


def docstring(make: Maker) -> None:
    """Its docstring says what the number means, its equation and known values."""
    doc = inspect.getdoc(make.kind) or ""
    first = doc.splitlines()[0] if doc else ""
    if not first.endswith((".", "…")) or first.startswith(("Compute", "Return", "This")):
        raise Broken(f"the first line must say what the number means, in a sentence; got {first!r}.")
    wanted = {".. math::": "an equation", "Fixed points:": "known values (Fixed points: …)"}
    for mark, what in wanted.items():
        if mark not in doc:
            raise Broken(f"the docstring lacks {what}.")


def processes(make: Maker) -> None:
    """Two processes give the value and the gradient of one, also with unequal parts."""
    queues = (False, True) if make.takes_negatives else (False,)
    for split in SPLITS:
        with tempfile.TemporaryDirectory() as folder:
            spawn(_process, args=(make.name, split, folder), nprocs=2)
            parts = [torch.load(Path(folder) / f"{rank}.pt", weights_only=True) for rank in (0, 1)]
        for queue in queues:
            value, gradients = _on_part(make, slice(0, sum(split)), sum(split), queue)
            for rank, part in enumerate(parts):
                _close(part[queue][0], value, 1e-10, f"the value on process {rank} of {split}")
            for i, whole in enumerate(gradients):
                together = torch.cat([part[queue][1][i] for part in parts]) / 2  # averaged, as DDP does
                _close(together, whole, 1e-9, f"the gradient of view {i} on processes with {split} items")


def _process(rank: int, name: str, split: tuple[int, int], folder: str) -> None:
    world.join(rank, 2, Path(folder) / "meet")
    torch.set_num_threads(1)
    make = Maker.of(name)
    start = sum(split[:rank])
    mine = slice(start, start + split[rank])
    queues = (False, True) if make.takes_negatives else (False,)
    result = {queue: _on_part(make, mine, sum(split), queue) for queue in queues}
    torch.save(result, Path(folder) / f"{rank}.pt")
    world.leave()


def _on_part(make: Maker, mine: slice, n: int, queue: bool) -> tuple[Tensor, list[Tensor]]:
    """Value and gradients on one process's part of the batch."""
    z = [v[mine].clone().requires_grad_() for v in views(3, n=n)]
    if make.kind.takes_labels:
        z = z[:1]
        value: Tensor = make()(z[0], labels(n)[mine])
    else:
        value = make()(*z, **({"negatives": views(1, n=6, seed=9)[0]} if queue else {}))
    value.backward()
    return value.detach(), [torch.zeros_like(v) if v.grad is None else v.grad for v in z]


def oracle(make: Maker) -> None:
    """It equals its equation written as loops: a function `oracle` beside it (or of its name in tests/oracles.py)."""
    beside = inspect.getmodule(make.kind)
    written: Callable[..., Any] | None = getattr(beside, "oracle", None)
    if written is None:
        raise NotApplicable("no function oracle(views) stands beside it, written as loops over arrays.")
    for count in (2, 3):
        z = views(count)
        expected = np.asarray(written([v.numpy() for v in z]))
        got = make.value(z).detach().numpy()
        if not np.allclose(got, expected.mean(), rtol=1e-10, atol=1e-10):
            raise Broken(f"{count} views: the loss is {got:.12g}, the oracle says {expected.mean():.12g}.")


LAWS: dict[str, Callable[[Maker], None]] = {
    "oracle": oracle,
    "gradient": gradient,
    "order": order,
    "views": order_of_views,
    "processes": processes,
    "extremes": extremes,
    "memory": memory,
    "tiles": tiles,
    "rotation": rotation,
    "length": length,
    "per query": per_query,
    "autocast": autocast,
    "no gradient": without_gradient,
    "copies": copies,
    "docstring": docstring,
}
"""By name; each function's docstring says the law."""


@dataclass(frozen=True)
class Outcome:
    """How a loss fares under one law."""

    law: str
    says: str
    verdict: str
    """holds, broken, exempt or not applicable."""
    detail: str = ""


def judge(law: str, make: Maker) -> Outcome:
    """One law on one loss; whatever its code raises breaks the law."""
    says = (inspect.getdoc(LAWS[law]) or "").splitlines()[0]
    ours = make.kind.__module__.startswith("isotherm.")  # somebody's loss of the same name has to keep the law
    reason = (EXEMPT.get((law, make.kind.__name__)) if ours else "") or getattr(make.kind, "exempt", {}).get(law)
    if reason:
        return Outcome(law, says, "exempt", reason)
    try:
        LAWS[law](make)
    except NotApplicable as why:
        return Outcome(law, says, "not applicable", str(why))
    except Exception as error:
        return Outcome(law, says, "broken", " ".join(_told(error).split())[:400])
    return Outcome(law, says, "holds")


def _told(error: Exception) -> str:
    """What was raised, in a line; of another process's traceback the last one."""
    if isinstance(error, Broken):
        return str(error)
    if isinstance(error, ProcessException):
        return (str(error).strip().splitlines() or [type(error).__name__])[-1]
    return f"{type(error).__name__}: {error}"


def _close(got: Tensor | None, wanted: Tensor | None, tolerance: float, what: str) -> None:
    if got is None or wanted is None:
        if got is not wanted:
            raise Broken(f"{what}: a view gets a gradient that it does not get otherwise, or none.")
        return
    difference = float((got.detach() - wanted.detach()).abs().max())
    scale = max(1.0, float(wanted.detach().abs().max()))
    if not difference <= tolerance * scale:
        raise Broken(f"{what}: off by {difference:.3g}, {tolerance:g} is allowed.")
