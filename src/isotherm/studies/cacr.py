"""Does weighting positives and negatives among themselves learn better features? (CACR, Zheng et al., arXiv:2105.03746)

    isotherm study cacr                             CIFAR-10, all images, 1,500 steps a run: estimated at half an hour
    isotherm study cacr --data cifar100             the same
    isotherm study cacr --scale imbalanced          regular and linear class sizes, three seeds: estimated at 50 minutes
    isotherm study cacr-weights                     without its weights, with others, with another cost
    isotherm study cacr-parameters                  over t⁺, t⁻ and K
    isotherm study cacr-batch                       the six objectives over batch sizes
    isotherm study cacr-rivals                      in MoCo v2 against SwAV, FNC, BYOL and others

CL, AU-CL, HN-CL, CACR (K = 1), CMC and CACR (K = 4) with the paper's network, on regular and unequal class sizes. Every
run sees as many views in as many steps. Expected: CACR is ahead of the others; K = 4 beats K = 1; imbalance hurts it
least.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from isotherm.experiments.claims.rules import Ahead, AheadOfBest, Faster, SmallerDrop
from isotherm.experiments.figures.plots import (
    DotForEach,
    Neighbourhoods,
    OverTraining,
    Several,
    Weights,
    Within,
)
from isotherm.experiments.papers import CACR, published
from isotherm.experiments.sizes import SHORT, SMOKE
from isotherm.experiments.study import Arm, Claim, Comparison, Figure, PaperTable, Scale, Settings, Study, Where

REGULAR, LINEAR = {"imbalance": "none"}, {"imbalance": "linear"}
OVER = {"imbalance": ("none", "linear", "exponential")}
CL, AU, HN, ONE, CMC, FOUR = "CL", "AU-CL", "HN-CL", "CACR (K = 1)", "CMC (K = 4)", "CACR (K = 4)"
CMC_BY_TAU, TAU = "CMC (K = 4) by temperature", "loss.temperature"
RIVALS = (CL, AU, HN, CMC)
EARLY_CL, EARLY_CACR = "CL, early", "CACR (K = 1), early"

_PAIR, MANY = {"views": 2}, {"views": 5}
CACR_1 = {**_PAIR, "method": "cacr", "loss": "CACRLoss", "loss.t_pos": 1.0, "loss.t_neg": 2.0}
CACR_4 = {**MANY, "method": "cacr", "loss": "CACRLoss", "loss.t_pos": 1.0, "loss.t_neg": 0.9}
OBJECTIVES = {
    CL: {**_PAIR, "method": "simclr", "loss": "NTXentLoss", "loss.temperature": 0.19},
    AU: {**_PAIR, "method": "simclr", "loss": "AlignUniformLoss", "loss.t": 2.0},
    HN: {**_PAIR, "method": "simclr", "loss": "HardNegativeLoss", "loss.temperature": 0.5, "loss.beta": 1.0},
    ONE: CACR_1,
    CMC: {**MANY, "method": "cmc", "loss": "CMCLoss", "loss.temperature": 0.07},
    FOUR: CACR_4,
}
TAUS = (0.07, 0.19)
"""Of CMC: the paper's on ImageNet, the only one that it states, and that of CL on small images."""
COUNTS, HARDLY = 0.005, 0.001
"""Half a point of accuracy; a tenth, where the paper's table has less than that."""
SPREAD = 2.0
"""−uniformity from which on conditional entropies are compared: in one point they are largest of all."""
BASE = {"lr": 0.12, "lr_scaling": "linear", "weight_decay": 1e-4, "monitor": 6, "monitor_images": 1000}
MEASURE = ("probes", "whole", "geometry", "feature geometry", "cost")


def of_data(settings: Settings) -> Settings:
    """t⁻ of CIFAR-100; that of CIFAR-10 is the arms' own."""
    t_neg = settings.get("loss", {}).get("t_neg")
    if settings["data"] != "cifar100" or t_neg is None:
        return {}
    return {"loss.t_neg": math.copysign(3.0 if settings["views"] == 2 else 2.0, t_neg)}


def equal_views(settings: Settings) -> Settings:
    """The batch is that of K = 4; fewer views have more images per step, so that a step has as many whatever its K."""
    return {"batch": round(settings["batch"] * 5 / settings["views"]), **of_data(settings)}


def as_in_c1(settings: Settings) -> Settings:
    """768 images per step with one positive, 128 with more.

    Table 14 has 128 at every K: ``isotherm train --preset cacr-cifar10-k4 --views 3``.
    """
    return {"batch": 768 if settings["views"] == 2 else 128, **of_data(settings)}


ARMS = (
    *(Arm(name, settings, OVER) for name, settings in OBJECTIVES.items()),
    Arm(CMC_BY_TAU, OBJECTIVES[CMC], {TAU: TAUS, **OVER}),  # one of two runs is the same
    *(
        Arm(name, {**OBJECTIVES[of], "schedule": "step"}, over, once=True)
        for name, of in ((EARLY_CL, CL), (EARLY_CACR, ONE))
        for over in ({"steps": (20, 200)}, {"epochs": (1, 20)})
    ),
)
TINY = {**SMOKE, "images": 200, "epochs": 1, "batch": 40, "encoder.widths": [8], "monitor": 1, "monitor_images": 200}
CIFAR = {"cifar10": {"normalize": "cifar10"}, "cifar100": {"normalize": "cifar100"}}
EIGHTH = {
    "data": "cifar10",
    "recipe": "cacr-cifar",
    "encoder": "small_alexnet",
    "encoder.factor": 0.125,
    "encoder.hidden": 512,
    "head": "none",
    "steps": 1500,
    "batch": 64,
    "lr": 0.06,
    "lr_scaling": "none",
    "warmup_part": SHORT["warmup_part"],
    "clip": SHORT["clip"],
}
"""The paper's network at an eighth of its width, without a projector as there; 64 images of five views in a step. One
rate for all, the paper's with four positives: scaled by the batch, one positive would have two and a half times it."""
C1 = {
    "data": "cifar10",
    "recipe": "cacr-cifar",
    "encoder": "small_alexnet",
    "head": "none",
    "epochs": 200,
    "schedule": "step",
    "milestones": [155, 170, 185],
}
SCALES = {
    "smoke": Scale(
        "seconds, to see that everything works",
        TINY,
        only={"imbalance": ("none", "linear"), "steps": (), "epochs": (1,), TAU: TAUS[:1]},
        adjust=equal_views,
    ),
    "cpu": Scale(
        "an eighth of the network, regular class sizes, all images, 1,500 steps; three seeds",
        EIGHTH,
        seeds=3,
        only={"imbalance": ("none",), "epochs": ()},
        data=CIFAR,
        adjust=equal_views,
    ),
    "imbalanced": Scale(
        "the same with regular and linear class sizes; three seeds",
        EIGHTH,
        seeds=3,
        only={"imbalance": ("none", "linear"), "steps": (), "epochs": ()},
        data=CIFAR,
        adjust=equal_views,
    ),
    "paper": Scale(
        "app. C.1: SmallAlexNet, 200 epochs, batch 768 (K = 1) or 128; a GPU",
        C1,
        only={"steps": ()},
        data=CIFAR,
        seeds=3,
        adjust=as_in_c1,
        instead={"linear": "linear_cacr_small", "linear_whole": "linear_cacr_small"},
    ),
}
UNEQUAL = ("smoke", "imbalanced", "paper")
"""Scales with unequal class sizes."""


def _ahead(winner: str, *rivals: str, least: float = COUNTS) -> Ahead:
    """On regular class sizes."""
    return Ahead("linear_whole", Where(winner, REGULAR), [Where(name, REGULAR) for name in rivals], least)


def _smaller_drop(end: str) -> SmallerDrop:
    return SmallerDrop("linear_whole", FOUR, RIVALS, "imbalance", "none", end, HARDLY)


def _faster(measure: str, sizes: Settings, least: float, spread: float | None = None) -> Faster:
    """CACR with four positives than CL, and than CMC at either temperature."""
    others = [Where(CMC_BY_TAU, {TAU: tau, **sizes}) for tau in TAUS]
    return Faster(measure, Where(FOUR, sizes), [*others, Where(CL, sizes)], least, spread)


BY_SIZES = "Accuracy by class sizes"
ENTROPY = "Conditional entropy over training"
ON_THE_WAY = "Accuracy over training"
CLAIMS = (
    Claim(
        "With one positive CACR is ahead of CL, AU-CL and HN-CL, by a tenth of a point or more.",
        "§5.1, Table 2",
        _ahead(ONE, CL, AU, HN, least=HARDLY),
        figure=BY_SIZES,
    ),
    Claim(
        "With four positives CACR is ahead of CMC at the better of two temperatures.",
        "§5.1, Table 2",
        AheadOfBest("linear_whole", Where(FOUR, REGULAR), Where(CMC_BY_TAU, REGULAR), TAU, COUNTS),
        figure=BY_SIZES,
    ),
    Claim("Four positives beat one at equal samples.", "§5.1, Table 3", _ahead(FOUR, ONE), figure=BY_SIZES),
    Claim(
        "HN-CL is the best of the baselines with one positive, by a tenth of a point or more.",
        "§5.1, Table 2",
        _ahead(HN, CL, AU, least=HARDLY),
        figure=BY_SIZES,
    ),
    Claim(
        "The conditional entropy approaches its maximum faster with CACR (K = 4) than with CMC and CL.",
        "§5.1, fig. 3",
        _faster("conditional_entropy_at_2", REGULAR, 0.02, SPREAD),
        figure=ENTROPY,
    ),
    Claim(
        "On linear imbalance, too.",
        "§5.1, fig. 3",
        _faster("conditional_entropy_at_2", LINEAR, 0.02, SPREAD),
        at=UNEQUAL,
        figure=ENTROPY,
    ),
    Claim(
        "Unequal classes lower the conditional entropy of CL.",
        "§5.1, fig. 3",
        Faster("conditional_entropy_at_2", Where(CL, REGULAR), [Where(CL, LINEAR)], 0.02, SPREAD),
        at=UNEQUAL,
        figure=ENTROPY,
    ),
    Claim(
        "After as many views CACR (K = 4) is ahead of CL and CMC (kNN on the way).",
        "B.4, fig. 10: linear accuracy after as many epochs",
        _faster("knn", REGULAR, COUNTS),
        figure=ON_THE_WAY,
    ),
    Claim(
        "From regular to linear class sizes CACR (K = 4) loses less than CL, AU-CL, HN-CL and CMC, by a tenth of a "
        "point or more.",
        "§5.1, Table 2",
        _smaller_drop("linear"),
        at=UNEQUAL,
        figure=BY_SIZES,
    ),
    Claim(
        "And from regular to exponential ones.",
        "§5.1, Table 2",
        _smaller_drop("exponential"),
        at=("paper",),
        figure=BY_SIZES,
    ),
)


def _by_class_sizes(plot: type[DotForEach | OverTraining], measure: str) -> Several:
    """The six objectives at each imbalance."""
    sizes, names = OVER["imbalance"], tuple(OBJECTIVES)
    return Several([Within({"imbalance": name}, plot(measure, names, f"Imbalance: {name}")) for name in sizes])


FIGURES = (
    Figure(BY_SIZES, "Table 2", _by_class_sizes(DotForEach, "linear_whole"), headline=True),
    Figure(ENTROPY, "fig. 3 to 5", _by_class_sizes(OverTraining, "conditional_entropy_at_2")),
    Figure(ON_THE_WAY, "fig. 10", Within(REGULAR, OverTraining("knn", tuple(OBJECTIVES), "Regular"))),
    Figure("One query with its positives and negatives", "fig. 6", Weights(Where(FOUR, REGULAR), t_pos=1.0, t_neg=0.9)),
    Figure("Neighbourhood of one query", "fig. 7", Neighbourhoods((EARLY_CL, CL, EARLY_CACR, ONE))),
)
COMPARE = (Comparison(CL, "linear_whole", tuple(OBJECTIVES)[1:]), Comparison(FOUR, "linear_whole", (CMC, ONE)))


def accuracies(table: str, points: Sequence[Where]) -> PaperTable:
    """A table of the paper's accuracies."""
    return PaperTable(published(f"cacr/{table}"), points, [("accuracy", "linear_whole")], titled=False)


def _columns(imbalance: str) -> list[Where]:
    return [Where(name, {"imbalance": imbalance}) for name in OBJECTIVES]


DIFFERS = (
    "The paper trains a small AlexNet for 200 epochs, K = 1 with batches of 768, K = 4 with 128. At cpu scale it has "
    "an eighth of its channels, 512 features, 1,500 steps, a warm-up and bounded gradients; K = 1 has 160 images in a "
    "step, K = 4 has 64, as many views at one rate (the paper scales it by the batch). Temperatures and t are the "
    "paper's, but that AU-CL has no τ; of CMC it states none for small images, so that it has two. The linear probe is "
    "of fc7, taught on balanced images, as the paper's accuracies imply. The paper does not say by which t⁻ it takes "
    "the conditional entropy of a loss that has none; here it is 2 for every loss, for a smaller one is nearer the "
    "maximum whatever the embedding is like."
)
PAPER = replace(
    CACR,
    differs=DIFFERS,
    tables={
        "Table 2, regular": accuracies("table-2-regular", _columns("none")),
        "Table 2, linear": accuracies("table-2-linear", _columns("linear")),
        "Table 2, exponential": accuracies("table-2-exponential", _columns("exponential")),
        "Tables 3, 8 and 9 (other budgets and networks)": accuracies("tables-3-8-9", _columns("none")),
    },
)

STUDY = Study(BASE, ARMS, SCALES, CLAIMS, FIGURES, PAPER, measure=MEASURE, compare=COMPARE)
