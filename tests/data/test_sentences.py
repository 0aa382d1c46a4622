"""Corpora of sentences and their loader: every row found again, nothing lost in silence, larger than memory."""

import builtins
import gzip
import itertools
import json
import os
import random
import threading
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from isotherm.data import corpora, sentences
from isotherm.data.loaders.sentences import TextLoader
from isotherm.data.sentences import is_text, load_sentences, read

REAL = Path(os.environ.get("ISOTHERM_DATA") or "/nonexistent") / "text" / "sentences.txt"
TRIPLES = "sent0,sent1,hard_neg\na cat,the cat,a dog\nit rains,rain falls,the sun\n"


def file(folder, content, name="corpus.txt"):
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def rows(corpus):
    return corpus.texts(range(len(corpus)))


def firsts(corpus):
    return [row[0] for row in rows(corpus)]


def sheet(folder, name="table.parquet", rows_a_group=None, **columns):
    pq.write_table(pa.table(columns), folder / name, row_group_size=rows_a_group)
    return folder / name


# --- plain text ---------------------------------------------------------------------------------


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


# --- what is not UTF-8 ---------------------------------------------------------------------------


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


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_a_file_in_utf16_or_utf32_is_refused_by_its_mark(tmp_path, encoding):
    with pytest.raises(
        ValueError, match=rf"is {encoding.upper()}, not UTF-8. Convert it: iconv -f {encoding} -t utf-8"
    ):
        read(file(tmp_path, "one\ntwo\n".encode(encoding)))


def test_a_binary_file_is_no_text(tmp_path):
    with pytest.raises(ValueError, match="is no text file: byte 3 is NUL"):
        read(file(tmp_path, b"abc\0def\n"))


def test_a_text_whose_looked_at_beginning_ends_in_the_middle_of_a_character_is_text(tmp_path, monkeypatch):
    monkeypatch.setattr(corpora, "LOOK", 8)
    for lead in range(4):
        line = "a" * lead + "🙂🙂🙂"
        assert firsts(read(file(tmp_path, line))) == [line]


# --- files that cannot be read -------------------------------------------------------------------


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


# --- against a naive reader -----------------------------------------------------------------------

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


# --- tables ---------------------------------------------------------------------------------------


def test_the_only_column_is_read_and_its_name_is_no_sentence(tmp_path):
    corpus = read(file(tmp_path, "sentence\none\ntwo\n", "a.csv"))
    assert (firsts(corpus), corpus.notes) == (["one", "two"], ())
    corpus = read(file(tmp_path, "Was this a sentence?\none\n", "a.csv"))
    assert firsts(corpus) == ["one"]
    assert corpus.notes == ("'Was this a sentence?' is taken for the name of the only column, not for a sentence",)


def test_of_several_columns_the_usual_one_is_read_and_pairs_are_pointed_at(tmp_path):
    corpus = read(file(tmp_path, TRIPLES, "nli.csv"))
    assert rows(corpus) == [("a cat",), ("it rains",)]
    assert corpus.columns == ("sentence",)
    assert corpus.notes[0].startswith(
        "column 'sent0' of sent0, sent1, hard_neg is read; two or three of them as columns"
    )
    assert firsts(read(file(tmp_path, "text\tsentence\nno\tyes\n", "a.tsv"))) == ["yes"]


def test_unusual_columns_must_be_named(tmp_path):
    path = file(tmp_path, "left,right\na,b\n", "a.csv")
    with pytest.raises(ValueError, match=r"has the columns left, right\. Say which to read"):
        read(path)
    with pytest.raises(ValueError, match="has no column 'middle'; it has: left, right"):
        read(path, columns=["left", "middle"])
    assert rows(read(path, columns="right")) == [("b",)]


def test_two_columns_are_pairs_and_three_are_triples(tmp_path):
    path = file(tmp_path, TRIPLES, "nli.csv")
    pairs = read(path, columns=["sent0", "sent1"])
    assert pairs.columns == ("anchor", "positive")
    assert rows(pairs) == [("a cat", "the cat"), ("it rains", "rain falls")]
    triples = read(path, columns=["sent0", "sent1", "hard_neg"])
    assert triples.columns == ("anchor", "positive", "negative")
    assert rows(triples) == [("a cat", "the cat", "a dog"), ("it rains", "rain falls", "the sun")]
    assert triples.notes == ()


def test_pairs_are_duplicates_if_both_sentences_are_the_same(tmp_path):
    path = file(tmp_path, "a,b\nx,y\nx,z\nxy,\nx , y\n,xy\nx,yz\nxy,z\n", "a.csv")
    corpus = read(path, columns=["a", "b"])
    assert rows(corpus) == [("x", "y"), ("x", "z"), ("x", "yz"), ("xy", "z")]
    assert corpus.ids.tolist() == [0, 1, 5, 6]
    assert corpus.notes == ("2 lines without a sentence left out", "1 duplicate left out, the first of each stays")


def test_a_quoted_field_may_hold_newlines_commas_and_quotes(tmp_path):
    path = file(tmp_path, 'id,text\r\n1,"one,\r\ntwo\nthree"\r\n\r\n2,"say ""so"""\r\n3,plain "word"\r\n', "a.csv")
    corpus = read(path, columns=["text"])
    assert firsts(corpus) == ["one,\r\ntwo\nthree", 'say "so"', 'plain "word"']
    assert corpus.notes == ("1 line without a sentence left out",)


def test_a_field_longer_than_the_csv_modules_limit_is_read(tmp_path):
    corpus = read(file(tmp_path, "text\n" + "x" * 200_000 + "\n", "a.csv"), longest=150_000)
    assert firsts(corpus) == ["x" * 150_000]


def test_a_row_with_too_few_or_too_many_fields_is_an_error_with_its_line(tmp_path):
    with pytest.raises(ValueError, match=r"a\.csv, line 5: 1 fields, its header has 2 \(a, b\)"):
        read(file(tmp_path, 'a,b\n1,2\n"3\n3",4\n5\n', "a.csv"), columns=["a"])
    with pytest.raises(ValueError, match=r"line 2: 3 fields, its header has 2 .* quote what holds a ','"):
        read(file(tmp_path, "a,b\nyes, indeed,2\n", "a.csv"), columns=["a"])


def test_a_quote_that_is_never_closed_is_an_error_with_its_line(tmp_path):
    with pytest.raises(ValueError, match="the row that begins on line 3: unexpected end of data"):
        read(file(tmp_path, 'text\none\n"two\nthree\n', "a.csv"))
    with pytest.raises(ValueError, match="the row that begins on line 2: ',' expected after '\"'"):
        read(file(tmp_path, 'text\n"one" two\n', "a.csv"))


def test_a_bad_line_of_a_csv_file_is_left_out_like_one_of_a_text(tmp_path):
    corpus = read(file(tmp_path, b"\xef\xbb\xbftext\none\ncaf\xe9\nthree\n", "a.csv"))
    assert firsts(corpus) == ["one", "three"]
    assert corpus.ids.tolist() == [0, 2]
    assert corpus.notes == ("line 3 is not UTF-8 (byte 0xe9): left out",)


def test_a_column_that_is_there_twice_is_refused(tmp_path):
    with pytest.raises(ValueError, match="has 2 columns 'text'"):
        read(file(tmp_path, "text,text\na,b\n", "a.csv"), columns=["text"])


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"text": "two"', "line 3 is not JSON"),
        ('["two"]', "line 3: an object such as .* was wanted, got"),
        ('{"words": "two"}', "line 3 has no 'text'; it has: words"),
        ('{"text": 2}', "line 3: 'text' is 2, not text"),
    ],
)
def test_a_bad_line_of_json_is_an_error_with_its_number(tmp_path, line, words):
    with pytest.raises(ValueError, match=words):
        read(file(tmp_path, '{"text": "one"}\n\n' + line + "\n", "a.jsonl"))


def test_json_lines_that_hold_nothing_or_no_utf8_are_left_out(tmp_path):
    lines = [
        b'{"text": "one"}',
        b"",
        b'{"text": null}',
        b'{"text": "caf\xe9"}',
        b'{"text": "\\ud83d"}',
        b'{"text": "\\n"}',
    ]
    corpus = read(file(tmp_path, b"\xef\xbb\xbf" + b"\n".join(lines), "a.jsonl"))
    assert firsts(corpus) == ["one"]
    assert corpus.notes == (
        "3 lines without a sentence left out",
        "line 4 is not UTF-8 (byte 0xe9): left out; 2 such lines: 4, 5",
    )


def test_parquet_is_read_in_batches_and_by_column(tmp_path, monkeypatch):
    monkeypatch.setattr(corpora, "EVERY", 4)
    words = [f"sentence {i}" if i % 5 else None for i in range(30)]
    path = sheet(tmp_path, rows_a_group=10, text=words, number=list(range(30)))
    corpus = read(path)
    assert firsts(corpus) == [w for w in words if w]
    assert corpus.ids.tolist() == [i for i in range(30) if i % 5]
    assert corpus.notes[1:] == ("6 rows without a sentence left out",)
    with pytest.raises(ValueError, match="column 'number' is int64, not text"):
        read(path, columns=["number"])


def test_parquet_with_repeated_or_large_strings_is_text_too(tmp_path):
    encoded = pa.array(["one", "two", "one"]).dictionary_encode()
    path = sheet(tmp_path, a=encoded, b=pa.array(["x", "y", "z"], pa.large_string()))
    assert rows(read(path, columns=["a", "b"])) == [("one", "x"), ("two", "y"), ("one", "z")]


def test_parquet_whose_text_is_not_utf8_loses_that_row(tmp_path):
    bad = pa.array([b"one", b"caf\xe9", b"three"], pa.binary()).view(pa.string())
    corpus = read(sheet(tmp_path, text=bad))
    assert firsts(corpus) == ["one", "three"]
    assert corpus.notes == ("row 2 is not UTF-8 (byte 0xe9): left out",)


def test_a_damaged_parquet_file_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"a\.parquet is damaged"):
        read(file(tmp_path, b"PAR1 and no more", "a.parquet"))


def test_without_pyarrow_the_extra_is_named(tmp_path, monkeypatch):
    path = sheet(tmp_path, text=["one"])
    real = builtins.__import__

    def without(name, *rest):
        if name.startswith("pyarrow"):
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ModuleNotFoundError, match=r"needs pyarrow: pip install 'isotherm\[parquet\]'"):
        read(path)


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.txt", "one\ntwo\n"), ("a.csv", "text\none\ntwo\n"), ("a.jsonl", '{"text":"one"}\n{"text":"two"}\n')],
)
def test_packed_files_are_unpacked_on_the_way(tmp_path, name, content):
    corpus = read(file(tmp_path, gzip.compress(content.encode()), name + ".gz"))
    assert firsts(corpus) == ["one", "two"]
    assert corpus.name == "a"


def test_packed_files_that_break_off_or_are_parquet_are_refused(tmp_path):
    packed = gzip.compress(b"one\ntwo\n" * 1000)
    with pytest.raises(ValueError, match=r"a\.txt\.gz is damaged"):
        read(file(tmp_path, packed[: len(packed) // 2], "a.txt.gz"))
    with pytest.raises(ValueError, match=r"Unpack it first: gunzip a\.parquet\.gz"):
        read(file(tmp_path, packed, "a.parquet.gz"))


# --- names, subsets, fingerprints ------------------------------------------------------------------


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


# --- the loader ------------------------------------------------------------------------------------


def tokenize(texts):
    """A token a byte; 0 pads."""
    rows = [torch.tensor(list(text.encode())) for text in texts]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)


def words(tokens):
    return [bytes(row[row > 0].tolist()).decode() for row in tokens]


@pytest.fixture
def corpus(tmp_path):
    draw = random.Random(1)
    return read(file(tmp_path, "".join(f"{i} " + "x" * draw.randrange(1, 60) + "\n" for i in range(203))))


def loader(corpus, **settings):
    return TextLoader(corpus, tokenize, **({"views": 2, "batch": 16, "seed": 3} | settings))


def same(one, other):
    return all(
        torch.equal(a, b)
        for x, y in zip(one, other, strict=True)
        for a, b in zip([*x.views, x.labels, x.indices], [*y.views, y.labels, y.indices], strict=True)
    )


def test_an_epoch_shows_every_sentence_once_in_an_order_of_its_own(corpus):
    dealt = loader(corpus, drop_last=False)
    indices = [torch.cat([batch.indices for batch in dealt.epoch(e)]).tolist() for e in (0, 1)]
    assert sorted(indices[0]) == sorted(indices[1]) == list(range(203))
    assert indices[0] != indices[1]
    assert len(dealt) == 13
    assert len(loader(corpus)) == len(list(loader(corpus).epoch(0))) == 12
    assert loader(corpus, shuffle=False).order(5).tolist() == list(range(203))


def test_views_of_a_sentence_are_its_tokens_again_and_nobody_knows_a_label(corpus):
    batch = next(iter(loader(corpus, views=3).epoch(0)))
    assert len(batch.views) == 3
    for view in batch.views:
        assert view.dtype == torch.int64
        assert words(view) == [text for (text,) in corpus.texts(batch.indices)]
    assert batch.labels.dtype == torch.int64
    assert batch.labels.tolist() == [-1] * 16


@pytest.mark.parametrize("count", [2, 3])
def test_pairs_and_triples_are_views(tmp_path, count):
    names = ["sent0", "sent1", "hard_neg"][:count]
    triples = read(file(tmp_path, TRIPLES, "nli.csv"), columns=names)
    (batch,) = loader(triples, views=count, batch=2).epoch(0)
    assert [*zip(*map(words, batch.views), strict=True)] == triples.texts(batch.indices)
    assert len({view.shape[1] for view in batch.views}) > 1  # each padded for itself


@pytest.mark.parametrize("bucket", [1, 4])
def test_batches_depend_on_seed_and_epoch_alone(corpus, bucket):
    first = list(loader(corpus, bucket=bucket).epoch(2))
    assert same(first, list(loader(corpus, bucket=bucket, prefetch=0).epoch(2)))
    for other in (loader(corpus, bucket=bucket, seed=4).order(2), loader(corpus, bucket=bucket).order(3)):
        assert not torch.equal(other, loader(corpus, bucket=bucket).order(2))


@pytest.mark.parametrize("bucket", [1, 4])
def test_an_epoch_resumed_in_the_middle_goes_on_the_same(corpus, bucket):
    dealt = loader(corpus, bucket=bucket)
    assert same(list(dealt.epoch(1))[7:], list(dealt.epoch(1, start=7)))
    assert list(dealt.epoch(1, start=12)) == []
    with pytest.raises(ValueError, match="an epoch has 12 batches; cannot start at 13"):
        dealt.epoch(1, start=13)


@pytest.mark.parametrize("bucket", [1, 4])
@pytest.mark.parametrize("world", [2, 5])
def test_the_shares_of_all_processes_are_the_batch_of_one(corpus, world, bucket):
    settings = {"bucket": bucket, "drop_last": False}
    alone = list(loader(corpus, **settings).epoch(0))
    shares = [list(loader(corpus, **settings, rank=rank, world=world).epoch(0)) for rank in range(world)]
    for number, batch in enumerate(alone):
        parts = [share[number] for share in shares]
        assert torch.equal(batch.indices, torch.cat([part.indices for part in parts]))
        assert torch.equal(batch.labels, torch.cat([part.labels for part in parts]))
        for view in range(2):
            assert words(batch.views[view]) == [text for part in parts for text in words(part.views[view])]


def test_a_share_of_a_last_batch_may_be_empty(corpus):
    last = list(loader(corpus, batch=101, drop_last=False, rank=2, world=3).epoch(0))[-1]
    assert [tuple(view.shape) for view in last.views] == [(0, 1), (0, 1)]


def padding(dealt):
    return sum(int((batch.views[0] == 0).sum()) for batch in dealt.epoch(0))


def test_buckets_keep_every_sentence_once_and_lower_the_padding(corpus):
    plain, bucketed = loader(corpus, drop_last=False), loader(corpus, drop_last=False, bucket=6)
    assert sorted(bucketed.order(0).tolist()) == list(range(203))
    assert padding(bucketed) < 0.4 * padding(plain)
    # What is left over at the end is left over as it was, not the longest sentences.
    assert torch.equal(bucketed.order(0)[192:], plain.order(0)[192:])


def test_buckets_are_made_of_neighbours_in_the_order_and_dealt_shuffled(corpus):
    plain, bucketed = loader(corpus, bucket=1), loader(corpus, bucket=3)
    number = {place: i // 48 for i, place in enumerate(plain.order(0).tolist())}
    batches = bucketed.order(0)[:192].view(12, 16)
    buckets = [{number[place] for place in batch.tolist()} for batch in batches]
    assert all(len(bucket) == 1 for bucket in buckets)
    dealt = [bucket.pop() for bucket in buckets]
    assert sorted(dealt) == sorted([0, 1, 2, 3] * 3)
    assert dealt != sorted(dealt)
    sizes = corpus.sizes[batches]
    for bucket in range(4):
        spans = sorted((int(sizes[i].min()), int(sizes[i].max())) for i in range(12) if dealt[i] == bucket)
        assert all(low[1] <= high[0] for low, high in itertools.pairwise(spans))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"batch": 0}, "a batch holds 1 sentence or more, got 0"),
        ({"bucket": 0}, "a bucket holds 1 batch or more, got 0"),
        ({"views": 0}, "a sentence is shown 1 time or more, got 0 views"),
        ({"rank": 2, "world": 2}, "rank 2 is not one of 2 processes"),
        ({"batch": 2, "world": 3}, "a batch of 2 cannot be shared by 3 processes"),
        (
            {"batch": 204},
            "a batch of 204 is larger than corpus with its 203 sentences; contrastive learning needs others",
        ),
    ],
)
def test_a_loader_refuses_what_cannot_be_dealt(corpus, settings, words):
    with pytest.raises(ValueError, match=words):
        loader(corpus, **settings)


def test_pairs_have_two_views(tmp_path):
    pairs = read(file(tmp_path, TRIPLES, "nli.csv"), columns=["sent0", "sent1"])
    with pytest.raises(ValueError, match="nli holds anchor, positive: 2 views, got 3"):
        loader(pairs, views=3, batch=2)


@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_tokenizer_that_gives_something_else_is_found_out(corpus, prefetch):
    wrong = TextLoader(corpus, lambda texts: torch.zeros(len(texts), 4), views=2, batch=16, prefetch=prefetch)
    with pytest.raises(ValueError, match=r"tokenize must give int64 \(16, T\) for 16 sentences, got torch.float32"):
        next(iter(wrong.epoch(0)))
