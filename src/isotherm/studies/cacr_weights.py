"""What do CACR's weights do? (CACR, Zheng et al., arXiv:2105.03746)

    isotherm study cacr-weights                     CIFAR-10, 1,500 steps a run: estimated at ¾ of an hour
    isotherm study cacr-weights --data cifar100     the same

CACR with four positives without the weights of positives, of negatives, of both; with weights that prefer near
positives or far negatives; with a cost of radial basis functions; and with the other views' items for negatives, as
the authors' code for small images has it. Expected: weights matter, those of negatives most, by eight points or so;
the cost does not.
"""

from dataclasses import replace

from isotherm.experiments.claims.rules import Ahead, Alike, Every, NoWorse, Ordered
from isotherm.experiments.figures.plots import DotForEach, Several
from isotherm.experiments.papers import CACR
from isotherm.experiments.study import Arm, Claim, Comparison, Figure, Scale, Study, Where
from isotherm.studies.cacr import (
    BASE,
    C1,
    CACR_1,
    CACR_4,
    CIFAR,
    DIFFERS,
    EIGHTH,
    FOUR,
    HARDLY,
    MANY,
    ONE,
    TINY,
    accuracies,
    as_in_c1,
    equal_views,
)

NO_ATTRACTION, NO_REPULSION, UAUR = "without π⁺", "without π⁻", "UAUR"
NEAR, FAR, REVERSED = "π⁺ for near positives", "π⁻ for far negatives", "both reversed"
RBF_1, RBF_4 = "RBF cost (K = 1)", "RBF cost (K = 4)"
OTHER_1, OTHER_4 = "negatives of the other views (K = 1)", "negatives of the other views (K = 4)"
SIGNS = tuple(map(Where, (FOUR, NEAR, FAR, REVERSED)))
LEFT_OUT = tuple(map(Where, (FOUR, NO_ATTRACTION, NO_REPULSION, UAUR)))

MEASURE = ("whole", "geometry", "feature geometry", "cost")
ARMS = (
    Arm(FOUR, CACR_4),
    Arm(NO_ATTRACTION, {**CACR_4, "loss.attraction": "uniform"}),
    Arm(NO_REPULSION, {**CACR_4, "loss.repulsion": "uniform"}),
    Arm(UAUR, {**MANY, "method": "cacr", "loss": "UAURLoss"}),
    Arm(NEAR, {**CACR_4, "loss.t_pos": -1.0}),
    Arm(FAR, {**CACR_4, "loss.t_neg": -0.9}),
    Arm(REVERSED, {**CACR_4, "loss.t_pos": -1.0, "loss.t_neg": -0.9}),
    Arm(RBF_4, {**CACR_4, "loss.cost": "rbf"}),
    Arm(OTHER_4, {**CACR_4, "loss.negatives_from": "other"}),
    Arm(ONE, CACR_1, once=True),
    Arm(RBF_1, {**CACR_1, "loss.cost": "rbf"}, once=True),
    Arm(OTHER_1, {**CACR_1, "loss.negatives_from": "other"}, once=True),
)
SCALES = {
    "smoke": Scale("seconds, to see that everything works", TINY, adjust=equal_views),
    "cpu": Scale(
        "an eighth of the network, all images, 1,500 steps; three seeds (K = 1: one)",
        {**EIGHTH, "monitor": 0},
        seeds=3,
        data=CIFAR,
        adjust=equal_views,
    ),
    "paper": Scale(
        "app. C.1: SmallAlexNet, 200 epochs, batch 768 (K = 1) or 128; a GPU",
        C1,
        data=CIFAR,
        seeds=3,
        adjust=as_in_c1,
        instead={"linear_whole": "linear_cacr_small"},
    ),
}

WITHOUT, TURNED, COSTS = "Weights left out", "Weights turned round", "Cost, and negatives of other views"


def _falling(points: tuple[Where, ...]) -> Every:
    """In this order, and the first above each of the others: an order of four may have its first two exchanged."""
    first, *others = points
    return Every([Ordered("linear_whole", points, 0.02), Ahead("linear_whole", first, others, HARDLY)])


CLAIMS = (
    Claim(
        "Weights matter: CACR first, then without π⁺, without π⁻, without both.",
        "B.2, Table 11",
        _falling(LEFT_OUT),
        figure=WITHOUT,
    ),
    Claim(
        "Weights with the wrong sign are worse: of positives, then of negatives, then of both.",
        "B.2, Table 10",
        _falling(SIGNS),
        figure=TURNED,
    ),
    Claim(
        "A cost of radial basis functions does as well, to a point.",
        "B.5, Table 20",
        NoWorse("linear_whole", Where(RBF_4), [Where(FOUR)], within=0.01),
        figure=COSTS,
    ),
    Claim(
        "Negatives of the query's own view and of the other views are alike, to a point (K = 4).",
        "ours: eq. 4 against the authors' code",
        Alike("linear_whole", [Where(FOUR), Where(OTHER_4)], within=0.01),
        figure=COSTS,
    ),
)


def _bars(points: tuple[Where, ...], title: str) -> Several:
    names = [where.arm for where in points]
    return Several([DotForEach(measure, names, title) for measure in ("linear_whole", "uniformity")])


FIGURES = (
    Figure(WITHOUT, "Table 11", _bars(LEFT_OUT, "Weights left out"), headline=True),
    Figure(TURNED, "Table 10", _bars(SIGNS, "Weights turned round")),
    Figure(
        COSTS,
        "Table 20",
        DotForEach("linear_whole", (ONE, RBF_1, OTHER_1, FOUR, RBF_4, OTHER_4), "Cost and negatives"),
    ),
)
COMPARE = (Comparison(FOUR, "linear_whole", (NO_ATTRACTION, NO_REPULSION, UAUR, NEAR, FAR, REVERSED, RBF_4, OTHER_4)),)
PAPER = replace(
    CACR,
    differs=DIFFERS,
    tables={
        "Table 10 (signs of the weights)": accuracies("table-10", SIGNS),
        "Table 11 (weights left out)": accuracies("table-11", LEFT_OUT),
        "Table 20 (cost)": accuracies("table-20", [Where(name) for name in (ONE, RBF_1, FOUR, RBF_4)]),
    },
)

STUDY = Study(BASE, ARMS, SCALES, CLAIMS, FIGURES, PAPER, measure=MEASURE, compare=COMPARE)
