"""Terminals: what files are called is shown, and never obeyed."""

import io
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from isotherm import screen
from isotherm.cli import main, terminal

HOSTILE = "\x1b]0;mine\x07\x1b[2J\x9b31m\u202egnp.exe\u2066\x7f\x00[bold]b[/bold]\r\udc80"
SHOWN = r"\x1b]0;mine\x07\x1b[2J\x9b31m\u202egnp.exe\u2066\x7f\x00[bold]b[/bold]\r\udc80"


def test_what_terminals_obey_is_made_visible_once_and_the_rest_left_alone():
    assert screen.visible(HOSTILE) == SHOWN
    assert screen.visible(SHOWN) == SHOWN
    ordinary = "é 你好 👩‍👩‍👧 مرحبا می\u200cخواهم\ttab\nline −★≥"
    assert screen.visible(ordinary) == ordinary


def test_nothing_printed_reaches_the_terminal_raw(capsys):
    with screen.guarded():
        print("out", HOSTILE)
        print("err", HOSTILE, file=sys.stderr)
    captured = capsys.readouterr()
    assert captured.out == f"out {SHOWN}\n"
    assert f"err {SHOWN}\n" in captured.err


@pytest.mark.parametrize("terminal_there", [True, False])
def test_whatever_a_console_draws_is_text(monkeypatch, terminal_there):
    stream = io.StringIO()
    stream.isatty = lambda: terminal_there
    monkeypatch.setattr("sys.stdout", stream)
    monkeypatch.setenv("TERM", "xterm")
    with screen.guarded():
        console = screen.console(width=200)
        table = terminal.table(HOSTILE, "b")
        table.add_row(HOSTILE, terminal.styled(HOSTILE, "green"))
        console.print(table)
        console.print(HOSTILE, highlight=False)
        with terminal.progress(console) as note:
            note(HOSTILE, HOSTILE)
    drawn = stream.getvalue()
    ours = drawn.replace("\x1b[1m", "").replace("\x1b[0m", "").replace("\x1b[32m", "")
    for word in ("\x1b[2J", "\x1b]0", "\x9b", "\u202e", "\udc80", "\x07"):
        assert word not in drawn
    assert ours.count(r"\x1b[2J\x9b31m\u202egnp.exe\u2066\x7f\x00[bold]b[/bold]") >= 4


def test_a_key_and_a_file_name_are_shown_by_inspect(capsys, tmp_path):
    z = np.random.default_rng(0).standard_normal((30, 4))
    path = tmp_path / "\x1b[31mz\u202e.npz"
    np.savez(path, **{"\x1b[2Ja": z, "[red]b": z})
    for arguments in (["inspect", str(path)], ["inspect", str(path), "--key", "\x1b[2Ja", "--json", f"{path}.json"]):
        main(arguments)
        captured = capsys.readouterr()
        assert not {"\x1b", "\u202e"} & set(captured.out + captured.err)
        assert r"\x1b[31mz\u202e.npz" in captured.out + captured.err


def test_a_name_cannot_forge_a_line_of_ours(capsys, tmp_path):
    assert main(["inspect", str(tmp_path / "a\nisotherm: all is well.npy")]) == 2
    assert r"a\nisotherm: all is well.npy" in capsys.readouterr().err


def test_half_a_character_in_a_name_is_shown_where_streams_refuse_it(tmp_path, monkeypatch):
    np.save(tmp_path / "z\udc80.npy", np.random.default_rng(0).standard_normal((30, 4)))
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), "utf-8", errors="strict"))
    words = ["inspect", str(tmp_path / "z\udc80.npy"), "--json", str(tmp_path / "\udc81.json"), "--map", "none"]
    assert main(words) == 0
    assert r"\udc80.npy: 30 × 4" in sys.stdout.buffer.getvalue().decode()
    assert json.loads((tmp_path / "\udc81.json").read_text())["name"] == "z\udc80.npy"


def test_a_reader_who_has_seen_enough_is_no_failure(tmp_path, monkeypatch, capsys):
    np.save(tmp_path / "z.npy", np.random.default_rng(0).standard_normal((30, 4)))
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stream:
        monkeypatch.setattr("sys.stdout", stream)
        assert main(["inspect", str(tmp_path / "z.npy"), "--map", "none"]) == 0
        monkeypatch.undo()
    assert capsys.readouterr().err == "examining\n"


def test_a_failure_of_ours_shows_what_it_says_and_the_terminal_obeys_none_of_it(tmp_path):
    lines = ["from isotherm.nn import NTXentLoss", "", "class Mine(NTXentLoss):", "    def per_query(self, pairs):"]
    lines.append(r"        raise RuntimeError('\x1b[31mred\x1b]0;title\x07')")
    (tmp_path / "mine.py").write_text("\n".join(lines))
    words = ["train", "--loss", f"{tmp_path}/mine.py:Mine", "--images", "64", "--batch", "32", "--out", "a"]
    ended = subprocess.run(
        [sys.executable, "-m", "isotherm.cli", *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert r"RuntimeError: \x1b[31mred\x1b]0;title\x07" in ended.stderr
    assert "\x1b" not in ended.stderr
