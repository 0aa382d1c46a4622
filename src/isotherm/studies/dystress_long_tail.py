"""Does a temperature that depends on the similarity help where classes are unequal? (DySTreSS 2024, arXiv:2308.01140)

    isotherm study dystress-long-tail                    CIFAR-10-LT, 4,000 steps a run: estimated at half an hour
    isotherm study dystress-long-tail --data cifar100    CIFAR-100-LT

DySTreSS from 0.07 and from 0.1 against SimCLR, at the temperatures of `dystress`, DCL, and a schedule over epochs,
which has five periods in a run as in its own paper. Expected: DySTreSS is a point ahead of SimCLR (nearest neighbours
by L2 distance), and of the schedule.
"""

from collections.abc import Mapping
from dataclasses import replace

from isotherm.experiments.claims.rules import Ahead, AheadOfBest
from isotherm.experiments.figures.plots import DotForEach, Several
from isotherm.experiments.papers import DYSTRESS, published
from isotherm.experiments.sizes import BY_STEPS
from isotherm.experiments.study import Arm, Claim, Comparison, Figure, PaperTable, Scale, Settings, Study, Where
from isotherm.studies.dystress import A1, BASE, BY_TAU, CIFAR, COUNTS, CPU, DCL, OURS, RANGE, SIMCLR, TAU, TINY

FROM_TENTH, SCHEDULE = "DySTreSS from 0.1", "schedule over epochs"
STEPS = 4000
"""A.1 has 2.5 times the epochs of balanced sets; a set a quarter as large has 41 epochs in so many steps."""
_SCHEDULE = {"name": "CosineSchedule", "tau_min": 0.1, "tau_max": 1.0}


def with_period(epochs: float) -> dict[str, dict[str, object]]:
    """The schedule, with a period of so many epochs."""
    return {TAU: {**_SCHEDULE, "period": epochs}}


def five_periods(settings: Settings) -> Settings:
    """In the 500 epochs of A.1."""
    return with_period(100) if isinstance(settings["loss"].get("temperature"), Mapping) else {}


MEASURE = ("nearest", "200 neighbours", "geometry", "feature geometry", "classes")
ARMS = (
    Arm(SIMCLR, {"loss": "NTXentLoss", TAU: 0.5}),
    Arm(BY_TAU, {"loss": "NTXentLoss"}, {TAU: (0.1, 0.2, 0.5)}),
    Arm(DCL, {"loss": "DCLLoss", TAU: 0.1}),
    Arm(OURS, RANGE),
    Arm(FROM_TENTH, {**RANGE, "loss.tau_min": 0.1}),
    Arm(SCHEDULE, {"loss": "NTXentLoss", **with_period(8)}),
)
SCALES = {
    "smoke": Scale("seconds, to see that everything works", TINY),
    "cpu": Scale(
        "a small network, a hundredth as many images of the smallest class as of the largest, 4,000 steps; three seeds",
        CPU,
        seeds=3,
        data={name: {**settings, "steps": STEPS} for name, settings in BY_STEPS.items()},
    ),
    "paper": Scale(
        "A.1: ResNet-18, 500 epochs, batch 128; a GPU (2000 epochs, Table 4: isotherm presets)",
        {**A1, "epochs": 500},
        data=CIFAR,
        seeds=3,
        adjust=five_periods,
    ),
}

NEAREST = "Accuracy of nearest neighbours on a long tail"


def _claim(sentence: str, paper: str, measure: str, rival: str) -> Claim:
    return Claim(sentence, paper, Ahead(measure, Where(OURS), [Where(rival)], COUNTS), figure=NEAREST)


CLAIMS = (
    _claim("On a long tail DySTreSS is ahead of SimCLR (nearest neighbour).", "§5.4, Tables 6 and 7", "knn1", SIMCLR),
    _claim("And by ten neighbours.", "§5.4, Tables 6 and 7", "knn10", SIMCLR),
    Claim(
        "It is ahead of SimCLR also at the best of the constant temperatures 0.1, 0.2 and 0.5 (nearest neighbour; the "
        "paper names none).",
        "§5.4, Tables 6 and 7",
        AheadOfBest("knn1", Where(OURS), Where(BY_TAU), TAU, COUNTS),
        figure=NEAREST,
    ),
    _claim(
        "It is ahead of a schedule over epochs (nearest neighbour; the paper names no metric).",
        "§5.4, Tables 4 and 5",
        "knn1",
        SCHEDULE,
    ),
    _claim("And by ten neighbours (as above).", "§5.4, Tables 4 and 5", "knn10", SCHEDULE),
)
_ALL = (SIMCLR, DCL, SCHEDULE, OURS, FROM_TENTH)
FIGURES = (
    Figure(
        NEAREST,
        "Tables 4, 6 and 7",
        Several([DotForEach(m, _ALL, "Long tail") for m in ("knn1", "knn10")]),
        headline=True,
    ),
)
COMPARE = (Comparison(OURS, "knn1", (SIMCLR, DCL, SCHEDULE, FROM_TENTH)),)
PAPER = replace(
    DYSTRESS,
    differs="The paper trains ResNet-18 for 500 epochs (Table 4: 2000). At cpu scale ours is a convnet of 100,000 "
    "parameters and 4,000 steps of 128 images, some 41 epochs, with a schedule of 8 epochs a period. SimCLR has 0.5, "
    "and 0.1 and 0.2 beside it. The paper says weights by L2 distance: ours is of unit features.",
    tables={
        "Tables 6 and 7": PaperTable(
            published("dystress/tables-6-7"),
            [Where(name) for name in (SIMCLR, OURS, FROM_TENTH)],
            [("1", "knn1"), ("10", "knn10")],
        ),
        "Table 4 (2000 epochs)": PaperTable(
            published("dystress/tables-4-5"),
            [Where(name) for name in (SCHEDULE, OURS)],
            [("10 neighbours", "knn10")],
            titled=False,
        ),
    },
)

STUDY = Study(
    {**BASE, "imbalance": "long-tail"}, ARMS, SCALES, CLAIMS, FIGURES, PAPER, measure=MEASURE, compare=COMPARE
)
