"""Markdown as GitHub reads it, in which every text is text: a name may hold pipes, tags or ends of lines."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence

from isotherm.report.page import Cell, fixed, number
from isotherm.screen import visible

MARKS = re.compile(r"[\\`*|$~]|(?<!\w)_|_(?!\w)|(?<=\])\(|^[#+=-]|^\d+(?=[.)](?:\s|$))")
"""What would begin code, emphasis, a cell, a formula, a link, a heading or a list."""


def text(value: object) -> str:
    """On one line; what means something to Markdown or HTML is escaped."""
    line = visible(" ".join(str(value).split()))
    escaped = MARKS.sub(_escaped, line)
    return re.sub(r"&(?=#?\w+;)", "&amp;", escaped).replace("<", "&lt;").replace(">", "&gt;")


def _escaped(mark: re.Match[str]) -> str:
    return f"{mark[0]}\\" if mark[0].isdigit() else f"\\{mark[0]}"


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """A table of texts, numbers and cells."""
    lines = [f"| {' | '.join(map(text, heads))} |", "|" + "---|" * len(heads)]
    return [*lines, *(f"| {' | '.join(text(cell_text(cell)) for cell in cells)} |" for cells in rows)]


def cell_text(cell: object) -> str:
    """A cell of a table as a person would write it; nothing where there is nothing."""
    if isinstance(cell, Cell) and cell.places is not None and isinstance(cell.value, float):
        return f"{fixed(cell.value, cell.places)} {cell.note}".strip()
    if isinstance(cell, Cell):
        return f"{cell_text(cell.value)} {cell.note}".strip()
    if isinstance(cell, float):
        short = f"{cell:.4g}"
        return number(cell) if "e" in short or "n" in short else short.replace("-", "−")
    return "" if cell is None else str(cell)


def code(value: str) -> str:
    """In a line, as it is but for ends of lines and backticks."""
    return f"`{visible(' '.join(value.split())).replace('`', chr(0x2BC))}`"


def block(value: str, language: str = "") -> list[str]:
    """A command or a file, as it is, behind a fence longer than any in it."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", value)), default=0))
    return [f"{fence}{language}", *visible(value).splitlines(), fence]


def link(title: str, address: str) -> str:
    """Text where the address is none that a browser may follow."""
    named = text(title).replace("[", r"\[").replace("]", r"\]")
    if re.fullmatch(r"(https?://)?[\w./~#%?=&+:,-]+", address) and not re.match(r"\w+:(?!//)", address):
        return f"[{named}]({address})"
    return f"{text(title)} ({text(address)})" if address else text(title)


def images(pictures: Sequence[tuple[str, str]]) -> list[str]:
    """Files with their titles: one over the whole width, several side by side."""
    if len(pictures) == 1:
        ((file, title),) = pictures
        return [f"!{link(title, file)}"]
    return [
        f'<img src="{html.escape(file)}" alt="{html.escape(visible(title))}" width="49%">' for file, title in pictures
    ]


def pictures_in(page: str) -> Iterator[tuple[str, str]]:
    """The files that `images` has put into a page, with their titles."""
    for title, file, other, named in re.findall(r'!\[(.*)\]\(([^)]*)\)|<img src="([^"]*)" alt="([^"]*)"', page):
        yield html.unescape(file or other), html.unescape(re.sub(r"\\(.)", r"\1", title) or named)


def folded(title: str, lines: Sequence[str]) -> list[str]:
    """Lines that stay folded until somebody opens them."""
    return [f"<details><summary>{html.escape(visible(title))}</summary>", "", *lines, "", "</details>"]
