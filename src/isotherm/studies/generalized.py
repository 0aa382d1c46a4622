"""Do all instances of the generalized contrastive loss learn equally good features? (Chen & Li 2021, arXiv:2011.02803)

    isotherm study generalized                      CIFAR-10, all images, 2,000 steps a run: estimated at half an hour

NT-Xent, its decoupled form and the sliced Wasserstein distance to three priors, over the length of training, batch
sizes and depths of the projector. Each loss has the weights and temperature that the paper found best for it. Expected:
with a non-linear projector they are alike, the more so the deeper it is and the longer they train.
"""

from dataclasses import replace

from isotherm.experiments.claims.rules import Alike, Narrower
from isotherm.experiments.figures.plots import Against, Several, Within
from isotherm.experiments.papers import CHEN_LI, published
from isotherm.experiments.sizes import ADAM, LARS, PROJECTOR, SMOKE, THIN
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
STEPS, DEPTHS = (500, 2000), (2, 3)
EPOCHS, BATCHES = (100, 200, 400, 800), (128, 256, 512, 1024)
"""Of the paper's tables."""
BY_TABLE = {name: f"{name}, by epochs and batch" for name in LOSSES}

# Adam's steps do not depend on the scale of a loss, and these differ by a hundred; so do the steps of the paper's LARS.
BASE = {"data": "cifar10", "method": "simclr", **PROJECTOR, **ADAM, "monitor": 0}
MEASURE = ("probes", "geometry")
ARMS = (
    *(Arm(name, loss, {"steps": STEPS}) for name, loss in LOSSES.items()),
    *(Arm(BY_TABLE[name], loss, {"epochs": EPOCHS, "batch": BATCHES}) for name, loss in LOSSES.items()),
    *(Arm(BY_DEPTH[name], loss, {"head.layers": DEPTHS}) for name, loss in LOSSES.items()),
)
SCALES = {
    "smoke": Scale(
        "seconds, to see that everything works",
        {**SMOKE, "data": "digits"},
        only={"epochs": (), "steps": ()},
    ),
    "cpu": Scale(
        "a small network, all images, 2,000 steps (and 500); three seeds",
        {"steps": 2000},
        seeds=3,
        only={"epochs": ()},
        data=THIN,
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
        instead={"linear": "linear_simclr"},
        only={"steps": ()},
    ),
}

LENGTH = "Accuracy against the length of training"
DEPTH = "Accuracy against the depth of the projector"
CLAIMS = (
    Claim(
        "With a projector of two layers all five losses are within three points of each other.",
        "§2.2, fig. 2a, Table D.1",
        Alike("linear", [Where(name, {"head.layers": 2}) for name in BY_DEPTH.values()], within=0.03),
        figure=DEPTH,
    ),
    Claim(
        "With three layers they are, too.",
        "§2.2, fig. 2c, Table D.3",
        Alike("linear", [Where(name, {"head.layers": 3}) for name in BY_DEPTH.values()], within=0.03),
        figure=DEPTH,
    ),
    Claim(
        "With three layers they are more alike than with two.",
        "§2.2, fig. 2b and c",
        Narrower("linear", list(BY_DEPTH.values()), "head.layers", values=(2, 3)),
        figure=DEPTH,
    ),
    Claim(
        "Longer training makes the losses more alike.",
        "§2.2, Table D.1",
        Narrower("linear", list(LOSSES), "steps"),
        at=("cpu",),
        figure=LENGTH,
    ),
    Claim(
        "Longer training makes the losses more alike (batch 128).",
        "§2.2, Table D.1",
        Narrower("linear", list(BY_TABLE.values()), "epochs", fixed={"batch": 128}),
        at=("paper",),
        figure=LENGTH,
    ),
)
FIGURES = (
    Figure(
        LENGTH,
        "fig. 2",
        Several(
            [
                Against(list(LOSSES), "steps", "steps", ("linear",)),
                Within({"batch": 128}, Against(list(BY_TABLE.values()), "epochs", "epochs", ("linear",))),
            ]
        ),
        headline=True,
    ),
    Figure(
        DEPTH,
        "fig. 2",
        Against(list(BY_DEPTH.values()), "head.layers", "layers of the projector", ("linear",)),
    ),
)
COMPARE = (Comparison(f"{NTXENT}, by depth", "linear", list(BY_DEPTH.values())[1:]),)


def _table(name: str, layers: int) -> PaperTable:
    """Our columns are the losses; the paper's rows its batch sizes at 100 to 800 epochs."""
    points = [Where(BY_DEPTH[loss], {"head.layers": layers}) for loss in LOSSES]
    return PaperTable(published(f"chen-li/{name}"), points, [("linear", "linear")], titled=False)


PAPER = replace(
    CHEN_LI,
    differs="The paper trains ResNet-50 for 100 to 800 epochs with LARS and an unstated learning rate. At cpu scale "
    "ours is a small convnet, 2,000 steps, Adam with one rate for all losses, the exact linear probe.",
    tables={
        "Table D.1 (CIFAR-10, two layers)": _table("table-d1", 2),
        "Table D.2 (ImageNet, two layers)": _table("table-d2", 2),
        "Table D.3 (ImageNet, three layers)": _table("table-d3", 3),
    },
)

STUDY = Study(BASE, ARMS, SCALES, CLAIMS, FIGURES, PAPER, measure=MEASURE, compare=COMPARE)
