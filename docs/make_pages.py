"""Write what is repeated from the code: tables of docs/api.md and of the guides, docs/architecture.md, train's help.

    python docs/make_pages.py            write them
    python docs/make_pages.py --check    exit 1 if one is not current

Pages that repeat the code by hand drift from it; these cannot, because a test runs the check. The parts stand between
``<!-- made: NAME -->`` and ``<!-- end -->``; all else on the pages is written by hand.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from isotherm import measures, temperature
from isotherm.cli import train
from isotherm.experiments.claims import rules
from isotherm.losses import catalogue
from isotherm.train.lookup import TEMPERATURES

DOCS = Path(__file__).parent
PACKAGE = DOCS.parent / "src/isotherm"
PAGES = ("api.md", "architecture.md", "guides/add-a-study.md")
MEASURES = (
    "uniformity tolerance alignment interclass_uniformity conditional_entropy local_separation effective_rank rankme "
    "lidar alpha_req hardness"
)
"""The public ones; losses and temperatures are listed where they are looked up."""


def signature(thing: Callable[..., Any]) -> str:
    """Arguments with their defaults, without types: as somebody would type them."""
    arguments = [
        p.name if p.default is p.empty else f"{p.name}={_plain(p.default)!r}"
        for p in inspect.signature(thing).parameters.values()
    ]
    return f"{thing.__name__}({', '.join(arguments)})"


def _plain(default: object) -> object:
    """A default as it is typed: of a dataclass's field that is made anew, what is made."""
    return {} if repr(default) == "<factory>" else default


def first_paragraph(thing: Any) -> str:
    """What a docstring says first, on one line."""
    return " ".join((inspect.getdoc(thing) or "").partition("\n\n")[0].split()).replace("|", "\\|")


def table(head: str, things: Iterable[Callable[..., Any]]) -> str:
    rows = [f"| `{signature(thing)}` | {first_paragraph(thing)} |" for thing in things]
    return "\n".join([f"| {head} | what it says |", "|---|---|", *rows])


def modules(folder: Path = PACKAGE) -> Iterator[str]:
    """A line for every module, by its path: those of a folder, then the folders in it."""
    for path in sorted(folder.glob("*.py"), key=lambda p: (p.name != "__init__.py", p.name)):
        place = path.relative_to(PACKAGE)
        text = (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n")[0]
        if path.name != "__init__.py":
            yield f"- `{place}`: {text}"
        elif folder != PACKAGE:
            yield f"\n**{place.parent}/** {text}\n"
    for below in sorted(p for p in folder.iterdir() if (p / "__init__.py").exists()):
        yield from modules(below)


def parts() -> dict[str, str]:
    """What is made, by the name it has on the pages."""
    return {
        "losses": table("loss", (entry.loss for entry in catalogue.losses())),
        "temperatures": table("temperature", (getattr(temperature, name) for name in TEMPERATURES)),
        "measures": table("measure", (getattr(measures, name) for name in MEASURES.split())),
        "rules": table("rule", (getattr(rules, name) for name in rules.__all__)),
        "modules": "\n".join(modules()).strip(),
    }


def pages() -> Iterator[tuple[Path, str]]:
    """Every file that is made, whole or in part, and what it must hold."""
    made = parts()
    for page in (DOCS / name for name in PAGES):
        text = re.sub(
            r"(<!-- made: (\w+) -->\n).*?(\n<!-- end -->)",
            lambda part: f"{part[1]}\n{made[part[2]]}\n{part[3]}",
            page.read_text(),
            flags=re.DOTALL,
        )
        yield page, text
    yield train.HELP, train.help_page()


def main(check: bool) -> int:
    stale = [(page, text) for page, text in pages() if not page.exists() or page.read_text() != text]
    for page, text in stale:
        name = page.relative_to(DOCS.parent)
        print(f"{name} is {'not current: python docs/make_pages.py' if check else 'written'}")
        if not check:
            page.write_text(text)
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
