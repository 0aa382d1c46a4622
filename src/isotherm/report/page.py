"""One self-contained HTML page: sections, tables, findings, figures; style and script inside, nothing fetched.

Every text goes in as text: whatever is in a label or a file name is shown, never interpreted.
"""

from __future__ import annotations

import base64
import hashlib
import html
import math
import numbers
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Literal

from isotherm.files import write_text
from isotherm.report.charts import Drawing, Picture, as_json
from isotherm.screen import visible

Level = Literal["good", "look", "bad"]
DENSE = 8
"""A table of more columns is set smaller."""
SIGNS: dict[str, str] = {"good": "✓ good", "look": "◆ look", "bad": "✕ bad"}


@dataclass(frozen=True)
class Finding:
    """What somebody should know, in a sentence; how grave it is; the numbers and thresholds it comes from."""

    level: Level
    text: str
    why: str = ""
    label: str = ""
    """What stands beside it instead of its level."""
    charts: Sequence[Drawing] = ()
    """What shows it."""
    remark: bool = False
    """Advice or a remark: no fault of what was looked at, whatever its level."""


@dataclass(frozen=True)
class Cell:
    """A table's cell that is more than a number or a text."""

    value: object
    note: str = ""
    """Small print below the value."""
    level: Level | None = None
    """Its colour, with a sign that needs none."""
    best: bool = False
    """The best of its row or column."""
    places: int | None = None
    """Digits after the point, where more would say more than is known."""


@dataclass(frozen=True)
class Thumbnail:
    """A small picture with a line below it, as PNG."""

    png: bytes
    caption: str
    level: Level | None = None
    """The colour of its frame, with a sign before the line."""


def number(value: float | None, digits: int = 4) -> str:
    """A number as a person writes it: 50,000; 0.1235; −3.94; 1.2e−07; and – where there is none."""
    if value is None or not math.isfinite(value):
        return "–"
    if isinstance(value, numbers.Integral) or (float(value).is_integer() and abs(value) < 1e15):
        return f"{int(value):,}".replace("-", "−")
    size = abs(value)
    if size >= 10 ** (digits + 2) or size < 1e-3:
        return f"{value:.{max(1, digits - 2)}e}".replace("-", "−")
    power = math.floor(math.log10(size))
    indices = max(0, digits - 1 - max(0, power), 1 - power if power < 0 else 0)  # two digits at least
    return f"{value:,.{indices}f}".replace("-", "−")


def spread(deviation: float, around: float) -> str:
    """A standard deviation with two digits, and no more places than its mean has use for: never 1.3e−14."""
    if not math.isfinite(deviation) or not deviation or abs(deviation) < 1e-9 * abs(around):
        return "0" if math.isfinite(deviation) else "–"
    needed = 1 - math.floor(math.log10(abs(deviation)))
    useful = 3 - math.floor(math.log10(abs(around))) if around and math.isfinite(around) else 4
    text = f"{deviation:,.{min(max(needed, 0), max(useful, 4))}f}"
    return text if text.strip("0.") else "0"


def places(deviation: float, around: float = 0.0) -> int | None:
    """Digits after the point that a value with this deviation has use for: one of the deviation's, two if it begins
    with 1 or 2; None: there is none to tell by.
    """
    if not math.isfinite(deviation) or not deviation or abs(deviation) < 1e-9 * abs(around):
        return None
    power = math.floor(math.log10(abs(deviation)))
    return min(max((1 if abs(deviation) < 3 * 10**power else 0) - power, 0), 4)


def fixed(value: float, digits: int) -> str:
    """A number with this many digits after the point."""
    text = f"{value:,.{digits}f}".replace("-", "−")
    return text if text.strip("−0.,") else text.lstrip("−")


class Page:
    """A page that grows downwards: call what should come next, then `write`.

    The verdict is what somebody in a hurry should know, in a line below the title.
    """

    def __init__(
        self,
        title: str,
        lead: str = "",
        kicker: str = "Isotherm",
        footer: str = "",
        verdict: Finding | None = None,
    ) -> None:
        self.title = title
        self._head = (kicker, lead, footer)
        self._verdict = verdict
        self._parts: list[str] = []
        self._sections: list[str] = []

    def section(self, title: str, text: str = "") -> None:
        """Start a section; the page's contents list them."""
        self._sections.append(title)
        self._parts.append(f'<h2 id="part{len(self._sections)}">{_text(title)}</h2>')
        self.text(text)

    def text(self, text: str) -> None:
        """Paragraphs, divided by empty lines."""
        self._parts += [f"<p>{_text(part)}</p>" for part in text.split("\n\n") if part.strip()]

    def facts(self, facts: Sequence[tuple[str, object] | tuple[str, object, str]]) -> None:
        """A few numbers that matter most, large: (name, value) or (name, value, small print)."""
        items = []
        for name, value, *more in facts:
            small = f"<small>{_text(more[0])}</small>" if more and more[0] else ""
            items.append(f"<div><dt>{_text(name)}</dt><dd>{_text(_shown(value))}{small}</dd></div>")
        self._parts.append(f'<dl class="facts">{"".join(items)}</dl>')

    def findings(self, findings: Sequence[Finding]) -> None:
        """What was found, each with its level and the numbers behind it."""
        items = []
        for f in findings:
            why = f'<span class="why">{_text(f.why)}</span>' if f.why else ""
            sign = f'<span class="level">{_text(f.label) or SIGNS[f.level]}</span>'
            shown = _figures(f.charts) if f.charts else ""
            items.append(f'<li class="{f.level}">{sign}<span>{_text(f.text)}</span>{why}{shown}</li>')
        self._parts.append(f'<ul class="findings">{"".join(items)}</ul>')

    def table(
        self, columns: Sequence[str], rows: Sequence[Sequence[object]], caption: str = "", stack: bool = False
    ) -> None:
        """A table of texts, numbers and `Cell`s; a column of numbers is aligned by its digits.

        The first column names the row. On a phone a wide table scrolls, or with `stack` each row becomes a block.
        """
        for row in rows:
            if len(row) != len(columns):
                raise ValueError(f"a row of the table needs {len(columns)} cells, got {len(row)}.")
        numeric = [bool(rows) and all(_is_number(row[j]) for row in rows) for j in range(len(columns))]
        parts = [any(_has_parts(row[j]) for row in rows) for j in range(len(columns))]
        wide = [any(len(_shown(_value(row[j]))) > 40 for row in rows) for j in range(len(columns))]
        head = "".join(
            f'<th scope="col"{_class("n" * right)}>{_text(c)}</th>' for c, right in zip(columns, numeric, strict=True)
        )
        body = "".join(
            "<tr>"
            + "".join(_cell(row[j], columns[j], j, numeric[j], wide[j], parts[j]) for j in range(len(columns)))
            + "</tr>"
            for row in rows
        )
        title = f"<caption><span>{_text(caption)}</span></caption>" if caption else ""
        kind = _class(" ".join(("stack" * stack, "dense" * (len(columns) > DENSE))))
        name = _text(caption or f"Table: {', '.join(columns)}")
        self._parts.append(
            f'<div class="scroll" role="region" tabindex="0" aria-label="{name}">'
            f"<table{kind}>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        )

    def figure(self, chart: Drawing) -> None:
        """One chart over the whole width."""
        self.figures(chart)

    def figures(self, *charts: Drawing) -> None:
        """Charts side by side where there is room."""
        self._parts.append(_figures(charts))

    def gallery(self, pictures: Sequence[Thumbnail], photos: bool = False) -> None:
        """Small pictures side by side, in as many lines as they need; photos are larger, and smooth."""
        items = []
        for picture in pictures:
            data = base64.b64encode(picture.png).decode()
            sign = f'<span class="mark">{SIGNS[picture.level].split()[0]}</span> ' if picture.level else ""
            image = f'<img alt="{_text(picture.caption)}" src="data:image/png;base64,{data}">'
            kind = _class(picture.level or "")
            items.append(f"<figure{kind}>{image}<figcaption>{sign}{_text(picture.caption)}</figcaption></figure>")
        self._parts.append(f'<div class="gallery{" photos" * photos}">{"".join(items)}</div>')

    def code(self, text: str) -> None:
        """A command or a file, as it is."""
        self._parts.append(f"<pre>{_text(text)}</pre>")

    @contextmanager
    def fold(self, title: str) -> Iterator[None]:
        """What is put in meanwhile stays folded until somebody opens it."""
        self._parts.append(f"<details><summary>{_text(title)}</summary>")
        yield
        self._parts.append("</details>")

    def html(self) -> str:
        """The whole page."""
        kicker, lead, footer = self._head
        script, style = _resource("chart.js"), _resource("style.css")
        # Only this very script runs, and nothing is fetched, whatever the texts of the page may hold.
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:"
        contents = ""
        if len(self._sections) > 2:
            links = "".join(
                f'<li><a href="#part{i}">{_text(title)}</a></li>' for i, title in enumerate(self._sections, 1)
            )
            contents = f'<nav aria-label="Contents"><ul>{links}</ul></nav>'
        charted = any('class="chart"' in part for part in self._parts)
        return "".join(
            [
                '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
                f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
                '<meta name="viewport" content="width=device-width, initial-scale=1">',
                f"<title>{_text(self.title)}</title><style>{style}</style></head><body>",
                f'<header><p class="kicker">{_text(kicker)}</p><h1>{_text(self.title)}</h1>',
                _verdict(self._verdict) if self._verdict else "",
                f'<p class="lead">{_text(lead)}</p>' if lead else "",
                f"</header>{contents}<main>",
                *self._parts,
                f"</main><footer><p>{_text(footer)}</p></footer>" if footer else "</main>",
                f"<script>{script}</script>" if charted else "",
                "</body></html>\n",
            ]
        )

    def _repr_html_(self) -> str:
        """Inside a notebook: in a frame, so that neither page changes the other."""
        style = "width: 100%; height: 640px; border: 1px solid #8884"
        return f'<iframe srcdoc="{_text(self.html())}" style="{style}" title="{_text(self.title)}"></iframe>'

    def write(self, path: Path | str) -> Path:
        """Write the page, whole or not at all."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, self.html())
        return path


def _text(value: object) -> str:
    """As text, and nothing else: what turns the direction of a line or cannot be seen is shown as its escape."""
    return html.escape(visible(str(value)))


def _shown(value: object) -> str:
    """A value as its reader sees it."""
    if value is None:
        return "–"
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        return number(float(value) if not isinstance(value, numbers.Integral) else int(value))
    return str(value)


def _value(cell: object) -> object:
    return cell.value if isinstance(cell, Cell) else cell


def _is_number(cell: object) -> bool:
    value = _value(cell)
    return value is None or (isinstance(value, numbers.Real) and not isinstance(value, bool))


def _verdict(verdict: Finding) -> str:
    sign = SIGNS[verdict.level].split()[0]
    return f'<p class="verdict {verdict.level}"><span class="mark">{sign}</span> {_text(verdict.text)}</p>'


def _class(name: str) -> str:
    return f' class="{name.strip()}"' if name.strip() else ""


def _has_parts(cell: object) -> bool:
    value = _value(cell)
    return isinstance(value, float) and math.isfinite(value) and not value.is_integer()


def _cell(cell: object, column: str, place: int, numeric: bool, wide: bool, parts: bool) -> str:
    result = cell if isinstance(cell, Cell) else Cell(cell)
    text = _text(_shown(result.value))
    if result.places is not None and isinstance(result.value, float) and math.isfinite(result.value):
        text = fixed(result.value, result.places)
    elif (
        numeric
        and parts
        and isinstance(result.value, float)
        and result.value.is_integer()
        and 1 <= abs(result.value) < 1000
    ):
        text += "." + "0" * (4 - len(f"{abs(result.value):.0f}"))  # 65.00 among 63.33 and 70.12
    if result.level:
        text = f'<span class="mark">{SIGNS[result.level].split()[0]} {text}</span>'
    if result.best:
        text += '<span class="hidden"> (best)</span>'
    if result.note:
        text += f"<small>{_text(result.note)}</small>"
    kind = _class(" ".join(("n" * numeric, "wide" * wide, result.level or "", "best" * result.best)))
    if place == 0:
        return f'<th scope="row"{kind}>{text}</th>'
    return f'<td{kind} data-name="{_text(column)}">{text}</td>'


def _figures(charts: Sequence[Drawing]) -> str:
    return f'<div class="figures">{"".join(_figure(c) for c in charts)}</div>'


def _figure(chart: Drawing) -> str:
    note = f'<p class="note">{_text(chart.note)}</p>' if chart.note else ""
    if isinstance(chart, Picture):
        data = base64.b64encode(chart.png).decode()
        picture = f'<img alt="{_text(chart.about)}" src="data:image/png;base64,{data}">'
        return f'<figure class="picture"><figcaption>{_text(chart.title)}</figcaption>{picture}{note}</figure>'
    return (
        f'<figure class="chart"><figcaption>{_text(chart.title)}</figcaption><div class="legend"></div>'
        f'<div class="canvas"></div>{note}<script type="application/json">{as_json(chart)}</script>'
        "<noscript>This figure needs JavaScript.</noscript></figure>"
    )


def _resource(name: str) -> str:
    return (files("isotherm.report") / name).read_text(encoding="utf-8")
