"""Looking again: which points of a study get more seeds so that claims are decided, and how each verdict came.

A look judges all claims. Whatever is undecided says how many seeds would decide it (`claims.decision`); the next step
raises the seeds of the points of one claim to the next number of `LOOKS`, and is chosen to decide the most claims for
its seconds. looks.json in the study's folder has what was added and every look, so that a study goes on from it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

import numpy as np

from isotherm import files
from isotherm.experiments.claims.decision import MOST_SEEDS
from isotherm.experiments.claims.verdict import Outcome
from isotherm.experiments.judging import Judged
from isotherm.experiments.points import MANY_SEEDS
from isotherm.experiments.records import Records
from isotherm.experiments.study import Where

FILE = "looks.json"
LOOKS = (3, 5, 8, MOST_SEEDS)
"""Numbers of seeds at which it is worth looking again."""


@dataclass(frozen=True)
class Look:
    """What was known at a time, and what was done about it."""

    runs: int
    seconds: float
    """Of training until then."""
    verdicts: Mapping[str, Outcome]
    """By claim."""
    added: Mapping[str, int] = field(default_factory=dict)
    """Points and the seeds that they were given then."""
    why: str = ""


@dataclass
class Looks:
    """Seeds of points beyond those of the scale, and all looks."""

    folder: Path
    seeds: dict[str, int] = field(default_factory=dict)
    """By the label of a point."""
    looks: list[Look] = field(default_factory=list)

    @classmethod
    def of(cls, folder: Path) -> Looks:
        """What a folder has of them; none: nothing has been added."""
        if not (folder / FILE).exists():
            return cls(folder)
        damaged = f"{folder / FILE} is damaged. Bring it back: it tells how often verdicts were looked at."
        try:
            stored = json.loads(files.text_of(folder / FILE))
            known = [f.name for f in fields(Look)]
            looks = [Look(**{name: look[name] for name in known if name in look}) for look in stored["looks"]]
            seeds = {str(k): int(v) for k, v in stored["seeds"].items()}
            if any(n > MANY_SEEDS for n in seeds.values()) or not all(isinstance(a.verdicts, dict) for a in looks):
                raise ValueError(damaged)
            return cls(folder, seeds, looks)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise ValueError(damaged) from error

    def write(self) -> None:
        """Into the folder, if there is anything to tell."""
        if self.looks:
            files.write_text(self.folder / FILE, self.as_json())

    def as_json(self) -> str:
        stored = {"seeds": self.seeds, "looks": [asdict(look) for look in self.looks]}
        return json.dumps(stored, indent=1, ensure_ascii=False) + "\n"

    def add(self, records: Records, judged: Sequence[Judged], step: Step | None, why: str) -> None:
        """Remember a look, and the seeds that it asks for."""
        finished = {r.key: r for r in records}.values()
        verdicts = {each.claim.claim: each.verdict.outcome for each in judged}
        added = {} if step is None else dict(step.seeds)
        if self.looks and self.looks[-1].runs == len(finished):  # the same look again, by a later call
            self.looks.pop()
        self.looks.append(Look(len(finished), sum(r.seconds for r in finished), verdicts, added, why))
        self.seeds |= added
        self.write()

    def keep_only(self, records: Records) -> None:
        """Forget seeds that were asked for and not run: a budget was spent."""
        by_point: dict[str, set[int]] = {}
        for record in records:
            by_point.setdefault(Where(record.arm, record.varied).label, set()).add(record.seed)
        for label, seeds in list(self.seeds.items()):
            there = by_point.get(label, set())
            whole = next(n for n in range(seeds, -1, -1) if set(range(n)) <= there)
            self.seeds[label] = whole
        self.write()


@dataclass(frozen=True)
class Step:
    """More seeds for some points."""

    seeds: Mapping[str, int]
    """Of each point, by its label."""
    seconds: float
    """Of training that it costs."""
    claims: tuple[str, ...]
    """That it should decide."""
    worth: float
    """Claims that it is expected to decide."""

    @property
    def why(self) -> str:
        return f"{max(self.seeds.values())} seeds at {len(self.seeds)} points, for: {'; '.join(self.claims)}"


def next_step(judged: Sequence[Judged], records: Records, within: float = np.inf) -> Step | None:
    """The step that decides the most claims for its seconds, if one costs no more than `within` seconds."""
    open_claims = [each for each in judged if each.verdict.outcome == "undecided" and _can_be_decided(each)]
    now, cost = _seeds(records), _cost(records)
    steps = []
    for each in open_claims:
        target = _target(each)
        if target is None:
            continue
        wanted = {where.label: target for where in each.points if now.get(where.label, 0) < target}
        if not wanted:
            continue
        seconds = sum(cost.get(label, 0.0) * (target - now.get(label, 0)) for label in wanted)
        after = {**now, **wanted}
        served = [other for other in open_claims if _served(other, after)]
        worth = sum(_chance(other) for other in served)
        steps.append(Step(wanted, seconds, tuple(other.claim.claim for other in served), worth))
    affordable = [step for step in steps if step.seconds <= within and step.worth > 0]
    return max(affordable, key=lambda step: step.worth / max(step.seconds, 1e-9), default=None)


def _can_be_decided(each: Judged) -> bool:
    """By more seeds: nothing that it needs failed, and its probe is not at the ceiling."""
    missing = each.verdict.evidence.get("missing", [])
    return each.verdict.part is not None and not missing and not each.verdict.remedy.startswith("not on this data")


def _target(each: Judged) -> int | None:
    """The next number of seeds to look at, near what it needs; None: it has the most."""
    have = min((part.seeds for part in each.verdict.parts if part.outcome == "undecided"), default=0)
    needed = [part.needed or MOST_SEEDS for part in each.verdict.parts if part.outcome == "undecided"]
    wanted = min(max(needed, default=MOST_SEEDS), MOST_SEEDS)
    return next((n for n in LOOKS if n > have and n >= wanted), None)


def _served(each: Judged, seeds: Mapping[str, int]) -> bool:
    target = _target(each)
    return target is not None and all(seeds.get(where.label, 0) >= target for where in each.points)


def _chance(each: Judged) -> float:
    """How likely its target decides it: what it needs at the measured spread may be more."""
    target = _target(each)
    open_parts = [part for part in each.verdict.parts if part.outcome == "undecided"]
    needed = max((part.needed or 10 * MOST_SEEDS for part in open_parts), default=1)
    return 0.0 if target is None else min(1.0, target / needed)


def _seeds(records: Records) -> dict[str, int]:
    """Seeds that every point has."""
    seeds: dict[str, set[int]] = {}
    for record in records:
        seeds.setdefault(Where(record.arm, record.varied).label, set()).add(record.seed)
    return {label: len(found) for label, found in seeds.items()}


def _cost(records: Records) -> dict[str, float]:
    """Seconds of a run at every point; the median, as a machine may have been busy with other things."""
    seconds: dict[str, list[float]] = {}
    for record in records:
        seconds.setdefault(Where(record.arm, record.varied).label, []).append(record.seconds)
    return {label: float(np.median(each)) for label, each in seconds.items()}


def history(looks: Iterable[Look]) -> list[list[str]]:
    """A row for every claim: its verdict at each look."""
    looks = list(looks)
    claims = list(dict.fromkeys(claim for look in looks for claim in look.verdicts))
    return [[claim, *(look.verdicts.get(claim, "") for look in looks)] for claim in claims]
