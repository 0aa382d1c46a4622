"""The measures of an encoder of sentences: STS, SentEval's transfer tasks, and what it was before it was trained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from isotherm.measures.measure import Measure, as_measure

SIMILARITY = {
    "sts": ("mean of the STS tasks", "Mean of the seven STS tasks (Spearman)."),
    **{f"sts{year}": (f"STS{year}", f"STS{year} (Spearman).") for year in range(12, 17)},
    "stsb": ("STS-B", "STS-B, test part (Spearman)."),
    "sickr": ("SICK-R", "SICK-R, test part (Spearman)."),
}
TRANSFER = {
    "transfer": ("mean of the transfer tasks", "Mean accuracy of SentEval's seven transfer tasks."),
    **{
        name.lower().replace("-", ""): (name, f"Accuracy on SentEval's {name}.")
        for name in ("MR", "CR", "SUBJ", "MPQA", "SST-2", "TREC", "MRPC")
    },
}


def _score(name: str, title: str, meaning: str, of: Callable[[Any], float | None], group: str) -> Measure:
    return Measure(name, title, meaning, of, (group,), ("sentences",), unit="%", better="higher")


def _similarity(name: str) -> Measure:
    return _score(name, *SIMILARITY[name], lambda s: s.similarity.get(name), "similarity")


def _transfer(name: str) -> Measure:
    return _score(name, *TRANSFER[name], lambda s: s.transfer.get(name), "transfer")


STS, STS12, STS13, STS14, STS15, STS16, STSB, SICKR = map(_similarity, SIMILARITY)


@as_measure("alignment", ("sphere",), needs=("sentences",), better="lower", monitor=True)
def stsb_alignment(subject: Any) -> Any:
    """Mean squared distance of STS-B pairs (dev) that people scored above 4."""
    return subject.seen.get("stsb_alignment")


@as_measure("uniformity", ("sphere",), needs=("sentences",), sign=-1, better="lower", monitor=True)
def stsb_uniformity(subject: Any) -> Any:
    """Uniformity of STS-B's sentences (dev)."""
    return subject.seen.get("stsb_uniformity")


@as_measure("STS-B dev", ("before",), needs=("sentences",), unit="%", better="higher", monitor=True)
def stsb_dev(subject: Any) -> Any:
    """STS-B, dev part (Spearman)."""
    return subject.seen.get("stsb_dev")


STSB_UNTRAINED = _score(
    "stsb_untrained", "STS-B dev, untrained", "The same before the first step.", lambda s: s.before[0], "before"
)
STSB_WORDS = _score(
    "stsb_words",
    "STS-B dev, word vectors",
    "The same of the mean of the trained word embeddings.",
    lambda s: s.before[1],
    "before",
)
STSB_WORDS_UNTRAINED = _score(
    "stsb_words_untrained",
    "STS-B dev, untrained word vectors",
    "The same of the mean of the untrained word embeddings.",
    lambda s: s.before[2],
    "before",
)
MEAN_TRANSFER, MR, CR, SUBJ, MPQA, SST2, TREC, MRPC = map(_transfer, TRANSFER)
