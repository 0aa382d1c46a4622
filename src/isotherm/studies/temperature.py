"""How does the temperature shape a contrastive embedding? (Wang & Liu 2021, arXiv:2012.09740)

    isotherm study temperature                      digits, about two minutes on two cores
    isotherm study temperature --data cifar10       5,000 images, about an hour
    isotherm study temperature-bank                 the same with a memory bank, the paper's own setting

The ordinary and the hard contrastive loss over twelve temperatures, the simple loss, the hard simple loss and the limit
of temperature zero. Expected: with the temperature uniformity falls and tolerance rises, accuracy has its best in
between; the simple loss is far behind, and taking only the nearest negatives repairs it and makes the temperature
nearly irrelevant for uniformity.
"""

from dataclasses import replace

from isotherm.experiments.claims.rules import Behind, Flatter, InvertedU, PrefersLarger, Recovers, Trend
from isotherm.experiments.figures.plots import Against, Maps, RelativePenalties, Separation
from isotherm.experiments.papers import WANG_LIU, published
from isotherm.experiments.sizes import BY_DATA, SMOKE
from isotherm.experiments.study import Arm, Claim, Figure, PaperTable, Scale, Study, Where

TEMPERATURES = (0.05, 0.07, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
REPRESENTATIVE = (0.07, 0.3, 0.7, 1.0)
"""Those of the paper's Table 1."""
OTHERS = tuple(t for t in TEMPERATURES if t not in REPRESENTATIVE)
TAU = "loss.temperature"
ORDINARY, HARD, SIMPLE, HARD_SIMPLE, LIMIT = "contrastive", "hard contrastive", "simple", "hard simple", "τ → 0"

BASE = {"method": "simclr", "monitor": 0}
ARMS = (
    Arm(ORDINARY, {"loss": "NTXentLoss"}, {TAU: TEMPERATURES}),
    Arm(HARD, {"loss": "HardContrastiveLoss", "loss.alpha": 0.0819}, {TAU: TEMPERATURES}),
    Arm(SIMPLE, {"loss": "SimpleContrastiveLoss"}),
    Arm(HARD_SIMPLE, {"loss": "HardSimpleLoss", "loss.alpha": 0.0819}),
    Arm(LIMIT, {"loss": "TripletLimitLoss"}),
)
SCALES = {
    "smoke": Scale(
        "seconds, to see that everything works",
        SMOKE,
        only={TAU: (0.07, 0.3, 1.0)},
    ),
    "cpu": Scale(
        "a small network; three seeds at representative temperatures, one at the others",
        {"epochs": 20},
        seeds=3,
        once={TAU: OTHERS},
        data={**BY_DATA, "digits": {**BY_DATA["digits"], "epochs": 20}},  # `make demo`: under three minutes
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
        data={"cifar10": {"normalize": "cifar10"}, "cifar100": {"normalize": "cifar100"}},
        instead={"linear": "linear_wang_liu"},
    ),
}
CLAIMS = (
    Claim(
        "Uniformity is lost as the temperature rises (ordinary loss).",
        "§4.1, fig. 4",
        Trend("uniformity", ORDINARY, 1),
    ),
    Claim(
        "Tolerance of items of the same class grows with the temperature.",
        "§4.1, fig. 5",
        Trend("tolerance", ORDINARY, 1),
    ),
    Claim(
        "Accuracy against temperature is an inverted U.",
        "§5.3, fig. 9",
        InvertedU("linear", ORDINARY, least=0.01),
    ),
    Claim(
        "Positives and nearest negatives are further apart at small temperature.",
        "§5.2, fig. 8 (1)",
        Trend("separation", ORDINARY, -1),
    ),
    Claim(
        "Positives align closer to 1 as the temperature grows.",
        "§5.2, fig. 8 (2)",
        Trend("positive_similarity", ORDINARY, 1),
    ),
    Claim(
        "The simple loss is far behind the contrastive loss.",
        "§5.5, Table 1",
        Behind("linear", SIMPLE, ORDINARY, least=0.02),
    ),
    Claim(
        "Taking only the nearest negatives repairs the simple loss.",
        "§5.5, Table 1",
        Recovers("linear", HARD_SIMPLE, SIMPLE, ORDINARY, least=0.02),
    ),
    Claim(
        "The simple loss leaves the embedding far from uniform; the hard simple loss does not.",
        "Table 1",
        Recovers("uniformity", HARD_SIMPLE, SIMPLE, ORDINARY, least=0.5, lower=True),
    ),
    Claim(
        "Under the hard loss uniformity hardly depends on the temperature.",
        "§4.2, fig. 6",
        Flatter("uniformity", HARD, ORDINARY),
    ),
    Claim(
        "The hard loss prefers larger temperatures.",
        "§5.3, fig. 9",
        PrefersLarger("linear", HARD, ORDINARY, least=0.01),
    ),
)
FIGURES = (
    Figure("t-SNE of the embedding at two temperatures", "fig. 2", Maps(ORDINARY, TAU, (0.07, 0.2, 0.3, 1.0), most=2)),
    Figure("Relative penalties", "fig. 3", RelativePenalties((0.07, 0.1, 0.2, 0.3, 0.5, 1.0))),
    Figure(
        "Uniformity and tolerance, ordinary loss",
        "fig. 4 and 5",
        Against([ORDINARY], TAU, "temperature", ("uniformity", "tolerance")),
    ),
    Figure(
        "Uniformity and tolerance, hard loss",
        "fig. 6 and 7",
        Against([ORDINARY, HARD], TAU, "temperature", ("uniformity", "tolerance")),
    ),
    Figure("Local separation", "fig. 8; supplement, fig. 1 to 7", Separation((ORDINARY, HARD), TAU, "temperature")),
    Figure("Accuracy against temperature", "fig. 9", Against([ORDINARY, HARD], TAU, "temperature", ("linear", "knn"))),
)


def _accuracies(table: str, arm: str) -> PaperTable:
    points = [Where(arm, {TAU: t}) for t in TEMPERATURES]
    return PaperTable(published(f"wang-liu/{table}"), points, [("accuracy", "linear")], titled=False)


PAPER = replace(
    WANG_LIU,
    differs="The paper trains ResNet-18 (ResNet-50 on ImageNet-100) for 200 epochs on whole sets with a memory "
    "bank, and reports the accuracy of a linear layer trained with SGD. At cpu scale ours is a convnet of 240,000 "
    "parameters, few epochs, fewer images, negatives from the batch (study temperature-bank: the bank), and the "
    "exact linear probe. Numbers are not comparable; the trends are what is tested.",
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

STUDY = Study(BASE, ARMS, SCALES, CLAIMS, FIGURES, PAPER)
