"""Where data lives: the folder in ISOTHERM_DATA, then `isotherm/data` in the user's cache folder."""

from __future__ import annotations

import os
from pathlib import Path


def root(given: Path | str | None = None) -> Path:
    """The folder that holds one folder per set; `given` wins over the environment."""
    if given is not None:
        return Path(given).expanduser()
    environment = os.environ.get("ISOTHERM_DATA")
    return Path(environment).expanduser() if environment else _users()


def looked_in(given: Path | str | None = None) -> list[Path]:
    """Where a set is looked for: in the data root and, unless one is given, in the user's own."""
    return [root(given)] if given is not None else list(dict.fromkeys([root(), _users()]))


def cache(given: Path | str | None = None) -> Path:
    """Where decoded images are kept: `cache` in the data root, or the user's own where that cannot be written."""
    folder = root(given)
    nearest = next((p for p in (folder, *folder.absolute().parents) if p.exists()), Path("/"))
    return (folder if os.access(nearest, os.W_OK) else _users()) / "cache"


def features() -> Path:
    """Where features of locked towers are kept: in the user's own folder, whatever the data root is."""
    return _users().parent / "features"


def masked() -> Path:
    """Where runs of masked words are kept that other runs begin with: in the user's own folder, too."""
    return _users().parent / "masked"


def _users() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "isotherm" / "data"
