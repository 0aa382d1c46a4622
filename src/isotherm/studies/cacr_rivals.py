"""How does CACR compare with methods of other kinds? (CACR, Zheng et al., arXiv:2105.03746)

    isotherm study cacr-rivals                      CIFAR-10, 2,000 steps a run: estimated at an hour
    isotherm study cacr-rivals --data cifar100      the same

CACR with one and four positives in MoCo v2 (Alg. 3) against MoCo v2, SimCLR, Barlow Twins, SimSiam, BYOL, SwAV with and
without small crops, and FNC: Tables 4 and 16, of ImageNet, here of small images. Every run sees as many large views.
At cpu scale each runs at two learning rates, and claims compare them at their better ones.
CACR asks with every view, as in Alg. 3; so does an arm of MoCo v2 beside the usual one, which asks with one.
Expected: with four positives CACR is ahead of all but BYOL and FNC, which it equals, and SwAV with small crops.
"""

from collections.abc import Mapping
from dataclasses import replace

from isotherm.experiments.claims.rules import Ahead, AheadAsChosen, NoWorse, NoWorseAsChosen
from isotherm.experiments.figures.plots import Against, DotForEach
from isotherm.experiments.papers import CACR, published
from isotherm.experiments.sizes import BY_STEPS, SMOKE
from isotherm.experiments.study import Arm, Claim, Comparison, Figure, PaperTable, Scale, Settings, Study, Where
from isotherm.studies.cacr import COUNTS, FOUR, ONE, equal_views
from isotherm.studies.dystress import RATES

MOCO, SIMCLR, BARLOW, SIMSIAM, BYOL, FNC = "MoCo v2", "SimCLR", "Barlow Twins", "SimSiam", "BYOL", "FNC"
SWAV, SWAV_CROPS, EVERY_VIEW = "SwAV", "SwAV, multi-crop", "MoCo v2, every view asks"
_PAIR = {"views": 2}
_ASKING = {"method.every_view": True, "method.intra_batch": True}
_CACR = {
    "method": "mocov2",
    **_ASKING,
    "loss": "CACRLoss",
    "loss.t_pos": 1.0,
    "loss.t_neg": 2.0,
    "loss.detach_weights": "positive",
}
_BYOL = {"head": "byol", "head.hidden": 256, "head.width": 64, "predictor": "byol"}
_BARLOW = {"head": "barlow", "head.layers": 2, "head.hidden": 512, "head.width": 256}
_SIMSIAM = {"head": "simsiam", "head.hidden": 512, "head.width": 256, "predictor": "simsiam-predictor"}
SMALL: Mapping[str, Settings] = {
    "mocov2": {"method.queue": 1024, "method.momentum": 0.99},
    "byol": {**_BYOL, "predictor.hidden": 256, "predictor.width": 64, "method.momentum": 0.99},
    "barlow": _BARLOW,
    "simsiam": {**_SIMSIAM, "predictor.hidden": 64, "predictor.width": 256},
    "swav": {"head": "swav", "head.hidden": 512, "method.freeze": 0.1, "method.prototypes": 256},
}
"""Heads of their own papers for a network of 128 features; queue, copy and prototypes for short runs."""
LARGE: Mapping[str, Settings] = {
    "simclr": {"head": "simclr-code"},
    "fnc": {"head": "simclr-code"},
    "byol": {"head": "byol", "predictor": "byol", "method.momentum": 0.99},
    "barlow": {"head": "barlow"},
    "simsiam": {"head": "simsiam", "predictor": "simsiam-predictor"},
    "swav": {"head": "swav"},
}


def small_heads(settings: Settings) -> Settings:
    """Heads for a small network, and as many large views in a step, whatever their number."""
    return {**equal_views(settings), **SMALL.get(settings["method"]["name"], {})}


def tiny_heads(settings: Settings) -> Settings:
    """The same for a few hundred images, among which 256 prototypes would be nobody's."""
    few = {"method.prototypes": 20} if settings["method"]["name"] == "swav" else {}
    return {**small_heads(settings), **few}


def large_heads(settings: Settings) -> Settings:
    """Heads as large as those of their papers."""
    return LARGE.get(settings["method"]["name"], {})


BASE = {"monitor": 0}
MEASURE = ("whole", "200 neighbours", "geometry", "feature geometry", "cost")
_FREE: Mapping[str, Settings] = {
    BARLOW: {**_PAIR, "method": "barlow", "loss": "BarlowTwinsLoss"},
    SIMSIAM: {**_PAIR, "method": "simsiam"},
    BYOL: {**_PAIR, "method": "byol"},
    SWAV: {**_PAIR, "method": "swav"},
    SWAV_CROPS: {**_PAIR, "method": "swav", "small_crops": 4},
}
"""Methods without negatives."""
METHODS: Mapping[str, Settings] = {
    ONE: {**_CACR, **_PAIR},
    FOUR: {**_CACR, "views": 5},
    MOCO: {**_PAIR, "method": "mocov2", "loss": "NTXentLoss", "loss.temperature": 0.2},
    EVERY_VIEW: {**_PAIR, **_ASKING, "method": "mocov2", "loss": "NTXentLoss", "loss.temperature": 0.2},
    SIMCLR: {**_PAIR, "method": "simclr", "loss": "NTXentLoss", "loss.temperature": 0.1},
    **_FREE,
    FNC: {"views": 5, "method": "fnc", "loss": "FNCLoss", "loss.temperature": 0.1},
}
BY_RATE = {name: f"{name} by rate" for name in METHODS}
ARMS = (
    *(Arm(name, settings) for name, settings in METHODS.items()),
    *(Arm(BY_RATE[name], settings, {"lr": RATES}) for name, settings in METHODS.items()),  # one of two runs is the same
)
SCALES = {
    "smoke": Scale(
        "seconds, to see that everything works",
        {**SMOKE, "images": 200, "epochs": 1, "batch": 40},
        only={"lr": (RATES[1],)},
        adjust=tiny_heads,
    ),
    "cpu": Scale(
        "a small network, all images, 2,000 steps, two rates; three seeds",
        {"data": "cifar10"},
        seeds=3,
        data={name: {**settings, "batch": 64} for name, settings in BY_STEPS.items()},
        adjust=small_heads,
    ),
    "paper": Scale(
        "C.2: ImageNet, ResNet-50, 200 epochs, batch 256, one optimizer for all; a GPU (others: isotherm presets)",
        {
            "data": "imagenet",
            "recipe": "mocov2",
            "normalize": "imagenet",
            "encoder": "resnet50",
            "head": "mocov2",
            "epochs": 200,
            "batch": 256,
            "lr": 0.03,
            "weight_decay": 1e-4,
        },
        only={"lr": ()},
        seeds=3,
        adjust=large_heads,
        instead={"linear_whole": "linear_cacr_large"},
    ),
}

RIVALRY = "Linear accuracy of methods of other kinds"
OF_IMAGENET = "(the paper: of ImageNet; here of small images)"
BETTER = "each at the better of two rates"


def _ahead_at_best(name: str, *rivals: str) -> AheadAsChosen:
    return AheadAsChosen("linear_whole", BY_RATE[name], [BY_RATE[rival] for rival in rivals], "linear_whole", COUNTS)


def _ahead(name: str, *rivals: str) -> Ahead:
    return Ahead("linear_whole", Where(name), [Where(rival) for rival in rivals], COUNTS)


AHEAD = (
    "CACR (K = 4) is ahead of MoCo v2, also where every view asks, SimCLR, Barlow Twins, SimSiam and SwAV without "
    "small crops"
)
AS_WELL = "It does as well as FNC and BYOL, to a point"
OF_ONE = "With one positive it is ahead of MoCo v2, also where every view asks"
CLAIMS = (
    Claim(
        f"{AHEAD} {OF_IMAGENET}; {BETTER}.",
        "§5.2, Table 4",
        _ahead_at_best(FOUR, MOCO, EVERY_VIEW, SIMCLR, BARLOW, SIMSIAM, SWAV),
        at=("smoke", "cpu"),
        figure=RIVALRY,
    ),
    Claim(
        f"{AHEAD} {OF_IMAGENET}.",
        "§5.2, Table 4",
        _ahead(FOUR, MOCO, EVERY_VIEW, SIMCLR, BARLOW, SIMSIAM, SWAV),
        at=("paper",),
        figure=RIVALRY,
    ),
    Claim(
        f"{AS_WELL} {OF_IMAGENET}; {BETTER}.",
        "§5.2, Table 4",
        NoWorseAsChosen("linear_whole", BY_RATE[FOUR], [BY_RATE[FNC], BY_RATE[BYOL]], "linear_whole", within=0.01),
        at=("smoke", "cpu"),
        figure=RIVALRY,
    ),
    Claim(
        f"{AS_WELL} {OF_IMAGENET}.",
        "§5.2, Table 4",
        NoWorse("linear_whole", Where(FOUR), [Where(FNC), Where(BYOL)], within=0.01),
        at=("paper",),
        figure=RIVALRY,
    ),
    Claim(
        f"{OF_ONE} {OF_IMAGENET}; {BETTER}.",
        "§5.2, Table 4",
        _ahead_at_best(ONE, MOCO, EVERY_VIEW),
        at=("smoke", "cpu"),
        figure=RIVALRY,
    ),
    Claim(f"{OF_ONE} {OF_IMAGENET}.", "§5.2, Table 4", _ahead(ONE, MOCO, EVERY_VIEW), at=("paper",), figure=RIVALRY),
)
_ALL = (BARLOW, SIMSIAM, SWAV, SWAV_CROPS, BYOL, SIMCLR, MOCO, FNC, ONE, FOUR)
FIGURES = (
    Figure(RIVALRY, "Table 4", DotForEach("linear_whole", _ALL, "All rivals"), headline=True),
    Figure(
        "Accuracy by learning rate",
        "ours",
        Against(list(BY_RATE.values()), "lr", "learning rate", ("linear_whole",), log_x=True),
    ),
)
COMPARE = (Comparison(FOUR, "linear_whole", _ALL[:-1]),)
PAPER = replace(
    CACR,
    differs="The paper trains ResNet-50 on ImageNet and takes its rivals' numbers from their papers, with other "
    "epochs, batches and optimizers. Ours have one recipe: at cpu scale a convnet of 100,000 parameters, 2,000 steps, "
    "320 large views in a step; small crops come on top of these. FNC finds false negatives by its "
    "five views (the paper: ten, and small crops). Bars and the table show all at the recipe's rate of 0.03; "
    "claims take each at the better of 0.03 and 0.1, chosen by the other seeds.",
    tables={
        "Table 4 (ImageNet, linear)": PaperTable(
            published("cacr/table-4"), [Where(name) for name in _ALL], [("accuracy", "linear_whole")], titled=False
        )
    },
)

STUDY = Study(BASE, ARMS, SCALES, CLAIMS, FIGURES, PAPER, measure=MEASURE, compare=COMPARE)
