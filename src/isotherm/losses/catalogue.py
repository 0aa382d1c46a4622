"""The losses that exist, found by looking in this folder, and what their docstrings say of them.

`descriptions` reads the files without running them, so that a list is there at once and needs no torch; `losses`
imports them. A test holds the two together.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from isotherm import doors
from isotherm.checks import did_you_mean

if TYPE_CHECKING:
    from isotherm.losses.loss import Loss

# The first citation: "Wang & Liu 2021 (arXiv:2012.09740), eq. 1; …" or "…, a baseline in Table 1 of DySTreSS"
CITATION = re.compile(
    r"^(?P<paper>[A-Z][^\n(]* \d{4}) \((?:[^)]*, )?(?P<id>arXiv:[\d.]+|openreview:\w+|doi:[^\s)]+)\), "
    r"(?P<where>eq\. [\d–]+(?: and \d+)?|§[\d.]*\d|a baseline in (?P<table>Table \d+ of \w+))",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Description:
    """A loss as the tables show it."""

    name: str
    doc: str
    """Its docstring: what the number means, the equation, the paper."""
    settings: Mapping[str, str]
    """The constructor's arguments and their defaults as Python writes them; empty: there is none."""

    @property
    def summary(self) -> str:
        """The first line of its docstring: what the number means."""
        return self.doc.partition("\n")[0]

    @property
    def paper(self) -> str:
        citation = CITATION.search(self.doc)
        return f"{citation['paper']}, {citation['id']}" if citation else ""

    @property
    def equation(self) -> str:
        """Where in the paper it stands."""
        citation = CITATION.search(self.doc)
        return (citation["table"] or citation["where"]) if citation else ""

    @property
    def arguments(self) -> str:
        """Its settings as one would type them."""
        return ", ".join(f"{k}={v}" if v else k for k, v in self.settings.items() if k != "reduction")

    @property
    def call(self) -> str:
        return f"{self.name}({self.arguments})"


@dataclass(frozen=True)
class Entry(Description):
    """A loss with its class, imported."""

    loss: type[Loss]


def descriptions() -> list[Description]:
    """Every loss, by name, from the source of this folder; nothing is imported."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in sorted(Path(__file__).parent.glob("*.py"))]
    classes = {node.name: node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)}
    public = {name for tree in trees for name in _exported(tree) if name in classes}
    lineages = [list(_lineage(name, classes)) for name in public]
    return sorted((_read(line) for line in lineages if line[-1].name == "Loss"), key=_by_name)


def losses() -> list[Entry]:
    """Every loss, by name, with its class."""
    import isotherm.losses as folder  # noqa: PLC0415 - itself
    from isotherm.losses.loss import Loss  # noqa: PLC0415 - brings torch, which the list does without

    modules = [importlib.import_module(f"{folder.__name__}.{m.name}") for m in pkgutil.iter_modules(folder.__path__)]
    public = {getattr(module, name) for module in modules for name in getattr(module, "__all__", ())}
    classes = {cls for cls in public if inspect.isclass(cls) and issubclass(cls, Loss) and cls is not Loss}
    return sorted((_entry(cls) for cls in classes), key=_by_name)


def outside(name: str) -> list[Entry]:
    """The losses at ``./mine.py``, ``./mine.py:MyLoss`` or ``package.module:MyLoss``, by name; its code is run."""
    from isotherm.losses.loss import Loss  # noqa: PLC0415 - as above

    target = doors.module_of(name) if name.endswith(".py") else doors.load(name)
    if isinstance(target, ModuleType):
        own = [thing for thing in vars(target).values() if getattr(thing, "__module__", None) == target.__name__]
        classes = [cls for cls in own if inspect.isclass(cls) and issubclass(cls, Loss)]
        if not classes:
            raise ValueError(f"{name} holds no loss; a subclass of isotherm.nn.Loss is wanted.")
        return sorted((_entry(cls) for cls in classes), key=_by_name)
    if not (inspect.isclass(target) and issubclass(target, Loss)):
        kind = target.__name__ if inspect.isclass(target) else f"a {type(target).__name__}"
        raise ValueError(f"{name} is {kind}; a subclass of isotherm.nn.Loss is wanted.")
    return [_entry(target)]


def _by_name(described: Description) -> str:
    return described.name.lower()


def loss(name: str) -> type[Loss]:
    """A loss by its name."""
    known = {e.name: e.loss for e in losses()}
    if name not in known:
        raise ValueError(f"no loss '{name}'{did_you_mean(name, known)}")
    return known[name]


def _entry(cls: type[Loss]) -> Entry:
    parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
    taken = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    settings = {p.name: "" if p.default is p.empty else repr(p.default) for p in taken}
    return Entry(cls.__name__, inspect.getdoc(cls) or "", settings, cls)


def _exported(tree: ast.Module) -> Iterator[str]:
    """The names in a file's ``__all__``."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            yield from ast.literal_eval(node.value)


def _lineage(name: str, classes: Mapping[str, ast.ClassDef]) -> Iterator[ast.ClassDef]:
    """A class and its ancestors in this folder."""
    yield classes[name]
    for base in classes[name].bases:
        if isinstance(base, ast.Name) and base.id in classes:
            yield from _lineage(base.id, classes)


def _read(lineage: list[ast.ClassDef]) -> Description:
    methods = (node for cls in lineage for node in cls.body if isinstance(node, ast.FunctionDef))
    init = next(method for method in methods if method.name == "__init__")
    names = [argument.arg for argument in init.args.args][1:]
    defaults = [""] * (len(names) - len(init.args.defaults)) + [_default(node) for node in init.args.defaults]
    settings = dict(zip(names, defaults, strict=True))
    for argument, node in zip(init.args.kwonlyargs, init.args.kw_defaults, strict=True):
        settings[argument.arg] = "" if node is None else _default(node)
    return Description(lineage[0].name, ast.get_docstring(lineage[0]) or "", settings)


def _default(node: ast.expr) -> str:
    try:
        return repr(ast.literal_eval(node))
    except ValueError:
        return ast.unparse(node)
