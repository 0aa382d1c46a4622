"""`isotherm doctor`: what is installed, what is missing and for what, and what this machine has."""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from isotherm import __version__, extras
from isotherm.cli import terminal

Row = tuple[str, str, str]


def add(commands: terminal.Commands) -> None:
    doctor = terminal.command(
        commands,
        "doctor",
        "what is installed, what is missing and for what; threads, devices, data",
        "What is installed, what is missing and for what, with the line that installs it; the processors, threads and "
        "devices that torch sees; where data are looked for. To paste into a question. Exit code 1 if torch is broken.",
        "isotherm doctor",
    )
    doctor.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    print(f"isotherm {__version__}, Python {platform.python_version()}, {platform.platform()}\n")
    torch_rows, sound = _torch()
    terminal.show_table(("part", "state", "what it is for"), [*torch_rows, *_extras()])
    terminal.show_table(("machine", "", ""), [*_machine(sound), *_data()])
    return 0 if sound else 1


def _version(library: str) -> str | None:
    """The version of a library that can be imported, without importing it; None if it is not there."""
    if importlib.util.find_spec(library) is None:
        return None
    names = metadata.packages_distributions().get(library, [])
    return metadata.version(names[0]) if names else "installed"


def _torch() -> tuple[list[Row], bool]:
    try:
        import torch
    except Exception as error:  # a torch for other libraries fails with whatever it meets first
        return [("torch", f"does not import: {error}".partition("\n")[0], "everything")], False
    return [("torch", torch.__version__, "everything")], True


def _extras() -> Iterator[Row]:
    """Every extra with the libraries that it lacks, if any."""
    for name, extra in extras.EXTRAS.items():
        versions = {library: _version(library) for library in extra.libraries}
        lacking = [library for library, version in versions.items() if version is None]
        if not lacking:
            yield name, "ok", extra.purpose
        else:
            lacks = "" if len(lacking) == len(versions) else f" ({', '.join(lacking)})"
            yield name, f"missing{lacks}", f"{extra.purpose}: {extras.command(name)}"


def _machine(sound: bool) -> Iterator[Row]:
    processors = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count()
    if not sound:
        yield "processors", str(processors), ""
        return
    import torch

    yield "processors", str(processors), f"torch uses {torch.get_num_threads()} threads (OMP_NUM_THREADS)"
    if not torch.cuda.is_available():
        reason = "torch is built without CUDA" if torch.version.cuda is None else "none that this torch can use"
        yield "CUDA", "no", reason
    for i in range(torch.cuda.device_count()):
        about = torch.cuda.get_device_properties(i)
        yield f"CUDA {i}", about.name, f"{about.total_memory / 2**30:.0f} GiB; kernels: make gpu-check"
    if torch.backends.mps.is_available():
        yield "Apple GPU", "yes", "--device mps"


def _data() -> Iterator[Row]:
    from isotherm.data import roots
    from isotherm.data.sets import SETS

    for place in roots.looked_in():
        nearest = next((p for p in (place, *place.absolute().parents) if p.exists()), Path("/"))
        state = "" if place.exists() else "not there yet, "
        state += "can be written" if os.access(nearest, os.W_OK) else "read only"
        free = shutil.disk_usage(nearest).free / 2**30
        yield "data root", os.fspath(place), f"{state}; {free:.0f} GiB free"
    here = [name for name, entry in SETS.items() if entry.there()]
    yield "data here", ", ".join(here), "others: isotherm data list"
