"""Does a VAE keep what an image shows beside random bits? (Chen & Li 2021, arXiv:2011.02803, app. C.1)

    isotherm study randbit-vae                      MNIST, 10,000 images, 1,000 steps a run: estimated at an hour

A VAE, the authors' MNIST network mirrored, in two sizes, learns images with added RandBit planes. Each plane is as many
pixels as the image, so ten bits are ten elevenths of its likelihood. Once it is trained like that, once with a plane
that weighs as much as one pixel. Expected: the paper says that the bits have little effect on the linear accuracy, and
does not say how its planes weigh.
"""

from dataclasses import replace

from isotherm.experiments.claims.rules import Ahead, Every, Keeps
from isotherm.experiments.figures.plots import Against
from isotherm.experiments.papers import CHEN_LI
from isotherm.experiments.study import Arm, Claim, Figure, Scale, Study, Where

BITS = "randbit"
OVER = {BITS: (0, 5, 10, 15)}
_NETWORK = {"encoder": "vae", "encoder.bn": True, "encoder.padding": 0}
_ONE = {**_NETWORK, "encoder.widths": [32, 64, 64], "encoder.hidden": 128}
_TWO = {**_NETWORK, "encoder.widths": [64, 128, 128], "encoder.hidden": 256, "encoder.width": 128}
SIZES = {"": _ONE, ", double": _TWO}
WEIGHTS = {"a plane weighs as an image": 1.0, "a plane weighs one pixel": "area"}
FULL, AREA = ([f"VAE{size}, {weight}" for size in SIZES] for weight in WEIGHTS)

BASE = {
    "data": "mnist",
    "method": "vae",
    "head": "none",
    "recipe": "none",
    "views": 1,
    "optimizer": "adam",
    "lr": 0.001,
    "weight_decay": 0.0,
    "monitor": 0,
}
MEASURE = ("probes", "competing")
ARMS = tuple(
    Arm(f"VAE{size}, {weight}", {**network, "method.plane_weight": value}, OVER)
    for weight, value in WEIGHTS.items()
    for size, network in SIZES.items()
)
SCALES = {
    "smoke": Scale(
        "seconds, to see that everything works",
        {"images": 200, "steps": 3, "batch": 50, "data": "digits"},
        only={BITS: (0, 10)},
        adjust=lambda settings: {"encoder.padding": 1},  # the digits are small
    ),
    "cpu": Scale("10,000 images, 1,000 steps; three seeds", {"images": 10_000, "steps": 1000, "batch": 128}, seeds=3),
    "paper": Scale("all of MNIST, 100 epochs", {"epochs": 100, "batch": 1000}, seeds=3),
}


def _ten(name: str) -> Where:
    return Where(name, {BITS: 10})


AGAINST_BITS = "Accuracy, and how well the bits can be read"
CLAIMS = (
    Claim(
        "The bits have little effect on the VAE: at most five points of linear accuracy (a plane weighs as an image).",
        "app. C.1, fig. C.1b",
        Keeps("linear", [Where(name) for name in FULL], BITS, most=0.05),
        figure=AGAINST_BITS,
    ),
    Claim(
        "They have if a plane weighs one pixel.",
        "app. C.1, fig. C.1b; the weight is ours",
        Keeps("linear", [Where(name) for name in AREA], BITS, most=0.05),
        figure=AGAINST_BITS,
    ),
    Claim(
        "Such a VAE does not store the bits: ten of them are read from it ten points worse than from the other.",
        "ours: what the second claim is worth",
        Every(
            [Ahead("linear_bits", _ten(full), [_ten(area)], least=0.1) for full, area in zip(FULL, AREA, strict=True)]
        ),
        figure=AGAINST_BITS,
    ),
)
FIGURES = (
    Figure(
        AGAINST_BITS,
        "fig. C.1b",
        Against((*FULL, *AREA), BITS, "added bits", ("linear", "linear_bits")),
        headline=True,
    ),
)
PAPER = replace(
    CHEN_LI,
    differs="The paper says that it is a VAE, on MNIST, averaged over model sizes. The network is that of the authors' "
    "notebook, mirrored; likelihood, weights and steps are ours.",
)

STUDY = Study(BASE, ARMS, SCALES, CLAIMS, FIGURES, PAPER, measure=MEASURE)
