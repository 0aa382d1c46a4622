"""Does a temperature that depends on the similarity learn better features? (DySTreSS 2024, arXiv:2308.01140)

    isotherm study dystress                         CIFAR-10, all images, 2,000 steps a run: estimated at an hour
    isotherm study dystress --data cifar100         the same
    isotherm study dystress-long-tail               on unequal classes, against a schedule over epochs
    isotherm study dystress-profiles                profiles, ranges, shifts and learning rates

DySTreSS against SimCLR at three temperatures, MoCo v2, DCL, DCLW and MACL, and against methods without negatives: BYOL,
Barlow Twins, VICReg, DINO, W-MSE, Zero-CL and ARB. These learn more slowly with the recipe's rate: at cpu scale each
runs at two, and claims are against the better one. Expected: DySTreSS is ahead of each of them, the most uniform, and
its classes lie furthest apart.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from isotherm.experiments.claims.rules import Ahead, AheadOfBest, Every
from isotherm.experiments.figures.plots import Against, DotForEach, PairSimilarities, Several
from isotherm.experiments.papers import DYSTRESS, published
from isotherm.experiments.sizes import BY_STEPS, SMOKE
from isotherm.experiments.study import Arm, Claim, Comparison, Figure, PaperTable, Rule, Scale, Settings, Study, Where

TAU = "loss.temperature"
SIMCLR, MOCO, DCL, DCLW, MACL = "SimCLR", "MoCo v2", "DCL", "DCLW", "MACL"
LOWER, LOWEST, BY_TAU = "SimCLR, τ = 0.2", "SimCLR, τ = 0.1", "SimCLR by temperature"
BYOL, BARLOW, VICREG, DINO, WMSE, ARB = "BYOL", "Barlow Twins", "VICReg", "DINO", "W-MSE", "ARB"
ZERO_ICL, ZERO_FCL, ZERO_CL = "Zero-ICL", "Zero-FCL", "Zero-CL"
OURS, WITH_DCL = "DySTreSS", "DySTreSS with DCL"
CONTRASTIVE = (SIMCLR, MOCO, DCL, DCLW, MACL)
WITHOUT_NEGATIVES = (BARLOW, VICREG, ZERO_ICL, ZERO_FCL, ZERO_CL, WMSE, ARB, DINO, BYOL)
"""As Table 8 has them."""
BY_RATE = {name: f"{name} by rate" for name in WITHOUT_NEGATIVES}
RATES = (0.03, 0.1)
"""Learning rates of methods without negatives at cpu scale: the recipe's, and one as far above 0.06, at which A.1 and
lightly's benchmark train all of them, as it is below. DySTreSS has the recipe's alone."""
COUNTS, HARDLY = 0.005, 0.001
"""Half a point of accuracy: what most tables of the paper differ by; a tenth, where the paper has less than that."""

RANGE = {"loss": "DySTreSSLoss", "loss.tau_min": 0.07, "loss.tau_max": 0.2}
_COSINE = {"name": "Cosine", "tau_min": 0.07, "tau_max": 0.2}
_WIDE = {"head": "barlow", "head.layers": 2, "head.hidden": 2048, "head.width": 2048}
_BYOL = {"head": "byol", "head.hidden": 1024, "predictor": "byol", "predictor.hidden": 1024, "method.momentum": 0.99}
_DINO = {"head": "dino-resnet", "head.layers": 2, "method.momentum": 0.99, "method.momentum_end": 0.99}
# A.1 is lightly's benchmark on CIFAR-10 in everything that it states, so heads are those of that benchmark: a projector
# of two layers. Table 9 has batches of 256, whose rate that benchmark doubles.
TABLE_9 = {"batch": 256, "lr": 0.12}
AS_IN_A1: Mapping[str, Settings] = {
    "mocov2": {"method.queue": 4096, "method.momentum": 0.999},
    "byol": _BYOL,
    **dict.fromkeys(("barlow", "vicreg", "zerocl", "arb"), _WIDE),
    "dino": {**_DINO, "head.hidden": 2048, "method.prototypes": 2048, **TABLE_9},
    "wmse": {"head": "wmse", **TABLE_9},
}
_NARROW = {"head": "barlow", "head.layers": 2, "head.hidden": 512, "head.width": 256}
SMALL: Mapping[str, Settings] = {
    "mocov2": {"method.queue": 1024, "method.momentum": 0.99},
    "byol": {**_BYOL, "head.hidden": 256, "head.width": 64, "predictor.hidden": 256, "predictor.width": 64},
    **dict.fromkeys(("barlow", "vicreg", "zerocl", "arb"), _NARROW),
    "dino": {**_DINO, "head.hidden": 512, "head.width": 64, "method.teacher_warmup": 0.75, "method.freeze": 0.0},
    "wmse": {"head": "wmse", "head.hidden": 256, "head.width": 32},
}
"""The same for a network a quarter as wide; DINO warms up for as much of the training, a sixth of it. Of 64 numbers,
whitened by a batch of 128, W-MSE ended below an untrained network (docs/decisions/0023)."""


def by_method(heads: Mapping[str, Settings]) -> Callable[[Settings], Settings]:
    """What a method has besides what all of them have: its own paper's head, queue and copy."""
    return lambda settings: heads.get(settings["method"]["name"], {})


BASE = {"method": "simclr", "monitor": 0}
MEASURE = ("probes", "200 neighbours", "geometry", "feature geometry", "classes", "pairs")
_FREE: Mapping[str, Settings] = {
    BYOL: {"method": "byol"},
    BARLOW: {"method": "barlow", "loss": "BarlowTwinsLoss"},
    VICREG: {"method": "vicreg", "loss": "VICRegLoss"},
    DINO: {"method": "dino"},
    WMSE: {"method": "wmse", "loss": "WMSELoss"},
    ZERO_ICL: {"method": "zerocl", "loss": "ZeroICLLoss"},
    ZERO_FCL: {"method": "zerocl", "loss": "ZeroFCLLoss"},
    ZERO_CL: {"method": "zerocl", "loss": "ZeroCLLoss"},
    ARB: {"method": "arb", "loss": "ARBLoss"},
}
"""Methods without negatives."""
ARMS = (
    Arm(SIMCLR, {"loss": "NTXentLoss", TAU: 0.5}),
    Arm(LOWER, {"loss": "NTXentLoss", TAU: 0.2}),
    Arm(LOWEST, {"loss": "NTXentLoss", TAU: 0.1}),
    Arm(BY_TAU, {"loss": "NTXentLoss"}, {TAU: (0.1, 0.2, 0.5)}),  # the same three runs, as a line
    Arm(MOCO, {"method": "mocov2", "loss": "NTXentLoss", TAU: 0.2}),
    Arm(DCL, {"loss": "DCLLoss", TAU: 0.1}),
    Arm(DCLW, {"loss": "DCLWLoss", TAU: 0.1}),
    Arm(MACL, {"loss": "MACLLoss", TAU: 0.1}),
    Arm(OURS, RANGE),
    Arm(WITH_DCL, {"loss": "DCLLoss", TAU: _COSINE}),
    *(Arm(name, settings) for name, settings in _FREE.items()),
    *(Arm(BY_RATE[name], settings, {"lr": RATES}) for name, settings in _FREE.items()),  # one of two runs is the same
)
TINY = {**SMOKE, "images": 200, "epochs": 1}
CPU = {"data": "cifar10"}
CIFAR = {"cifar10": {"normalize": "cifar10"}, "cifar100": {"normalize": "cifar100"}}
A1 = {
    "data": "cifar10",
    "recipe": "simclr-cifar",
    "encoder": "resnet18",
    "head": "dystress",
    "lr": 0.06,
    "epochs": 200,
    "batch": 128,
}
SCALES = {
    "smoke": Scale("seconds, to see that everything works", TINY, only={"lr": (RATES[1],)}, adjust=by_method(SMALL)),
    "cpu": Scale(
        "a small network, all images, 2,000 steps, two rates of methods without negatives; three seeds",
        CPU,
        seeds=3,
        data=BY_STEPS,
        adjust=by_method({**SMALL, "dino": {**SMALL["dino"], "method.prototypes": 512}}),
    ),
    "paper": Scale(
        "A.1: ResNet-18, 200 epochs, batch 128, one rate for all; a GPU",
        A1,
        only={"lr": ()},
        data=CIFAR,
        seeds=3,
        adjust=by_method(AS_IN_A1),
    ),
}

RIVALRY, LINEAR = "Accuracy of 200 neighbours", "Linear accuracy"
GEOMETRY = "Uniformity of the embedding and of the classes"
OF_IMAGENET = "(the paper: of ImageNet; here of small images)"


def _ahead(measure: str, rivals: Sequence[str], least: float, lower: bool = False, name: str = OURS) -> Ahead:
    return Ahead(measure, Where(name), [Where(rival) for rival in rivals], least, lower)


def _ahead_of_free(
    sentence: str, paper: str, measure: str, rivals: Sequence[str], least: float, figure: str
) -> tuple[Claim, Claim]:
    """Ahead of rivals, of those without negatives at the better of their rates, chosen by the other seeds."""
    others = [name for name in rivals if name not in BY_RATE]
    parts: list[Rule] = [
        *([_ahead(measure, others, least)] if others else []),
        *(AheadOfBest(measure, Where(OURS), Where(BY_RATE[n]), "lr", least) for n in rivals if n in BY_RATE),
    ]
    small = f"{sentence[:-1]}; each method without negatives at the better of two rates."
    return (
        Claim(small, paper, Every(parts), at=("smoke", "cpu"), figure=figure),
        Claim(sentence, paper, _ahead(measure, rivals, least), at=("paper",), figure=figure),
    )


CLAIMS = (
    Claim(
        "DySTreSS is ahead of SimCLR, MoCo v2, DCL, DCLW and MACL (200-NN).",
        "§5.3, Tables 3 and 13",
        _ahead("knn200", CONTRASTIVE, COUNTS),
        figure=RIVALRY,
    ),
    Claim(
        "It is ahead of SimCLR also at the best of the constant temperatures 0.1, 0.2 and 0.5 (the paper names none).",
        "§5.3, Table 3",
        AheadOfBest("knn200", Where(OURS), Where(BY_TAU), TAU, COUNTS),
        figure=RIVALRY,
    ),
    *_ahead_of_free("It is ahead of DINO (200-NN).", "§5.5, Table 9", "knn200", [DINO], COUNTS, RIVALRY),
    *_ahead_of_free(
        "And of W-MSE, by a tenth of a point or more (200-NN).", "§5.5, Table 9", "knn200", [WMSE], HARDLY, RIVALRY
    ),
    *_ahead_of_free(
        f"By a linear probe it is ahead of SimCLR, DCL, DCLW, MACL, BYOL, Barlow Twins and VICReg {OF_IMAGENET}.",
        "§5.1, §5.2, Tables 1 and 2",
        "linear",
        [SIMCLR, DCL, DCLW, MACL, BYOL, BARLOW, VICREG],
        HARDLY,
        LINEAR,
    ),
    *_ahead_of_free(
        f"And of every method without negatives {OF_IMAGENET}.",
        "§5.5, Table 8",
        "linear",
        WITHOUT_NEGATIVES,
        COUNTS,
        LINEAR,
    ),
    Claim(
        "It is the most uniform of SimCLR, MoCo v2, DCL, DCLW and itself (CIFAR-10; on CIFAR-100 DCL is, also there).",
        "§5.7, Table 13",
        _ahead("uniformity", [SIMCLR, MOCO, DCLW, DCL], 0.05, lower=True),
        figure=GEOMETRY,
    ),
    Claim(
        "Its classes lie further apart than theirs (features).",
        "§5.7, Table 13",
        _ahead("feature_interclass_uniformity", [SIMCLR, MOCO, DCLW, DCL], 0.02, lower=True),
        figure=GEOMETRY,
    ),
    Claim(
        f"DCL gains by its temperature, a tenth of a point or more {OF_IMAGENET}.",
        "§5.1",
        _ahead("linear", [DCL], HARDLY, name=WITH_DCL),
        figure=LINEAR,
    ),
)
_ALL = (*CONTRASTIVE, LOWER, LOWEST, *WITHOUT_NEGATIVES, OURS, WITH_DCL)
FIGURES = (
    Figure("Similarities of pairs before and after training", "fig. 1", PairSimilarities(Where(OURS))),
    Figure(RIVALRY, "Tables 3 and 9", DotForEach("knn200", _ALL, "All rivals"), headline=True),
    Figure(LINEAR, "Tables 1, 2 and 8", DotForEach("linear", _ALL, "All rivals")),
    Figure(
        "Methods without negatives by learning rate",
        "ours",
        Against(list(BY_RATE.values()), "lr", "learning rate", ("knn200", "linear"), log_x=True),
    ),
    Figure(
        GEOMETRY,
        "Table 13",
        Several([DotForEach(m, _ALL, "All rivals") for m in ("uniformity", "feature_interclass_uniformity")]),
    ),
)
COMPARE = (
    Comparison(OURS, "knn200", [name for name in _ALL if name != OURS]),
    Comparison(OURS, "linear", [name for name in _ALL if name != OURS]),
)


def _table(table: str, names: Sequence[str], title: str, measure: str) -> PaperTable:
    points = [Where(name) for name in names]
    return PaperTable(published(f"dystress/{table}"), points, [(title, measure)], titled=False)


PAPER = replace(
    DYSTRESS,
    differs="The paper trains ResNet-18 for 200 epochs on CIFAR and ResNet-50 on ImageNet; it does not state the "
    "temperatures of its rivals. At cpu scale ours is a convnet of 100,000 parameters, 2,000 steps of 128 images with "
    "one recipe for all. Rivals have their own papers' temperatures (DCL and MACL 0.1, MoCo v2 0.2 with a queue of "
    "1,024) and heads, narrow ones at cpu scale; SimCLR has 0.5, as on CIFAR in its own paper and in lightly's "
    "benchmark that A.1 follows, and two lower ones beside it. Methods without negatives also run at a rate of 0.1; "
    "bars and tables show them at the recipe's 0.03, claims take the better one.",
    tables={
        "Table 3 (200-NN)": _table("table-3", (SIMCLR, MOCO, DCLW, DCL, MACL, OURS), "kNN", "knn200"),
        "Table 9 (200-NN)": _table("table-9", (DINO, WMSE, OURS), "kNN", "knn200"),
        "Tables 1 and 2 (ImageNet, linear)": _table(
            "tables-1-2", (SIMCLR, DCL, DCLW, BYOL, BARLOW, VICREG, MACL, OURS), "linear", "linear"
        ),
        "Table 8 (ImageNet100, linear)": _table("table-8", (*WITHOUT_NEGATIVES, OURS), "linear", "linear"),
        "Table 13": PaperTable(
            published("dystress/table-13"),
            [Where(name) for name in (SIMCLR, MOCO, DCLW, DCL, MACL, OURS)],
            [
                ("−uniformity", "uniformity"),
                ("−uniformity of features", "feature_uniformity"),
                ("alignment", "feature_class_alignment"),
                ("−inter-class uniformity", "feature_interclass_uniformity"),
            ],
        ),
    },
)

STUDY = Study(BASE, ARMS, SCALES, CLAIMS, FIGURES, PAPER, measure=MEASURE, compare=COMPARE)
