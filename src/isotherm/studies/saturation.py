"""After how many bits does a distribution loss stop asking for more? (Chen & Li 2021, arXiv:2011.02803, app. B)

    isotherm study saturation                       needs no data; not timed yet (--plan)

Images of k constant binary channels hold k bits. LogSumExp (several temperatures) and the sliced Wasserstein distance
are trained on them without augmentation, so that nothing is left to align. Expected: the loss falls over the first few
bits and hardly after; later for larger batches.
"""

from dataclasses import replace

from isotherm.experiments.claims.rules import Later, Saturates
from isotherm.experiments.figures.plots import Family, Several, Within
from isotherm.experiments.papers import CHEN_LI
from isotherm.experiments.study import Arm, Claim, Figure, Scale, Study, Where

BITS, TAU = "data_options.bits", "loss.temperature"
KS, TAUS, BATCHES = (1, 2, 3, 4, 6, 8, 11, 16), (0.1, 0.3, 1.0), (64, 256, 1024)
LSE, SWD = "LogSumExp", "SWD (hypersphere)"
SHARE = 0.9
"""Of the whole fall of the loss: where it is over."""
TIMES = 5.0
"""So much faster does a loss that saturates fall over the first third of the bits than over the last."""

BASE = {
    "data": "k-bit",
    "data_options.size": 4,
    "data_options.count": 1 << 17,  # so many hold 16 bits but for a tenth of one
    "recipe": "none",
    "method": "simclr",
    "head": "simclr",
    "head.width": 64,
    "optimizer": "adam",
    "lr": 0.002,
    "weight_decay": 0.0,
    "monitor": 0,
}
MEASURE = ("objective", "geometry")
ARMS = (
    Arm(
        LSE,
        {"loss": "GeneralizedContrastiveLoss", "loss.distribution": "lse", "loss.weight": 1.0, "loss.scale": 1.0},
        {TAU: TAUS, "batch": BATCHES, BITS: KS},
    ),
    Arm(
        SWD,
        {"loss": "GeneralizedContrastiveLoss", "loss.distribution": "swd", "loss.weight": 1.0},
        {"batch": BATCHES, BITS: KS},
    ),
)
SCALES = {
    "smoke": Scale(
        "seconds, to see that everything works",
        {"steps": 20, "encoder": "convnet", "encoder.widths": [16]},
        only={BITS: (1, 4, 8), TAU: (0.3,), "batch": (256, 1024)},
    ),
    "cpu": Scale(
        "a small network on 4 × 4 images, 400 steps; three seeds",
        {"steps": 400, "encoder": "convnet", "encoder.widths": [64]},
        seeds=3,
    ),
    "paper": Scale(
        "app. B: ResNet-18, 32 × 32 images, 400 epochs; a GPU",
        {"data_options.size": 32, "encoder": "resnet18", "head": "simclr-code", "head.width": 64, "epochs": 400},
        seeds=3,
    ),
}

OF_LSE = "The loss against bits, LogSumExp"
OF_SWD = "The loss against bits, SWD"
CLAIMS = (
    Claim(
        "LogSumExp saturates with a few bits: over the last third of the range it falls at most a fifth as fast as "
        "over the first (τ = 0.3 and 1).",
        "app. B, fig. B.1",
        Saturates("loss", [Where(LSE, {TAU: t, "batch": b}) for t in TAUS[1:] for b in BATCHES], BITS, TIMES),
        figure=OF_LSE,
    ),
    Claim(
        "It does at τ = 0.1, too.",
        "ours: the paper does not say at which temperature its figure is",
        Saturates("loss", [Where(LSE, {TAU: TAUS[0], "batch": b}) for b in BATCHES], BITS, TIMES),
        figure=OF_LSE,
    ),
    Claim(
        "So does the sliced Wasserstein distance.",
        "app. B, fig. B.1",
        Saturates("loss", [Where(SWD, {"batch": b}) for b in BATCHES], BITS, TIMES),
        figure=OF_SWD,
    ),
    Claim(
        "LogSumExp saturates later in larger batches (τ = 0.3).",
        "app. B, fig. B.1; §5",
        Later("loss", Where(LSE, {TAU: 0.3}), BITS, "batch", SHARE, least=0.25),
        figure=OF_LSE,
    ),
    Claim(
        "So does the sliced Wasserstein distance in larger batches.",
        "app. B, fig. B.1; §5",
        Later("loss", Where(SWD), BITS, "batch", SHARE, least=0.25),
        figure=OF_SWD,
    ),
)
FIGURES = (
    Figure(
        OF_LSE,
        "fig. B.1",
        Several([Within({TAU: t}, Family("loss", LSE, BITS, "batch", "bits", f", τ = {t:g}")) for t in TAUS]),
    ),
    Figure(OF_SWD, "fig. B.1", Family("loss", SWD, BITS, "batch", "bits")),
)
PAPER = replace(
    CHEN_LI,
    differs="The paper trains ResNet-18 on 32 × 32 images for 400 epochs, without numbers. Ours are 4 × 4 (they "
    "are constant: their size does not matter) through one convolution. Each image stands twice in a "
    "batch, unchanged: alignment is zero, and each query meets its own copy as the paper's sum over all j does.",
)

STUDY = Study(BASE, ARMS, SCALES, CLAIMS, FIGURES, PAPER, measure=MEASURE)
