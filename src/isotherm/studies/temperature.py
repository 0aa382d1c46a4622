"""How does the temperature shape a contrastive embedding? (Wang & Liu 2021, arXiv:2012.09740)

    isotherm study temperature --scale demo                            digits, 2¼ minutes on two cores
    isotherm study temperature --data cifar10                          all images, 2,000 steps a run: 1¼ hours
    isotherm study temperature --data cifar100 --scale representative  Table 1: estimated at half an hour
    isotherm study temperature-bank                                    with a memory bank, the paper's own setting

The ordinary and the hard contrastive loss over twelve temperatures, the simple loss, the hard simple loss, the limit of
temperature zero, and a network that is not trained. Expected: with the temperature uniformity falls and tolerance
rises, accuracy has its best in between; the simple loss is far behind, and taking only the nearest negatives repairs it
and makes the temperature nearly irrelevant for uniformity.
"""

from dataclasses import replace

from isotherm.experiments.claims.rules import (
    Ahead,
    Behind,
    BestWithin,
    Every,
    Flatter,
    InvertedU,
    NoWorse,
    PrefersLarger,
    Recovers,
    Trend,
)
from isotherm.experiments.figures.plots import Against, Maps, RelativePenalties, Separation
from isotherm.experiments.papers import WANG_LIU, published
from isotherm.experiments.sizes import BY_STEPS, SMOKE
from isotherm.experiments.study import Arm, Claim, Figure, PaperTable, Scale, Study, Where

TEMPERATURES = (0.05, 0.07, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
REPRESENTATIVE = (0.07, 0.3, 0.7, 1.0)
"""Those of the paper's Table 1."""
MANY_TEMPERATURES = ("smoke", "demo", "cpu", "paper")
"""Scales that have temperatures enough to say where the best lies; of the four above one is inside 0.2 to 0.3."""
TAU = "loss.temperature"
ORDINARY, HARD, SIMPLE, HARD_SIMPLE = "contrastive", "hard contrastive", "simple", "hard simple"
LIMIT, UNTRAINED = "τ → 0", "untrained"

BASE = {"method": "simclr", "monitor": 0}
MEASURE = ("probes", "geometry", "separation", "feature geometry")
ARMS = (
    Arm(ORDINARY, {"loss": "NTXentLoss"}, {TAU: TEMPERATURES}),
    Arm(HARD, {"loss": "HardContrastiveLoss", "loss.alpha": 0.0819}, {TAU: TEMPERATURES}),
    Arm(SIMPLE, {"loss": "SimpleContrastiveLoss"}),
    Arm(HARD_SIMPLE, {"loss": "HardSimpleLoss", "loss.alpha": 0.0819}),
    Arm(LIMIT, {"loss": "TripletLimitLoss"}),
    Arm(UNTRAINED, {"loss": "NTXentLoss", "lr": 1e-9}),  # as long as the others: BN sees as many images
)
SCALES = {
    "smoke": Scale(
        "seconds, to see that everything works",
        SMOKE,
        only={TAU: (0.07, 0.3, 1.0)},
    ),
    "demo": Scale(
        "the embedded digits, six temperatures, three seeds; probed with five labels per class",
        {"data": "digits", **BY_STEPS["digits"]},
        seeds=3,
        only={TAU: (0.07, 0.1, 0.2, 0.3, 0.7, 1.0)},
        instead={"linear": "few_labels"},
    ),
    "cpu": Scale("a small network, all images, 2,000 steps; three seeds", {}, seeds=3, data=BY_STEPS),
    "representative": Scale(
        "the same at the temperatures of Table 1", {}, seeds=3, data=BY_STEPS, only={TAU: REPRESENTATIVE}
    ),
    "paper": Scale(
        "§5.1: ResNet-18, 200 epochs, batch 128; a GPU",
        {
            "data": "cifar10",
            "recipe": "instdisc",
            "encoder": "resnet18",
            "head": "linear",
            "epochs": 200,
            "batch": 128,
            "lr": 0.03,
            "schedule": "step",
            "milestones": [160, 190],
        },
        seeds=3,
        data={"cifar10": {"normalize": "cifar10"}, "cifar100": {"normalize": "cifar100"}},
        instead={"linear": "linear_wang_liu"},
    ),
}
_LARGER = (0.3, 0.7, 1.0)
"""Temperatures of Table 1 at which its two losses differ by more than 0.02 in uniformity."""


def _less(measure: str, least: float) -> Every:
    """The hard loss has less of it than the ordinary one at the same temperature."""
    pairs = [(Where(HARD, {TAU: t}), Where(ORDINARY, {TAU: t})) for t in _LARGER]
    return Every([Ahead(measure, hard, [ordinary], least, lower=True) for hard, ordinary in pairs])


GEOMETRY = "Uniformity and tolerance"
SEPARATION = "Local separation"
ACCURACY = "Accuracy against temperature"
CLAIMS = (
    Claim(
        "Uniformity is lost as the temperature rises (ordinary loss).",
        "§4.1, fig. 4",
        Trend("uniformity", ORDINARY, 1),
        figure=GEOMETRY,
    ),
    Claim(
        "Tolerance of items of the same class grows with the temperature.",
        "§4.1, fig. 5",
        Trend("tolerance", ORDINARY, 1),
        figure=GEOMETRY,
    ),
    Claim(
        "Accuracy against temperature is an inverted U.",
        "§5.3, fig. 9",
        InvertedU("linear", ORDINARY, least=0.01),
        at=MANY_TEMPERATURES,
        figure=ACCURACY,
    ),
    Claim(
        "Its best is at 0.2 or 0.3, to a point.",
        "§5.3, fig. 9",
        BestWithin("linear", ORDINARY, 0.2, 0.3, within=0.01),
        at=MANY_TEMPERATURES,
        figure=ACCURACY,
    ),
    Claim(
        "Positives and nearest negatives are further apart at small temperature.",
        "§5.2, fig. 8 (1)",
        Trend("separation", ORDINARY, -1),
        figure=SEPARATION,
    ),
    Claim(
        "Positives align closer to 1 as the temperature grows.",
        "§5.2, fig. 8 (2)",
        Trend("positive_similarity", ORDINARY, 1),
        figure=SEPARATION,
    ),
    Claim(
        "The limit of temperature zero learns nothing: it gains at most two points over a network that is not trained.",
        "§3.2, eq. 6",
        NoWorse("linear", Where(UNTRAINED), [Where(LIMIT)], within=0.02),
    ),
    Claim(
        "The simple loss is far behind the contrastive loss.",
        "§5.5, Table 1",
        Behind("linear", SIMPLE, ORDINARY, least=0.02),
        figure=ACCURACY,
    ),
    Claim(
        "Taking only the nearest negatives repairs the simple loss.",
        "§5.5, Table 1",
        Recovers("linear", HARD_SIMPLE, SIMPLE, ORDINARY, least=0.02),
        figure=ACCURACY,
    ),
    Claim(
        "The simple loss leaves the embedding far from uniform; the hard simple loss does not.",
        "Table 1",
        Recovers("uniformity", HARD_SIMPLE, SIMPLE, ORDINARY, least=0.5, lower=True),
        figure=GEOMETRY,
    ),
    Claim(
        "Under the hard loss uniformity hardly depends on the temperature: it moves at most a third as far.",
        "§4.2, fig. 6",
        Flatter("uniformity", HARD, ORDINARY),
        figure=GEOMETRY,
    ),
    Claim(
        "The hard loss is more uniform than the ordinary one at 0.3, 0.7 and 1.",
        "§5.4, fig. 6",
        _less("uniformity", 0.1),
        figure=GEOMETRY,
    ),
    Claim(
        "And less tolerant.",
        "§5.4, fig. 7",
        _less("tolerance", 0.02),
        figure=GEOMETRY,
    ),
    Claim(
        "The hard loss prefers larger temperatures.",
        "§5.3, fig. 9",
        PrefersLarger("linear", HARD, ORDINARY, least=0.01),
        figure=ACCURACY,
    ),
)
FIGURES = (
    Figure("t-SNE of the embedding at two temperatures", "fig. 2", Maps(ORDINARY, TAU, (0.07, 0.2, 0.3, 1.0), most=2)),
    Figure("Relative penalties", "fig. 3", RelativePenalties((0.07, 0.1, 0.2, 0.3, 0.5, 1.0))),
    Figure(
        GEOMETRY,
        "fig. 4 to 7",
        Against([ORDINARY, HARD], TAU, "temperature", ("uniformity", "tolerance")),
        headline=True,
    ),
    Figure(SEPARATION, "fig. 8; supplement, fig. 1 to 7", Separation((ORDINARY, HARD), TAU, "temperature")),
    Figure(ACCURACY, "fig. 9", Against([ORDINARY, HARD], TAU, "temperature", ("linear", "knn"))),
)


def _accuracies(table: str, arm: str) -> PaperTable:
    points = [Where(arm, {TAU: t}) for t in TEMPERATURES]
    return PaperTable(published(f"wang-liu/{table}"), points, [("accuracy", "linear")], titled=False)


PAPER = replace(
    WANG_LIU,
    differs="The paper trains ResNet-18 (ResNet-50 on ImageNet-100) for 200 epochs on whole sets with a memory "
    "bank, and reports the accuracy of a linear layer trained with SGD. At cpu scale ours is a convnet of 100,000 "
    "parameters, 2,000 steps of 128 images, negatives from the batch (study temperature-bank: the bank), and the "
    "exact linear probe. Numbers are not comparable; the trends are what is tested. Geometry is that of the "
    "embeddings, as in the paper; that of the features is in the table of results.",
    tables={
        "Table 1": PaperTable(
            published("wang-liu/table-1"),
            [
                *(Where(ORDINARY, {TAU: t}) for t in REPRESENTATIVE),
                Where(SIMPLE),
                *(Where(HARD, {TAU: t}) for t in REPRESENTATIVE),
                Where(HARD_SIMPLE),
            ],
            [("accuracy", "linear"), ("−uniformity", "uniformity"), ("tolerance", "tolerance")],
        ),
        "Supplement, Table 1: contrastive, accuracy": _accuracies("supplement-table-1", ORDINARY),
        "Supplement, Table 2: hard contrastive, accuracy": _accuracies("supplement-table-2", HARD),
    },
)

STUDY = Study(BASE, ARMS, SCALES, CLAIMS, FIGURES, PAPER, measure=MEASURE)
