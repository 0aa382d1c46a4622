"""A verdict in words: what was found, between which bounds, what would have counted; what would decide it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from isotherm.experiments.claims.verdict import Part, Verdict
from isotherm.measures.catalogue import measure
from isotherm.report.page import places, spread

FEW = 3
"""Missing runs, and things that a claim says, that a line names; the page has them all."""


def duration(seconds: float) -> str:
    """Seconds as a person says them."""
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} seconds"


def sentence(verdict: Verdict) -> str:
    """Why a claim came out as it did, in a line: the part that decided, and what is missing."""
    words = [] if verdict.part is None else [part_in_words(verdict.part)]
    others = len(verdict.parts) - 1
    if verdict.part is not None and others:
        words[0] += f" (the {_place(verdict)} of {others + 1} things that the claim says)"
    if "why" in verdict.evidence:
        words.append(str(verdict.evidence["why"]))
    if verdict.remedy:
        words.append(f"what would decide it: {verdict.remedy}")
    missing = verdict.evidence.get("missing", [])
    if missing:
        more = [f"and {len(missing) - FEW} more"] if len(missing) > FEW else []
        words.append(f"missing: {'; '.join([*missing[:FEW], *more])}")
    return ". ".join(word[0].upper() + word[1:] for word in words if word) + "."


def _place(verdict: Verdict) -> str:
    return {"held": "weakest", "contradicted": "one most against it", "undecided": "least decided"}[verdict.outcome]


def part_in_words(part: Part) -> str:
    """One thing that a claim says: effect, interval, seeds, what counts."""
    number = _number(part)
    wanted = f"at most {number(part.least)}" if part.bound else f"{number(part.least)} or more counts"
    if not part.bound and part.least == 0:
        wanted = "above zero counts"
    if not part.seeds:
        found = "no seed has it" if math.isnan(part.effect) else number(part.effect)
    elif part.seeds == 1:
        found = f"{number(part.effect)}, one seed"
    else:
        low, high = (number(bound, bare=True, half=_half(part)) for bound in part.interval)
        found = f"{number(part.effect, half=_half(part))} [{low} to {high}], {part.seeds} seeds"
    return f"{part.what}: {found}; {wanted}"


def _half(part: Part) -> float:
    """Half of the interval: what it leaves open is not worth more digits."""
    low, high = part.interval
    return (high - low) / 2 if math.isfinite(high - low) else 0.0


def _number(part: Part) -> Any:
    points = bool(part.measure) and measure(part.measure).unit == "%"

    def number(value: float, bare: bool = False, half: float = 0.0) -> str:
        if not math.isfinite(value):
            return "unknown"
        digits = places((100 if points else 1) * half, value)
        if points:
            text = f"{100 * value:.{2 if digits is None else min(2, digits)}f}"
        elif digits is None:
            text = _plain(value, tiny=1e-9 if part.least == 0 else part.least / 1e9)
        else:
            text = f"{value:,.{digits}f}"
        text = re.sub(r"^-(?=.*[1-9])", "−", text).lstrip("-")
        return f"{text} points" if points and not bare else text

    return number


def _plain(value: float, tiny: float = 1e-9) -> str:
    """Three digits; what rounding has left of zero, beside what counts, is zero."""
    if abs(value) < abs(tiny):
        return "0"
    if 1e-7 < abs(value) < 1e-4:
        return f"{value:.{2 - math.floor(math.log10(abs(value)))}f}"
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.3g}"


def by_seed(part: Part) -> str:
    """What every seed says, in the unit of the effect."""
    number = _number(part)
    return ", ".join(f"{seed}: {number(value, bare=True)}" for seed, value in part.by_seed.items())


def details(verdict: Verdict, measures: Sequence[str] = ()) -> list[tuple[str, str]]:
    """All that the evidence has, for a table: its name and its words; values as `measures` are shown."""
    rows: list[tuple[str, str]] = [(part.outcome, part_in_words(part)) for part in verdict.parts]
    factor, title = _shown(measures)
    for name, value in verdict.evidence.items():
        if name == "values":
            numbers = [(x, factor * mean, abs(factor) * deviation) for x, mean, deviation in value]
            line = ", ".join(f"{x:g}: {m:.4g}{f' ± {spread(s, m)}' if s > 1e-9 else ''}" for x, m, s in numbers)
            rows.append((title or "values", re.sub(r"(?<!\w)-(?=[\d.])", "−", line)))
        elif name == "means" and title and isinstance(value, Mapping):
            rows.append((title, _words({point: factor * mean for point, mean in value.items()})))
        elif name.endswith("_from") and verdict.parts and isinstance(value, Mapping):
            number = _number(verdict.parts[0])
            rows.append((name.replace("_", " "), ", ".join(f"{source}: {number(v)}" for source, v in value.items())))
        elif name not in ("parts", "why", "missing"):
            rows.append((name.replace("_", " "), _words(value)))
    return rows


def _shown(measures: Sequence[str]) -> tuple[float, str]:
    """What values of these are multiplied with where they are shown, and what they are called; alike or neither."""
    facts = {(measure(name).factor, measure(name).axis) for name in measures}
    return facts.pop() if len(facts) == 1 else (1.0, "")


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{k} {_words(v)}" for k, v in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_words, value))
    if isinstance(value, float):
        return f"{value:.4g}".replace("-", "−") if math.isfinite(value) else "unknown"
    return str(value)
