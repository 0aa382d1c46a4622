"""Does more weight on the distribution do what a lower temperature does? (Chen & Li 2021, arXiv:2011.02803, §2.3)

    isotherm study tau-lambda                       CIFAR-10, all images, 1,200 steps a run: estimated at an hour

Decoupled NT-Xent over a grid of temperatures τ and weights λ; NT-Xent over τ, the sliced Wasserstein distance over λ.
Expected: projections of the embedding become more Gaussian as τ falls or λ grows; accuracy is best along a ridge.
"""

from dataclasses import replace

from isotherm.experiments.claims.rules import Trend, TrendEverywhere, Tunable
from isotherm.experiments.figures.plots import Grid, Projection
from isotherm.experiments.papers import CHEN_LI
from isotherm.experiments.sizes import ADAM, LARS, PROJECTOR, SMOKE, THIN
from isotherm.experiments.study import Arm, Claim, Figure, Scale, Study

TAU, LAMBDA = "loss.temperature", "loss.weight"
DECOUPLED, NTXENT, SWD = "decoupled NT-Xent", "NT-Xent", "SWD (hypersphere)"
TAUS, LAMBDAS = (0.05, 0.1, 0.2, 0.5, 1.0), (0.01, 0.03, 0.1, 0.3, 1.0)
WEIGHTS = (0.2, 1.0, 5.0, 25.0)

# Adam: the size of these losses' gradients changes with τ and λ, and the size of its steps must not.
BASE = {"data": "cifar10", "method": "simclr", **PROJECTOR, **ADAM, "monitor": 0}
MEASURE = ("probes", "geometry", "gaussian")
ARMS = (
    Arm(DECOUPLED, {"loss": "DecoupledNTXentLoss"}, {TAU: TAUS, LAMBDA: LAMBDAS}),
    Arm(NTXENT, {"loss": "NTXentLoss"}, {TAU: TAUS}),
    Arm(SWD, {"loss": "GeneralizedContrastiveLoss", "loss.prior": "hypersphere"}, {LAMBDA: WEIGHTS}),
)
SCALES = {
    "smoke": Scale(
        "seconds, to see that everything works",
        {**SMOKE, "data": "digits", "epochs": 1},
        only={TAU: (0.1, 1.0), LAMBDA: (0.1, 1.0, 5.0)},
    ),
    "cpu": Scale("a small network, all images, 1,200 steps; three seeds", {"steps": 1200}, seeds=3, data=THIN),
    "paper": Scale(
        "app. A: ResNet-18, 200 epochs; a GPU",
        {
            "data": "cifar10",
            "recipe": "simclr-cifar",
            "encoder": "resnet18",
            **LARS,
            "epochs": 200,
            "batch": 128,
        },
        seeds=3,
        instead={"linear": "linear_simclr"},
    ),
}

GRID = "Accuracy over temperature and weight"
OF_NTXENT = "One projection of the embedding, NT-Xent"
OF_SWD = "One projection of the embedding, SWD"
CLAIMS = (
    Claim(
        "Projections become more Gaussian as the temperature of NT-Xent falls.",
        "§2.3, fig. 3",
        Trend("prior_distance", NTXENT, 1),
        figure=OF_NTXENT,
    ),
    Claim(
        "Projections become more Gaussian as the weight of the sliced Wasserstein distance grows.",
        "§2.3, fig. 3",
        Trend("prior_distance", SWD, -1, over=LAMBDA),
        figure=OF_SWD,
    ),
    Claim(
        "Decoupled, raising λ does what lowering τ does: at most temperatures more Gaussian with λ.",
        "§2.3, app. A",
        TrendEverywhere("prior_distance", DECOUPLED, LAMBDA, TAU, -1),
        figure=GRID,
    ),
    Claim(
        "And at most weights less Gaussian with τ.",
        "§2.3, app. A",
        TrendEverywhere("prior_distance", DECOUPLED, TAU, LAMBDA, 1),
        figure=GRID,
    ),
    Claim(
        "Either can be fixed and the other tuned: at every τ the best λ is within a point of the best of all.",
        "app. A, fig. A.1",
        Tunable("linear", DECOUPLED, LAMBDA, TAU, within=0.01),
        figure=GRID,
    ),
)
FIGURES = (
    Figure(
        GRID,
        "fig. A.1",
        Grid(DECOUPLED, TAU, LAMBDA, ("linear", "prior_distance")),
        headline=True,
    ),
    Figure(OF_NTXENT, "fig. 3", Projection(NTXENT, TAU, "τ")),
    Figure(OF_SWD, "fig. 3", Projection(SWD, LAMBDA, "λ")),
)
PAPER = replace(
    CHEN_LI,
    differs="The paper trains ResNet-18 for 200 epochs on CIFAR-10 and shows its grid as an image without numbers; "
    "the values of its grid are not stated, ours are our own. At cpu scale ours is a small convnet and Adam.",
)

STUDY = Study(BASE, ARMS, SCALES, CLAIMS, FIGURES, PAPER, measure=MEASURE)
