"""The face every loss shares: check the settings, pair the views, ask for one value per query, reduce.

No mathematics here. A family's file subclasses `Loss` and writes `per_query`.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, ParamSpec, get_args

import torch
from torch import Tensor, nn

from isotherm import world
from isotherm.checks import known_settings, one_of, parameters
from isotherm.engine.once import once_differentiable
from isotherm.pairing import in_batch, queued
from isotherm.types import Pairs, Reduction

Given = ParamSpec("Given")


def uncompiled(function: Callable[Given, Tensor]) -> Callable[Given, Tensor]:
    """Inside `torch.compile`, call the function as it is: the engine's tiles gain nothing from being traced. Inside
    `torch.func`, which would say something about `setup_context`, refuse.

    `torch.compiler.disable` as a plain decorator would import the compiler, a second, for everybody.
    """

    @functools.wraps(function)
    def call(*args: Given.args, **settings: Given.kwargs) -> Tensor:
        if torch.compiler.is_compiling():
            return torch.compiler.disable(function)(*args, **settings)  # type: ignore[no-any-return]
        if torch._C._are_functorch_transforms_active():
            raise RuntimeError(
                "isotherm's losses do not run inside torch.func (grad, vjp, jvp, vmap, hessian): their backward pass "
                "is written by hand. Call the loss outside of it, and backward() or torch.autograd.grad on its value."
            )
        return function(*args, **settings)

    return call


class Loss(nn.Module):
    """A contrastive loss of embeddings: ``loss(z0, z1, *more_views, negatives=None, weights=None)``.

    The views are un-normalized (N, D) tensors, one per view. `negatives` replaces the negatives of the batch: (M, D)
    for all queries, or (N, K, D), K for each; then view 0 holds the queries and the other views their positives.
    `weights`, (N,), say how much each item counts: the mean is Σ w·L / Σ w, and a sum or single values have w·L.
    """

    is_potential: ClassVar[bool] = True
    """Whether it is elementwise potentials summed over all negatives and a readout of those sums, as nearly all are."""
    takes_labels: ClassVar[bool] = False
    """Whether the positives are those with the query's label."""
    negative_free: ClassVar[bool] = False
    """Whether it compares no two items."""
    needs_predictor: ClassVar[bool] = False
    """Whether view 0 must come from a predictor: without one it makes all embeddings equal."""
    two_by_two: ClassVar[bool] = False
    """Whether it compares views in pairs, each by itself, however many there are."""

    @property
    def without_negatives(self) -> str:
        """Why it can use no negatives from a queue or bank; empty if it can."""
        return "takes its positives and negatives from labels" if self.takes_labels else ""

    @property
    def only_for_pairing(self) -> str:
        """The setting that says how it pairs the views of a batch, where it says something else than usual: nobody
        reads it where a method pairs them."""
        return ""

    @property
    def without_ring(self) -> str:
        """Why it must gather the whole batch on every process (`isotherm.world.exchange`); empty if it need not."""
        return ""

    def __new__(cls, *args: Any, **settings: Any) -> Loss:
        known_settings(cls.__name__, settings, parameters(cls))
        return super().__new__(cls)

    def __init__(self, reduction: Reduction = "mean") -> None:
        super().__init__()
        self.reduction = one_of("reduction", reduction, get_args(Reduction))

    def at(self, seed: int, step: int) -> None:
        """Tell it where in a training it is: what it draws is then a function of these two and of nothing else."""

    def pair(self, views: Sequence[Tensor]) -> list[Pairs]:
        """Who is compared when no `negatives` are given."""
        return in_batch(views)

    def per_query(self, pairs: Pairs) -> Tensor:
        """One value for each query of a block."""
        raise NotImplementedError

    @uncompiled
    def forward(
        self, *views: Tensor, negatives: Tensor | None = None, weights: Tensor | None = None, **other: object
    ) -> Tensor:
        """The loss of the views; the class says what `negatives` and `weights` are."""
        if other:
            raise TypeError(self._takes_no(next(iter(other))))
        if world.by_ring():
            refuse_ring(self)
        refuse_unlike(views, negatives=negatives, weights=weights)
        with full_precision(views):
            return self.weighted(lambda loss: loss.of_views(views, negatives), views, weights)

    def _takes_no(self, word: str) -> str:
        if self.takes_labels:
            reason = f": it {self.without_negatives}" if word == "negatives" else ""
            return f"{type(self).__name__} is called with views, labels= and weights=; there is no {word}={reason}."
        if word == "labels":
            return (
                f"{type(self).__name__} takes no labels: the views of an item are its positives. "
                "SupConLoss()(z0, z1, labels=y) takes those of a class for positives, too."
            )
        return f"{type(self).__name__} is called with views, negatives= and weights=; there is no {word}=."

    def weighted(self, value: Callable[[Loss], Tensor], views: Sequence[Tensor], weights: Tensor | None) -> Tensor:
        """The value of this loss, with the weight of each item if there are any."""
        if weights is None:
            return value(self)
        each = copy.copy(self)  # shares parameters
        each.reduction = "none"
        values = value(each)
        if not values.ndim:
            raise ValueError(f"{type(self).__name__} has no value per query, which weights could weigh.")
        return self.reduced(values, item_weights(weights, len(views[0]), values))

    def reduced(self, values: Tensor, weights: Tensor | None = None) -> Tensor:
        """One value per query as this loss's reduction has them, over the queries of all processes."""
        if weights is not None:
            values = values * weights
        if self.reduction == "none":
            return values
        if self.reduction == "sum":
            return world.total(values.sum())
        return world.mean(values) if weights is None else world.total(values.sum()) / world.total(weights.sum())

    def of_views(self, views: Sequence[Tensor], negatives: Tensor | None) -> Tensor:
        """The loss of the views as the user gave them."""
        return self.of(self.pair(views) if negatives is None else queued(views, negatives))

    def of(self, blocks: Sequence[Pairs]) -> Tensor:
        """The loss of blocks of pairs, whoever paired them."""
        if any(pairs.only_positives is not None for pairs in blocks) != self.takes_labels:
            able = "needs" if self.takes_labels else "cannot use"
            raise ValueError(f"{type(self).__name__} {able} labelled pairs (isotherm.pairing.labelled).")
        if any(pairs.visitors is not None for pairs in blocks):
            refuse_ring(self)
        each = [self.per_query(pairs) for pairs in blocks]
        for pairs, value in zip(blocks, each, strict=True):
            refuse_unlike_queries(self, value, len(pairs.positives))
        return self.reduced(average_over_blocks(blocks, each))

    def __setattr__(self, name: str, value: Any) -> None:
        for held in (self.__dict__.get("_modules", {}), self.__dict__.get("_parameters", {})):
            if name in held:
                if held[name] is value:
                    return  # set again, as sentence-transformers' trainer does in a loop over the children
                delattr(self, name)  # a number may take the place of a learnable temperature
        super().__setattr__(name, value)

    def extra_repr(self) -> str:
        return ", ".join(f"{n}={getattr(self, n)!r}" for n in parameters(type(self)) if n not in self._modules)


def refuse_unlike_queries(loss: Loss, values: Tensor, queries: int) -> None:
    """Refuse what is not one value per query: a mean of one's own would be wrong on several processes."""
    if not isinstance(values, Tensor) or values.shape != (queries,):
        got = f"shape {tuple(values.shape)}" if isinstance(values, Tensor) else f"a {type(values).__name__}"
        raise ValueError(
            f"{type(loss).__name__}.per_query must give one value per query, shape (queries,); it gave {got}. Leave "
            "the mean over them to the reduction."
        )


def refuse_ring(loss: Loss) -> None:
    """Refuse a loss that cannot do with visiting candidates, in one sentence."""
    if loss.without_ring:
        raise ValueError(f'{type(loss).__name__} {loss.without_ring}: use exchange "gather" instead of "ring".')


def refuse_unlike(views: Sequence[Tensor], **options: Tensor | None) -> None:
    """Refuse what some processes are given and others are not: they would wait for each other for ever, or abort."""
    if world.size() == 1 or not views or not isinstance(views[0], Tensor):
        return
    everyone = world.everyone([int(value is not None) for value in options.values()], views[0].device)
    for name, given in zip(options, zip(*everyone, strict=True), strict=True):
        if len(set(given)) > 1:
            have, lack = ([rank for rank, it in enumerate(given) if it == wanted] for wanted in (1, 0))
            raise ValueError(f"every process must give {name}, or none: processes {have} give them and {lack} do not.")


def full_precision(views: Sequence[Tensor]) -> torch.autocast:
    """Similarities are computed in float32 at least, whatever autocast surrounds the loss."""
    known = bool(views) and isinstance(views[0], Tensor)
    return torch.autocast(views[0].device.type if known else "cpu", enabled=False)


class _Product(torch.autograd.Function):
    """a @ b, with a backward pass that no autocast around it makes coarser; it can be differentiated again."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(a, b)
        return _plain_product(a, b)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        a, b = ctx.saved_tensors  # each gradient laid out like what it belongs to, so that what follows runs along rows
        da = product(b, grad.T).T if _by_columns(a) else product(grad, b.T)
        db = product(grad.T, a).T if _by_columns(b) else product(a.T, grad)
        return da, db


def _by_columns(matrix: Tensor) -> bool:
    return not matrix.is_contiguous() and matrix.T.is_contiguous()


def product(a: Tensor, b: Tensor) -> Tensor:
    """The product of two matrices for a loss that multiplies them itself.

    Plain ``a @ b`` would be exact in the forward pass (`full_precision`) but not in a ``backward()`` under autocast.
    """
    if not torch.is_grad_enabled():
        return _plain_product(a, b)
    result: Tensor = _Product.apply(a, b)  # type: ignore[no-untyped-call]
    return result


def _plain_product(a: Tensor, b: Tensor) -> Tensor:
    if not torch.is_autocast_enabled(a.device.type):  # entering a context costs as much as a small product
        return a @ b
    with full_precision((a,)):
        return a @ b


class _Exactly(torch.autograd.Function):
    """A function of tensors, recorded here and differentiated where no autocast reaches."""

    @staticmethod
    def forward(ctx: Any, function: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
        leaves = [x.detach().requires_grad_(x.requires_grad) for x in inputs]
        with torch.enable_grad(), full_precision(inputs):
            value = function(*leaves)
        ctx.value, ctx.leaves = value, leaves
        ctx.save_for_backward(*inputs)
        return value.detach()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        wanted = [leaf for leaf in ctx.leaves if leaf.requires_grad]
        with full_precision(wanted):
            slopes = iter(torch.autograd.grad(ctx.value, wanted, grad, retain_graph=True))
        return (None, *(next(slopes) if leaf.requires_grad else None for leaf in ctx.leaves))


def exactly(function: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
    """``function(*inputs)``, with a backward pass that no autocast around it makes coarser.

    What `product` is for one product, for an expression of many operations (factorizations among them).
    """
    if not (torch.is_grad_enabled() and any(x.requires_grad for x in inputs)):
        with full_precision(inputs):
            return function(*inputs)
    value: Tensor = _Exactly.apply(function, *inputs)  # type: ignore[no-untyped-call]
    return value


def item_weights(weights: Tensor, items: int, values: Tensor) -> Tensor:
    """A weight for each value, given one for each item; the values are view-major."""
    weights = torch.as_tensor(weights, dtype=values.dtype, device=values.device)
    if weights.shape != (items,):
        raise ValueError(f"weights must hold one number per item, shape ({items},); got {tuple(weights.shape)}.")
    if not bool((torch.isfinite(weights) & (weights >= 0)).all()):
        raise ValueError("weights must be finite and 0 or more.")
    if not float(world.total(weights.detach().sum())):
        raise ValueError("every weight is 0: nothing counts. Give at least one item a weight.")
    return weights.repeat(len(values) // items)


def average_over_blocks(blocks: Sequence[Pairs], values: Sequence[Tensor]) -> Tensor:
    """One value per query, view-major; a query that appears in several blocks gets their mean."""
    if len(blocks) == 1:
        return values[0]
    total: dict[int, list[Tensor]] = {}
    for pairs, value in zip(blocks, values, strict=True):
        for view, part in zip(pairs.query_views, value.chunk(len(pairs.query_views)), strict=True):
            total.setdefault(view, []).append(part)
    return torch.cat([torch.stack(total[view]).mean(0) for view in sorted(total)])


def no_value_per_query(loss: Loss, reduction: Reduction, why: str) -> None:
    """Refuse any reduction but the mean where the loss is not a mean over queries."""
    if reduction != "mean":
        raise ValueError(f'{type(loss).__name__} has no value per query ({why}); use reduction="mean".')
