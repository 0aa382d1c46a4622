"""The losses that exist, found by looking in `isotherm.nn`, and what their docstrings say of them."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass

from isotherm import nn


@dataclass(frozen=True)
class Entry:
    """A loss as the tables show it."""

    name: str
    loss: type[nn.Loss]
    summary: str
    """The first line of its docstring: what the number means."""
    paper: str
    equation: str
    settings: dict[str, object]
    """The constructor's arguments and their defaults."""

    @property
    def call(self) -> str:
        shown = ", ".join(f"{k}={v!r}" for k, v in self.settings.items() if k != "reduction")
        return f"{self.name}({shown})"


def losses() -> list[Entry]:
    """Every loss of `isotherm.nn`, by name."""
    found = [
        cls for cls in vars(nn).values() if inspect.isclass(cls) and issubclass(cls, nn.Loss) and cls is not nn.Loss
    ]
    return sorted((_entry(cls) for cls in found), key=lambda e: e.name.lower())


def _entry(cls: type[nn.Loss]) -> Entry:
    doc = inspect.getdoc(cls) or ""
    # the first citation: "Wang & Liu 2021 (arXiv:2012.09740), eq. 1; …" or "…, a baseline in Table 1 of DySTreSS"
    cited = re.search(
        r"^(?P<paper>[A-Z][^\n(]* \d{4}) \((?:[^)]*, )?(?P<id>arXiv:[\d.]+)\), "
        r"(?P<where>eq\. [\d–]+(?: and \d+)?|§[\d.]*\d|a baseline in (?P<table>Table \d+ of \w+))",
        doc,
        re.MULTILINE,
    )
    parameters = inspect.signature(cls.__init__).parameters.values()
    return Entry(
        name=cls.__name__,
        loss=cls,
        summary=doc.splitlines()[0] if doc else "",
        paper=f"{cited['paper']}, {cited['id']}" if cited else "",
        equation=(cited["table"] or cited["where"]) if cited else "",
        settings={p.name: p.default for p in parameters if p.name != "self"},
    )
