"""Does an easy digit suppress the object behind it? (Chen & Li 2021, arXiv:2011.02803, §3)

    isotherm study digits-on-images --scale gate    Imagenette with MNIST digits: can the digits be read at all? minutes
    isotherm study digits-on-images                 the study, estimated at 1¾ hours on two cores

One of n handwritten digits is pasted nine times on every image, before its views are drawn; when judging, all digits
are there. NT-Xent at two temperatures, other batches and projectors, and labels. Expected: with more unique digits the
digit is recognised better and the object worse, whatever the batch or projector; labels are not troubled.

The gate: unless the digit's probe with 60,000 digits is fifteen points above that with one, the digits are too small to
compete and the other claims say nothing. It failed with digits of 14 pixels (28.7 % against 30.4) and, after 1,200
steps, with 20 (50.9 against 40.3); after 3,600 it is passed (61.9 against 45.9; LOG, 2026-11-18).
"""

from dataclasses import replace

from isotherm.experiments.claims.rules import Ahead, Keeps, Loses, Trend
from isotherm.experiments.figures.plots import Against, Family, Several
from isotherm.experiments.papers import CHEN_LI
from isotherm.experiments.sizes import ADAM, LARS, PROJECTOR, SMOKE
from isotherm.experiments.study import Arm, Claim, Figure, Scale, Study, Where

DIGITS = "digits"
COUNTS = (1, 4, 16, 64, 256, 1024, 4096, 60_000)
ALL = 60_000
LOW, HIGH, LABELS = "NT-Xent, τ = 0.1", "NT-Xent, τ = 0.5", "labels"
BATCH, DEPTH = "by batch", "by depth of the projector"

BASE = {"data": "imagenette", **PROJECTOR, **ADAM, "monitor": 0}
_PASTED = {"digit_source": "mnist", "digit_size": 20, "digit_places": "grid", "digit_blend": "sum"}
MEASURE = ("probes", "competing", "objective")
_LOSS = {"method": "simclr", "loss": "NTXentLoss", "loss.temperature": 0.1}
ARMS = (
    Arm(LOW, _LOSS, {DIGITS: COUNTS}),
    Arm(HIGH, {**_LOSS, "loss.temperature": 0.5}, {DIGITS: COUNTS}),
    Arm(LABELS, {"method": "supervised", "head": "none", "views": 1}, {DIGITS: COUNTS}),
    Arm(BATCH, _LOSS, {"batch": (64, 256), DIGITS: (1, 1024, ALL)}),
    Arm(DEPTH, _LOSS, {"head.layers": (1, 3), DIGITS: (1, 1024, ALL)}),
)
_CPU = {
    **_PASTED,
    "data_options": {"size": 72},
    "recipe": "simclr-cifar",
    "size": 56,
    "encoder": "convnet",
    "encoder.widths": [16, 32, 64, 128],
    "encoder.stride": 2,
    "batch": 128,
    "steps": 3600,
}
SCALES = {
    "smoke": Scale(
        "seconds, on the embedded digits: it only shows that everything works",
        {**SMOKE, "data": "digits", "epochs": 1},
        only={DIGITS: (4, 64, 1024), "batch": (64,), "head.layers": (1,)},
    ),
    "gate": Scale(
        "one and all digits, one seed",
        _CPU,
        only={DIGITS: (1, ALL), "batch": (), "head.layers": ()},
    ),
    "cpu": Scale(
        "a small network, 72 pixels, MNIST digits of 20 pixels at nine places, 3,600 steps; three seeds",
        _CPU,
        seeds=3,
        only={DIGITS: (1, 256, ALL), "batch": (64,), "head.layers": (3,)},
    ),
    "paper": Scale(
        "§3.2: ImageNet, ResNet-50, batch 1024, MNIST digits of 28 pixels; GPUs",
        {
            "data": "imagenet",
            "digit_source": "mnist",
            "recipe": "simclr",
            "encoder": "resnet50",
            "head.width": 128,
            **LARS,
            "epochs": 100,
            "batch": 1024,
        },
        seeds=3,
        instead={"linear": "linear_simclr"},
    ),
}

RECOGNISED = "Object and digit against unique digits"
THE_LOSS = "The contrastive loss against unique digits"
OTHERS = "Other batches and projectors"
CLAIMS = (
    Claim(
        "The digits compete: with all of them the digit is recognised fifteen points better than with one.",
        "ours: the gate, without which the others say nothing",
        Ahead("linear_digit", Where(LOW, {DIGITS: ALL}), [Where(LOW, {DIGITS: 1})], least=0.15),
        at=("gate", "cpu", "paper"),
        figure=RECOGNISED,
    ),
    Claim(
        "With more unique digits the digit is recognised better.",
        "§3.2, fig. 5a",
        Trend("linear_digit", LOW, 1, over=DIGITS),
        figure=RECOGNISED,
    ),
    Claim(
        "With more unique digits the object is recognised worse (τ = 0.1).",
        "§3.2, fig. 5a",
        Trend("linear_object", LOW, -1, over=DIGITS),
        figure=RECOGNISED,
    ),
    Claim(
        "And at τ = 0.5.",
        "§3.2, fig. 5a",
        Trend("linear_object", HIGH, -1, over=DIGITS),
        figure=RECOGNISED,
    ),
    Claim(
        "With labels the number of digits takes at most three points.",
        "§3.2, fig. 5b",
        Keeps("linear_object", [Where(LABELS)], DIGITS, most=0.03),
        figure=RECOGNISED,
    ),
    Claim(
        "The contrastive loss itself falls as digits are added.",
        "app. C.2, fig. C.2",
        Trend("loss", LOW, -1, over=DIGITS),
        figure=THE_LOSS,
    ),
    Claim(
        "Neither another batch nor another projector prevents it: each loses at least two points.",
        "app. C.2, fig. C.3 and C.4",
        Loses(
            "linear_object",
            [*(Where(BATCH, {"batch": b}) for b in (64, 256)), *(Where(DEPTH, {"head.layers": n}) for n in (1, 3))],
            DIGITS,
            least=0.02,
        ),
        at=("smoke", "paper"),
        figure=OTHERS,
    ),
    Claim(
        "Neither a smaller batch nor a deeper projector prevents it: each loses at least two points.",
        "app. C.2, fig. C.3 and C.4",
        Loses("linear_object", [Where(BATCH, {"batch": 64}), Where(DEPTH, {"head.layers": 3})], DIGITS, least=0.02),
        at=("cpu",),
        figure=OTHERS,
    ),
)
FIGURES = (
    Figure(
        RECOGNISED,
        "fig. 5",
        Against((LOW, HIGH, LABELS), DIGITS, "unique digits", ("linear_object", "linear_digit"), log_x=True),
        headline=True,
    ),
    Figure(
        THE_LOSS,
        "fig. C.2",
        Against((LOW, HIGH), DIGITS, "unique digits", ("loss",), log_x=True),
    ),
    Figure(
        OTHERS,
        "fig. C.3 and C.4",
        Several(
            [
                Family("linear_object", BATCH, DIGITS, "batch", "unique digits"),
                Family("linear_object", DEPTH, DIGITS, "head.layers", "unique digits"),
            ]
        ),
    ),
)
PAPER = replace(
    CHEN_LI,
    differs="The paper pastes MNIST digits on ImageNet and trains ResNet-50 with batch 1024; it shows images, no "
    "numbers. At cpu scale ours are digits of 20 pixels on Imagenette at 72, where they cover two thirds of the image "
    "(the paper's: a seventh), added to it; a small convnet and Adam. Both probes are taught on images with all "
    "digits: taught with the one that a run learnt from, that of the object is five points lower for it (54.0 and "
    "59.3 % with labels, records/digits-gate-20).",
)

STUDY = Study(BASE, ARMS, SCALES, CLAIMS, FIGURES, PAPER, measure=MEASURE)
