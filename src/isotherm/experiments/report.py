"""The report of a study: one page with the question, the claims, the tables and figures, and how to do it again."""

from __future__ import annotations

import csv
import io
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

import isotherm
from isotherm import files
from isotherm.checks import FEWEST_SEEDS
from isotherm.experiments.claims.verdict import Outcome
from isotherm.experiments.csv_tables import as_cell
from isotherm.experiments.drawn import Drawn, charts_of, draw_figures
from isotherm.experiments.execute import About
from isotherm.experiments.judging import Judged, by_chance, count, judge
from isotherm.experiments.looks import Looks, history
from isotherm.experiments.points import at_scale, instead_at
from isotherm.experiments.records import Record, Records
from isotherm.experiments.result_tables import compared, narrowed, no_partners, ours, results
from isotherm.experiments.study import Settings, Study
from isotherm.experiments.wording import by_seed, details, duration, sentence
from isotherm.measures.catalogue import in_groups, measure
from isotherm.measures.measure import Level
from isotherm.report import Finding, Page, figures
from isotherm.report.markdown import code, table, text
from isotherm.screen import visible
from isotherm.train.layers import flat
from isotherm.train.result import WARNING

FAIR = (
    "Runs of one seed have the same data and first weights and, where batch and epochs are the same, the same "
    "order, views and number of steps; differences are taken seed by seed. The interval is the one by which claims are "
    "judged: Student's, wide with few seeds."
)
RULES = (
    "Each claim has an effect, its interval over seeds and the least "
    "effect that counts: held, if the effect counts and the interval excludes zero; contradicted, if the whole "
    "interval falls short of what counts; else undecided, with what would decide it. Looking again after more seeds is "
    "allowed for in the levels."
)
LABELS: Mapping[Outcome, tuple[Level, str]] = {
    "held": ("good", "✓ held"),
    "contradicted": ("bad", "✗ contradicted"),
    "undecided": ("look", "? undecided"),
}

Table = tuple[list[str], list[list[Any]]]
"""Heads and rows."""


def tell(study: Study, records: Records, folder: Path, about: About) -> list[Judged]:
    """Write claims.json, report.html, records.csv and the figures."""
    study, instead = at_scale(study, about.scale), instead_at(study, about.scale)
    read = records.reading(instead)
    judged, points = judge(study, read), results(study, records)
    files.write_json(folder / "claims.json", [each.as_dict() for each in judged])
    files.write_text(folder / "records.csv", visible(as_csv(records)))
    drawn = draw_figures(study.figures, read, [arm.name for arm in study.arms])
    for each in drawn:
        figures.draw(each.chart, folder / "figures" / f"{each.name}.png")
    page = Page(
        study.question,
        lead=f"Study {study.name}, scale {about.scale}, {about.data}: {standing(records)}.",
        kicker="Isotherm study",
        footer=f"isotherm {isotherm.__version__}, {date.today().isoformat()}",
        verdict=_verdict(records, judged),
    )
    shown = _show_headlines(page, study, drawn)
    lead = "What the paper found, judged on our records." if study.paper.title else ""
    shown += _show_claims(page, judged, drawn, shown, lead)
    _show_looks(page, Looks.of(folder))
    for note in in_place(instead):
        page.text(note)
    _show_missing(page, records)
    _show_figures(page, study, drawn, shown)
    _show_results(page, study, points, read)
    _show_paper(page, study, read, about.data)
    page.section("Again", "Everything on this page comes from these commands.")
    page.code(f"{about.command}\n{about.report_from(str(folder))}")
    _show_runs(page, study, records)
    page.write(folder / "report.html")
    files.write_text(folder / "report.md", visible(markdown(study, records, read, judged, about, points)))
    return judged


def in_place(instead: Mapping[str, str]) -> list[str]:
    """Which measures are read in place of others at this scale."""
    return [
        f"At this scale claims, comparisons, figures and the paper's tables read “{measure(other).title}” in place of "
        f"“{measure(name).title}”. {measure(other).meaning}"
        for name, other in instead.items()
    ]


def standing(records: Records) -> str:
    """How many runs were planned, and what became of them."""
    states = Counter(record.state for record in {r.key: r for r in records.planned}.values())
    if states["finished"] == states.total():
        return f"{states.total()} runs"
    others = {"failed": states["failed"], "not run": states["planned"]}
    parts = [f"{states['finished']} of {states.total()} runs finished", *(f"{n} {k}" for k, n in others.items() if n)]
    return ", ".join(parts)


def missing(records: Records) -> list[tuple[str, str]]:
    """Runs that were planned and are not there, and why."""
    return list({r.key: (r.name, r.lack) for r in records.planned if not r.finished}.values())


def notes(records: Records) -> list[str]:
    """What a reader should know of the runs, and of what is not here; of runs that warn of the same, how many."""
    runs, told = len(distinct(records)), []
    for kind, each in warned(records).items():
        told += each if len(each) == 1 else [f"{len(each)} of {runs} runs warn: {kind}."]
    return [*_of_several_versions(records), *told, *_of_unknown_data(records), *elsewhere(records)]


def warned(records: Records) -> dict[str, list[str]]:
    """What runs said against themselves, by what it is about: a warning's words before its numbers."""
    kinds: dict[str, list[str]] = {}
    for run in distinct(records):
        for warning in run.warnings:
            kind = warning.removeprefix(WARNING).partition(":")[0].rstrip(".")
            kinds.setdefault(kind, []).append(f"{run.name}: {warning}")
    return kinds


def cautions(records: Records) -> list[str]:
    """What a reader should know of the runs: several versions, collapses, data that is not known."""
    each = [f"{r.name}: {warning}" for r in distinct(records) for warning in r.warnings]
    return [*_of_several_versions(records), *each, *_of_unknown_data(records)]


def _of_several_versions(records: Records) -> list[str]:
    runs, sentences = distinct(records), []
    for name in ("isotherm", "torch"):
        made_by = Counter(str(r.versions.get(name, "not known")) for r in runs)
        if len(made_by) > 1:
            told = ", ".join(f"{version} ({count} runs)" for version, count in made_by.items())
            sentences.append(f"The runs were made by different versions of {name}: {told}.")
    return sentences


def _of_unknown_data(records: Records) -> list[str]:
    runs = distinct(records)
    unknown = sum(not r.fingerprint for r in runs)
    said = f"From which data {unknown} of {len(runs)} runs learnt is not known: an earlier version made them."
    return [said] if unknown else []


def elsewhere(records: Records) -> list[str]:
    """Which figures are not drawn because runs are elsewhere."""
    runs = distinct(records)
    absent = sum(not r.folder.exists() for r in runs)
    if not absent:
        return []
    return [
        f"Of {absent} of {len(runs)} runs only the records are here: figures that look into their folders "
        "(maps, embeddings, images) are not drawn; a page published before keeps those it has."
    ]


def verdicts_counted(judged: Sequence[Judged]) -> str:
    """How many claims came out how, in a sentence; none: nothing."""
    counted = [f"{n} {outcome}" for outcome, n in count(judged).items() if n]
    claims = "1 claim" if len(judged) == 1 else f"{len(judged)} claims"
    return f"Of {claims} {', '.join(counted)}." if judged else ""


def _verdict(records: Records, judged: Sequence[Judged]) -> Finding | None:
    """What came of the claims, in a line; where one seed decides none, that it is too few to conclude anything."""
    seeds = len({record.seed for record in records})
    if judged and seeds < FEWEST_SEEDS and all(each.verdict.outcome == "undecided" for each in judged):
        there = "one seed" if seeds == 1 else f"{seeds} seeds"
        return Finding("look", f"Too small to conclude anything: {there} per run. It shows that everything works.")
    counted = count(judged)
    level: Level = "good" if counted.get("held", 0) == len(judged) else "look"
    return Finding(level, verdicts_counted(judged)) if judged else None


def _show_missing(page: Page, records: Records) -> None:
    rows, told = missing(records), notes(records)
    if rows:
        page.section(
            "Runs that are missing", "A claim that needs one of them is undecided. The command below tries them again."
        )
        page.table(["run", "what became of it"], rows)
    for note in told:
        page.text(note)
    folded = [each for each in warned(records).values() if len(each) > 1]
    if folded:
        with page.fold("Runs that warn"):
            page.table(["warning"], [[warning] for each in folded for warning in each])


def _show_headlines(page: Page, study: Study, drawn: Sequence[Drawn]) -> list[Drawn]:
    """The page begins with what carries the paper's message; what is shown is told."""
    of_figures = [[each for each in drawn if each.figure is figure] for figure in study.figures if figure.headline]
    shown = [each for charts in of_figures for each in charts[:2]]
    page.figures(*(each.chart for each in shown))
    return shown


def _show_claims(
    page: Page, judged: Sequence[Judged], drawn: Sequence[Drawn], before: Sequence[Drawn], lead: str
) -> Sequence[Drawn]:
    """Every claim with the chart that shows it; which charts these are is told."""
    if not judged:
        return []
    shown: list[Drawn] = []
    page.section("Claims", f"{lead} {RULES} {by_chance(judged)}".strip())
    findings = []
    for each in judged:
        level, label = LABELS[each.verdict.outcome]
        title = f"{each.claim.claim} ({each.claim.paper})"
        charts = charts_of(each.claim, drawn)
        new = [chart for chart in charts if chart not in (*before, *shown)]
        shown += new
        above = "" if new or not charts else f" Above: {', '.join(chart.chart.title for chart in charts)}."
        why = sentence(each.verdict) + above
        findings.append(Finding(level, title, why, label, [chart.chart for chart in new]))
    page.findings(findings)
    with page.fold("All that each claim says, seed by seed"):
        for each in judged:
            rows = [[*row, ""] for row in details(each.verdict, each.claim.measures)]
            for row, part in zip(rows, each.verdict.parts, strict=False):
                row[2] = by_seed(part)
            page.table(["", "found", "by seed"], rows, caption=each.claim.claim)
    return shown


def _show_looks(page: Page, looks: Looks) -> None:
    """How each verdict came, where seeds were added until claims were decided."""
    if not looks.looks:
        return
    with page.fold("How the verdicts came"):
        page.text("After the grid seeds were added where they would decide the most claims per second.")
        heads = ["claim", *(f"after {look.runs} runs" for look in looks.looks)]
        page.table(heads, history(looks.looks))
        page.table(["after", "then"], [[f"{look.runs} runs", look.why] for look in looks.looks])


def _show_figures(page: Page, study: Study, drawn: Sequence[Drawn], shown: Sequence[Drawn]) -> None:
    """What has not been shown yet, and what the records have nothing for."""
    empty = [figure for figure in study.figures if all(each.figure is not figure for each in drawn)]
    left = [each for each in drawn if each not in shown]
    if left or empty:
        page.section("Figures" if not shown else "More figures")
    for figure in study.figures:
        charts = [each.chart for each in left if each.figure is figure]
        if charts:
            page.text(f"{figure.name} ({figure.paper})")
            page.figures(*charts)
        elif figure in empty:
            page.text(f"{figure.name} ({figure.paper}): the records have nothing to draw of it.")


def _show_results(page: Page, study: Study, results: Table, read: Records) -> None:
    page.section("Results", "Mean over seeds ± standard deviation; accuracies in percent; −uniformity as printed.")
    for part in narrowed(*results):
        page.table(*part)
    if study.compare:
        page.section("Compared", FAIR)
        for comparison in study.compare:
            caption = f"{measure(comparison.measure).title} against {comparison.against}"
            heads, rows = compared(read, comparison)
            if rows:
                page.table(heads, rows, caption=caption)
            else:
                page.text(f"{caption}: {no_partners(read, comparison)}")


def _show_paper(page: Page, study: Study, records: Records, data: str) -> None:
    about = f"{study.paper.title} ({study.paper.address}). {study.paper.differs}"
    if study.paper.tables:
        page.section("The paper's numbers", about)
        for name, table in study.paper.tables.items():
            both = [*ours(records, table, data), *table.rows]
            page.table(table.heads, both, caption=f"{name}: ours first, then as published")
    elif study.paper.differs:
        page.section("The paper", about)


def _show_runs(page: Page, study: Study, records: Records) -> None:
    runs, shared = distinct(records), common(records.planned)
    page.facts(
        [
            ("runs", len(runs), standing(records) if records.failed else ""),
            ("seeds", len({r.seed for r in records})),
            ("seconds of training", round(sum(r.seconds for r in runs)), "over all runs"),
            ("this machine", f"Python {platform.python_version()}", ", ".join(versions())),
        ]
    )
    with page.fold("Measures"):
        page.table(["measure", "what it is"], [[m.heading, m.meaning] for m in in_groups(study.measure)])
    with page.fold("Settings of every run"):
        page.text("Common to all:")
        page.code(yaml.safe_dump(shared, sort_keys=False, allow_unicode=True))
        heads = ["run", "key", "seed", "state", "seconds", "differs in"]
        page.table(heads, [row(r, shared) for r in records.planned])


def markdown(
    study: Study, records: Records, read: Records, judged: Sequence[Judged], about: About, results: Table
) -> str:
    """The claims and the results as text, for a repository."""
    lines = [f"# {text(study.question)}", "", code(about.command), ""]
    runs = distinct(records)
    lines += [
        f"{standing(records)}, {duration(sum(r.seconds for r in runs))} of training in all, on "
        f"{text(about.data)}, scale {text(about.scale)}. {text(study.paper.differs)}",
        "",
        *(f"- {text(f'{name} {why}')}" for name, why in missing(records)),
        *map(text, notes(records)),
        *map(text, in_place(instead_at(study, about.scale))),
        "",
    ]
    if judged:
        found = [[each.claim.claim, each.claim.paper, each.verdict.outcome, sentence(each.verdict)] for each in judged]
        lines += table(["claim", "paper", "", "evidence"], found)
    lines += ["", "Mean ± standard deviation over seeds; accuracies in percent.", ""]
    lines += table(*results)
    for comparison in study.compare:
        lines += ["", text(f"{measure(comparison.measure).title} against {comparison.against}. {FAIR}"), ""]
        columns, differing = compared(read, comparison)
        lines += table(columns, differing) if differing else [text(no_partners(read, comparison))]
    for name, printed in study.paper.tables.items():
        lines += ["", text(f"{name}, ours first, then as published:"), ""]
        lines += table(printed.heads, [*ours(read, printed, about.data), *printed.rows])
    return "\n".join(lines) + "\n"


def distinct(records: Records) -> list[Record]:
    """Each run once, though it may stand in two tables."""
    return list({r.key: r for r in records}.values())


def as_csv(records: Records) -> str:
    """One line per run."""
    varied = list(dict.fromkeys(k for r in records.planned for k in r.varied))
    taken = list(dict.fromkeys(k for r in records for k, v in r.measures.items() if not isinstance(v, list | dict)))
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(["arm", *map(as_cell, varied), "seed", "key", "state", "failure", "seconds", *map(as_cell, taken)])
    for r in records.planned:
        values = [r.varied.get(k, "") for k in varied]
        measured = [r.measures[k] if r.has(k) else "" for k in taken]
        cells = [r.arm, *values, r.seed, r.key, r.state, r.failure, r.seconds, *measured]
        writer.writerow([as_cell(cell) for cell in cells])
    return written.getvalue()


def common(records: Sequence[Record]) -> files.Json:
    """The settings all runs share."""
    if not records:
        return {}
    shared = flat(records[0].settings)
    for record in records[1:]:
        own = flat(record.settings)
        shared = {k: v for k, v in shared.items() if own.get(k) == v}
    return shared


def row(record: Record, shared: Settings) -> list[Any]:
    own = {k: v for k, v in flat(record.settings).items() if k not in shared and k != "seed"}
    differs = ", ".join(f"{k} {v}" for k, v in own.items())
    return [record.arm, record.key, record.seed, record.state, record.seconds, differs]


def versions() -> list[str]:
    return [f"isotherm {isotherm.__version__}", f"torch {torch.__version__}", f"numpy {np.__version__}"]
