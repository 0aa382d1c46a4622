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
from isotherm.experiments.papers import WANG_LIU
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
        InvertedU("linear", ORDINARY),
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
        Behind("linear", SIMPLE, ORDINARY, by=0.02),
    ),
    Claim(
        "Taking only the nearest negatives repairs the simple loss.",
        "§5.5, Table 1",
        Recovers("linear", HARD_SIMPLE, SIMPLE, ORDINARY, within=0.02),
    ),
    Claim(
        "The simple loss leaves the embedding far from uniform; the hard simple loss does not.",
        "Table 1",
        Recovers("uniformity", HARD_SIMPLE, SIMPLE, ORDINARY, within=0.5, lower=True),
    ),
    Claim(
        "Under the hard loss uniformity hardly depends on the temperature.",
        "§4.2, fig. 6",
        Flatter("uniformity", HARD, ORDINARY),
    ),
    Claim(
        "The hard loss prefers larger temperatures.",
        "§5.3, fig. 9",
        PrefersLarger("linear", HARD, ORDINARY),
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
_TAUS = ("0.07", "0.3", "0.7", "1.0")
PAPER = replace(
    WANG_LIU,
    differs="The paper trains ResNet-18 (ResNet-50 on ImageNet-100) for 200 epochs on whole sets with a memory "
    "bank, and reports the accuracy of a linear layer trained with SGD. At cpu scale ours is a convnet of 240,000 "
    "parameters, few epochs, fewer images, negatives from the batch (study temperature-bank: the bank), and the "
    "exact linear probe. Numbers are not comparable; the trends are what is tested.",
    tables={
        "Table 1": PaperTable(
            [
                "data",
                "measure",
                *(f"contrastive {t}" for t in _TAUS),
                "simple",
                *(f"hard {t}" for t in _TAUS),
                "hard simple",
            ],
            [
                ["CIFAR10", "accuracy", 79.75, 83.27, 82.69, 82.21, 74.83, 79.2, 83.63, 84.19, 84.19, 84.84],
                ["", "−uniformity", 3.86, 3.60, 3.17, 2.96, 1.68, 3.88, 3.89, 3.87, 3.86, 3.85],
                ["", "tolerance", 0.04, 0.178, 0.333, 0.372, 0.61, 0.034, 0.0267, 0.030, 0.030, 0.030],
                ["CIFAR100", "accuracy", 51.82, 56.44, 50.99, 48.33, 39.31, 50.77, 56.55, 57.54, 56.77, 55.71],
                ["", "−uniformity", 3.86, 3.60, 3.18, 2.96, 2.12, 3.87, 3.88, 3.87, 3.86, 3.86],
                ["", "tolerance", 0.10, 0.269, 0.331, 0.343, 0.39, 0.088, 0.124, 0.158, 0.172, 0.174],
                ["SVHN", "accuracy", 92.55, 95.47, 94.17, 92.07, 70.83, 91.82, 94.79, 95.02, 95.26, 94.99],
                ["", "−uniformity", 3.88, 3.65, 3.27, 3.05, 1.50, 3.89, 3.91, 3.90, 3.88, 3.85],
                ["", "tolerance", 0.032, 0.137, 0.186, 0.197, 0.074, 0.025, 0.021, 0.021, 0.023, 0.026],
                ["ImageNet100", "accuracy", 71.53, 75.10, 69.03, 63.57, 48.09, 68.33, 74.21, 74.70, 74.28, 74.31],
                ["", "−uniformity", 3.917, 3.693, 3.323, 3.08, 1.742, 3.929, 3.932, 3.927, 3.923, 3.917],
                ["", "tolerance", 0.093, 0.380, 0.427, 0.456, 0.528, 0.067, 0.096, 0.121, 0.134, 0.157],
            ],
            [
                *(Where(ORDINARY, {TAU: float(t)}) for t in _TAUS),
                Where(SIMPLE),
                *(Where(HARD, {TAU: float(t)}) for t in _TAUS),
                Where(HARD_SIMPLE),
            ],
            [("accuracy", "linear"), ("−uniformity", "uniformity"), ("tolerance", "tolerance")],
        ),
        "Supplement, Table 1: contrastive, accuracy": PaperTable(
            ["data", *map(str, TEMPERATURES)],
            [
                ["CIFAR10", 76.10, 79.75, 81.82, 83.78, 83.27, 83.22, 82.54, 82.97, 82.69, 82.67, 81.97, 82.21],
                ["CIFAR100", 49.80, 51.82, 52.46, 56.05, 56.44, 55.47, 54.17, 53.05, 50.99, 50.08, 50.21, 48.33],
                ["SVHN", 88.96, 92.55, 94.21, 95.46, 95.47, 95.36, 94.66, 94.47, 94.17, 93.22, 92.66, 92.07],
                ["ImageNet100", 63.91, 71.53, 74.59, 75.41, 75.10, 72.98, 71.10, 70.47, 69.03, 67.91, 65.93, 65.49],
            ],
            [Where(ORDINARY, {TAU: t}) for t in TEMPERATURES],
            [("accuracy", "linear")],
            titled=False,
        ),
        "Supplement, Table 2: hard contrastive, accuracy": PaperTable(
            ["data", *map(str, TEMPERATURES)],
            [
                ["CIFAR10", 76.22, 79.20, 80.44, 83.28, 83.63, 84.14, 84.31, 84.60, 84.19, 84.60, 84.45, 84.19],
                ["CIFAR100", 49.21, 50.77, 51.91, 55.61, 56.55, 55.66, 57.37, 57.17, 57.54, 57.15, 56.53, 56.77],
                ["SVHN", 89.07, 91.82, 93.37, 94.58, 94.79, 94.62, 94.93, 95.06, 95.02, 95.03, 95.08, 95.26],
                ["ImageNet100", 61.54, 68.33, 72.10, 74.53, 74.21, 75.04, 74.84, 74.46, 74.70, 74.28, 74.74, 73.78],
            ],
            [Where(HARD, {TAU: t}) for t in TEMPERATURES],
            [("accuracy", "linear")],
            titled=False,
        ),
    },
)

STUDY = Study(BASE, ARMS, SCALES, CLAIMS, FIGURES, PAPER)
