"""A study as a page for a repository: `README.md`, the figures it shows, its tables as CSV, and its records.

Every claim with its verdict, a sentence and its figure; how to do it again. The records are enough to judge the claims
again (`isotherm report`) and to go on. Publishing again replaces what was published and nothing else: the page ends in
a list of the files that are ours.
"""

from __future__ import annotations

import json
import re
import shlex
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import Any

from isotherm import files
from isotherm.experiments import csv_tables, execute, report, result_tables
from isotherm.experiments.design import Design, design_of, same_since
from isotherm.experiments.drawn import Drawn, charts_of, draw_figures, file_name, stem
from isotherm.experiments.execute import About
from isotherm.experiments.find import file_of
from isotherm.experiments.judging import Judged, by_chance, count, judge
from isotherm.experiments.looks import FILE as LOOKS
from isotherm.experiments.looks import Looks, history
from isotherm.experiments.points import at_scale, instead_at
from isotherm.experiments.records import RECORDS, Records, as_lines
from isotherm.experiments.records import read as read_records
from isotherm.experiments.study import Comparison, Figure, PaperTable, Study, Where
from isotherm.experiments.wording import by_seed, details, duration, sentence
from isotherm.measures.catalogue import measure
from isotherm.report import figures
from isotherm.report.markdown import block, code, folded, images, link, pictures_in, table, text

PAGE = "README.md"
OURS = re.compile(r"^<!-- Made by isotherm, written anew with: ([a-z0-9., -]+) -->$", re.MULTILINE)
"""The end of a page: the files beside it that are ours to replace."""
DPI = 110
"""A figure is as wide as the text of a page."""
FEW = 3
"""Remarks that stand openly; more of a kind are folded."""
RULES = (
    "Held: the effect counts and its interval over seeds excludes zero. Contradicted: the whole interval falls short "
    "of what counts. Undecided: neither; what would decide it is said. Intervals allow for looking again after more "
    "seeds: 94 % with three, 99 % with more."
)


@dataclass(frozen=True)
class Telling:
    """All that a page is made of."""

    study: Study
    """As it is judged at the scale."""
    about: About
    records: Records
    read: Records
    """The same as claims and figures read them (`Scale.instead`)."""
    judged: Sequence[Judged]
    drawn: Sequence[Drawn]
    kept: Mapping[str, str]
    """Pictures of an earlier page that cannot be drawn here, by file, with what they are called."""
    looks: Looks
    design: Design | None
    place: str
    """The published folder, as a reader of the repository would name it."""


def publish(study: Study, source: Path, folder: Path) -> tuple[Sequence[Judged], Records]:
    """Write the page of a study's folder and what belongs to it into another folder."""
    _refuse_another(source, folder)
    telling = _telling(study, source, folder)
    tables = _tables(telling)
    contents = {name: written.encode() for name, (written, _) in tables.items()}
    contents |= _pictures(telling.drawn)
    contents |= {name: (folder / name).read_bytes() for name in telling.kept}
    contents |= _records(telling)
    page = [*_page(telling, {name: about for name, (_, about) in tables.items()}), "", _list_of(contents), ""]
    _replace({PAGE: "\n".join(page).encode(errors="backslashreplace"), **contents}, folder)
    return telling.judged, telling.records


def _refuse_another(source: Path, folder: Path) -> None:
    """Refuse to write over the page of another study, or over runs that are finished there and not here."""
    if execute.ABOUT not in _published_before(folder) or folder.resolve() == source.resolve():
        return
    there, here = execute.about(folder), execute.about(source)
    asked = {name: (getattr(there, name), getattr(here, name)) for name in ("study", "scale", "data")}
    if other := [f"{name} {old} instead of {new}" for name, (old, new) in asked.items() if old != new]:
        raise ValueError(f"{folder} has another study's page ({', '.join(other)}). Name another folder.")
    if lost := (_finished(folder) or set()) - (_finished(source) or set()):
        raise ValueError(
            f"{folder} has {len(lost)} finished runs that {source} lacks, and they would be lost. Copy its "
            f"{RECORDS}, {execute.ABOUT} and, if it has one, {LOOKS} to a study's folder and go on there, or remove "
            "the page first."
        )
    if len(Looks.of(folder).looks) > len(Looks.of(source).looks):
        raise ValueError(
            f"{folder} tells of more looks at the verdicts than {source} does. Copy its {LOOKS} there, or remove the "
            "page first."
        )


def _telling(study: Study, source: Path, folder: Path) -> Telling:
    looks = Looks.of(source)  # before the records, of which a running study may have more meanwhile
    about = execute.about(source)
    records = read_records(source)
    recorded = about.recorded or _day((source / RECORDS).stat().st_mtime)
    about = replace(about, command=_portable(about.command), recorded=recorded, source=_from_here(about.source))
    here, read = at_scale(study, about.scale), records.reading(instead_at(study, about.scale))
    place = folder.name if folder.is_absolute() else folder.as_posix()
    design = design_of(file_of(study))
    drawn = draw_figures(here.figures, read)
    kept = _kept([figure for figure in here.figures if all(each.figure is not figure for each in drawn)], read, folder)
    shown = _shown(here, drawn)
    return Telling(here, about, records, read, judge(here, read), shown, kept, looks, design, place)


def _shown(study: Study, drawn: Sequence[Drawn]) -> list[Drawn]:
    """The charts of claims, and the figures that no claim names."""
    named = {claim.figure for claim in study.claims}
    of_claims = {chart.name for claim in study.claims for chart in charts_of(claim, drawn)}
    return [each for each in drawn if each.name in of_claims or each.figure.name not in named]


def _kept(undrawn: Sequence[Figure], read: Records, folder: Path) -> dict[str, str]:
    """Pictures of figures that look into runs, published where those were at hand: here are only their records."""
    ours = _published_before(folder)
    if not ours or all(record.folder.exists() for record in read) or _finished(folder) is None:
        return {}
    page = (folder / PAGE).read_text(encoding="utf-8", errors="replace")
    beginnings = tuple(f"{stem(figure)}-" for figure in undrawn)
    pictures = {name: title for name, title in pictures_in(page) if name in ours and name.startswith(beginnings)}
    return {name: title for name, title in pictures.items() if (folder / name).is_file()}


def _finished(folder: Path) -> set[str] | None:
    """The finished runs that a folder has records of; None where they cannot be read."""
    try:
        return {record.key for record in read_records(folder) if record.finished}
    except (OSError, ValueError):
        return None


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()


def _portable(command: str) -> str:
    """A command without the place that its folder had on the machine where it was run."""
    words = shlex.split(command)
    for i, word in enumerate(words[:-1]):
        if word == "--out" and Path(words[i + 1]).is_absolute():
            words[i + 1] = f"studies/{Path(words[i + 1]).name}"
    return shlex.join(words)


def _from_here(source: str) -> str:
    """The file of a study by its name in the folder where one publishes, if it is below that: a repository, say."""
    path, colon, thing = source.rpartition(":")
    here = Path.cwd()
    inside = path.endswith(".py") and Path(path).is_relative_to(here)
    return f"{Path(path).relative_to(here).as_posix()}{colon}{thing}" if inside else source


# --- the files ---------------------------------------------------------------------------------------------------


def _tables(telling: Telling) -> dict[str, tuple[str, str]]:
    """Every table by the name of its file: what it holds, and what that is."""
    study, read = telling.study, telling.read
    tables = {
        "claims.csv": (csv_tables.claims(telling.judged), "every claim: verdict, effect, interval, what counts"),
        "runs.csv": (
            csv_tables.runs(study, telling.records),
            "every point: mean and standard deviation (sd) over seeds, accuracies in percent",
        ),
    }
    for comparison in study.compare:
        title = f"{comparison.measure} against {comparison.against}"
        _add(tables, title, csv_tables.compared(read, comparison), _compared(comparison))
    for name, printed in study.paper.tables.items():
        _add(tables, name, csv_tables.paper_table(read, printed, telling.about.data), f"{name}: ours, then as printed")
    return tables


def _compared(comparison: Comparison) -> str:
    return f"{measure(comparison.measure).title} less that of {comparison.against}, seed by seed"


def _add(tables: dict[str, tuple[str, str]], title: str, written: str, about: str) -> None:
    name = file_name(title)
    while f"{name}.csv" in tables:
        name += "-more"
    tables[f"{name}.csv"] = (written, about)


def _pictures(drawn: Sequence[Drawn]) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        paths = [figures.draw(each.chart, Path(folder) / f"{each.name}.png", dpi=DPI) for each in drawn]
        return {path.name: path.read_bytes() for path in paths}


def _records(telling: Telling) -> dict[str, bytes]:
    """What the claims can be judged by again, and the study can go on from: as the page has read it, not as it is."""
    stored = {
        RECORDS: as_lines(telling.records.planned),
        execute.ABOUT: json.dumps(telling.about.as_dict(), indent=1, ensure_ascii=False) + "\n",
    }
    if telling.looks.looks:
        stored[LOOKS] = telling.looks.as_json()
    return {name: text.encode(errors="backslashreplace") for name, text in stored.items()}


def _list_of(contents: Mapping[str, bytes]) -> str:
    return f"<!-- Made by isotherm, written anew with: {', '.join(sorted(contents))} -->"


def _replace(contents: Mapping[str, bytes], folder: Path) -> None:
    """Write what is new, take away what was published before and is no more, touch nothing else."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; --publish names a folder.")
    former = _published_before(folder)
    strangers = [n for n, new in contents.items() if n not in former and _differs(folder / n, new)]
    if strangers:
        raise ValueError(
            f"{folder} has files that `isotherm report --publish` did not write and would replace: "
            f"{', '.join(strangers)}. Move them away, or name another folder."
        )
    folder.mkdir(parents=True, exist_ok=True)
    for name, new in contents.items():
        if not (folder / name).exists() or _differs(folder / name, new):
            files.write_bytes(folder / name, new)
    for name in former - contents.keys():
        (folder / name).unlink(missing_ok=True)


def _published_before(folder: Path) -> set[str]:
    """The files that an earlier page lists, and the page; nothing where there is none of ours."""
    page = folder / PAGE
    listed = OURS.findall(page.read_text(encoding="utf-8", errors="replace")) if page.is_file() else []
    names = {name for name in ", ".join(listed[-1:]).split(", ") if re.fullmatch(r"[a-z0-9][a-z0-9.-]*", name)}
    return {PAGE, *names} if listed else set()


def _differs(path: Path, new: bytes) -> bool:
    return path.exists() and (not path.is_file() or path.read_bytes() != new)


# --- the page ----------------------------------------------------------------------------------------------------


def _page(telling: Telling, tables: Mapping[str, str]) -> list[str]:
    """The page as lines, without its end; `tables` are files and what they hold."""
    parts = [
        [f"# {text(telling.study.question)}"],
        _summary(telling.judged),
        _commands(telling),
        _facts(telling),
        *_claims(telling),
        *_more_figures(telling),
        *_looks(telling),
        ["## Tables"],
        [f"- {link(name, name)}: {text(about)}" for name, about in tables.items()],
        *_excerpt(telling),
        *_paper(telling),
        *_notes(telling),
    ]
    return [line for part in parts if part for line in ("", *part)][1:]


def _summary(judged: Sequence[Judged]) -> list[str]:
    if not judged:
        return []
    counted = ", ".join(f"{n} {outcome}" for outcome, n in count(judged).items())
    return [f"**{counted}.** {by_chance(judged)}".strip()]


def _commands(telling: Telling) -> list[str]:
    seconds = sum(r.seconds for r in report.distinct(telling.records))
    inside = [str(i) for i, each in enumerate(telling.judged, 1) if not each.claim.measures]
    except_for = f", but for claims that look into the runs themselves: {', '.join(inside)}" if inside else ""
    lines = [
        f"# {duration(seconds)} of training in all",
        telling.about.command,
        f"# these verdicts again, from the records beside this page{except_for}",
        telling.about.report_from(telling.place),
    ]
    return block("\n".join(lines), "sh")


def _facts(telling: Telling) -> list[str]:
    """When, how many, on what, with what, judged by what."""
    about, runs = telling.about, report.distinct(telling.records)
    seeds = {where.label: len({r.seed for r in telling.records.at(where)}) for where in csv_tables.points(telling.read)}
    few, many = min(seeds.values(), default=0), max(seeds.values(), default=0)
    size = telling.study.scales.get(about.scale)
    versions = sorted({tuple(sorted(r.versions.items())) for r in runs if r.versions})
    prints = sorted({r.fingerprint for r in runs if r.fingerprint})
    lines = [
        f"{report.standing(telling.records)}, {few if few == many else f'{few} to {many}'} seed{'s' * (many != 1)} per "
        f"point; last record of {about.recorded}",
        f"Scale {text(about.scale)}{f': {text(size.about)}' if size and size.about else ''}",
        f"Data {text(about.data)}" + (f", fingerprint {', '.join(map(code, prints))}" if prints else ""),
        *("Made by " + text(", ".join(f"{k} {v}" for k, v in each)) for each in versions),
        *_design(telling),
    ]
    return [f"- {line}" for line in lines]


def _design(telling: Telling) -> Iterable[str]:
    design, first = telling.design, telling.about.design
    if design is None:
        return
    changed = ", with changes that are not committed" if design.changed else ""
    if first and same_since(file_of(telling.study), first):
        yield f"Designed in commit {code(first)}, before its first run, and not changed since: {code(design.file)}"
        return
    if first:
        command = code(f"git diff {first} {design.commit} -- {design.file}")
        yield f"Designed in commit {code(first)}, before its first run; what has changed in its file since: {command}"
    yield f"Judged by the design of commit {code(design.commit)} ({design.day}), {code(design.file)}{changed}"


def _claims(telling: Telling) -> list[list[str]]:
    """Every claim: its verdict, where the paper says it, a sentence, the figure that shows it, all that it says."""
    if not telling.judged:
        return []
    parts, shown = [["## Claims"], [RULES]], dict[str, int]()
    for i, each in enumerate(telling.judged, 1):
        label = report.LABELS[each.verdict.outcome][1]
        parts.append([f'<a id="claim-{i}"></a>'])  # to be linked to whatever its verdict becomes
        parts.append([f"### {i}. {label}: {text(each.claim.claim)}"])
        parts.append([f"*{text(each.claim.paper)}.* {text(sentence(each.verdict))}"])
        charts = charts_of(each.claim, telling.drawn)
        new = [chart for chart in charts if chart.name not in shown]
        if new:
            parts.append(images(_titles(new)))
        elif charts:
            parts.append([f"Figure: at claim {shown[charts[0].name]}."])
        shown |= {chart.name: i for chart in new}
        parts.append(_all_that_it_says(each))
    return parts


def _titles(drawn: Sequence[Drawn]) -> list[tuple[str, str]]:
    return [(f"{each.name}.png", each.chart.title) for each in drawn]


def _all_that_it_says(each: Judged) -> list[str]:
    seeds = [by_seed(part) for part in each.verdict.parts]
    said = details(each.verdict, each.claim.measures)
    rows = [[*row, seeds[i] if i < len(seeds) else ""] for i, row in enumerate(said)]
    return folded("all that it says, by seed", table(["", "found", "by seed"], rows)) if rows else []


def _more_figures(telling: Telling) -> list[list[str]]:
    """Those that carry the paper's message and belong to no claim."""
    shown = {chart.name for each in telling.judged for chart in charts_of(each.claim, telling.drawn)}
    left = [each for each in telling.drawn if each.name not in shown]
    pictures = [*_titles(left), *telling.kept.items()]
    return [["## More figures"], images(pictures)] if pictures else []


def _looks(telling: Telling) -> list[list[str]]:
    """How each verdict came, by the numbers of the claims."""
    looks = telling.looks.looks
    if not looks:
        return []
    numbers = {each.claim.claim: f"{i}" for i, each in enumerate(telling.judged, 1)}
    rows = [[numbers[claim], *verdicts] for claim, *verdicts in history(looks) if claim in numbers]
    heads = ["claim", *(f"after {look.runs} runs" for look in looks)]
    return [folded("how the verdicts came: seeds were added where they decide most", table(heads, rows))]


def _excerpt(telling: Telling) -> list[list[str]]:
    """The paper's first table: ours, and what is printed for the same data, else what is printed first."""
    for name, printed in telling.study.paper.tables.items():
        ours = result_tables.ours(telling.read, printed, telling.about.data)
        rows = [*ours, *_same_data(printed, telling.about.data)]
        return [[f"{text(name)}, ours and as printed:"], table(printed.heads, rows)]
    return []


def _same_data(printed: PaperTable, data: str) -> list[list[Any]]:
    rows = printed.rows
    starts = [i for i, row in enumerate(rows) if row[0]] or [0]
    start = next((i for i in starts if _letters(str(rows[i][0])) == _letters(data)), starts[0])
    return [rows[start], *takewhile(lambda row: not row[0], rows[start + 1 :])] if rows else []


def _letters(name: str) -> str:
    """CIFAR-10 is cifar10."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _paper(telling: Telling) -> list[list[str]]:
    paper = telling.study.paper
    if not paper.title and not paper.differs:
        return []
    said = [f"{link(paper.title, paper.address)}. {text(paper.differs)}".lstrip(". ").strip()]
    instead = report.in_place(instead_at(telling.study, telling.about.scale))
    return [["## What differs from the paper"], said, *([text(note)] for note in instead)]


def _notes(telling: Telling) -> list[list[str]]:
    """Runs that are missing or said something against themselves."""
    absent = [text(line) for line in _absent(telling.records)]
    told = [text(note) for note in report.cautions(telling.records)]
    parts = [_openly_or_folded(absent, "points lack runs"), _openly_or_folded(told, "remarks about runs")]
    return [["## Notes"], *parts] if any(parts) else []


def _absent(records: Records) -> list[str]:
    """Points that lack runs, with the seeds and what became of them."""
    seeds: dict[tuple[str, str], set[int]] = {}
    for record in records.planned:
        if not record.finished:
            seeds.setdefault((Where(record.arm, record.varied).label, record.lack), set()).add(record.seed)
    return [
        f"{point}, seed{'s' * (len(which) > 1)} {', '.join(map(str, sorted(which)))}: {why}"
        for (point, why), which in seeds.items()
    ]


def _openly_or_folded(sentences: Sequence[str], what: str) -> list[str]:
    lines = [f"- {each}" for each in sentences]
    return lines if len(lines) <= FEW else folded(f"{len(lines)} {what}", lines)
