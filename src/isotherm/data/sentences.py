"""Corpora of sentences, larger than memory if they must be: the text stays on disk, in memory is where rows lie."""

from __future__ import annotations

import codecs
import errno
import hashlib
import itertools
import tempfile
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor

from isotherm.checks import at_least, did_you_mean, known_settings, parameters
from isotherm.data import fingerprints, roots
from isotherm.data.corpora import READERS, Row, form, must_be_text, opened, whole_characters
from isotherm.data.sources.reading import count
from isotherm.data.stored import Stored

if TYPE_CHECKING:
    from isotherm.data.fetch import Note

CHUNK = 1 << 20
"""Bytes of a text in memory at a time, while it is indexed."""
ROLES = (("sentence",), ("anchor", "positive"), ("anchor", "positive", "negative"))
"""What the columns of a row are, by how many there are."""
NAMED = {"sentences": "text/sentences.txt"}
"""Corpora that have a name, and where they lie in the data root."""


@dataclass(frozen=True, eq=False)
class Sentences:
    """Rows of one, two or three sentences, on disk, found by place.

    One sentence is shown several times, and dropout makes its views differ (SimCSE); two are a pair; a third is the
    hard negative of the pair. No white space at their ends. An id belongs to a row: it is its number in the file,
    from 0, whatever is left out before it. About 20 bytes a row are in memory. Several threads may read at once.
    """

    name: str
    columns: tuple[str, ...]
    """("sentence",), ("anchor", "positive") or ("anchor", "positive", "negative")"""
    ids: Tensor
    """int64 (N,), unique"""
    text: Stored
    """UTF-8; the sentences of a row follow each other."""
    starts: Tensor
    """int64 (N,): the first byte of each row in `text`"""
    lengths: Tensor
    """int32 (N, columns): how many bytes each sentence takes"""
    notes: tuple[str, ...] = ()
    """What a reader of results should know: lines left out, cut, doubled."""

    def __post_init__(self) -> None:
        n = len(self.ids)
        if n == 0:
            raise ValueError(f"{self.name} holds no sentences.")
        if self.columns not in ROLES:
            raise ValueError(f"{self.name}: columns must be one of {ROLES}, got {self.columns}.")
        if self.starts.shape != (n,) or self.lengths.shape != (n, len(self.columns)):
            raise ValueError(
                f"{self.name}: {n} rows need starts ({n},) and lengths ({n}, {len(self.columns)}), "
                f"got {tuple(self.starts.shape)} and {tuple(self.lengths.shape)}."
            )

    @property
    def sizes(self) -> Tensor:
        """int64 (N,): the bytes of each row, all its sentences together."""
        return self.lengths.sum(1)

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"{self.name}: {len(self):,} rows of {', '.join(self.columns)}"

    def texts(self, indices: Tensor | Sequence[int]) -> list[tuple[str, ...]]:
        """The rows at these indices: a tuple each, of as many sentences as there are columns."""
        index = torch.as_tensor(indices, dtype=torch.int64, device="cpu")
        self.text.check()
        starts, lengths = self.starts[index].tolist(), self.lengths[index]
        rows = map(self.text.read, starts, lengths.sum(1).tolist())
        if len(self.columns) == 1:
            return [(row.decode(),) for row in rows]
        ends = torch.nn.functional.pad(lengths.cumsum(1), (1, 0)).tolist()
        return [tuple(row[a:b].decode() for a, b in itertools.pairwise(at)) for row, at in zip(rows, ends, strict=True)]

    def subset(self, index: Tensor, *notes: str) -> Sentences:
        """These rows, in this order; ids stay."""
        if not len(index):
            raise ValueError(f"{self.name}: the subset is empty.")
        ids, starts, lengths = (column[index] for column in (self.ids, self.starts, self.lengths))
        return replace(self, ids=ids, starts=starts, lengths=lengths, notes=self.notes + notes)

    def fingerprint(self) -> str:
        """What tells one corpus from another: ids, 4 MB of the text, spread over it, and a checksum of all."""
        digest = hashlib.sha256(repr((len(self), self.columns)).encode())
        digest.update(self.ids.contiguous().numpy().data)
        sizes = self.sizes
        rows = min(len(self), max(1, (1 << 22) * len(self) // int(sizes.sum())))
        some = torch.linspace(0, len(self) - 1, rows, dtype=torch.float64).long()
        digest.update(self.lengths[some].contiguous().numpy().data)
        for start, size in zip(self.starts[some].tolist(), sizes[some].tolist(), strict=True):
            digest.update(self.text.read(start, size))
        sample = digest.hexdigest()[:16]
        if len(self) > fingerprints.MANY or int(sizes.sum()) > fingerprints.READABLE:
            return sample
        return f"{sample}.{fingerprints.checksum(map(self.text.read, self.starts.tolist(), sizes.tolist()))}"


def is_text(data: str) -> bool:
    """Whether a name of data, as `load_sentences` takes it, stands for sentences and not for images."""
    return data.startswith("text:") or data in NAMED


def load_sentences(name: str, root: Path | str | None = None, note: Note | None = None, **options: Any) -> Sentences:
    """A corpus by its name or as `text:PATH`; options go to `read`. `root` is the data root (`where.root`)."""
    if not is_text(name):
        raise ValueError(f"no corpus '{name}'{did_you_mean(name, ['text:PATH', *NAMED])}")
    known_settings(name, options, parameters(read, ("path", "note")), "option")
    if name in NAMED:
        path = roots.root(root) / NAMED[name]
        if not path.is_file():
            raise FileNotFoundError(
                f"{name} is not at {path}. Put a file there, one sentence a line; or say text:PATH, it takes any file."
            )
        return replace(read(path, note=note, **options), name=name)
    given = name.removeprefix("text:")
    if not given:
        raise ValueError("'text:' names no file; say text:PATH.")
    return read(Path(given).expanduser(), note=note, **options)


def read(
    path: Path,
    columns: Sequence[str] | None = None,
    duplicates: Literal["drop", "keep"] = "drop",
    longest: int = 10_000,
    note: Note | None = None,
) -> Sentences:
    """The sentences of a file: plain text with one per line (ended by \\n or \\r\\n), .csv, .tsv, .jsonl, .parquet.

    All but parquet may be packed (.gz). `columns` names one column for sentences, two for pairs, three for pairs with
    a hard negative; by default the only one is read, or 'sentence', 'text' or 'sent0'. Rows with an empty sentence and
    lines that are not UTF-8 are left out, sentences cut after `longest` characters; all of it is counted in the notes.

    `duplicates` are rows whose sentences are the same after that. In a batch they are false negatives of each other: a
    contrastive loss pushes apart what is one. Only the first of them stays, unless they are to be kept.
    """
    path = Path(path)
    wanted = [columns] if isinstance(columns, str) else columns
    _check(path, wanted, duplicates, longest)
    told, sieve, notes = note or _quiet, _Sieve(longest), list[str]()
    reader = READERS.get(form(path))
    with _on_disk(path, reader is not None or path.suffix == ".gz") as file:
        if reader is not None:
            _copy_rows(reader(path, wanted, notes, told), sieve, file)
            text = Stored(file, path)
        else:
            if path.suffix == ".gz":
                _unpack(path, file, told)
            text = Stored(file, path)
            _index(text, sieve, path, told)
    counted = sieve.notes("row" if form(path) == ".parquet" else "line")
    if not sieve.ids:
        raise ValueError(f"{path} holds no sentences: {'; '.join(counted) or 'there is nothing in it'}.")
    ids, starts, lengths, doubled = sieve.index(drop=duplicates == "drop")
    notes += counted
    if doubled:
        done = "left out, the first of each stays" if duplicates == "drop" else "kept: false negatives of each other"
        notes.append(f"{count(doubled, 'duplicate')} {done}")
    name = Path(path.name.removesuffix(".gz")).stem
    return Sentences(name, ROLES[lengths.shape[1] - 1], ids, text, starts, lengths, tuple(notes))


def _copy_rows(rows: Iterator[Row], sieve: _Sieve, file: IO[bytes]) -> None:
    """The sentences of a table, one row after the other, as `Sentences` finds them."""
    end = 0
    for number, (line, fields) in enumerate(rows):
        if clean := sieve.row(line, fields):
            sieve.keep(number, end, clean)
            end += file.write(b"".join(clean))


def _unpack(path: Path, file: IO[bytes], told: Note) -> None:
    with opened(path) as (stream, packed):
        while chunk := stream.read(CHUNK):
            file.write(chunk)
            told(f"unpacking {path.name}", packed.tell(), path.stat().st_size)


class _Sieve:
    """Takes rows one by one: tidies them, counts what it leaves out, and remembers where the others lie."""

    def __init__(self, longest: int) -> None:
        self.longest = longest
        self.ids, self.starts, self.lengths = array("q"), array("q"), array("i")
        self.digests = bytearray()
        self.empty = self.cut = self.bad = 0
        self.bad_lines: list[int] = []
        self.bad_byte = 0

    def lines(self, number: int, at: int, lines: Sequence[bytes]) -> None:
        """Lines that follow each other, the first with this number (from 0) and this place in the text.

        What is done for each of them costs a second per million, so as little as can be is. Nearly all of English
        needs nothing but a look; other alphabets, and other spaces than ASCII's, take the way through str.
        """
        clean = [line.strip() for line in lines]
        for i, body in enumerate(clean):
            if body and not (body.isascii() and body[0] > 32 < body[-1] and len(body) <= self.longest):
                clean[i] = (self.row(number + i + 1, (body,)) or [b""])[0]
            elif not body:
                self.empty += 1
        before, after = (np.fromiter(map(len, some), np.int64, len(some)) for some in (lines, clean))
        starts = at + np.cumsum(before + 1) - (before + 1)
        for i in np.flatnonzero(before != after).tolist():
            # Nothing that begins like the sentence lies before it: all that was stripped there is white.
            starts[i] += lines[i].find(clean[i])
        kept = np.flatnonzero(after)
        self.ids.frombytes((number + kept).tobytes())
        self.starts.frombytes(starts[kept].tobytes())
        self.lengths.frombytes(after[kept].astype(np.int32).tobytes())
        self.digests += b"".join([_digest(body) for body in clean if body])

    def row(self, line: int, fields: Sequence[bytes]) -> list[bytes] | None:
        """The sentences of a row, tidied; nothing if one is empty or not UTF-8."""
        try:
            clean = [self._tidy(field) for field in fields]
        except UnicodeDecodeError as error:
            if not self.bad:
                self.bad_byte = error.object[error.start]
            self.bad += 1
            self.bad_lines += [line][: 5 - len(self.bad_lines)]
            return None
        if all(clean):
            return clean
        self.empty += 1
        return None

    def _tidy(self, field: bytes) -> bytes:
        text = field.decode().strip()
        if len(text) > self.longest:
            self.cut += 1
            text = text[: self.longest].rstrip()
        return text.encode()

    def keep(self, number: int, start: int, sentences: Sequence[bytes]) -> None:
        """Remember where a tidy row lies."""
        self.ids.append(number)
        self.starts.append(start)
        self.lengths.extend(map(len, sentences))
        self.digests += _digest(b"\xff".join(sentences))  # no UTF-8 holds this byte

    def index(self, drop: bool) -> tuple[Tensor, Tensor, Tensor, int]:
        """Ids, starts and lengths, without duplicates if they are to be dropped; and how many duplicates there are."""
        ids, starts = torch.frombuffer(self.ids, dtype=torch.int64), torch.frombuffer(self.starts, dtype=torch.int64)
        lengths = torch.frombuffer(self.lengths, dtype=torch.int32).view(len(ids), -1)
        digests = np.frombuffer(self.digests, np.uint64)
        order = np.argsort(digests, kind="stable")
        digests = digests[order]
        again = np.flatnonzero(digests[1:] == digests[:-1]) + 1
        if drop and len(again):
            kept = torch.ones(len(ids), dtype=torch.bool)
            kept[torch.from_numpy(order[again])] = False
            ids, starts, lengths = ids[kept], starts[kept], lengths[kept]
        return ids, starts, lengths, len(again)

    def notes(self, what: str) -> list[str]:
        """What was left out or cut, in words; `what` is counted in the file."""
        notes = []
        if self.empty:
            notes.append(f"{count(self.empty, what)} without a sentence left out")
        if self.bad:
            note = f"{what} {self.bad_lines[0]} is not UTF-8 (byte {self.bad_byte:#04x}): left out"
            if self.bad > 1:
                more = ", …" if self.bad > len(self.bad_lines) else ""
                note += f"; {self.bad:,} such {what}s: {', '.join(map(str, self.bad_lines))}{more}"
            notes.append(note)
        if self.cut:
            notes.append(f"{count(self.cut, 'sentence')} cut after {self.longest:,} characters")
        return notes


def _check(path: Path, columns: Sequence[str] | None, duplicates: str, longest: int) -> None:
    """Refuse what cannot be read, before any of it is."""
    at_least(1, longest=longest)
    if longest > 1 << 28:
        raise ValueError(f"longest must be {1 << 28:,} or fewer characters, got {longest:,}.")
    if duplicates not in ("drop", "keep"):
        raise ValueError(f"duplicates must be 'drop' or 'keep', got {duplicates!r}.")
    if columns is not None and not (isinstance(columns, Sequence) and all(isinstance(c, str) for c in columns)):
        raise TypeError(f"columns must be names of columns, got {columns!r}.")
    if columns is not None and not 1 <= len(columns) <= len(ROLES):
        raise ValueError(f"columns must name 1, 2 or 3 columns, got {len(columns)}.")
    if columns is not None and len(set(columns)) < len(columns):
        raise ValueError(f"columns must differ, got {', '.join(columns)}.")
    if path.is_dir():
        raise ValueError(f"{path} is a folder; one file of sentences was wanted (.txt, {', '.join(READERS)}).")
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    if form(path) == ".json":
        raise ValueError(f"{path} is one JSON value; one object a line was wanted, in a file that ends in .jsonl.")
    if form(path) == ".parquet":
        if path.suffix == ".gz":
            raise ValueError(f"{path} is packed, and parquet is already. Unpack it first: gunzip {path.name}")
        return
    if columns is not None and form(path) not in READERS:
        raise ValueError(f"{path} is plain text and has no columns; {', '.join(READERS)} have.")
    must_be_text(path)


@contextmanager
def _on_disk(path: Path, temporary: bool) -> Iterator[IO[bytes]]:
    """The file itself, or one without a name that lasts as long as its text is held."""
    if not temporary:
        with open(path, "rb") as file:
            yield file
        return
    try:
        with tempfile.TemporaryFile() as file:
            yield file
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise ValueError(
            f"{tempfile.gettempdir()} has no room for the text of {path}. Set TMPDIR to a folder with more."
        ) from error


def _index(text: Stored, sieve: _Sieve, path: Path, note: Note) -> None:
    """Find the lines of a text. Only \\n ends one, and the \\r before it is white space: str.splitlines knows more."""
    number = 0
    for at, lines in _chunks(text, 4 * sieve.longest):
        note(f"reading {path.name}", at, len(text))
        sieve.lines(number, at, lines)
        number += len(lines)


def _chunks(text: Stored, much: int) -> Iterator[tuple[int, list[bytes]]]:
    """Whole lines, about CHUNK bytes of them at a time, and where the first begins.

    Of a line longer than that only the beginning comes, `much` bytes and some: it will be cut anyway, and a file
    without any newline must not be held in memory.
    """
    at = len(codecs.BOM_UTF8) if text.read(0, 3) == codecs.BOM_UTF8 else 0
    while at < len(text):
        piece = text.read(at, CHUNK)
        last = piece.rfind(b"\n")
        if last >= 0 or at + CHUNK >= len(text):
            end = at + (len(piece) if last < 0 else last)
            yield at, piece[: end - at].split(b"\n")
        else:
            end = text.find(b"\n", at + CHUNK, CHUNK)
            head = text.read(at, min(end - at, CHUNK + much))
            yield at, [head if at + len(head) == end else whole_characters(head)]
        at = end + 1


def _digest(row: bytes) -> bytes:
    """8 bytes: of ten million rows, two different ones are taken for the same in one corpus of 400,000."""
    return hashlib.blake2b(row, digest_size=8).digest()


def _quiet(stage: str, done: int = 0, total: int | None = None) -> None:
    pass
