"""Which design a study was judged by: the commit that last changed its file, where the file is in a repository."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

SECONDS = 20
"""Nobody waits longer for git."""


@dataclass(frozen=True)
class Design:
    """The file of a study in its repository, and the last commit that changed it."""

    file: str
    commit: str
    day: str
    changed: bool
    """Since then, without a commit."""


def design_of(path: Path | None) -> Design | None:
    """None where there is no file, no git, or the file is in no repository."""
    if path is None:
        return None
    file = _git(path, "ls-files", "--full-name")
    commit, _, day = _git(path, "log", "-1", "--format=%h %cs").partition(" ")
    if not file or not commit:
        return None
    return Design(file, commit, day, changed=bool(_git(path, "status", "--porcelain")))


def _git(path: Path, *command: str) -> str:
    """What git says about a file; nothing where it cannot."""
    words = ["git", "-C", str(path.parent), *command, "--", path.name]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
