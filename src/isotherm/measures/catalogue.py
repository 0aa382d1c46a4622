"""The measures that exist, found by looking in this folder and among installed packages."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Iterable

import isotherm.measures
from isotherm import doors
from isotherm.checks import did_you_mean
from isotherm.measures.measure import Measure

USUAL = ("probes", "geometry", "separation")
"""What a study measures that does not say."""


@functools.cache
def measures() -> dict[str, Measure]:
    """Every measure by its name."""
    modules = [
        importlib.import_module(f"isotherm.measures.{m.name}") for m in pkgutil.iter_modules(isotherm.measures.__path__)
    ]
    ours = [value for module in modules for value in vars(module).values() if isinstance(value, Measure)]
    known = {measure.name: measure for measure in ours}
    for name, place in doors.entry_points("measures").items():
        measure = doors.load(place)
        if not isinstance(measure, Measure):
            raise ValueError(f"entry point isotherm.measures '{name}': {place} is no Measure but a {type(measure)}.")
        if known.setdefault(measure.name, measure) is not measure:
            raise ValueError(f"entry point isotherm.measures '{name}': there is a measure '{measure.name}' already.")
    return known


def groups() -> dict[str, list[Measure]]:
    """The measures by what they are taken together as."""
    by: dict[str, list[Measure]] = {}
    for measure in measures().values():
        for group in measure.groups:
            by.setdefault(group, []).append(measure)
    return by


def in_groups(names: Iterable[str]) -> list[Measure]:
    """The measures of these groups."""
    known = groups()
    for name in names:
        if name not in known:
            raise ValueError(f"no group of measures '{name}'{did_you_mean(name, known)}")
    return list(dict.fromkeys(measure for name in names for measure in known[name]))


def measure(name: str) -> Measure:
    """A measure by its name, also behind a dot; what nobody here knows (of a run of another version) is shown as is."""
    known = measures()
    if name in known:
        return known[name]
    return known.get(name.rpartition(".")[2]) or Measure(name, name.replace("_", " "), "", lambda subject: None, ())
