"""Corpora of sentences: every row found again, nothing lost in silence, larger than memory."""

import gzip
import json
import os
import random
import threading
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pytest
import torch

from corpus_files import TRIPLES, file, firsts, rows, sheet
from isotherm.data import corpora, sentences
from isotherm.data.sentences import is_text, load_sentences, read

REAL = Path(os.environ.get("ISOTHERM_DATA") or "/nonexistent") / "text" / "sentences.txt"


def test_a_text_is_one_sentence_a_line(tmp_path):
    corpus = read(file(tmp_path, "one\ntwo words\nthree\n"))
    assert corpus.name == "corpus"
    assert corpus.columns == ("sentence",)
    assert rows(corpus) == [("one",), ("two words",), ("three",)]
    assert corpus.ids.tolist() == [0, 1, 2]
    assert corpus.ids.dtype == torch.int64
    assert corpus.notes == ()


def test_rows_are_found_by_place_in_any_order_and_as_often_as_asked(tmp_path):
    corpus = read(file(tmp_path, "a\nb\nc\nd\n"))
    assert corpus.texts(torch.tensor([3, 0, 3])) == [("d",), ("a",), ("d",)]
    assert corpus.texts([]) == []
    with pytest.raises(IndexError):
        corpus.texts([4])


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_lines_end_with_lf_or_crlf_and_the_last_one_need_not(tmp_path, newline, end):
    assert firsts(read(file(tmp_path, newline.join(["one", "two", "three"]) + end))) == ["one", "two", "three"]


def test_nothing_but_a_newline_ends_a_line(tmp_path):
    odd = ["a\u2028b", "a\u0085b", "a\x0bb", "a\x0cb", "a\x1cb", "a\rb"]
    assert firsts(read(file(tmp_path, "\n".join(odd)))) == odd


def test_emoji_and_chinese_are_ordinary_text(tmp_path):
    lines = ["👩‍👩‍👧 family", "你好，世界。", "مرحبا", "é e\u0301"]
    assert firsts(read(file(tmp_path, "\n".join(lines)))) == lines


def test_a_byte_order_mark_of_utf8_is_no_part_of_the_first_sentence(tmp_path):
    assert firsts(read(file(tmp_path, b"\xef\xbb\xbfone\ntwo"))) == ["one", "two"]


def test_empty_and_white_lines_are_left_out_and_counted_and_ids_are_line_numbers(tmp_path):
    corpus = read(file(tmp_path, "\none\n\n \t\r\n\u3000\u00a0\n  two \u2003\n\x1f\n"))
    assert firsts(corpus) == ["one", "two"]
    assert corpus.ids.tolist() == [1, 5]
    assert corpus.notes == ("5 lines without a sentence left out",)


def test_only_the_first_of_duplicates_stays(tmp_path):
    corpus = read(file(tmp_path, "one\ntwo\n one\nthree\ntwo\r\none\n"))
    assert firsts(corpus) == ["one", "two", "three"]
    assert corpus.ids.tolist() == [0, 1, 3]
    assert corpus.notes == ("3 duplicates left out, the first of each stays",)


def test_duplicates_can_be_kept_and_are_counted_all_the_same(tmp_path):
    corpus = read(file(tmp_path, "one\ntwo\none\n"), duplicates="keep")
    assert firsts(corpus) == ["one", "two", "one"]
    assert corpus.notes == ("1 duplicate kept: false negatives of each other",)


def test_long_lines_are_cut_between_two_characters(tmp_path):
    corpus = read(file(tmp_path, "short\n" + "é" * 100_000 + "\n" + "x" * 10_001 + "\n" + "y" * 10_000))
    assert firsts(corpus) == ["short", "é" * 10_000, "x" * 10_000, "y" * 10_000]
    assert corpus.notes == ("2 sentences cut after 10,000 characters",)
    assert firsts(read(file(tmp_path, "ab 🙂🙂\n"), longest=4)) == ["ab 🙂"]
    assert firsts(read(file(tmp_path, "ab 🙂🙂\n"), longest=3)) == ["ab"]


def test_lines_that_are_cut_to_the_same_are_duplicates(tmp_path):
    assert firsts(read(file(tmp_path, "abcd\nabce\n"), longest=3)) == ["abc"]


def test_a_line_longer_than_memory_should_hold_is_read_to_its_cut_only(tmp_path, monkeypatch):
    monkeypatch.setattr(sentences, "CHUNK", 64)
    for lead in range(4):  # wherever in a character the reading stops
        path = file(tmp_path, "a" * lead + "🙂é" * 5_000 + "\nafter")
        corpus = read(path, longest=10)
        assert firsts(corpus) == [("a" * lead + "🙂é" * 5)[:10], "after"]
        assert corpus.notes == ("1 sentence cut after 10 characters",)


def test_lines_that_are_not_utf8_are_left_out_and_named(tmp_path):
    content = b"".join(b"caf\xe9 %d\n" % i if i in (17, 240, 311) else b"line %d\n" % i for i in range(1, 400))
    corpus = read(file(tmp_path, content))
    assert len(corpus) == 396
    assert corpus.notes == ("line 17 is not UTF-8 (byte 0xe9): left out; 3 such lines: 17, 240, 311",)
    assert corpus.texts([16]) == [("line 18",)]


def test_one_bad_line_is_named_once_and_of_many_the_first_five(tmp_path):
    good = "".join(f"line {i}\n" for i in range(20)).encode()
    assert read(file(tmp_path, good + b"\xff\n")).notes == ("line 21 is not UTF-8 (byte 0xff): left out",)
    assert read(file(tmp_path, good + b"\xc3\n" * 7)).notes == (
        "line 21 is not UTF-8 (byte 0xc3): left out; 7 such lines: 21, 22, 23, 24, 25, …",
    )


@pytest.mark.parametrize("name", ["latin.txt", "latin.csv", "latin.jsonl", "latin.txt.gz"])
def test_a_file_in_latin1_is_refused_with_the_way_to_convert_it(tmp_path, name):
    content = "ein schöner Satz\nüber Käse\nplain\n".encode("latin1")
    path = file(tmp_path, gzip.compress(content) if name.endswith(".gz") else content, name)
    with pytest.raises(
        ValueError, match=r"2 of its first 3 lines are not, line 1 because of byte 0xf6.*iconv -f latin1"
    ):
        read(path)


def test_a_binary_file_is_no_text(tmp_path):
    with pytest.raises(ValueError, match="is no text file: byte 3 is NUL"):
        read(file(tmp_path, b"abc\0def\n"))


def test_a_text_whose_looked_at_beginning_ends_in_the_middle_of_a_character_is_text(tmp_path, monkeypatch):
    monkeypatch.setattr(corpora, "LOOK", 8)
    for lead in range(4):
        line = "a" * lead + "🙂🙂🙂"
        assert firsts(read(file(tmp_path, line))) == [line]


def test_files_without_sentences_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no file .*nothing\.txt"):
        read(tmp_path / "nothing.txt")
    with pytest.raises(ValueError, match="is a folder; one file of sentences was wanted"):
        read(tmp_path)
    for name, content in {"a.txt": b"", "a.csv": b"", "a.txt.gz": gzip.compress(b""), "b.txt.gz": b""}.items():
        with pytest.raises(ValueError, match=f"{name} is empty; a file of sentences was wanted"):
            read(file(tmp_path, content, name))
    with pytest.raises(ValueError, match="holds no sentences: there is nothing in it"):
        read(sheet(tmp_path, text=pa.array([], pa.string())))
    with pytest.raises(ValueError, match="holds no sentences: 3 lines without a sentence left out"):
        read(file(tmp_path, "\n \n\t\n"))
    with pytest.raises(ValueError, match="holds no sentences: there is nothing in it"):
        read(file(tmp_path, b"\xef\xbb\xbf"))
    with pytest.raises(ValueError, match="holds no sentences: there is nothing in it"):
        read(file(tmp_path, "sentence\n", "only_a_header.csv"))


def test_columns_are_names(tmp_path):
    with pytest.raises(TypeError, match=r"columns must be names of columns, got \[0, 1\]"):
        read(file(tmp_path, TRIPLES, "a.csv"), columns=[0, 1])


def test_one_sentence_is_a_corpus(tmp_path):
    assert rows(read(file(tmp_path, "alone"))) == [("alone",)]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"duplicates": "maybe"}, "duplicates must be 'drop' or 'keep', got 'maybe'"),
        ({"longest": 0}, "longest must be 1 or more, got 0"),
        ({"longest": 1 << 30}, "longest must be 268,435,456 or fewer"),
        ({"columns": ["text"]}, "is plain text and has no columns"),
        ({"columns": []}, "columns must name 1, 2 or 3 columns, got 0"),
        ({"columns": ["a", "b", "c", "d"]}, "columns must name 1, 2 or 3 columns, got 4"),
        ({"columns": ["a", "a"]}, "columns must differ, got a, a"),
    ],
)
def test_settings_that_make_no_sense_are_refused(tmp_path, settings, words):
    with pytest.raises(ValueError, match=words):
        read(file(tmp_path, "one\n"), **settings)


LETTERS = "ab c  \t\u00e9\u4f60\U0001f642\u2028\u0085\u3000\x1c.'\""


def naive(content, longest):
    kept, seen = {}, set()
    for number, line in enumerate(content.split(b"\n")):
        try:
            sentence = line.decode().strip()[:longest].rstrip()
        except UnicodeDecodeError:
            continue
        if sentence and sentence not in seen:
            seen.add(sentence)
            kept[number] = sentence
    return kept


@pytest.mark.parametrize("chunk", [1, 7, 64, 1 << 20])
@pytest.mark.parametrize("seed", range(6))
def test_random_text_is_read_as_a_naive_reader_reads_it(tmp_path, monkeypatch, seed, chunk):
    monkeypatch.setattr(sentences, "CHUNK", chunk)
    draw = random.Random(seed)
    lines = ["".join(draw.choices(LETTERS, k=draw.randrange(20))).encode() for _ in range(300)]
    for i in range(0, 300, 11):
        lines[i] = lines[i][:1] + b"\xff" + lines[i][1:]
    content = draw.choice([b"\n", b"\r\n"]).join(lines) + draw.choice([b"", b"\n"])
    corpus, wanted = read(file(tmp_path, content), longest=12), naive(content, 12)
    assert corpus.ids.tolist() == list(wanted)
    assert firsts(corpus) == list(wanted.values())
    indices = draw.choices(range(len(corpus)), k=50)
    assert corpus.texts(indices) == [(list(wanted.values())[place],) for place in indices]


@pytest.mark.parametrize("write", ["csv", "jsonl", "parquet"])
def test_the_same_rows_come_from_every_format(tmp_path, write):
    draw = random.Random(4)
    made = [tuple("x" + "".join(draw.choices(LETTERS, k=20)) + "x" for _ in range(3)) for _ in range(200)]
    names = ("a", "b", "c")
    if write == "csv":
        lines = [",".join('"' + cell.replace('"', '""') + '"' for cell in row) for row in [names, *made]]
        path = file(tmp_path, "\r\n".join(lines), "t.csv")
    elif write == "jsonl":
        lines = [json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=i % 2 == 0) for i, row in enumerate(made)]
        path = file(tmp_path, "\n".join(lines), "t.jsonl")
    else:
        columns = dict(zip(names, map(list, zip(*made, strict=True)), strict=True))
        path = sheet(tmp_path, rows_a_group=64, **columns)
    corpus = read(path, columns=["c", "a", "b"])
    assert rows(corpus) == [(c, a, b) for a, b, c in made]
    assert corpus.columns == ("anchor", "positive", "negative")


def test_names_of_sentences_are_told_from_names_of_images():
    assert is_text("text:somewhere/a.txt")
    assert is_text("sentences")
    assert not any(map(is_text, ["cifar10", "folder:text", "parquet:a.parquet", "sentence", ""]))


def test_a_corpus_is_loaded_by_path_with_the_readers_options(tmp_path):
    path = file(tmp_path, TRIPLES, "nli.csv")
    assert load_sentences(f"text:{path}", columns=["sent0", "sent1"]).columns == ("anchor", "positive")
    with pytest.raises(TypeError, match="has no option 'colums'; did you mean 'columns'"):
        load_sentences(f"text:{path}", colums=["sent0"])
    with pytest.raises(TypeError, match="has no option 'size'; it has: columns, duplicates, longest"):
        load_sentences(f"text:{path}", size=32)
    with pytest.raises(ValueError, match="no corpus 'sentence'; did you mean 'sentences'"):
        load_sentences("sentence")
    with pytest.raises(ValueError, match="say text:PATH"):
        load_sentences("text:")


def test_the_named_corpus_lies_in_the_data_root(tmp_path, monkeypatch):
    monkeypatch.setenv("ISOTHERM_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=rf"sentences is not at {tmp_path}/text/sentences.txt.*text:PATH"):
        load_sentences("sentences")
    (tmp_path / "text").mkdir()
    file(tmp_path / "text", "one\n", "sentences.txt")
    assert rows(load_sentences("sentences")) == [("one",)]
    with pytest.raises(FileNotFoundError, match="elsewhere"):
        load_sentences("sentences", root=tmp_path / "elsewhere")


def test_a_subset_keeps_ids_and_adds_notes(tmp_path):
    corpus = read(file(tmp_path, "a\n\nb\nc\nd\n"))
    part = corpus.subset(torch.tensor([3, 1]), "two of them")
    assert rows(part) == [("d",), ("b",)]
    assert part.ids.tolist() == [4, 2]
    assert part.notes == ("1 line without a sentence left out", "two of them")
    assert rows(part.subset(torch.tensor([False, True]))) == [("b",)]
    with pytest.raises(ValueError, match="corpus: the subset is empty"):
        corpus.subset(torch.tensor([], dtype=torch.int64))


def test_a_fingerprint_tells_corpora_apart_and_nothing_else(tmp_path):
    content = "".join(f"sentence {i}\n" for i in range(1000))
    print_of = {
        "itself": read(file(tmp_path, content)).fingerprint(),
        "a word changed": read(file(tmp_path, content.replace(" 500", " 5OO"), "b.txt")).fingerprint(),
        "a line more": read(file(tmp_path, content + "more", "c.txt")).fingerprint(),
        "another id": read(file(tmp_path, "\n" + content, "d.txt")).fingerprint(),
        "pairs": read(file(tmp_path, "a,b\nx,yz\n", "e.csv"), columns=["a", "b"]).fingerprint(),
        "pairs cut elsewhere": read(file(tmp_path, "a,b\nxy,z\n", "e.csv"), columns=["a", "b"]).fingerprint(),
    }
    assert len(set(print_of.values())) == len(print_of)
    table = file(tmp_path, "sentence\n" + content, "same.csv")
    assert read(file(tmp_path, content.replace("\n", "\r\n"), "f.txt")).fingerprint() == print_of["itself"]
    assert read(table).fingerprint() == print_of["itself"]


def test_a_fingerprint_reads_a_part_of_a_large_corpus_from_all_over_it(tmp_path):
    lines = [f"{i:05} " + "x" * 1000 for i in range(20_000)]
    before = read(file(tmp_path, "\n".join(lines))).fingerprint()
    lines = [line.replace("x", "y") if i > 19_000 else line for i, line in enumerate(lines)]
    assert read(file(tmp_path, "\n".join(lines))).fingerprint() != before


def test_progress_is_told_in_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(sentences, "CHUNK", 100)
    told = []
    path = file(tmp_path, "".join(f"line {i}\n" for i in range(100)))
    read(path, note=lambda stage, done=0, total=None: told.append((stage, done, total)))
    assert {(stage, total) for stage, _, total in told} == {("reading corpus.txt", path.stat().st_size)}
    assert len(told) > 5
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)


def test_threads_may_read_at_once(tmp_path):
    corpus = read(file(tmp_path, "".join(f"sentence {i}\n" for i in range(2000))))
    right = []

    def work(seed):
        indices = torch.randperm(2000, generator=torch.Generator().manual_seed(seed))
        right.append([text for (text,) in corpus.texts(indices)] == [f"sentence {i}" for i in indices.tolist()])

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == [True] * 8


@pytest.mark.slow
@pytest.mark.parametrize(("name", "megabytes"), [("large.txt", 50), ("large.csv", 12)])
def test_a_corpus_is_never_in_memory(tmp_path, name, megabytes):
    path = tmp_path / name
    block = "".join(f"{{}} {i:04} " + "word " * 98 + "\n" for i in range(1000))
    with open(path, "w") as out:
        out.write("text\n")
        for i in range(2 * megabytes):
            out.write(block.replace("{}", str(i)))
    size = path.stat().st_size
    assert size > 0.95e6 * megabytes
    tracemalloc.start()
    try:
        corpus = read(path)
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(corpus) == 2000 * megabytes + (name == "large.txt")
    assert peak < 4_000_000 + 48 * len(corpus) < 0.5 * size
    assert kept < 32 * len(corpus)


def test_a_full_disk_is_told_with_the_way_to_another(tmp_path, monkeypatch):
    path = file(tmp_path, TRIPLES, "nli.csv")
    monkeypatch.setattr(sentences.tempfile, "TemporaryFile", lambda: open("/dev/full", "r+b"))  # noqa: SIM115
    with pytest.raises(ValueError, match=r"has no room for the text of .*nli\.csv\. Set TMPDIR"):
        read(path)


@pytest.mark.skipif(not REAL.is_file(), reason="ISOTHERM_DATA has no text/sentences.txt")
def test_the_real_corpus_is_whole():
    corpus = load_sentences("sentences")
    assert len(corpus) == 150_672
    assert corpus.notes == ()
    assert firsts(corpus) == [line.strip() for line in REAL.read_text(encoding="utf-8").split("\n")[:-1]]


@pytest.mark.parametrize("how", ["cut", "written over", "emptied"])
def test_a_text_that_changes_under_its_reader_is_a_sentence(tmp_path, how):
    lines = [f"a sentence with the number {i}" for i in range(2000)]
    path = file(tmp_path, "\n".join(lines))
    corpus = read(path)
    if how == "written over":
        path.write_text("\n".join(reversed(lines)))
        os.utime(path, (1, 1))
    else:
        os.truncate(path, 100 if how == "cut" else 0)
    with pytest.raises(ValueError, match=r"corpus\.txt was changed while it was in use"):
        corpus.texts([1999])


def test_a_text_that_another_replaces_is_read_to_the_end(tmp_path):
    path = file(tmp_path, "one\ntwo\n")
    corpus = read(path)
    (tmp_path / "new").write_text("x")
    (tmp_path / "new").replace(path)
    assert firsts(corpus) == ["one", "two"]
