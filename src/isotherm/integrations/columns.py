"""What the adapters of text columns share: which losses they take, and which columns are views."""

from __future__ import annotations

import inspect
from typing import get_args

from isotherm import nn as losses
from isotherm.checks import one_of
from isotherm.losses.columns import Pairing
from isotherm.losses.loss import Loss


def view_count(columns: int, pairing: Pairing) -> int:
    """How many of the columns are views of their row; those after them are hard negatives."""
    return columns if pairing == "own" else min(columns, 2)


def check(loss: Loss, pairing: Pairing, symmetric: bool, views: int) -> None:
    """Refuse, when the adapter is made, what would go wrong in the middle of somebody's training."""
    if not isinstance(loss, Loss):
        came = f"the class {loss.__name__}, not an instance" if inspect.isclass(loss) else f"a {type(loss).__name__}"
        raise TypeError(f"loss must be one of isotherm.nn, such as InfoNCELoss(temperature=0.05); got {came}.")
    if not _usable(type(loss)):
        why = loss.without_negatives if loss.takes_labels else "needs a predictor, which is not here"
        able = [n for n, c in sorted(vars(losses).items()) if inspect.isclass(c) and issubclass(c, Loss) and _usable(c)]
        raise ValueError(f"{type(loss).__name__} {why}. These can be used: {', '.join(able)}.")
    if loss.reduction != "mean":
        raise ValueError(f'a trainer wants one number, not one each; got reduction={loss.reduction!r}, use "mean".')
    one_of("pairing", pairing, get_args(Pairing))
    if symmetric and pairing == "own":
        raise ValueError('symmetric belongs to pairing="cross_view"; with "own" the loss itself decides who asks.')
    if isinstance(views, bool) or not isinstance(views, int) or views < 2:
        raise ValueError(f"views is the number of times a text is embedded, 2 or more; got {views!r}.")


def _usable(loss: type[Loss]) -> bool:
    return loss is not Loss and not loss.takes_labels and not loss.needs_predictor
