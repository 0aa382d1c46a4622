"""What comes of judging a claim: whether it held, and the numbers that say so under names that do not change."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from isotherm.files import Json


@dataclass(frozen=True)
class Estimate:
    """A mean and its standard error; not a number where there are no runs, and no error with one seed."""

    mean: float
    error: float


class Evidence(Mapping[str, Any]):
    """The numbers behind a verdict, each under an identifier: `rho`, `least`, `means` (by the label of a point), …

    claims.json holds `as_dict`, and the page words the same. Some names have a form of their own: `values` is a line
    of (what was varied, mean, deviation), `wanted` says in words what the rule asks for, `why` why nothing could be
    judged, `missing` which runs it needs that there are not, `parts` is the evidence of each of several rules.
    """

    def __init__(self, **numbers: Any) -> None:
        self._numbers = numbers

    def __getitem__(self, name: str) -> Any:
        return self._numbers[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    def __repr__(self) -> str:
        return f"Evidence({', '.join(f'{name}={value!r}' for name, value in self._numbers.items())})"

    def as_dict(self) -> Json:
        """What JSON can hold: a number that is none becomes null."""
        return {name: _plain(value) for name, value in self._numbers.items()}


@dataclass(frozen=True)
class Verdict:
    """Whether a claim held, and why."""

    held: bool
    evidence: Evidence

    def lacking(self, missing: Mapping[str, str]) -> Verdict:
        """The same without these runs, each with what is wrong with it: nothing holds on what is left."""
        if not missing:
            return self
        return Verdict(False, Evidence(**self.evidence, missing=[f"{run} {why}" for run, why in missing.items()]))


def unjudged(why: str) -> Verdict:
    """There are too few runs to say."""
    return Verdict(False, Evidence(why=why))


def _plain(value: Any) -> Any:
    if isinstance(value, Estimate):
        return _plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, str | bool | int) or value is None:
        return value
    return float(value) if math.isfinite(float(value)) else None
