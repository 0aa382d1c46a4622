"""Tables of sentences in every format, packed or not, and what is wrong with them."""

import builtins
import gzip

import pyarrow as pa
import pytest

from corpus_files import TRIPLES, file, firsts, rows, sheet
from isotherm.data import corpora
from isotherm.data.sentences import read


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_a_file_in_utf16_or_utf32_is_refused_by_its_mark(tmp_path, encoding):
    with pytest.raises(
        ValueError, match=rf"is {encoding.upper()}, not UTF-8. Convert it: iconv -f {encoding} -t utf-8"
    ):
        read(file(tmp_path, "one\ntwo\n".encode(encoding)))


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
    with pytest.raises(ModuleNotFoundError, match=r"needs pyarrow: pip install .*\[parquet\]'"):
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
