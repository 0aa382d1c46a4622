"""What no file and no command line may ever do; whoever sees it done raises `Broken`.

A sentence and exit code 2, or a result: never a traceback, a program run, an address called, a file written outside the
folder of outputs, half an output, more memory than stated, or more time.
"""

import contextlib
import faulthandler
import io
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from isotherm import files
from isotherm.cli import main, terminal

SECONDS, TIMES_LONGER = 60.0, 10
"""Of one call; files here are of a few kilobytes. One that a busy machine lets hardly work has so many times that."""
MEMORY, TIMES = 1 << 29, 200
"""Bytes that any file may take, and how many times its own size."""
NEVER = ("os.system", "os.exec", "os.posix_spawn", "os.spawn", "subprocess.Popen", "socket.connect", "urllib.Request")


class Broken(AssertionError):
    """A promise was."""


class _Hang(BaseException):
    """Not an Exception: no reader may catch it."""


class _Watch:
    """Hears of what Python is asked to do (PEP 578) while it is armed."""

    def __init__(self) -> None:
        self.armed: Path | None = None
        self.seen: list[str] = []
        sys.addaudithook(self.hear)

    def hear(self, event: str, arguments: tuple) -> None:
        if self.armed is None:
            return
        if event in NEVER:
            self.seen.append(f"{event} {arguments!r:.200}")
        if event == "open" and isinstance(arguments[0], str) and _writes(arguments):
            path = os.path.abspath(arguments[0])
            allowed = (str(self.armed), "/dev/", "/proc/")
            if not path.startswith(allowed) and "__pycache__" not in path and "matplotlib" not in path:
                self.seen.append(f"wrote {path}")


def _writes(arguments: tuple) -> bool:
    mode, flags = arguments[1], arguments[2]
    if isinstance(mode, str):
        return bool(set(mode) & set("wax+"))
    return bool((flags or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


WATCH = _Watch()


def _alarm_after(seconds: float) -> Callable[..., None]:
    """What ends a call: work of so many seconds, or many times as long whatever it does."""
    began, worked = time.monotonic(), time.process_time()

    def alarm(*_: object) -> None:
        if time.process_time() - worked > seconds / 2 or time.monotonic() - began > TIMES_LONGER * seconds:
            raise _Hang
        signal.setitimer(signal.ITIMER_REAL, seconds)

    return alarm


def told(read: Callable[[], object]) -> int:
    """A function as a command would call it: its refusal is a sentence."""
    try:
        with terminal.mistakes():
            read()
    except terminal.UsersMistake as mistake:
        print(f"isotherm: {mistake}", file=sys.stderr)
        return 2
    return 0


def harmless(
    words: list[str] | Callable[[], object], folder: Path, size: int = 0, outputs: tuple[Path, ...] = ()
) -> int:
    """Run a command line, or a function, on files of this `size`; its exit code. `folder` is where it may write."""
    outcome: dict[str, int] = {}
    said = io.StringIO(), io.StringIO()

    def call() -> None:
        with contextlib.redirect_stdout(said[0]), contextlib.redirect_stderr(said[1]):
            try:
                outcome["code"] = told(words) if callable(words) else main(words)
            except SystemExit as end:
                outcome["code"] = end.code if isinstance(end.code, int) else 1

    before = signal.signal(signal.SIGALRM, _alarm_after(SECONDS))
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    faulthandler.dump_traceback_later(
        2 * TIMES_LONGER * SECONDS, exit=True
    )  # what hangs outside of Python hears no signal
    WATCH.armed, WATCH.seen, tempfile.tempdir = folder, [], str(folder)
    began = time.monotonic()
    try:
        held = _memory("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # the high-water mark begins anew
        call()
        taken = _memory("VmHWM") - held
    except _Hang as hang:
        raise Broken(f"{words}: no end after {time.monotonic() - began:.0f} s") from hang
    except BaseException as error:
        raise Broken(f"{words}: {type(error).__name__}: {error}") from error
    finally:
        WATCH.armed = tempfile.tempdir = None
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    code, complaint = outcome["code"], said[1].getvalue()
    if WATCH.seen:
        raise Broken(f"{words}: {WATCH.seen[0]}")
    if code not in (0, 2):
        raise Broken(f"{words}: exit code {code}: {complaint[-500:]}")
    if "Traceback" in complaint:
        raise Broken(f"{words}: {complaint[-2000:]}")
    if code == 2 and not complaint.strip().split("\n")[-1].startswith("isotherm"):
        raise Broken(f"{words}: exit code 2 without a sentence: {complaint[-500:]!r}")
    if taken > max(MEMORY, TIMES * size):
        raise Broken(f"{words}: {taken / 2**20:,.0f} MiB for {size:,} bytes")
    for path in outputs:
        _whole(path, code)
    left = list(folder.rglob(f"*{files.PART}*"))
    if left:
        raise Broken(f"{words}: {left[0].name} was left behind")
    return code


def _memory(field: str) -> int:
    """Bytes, by the kernel (Linux)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"no {field} in /proc/self/status")


def _whole(path: Path, code: int) -> None:
    """An output is there and whole, or not there at all."""
    if code == 2 and path.exists():
        raise Broken(f"{path.name} was written, and the command refused")
    if code == 0 and not path.exists():
        raise Broken(f"{path.name} was not written, and the command succeeded")
    if code == 0 and path.suffix == ".json":
        json.loads(path.read_text())
    path.unlink(missing_ok=True)
