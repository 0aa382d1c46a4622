"""Refusals, worded once: what came, what was wanted, what to do. Raised at the boundary, never deep inside."""

from __future__ import annotations

import difflib
import inspect
import math
import numbers
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

Word = TypeVar("Word", bound=str)

FEWEST_SEEDS = 3
"""Of a verdict: two say nothing of their spread, for shares of a few hundred images often agree to the last digit."""


def did_you_mean(name: str, known: Iterable[str], listed: Sequence[str] | None = None, lead: str = "there is") -> str:
    """The end of a sentence about an unknown name: the nearest known one, else all of them, or those to be `listed`."""
    known = list(known)
    small = {each.lower(): each for each in reversed(known)}
    close = difflib.get_close_matches(name, known, n=1) or [
        small[each] for each in difflib.get_close_matches(name.lower(), small, n=1)
    ]
    if close:
        return f"; did you mean '{close[0]}'?"
    listed = known if listed is None else listed
    return f"; {lead}: {', '.join(listed)}." if listed else "."


@contextmanager
def refusing(what: str) -> Iterator[None]:
    """Whatever a damaged file makes its reader raise, as a sentence that begins with `what`; refusals pass."""
    try:
        yield
    except (ValueError, OSError, MemoryError, ModuleNotFoundError):
        raise
    except Exception as error:
        said = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".:")
        raise ValueError(f"{what}: {said}.") from error


def one_of(name: str, value: Word, allowed: Sequence[Word]) -> Word:
    """`value`, if it is one of the allowed words."""
    if value not in allowed:
        raise ValueError(
            f"{name} must be one of {', '.join(allowed)}; got {value!r}{did_you_mean(str(value), allowed, ())}"
        )
    return value


def parameters(of: Callable[..., Any], without: Sequence[str] = ()) -> list[str]:
    """The names of what a constructor or function takes."""
    signed = of.__init__ if isinstance(of, type) else of  # type: ignore[misc]
    return [name for name in inspect.signature(signed).parameters if name not in ("self", *without)]


def known_settings(name: str, given: Iterable[str], known: Sequence[str], kind: str = "setting") -> None:
    """Refuse settings that what is called `name` does not have."""
    for setting in given:
        if setting not in known:
            listed = known or ["none"]
            raise TypeError(f"{name} has no {kind} '{setting}'{did_you_mean(setting, known, listed, lead='it has')}")


def number(name: str, value: float) -> float:
    """A finite number, or a sentence saying what came instead."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, got {type(value).__name__}.")
    if not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number, got {value}.")
    return float(value)


def positive(name: str, value: float) -> float:
    """A number above zero."""
    if (isinstance(value, numbers.Real) and math.isinf(value)) or number(name, value) <= 0:
        raise ValueError(f"{name} must be a positive number, got {value}.")
    return float(value)


def not_negative(name: str, value: float) -> float:
    """A number from zero up."""
    if number(name, value) < 0:
        raise ValueError(f"{name} must be 0 or more, got {value}.")
    return float(value)


def at_least(least: float, **values: float | None) -> None:
    """Refuse whole numbers below `least`; None stands for one that is not given."""
    for name, value in values.items():
        if value is None:
            continue
        if isinstance(least, int) and (isinstance(value, bool) or not isinstance(value, int)):
            raise TypeError(f"{name} must be a whole number, got {value!r}.")
        if value < least:
            raise ValueError(f"{name} must be {least:g} or more, got {value}.")


MOST_LAYERS = 1000
"""No network here has more: one that a damaged file asks for is not made for hours before its weights are looked at."""


def deep(least: int, **layers: int) -> None:
    """Refuse numbers of layers below `least`, and those that nobody has."""
    at_least(least, **layers)
    for name, value in layers.items():
        if value > MOST_LAYERS:
            raise ValueError(f"{name} must be {MOST_LAYERS:,} or fewer, got {value:,}.")


def count(n: int, what: str) -> str:
    """1 image, 2,000 images."""
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"
