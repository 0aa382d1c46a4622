"""Programs that are ended inside a call that writes: by a small library that is preloaded (stopping.c).

Whoever imports this was started with it (`preloaded`), has imported what the programs need, and forks them: the kill
is a kill, and only the seconds of imports are paid once.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_name("stopping.c")
LONGEST = 600.0
"""Seconds after which a program hangs."""


class Hangs(AssertionError):
    """A program did not end."""


def built(folder: Path) -> Path:
    """The library, compiled; a sentence where there is no compiler."""
    library = folder / "stopping.so"
    try:
        line = ["gcc", "-O1", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"]
        subprocess.run(line, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        sys.exit("torture needs gcc, to build the library that stops programs inside a write.")
    except subprocess.CalledProcessError as error:
        sys.exit(f"gcc does not build {SOURCE.name}: {error.stderr}")
    return library


def preloaded() -> None:
    """Start this program again with the library, unless it was."""
    if "STOP_LIBRARY" not in os.environ:
        library = str(built(Path(tempfile.mkdtemp(prefix="isotherm-stopping-"))))
        os.environ |= {"STOP_LIBRARY": library, "LD_PRELOAD": library}
        os.execv(sys.executable, [sys.executable, *sys.argv])


@dataclass(frozen=True)
class Stop:
    """When and how a program is stopped; with neither it goes to its end and is counted."""

    at: int | None = None
    """The number of the call that writes."""
    how: str = "before"
    """before, half or after it, or full: from then on the disk is."""
    whom: str = "group"
    after: float | None = None
    """Or: seconds after it began, whatever it does."""


class Program:
    """A function in a process group of its own, stopped as asked; whatever it starts belongs to the group."""

    def __init__(self, run: Callable[[], int], below: Path, stop: Stop | None = None) -> None:
        self.stop = stop or Stop()
        self._count, self._said = (Path(tempfile.mkstemp(prefix="isotherm-torture-")[1]) for _ in range(2))
        self._count.write_bytes(bytes(8))
        self.began = time.monotonic()
        self.pid = os.fork()
        if self.pid == 0:
            self._run(run, below)
        with suppress(OSError):  # whoever is first makes the group
            os.setpgid(self.pid, self.pid)

    def _run(self, run: Callable[[], int], below: Path) -> None:
        code = 1
        try:
            os.setpgid(0, 0)
            file = os.open(self._said, os.O_WRONLY | os.O_APPEND)
            for stream in (1, 2):
                os.dup2(file, stream)
            os.environ |= {"STOP_BELOW": str(below), "STOP_COUNT": str(self._count), "STOP_WHOM": self.stop.whom}
            if self.stop.at is not None:
                os.environ |= {"STOP_AT": str(self.stop.at), "STOP_HOW": self.stop.how}
            code = run()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def ended(self) -> tuple[int, str, int]:
        """Its exit code (−9: killed), what it said, and how many calls wrote."""
        code = None
        while code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            passed = time.monotonic() - self.began
            if pid:
                code = os.waitstatus_to_exitcode(status)
            elif self.stop.after is not None and passed > self.stop.after:
                os.killpg(self.pid, signal.SIGKILL)
                self.stop = Stop()
            elif passed > LONGEST:
                os.killpg(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                raise Hangs(f"no end after {LONGEST:.0f} s: {self._said.read_text()[-2000:]}")
            else:
                time.sleep(0.005)
        said, count = self._said.read_text(errors="replace"), int.from_bytes(self._count.read_bytes(), sys.byteorder)
        for path in (self._said, self._count):
            path.unlink()
        return code, said, count
