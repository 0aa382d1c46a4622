"""Real processes that start at once: forked from one that has imported torch and training already.

A kill is a kill and a signal a signal, as they are to `isotherm …` in a shell; only the five seconds of imports are
paid once, not by each of them.
"""

import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.multiprocessing as mp

from isotherm.cli import main

METHOD = "forkserver"
LONGEST = 600
"""Seconds after which processes that wait for each other are given up."""
multiprocessing.set_forkserver_preload(["isotherm.cli", "isotherm.train.commandline", "isotherm.train.loop", "sklearn"])


class Command:
    """`isotherm` with these words in a process of its own; `file_limit`: no file may grow larger, as on a full disk.

    `environment` is added to that of all, `folder` is where it is started.
    """

    def __init__(self, words, file_limit=None, environment=None, folder=None):
        self.said = Path(tempfile.mkstemp(prefix="isotherm-", suffix=".txt")[1])
        context = multiprocessing.get_context(METHOD)
        arguments = ([str(w) for w in words], str(self.said), file_limit, environment or {}, str(folder or Path.cwd()))
        self.process = context.Process(target=_main, args=arguments, daemon=True)
        self.process.start()

    def poll(self):
        return self.process.exitcode

    def send_signal(self, number):
        os.kill(self.process.pid, number)

    def kill(self):
        self.process.kill()
        self.process.join()

    def wait(self, timeout=300):
        """How it ended, and what it said on standard error."""
        self.process.join(timeout)
        assert self.process.exitcode is not None, f"still at work after {timeout} seconds"
        said = self.said.read_text()
        self.said.unlink()
        return self.process.exitcode, said


def _main(words, said, file_limit, environment, folder):
    os.environ |= environment
    os.chdir(folder)
    file = os.open(said, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(file, stream)
    torch.set_num_threads(1)
    if file_limit is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, resource.RLIM_INFINITY))
    sys.exit(main(words))


def two(function, *arguments):
    """`function(rank, *arguments)` in two processes at once, each on one thread."""
    several(2, function, *arguments)


def several(count, function, *arguments):
    """`function(rank, *arguments)` in that many processes at once, each on one thread."""
    context = mp.start_processes(
        _one_of_several, args=(function, arguments), nprocs=count, start_method=METHOD, join=False
    )
    deadline = time.monotonic() + LONGEST
    while not context.join(timeout=5):
        if time.monotonic() > deadline:
            for process in context.processes:
                process.kill()
            raise AssertionError(f"{function.__name__} in {count} processes is still at work after {LONGEST} seconds")


def _one_of_several(rank, function, arguments):
    torch.set_num_threads(1)
    function(rank, *arguments)
