"""What claims and comparisons speak of: arms and values that the study must have, checked when it is loaded. Light."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from isotherm.checks import did_you_mean
from isotherm.experiments.study import Arm, Study, Where


def check_claims(study: Study) -> None:
    """Refuse claims and comparisons about runs that the study does not have at any scale, before any is made."""
    arms: dict[str, list[Arm]] = {}
    for arm in study.arms:  # two may share a name: the same kind of run with other values
        arms.setdefault(arm.name, []).append(arm)
    if not arms:
        return  # that it has no runs is told by whoever asks for them
    parts = [(claim.claim, claim.rule) for claim in study.claims]
    for title, part in (*parts, *((f"compared with {each.against}", each) for each in study.compare)):
        for where in points_of(part):
            if where.arm not in arms:
                raise ValueError(
                    f"study {study.name}: '{title}' names the arm '{where.arm}'{did_you_mean(where.arm, arms)}"
                )
            _check_values(f"study {study.name}: '{title}'", where, arms[where.arm])
        for rule in rules_of(part):
            _check_length(f"study {study.name}: '{title}'", rule, arms)


def points_of(part: Any) -> Iterator[Where]:
    """Every point that a rule, or a rule in it, names in what it declares."""
    if isinstance(part, Where):
        yield part
    elif isinstance(part, Sequence) and not isinstance(part, str):
        for each in part:
            yield from points_of(each)
    elif is_dataclass(part):
        for field in fields(part):
            value = getattr(part, field.name)
            if field.type == "ArmName":
                yield Where(value)
            elif field.type == "Sequence[ArmName]":
                yield from map(Where, value)
            else:
                yield from points_of(value)


def rules_of(part: Any) -> Iterator[Any]:
    """A rule, and those that it is made of."""
    yield part
    inner = getattr(part, "parts", ()) or (getattr(part, "rule", None),)
    for each in inner:
        if each is not None:
            yield from rules_of(each)


def _check_values(lead: str, where: Where, arms: Sequence[Arm]) -> None:
    """What a claim says is varied in an arm is varied, and has the value."""
    for setting, value in where.varied.items():
        there = _values(arms, setting)
        if not there:
            over = list(dict.fromkeys(name for arm in arms for name in arm.over))
            hint = did_you_mean(setting, over, lead="it varies") if over else "; it varies nothing."
            raise ValueError(f"{lead} names {where.arm} at {setting} {value}, which that arm does not vary{hint}")
        if value not in there:
            raise ValueError(
                f"{lead} names {where.arm} at {setting} {value}; the arm has it at: {', '.join(map(str, there))}."
            )


def _values(arms: Sequence[Arm], setting: str) -> list[Any]:
    """The values that arms of one name have of a setting."""
    values: list[Any] = []
    for value in (value for arm in arms for value in arm.over.get(setting, ())):
        if value not in values:  # it may be a list, which no set takes
            values.append(value)
    return values


def _check_length(lead: str, rule: Any, arms: Mapping[str, Sequence[Arm]]) -> None:
    """A line needs as many values as its rule judges by; with fewer no number of seeds decides it."""
    fewest = getattr(rule, "fewest", 0)
    if not fewest:
        return
    values = len(_values(arms[rule.arm], rule.over))
    if values < fewest:
        has = f"{values} value{'s' if values != 1 else ''} of {rule.over}"
        kind = type(rule).__name__
        raise ValueError(f"{lead} can never be decided: {kind} needs {fewest} or more, and {rule.arm} has {has}.")
