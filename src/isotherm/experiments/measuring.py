"""What is measured of every run of a study, once its training is over: groups of measures, which a study chooses."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isotherm import files, measures
from isotherm.data.images import Images
from isotherm.data.probing import DIGIT, RANDBIT
from isotherm.data.sentences import is_text
from isotherm.data.sets import load
from isotherm.experiments import measuring_sentences as text
from isotherm.experiments.measuring_sentences import TrainedText
from isotherm.experiments.records import EMBEDDING
from isotherm.experiments.study import USUAL
from isotherm.methods import Network
from isotherm.probes.extract import features_of
from isotherm.probes.knn import knn
from isotherm.probes.linear import linear
from isotherm.train import build, runs
from isotherm.train.config import Config, Runtime
from isotherm.train.loop import train
from isotherm.train.modality.images import ImageModality, images_of
from isotherm.train.monitor import geometry, labelled, neighbours, some, two_views

MEASURED = "measured.json"
FAILURE = "failure.txt"
SAMPLE = 2000
"""Test images whose geometry is measured."""
KEPT = 1000
"""Embeddings kept for maps and histograms."""
NEAREST = 10
EDGES = np.linspace(-1, 1, 81)
"""Bins of similarity."""
PROJECTED = np.linspace(-4, 4, 65)
"""Bins of a projection, in units of the spread it has when the embedding is even."""
PROBED_BITS = 4
"""Of the bits that were added, so many are probed."""


class Trained:
    """A finished run, and what several measures need of it, made once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run = runs.open_run(folder)
        self.test: Images = self.run.images if self.run.test is None else self.run.test
        # SmallAlexNet ends in its own embedding; the papers probe the layer before (CACR app. C.1)
        self.layer = "fc7" if self.run.config.encoder["name"] == "small_alexnet" else None
        both = labelled(self.run.images) and labelled(self.test)
        self.labelled = self.run.test is not None and both and len(self.run.images.labels.unique()) > 1

    @cached_property
    def bank(self) -> Tensor:
        """Features of what was learnt from."""
        return features_of(self.run.network.encoder, self.run.images, self.run.recipe, layer=self.layer)

    @cached_property
    def queries(self) -> Tensor:
        """Features of the test images."""
        return features_of(self.run.network.encoder, self.test, self.run.recipe, layer=self.layer)

    @cached_property
    def sample(self) -> Images:
        return some(self.test, SAMPLE, 0)

    @cached_property
    def views(self) -> tuple[Tensor, Tensor]:
        """Embeddings of two views of the sample."""
        return _two_views(self, self.run.network)

    @cached_property
    def embeddings(self) -> Tensor:
        """Of the sample as it is."""
        return features_of(self.run.network, self.sample, self.run.recipe)


def _two_views(trained: Trained, network: Network) -> tuple[Tensor, Tensor]:
    recipe = trained.run.recipe
    if len(recipe.views) == 1:  # a bank compares one view; alignment and local separation need two
        recipe = replace(recipe, views=recipe.views * 2)
    return two_views(network, trained.sample, recipe)


def probes(t: Trained) -> dict[str, Any]:
    if not t.labelled:
        return {}
    known = torch.isin(t.test.labels, t.run.images.labels)  # an imbalance may have emptied a class: never found
    found = linear(t.bank, t.run.images.labels, t.queries[known], t.test.labels[known], seed=0).accuracy
    return {
        "knn": neighbours(t.bank, t.run.images.labels, t.queries, t.test.labels),
        "linear": found * float(known.float().mean()),
    }


def nearest(t: Trained) -> dict[str, Any]:
    if not t.labelled:
        return {}
    known = torch.isin(t.test.labels, t.run.images.labels)
    found = knn(t.bank, t.run.images.labels, t.queries[known], t.test.labels[known], ks=(1, 10))
    part = float(known.float().mean())
    return {"knn1": found[1].accuracy * part, "knn10": found[10].accuracy * part}


def whole(t: Trained) -> dict[str, Any]:
    if not t.labelled:
        return {}
    config = t.run.config
    even = images_of(replace(config, imbalance="none"), config.split)
    bank = (
        t.bank if config.imbalance == "none" else features_of(t.run.network.encoder, even, t.run.recipe, layer=t.layer)
    )
    return {"linear_whole": linear(bank, even.labels, t.queries, t.test.labels, seed=0).accuracy}


def shape(t: Trained) -> dict[str, Any]:
    found: dict[str, Any] = geometry(t.run.network, t.sample, t.run.recipe, seed=0)
    if "uniformity" in found:
        found["alignment"] = measures.alignment(*t.views)
    return found


def separation(t: Trained) -> dict[str, Any]:
    if len(t.sample) < 2:
        return {}
    positive, others = measures.local_separation(*t.views, min(NEAREST, len(t.sample) - 1))
    mean = float(others.mean())
    return {
        "positive_similarity": positive,
        "nearest_negative": mean,
        "separation": positive - mean,
        "nearest_negatives": [float(v) for v in others],
    }


def classes(t: Trained) -> dict[str, Any]:
    if not labelled(t.sample):
        return {}
    return {
        "interclass_uniformity": measures.interclass_uniformity(t.embeddings, t.sample.labels),
        "class_alignment": 2 - 2 * measures.tolerance(t.embeddings, t.sample.labels),
    }


def gaussian(t: Trained) -> dict[str, Any]:
    seen = measures.projections(t.embeddings, count=1, seed=0)[0] * t.embeddings.shape[1] ** 0.5
    counts, _ = np.histogram(seen.numpy(), bins=PROJECTED, density=True)
    return {"prior_distance": measures.prior_distance(t.embeddings), "projection": [float(c) for c in counts]}


def competing(t: Trained) -> dict[str, Any]:
    """Probes of the other feature: the digit that was pasted, the bits that were added."""
    mine, theirs = t.run.images.more_labels, t.test.more_labels
    found: dict[str, Any] = {}
    if DIGIT in mine and int(mine[DIGIT].min()) >= 0:  # however few were learnt from, the probe is taught on all
        config = t.run.config
        taught = images_of(replace(config, digits=len(load("digits"))), config.split)
        bank = features_of(t.run.network.encoder, taught, t.run.recipe, layer=t.layer)
        found["linear_digit"] = linear(bank, taught.more_labels[DIGIT], t.queries, theirs[DIGIT], seed=0).accuracy
    if t.run.images.bits:
        each = []
        for b in range(min(PROBED_BITS, t.run.images.bits)):
            ours, others = ((labels[RANDBIT] >> b) & 1 for labels in (mine, theirs))
            each.append(linear(t.bank, ours, t.queries, others, seed=0).accuracy)
        found["linear_bits"] = float(np.mean(each))
    return found


def pairs(t: Trained) -> dict[str, Any]:
    """How similar pairs are, before the first step and after the last."""
    torch.manual_seed(t.run.config.seed)
    untrained, _ = build.networks(t.run.config, ImageModality(t.run.config, t.run.images, t.run.recipe).encoder())
    found: dict[str, Any] = {}
    for when, (a, b) in {"before": _two_views(t, untrained), "after": t.views}.items():
        found[f"pairs_{when}"] = {
            name: [float(v) for v in np.histogram(s, bins=EDGES, density=True)[0]]
            for name, s in similarities_by_kind(a, b, t.sample.labels).items()
        }
    return found


def similarities_by_kind(a: Tensor, b: Tensor, labels: Tensor) -> dict[str, Any]:
    """Two views of one item; two items of one class; two items of two classes (DySTreSS, fig. 1)."""
    a, b = (torch.nn.functional.normalize(z.double(), dim=1) for z in (a, b))
    s = a @ b.T
    alike = labels[:, None] == labels[None]
    itself = torch.eye(len(s), dtype=torch.bool)
    kinds = {"true positive": itself, "false negative": alike & ~itself, "true negative": ~alike}
    return {name: s[mask].clamp(-1, 1).numpy() for name, mask in kinds.items() if mask.any()}


def objective(t: Trained | TrainedText) -> dict[str, Any]:
    lines = [json.loads(line) for line in (t.folder / runs.METRICS).read_text().splitlines()]
    losses = [line["loss_mean"] for line in lines if line.get("loss_mean") is not None]
    return {"loss": losses[-1]} if losses else {}


def cost(t: Trained | TrainedText) -> dict[str, Any]:
    result = runs.read_result(t.folder)
    return {"step_seconds": result["seconds"] / max(1, result["steps"])}


@dataclass(frozen=True)
class Group:
    """Measures that are taken together: their names and what they are, and how."""

    names: Mapping[str, str]
    take: Callable[[Any], dict[str, Any]]
    """Of a `Trained`; of a `TrainedText` where it is about sentences."""


GROUPS = {
    "probes": Group(
        {
            "knn": "kNN accuracy of the features (k = 20)",
            "linear": "accuracy of the exact linear probe of the features",
        },
        probes,
    ),
    "nearest": Group({"knn1": "accuracy of the nearest neighbour", "knn10": "of the ten nearest"}, nearest),
    "whole": Group(
        {"linear_whole": "the linear probe, taught with as many images of every class whatever was learnt from"},
        whole,
    ),
    "geometry": Group(
        {
            "uniformity": "log E exp(−2d) of the embedding; the papers plot its negative",
            "tolerance": "mean similarity of two items of one class",
            "alignment": "mean squared distance of two views",
            "effective_rank": "directions the embedding uses",
            "conditional_entropy": "H(X⁻|X) of CACR's repulsion (t⁻ = 2) over at most 2,000 items, nats",
        },
        shape,
    ),
    "separation": Group(
        {
            "positive_similarity": "mean similarity of two views",
            "nearest_negative": "mean similarity to the ten nearest other items",
            "separation": "positive similarity less that of the nearest other items",
        },
        separation,
    ),
    "classes": Group(
        {
            "interclass_uniformity": "uniformity of the classes' centroids",
            "class_alignment": "mean squared distance of two items of one class (DySTreSS's alignment)",
        },
        classes,
    ),
    "gaussian": Group(
        {"prior_distance": "distance of random projections of the embedding from a Gaussian's"}, gaussian
    ),
    "competing": Group(
        {
            "linear_digit": "linear probe of the digit that was pasted, taught on images with all digits",
            "linear_bits": "linear probe of a bit that was added, mean over the first four",
        },
        competing,
    ),
    "objective": Group({"loss": "mean of the loss over the last epoch"}, objective),
    "cost": Group({"step_seconds": "seconds per step, among the other runs of the study"}, cost),
    "pairs": Group({}, pairs),
    "similarity": Group(
        {
            "sts": "mean of the seven STS tasks (Spearman)",
            **{f"sts{year}": f"STS{year}" for year in range(12, 17)},
            "stsb": "STS-B, test part",
            "sickr": "SICK-R, test part",
        },
        text.similarity,
    ),
    "sphere": Group(
        {
            "stsb_alignment": "mean squared distance of STS-B pairs (dev) that people scored above 4",
            "stsb_uniformity": "uniformity of STS-B's sentences (dev)",
            "effective_rank": "directions the embedding of 2,000 sentences of the corpus uses",
        },
        text.sphere,
    ),
    "before": Group(
        {
            "stsb_dev": "STS-B, dev part",
            "stsb_untrained": "the same before the first step",
            "stsb_words": "the same of the mean of the trained word embeddings",
            "stsb_words_untrained": "the same of the mean of the untrained word embeddings",
        },
        text.before,
    ),
    "transfer": Group(
        {
            "transfer": "mean accuracy of SentEval's seven transfer tasks",
            **{name: name.upper() for name in ("mr", "cr", "subj", "mpqa", "sst2", "trec", "mrpc")},
        },
        text.classified,
    ),
}
"""Every group by its name."""
OF_SENTENCES = ("similarity", "sphere", "before", "transfer")
OF_BOTH = ("objective", "cost")
"""The groups about runs on sentences, and those about any run; the others are about images."""
PERCENT = (
    *("knn", "linear", "knn1", "knn10", "linear_whole", "linear_digit", "linear_bits"),
    *GROUPS["similarity"].names,
    *GROUPS["before"].names,
    *GROUPS["transfer"].names,
)
"""Measures that are told in percent."""


def described(groups: Sequence[str] = tuple(GROUPS)) -> dict[str, str]:
    """The measures of these groups, and what each is."""
    return {name: what for group in groups for name, what in GROUPS[group].names.items()}


def done(folder: Path, groups: Sequence[str] = ()) -> dict[str, Any] | None:
    """What a finished run has in its folder, if these groups are among it."""
    try:
        found = json.loads((folder / MEASURED).read_text())
    except (OSError, ValueError):  # not there, or damaged: measured again
        return None
    whole = isinstance(found, dict) and {"measures", "groups", "seconds"} <= found.keys()
    return found if whole and set(groups) <= set(found["groups"]) and (folder / EMBEDDING).exists() else None


def carry_out(
    config: Config, folder: Path, groups: Sequence[str] = USUAL, checkpoint_seconds: float = 20.0
) -> dict[str, Any]:
    """Train a run, from its last checkpoint if it has one, and measure it."""
    found = done(folder, groups)
    if found is not None:
        return found
    discard_damaged(folder)
    result = train(config, Runtime(out=folder, resume=True, quiet=True, checkpoint=checkpoint_seconds))
    found = {
        "measures": measure(folder, groups),
        "groups": list(groups),
        "seconds": result["seconds"],
        "versions": result["versions"],
    }
    files.write_json(folder / MEASURED, found)
    for name in (runs.BEST, FAILURE):
        (folder / name).unlink(missing_ok=True)
    return found


def discard_damaged(folder: Path) -> None:
    """Throw away what cannot be read of a run, so that it is done again."""
    readers: dict[str, Callable[[Path], Any]] = {runs.CHECKPOINT: runs.last_checkpoint, runs.RESULT: runs.read_result}
    for name, read in readers.items():
        try:
            if (folder / name).exists():
                read(folder)
        except (ValueError, RuntimeError, OSError, EOFError, UnpicklingError):
            (folder / name).unlink()


def opened(folder: Path) -> Trained | TrainedText:
    return TrainedText(folder) if is_text(str(runs.read_config(folder)["data"])) else Trained(folder)


def measure(folder: Path, groups: Sequence[str] = USUAL) -> dict[str, Any]:
    """What these groups say of a run; a part of its embeddings is kept beside."""
    trained = opened(folder)
    about_text = isinstance(trained, TrainedText)
    for group in groups:
        if group not in OF_BOTH and (group in OF_SENTENCES) != about_text:
            raise ValueError(f"'{group}' is not measured of {'sentences' if about_text else 'images'}.")
    found: dict[str, Any] = {}
    for group in groups:
        found |= GROUPS[group].take(trained)
    if isinstance(trained, TrainedText):
        rows = trained.encode(trained.sentences[:KEPT]).numpy().astype(np.float16)
        labels = np.full(len(rows), -1)
    else:
        kept = some(trained.sample, KEPT, 0)
        rows = features_of(trained.run.network, kept, trained.run.recipe).numpy().astype(np.float16)
        labels = kept.labels.numpy()
    files.write_whole(folder / EMBEDDING, lambda file: np.savez(file, z=rows, labels=labels))
    return found
