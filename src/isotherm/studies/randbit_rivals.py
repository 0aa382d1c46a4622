"""Do a few easy bits suppress an image under losses that are not contrastive? (ours, on Chen & Li 2021, §3)

    isotherm study randbit-rivals                   MNIST, 1,000 steps a run: estimated at half an hour on two cores

The paper finds that no contrastive loss keeps the image beside a few random bits, and names BYOL as another that loses
it. The question for the rivals that came since: losses that decorrelate features or predict prototypes and compare no
items. Expected by nobody; where they differ from `randbit`'s, the page says by how much.
"""

from dataclasses import replace

from isotherm.experiments.claims.rules import Loses, Reaches
from isotherm.experiments.figures.plots import Against
from isotherm.experiments.study import Arm, Claim, Figure, Settings, Where
from isotherm.studies import randbit
from isotherm.studies.randbit import BITS, IGNORED, MANY, OVER

BARLOW, VICREG, WMSE, ZERO_CL, SWAV, DINO = "Barlow Twins", "VICReg", "W-MSE", "Zero-CL", "SwAV", "DINO"
RIVALS = (BARLOW, VICREG, WMSE, ZERO_CL, SWAV, DINO)
_HEADS = {
    "wmse": {"head": "wmse", "head.hidden": 256, "head.width": 32},
    "swav": {"head": "swav", "head.hidden": 256, "method.prototypes": 256},
    "dino": {"head": "dino-resnet", "head.hidden": 256, "head.width": 64, "method.prototypes": 256},
}
_SHORT = {
    "swav": {"method.freeze": 0.1},
    "dino": {
        **{"method.momentum": 0.99, "method.momentum_end": 0.99},
        **{"method.freeze": 0.0, "method.teacher_warmup": 0.3},
    },
}
"""Schedules of methods for runs of two epochs; their papers' are of hundreds."""


def heads(settings: Settings) -> Settings:
    """The rivals that have heads of their own."""
    return _HEADS.get(settings["method"]["name"], {})


ARMS = tuple(
    Arm(name, {"method": method}, OVER)
    for name, method in zip(RIVALS, ("barlow", "vicreg", "wmse", "zerocl", "swav", "dino"), strict=True)
)


def short_heads(settings: Settings) -> Settings:
    return {**heads(settings), **_SHORT.get(settings["method"]["name"], {})}


SCALES = {
    name: replace(scale, adjust=heads if name == "paper" else short_heads) for name, scale in randbit.SCALES.items()
}
AGAINST_BITS = "Accuracy against added bits"
CLAIMS = (
    Claim(
        "Every one of them loses twenty points or more.",
        "ours, after §3.2 and §4",
        Loses("linear", [Where(name) for name in RIVALS], BITS, least=0.2),
        figure=AGAINST_BITS,
    ),
    Claim(
        "With fifteen bits nothing is left of the image.",
        "ours, after §3.2",
        Reaches("linear", randbit.at_bits(MANY, *RIVALS), IGNORED),
        figure=AGAINST_BITS,
    ),
)
FIGURES = (
    Figure(AGAINST_BITS, "like fig. 6", Against(RIVALS, BITS, "added bits", ("linear", "linear_bits")), headline=True),
)
STUDY = replace(randbit.STUDY, arms=ARMS, scales=SCALES, claims=CLAIMS, figures=FIGURES, compare=())
