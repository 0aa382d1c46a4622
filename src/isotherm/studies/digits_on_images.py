"""Does an easy digit suppress the object behind it? (Chen & Li 2021, arXiv:2011.02803, §3)

    isotherm study digits-on-images                 5,000 CIFAR-10 images, about ten minutes on two cores

One of n handwritten digits is pasted nine times on every image, before its views are drawn; when judging, all digits
are there. NT-Xent at two temperatures, other batches and projectors, and labels. Expected: with more unique digits the
digit is recognised better and the object worse, whatever the batch or projector; labels are not troubled.
"""

from dataclasses import replace

from isotherm.experiments.claims.rules import Keeps, Loses, Trend
from isotherm.experiments.figures.plots import Against, Family
from isotherm.experiments.papers import CHEN_LI
from isotherm.experiments.sizes import ADAM, LARS, QUICK, SMOKE
from isotherm.experiments.study import Arm, Claim, Figure, Scale, Study, Where

DIGITS = "digits"
COUNTS = (1, 4, 16, 64, 256, 1024)
LOW, HIGH, LABELS = "NT-Xent, τ = 0.1", "NT-Xent, τ = 0.5", "labels"
BATCH, DEPTH = "by batch", "by depth of the projector"

BASE = {"data": "cifar10", **ADAM, "monitor": 0}
MEASURE = ("probes", "competing", "objective")
_LOSS = {"method": "simclr", "loss": "NTXentLoss", "loss.temperature": 0.1}
ARMS = (
    Arm(LOW, _LOSS, {DIGITS: COUNTS}),
    Arm(HIGH, {**_LOSS, "loss.temperature": 0.5}, {DIGITS: COUNTS}),
    Arm(LABELS, {"method": "supervised", "head": "none", "views": 1}, {DIGITS: COUNTS}),
    Arm(BATCH, _LOSS, {"batch": (64, 256), DIGITS: (1, 1024)}),
    Arm(DEPTH, _LOSS, {"head.layers": (1, 3), DIGITS: (1, 1024)}),
)
SCALES = {
    "smoke": Scale(
        "seconds, on the embedded digits: it only shows that everything works",
        {**SMOKE, "data": "digits", "epochs": 1},
        only={DIGITS: (4, 64, 1024), "batch": (64,), "head.layers": (1,)},
    ),
    "cpu": Scale(
        "a small network, one seed",
        {"epochs": 15},
        only={DIGITS: (1, 4, 16, 64, 1024)},
        data=QUICK,
    ),
    "paper": Scale(
        "§3.2: ImageNet, ResNet-50, batch 1024; GPUs",
        {
            "data": "imagenet",
            "recipe": "simclr",
            "encoder": "resnet50",
            "head": "simclr",
            **LARS,
            "epochs": 100,
            "batch": 1024,
        },
    ),
}
CLAIMS = (
    Claim(
        "With more unique digits the digit is recognised better.",
        "§3.2, fig. 5a",
        Trend("linear_digit", LOW, 1, over=DIGITS),
    ),
    Claim(
        "With more unique digits the object is recognised worse (τ = 0.1).",
        "§3.2, fig. 5a",
        Trend("linear", LOW, -1, over=DIGITS),
    ),
    Claim(
        "And at τ = 0.5.",
        "§3.2, fig. 5a",
        Trend("linear", HIGH, -1, over=DIGITS),
    ),
    Claim(
        "With labels the number of digits takes at most three points.",
        "§3.2, fig. 5b",
        Keeps("linear", [Where(LABELS)], DIGITS, most=0.03),
    ),
    Claim(
        "The contrastive loss itself falls as digits are added.",
        "app. C.2, fig. C.2",
        Trend("loss", LOW, -1, over=DIGITS),
    ),
    Claim(
        "Neither another batch nor another projector prevents it: each loses at least two points.",
        "app. C.2, fig. C.3 and C.4",
        Loses(
            "linear",
            [*(Where(BATCH, {"batch": b}) for b in (64, 256)), *(Where(DEPTH, {"head.layers": n}) for n in (1, 3))],
            DIGITS,
            least=0.02,
        ),
    ),
)
FIGURES = (
    Figure(
        "Object and digit against unique digits",
        "fig. 5",
        Against((LOW, HIGH, LABELS), DIGITS, "unique digits", ("linear", "linear_digit"), log_x=True),
    ),
    Figure(
        "The contrastive loss against unique digits",
        "fig. C.2",
        Against((LOW, HIGH), DIGITS, "unique digits", ("loss",), log_x=True),
    ),
    Figure("Other batches", "fig. C.3", Family("linear", BATCH, DIGITS, "batch", "unique digits")),
    Figure("Other projectors", "fig. C.4", Family("linear", DEPTH, DIGITS, "head.layers", "unique digits")),
)
PAPER = replace(
    CHEN_LI,
    differs="The paper pastes MNIST digits on ImageNet and trains ResNet-50 with batch 1024; it shows images, no "
    "numbers. Ours at cpu scale are the embedded 8 × 8 digits on 32 × 32 images, a small convnet and Adam.",
)

STUDY = Study(BASE, ARMS, SCALES, CLAIMS, FIGURES, PAPER, measure=MEASURE)
