"""What is tortured: a training run, a torchrun of two, a study with workers, a Ray study, `data get`.

Each is a program (`run`) that is started again and again with the same words until it has ended, and a folder that it
leaves. All are small: digits, a few steps, a checkpoint after every one.
"""

import gzip
import hashlib
import http.server
import io
import os
import sys
import tarfile
import types
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import sklearn.datasets  # noqa: F401 - with the next, what a run imports late: programs are forked from here

import isotherm.train.loop  # noqa: F401
from isotherm.cli import main
from isotherm.data.catalogue import IDX_FILES
from isotherm.data.fetch import get
from isotherm.data.ways import Address, Way
from written import idx, noise

SMALL = ["--images", "256", "--batch", "64", "--encoder.widths", "[4, 8]", "--steps", "10", "--device", "cpu"]
ALWAYS = ["--checkpoint", "0", "--log_every", "1", "--quiet", "true", "--resume"]
RUNS = (
    ["--monitor", "3"],
    ["--method", "mocov2", "--method.queue", "100", "--monitor", "2", "--ema", "0.9", "--warmup_part", "0.2"],
    ["--method", "nnclr", "--method.queue", "50", "--optimizer", "lars", "--lr", "1.0", "--monitor", "0"],
)
STUDY = """
from isotherm.experiments.study import Arm, Scale, Study

ARMS = (Arm("plain", {"loss": "NTXentLoss"}, {"loss.temperature": (0.1, 0.5)}),)
SMALL = {"images": 256, "batch": 64, "encoder.widths": [4, 8], "epochs": 2, "monitor": 1}
STUDY = Study({"method": "simclr"}, ARMS, {"smoke": Scale("seconds", SMALL)}, measure=("geometry",))
"""


@dataclass(frozen=True)
class Victim:
    """A program, and what it leaves."""

    name: str
    run: Callable[[Path], int]
    """To its end in this folder, from wherever it stands."""
    kills: int = 3
    """At most, before it is let go on to its end."""
    fills: bool = True
    """Whether a full disk is told in a sentence and exit code 2."""


def training(more: list[str]) -> Callable[[Path], int]:
    return lambda out: main(["train", *SMALL, *more, *ALWAYS, "--out", str(out)])


def torchrun(out: Path) -> int:
    """torchrun's own agent with two workers, which it starts again once; they are forked, and import nothing."""
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch  # noqa: PLC0415 - needed by one kind

    place = {"rdzv_backend": "c10d", "rdzv_endpoint": "127.0.0.1:0", "run_id": "torture", "monitor_interval": 0.1}
    launch = LaunchConfig(min_nodes=1, max_nodes=1, nproc_per_node=2, max_restarts=1, start_method="fork", **place)
    elastic_launch(launch, _worker)(str(out))
    return 0


def _worker(out: str) -> None:
    sys.exit(main(["train", *SMALL, "--monitor", "2", "--timeout", "60", *ALWAYS, "--out", out]))


def studying(*how: str) -> Callable[[Path], int]:
    def run(out: Path) -> int:
        sys.modules["__main__"] = types.ModuleType("__main__")  # workers would import the torture
        file = out.parent / "tortured_study.py"
        file.write_text(STUDY)
        return main(["study", str(file), "--scale", "smoke", "--out", str(out), *how])

    return run


@cache
def files() -> dict[str, bytes]:
    """What the server has: MNIST's four files, and an archive."""
    labels = (np.arange(300) % 10).astype(np.uint8)
    content = {f"{f}.gz": gzip.compress(idx(noise(300, 28, 28) if "images" in f else labels)) for f in IDX_FILES}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name in ("train_X.bin", "train_y.bin", "test_X.bin", "test_y.bin", "unlabeled_X.bin"):
            member = tarfile.TarInfo(f"stl10_binary/{name}")
            member.size = 200_000
            tar.addfile(member, io.BytesIO(noise(200_000, seed=len(name)).tobytes()))
    return {**content, "stl10_binary.tar.gz": out.getvalue()}


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        content = files()[self.path[1:]]
        begin = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").removesuffix("-"))
        if begin >= len(content):
            self.send_error(416)
            return
        self.send_response(206 if begin else 200)
        self.send_header("Content-Length", str(len(content) - begin))
        self.end_headers()
        with suppress(OSError):  # whoever asked was killed
            self.wfile.write(content[begin:])

    def log_message(self, *_: object) -> None: ...


def serve() -> tuple[int, str]:
    """A process that serves the files, and its address."""
    files()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    pid = os.fork()
    if pid == 0:
        server.serve_forever()
    server.server_close()
    return pid, f"http://127.0.0.1:{server.server_address[1]}"


def fetching(address: str) -> Callable[[Path], int]:
    def digest(name: str) -> str:
        content = files()[name]
        packed = name.endswith(".tar.gz")
        return f"sha256:{hashlib.sha256(content if packed else gzip.decompress(content)).hexdigest()}"

    def way(*names: str) -> Way:
        return Address(address, {name: digest(name) for name in names})

    def run(out: Path) -> int:
        get("mnist", out, lambda *_: None, [way(*(f"{f}.gz" for f in IDX_FILES))])
        get("stl10", out, lambda *_: None, [way("stl10_binary.tar.gz")])
        return 0

    return run


def victims(address: str) -> dict[str, list[Victim]]:
    """By kind."""
    return {
        "train": [Victim(f"train {i}", training(more)) for i, more in enumerate(RUNS)],
        "torchrun": [Victim("torchrun", torchrun, 2, fills=False)],
        "study": [Victim("study", studying("--workers", "2"), 2)],
        "ray": [Victim("ray", studying("--ray", "local"), 1, fills=False)],
        "get": [Victim("get", fetching(address), fills=False)],
    }
