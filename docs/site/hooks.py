"""What mkdocs asks of us: pages made of the code, links out of docs/ turned into links between pages.

The pages in docs/ are written to be read in the repository, with links such as ../README.md and ../../src/….py. Here
those become pages of the site: the README is "First hour", a source file is shown as code. The reference of losses,
temperatures and measures is made from the docstrings, equations as MathML, which browsers draw without a library.
Notebooks become pages, and ``<!-- chart: hardness -->`` the interactive chart of `isotherm inspect`.
"""

from __future__ import annotations

import inspect
import json
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File

import isotherm
from isotherm import measures, temperature
from isotherm.data.sets import load
from isotherm.inspect.page import hardness_charts
from isotherm.losses import catalogue
from isotherm.report import Page
from isotherm.train.lookup import TEMPERATURES

DOCS = Path(__file__).parent.parent
ROOT = DOCS.parent
OUTSIDE = {
    "README.md": "start.md",
    "LOG.md": "log.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}
"""Pages of the repository that stand outside of docs/, and where they are on the site."""
NOTEBOOKS = "examples/notebooks"
CHART, CHARTED = "<!-- chart: hardness -->", "interactive/hardness.html"
LINK = re.compile(r"(?<=\]\()([^)#\s:]+)(?=[)#\s])")
MATH = re.compile(r"^\.\. math::(?: *(?P<line>\S.*)\n|\n(?P<block>(?:[ \t]+\S.*\n|\n)+))", re.MULTILINE)


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are not files in docs/."""
    for place, text in pages().items():
        files.append(File.generated(config, place, content=text))
    files.append(File.generated(config, CHARTED, content=hardness_page()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    place = posixpath.relpath(CHARTED, page.file.url or ".")
    frame = (
        f'<iframe class="chart" src="{place}" title="How many negatives a query reaches at each temperature"></iframe>'
    )
    return relinked(markdown, page.file.src_uri).replace(CHART, frame)


def hardness_page() -> str:
    """The chart by which inspect recommends a temperature, of the digits' pixels without their mean."""
    digits = load("digits")
    pixels = digits.pixels.flatten(1).double()
    health = isotherm.inspect(pixels - pixels.mean(0), digits.labels, name="digits").health
    page = Page("Hardness", "1,437 digits, their pixels without the mean. Point at a line, or use the arrow keys.")
    page.figures(*hardness_charts(health))
    return page.html()


def notebook_page(path: Path) -> str:
    """A notebook as Markdown: its texts, and its code as code."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
    return "\n\n".join(parts) + "\n"


def pages() -> dict[str, str]:
    """Every page that is made, by its place on the site."""
    made = {site: (ROOT / path).read_text(encoding="utf-8") for path, site in OUTSIDE.items()}
    made["decisions/index.md"] = "# Decisions\n\nOne page per choice.\n\n" + "\n".join(_decisions())
    made["reference/losses.md"] = _reference("Losses", ((e.name, e.loss) for e in catalogue.losses()))
    made["reference/temperatures.md"] = _reference(
        "Temperatures", ((name, getattr(temperature, name)) for name in TEMPERATURES)
    )
    public = sorted(name for name in measures.__all__ if callable(getattr(measures, name)))
    made["reference/measures.md"] = _reference("Measures", ((name, getattr(measures, name)) for name in public))
    for notebook in sorted((ROOT / NOTEBOOKS).glob("*.ipynb")):
        made[f"notebooks/{notebook.stem}.md"] = notebook_page(notebook)
    for path in _linked_files():
        code = (ROOT / path).read_text(encoding="utf-8")
        made[f"source/{path}.md"] = f"# {path}\n\n````python\n{code}````\n"
    return made


def relinked(markdown: str, place: str) -> str:
    """A page's text with links as the site has them; `place` is where the page is on it."""
    folder = posixpath.dirname(_in_repository(place))

    def site(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, match[1]))
        return posixpath.relpath(_on_site(target), posixpath.dirname(place) or ".")

    return LINK.sub(site, markdown)


def _in_repository(place: str) -> str:
    """Where the text of a page stands in the repository."""
    outside = {site: path for path, site in OUTSIDE.items()}
    if place.startswith("notebooks/"):
        return f"examples/{place}"
    return outside.get(place, f"docs/{place}")


def _on_site(target: str) -> str:
    """Where something of the repository is on the site."""
    if target in OUTSIDE:
        return OUTSIDE[target]
    if target == "docs/decisions":
        return "decisions/index.md"
    if target.startswith("docs/"):
        inside = target.removeprefix("docs/")
        return f"{inside}/README.md" if (ROOT / target).is_dir() else inside
    if target.startswith(NOTEBOOKS):
        return f"notebooks/{posixpath.basename(target).removesuffix('.ipynb')}.md"
    return f"source/{target}.md"


def _linked_files() -> set[str]:
    """The files of source that pages link to."""
    texts = [(path, (ROOT / path).read_text(encoding="utf-8")) for path in OUTSIDE]
    texts += [(str(p.relative_to(ROOT)), p.read_text(encoding="utf-8")) for p in DOCS.rglob("*.md")]
    links = [(posixpath.dirname(place), link) for place, text in texts for link in LINK.findall(text)]
    targets = {posixpath.normpath(posixpath.join(folder, link)) for folder, link in links}
    files = {target for target in targets if (ROOT / target).is_file()} - set(OUTSIDE)
    return {target for target in files if not target.startswith(("docs/", NOTEBOOKS))}


def _decisions() -> Iterator[str]:
    for path in sorted((DOCS / "decisions").glob("*.md")):
        title = path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
        yield f"- [{path.stem[:4]}: {title.removeprefix(path.stem[:4]).lstrip(' :.')}]({path.name})"


def _reference(title: str, things: Iterator[tuple[str, Any]]) -> str:
    parts = [f"# {title}\n\nFrom the docstrings; `help()` says the same.\n"]
    for name, thing in things:
        given = inspect.signature(thing).parameters.values()
        call = ", ".join(p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in given)
        parts.append(f"## {name}\n\n```python\n{name}({call})\n```\n\n{markdown_of(thing)}\n")
    return "\n".join(parts)


def markdown_of(thing: Any) -> str:
    """A docstring as Markdown: equations drawn, names as code."""
    text = (inspect.getdoc(thing) or "") + "\n"
    text = MATH.sub(lambda m: "\n" + _mathml(m["line"] or m["block"], "block") + "\n\n", text)
    text = re.sub(r":math:`([^`]+)`", lambda m: _mathml(m[1], "inline"), text)
    return text.replace("``", "`")


def _mathml(latex: str, display: str) -> str:
    return convert(" ".join(latex.split()), display=display)
