"""Names from outside the package: ``./mine.py:MyLoss``, ``package.module:Class``, or an installed entry point.

Naming a file or a module runs its code. What a person types is theirs to run; what a *file* names (a configuration, a
run's folder, a study's folder) may be somebody else's, and is refused until the person has said so: with `allow`, by
typing the same name, or by ``--trust-code``.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.metadata
import importlib.util
import re
import sys
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from isotherm.checks import did_you_mean

LIBRARIES = ("timm", "torchvision", "hf", "text", "folder", "parquet", "arrays")
"""What stands before a colon and is no module of the user's."""
EVERYTHING = "*"
_allowed: set[str] = set()


def is_outside(name: object) -> bool:
    """Whether a name is ``PATH.py:NAME``, ``PATH.py`` or ``package.module:NAME``."""
    if not isinstance(name, str):
        return False
    place, colon, thing = _parted(name)
    if place.endswith(".py"):
        return not colon or thing.isidentifier()
    dotted = all(part.isidentifier() for part in place.split("."))
    return bool(colon) and dotted and thing.isidentifier() and place not in LIBRARIES


def load(name: str) -> Any:
    """What an outside name stands for; a sentence if its code does not run or holds no such thing."""
    place, _, thing = _parted(name)
    module = module_of(place)
    if not hasattr(module, thing):
        public = [k for k in vars(module) if not k.startswith("_")]
        raise ValueError(f"{place} has no '{thing}'{did_you_mean(thing, public, lead='it has')}")
    return getattr(module, thing)


def module_of(place: str) -> ModuleType:
    """The module at a path or of a dotted name, run once; what it prints goes to standard error."""
    path = Path(place).expanduser()
    if not place.endswith(".py"):
        result: ModuleType = _run(place, lambda: importlib.import_module(place))
        return result
    if not path.is_file():
        raise ValueError(f"no file {place}.")
    own = f"isotherm_outside_{re.sub(r'[^A-Za-z0-9_]', '_', path.stem)}_{digest(place)}"
    if own in sys.modules:
        return sys.modules[own]
    spec = importlib.util.spec_from_file_location(own, path.resolve())
    assert spec is not None and spec.loader is not None  # noqa: PT018
    run = spec.loader.exec_module
    module = importlib.util.module_from_spec(spec)
    sys.modules[own] = module  # dataclasses and pickles look there
    try:
        _run(place, lambda: run(module))
    except ValueError:
        del sys.modules[own]
        raise
    return module


def digest(name: str) -> str:
    """What tells one state of an outside file from another; empty for a module, which has a version instead."""
    place, _, _ = _parted(name)
    path = Path(place).expanduser()
    if not place.endswith(".py") or not path.is_file():
        return ""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def entry_points(group: str) -> dict[str, str]:
    """Names that installed packages bring, ``[project.entry-points."isotherm.losses"]``, and what they stand for."""
    result = importlib.metadata.entry_points(group=f"isotherm.{group}")
    return {point.name: point.value for point in result}


def allow(*names: str) -> None:
    """From now on files may name these; ``*`` stands for everything."""
    _allowed.update(names)


def allowed() -> tuple[str, ...]:
    """For a worker that is to be allowed the same."""
    return tuple(sorted(_allowed))


def everything_allowed() -> bool:
    """Whether the person has trusted whatever code files bring (``--trust-code``)."""
    return EVERYTHING in _allowed


def outside_names(settings: Any) -> Iterable[str]:
    """Every outside name somewhere in plain settings."""
    if isinstance(settings, Mapping):
        for value in settings.values():
            yield from outside_names(value)
    elif isinstance(settings, list | tuple):
        for value in settings:
            yield from outside_names(value)
    elif is_outside(settings):
        yield str(settings)


def refuse_strangers(settings: Any, source: Path | str) -> None:
    """Refuse what a file names until a person has allowed it."""
    if everything_allowed():
        return
    for name in outside_names(settings):
        if name not in _allowed:
            raise ValueError(
                f"{source} names {name}, whose code would be run. If you trust it, say --trust-code, or type the name."
            )


def _parted(name: str) -> tuple[str, str, str]:
    place, colon, thing = name.rpartition(":")
    if not colon or name.endswith(".py"):
        return name, "", ""
    return place, colon, thing


def _run(place: str, run: Any) -> Any:
    """Import; whatever the code does wrong becomes one sentence that names the line."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            return run()
    except SystemExit as error:
        raise ValueError(f"{place} ends the program when it is imported (exit {error.code}).") from error
    except ModuleNotFoundError as error:
        if error.name and place.startswith(error.name):
            raise ValueError(f"no module {error.name}; for a file write its path, ./{error.name}.py.") from error
        raise ValueError(f"{place} does not import: {_told(error, place)}") from error
    except Exception as error:
        raise ValueError(f"{place} does not import: {_told(error, place)}") from error


def _told(error: Exception, place: str) -> str:
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: SyntaxError: {error.msg}."
    lines = [
        frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename.endswith(Path(place).name)
    ]
    at = f"line {lines[-1]}: " if lines else ""
    return f"{at}{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}".rstrip(": ") + "."
