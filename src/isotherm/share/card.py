"""README.md of a shared model: the hub's head in YAML, and what somebody should know before using it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from isotherm.measures.catalogue import measure
from isotherm.report.markdown import block, folded, table, text
from isotherm.share.facts import ON_THE_HUB, Facts, Spread, public

PICTURE = "map.png"
TASKS = {
    "images": "image-feature-extraction",
    "sentences": "sentence-similarity",
    "pairs": "zero-shot-image-classification",
}


@dataclass(frozen=True)
class Told:
    """What only whoever pushes knows, and what was found while pushing."""

    name: str
    noun: str
    """What it learnt from: images, sentences, pairs."""
    library: str
    width: int
    license: str | None = None
    picture: str = ""
    """What the picture shows; empty: there is none."""


def card(facts: Facts, told: Told) -> str:
    """The whole README.md."""
    head = yaml.safe_dump(_head(facts, told), sort_keys=False, allow_unicode=True)
    config = facts.config
    what = "image and text towers" if told.noun == "pairs" else f"an encoder of {told.noun}"
    lines = [
        f"# {text(told.name)}",
        "",
        text(
            f"{what[0].upper()}{what[1:]} ({public(config.encoder.name)}, {told.width} features), trained with "
            f"{config.method.name}{f' and {config.loss.name}' if config.loss else ''} on {public(config.data)} by "
            "Isotherm, the workbench for contrastive representation learning."
        ),
        "",
        *_warnings(facts),
        *([f"![{text(told.picture)}]({PICTURE})", "", f"*{text(told.picture)}*", ""] if told.picture else []),
        "## Use",
        "",
        *_use(told),
        "## How it was trained",
        "",
        *block(facts.command, "sh"),
        "",
        *folded("All settings", block(yaml.safe_dump(public(config.as_dict()), sort_keys=False), "yaml")),
        "",
        *_measures(facts),
        *_claims(facts),
        *_provenance(facts),
    ]
    return f"---\n{head}---\n\n" + "\n".join(lines).rstrip() + "\n"


def _head(facts: Facts, told: Told) -> dict[str, Any]:
    config = facts.config
    head: dict[str, Any] = {"library_name": told.library, "pipeline_tag": TASKS[told.noun]}
    if told.license:
        head["license"] = told.license
    tags = ["isotherm", "contrastive-learning", config.method.name]
    head["tags"] = [*tags, *([config.loss.name] if config.loss else []), "feature-extraction"]
    if config.data in ON_THE_HUB:
        head["datasets"] = [ON_THE_HUB[config.data]]
    if facts.measures:
        metrics = [
            {"type": name, "name": measure(name).title, "value": float(value)} for name, value in facts.measures.items()
        ]
        data = str(public(config.data))
        kind = ON_THE_HUB.get(data, data)
        results = {"task": {"type": TASKS[told.noun]}, "dataset": {"name": data, "type": kind}, "metrics": metrics}
        head["model-index"] = [{"name": told.name, "results": [results]}]
    return head


def _warnings(facts: Facts) -> list[str]:
    said = [] if facts.result is None else list(facts.result.warnings)
    said += [f"warning: {facts.unfinished}"] if facts.unfinished else []
    return [f"> **{text(line)}**\n" for line in said]


def _use(told: Told) -> list[str]:
    code = [f'import isotherm\n\nencoder = isotherm.load_encoder("{told.name}")  # the folder of this card']
    if told.library == "sentence-transformers":
        code.append(
            "from sentence_transformers import SentenceTransformer\n\n"
            f'embeddings = SentenceTransformer("{told.name}").encode(["a sentence"])'
        )
    if told.library == "timm":
        code.append(
            "import timm\n\n"
            f'encoder = timm.create_model("local-dir:{told.name}", pretrained=True).eval()  # or hf-hub:…'
        )
    lines = []
    for each in code:
        lines += [*block(each, "python"), ""]
    if told.noun == "pairs":
        lines += ["That is the image tower; USE.md has the code that embeds images and texts in one space.", ""]
    if told.noun == "images":
        lines += ["Images are float32 from 0 to 1, normalized as config.json says under isotherm.normalize.", ""]
    return lines


def _measures(facts: Facts) -> list[str]:
    if not facts.measures:
        return []
    spreads = facts.spreads or {}
    heads = ["measure", "this run", *(["over seeds, 95 %"] if spreads else []), "what it means"]
    rows = []
    for name, value in facts.measures.items():
        about = measure(name)
        more = [_spread(name, spreads.get(name))] if spreads else []
        rows.append([about.heading, about.text(value), *more, about.meaning])
    return ["## Measures", "", *table(heads, rows), ""]


def _spread(name: str, spread: Spread | None) -> str:
    if spread is None:
        return ""
    about = measure(name)
    low, high = sorted((spread.low, spread.high), key=lambda v: about.factor * v)
    return f"{about.text(spread.mean)} ({about.text(low)} to {about.text(high)}, {spread.seeds} seeds)"


def _claims(facts: Facts) -> list[str]:
    if not facts.claims:
        return []
    made = f"It is one run of a study, `{text(facts.study)}`, which judged these claims on all its runs:"
    return ["## Claims of its study", "", made, "", *table(["claim", "paper", "verdict"], facts.claims), ""]


def _provenance(facts: Facts) -> list[str]:
    facts_said: Sequence[str] = []
    if facts.result is not None:
        result = facts.result
        versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
        facts_said = [
            f"Seed {result.seed}, {result.steps:,} steps in {result.seconds:,.0f} s; {versions}; key {result.key}.",
            *(note for note in result.notes if note not in result.warnings),
        ]
    if facts.licence_of_data:
        facts_said = [*facts_said, f"Terms of the data ({facts.config.data}): {facts.licence_of_data}."]
    return ["## Provenance", "", *(f"- {text(line)}" for line in facts_said)]
