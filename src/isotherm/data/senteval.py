"""Sentences people have judged, in SentEval's own folders: pairs rated for similarity, and sentences with a class.

Conneau & Kiela 2018 (arXiv:1803.05449). A sentence is its words with one space between them, as SentEval splits them.
What is not there is named, not refused: the caller decides how little is too little.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from isotherm.data import roots

YEARS: Mapping[str, tuple[str, ...]] = {
    "STS12": ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"),
    "STS13": ("FNWN", "headlines", "OnWN"),
    "STS14": ("deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news"),
    "STS15": ("answers-forums", "answers-students", "belief", "headlines", "images"),
    "STS16": ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
}
"""The subsets of each year. STS13 has a fourth, SMT, whose sentences SentEval may not pass on; no one reports it."""
SIMILARITY = (*YEARS, "STS-B", "SICK-R")
"""The seven tasks of rated pairs."""
STSB = {part: f"STS/STSBenchmark/sts-{part}.csv" for part in ("train", "dev", "test")}
SICK = {"train": "SICK/SICK_train.txt", "dev": "SICK/SICK_trial.txt", "test": "SICK/SICK_test_annotated.txt"}

HALVES: Mapping[str, tuple[str, str]] = {
    "MR": ("MR/rt-polarity.neg", "MR/rt-polarity.pos"),
    "CR": ("CR/custrev.neg", "CR/custrev.pos"),
    "SUBJ": ("SUBJ/subj.subjective", "SUBJ/subj.objective"),
    "MPQA": ("MPQA/mpqa.neg", "MPQA/mpqa.pos"),
}
"""Tasks in one piece: the file of class 0 and that of class 1, as SentEval labels them (objective is 1)."""
SST = {part: f"SST/binary/sentiment-{part}" for part in ("train", "dev", "test")}
TREC = {"train": "TREC/train_5500.label", "test": "TREC/TREC_10.label"}
MRPC = {part: f"MRPC/msr_paraphrase_{part}.txt" for part in ("train", "test")}
QUESTIONS = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
"""TREC's coarse classes; the place is the label."""
TRANSFER = (*HALVES, "SST-2", "TREC", "MRPC")
"""The seven tasks of classified sentences."""
LATIN1 = frozenset({TREC["train"]})
"""The files that are not UTF-8."""
HIGHEST = 5.0
"""The best score a pair can get; the worst is 0, in SICK 1."""


@dataclass(frozen=True)
class Rated:
    """Pairs of sentences and how similar people found each: 0 (not at all) to 5 (the same)."""

    name: str
    first: tuple[str, ...]
    second: tuple[str, ...]
    gold: tuple[float, ...]


@dataclass(frozen=True)
class Classified:
    """Sentences, or pairs of them, and the class of each."""

    first: tuple[str, ...]
    """May hold empty ones: four of CR's lines and three of MPQA's are blank, and SentEval counts them."""
    labels: tuple[int, ...]
    second: tuple[str, ...] = ()
    """Empty unless the task is about pairs."""


def folder(given: Path | str | None = None) -> Path:
    """The folder that holds SentEval's data: the given one, else `senteval` in the data root."""
    place = Path(given).expanduser() if given is not None else roots.root() / "senteval"
    if not place.is_dir():
        raise ValueError(
            f"no folder {place} with SentEval's data. "
            "Set ISOTHERM_DATA to a folder that holds it as `senteval`, or pass the folder."
        )
    return place


def rated(root: Path, task: str, part: str = "test") -> tuple[tuple[Rated, ...], tuple[str, ...]]:
    """The subsets of a task of `SIMILARITY` that are there, and the files that are not.

    Pairs without a gold score are left out. `part` is of STS-B and SICK-R: train, dev or test; the years have only a
    test part.
    """
    if task not in SIMILARITY:
        raise ValueError(f"no task '{task}' of rated pairs; there is: {', '.join(SIMILARITY)}.")
    if part not in STSB or (part != "test" and task in YEARS):
        raise ValueError(f"{task} has no part '{part}'; there is: {'test' if task in YEARS else ', '.join(STSB)}.")
    if task == "STS-B":
        return _columns(root, task, STSB[part], score=4, first=5, second=6)
    if task == "SICK-R":
        return _columns(root, task, SICK[part], score=3, first=1, second=2, header="pair_ID")
    there, missing = [], []
    for name in YEARS[task]:
        files = [f"STS/{task}-en-test/STS.{kind}.{name}.txt" for kind in ("input", "gs")]
        absent = _absent(root, files)
        missing += absent
        if not absent:
            there.append(_subset(root, name, *files))
    return tuple(there), tuple(missing)


def classified(root: Path, task: str) -> tuple[dict[str, Classified], tuple[str, ...]]:
    """The parts of a task of `TRANSFER`, and the files that are not there: with any missing there are no parts.

    MR, CR, SUBJ and MPQA have one part, `all`; SST-2 has train, dev and test; TREC and MRPC train and test.
    """
    if task not in TRANSFER:
        raise ValueError(f"no task '{task}' of classified sentences; there is: {', '.join(TRANSFER)}.")
    if task in HALVES:
        missing = _absent(root, HALVES[task])
        return ({} if missing else {"all": _halves(root, *HALVES[task])}), tuple(missing)
    read: Callable[[Path, str], Classified]
    files, read = {"SST-2": (SST, _sst), "TREC": (TREC, _trec), "MRPC": (MRPC, _mrpc)}[task]
    missing = _absent(root, files.values())
    return ({} if missing else {part: read(root, name) for part, name in files.items()}), tuple(missing)


def _absent(root: Path, files: Iterable[str]) -> list[str]:
    return [name for name in files if not (root / name).is_file()]


def _lines(root: Path, name: str) -> Iterator[tuple[str, str]]:
    """Where each line is, for an error, and the line. Only line feeds end one; a byte order mark is dropped."""
    raw = (root / name).read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n")
    if not raw[-1]:
        raw.pop()
    encoding = "latin-1" if name in LATIN1 else "utf-8"
    for number, line in enumerate(raw, 1):
        at = f"{root / name}, line {number}"
        try:
            yield at, line.decode(encoding).rstrip("\r")
        except UnicodeDecodeError as wrong:
            raise ValueError(f"{at}: not {encoding} at byte {wrong.start + 1}. Get the file again.") from None


def _words(text: str) -> str:
    return " ".join(text.split())


def _sentence(at: str, text: str) -> str:
    if not text.strip():
        raise ValueError(f"{at}: a sentence is empty.")
    return _words(text)


def _fields(at: str, line: str, least: int) -> list[str]:
    fields = line.split("\t")
    if len(fields) < least:
        raise ValueError(f"{at}: {least} fields between tabs are wanted, got {len(fields)}: {line[:60]!r}.")
    return fields


def _score(at: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= HIGHEST:
        raise ValueError(f"{at}: a score from 0 to 5 is wanted, got {text[:60]!r}.")
    return value


def _binary(at: str, text: str) -> int:
    if text.strip() not in ("0", "1"):
        raise ValueError(f"{at}: a label 0 or 1 is wanted, got {text[:60]!r}.")
    return int(text)


def _subset(root: Path, name: str, sentences: str, scores: str) -> Rated:
    pairs, gold = list(_lines(root, sentences)), list(_lines(root, scores))
    if len(pairs) != len(gold):
        raise ValueError(f"{root / sentences} has {len(pairs)} lines, but {root / scores} has {len(gold)}.")
    kept = []
    for (at, line), (at_score, score) in zip(pairs, gold, strict=True):
        first, second = _fields(at, line, 2)[:2]
        both = _sentence(at, first), _sentence(at, second)
        if score.strip():
            kept.append((*both, _score(at_score, score)))
    return _rated(name, root / scores, kept)


def _columns(
    root: Path, task: str, name: str, score: int, first: int, second: int, header: str = ""
) -> tuple[tuple[Rated, ...], tuple[str, ...]]:
    if _absent(root, [name]):
        return (), (name,)
    kept = []
    for at, line in _body(root, name, header):
        fields = _fields(at, line, max(score, first, second) + 1)
        kept.append((_sentence(at, fields[first]), _sentence(at, fields[second]), _score(at, fields[score])))
    return (_rated(task, root / name, kept),), ()


def _rated(name: str, path: Path, kept: list[tuple[str, str, float]]) -> Rated:
    if not kept:
        raise ValueError(f"{path} holds no pair with a score. Get the file again.")
    return Rated(name, *zip(*kept, strict=True))


def _body(root: Path, name: str, header: str) -> Iterator[tuple[str, str]]:
    """The lines after the header, which must begin as it should: without it the first item would be lost."""
    lines = _lines(root, name)
    if header:
        at, line = next(lines, (f"{root / name}, line 1", ""))
        if not line.startswith(header):
            raise ValueError(f"{at}: a header that begins with {header!r} is wanted, got {line[:60]!r}.")
    yield from lines


def _halves(root: Path, zeros: str, ones: str) -> Classified:
    """SentEval's order: the file of class 1, then that of class 0."""
    one, zero = ([_words(line) for _, line in _lines(root, name)] for name in (ones, zeros))
    for name, sentences in ((ones, one), (zeros, zero)):
        _some(root / name, sentences)
    return Classified((*one, *zero), (1,) * len(one) + (0,) * len(zero))


def _sst(root: Path, name: str) -> Classified:
    first, labels = [], []
    for at, line in _lines(root, name):
        text, label = _fields(at, line, 2)[:2]
        first.append(_sentence(at, text))
        labels.append(_binary(at, label))
    return Classified(_some(root / name, first), tuple(labels))


def _trec(root: Path, name: str) -> Classified:
    first, labels = [], []
    for at, line in _lines(root, name):
        kind, _, question = line.strip().partition(" ")
        coarse = kind.partition(":")[0]
        if coarse not in QUESTIONS or ":" not in kind:
            raise ValueError(f"{at}: a class as `NUM:dist` before the question is wanted, got {line[:60]!r}.")
        first.append(_sentence(at, question))
        labels.append(QUESTIONS.index(coarse))
    return Classified(_some(root / name, first), tuple(labels))


def _mrpc(root: Path, name: str) -> Classified:
    first, second, labels = [], [], []
    for at, line in _body(root, name, "Quality"):
        fields = _fields(at, line, 5)
        labels.append(_binary(at, fields[0]))
        first.append(_sentence(at, fields[3]))
        second.append(_sentence(at, fields[4]))
    return Classified(_some(root / name, first), tuple(labels), tuple(second))


def _some(path: Path, sentences: list[str]) -> tuple[str, ...]:
    if not sentences:
        raise ValueError(f"{path} holds no sentences. Get the file again.")
    return tuple(sentences)
