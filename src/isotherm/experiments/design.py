"""Which design a study has: the commits at which it began and that last changed its file, where there are any."""

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


def commit_now(path: Path | None) -> str:
    """The commit that a study's file is at; empty where there is none, or where the file is not as it was committed."""
    if path is None or not _git(path, "ls-files") or _git(path, "status", "--porcelain"):
        return ""
    return _git(path, "log", "-1", "--format=%h")


def same_since(path: Path | None, commit: str) -> bool:
    """Whether a study's file is as it was at a commit."""
    return path is not None and bool(_git(path, "log", "-1", "--format=%h", commit)) and not _git(path, "diff", commit)


def _git(path: Path, *command: str) -> str:
    """What git says about a file; nothing where it cannot."""
    words = ["git", "-C", str(path.parent), *command, "--", path.name]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
