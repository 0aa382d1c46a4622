"""The losses that exist, found by looking in this folder, and what their docstrings say of them."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from dataclasses import dataclass

import isotherm.losses
from isotherm.checks import did_you_mean
from isotherm.losses.loss import Loss


@dataclass(frozen=True)
class Entry:
    """A loss as the tables show it."""

    name: str
    loss: type[Loss]
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
    """Every loss, by name."""
    modules = [
        importlib.import_module(f"isotherm.losses.{m.name}") for m in pkgutil.iter_modules(isotherm.losses.__path__)
    ]
    public = [getattr(module, name) for module in modules for name in getattr(module, "__all__", ())]
    found = {cls for cls in public if inspect.isclass(cls) and issubclass(cls, Loss) and cls is not Loss}
    return sorted((_entry(cls) for cls in found), key=lambda e: e.name.lower())


def loss(name: str) -> type[Loss]:
    """A loss by its name."""
    known = {e.name: e.loss for e in losses()}
    if name not in known:
        raise ValueError(f"no loss '{name}'{did_you_mean(name, known)}")
    return known[name]


def _entry(cls: type[Loss]) -> Entry:
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
