"""How sharp should CACR's weights be, and how many positives? (CACR, Zheng et al., arXiv:2105.03746)

    isotherm study cacr-parameters                       CIFAR-10, 1,500 steps a run: estimated at ¾ of an hour
    isotherm study cacr-parameters --data cifar100       the same

t⁺ and t⁻ over the paper's range, and K at one batch size, as in Table 14. Expected: t⁺ = 3 and t⁻ = 0.5 cost accuracy;
more positives are better.
"""

from dataclasses import replace

from isotherm.experiments.claims.rules import Ahead, Trend
from isotherm.experiments.figures.plots import Against, Several
from isotherm.experiments.papers import CACR, published
from isotherm.experiments.study import Arm, Claim, Figure, PaperTable, Scale, Study, Where
from isotherm.studies.cacr import (
    BASE,
    C1,
    CACR_1,
    CACR_4,
    CIFAR,
    COUNTS,
    DIFFERS,
    EIGHTH,
    TINY,
    accuracies,
    as_in_c1,
    equal_views,
)

TS, KS = (0.5, 0.7, 0.9, 1.0, 2.0, 3.0), (1, 2, 4, 6, 8, 10)
T_POS, T_NEG_1, T_NEG_4, BY_K = "by t⁺ (K = 4)", "by t⁻ (K = 1)", "by t⁻ (K = 4)", "by K"
VIEWS = {"views": tuple(k + 1 for k in KS), "batch": (40, 64, 128)}
"""One batch at every K, that of the scale, as in Table 14; elsewhere as many views in a step."""
PLUS, MINUS = "loss.t_pos", "loss.t_neg"


MEASURE = ("whole", "geometry", "cost")
ARMS = (
    Arm(T_POS, CACR_4, {PLUS: TS}),
    Arm(T_NEG_4, CACR_4, {MINUS: TS}),
    Arm(T_NEG_1, CACR_1, {MINUS: TS}),
    Arm(BY_K, CACR_4, {**VIEWS, MINUS: (2.0,)}),  # the same at every K, whatever the data
)
SCALES = {
    "smoke": Scale(
        "seconds, to see that everything works",
        TINY,
        only={PLUS: (3.0,), MINUS: (2.0,), "views": (3,), "batch": (40,)},
        adjust=equal_views,
    ),
    "cpu": Scale(
        "an eighth of the network, all images, 1,500 steps; three seeds",
        {**EIGHTH, "monitor": 0},
        seeds=3,
        only={PLUS: (0.5, 1.0, 3.0), MINUS: (0.5, 0.9, 2.0), "views": (2, 3, 5, 9), "batch": (64,)},
        data=CIFAR,
        adjust=equal_views,
    ),
    "paper": Scale(
        "app. C.1: SmallAlexNet, 200 epochs, batch 768 (K = 1) or 128; a GPU",
        C1,
        only={"batch": (128,)},
        data=CIFAR,
        seeds=3,
        adjust=as_in_c1,
        instead={"linear_whole": "linear_cacr_small"},
    ),
}

SHARPNESS, POSITIVES = "Sharpness of the weights", "Accuracy and cost against K"


def _ahead(arm: str, setting: str, better: float, worse: float) -> Ahead:
    return Ahead("linear_whole", Where(arm, {setting: better}), [Where(arm, {setting: worse})], COUNTS)


CLAIMS = (
    Claim(
        "Weights of positives that are too sharp cost accuracy: t⁺ = 3 is behind t⁺ = 1.",
        "B.3, Table 12",
        _ahead(T_POS, PLUS, 1.0, 3.0),
        figure=SHARPNESS,
    ),
    Claim(
        "Weights of negatives that are too flat do, too: t⁻ = 0.5 is behind t⁻ = 0.9 (K = 4).",
        "B.3, Table 13",
        _ahead(T_NEG_4, MINUS, 0.9, 0.5),
        figure=SHARPNESS,
    ),
    Claim(
        "With one positive t⁻ = 0.5 is behind t⁻ = 2 (which is the best there on CIFAR-10).",
        "B.3, Table 13",
        _ahead(T_NEG_1, MINUS, 2.0, 0.5),
        figure=SHARPNESS,
    ),
    Claim(
        "More positives are better.",
        "B.3, fig. 9",
        Trend("linear_whole", BY_K, 1, over="views"),
        at=("cpu", "paper"),
        figure=POSITIVES,
    ),
)
FIGURES = (
    Figure(
        SHARPNESS,
        "Tables 12 and 13",
        Several(
            [
                Against([T_POS], PLUS, "t⁺", ("linear_whole", "uniformity")),
                Against([T_NEG_1, T_NEG_4], MINUS, "t⁻", ("linear_whole", "uniformity")),
            ]
        ),
        headline=True,
    ),
    Figure(POSITIVES, "fig. 9; Table 14", Against([BY_K], "views", "views (K + 1)", ("linear_whole", "step_seconds"))),
)


def _over(arm: str, setting: str) -> list[Where]:
    return [Where(arm, {setting: t}) for t in TS]


PAPER = replace(
    CACR,
    differs=DIFFERS + " Where K is varied, the batch is 64 at every K (paper scale: 128, as in Table 14).",
    tables={
        "Table 12 (t⁺, K = 4)": accuracies("table-12", _over(T_POS, PLUS)),
        "Table 13 (t⁻, K = 1)": accuracies("table-13-one-positive", _over(T_NEG_1, MINUS)),
        "Table 13 (t⁻, K = 4)": accuracies("table-13-four-positives", _over(T_NEG_4, MINUS)),
        "Table 14 (seconds per step, GPU, batch 128 at every K)": PaperTable(
            published("cacr/table-14"),
            [Where(BY_K, {"views": k + 1}) for k in KS],
            [("seconds", "step_seconds")],
            titled=False,
        ),
    },
)

STUDY = Study(BASE, ARMS, SCALES, CLAIMS, FIGURES, PAPER, measure=MEASURE)
