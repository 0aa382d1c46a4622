"""Do all instances of the generalized contrastive loss learn equally good features? (Chen & Li 2021, arXiv:2011.02803)

    isotherm study generalized                      digits, about two minutes on two cores
    isotherm study generalized --data cifar10       5,000 images

NT-Xent, its decoupled form and the sliced Wasserstein distance to three priors, over epochs, batch sizes and depths of
the projector. Each loss has the weights and temperature that the paper found best for it. Expected: with a non-linear
projector they are alike, the more so the longer they train.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from isotherm.experiments.claims.rules import Alike, Narrower
from isotherm.experiments.figures.plots import Against, Within
from isotherm.experiments.papers import CHEN_LI
from isotherm.experiments.sizes import ADAM, LARS, QUICK, SMOKE
from isotherm.experiments.study import Arm, Claim, Comparison, Figure, PaperTable, Scale, Study, Where

NTXENT, DECOUPLED = "NT-Xent", "decoupled NT-Xent"
NORMAL, CUBE, SPHERE = "SWD (normal)", "SWD (hypercube)", "SWD (hypersphere)"
LOSSES = {
    NTXENT: {"loss": "NTXentLoss", "loss.temperature": 0.2},
    DECOUPLED: {"loss": "DecoupledNTXentLoss", "loss.temperature": 1.0, "loss.weight": 0.1},
    NORMAL: {"loss": "GeneralizedContrastiveLoss", "loss.prior": "normal", "loss.weight": 5.0},
    CUBE: {"loss": "GeneralizedContrastiveLoss", "loss.prior": "hypercube", "loss.weight": 5.0},
    SPHERE: {"loss": "GeneralizedContrastiveLoss", "loss.prior": "hypersphere", "loss.weight": 5.0},
}
BY_DEPTH = {name: f"{name}, by depth" for name in LOSSES}
EPOCHS, BATCHES, DEPTHS = (2, 5, 8, 15, 24, 100, 200, 400, 800), (100, 128, 256, 512, 1024), (1, 2, 3)

# Adam's steps do not depend on the scale of a loss, and these differ by a hundred; so do the steps of the paper's LARS.
BASE = {
    "method": "simclr",
    "head": "dystress",
    "head.width": 64,
    **ADAM,
    "monitor": 0,
}
MEASURE = ("probes", "geometry")
ARMS = (
    *(Arm(name, loss, {"epochs": EPOCHS, "batch": BATCHES}) for name, loss in LOSSES.items()),
    *(Arm(BY_DEPTH[name], loss, {"head.layers": DEPTHS}) for name, loss in LOSSES.items()),
)
SCALES = {
    "smoke": Scale(
        "seconds, to see that everything works",
        SMOKE,
        only={"epochs": (2,), "batch": (100,), "head.layers": (1, 2)},
    ),
    "cpu": Scale(
        "a small network; three seeds for the longest training and for the depths, one for other batches and epochs",
        {"epochs": 15},
        seeds=3,
        only={"epochs": (2, 8), "batch": (128, 512)},
        once={"epochs": (2,), "batch": (512,), "head.layers": (1,)},
        data=QUICK,
    ),
    "paper": Scale(
        "§2.1, app. D: ResNet-50, 100 to 800 epochs; a GPU",
        {
            "data": "cifar10",
            "recipe": "simclr-cifar",
            "encoder": "resnet50",
            **LARS,
            "epochs": 400,
            "batch": 128,
        },
        seeds=3,
        only={"epochs": (100, 200, 400, 800), "batch": (128, 256, 512, 1024)},
    ),
}
CLAIMS = (
    Claim(
        "With a projector of two layers all five losses are within three points of each other.",
        "§2.2, fig. 2a, Table D.1",
        Alike("linear", [Where(name, {"head.layers": 2}) for name in BY_DEPTH.values()], within=0.03),
    ),
    Claim(
        "With three layers they are, too.",
        "§2.2, fig. 2c, Table D.3",
        Alike("linear", [Where(name, {"head.layers": 3}) for name in BY_DEPTH.values()], within=0.03),
    ),
    Claim(
        "A deeper projector makes the losses more alike than a linear one.",
        "§2.2, fig. 2b and c",
        Narrower("linear", list(BY_DEPTH.values()), "head.layers"),
    ),
    Claim(
        "Longer training makes the losses more alike.",
        "§2.2, Table D.1",
        Narrower("linear", list(LOSSES), "epochs", fixed={"batch": 128}),
    ),
)
FIGURES = (
    Figure(
        "Accuracy against epochs",
        "fig. 2",
        Within({"batch": 128}, Against(list(LOSSES), "epochs", "epochs", ("linear",))),
    ),
    Figure(
        "Accuracy against the depth of the projector",
        "fig. 2",
        Against(list(BY_DEPTH.values()), "head.layers", "layers of the projector", ("linear",)),
    ),
)
COMPARE = (Comparison(f"{NTXENT}, by depth", "linear", list(BY_DEPTH.values())[1:]),)
_PRINTED = {
    NTXENT: ((87.4, 91.0, 93.0, 93.9), (88.0, 91.3, 93.0, 93.6), (87.9, 91.3, 92.9, 93.7), (88.2, 91.2, 92.7, 93.3)),
    DECOUPLED: ((87.8, 91.0, 93.0, 94.0), (87.7, 91.1, 92.8, 93.6), (87.5, 91.3, 92.7, 93.6), (87.5, 91.0, 92.6, 93.7)),
    NORMAL: ((86.3, 90.5, 92.8, 93.8), (86.2, 90.8, 93.1, 94.1), (85.0, 90.7, 92.9, 94.1), (83.3, 89.9, 93.0, 93.9)),
    CUBE: ((85.1, 90.1, 92.6, 93.4), (84.6, 89.9, 92.9, 93.8), (83.1, 89.8, 92.8, 93.8), (81.3, 88.3, 92.2, 93.6)),
    SPHERE: ((87.0, 90.9, 92.9, 93.8), (87.1, 90.9, 92.5, 93.7), (86.6, 90.8, 92.9, 93.4), (86.0, 90.3, 92.5, 93.2)),
}
"""Table D.1: CIFAR-10, ResNet-50; batches 128 to 1024, epochs 100 to 800."""
_LARGE = {
    NTXENT: ((65.4, 67.3, 68.7, 69.3), (65.6, 67.6, 68.8, 69.8), (65.3, 67.6, 69.0, 70.1)),
    DECOUPLED: ((65.8, 67.6, 68.9, 69.5), (66.0, 67.9, 69.0, 70.1), (65.8, 67.9, 69.3, 70.2)),
    NORMAL: ((64.9, 66.8, 68.0, 69.0), (65.0, 67.1, 68.2, 69.3), (65.0, 66.9, 68.4, 69.7)),
    CUBE: ((64.3, 66.4, 67.8, 68.7), (64.2, 66.5, 67.9, 68.9), (63.9, 66.6, 67.9, 69.0)),
    SPHERE: ((65.6, 67.7, 69.0, 70.0), (65.8, 67.9, 69.0, 69.6), (65.6, 67.8, 69.2, 69.8)),
}
"""Table D.2: ImageNet, two layers; batches 512 to 2048."""
_DEEP = {
    NTXENT: ((66.6, 68.4, 70.0, 71.0), (66.8, 68.9, 70.1, 70.9), (66.8, 69.1, 70.4, 71.3)),
    DECOUPLED: ((66.8, 68.4, 69.6, 70.6), (66.6, 68.9, 69.9, 70.8), (66.6, 69.0, 70.1, 70.8)),
    NORMAL: ((66.5, 68.4, 69.8, 70.8), (66.6, 68.8, 70.1, 71.1), (66.7, 69.1, 70.2, 71.1)),
    CUBE: ((66.1, 68.3, 69.7, 70.7), (66.3, 68.5, 70.0, 71.3), (65.8, 68.2, 70.1, 71.1)),
    SPHERE: ((66.5, 68.3, 69.5, 70.5), (66.6, 68.6, 69.8, 70.8), (66.5, 68.7, 70.2, 70.9)),
}
"""Table D.3: ImageNet, three layers."""


def _table(printed: Mapping[str, Sequence[Sequence[float]]], batches: tuple[int, ...], layers: int) -> PaperTable:
    """Our columns are the losses; the paper's rows its batch sizes at 100 to 800 epochs."""
    points = [Where(BY_DEPTH[name], {"head.layers": layers}) for name in LOSSES]
    rows = [
        [f"batch {batch}, {epochs} epochs", *(printed[name][i][j] for name in LOSSES)]
        for i, batch in enumerate(batches)
        for j, epochs in enumerate((100, 200, 400, 800))
    ]
    return PaperTable(["", *LOSSES], rows, points, [("linear", "linear")], titled=False)


PAPER = replace(
    CHEN_LI,
    differs="The paper trains ResNet-50 for 100 to 800 epochs with LARS and an unstated learning rate. At cpu scale "
    "ours is a small convnet, few epochs, fewer images, Adam with one rate for all losses, the exact linear probe.",
    tables={
        "Table D.1 (CIFAR-10, two layers)": _table(_PRINTED, (128, 256, 512, 1024), 2),
        "Table D.2 (ImageNet, two layers)": _table(_LARGE, (512, 1024, 2048), 2),
        "Table D.3 (ImageNet, three layers)": _table(_DEEP, (512, 1024, 2048), 3),
    },
)

STUDY = Study(BASE, ARMS, SCALES, CLAIMS, FIGURES, PAPER, measure=MEASURE, compare=COMPARE)
