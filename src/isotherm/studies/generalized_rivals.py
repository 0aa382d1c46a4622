"""Are losses outside Chen & Li's family as good as those within it? (ours, on Chen & Li 2021, §2.2)

    isotherm study generalized-rivals               CIFAR-10, all images, 2,000 steps a run: estimated at 20 minutes

`generalized` asks whether all instances of alignment and distribution learn equally good features. The losses that came
since are no instances: a sigmoid of every pair, whitened views, decorrelated items and features, a nearest basis. The
same network, data, steps and optimizer, NT-Xent beside them. Expected by nobody.
"""

from dataclasses import replace

from isotherm.experiments.claims.rules import Alike
from isotherm.experiments.figures.plots import DotForEach
from isotherm.experiments.papers import CHEN_LI
from isotherm.experiments.study import Arm, Claim, Comparison, Figure, Settings, Where
from isotherm.studies import generalized

RIVALS = {
    "SigLIP": {"method": "siglip"},
    "W-MSE": {"method": "wmse"},
    "Zero-CL": {"method": "zerocl"},
    "ARB": {"method": "arb"},
    "Barlow Twins": {"method": "barlow"},
    "VICReg": {"method": "vicreg"},
}
EVERY = (generalized.NTXENT, *RIVALS)


def heads(settings: Settings) -> Settings:
    """W-MSE has a head of its own, which must not be wider than a batch can whiten."""
    return {"head": "wmse", "head.hidden": 128, "head.width": 32} if settings["method"]["name"] == "wmse" else {}


ARMS = (
    Arm(generalized.NTXENT, {"method": "simclr", **generalized.LOSSES[generalized.NTXENT]}),
    *(Arm(name, method) for name, method in RIVALS.items()),
)
SCALES = {name: replace(scale, only={}, adjust=heads) for name, scale in generalized.SCALES.items()}
ACCURACY = "Accuracy of losses outside the family"
CLAIMS = (
    Claim(
        "All of them are within three points of each other.",
        "ours, after §2.2",
        Alike("linear", [Where(name) for name in EVERY], within=0.03),
        figure=ACCURACY,
    ),
)
FIGURES = (Figure(ACCURACY, "like fig. 2", DotForEach("linear", EVERY, "Losses outside the family"), headline=True),)
STUDY = replace(
    generalized.STUDY,
    base={key: value for key, value in generalized.BASE.items() if key != "method"},
    arms=ARMS,
    scales=SCALES,
    claims=CLAIMS,
    figures=FIGURES,
    paper=replace(CHEN_LI, differs=generalized.PAPER.differs),
    compare=(Comparison(generalized.NTXENT, "linear", list(RIVALS)),),
)
