"""What was found in an embedding, on the screen and as an exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from isotherm.cli import terminal

if TYPE_CHECKING:
    from rich.console import Console

    from isotherm.inspect import Health, PairHealth, Row
    from isotherm.report import Finding

COLOURS = {"good": "green", "look": "yellow", "bad": "bold red", None: "default"}
EXPLAINED = 110
"""Columns of a terminal from which on a table has room for what its measures mean."""
FAILING = {"bad": ("bad",), "warning": ("bad", "look")}
"""The levels of findings that --fail-on stands for."""
FAILED = 3
"""The exit code of a command that did its work and found what --fail-on names."""


def fails(findings: Sequence[Finding], on: str | None) -> int:
    """The exit code; a line on standard error says why it is not 0. Remarks are no fault, and pass."""
    grave = [f for f in findings if on is not None and f.level in FAILING[on] and not f.remark]
    if not grave:
        return 0
    several = f" and {len(grave) - 1} more" if len(grave) > 1 else ""
    print(f"isotherm: --fail-on {on}: {grave[0].text}{several}", file=sys.stderr)
    return FAILED


def show_pairs(console: Console, health: PairHealth) -> None:
    table = terminal.table(f"{health.name}: {health.images:,} and {health.texts:,} × {health.d:,}", "value", "meaning")
    for title, value, meaning in health.rows():
        table.add_row(title, value, terminal.styled(meaning, "dim"))
    console.print(table)
    _show_findings(console, health.findings)
    console.print(health.advice.reasoning, highlight=False, soft_wrap=True)


def _show_findings(console: Console, findings: Sequence[Finding]) -> None:
    for finding in findings:
        line = terminal.styled(f"{finding.level:>4}", COLOURS[finding.level]).append(f"  {finding.text}", "default")
        console.print(line, highlight=False, soft_wrap=True)


def show_health(console: Console, health: Health, rows: Sequence[Row]) -> None:
    from isotherm.report import number

    _show_findings(console, health.findings)
    console.print(health.advice.reasoning, highlight=False, soft_wrap=True)
    explained = console.width >= EXPLAINED
    heads = ("value", "healthy", "what it means")[: 3 if explained else 2]
    table = terminal.table(f"{health.name}: {health.n:,} × {health.d:,}", *heads)
    for row in rows:
        value = terminal.styled(number(row.value), COLOURS[row.healthy.level])
        meaning = [terminal.styled(row.measure.meaning, "dim")] * explained
        table.add_row(row.measure.title, value, row.healthy.where, *meaning)
    console.print(table)
