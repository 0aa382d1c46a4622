"""How many negatives does each objective need? (CACR, Zheng et al., arXiv:2105.03746)

    isotherm study cacr-batch                       CIFAR-10, 1,500 steps a run: estimated at ¾ of an hour
    isotherm study cacr-batch --data cifar100       the same

CL, AU-CL, HN-CL, CACR (K = 1), CMC and CACR (K = 4) over batch sizes, the same for each of them (fig. 8). Expected:
CACR with four positives is ahead of all at every size; with one it needs a large batch.
"""

from dataclasses import replace

from isotherm.experiments.claims.rules import Ahead, AheadOfBest, Every
from isotherm.experiments.figures.plots import Against
from isotherm.experiments.papers import CACR
from isotherm.experiments.study import Arm, Claim, Figure, Rule, Scale, Study, Where
from isotherm.studies.cacr import (
    AU,
    BASE,
    C1,
    CIFAR,
    CL,
    CMC,
    CMC_BY_TAU,
    COUNTS,
    DIFFERS,
    EIGHTH,
    FOUR,
    HN,
    OBJECTIVES,
    ONE,
    TAU,
    TAUS,
    TINY,
    as_in_c1,
    of_data,
)

SMALLER, LARGER = 32, 128
"""At cpu scale."""
BATCHES = (SMALLER, 64, LARGER, 256, 512, 768)
"""From 64 on as in fig. 8."""
SLIGHTLY = 0.001
"""What the text says of one positive in the smallest batch."""
MEASURE = ("whole", "geometry", "cost")
ARMS = [
    *(Arm(name, settings, {"batch": BATCHES}) for name, settings in OBJECTIVES.items()),
    Arm(CMC_BY_TAU, OBJECTIVES[CMC], {TAU: TAUS, "batch": BATCHES}),  # one of two runs is the same
]
SCALES = {
    "smoke": Scale("seconds, to see that everything works", TINY, only={"batch": (64,)}),
    "cpu": Scale(
        "an eighth of the network, all images, 1,500 steps, two batch sizes; three seeds",
        {**EIGHTH, "monitor": 0},
        seeds=3,
        only={"batch": (SMALLER, LARGER)},
        data=CIFAR,
        adjust=of_data,
    ),
    "paper": Scale(
        "app. C.1: SmallAlexNet, 200 epochs; a GPU",
        C1,
        seeds=3,
        only={"batch": BATCHES[1:]},
        data=CIFAR,
        adjust=as_in_c1,
        instead={"linear_whole": "linear_cacr_small"},
    ),
}


def _ahead(winner: str, *rivals: str, batch: int, least: float = COUNTS) -> Ahead:
    at = {"batch": batch}
    return Ahead("linear_whole", Where(winner, at), [Where(name, at) for name in rivals], least)


SIZES = "Accuracy against the batch"
_OTHERS = (CL, AU, HN, ONE)


def _first_at(batch: int) -> list[Rule]:
    at = {"batch": batch}
    of_cmc = AheadOfBest("linear_whole", Where(FOUR, at), Where(CMC_BY_TAU, at), TAU, COUNTS)
    return [_ahead(FOUR, *_OTHERS, batch=batch), of_cmc]


CLAIMS = (
    Claim(
        "At either batch size CACR (K = 4) is ahead of every other objective (CMC: the better of two temperatures).",
        "B.3, fig. 8",
        Every([rule for batch in (SMALLER, LARGER) for rule in _first_at(batch)]),
        at=("cpu",),
        figure=SIZES,
    ),
    Claim(
        "At every batch size CACR (K = 4) is ahead of every other objective (CMC: the better of two temperatures).",
        "B.3, fig. 8",
        Every([rule for batch in BATCHES[1:] for rule in _first_at(batch)]),
        at=("paper",),
        figure=SIZES,
    ),
    Claim(
        "In a batch of 32 (the paper: 64) CL is ahead of CACR (K = 1), by a tenth of a point or more.",
        "B.3, fig. 8",
        _ahead(CL, ONE, batch=SMALLER, least=SLIGHTLY),
        at=("cpu",),
        figure=SIZES,
    ),
    Claim(
        "In a batch of 64 CL is ahead of CACR (K = 1), by a tenth of a point or more.",
        "B.3, fig. 8",
        _ahead(CL, ONE, batch=64, least=SLIGHTLY),
        at=("paper",),
        figure=SIZES,
    ),
)
FIGURES = (
    Figure(SIZES, "fig. 8", Against(list(OBJECTIVES), "batch", "batch", ("linear_whole", "uniformity")), headline=True),
)
PAPER = replace(
    CACR,
    differs=f"{DIFFERS} Here every objective has the same batch, so that K = 4 sees two and a half times the views, as "
    "in fig. 8, which is drawn without numbers.",
)

STUDY = Study(BASE, ARMS, SCALES, CLAIMS, FIGURES, PAPER, measure=MEASURE)
