"""Do a few easy bits suppress what an image shows? (Chen & Li 2021, arXiv:2011.02803, §3)

    isotherm study randbit --data mnist             1,000 steps a run: estimated at an hour on two cores
    isotherm study randbit --data cifar10           the same, estimated at 1½ hours
    isotherm study randbit-vae                      what a VAE makes of the bits

Every view of an image carries the same random bits as further channels. NT-Xent at three temperatures, MoCo at two,
decoupled NT-Xent and the sliced Wasserstein distance with two weights each, BYOL, other batches and networks learn from
that. Expected: fewer than fifteen bits take the image's class out of the features of each of them; a smaller
temperature or a larger weight helps a little, and costs accuracy where there are no bits.
"""

from dataclasses import replace
from itertools import pairwise

from isotherm.experiments.claims.rules import Ahead, Every, Loses, Ordered, Reaches
from isotherm.experiments.figures.plots import Against, Family
from isotherm.experiments.papers import CHEN_LI
from isotherm.experiments.sizes import ADAM, LARS, PROJECTOR, SMOKE, THIN
from isotherm.experiments.sizes import DECOUPLED as TABLE_1
from isotherm.experiments.study import Arm, Claim, Figure, Scale, Settings, Study, Where

BITS = "randbit"
KS = (0, 2, 4, 5, 8, 10, 12, 15, 16, 20)
SOME, MANY = 5, 15
"""Bits at which losses differ, and at which the paper says that nothing is left of the image."""
IGNORED = 0.2
"""Accuracy of a probe on ten classes that sees next to nothing of the image; guessing is 0.1."""
TAUS = (0.05, 0.2, 0.5)
NTXENT = {t: f"NT-Xent, τ = {t:g}" for t in TAUS}
MOCO = {t: f"MoCo, τ = {t:g}" for t in (0.05, 0.2)}
DECOUPLED = {w: f"decoupled NT-Xent, λ = {w:g}" for w in (0.1, 0.5)}
SWD = {w: f"SWD (hypersphere), λ = {w:g}" for w in (5.0, 25.0)}
BYOL, BATCH, SIZE = "BYOL", "by batch", "by size of the network"
BATCHES = (64, 512)
FACTORS = (0.5, 2.0)
"""Of the widths of the network."""
CONTRASTIVE = (*NTXENT.values(), *MOCO.values(), *DECOUPLED.values(), *SWD.values())
OVER = {BITS: KS}
_LOSS = {"method": "simclr", "loss": "NTXentLoss", "loss.temperature": 0.2}
_SWD = {"method": "simclr", "loss": "GeneralizedContrastiveLoss"}


_SHORT = {
    "mocov2": {"method.queue": 4096, "method.momentum": 0.99},
    "byol": {"method.momentum": 0.99},
}


def short_copies(settings: Settings) -> Settings:
    """At small scale MoCo's queue must be filled in a few steps, and slow copies follow in as many."""
    return _SHORT.get(settings["method"]["name"], {})


NOTEBOOK = {
    "recipe": "mnist-crop",
    "encoder": "convnet",
    "encoder.widths": [32, 64, 64],
    "encoder.stride": 2,
    "optimizer": "adam",
    "lr": 1e-3,
    "lr_scaling": "none",
    "schedule": "constant",
    "decay_all": True,
    "weight_decay": 0.0,
    "warmup": 0.0,
    "epochs": 100,
    "batch": 1000,
}
"""MNIST as in the authors' notebook; the epochs are ours."""
BASE = {**PROJECTOR, **ADAM, "monitor": 0}
MEASURE = ("probes", "competing", "geometry")
_MOCO = {"method": "mocov2", "loss": "NTXentLoss"}
ARMS = (
    *(Arm(NTXENT[t], {**_LOSS, "loss.temperature": t}, OVER) for t in TAUS),
    *(Arm(MOCO[t], {**_MOCO, "loss.temperature": t}, OVER) for t in MOCO),
    *(Arm(DECOUPLED[w], {"method": "simclr", **TABLE_1, "loss.weight": w}, OVER) for w in DECOUPLED),
    *(Arm(SWD[w], {**_SWD, "loss.weight": w}, OVER) for w in SWD),
    Arm(BYOL, {"method": "byol"}, OVER),
    Arm(BATCH, _LOSS, {"batch": BATCHES, **OVER}),
    Arm(SIZE, _LOSS, {"encoder.factor": FACTORS, **OVER}),
)
SCALES = {
    "smoke": Scale(
        "seconds, to see that everything works",
        {**SMOKE, "epochs": 1},
        only={BITS: (0, 8), "batch": (64,), "encoder.factor": (2.0,)},
        adjust=short_copies,
    ),
    "cpu": Scale(
        "a small network, all images, 1,000 steps; three seeds",
        {"data": "mnist", "steps": 1000},
        seeds=3,
        only={BITS: (0, 5, 10, 15)},
        data=THIN,
        adjust=short_copies,
    ),
    "paper": Scale(
        "§3.2: CIFAR-10, ResNet-18, 400 epochs; a GPU",
        {
            "data": "cifar10",
            "recipe": "simclr-cifar",
            "encoder": "resnet18",
            **LARS,
            "epochs": 400,
            "batch": 128,
        },
        seeds=3,
        only={"encoder.factor": ()},
        data={"mnist": NOTEBOOK},
        instead={"linear": "linear_simclr"},
    ),
}


def at_bits(bits: int, *names: str) -> list[Where]:
    return [Where(name, {BITS: bits}) for name in names]


AGAINST_BITS = "Accuracy against added bits"
OTHER_BATCHES = "Other batches"
OTHER_NETWORKS = "Other networks"
CLAIMS = (
    Claim(
        "With fifteen bits nothing is left of the image, whatever the contrastive loss (linear).",
        "§3.2, fig. 6",
        Reaches("linear", at_bits(MANY, *CONTRASTIVE), IGNORED),
        figure=AGAINST_BITS,
    ),
    Claim(
        "Nor with other batches.",
        "§3.2, fig. 6",
        Reaches("linear", [Where(BATCH, {"batch": b, BITS: MANY}) for b in BATCHES], IGNORED),
        figure=OTHER_BATCHES,
    ),
    Claim(
        "Nor with networks of other sizes.",
        "app. C.1, fig. C.1a",
        Reaches("linear", [Where(SIZE, {"encoder.factor": f, BITS: MANY}) for f in FACTORS], IGNORED),
        at=("smoke", "cpu"),
        figure=OTHER_NETWORKS,
    ),
    Claim(
        "BYOL suffers, too: it loses twenty points or more.",
        "§4",
        Loses("linear", [Where(BYOL)], BITS, least=0.2),
        figure=AGAINST_BITS,
    ),
    Claim(
        "With five bits a smaller temperature keeps more of the image.",
        "§3.2, fig. 6",
        Every(
            [
                Ordered("linear", at_bits(SOME, *NTXENT.values()), least=0.02),
                *(Ahead("linear", a, [b], 0.001) for a, b in pairwise(at_bits(SOME, *NTXENT.values()))),
            ]
        ),
        figure=AGAINST_BITS,
    ),
    Claim(
        "But without bits the smallest temperature is worse.",
        "§3.2, fig. 6",
        Ahead("linear", Where(NTXENT[0.2], {BITS: 0}), at_bits(0, NTXENT[0.05]), least=0.005),
        figure=AGAINST_BITS,
    ),
    Claim(
        "With five bits more weight on the distribution keeps more of the image (SWD).",
        "§3.2, fig. 6",
        Ahead("linear", Where(SWD[25.0], {BITS: SOME}), at_bits(SOME, SWD[5.0]), least=0.02),
        figure=AGAINST_BITS,
    ),
    Claim(
        "But without bits it is worse.",
        "§3.2, fig. 6",
        Ahead("linear", Where(SWD[5.0], {BITS: 0}), at_bits(0, SWD[25.0]), least=0.005),
        figure=AGAINST_BITS,
    ),
)
FIGURES = (
    Figure(
        AGAINST_BITS,
        "fig. 6 and C.1",
        Against((*CONTRASTIVE, BYOL), BITS, "added bits", ("linear", "linear_bits")),
        headline=True,
    ),
    Figure(OTHER_BATCHES, "fig. 6", Family("linear", BATCH, BITS, "batch", "added bits")),
    Figure(OTHER_NETWORKS, "fig. C.1", Family("linear", SIZE, BITS, "encoder.factor", "added bits")),
)
PAPER = replace(
    CHEN_LI,
    differs="The paper trains ResNet-18 for 400 epochs on CIFAR-10 (and on MNIST and ImageNet) and shows images "
    "without numbers. At cpu scale ours is a small convnet, 1,000 steps of Adam; MoCo has a queue of 4,096.",
)

STUDY = Study(BASE, ARMS, SCALES, CLAIMS, FIGURES, PAPER, measure=MEASURE)
