"""Does weighting positives and negatives among themselves learn better features? (CACR, Zheng et al., arXiv:2105.03746)

    isotherm study cacr                             digits, about five minutes on two cores
    isotherm study cacr --data cifar10              5,000 images

CL, AU-CL, HN-CL, CACR (K = 1), CMC and CACR (K = 4) on regular, linear and exponential class sizes; CACR without its
weights, with their signs reversed, over t⁺, t⁻, K and batch size, and with an RBF cost. Every run sees as many views in
about as many steps. Expected: weights matter, those of negatives most; K = 4 beats K = 1; imbalance hurts CACR least.
"""

import math
from collections.abc import Sequence

from isotherm.experiments.claims.rules import Ahead, Faster, NoWorse, Ordered, SmallerDrop, Trend
from isotherm.experiments.figures.plots import (
    Against,
    BarForEach,
    Neighbourhoods,
    OverTraining,
    Several,
    Weights,
    Within,
)
from isotherm.experiments.papers import published
from isotherm.experiments.sizes import QUICK, SMOKE
from isotherm.experiments.study import Arm, Claim, Comparison, Figure, Paper, PaperTable, Scale, Settings, Study, Where

REGULAR, LINEAR = {"imbalance": "none"}, {"imbalance": "linear"}
OVER = {"imbalance": ("none", "linear", "exponential")}
CL, AU, HN, ONE, CMC, FOUR = "CL", "AU-CL", "HN-CL", "CACR (K = 1)", "CMC (K = 4)", "CACR (K = 4)"
RIVALS = (CL, AU, HN, CMC)
HEADLINE = (CL, AU, HN, ONE, CMC, FOUR)
EARLY_CL, EARLY_CACR = "CL, early", "CACR (K = 1), early"
NO_ATTRACTION, NO_REPULSION, UAUR = "without π⁺", "without π⁻", "UAUR"
T_POS, T_NEG_1, T_NEG_4, BY_K, BY_BATCH = "by t⁺ (K = 4)", "by t⁻ (K = 1)", "by t⁻ (K = 4)", "by K", "by batch (K = 1)"
RBF_1, RBF_4 = "RBF cost (K = 1)", "RBF cost (K = 4)"
NEAR, FAR, REVERSED = "π⁺ for near positives", "π⁻ for far negatives", "both reversed"
SIGNS = (Where(FOUR, REGULAR), Where(NEAR), Where(FAR), Where(REVERSED))
LEFT_OUT = (Where(FOUR, REGULAR), Where(NO_ATTRACTION), Where(NO_REPULSION), Where(UAUR))
TS = (0.5, 0.7, 0.9, 1.0, 2.0, 3.0)

_PAIR = {"views": 2}
_MANY = {"views": 5}
_CL = {**_PAIR, "method": "simclr", "loss": "NTXentLoss", "loss.temperature": 0.19}
_CACR_1 = {**_PAIR, "method": "cacr", "loss": "CACRLoss", "loss.t_pos": 1.0, "loss.t_neg": 2.0}
_CACR_4 = {**_MANY, "method": "cacr", "loss": "CACRLoss", "loss.t_pos": 1.0, "loss.t_neg": 0.9}
COUNTS = 0.005
"""Half a point of accuracy."""
BASE = {"lr": 0.12, "lr_scaling": "linear", "weight_decay": 1e-4, "monitor": 6, "monitor_images": 1000}
MEASURE = ("probes", "whole", "geometry", "cost")


def equal_views(settings: Settings) -> dict[str, int]:
    """Batch and epochs are those of K = 4; fewer views have more images per step and more epochs.

    So every run sees as many views in about as many steps (what is left of an epoch is dropped), whatever its K.
    """
    factor = 5 / settings["views"]
    return {"batch": round(settings["batch"] * factor), "epochs": round(settings["epochs"] * factor)}


def as_in_c1(settings: Settings) -> Settings:
    """768 images per step with one positive, 128 with more; t⁻ of CIFAR-100 (that of CIFAR-10 is the arms' own).

    Table 14 has 128 at every K: ``isotherm train --preset cacr-cifar10-k4 --views 3``.
    """
    one = settings["views"] == 2
    batch = {"batch": 768 if one else 128}
    t_neg = settings["loss"].get("t_neg")
    if settings["data"] != "cifar100" or t_neg is None:
        return batch
    return {**batch, "loss.t_neg": math.copysign(3.0 if one else 2.0, t_neg)}


ARMS = (
    Arm(CL, _CL, OVER),
    Arm(AU, {**_PAIR, "method": "simclr", "loss": "AlignUniformLoss", "loss.t": 2.0}, OVER),
    Arm(
        HN,
        {**_PAIR, "method": "simclr", "loss": "HardNegativeLoss", "loss.temperature": 0.5, "loss.beta": 1.0},
        OVER,
    ),
    Arm(ONE, _CACR_1, OVER),
    Arm(CMC, {**_MANY, "method": "cmc", "loss": "CMCLoss", "loss.temperature": 0.07}, OVER),
    Arm(FOUR, _CACR_4, OVER),
    Arm(NO_ATTRACTION, {**_CACR_4, "loss.attraction": "uniform"}),
    Arm(NO_REPULSION, {**_CACR_4, "loss.repulsion": "uniform"}),
    Arm(UAUR, {**_MANY, "method": "cacr", "loss": "UAURLoss"}),
    Arm(NEAR, {**_CACR_4, "loss.t_pos": -1.0}),
    Arm(FAR, {**_CACR_4, "loss.t_neg": -0.9}),
    Arm(REVERSED, {**_CACR_4, "loss.t_pos": -1.0, "loss.t_neg": -0.9}),
    Arm(RBF_1, {**_CACR_1, "loss.cost": "rbf"}, once=True),
    Arm(RBF_4, {**_CACR_4, "loss.cost": "rbf"}),
    Arm(T_POS, _CACR_4, {"loss.t_pos": TS}),
    Arm(T_NEG_1, _CACR_1, {"loss.t_neg": TS}),
    Arm(T_NEG_4, _CACR_4, {"loss.t_neg": TS}),
    Arm(BY_K, {**_CACR_4, "loss.t_neg": 2.0}, {"views": (2, 3, 5, 7, 9, 11)}),
    Arm(BY_BATCH, _CACR_1, {"batch": (64, 80, 128, 160, 256, 320, 512, 768)}),
    Arm(EARLY_CL, {**_CL, "schedule": "step"}, {"epochs": (1, 3, 20)}),
    Arm(EARLY_CACR, {**_CACR_1, "schedule": "step"}, {"epochs": (1, 3, 20)}),
)
SCALES = {
    "smoke": Scale(
        "seconds, to see that everything works",
        {**SMOKE, "images": 200, "epochs": 1, "batch": 40, "encoder.widths": [8], "monitor": 1, "monitor_images": 200},
        only={
            "imbalance": ("none", "linear"),
            "loss.t_pos": (3.0,),
            "loss.t_neg": (3.0,),
            "views": (3,),
            "batch": (64,),
            "epochs": (1,),
        },
        adjust=equal_views,
    ),
    "cpu": Scale(
        "a small network; three seeds for the rivals and the ablation of weights, one for the rest",
        {"epochs": 6, "batch": 64},
        seeds=3,
        only={
            "loss.t_pos": (0.5, 1.0, 3.0),
            "loss.t_neg": (0.5, 0.9, 2.0, 3.0),
            "views": (2, 3, 5, 7),
            "batch": (80, 160, 320),
            "epochs": (1, 3),
        },
        once={
            "imbalance": ("exponential",),
            "loss.t_pos": TS,
            "loss.t_neg": TS,
            "views": (2, 3, 5, 7),
            "batch": (80, 160, 320),
            "epochs": (1, 3),
        },
        data={
            **{name: {**settings, "batch": 64, "epochs": 4} for name, settings in QUICK.items()},
            "digits": {**QUICK["digits"], "batch": 64, "epochs": 12},
        },
        adjust=equal_views,
    ),
    "paper": Scale(
        "app. C.1: SmallAlexNet, 200 epochs, batch 768 (K = 1) or 128; a GPU",
        {
            "data": "cifar10",
            "recipe": "cacr-cifar",
            "encoder": "small_alexnet",
            "head": "none",
            "epochs": 200,
            "schedule": "step",
            "milestones": [155, 170, 185],
        },
        only={"epochs": (1, 20), "batch": (64, 128, 256, 512, 768)},
        data={"cifar10": {"normalize": "cifar10"}, "cifar100": {"normalize": "cifar100"}},
        seeds=3,
        adjust=as_in_c1,
        instead={"linear": "linear_cacr_small", "linear_whole": "linear_cacr_small"},
    ),
}


def _ahead(winner: str, *rivals: str) -> Ahead:
    """On regular class sizes."""
    return Ahead("linear_whole", Where(winner, REGULAR), [Where(name, REGULAR) for name in rivals], COUNTS)


BY_SIZES = "Accuracy by class sizes"
ENTROPY = "Conditional entropy over training"
ON_THE_WAY = "Accuracy over training"
NUMBERS = "Negatives and positives"
SHARPNESS = "Sharpness of the weights"
CLAIMS = (
    Claim(
        "With one positive CACR is ahead of CL, AU-CL and HN-CL.",
        "§5.1, Table 2",
        _ahead(ONE, CL, AU, HN),
        figure=BY_SIZES,
    ),
    Claim("With four positives CACR is ahead of CMC.", "§5.1, Table 2", _ahead(FOUR, CMC), figure=BY_SIZES),
    Claim("Four positives beat one at equal samples.", "§5.1, Table 3", _ahead(FOUR, ONE), figure=BY_SIZES),
    Claim(
        "HN-CL is the best of the baselines with one positive.", "§5.1, Table 2", _ahead(HN, CL, AU), figure=BY_SIZES
    ),
    Claim(
        "Weights matter: CACR, then without π⁺, without π⁻, without both.",
        "B.2, Table 11",
        Ordered("linear_whole", LEFT_OUT, 0.02),
    ),
    Claim(
        "Weights with the wrong sign are worse: of positives, then of negatives, then of both.",
        "B.2, Table 10",
        Ordered("linear_whole", SIGNS, 0.02),
    ),
    Claim(
        "The conditional entropy approaches its maximum faster with CACR (K = 4) than with CMC and CL.",
        "§5.1, fig. 3",
        Faster("conditional_entropy", Where(FOUR, REGULAR), [Where(CMC, REGULAR), Where(CL, REGULAR)], 0.02),
        figure=ENTROPY,
    ),
    Claim(
        "On linear imbalance, too.",
        "§5.1, fig. 3",
        Faster("conditional_entropy", Where(FOUR, LINEAR), [Where(CMC, LINEAR), Where(CL, LINEAR)], 0.02),
        figure=ENTROPY,
    ),
    Claim(
        "Unequal classes lower the conditional entropy of CL.",
        "§5.1, fig. 3",
        Faster("conditional_entropy", Where(CL, REGULAR), [Where(CL, LINEAR)], 0.02),
        figure=ENTROPY,
    ),
    Claim(
        "At the same epoch CACR (K = 4) is ahead of CL and CMC (kNN on the way).",
        "B.4, fig. 10",
        Faster("knn", Where(FOUR, REGULAR), [Where(CMC, REGULAR), Where(CL, REGULAR)], COUNTS),
        figure=ON_THE_WAY,
    ),
    Claim(
        "Weights of positives that are too sharp cost accuracy: t⁺ = 3 is behind t⁺ = 1.",
        "B.3, Table 12",
        Ahead("linear_whole", Where(T_POS, {"loss.t_pos": 1.0}), [Where(T_POS, {"loss.t_pos": 3.0})], COUNTS),
        figure=SHARPNESS,
    ),
    Claim(
        "Weights of negatives that are too flat do, too: t⁻ = 0.5 is behind t⁻ = 0.9 (K = 4).",
        "B.3, Table 13",
        Ahead("linear_whole", Where(T_NEG_4, {"loss.t_neg": 0.9}), [Where(T_NEG_4, {"loss.t_neg": 0.5})], COUNTS),
        figure=SHARPNESS,
    ),
    Claim(
        "From regular to linear class sizes CACR (K = 4) loses less than CL, AU-CL, HN-CL and CMC.",
        "§5.1, Table 2",
        SmallerDrop("linear_whole", FOUR, RIVALS, "imbalance", "none", "linear", COUNTS),
        figure=BY_SIZES,
    ),
    Claim(
        "More positives are better.",
        "B.3, fig. 9",
        Trend("linear_whole", BY_K, 1, over="views"),
        figure=NUMBERS,
    ),
    Claim(
        "A cost of radial basis functions does as well, to a point.",
        "B.5, Table 20",
        NoWorse("linear_whole", Where(RBF_4), [Where(FOUR, REGULAR)], within=0.01),
    ),
)


def _by_class_sizes(plot: type[BarForEach | OverTraining], measure: str) -> Several:
    """The rivals at each imbalance."""
    sizes = OVER["imbalance"]
    return Several([Within({"imbalance": name}, plot(measure, HEADLINE, f"Imbalance: {name}")) for name in sizes])


FIGURES = (
    Figure(BY_SIZES, "Table 2", _by_class_sizes(BarForEach, "linear_whole")),
    Figure(ENTROPY, "fig. 3 to 5", _by_class_sizes(OverTraining, "conditional_entropy")),
    Figure(ON_THE_WAY, "fig. 10", Within(REGULAR, OverTraining("knn", HEADLINE, "Regular"))),
    Figure("One query with its positives and negatives", "fig. 6", Weights(Where(FOUR, REGULAR), t_pos=1.0, t_neg=0.9)),
    Figure("Neighbourhood of one query", "fig. 7", Neighbourhoods((EARLY_CL, CL, EARLY_CACR, ONE))),
    Figure(
        NUMBERS,
        "fig. 8 and 9",
        Several(
            [
                Against([BY_BATCH], "batch", "batch", ("linear_whole",)),
                Against([BY_K], "views", "views (K + 1)", ("linear_whole", "step_seconds")),
            ]
        ),
    ),
    Figure(
        SHARPNESS,
        "Tables 12 and 13",
        Several(
            [
                Against([T_POS], "loss.t_pos", "t⁺", ("linear_whole",)),
                Against([T_NEG_1, T_NEG_4], "loss.t_neg", "t⁻", ("linear_whole",)),
            ]
        ),
    ),
)
COMPARE = (
    Comparison(CL, "linear_whole", HEADLINE[1:]),
    Comparison(FOUR, "linear_whole", (CMC, ONE, NO_ATTRACTION, NO_REPULSION, UAUR, NEAR, FAR, REVERSED, RBF_4)),
)


def _columns(imbalance: str) -> list[Where]:
    return [Where(name, {"imbalance": imbalance}) for name in HEADLINE]


def _accuracies(table: str, points: Sequence[Where]) -> PaperTable:
    return PaperTable(published(f"cacr/{table}"), points, [("accuracy", "linear_whole")], titled=False)


PAPER = Paper(
    title="Zheng et al., Contrastive Attraction and Contrastive Repulsion for Representation Learning (CACR)",
    address="https://arxiv.org/abs/2105.03746",
    differs="The paper trains a small AlexNet for 200 epochs, K = 1 with batches of 768, K = 4 with 128. At cpu "
    "scale ours is a small convnet with a projector, few epochs and images. K = 1 has 2.5 times the batch and the "
    "epochs of K = 4, so that all see as many views in as many steps. Temperatures and t are the paper's (CMC: as on "
    "ImageNet). The linear probe is taught on balanced images, as the paper's accuracies imply.",
    tables={
        "Table 2, regular": _accuracies("table-2-regular", _columns("none")),
        "Table 2, linear": _accuracies("table-2-linear", _columns("linear")),
        "Table 2, exponential": _accuracies("table-2-exponential", _columns("exponential")),
        "Tables 3, 8 and 9 (other budgets and networks)": _accuracies("tables-3-8-9", _columns("none")),
        "Table 10 (signs of the weights)": _accuracies("table-10", SIGNS),
        "Table 11 (weights left out)": _accuracies("table-11", LEFT_OUT),
        "Table 12 (t⁺, K = 4)": _accuracies("table-12", [Where(T_POS, {"loss.t_pos": t}) for t in TS]),
        "Table 13 (t⁻, K = 1)": _accuracies("table-13-one-positive", [Where(T_NEG_1, {"loss.t_neg": t}) for t in TS]),
        "Table 13 (t⁻, K = 4)": _accuracies("table-13-four-positives", [Where(T_NEG_4, {"loss.t_neg": t}) for t in TS]),
        "Table 14 (seconds per step, GPU, batch 128 at every K; ours: as many views at every K)": PaperTable(
            published("cacr/table-14"),
            [Where(BY_K, {"views": k + 1}) for k in (1, 2, 4, 6, 8, 10)],
            [("seconds", "step_seconds")],
            titled=False,
        ),
        "Table 20 (cost)": _accuracies(
            "table-20", [Where(ONE, REGULAR), Where(RBF_1), Where(FOUR, REGULAR), Where(RBF_4)]
        ),
    },
)

STUDY = Study(BASE, ARMS, SCALES, CLAIMS, FIGURES, PAPER, measure=MEASURE, compare=COMPARE)
