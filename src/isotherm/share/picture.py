"""The picture of a card: a map of the run's embedding of the items it is judged on, as `isotherm inspect` draws it."""

from __future__ import annotations

from pathlib import Path

from isotherm.data.sentences import is_text
from isotherm.evaluate.embed import embed_set
from isotherm.evaluate.encode import open_embedder
from isotherm.experiments.records import EMBEDDING
from isotherm.inspect.page import map_of
from isotherm.inspect.reading import Embedding, of_arrays, read
from isotherm.report.figures import draw
from isotherm.train.config import Config

MOST = 1000
"""Items on the map."""


def draw_map(run: Path, config: Config, path: Path, layout: str) -> str:
    """Write the picture; what it shows. A ValueError says why there is none."""
    embedding, what = _embedding(run, config)
    chart = map_of(embedding, layout, 0)
    draw(chart, path)
    return f"{what}: {chart.title}"


def _embedding(run: Path, config: Config) -> tuple[Embedding, str]:
    """What a study kept of the run; else its test part (its training part, where there is none), where that is here."""
    if (run / EMBEDDING).exists():
        return read(run / EMBEDDING), "Test items"
    if config.randbit or config.digits:
        raise ValueError("the run's images are changed before it sees them")
    embedder = open_embedder(str(run))
    parts = ("train",) if is_text(config.data) else (config.test, config.split)
    for part in parts:
        try:
            result = embed_set(embedder, config.data, part, most=MOST)
        except (ValueError, FileNotFoundError):
            if part == parts[-1]:
                raise
            continue
        arrays = result.arrays()
        labels = arrays.get("labels")
        of = "sentences" if is_text(config.data) else f"{part} images"
        return of_arrays(arrays["embeddings"], labels, drop=True), of.capitalize()
    raise AssertionError("parts are never empty")
