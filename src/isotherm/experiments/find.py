"""Finds studies: ours by their place, those of installed packages by their entry points, a user's own by its path.

    isotherm study temperature
    isotherm study ./mine_study.py

A package brings studies with ``[project.entry-points."isotherm.studies"]``, ``name = "package.module:STUDY"``.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from isotherm import doors
from isotherm.checks import did_you_mean
from isotherm.experiments.spoken_of import check_claims
from isotherm.experiments.study import Study

HOME = "isotherm.studies"
STUDY = "STUDY"
"""What a study's module ends in."""


def names() -> list[str]:
    """Every study that can be asked for by its name, without loading any."""
    return sorted({*_ours(), *doors.entry_points("studies")})


def load(name: str) -> Study:
    """A study by its name, by the path of its file, or as ``package.module:STUDY``."""
    installed = doors.entry_points("studies")
    if doors.is_outside(name):
        study = _from_outside(name)
        if study.name in names() and installed.get(study.name) != name:
            raise ValueError(f"{name} is study '{study.name}', and there is one of that name already; rename the file.")
        return study
    ours = name in _ours()
    if ours and name in installed:
        raise ValueError(
            f"two studies are called '{name}': ours and {installed[name]} of an installed package; ask for that one as "
            f"{_with_thing(installed[name])}, or uninstall it."
        )
    if name in installed:
        return replace(_from_outside(installed[name], name), name=name)
    if not ours:
        raise ValueError(f"no study '{name}'{did_you_mean(name, names())}")
    module = importlib.import_module(f"{HOME}.{name.replace('-', '_')}")
    return _study_of(module, module.__name__, STUDY, name)


def listed(*more: str) -> Iterator[tuple[str, Study | Exception]]:
    """Every study and those asked for besides; one that does not load troubles only itself."""
    for name in (*more, *names()):
        try:
            study = load(name)
            yield study.name, study
        except (ValueError, TypeError) as error:
            if name in more:
                raise
            yield name, error


def file_of(study: Study) -> Path | None:
    """The file that a study is written in, if it is in one."""
    place = study.source.rpartition(":")[0] or f"{HOME}.{study.name.replace('-', '_')}"
    if place.endswith(".py"):
        return Path(place)
    file = getattr(sys.modules.get(place), "__file__", None)
    return None if file is None else Path(file)


def _ours() -> list[str]:
    """Every module of the folder is a study."""
    return [module.name.replace("_", "-") for module in pkgutil.iter_modules(importlib.import_module(HOME).__path__)]


def _from_outside(name: str, label: str = "") -> Study:
    """A study of somebody else's file or module, called by the file's or module's name; its code is run."""
    place, _, thing = _with_thing(name).rpartition(":")
    path = Path(place).expanduser().resolve() if place.endswith(".py") else None
    stem = path.stem if path else place.rpartition(".")[2]
    label = label or re.sub(r"[^A-Za-z0-9]+", "-", stem).strip("-") or "study"
    return replace(_study_of(doors.module_of(place), place, thing, label), source=f"{path or place}:{thing}")


def _with_thing(name: str) -> str:
    """``./mine.py`` and ``package.module`` stand for their STUDY."""
    return name if ":" in name and not name.endswith(".py") else f"{name}:{STUDY}"


def _study_of(module: ModuleType, place: str, thing: str, name: str) -> Study:
    """A module's study, with the module's name and text where it has none of its own."""
    if not hasattr(module, thing):
        raise ValueError(f"{place} has no {thing}; a study's file ends in {STUDY} = Study(base=…, arms=…, scales=…).")
    study = getattr(module, thing)
    if not isinstance(study, Study):
        kind = type(study).__name__
        raise TypeError(f"{thing} of {place} must be a Study of isotherm.experiments.study, got {kind}.")
    study = replace(study, name=study.name or name, doc=study.doc or module.__doc__ or "")
    check_claims(study)
    return study
