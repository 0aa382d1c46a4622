"""A batch too large for memory, embedded in chunks and compared whole: the gradient cache, for a loop of one's own.

Every chunk is embedded without gradient; the loss compares all of them and says how each embedding should move; every
chunk is embedded again, with the same random numbers, and that is sent back through it (Gao et al. 2021,
arXiv:2101.06983). So memory is that of one chunk, the negatives are those of the whole batch, and the price is a second
forward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from isotherm.checks import at_least
from isotherm.engine.once import once_differentiable

Embedder = Callable[[Any], Tensor]


class Cached:
    """A loss of inputs instead of embeddings: ``value = cached(loss, encoder, chunk=64)(x0, x1)``, then ``backward()``.

    A view is a tensor of N items, or a mapping or sequence of such tensors, as a tokenizer gives; what else a mapping
    holds goes to every chunk as it is. Further arguments (`negatives`, `labels`, `weights`) go to the loss. `module`
    holds what else learns, where encoder or loss is a function around it.

    The gradient is that of the whole batch. Dropout draws the same numbers in both passes. BN takes its statistics of
    a chunk, as it does of a process's share, and counts each chunk once. Parameters get their gradient in one piece,
    so that `DistributedDataParallel`, around the encoder or around all of it, sends it around once. The views get none.
    """

    def __init__(
        self, loss: Callable[..., Tensor], encoder: Embedder, chunk: int = 64, module: nn.Module | None = None
    ) -> None:
        at_least(1, chunk=chunk)
        if not callable(loss):
            raise TypeError(f"loss must be something to call, got {type(loss).__name__}.")
        if module is None and not isinstance(encoder, nn.Module):
            kind = getattr(encoder, "__name__", type(encoder).__name__)
            raise TypeError(f"the encoder {kind} is no nn.Module: say where its parameters are, module=….")
        self.loss, self.encoder, self.chunk = loss, encoder, chunk
        self.modules = list(dict.fromkeys(m for m in (module, encoder, loss) if isinstance(m, nn.Module)))

    def __call__(self, *views: Any, **more: Any) -> Tensor:
        """The loss of these views; `backward()` on it, once, gives the parameters their gradient."""
        if not views:
            raise ValueError("at least 1 view is needed, got none.")
        chunks = [split(view, self.chunk) for view in views]
        learning = {id(p): p for m in self.modules for p in m.parameters() if p.requires_grad}
        if not (torch.is_grad_enabled() and learning):
            embedded = [torch.cat([_checked(self.encoder(part)) for part in parts]) for parts in chunks]
            return self.loss(*embedded, **more)
        value: Tensor = _Twice.apply(self, chunks, more, *learning.values())  # type: ignore[no-untyped-call]
        return value

    def __repr__(self) -> str:
        return f"cached({self.loss!r}, {type(self.encoder).__name__}, chunk={self.chunk})"


def cached(loss: Callable[..., Tensor], encoder: Embedder, chunk: int = 64, module: nn.Module | None = None) -> Cached:
    """A loss whose inputs are embedded `chunk` items at a time, with the gradient of the whole batch; see `Cached`."""
    return Cached(loss, encoder, chunk, module)


class _Twice(torch.autograd.Function):
    """Forward: embed without gradient, compare. Backward: embed again, chunk by chunk, and sum the gradients."""

    @staticmethod
    def forward(ctx: Any, cache: Cached, chunks: list[list[Any]], more: dict[str, Any], *learning: Tensor) -> Tensor:
        states, embedded = [], []
        with torch.no_grad(), ExitStack() as stack:
            for module in cache.modules:
                stack.enter_context(still(module))
            for parts in chunks:
                each = []
                for part in parts:
                    states.append(chance())
                    each.append(_checked(cache.encoder(part)))
                embedded.append(each)
        with torch.enable_grad():
            leaves = [torch.cat(each).detach().requires_grad_() for each in embedded]
            value = cache.loss(*leaves, **more)
        if not isinstance(value, Tensor) or value.ndim:
            raise ValueError("a cached loss must give one number; use reduction='mean' or 'sum'.")
        _refuse_strangers(value, [*leaves, *learning])
        ctx.cache, ctx.learning, ctx.leaves, ctx.value = cache, learning, leaves, value
        ctx.parts = list(zip((part for parts in chunks for part in parts), states, strict=True))
        ctx.sizes = [[len(z) for z in each] for each in embedded]
        kinds = dict.fromkeys(("cpu", leaves[0].device.type))
        ctx.autocast = {kind: (torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in kinds}
        return value.detach()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.value is None:
            raise RuntimeError("backward() of a cached loss works once: what it needs is gone. Call the loss again.")
        learning: tuple[Tensor, ...] = ctx.learning
        own: list[Tensor | None]  # such as that of a learnable temperature
        slopes, own = _gradients(ctx.value, upstream, ctx.leaves, learning)
        each = [slope for whole, sizes in zip(slopes, ctx.sizes, strict=True) for slope in whole.split(sizes)]
        after = chance()
        for (part, state), slope in zip(ctx.parts, each, strict=True):
            take_chance(state)
            with torch.enable_grad(), _autocast_as(ctx.autocast):
                z = ctx.cache.encoder(part)
            if z.requires_grad:
                if part is ctx.parts[0][0]:
                    _refuse_strangers(z, learning, "encoder")
                _, more = _gradients(z, slope.to(z.dtype), [], learning)
                own = [b if a is None else a if b is None else a + b for a, b in zip(own, more, strict=True)]
        take_chance(after)
        ctx.value = ctx.leaves = ctx.parts = None
        return (None, None, None, *own)


def _refuse_strangers(value: Tensor, known: Sequence[Tensor], what: str = "loss") -> None:
    """Refuse a loss or encoder that learns something of which the cache would not know: it would get no gradient."""
    ours, seen, left = {id(tensor) for tensor in known}, set(), [value.grad_fn]
    while left:
        node = left.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if id(getattr(node, "variable", known[0])) not in ours:
            raise ValueError(
                f"the {what} learns something that is in no module the cache knows, such as a temperature in a "
                f"function; give a module that holds it, too: cached(…, module={what})."
            )
        left += [following for following, _ in node.next_functions]


def _gradients(
    of: Tensor, upstream: Tensor, leaves: Sequence[Tensor], learning: Sequence[Tensor]
) -> tuple[list[Tensor], list[Tensor | None]]:
    """The gradients of the leaves, 0 where they take no part, and of the parameters."""
    slopes = torch.autograd.grad(of, [*leaves, *learning], upstream, allow_unused=True)
    ours = [torch.zeros_like(z) if g is None else g for z, g in zip(leaves, slopes, strict=False)]
    return ours, list(slopes[len(leaves) :])


def split(view: Any, chunk: int) -> list[Any]:
    """A view in chunks of items."""
    if isinstance(view, Tensor):
        return list(view.detach().split(chunk))
    if isinstance(view, Mapping):
        parts = {name: split(value, chunk) for name, value in view.items() if isinstance(value, Tensor) and value.ndim}
        if not parts:
            raise ValueError(f"a view holds no tensors: {', '.join(map(str, view)) or 'nothing at all'}.")
        _same_lengths({name: len(value) for name, value in view.items() if name in parts})
        count = len(next(iter(parts.values())))
        return [{**view, **{name: pieces[i] for name, pieces in parts.items()}} for i in range(count)]
    if isinstance(view, Sequence) and view and all(isinstance(part, Tensor) for part in view):
        _same_lengths({str(i): len(part) for i, part in enumerate(view)})
        return [type(view)(pieces) for pieces in zip(*(part.split(chunk) for part in view), strict=True)]  # type: ignore[call-arg]
    raise TypeError(f"a view must be a tensor, or a mapping or sequence of tensors, got {type(view).__name__}.")


def _same_lengths(lengths: dict[str, int]) -> None:
    if len(set(lengths.values())) > 1:
        raise ValueError(f"the tensors of a view must hold as many items; they hold {lengths}.")


def _checked(z: Any) -> Tensor:
    if not isinstance(z, Tensor):
        raise TypeError(
            f"the encoder must give a tensor of embeddings, got {type(z).__name__}; wrap it, such as "
            "lambda batch: model(**batch).pooler_output."
        )
    return z


@contextmanager
def _autocast_as(state: Mapping[str, tuple[bool, torch.dtype]]) -> Iterator[None]:
    """The autocast that surrounded the first pass."""
    (first, (on, dtype)), *others = state.items()
    with torch.autocast(first, dtype=dtype, enabled=on):
        if not others:
            yield
            return
        with _autocast_as(dict(others)):
            yield


def chance(device: torch.device | None = None) -> list[Tensor]:
    """Where the random numbers of the processor and of the device (by default, CUDA's if it is in use) are."""
    here = [torch.get_rng_state()]
    if device is None:
        in_use = torch.cuda.is_available() and torch.cuda.is_initialized()
        return [*here, torch.cuda.get_rng_state()] if in_use else here
    return [*here, torch.cuda.get_rng_state(device)] if device.type == "cuda" else here


def take_chance(state: Sequence[Tensor], device: torch.device | None = None) -> None:
    torch.set_rng_state(state[0])
    if len(state) > 1:
        torch.cuda.set_rng_state(state[1], "cuda" if device is None else device)


@contextmanager
def still(module: nn.Module) -> Iterator[None]:
    """BN counts nothing: this pass will be made again."""
    norms = [m for m in module.modules() if isinstance(m, _NormBase)]
    moving = [(m, m.momentum) for m in norms if m.momentum is not None]
    counting = [(b, b.clone()) for m in norms if m.momentum is None for b in m.buffers()]
    tracked = [m.num_batches_tracked for m, _ in moving if m.num_batches_tracked is not None]
    counting += [(b, b.clone()) for b in tracked]
    for m, _ in moving:
        m.momentum = 0.0
    try:
        yield
    finally:
        for m, momentum in moving:
            m.momentum = momentum
        for buffer, before in counting:
            buffer.copy_(before)
