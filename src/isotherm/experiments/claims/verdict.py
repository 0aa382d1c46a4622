"""What comes of judging a claim: held, contradicted or undecided, and the numbers that say so under names that stay."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, is_dataclass, replace
from typing import Any, Literal

from isotherm.files import Json

Outcome = Literal["held", "contradicted", "undecided"]


@dataclass(frozen=True)
class Part:
    """One thing that a claim says, and how it came out."""

    what: str
    """In words, such as 'simple below the best of contrastive'."""
    effect: float
    """The mean over seeds."""
    interval: tuple[float, float]
    least: float
    """The least effect that counts; where something must stay within a bound, the bound."""
    bound: bool
    """Whether the effect must stay within `least` instead of reaching it."""
    by_seed: Mapping[int, float]
    outcome: Outcome
    needed: int | None
    """Seeds that would decide it at the measured spread; None: more than can be hoped for. Decided: those it has."""
    measure: str = ""
    """In whose unit the effect is; none: a correlation, a ratio, or what `what` says."""

    @property
    def seeds(self) -> int:
        return len(self.by_seed)


class Evidence(Mapping[str, Any]):
    """The numbers behind a verdict, each under an identifier: `best_at`, `means` (by the label of a point), …

    claims.json holds `as_dict`, and the page words the same. Some names have a form of their own: `values` is a line
    of (what was varied, mean, deviation), `parts` are the things that the claim says (`Part`), `why` says why nothing
    could be judged, `missing` which runs it needs that there are not.
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
    """What came of a claim: the part of it that decided, and all evidence."""

    outcome: Outcome
    part: Part | None
    """The weakest part of a claim that held, the strongest against one that is contradicted, else the furthest from
    being decided; None: nothing could be judged."""
    evidence: Evidence
    remedy: str = ""
    """What would decide it, where it is undecided."""

    @property
    def held(self) -> bool | None:
        return {"held": True, "contradicted": False, "undecided": None}[self.outcome]

    @property
    def parts(self) -> tuple[Part, ...]:
        return tuple(self.evidence.get("parts", ()))

    def lacking(self, missing: Mapping[str, str]) -> Verdict:
        """The same without these runs, each with what is wrong with it: nothing is decided on what is left."""
        if not missing:
            return self
        evidence = Evidence(**self.evidence, missing=[f"{run} {why}" for run, why in missing.items()])
        return replace(self, outcome="undecided", evidence=evidence, remedy="the runs that are missing")

    def as_dict(self) -> Json:
        """As claims.json holds it."""
        part = self.part
        return {
            "verdict": self.outcome,
            "held": self.held,
            "effect": None if part is None else _plain(part.effect),
            "interval": None if part is None else _plain(part.interval),
            "least": None if part is None else _plain(part.least),
            "seeds": 0 if part is None else part.seeds,
            "remedy": self.remedy,
            "evidence": self.evidence.as_dict(),
        }


def undecided(why: str, remedy: str = "") -> Verdict:
    """There is too little to judge."""
    return Verdict("undecided", None, Evidence(why=why), remedy)


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, str | bool | int) or value is None:
        return value
    return float(f"{value:.6g}") if math.isfinite(float(value)) else None
