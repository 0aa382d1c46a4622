"""Which temperatures does DySTreSS need, and at which similarities? (DySTreSS 2024, arXiv:2308.01140)

    isotherm study dystress-profiles                     CIFAR-10, 2,000 steps a run: estimated at ¾ of an hour
    isotherm study dystress-profiles --data cifar100     the same

Its profiles, ranges, shifts and learning rates. Expected: profiles are alike, also one that only rises; cosine from
0.07 to 0.2 is the best range; lower temperatures are more uniform and less tolerant; no shift helps on small images; a
rate that is too high costs accuracy on CIFAR-10.
"""

from dataclasses import replace

from isotherm.experiments.claims.rules import Ahead, Alike, Every, NoWorse, TrendEverywhere
from isotherm.experiments.figures.plots import Against, DotForEach, ExactTemperature, Grid, Profiles, Several, Within
from isotherm.experiments.papers import DYSTRESS, published
from isotherm.experiments.sizes import BY_STEPS
from isotherm.experiments.study import Arm, Claim, Comparison, Figure, PaperTable, Scale, Study, Where
from isotherm.studies.dystress import A1, BASE, CIFAR, COUNTS, CPU, OURS, RANGE, TINY

PROFILE, BY_RANGE, NARROW, RATE = "by profile", "by range", "0.07 to 0.1", "by learning rate"
PROFILES = ("cosine", "linear", "exponential", "monotone")
LOW, HIGH = "loss.tau_min", "loss.tau_max"
LOWS, HIGHS = (0.05, 0.07, 0.1, 0.2), (0.2, 0.5)
SHIFTS = ((0.0, 0.5), (0.2, 0.6), (0.4, 0.7), (-0.2, 0.6), (-0.4, 0.7))
"""Δs and k of Table 15."""
SHIFTED = {(s, k): f"shift {s:+g}, k {k:g}" for s, k in SHIFTS}
LEFT_HALF = "all in the left half"
MOVED = (*list(SHIFTED.values())[1:], LEFT_HALF)
"""Those of fig. 7: versions 1, 2 and 3."""
RATES = (0.01, 0.03, 0.06, 0.12, 0.24)
MEASURE = ("probes", "200 neighbours", "geometry", "feature geometry", "classes")
ARMS = (
    Arm(OURS, RANGE),
    Arm(PROFILE, RANGE, {"loss.profile": PROFILES}),
    Arm(BY_RANGE, RANGE, {LOW: LOWS, HIGH: HIGHS}),
    Arm(NARROW, {**RANGE, HIGH: 0.1}),
    *(
        Arm(name, {**RANGE, "loss.profile": "shifted", "loss.shift": s, "loss.scale": k})
        for (s, k), name in SHIFTED.items()
    ),
    Arm(LEFT_HALF, {**RANGE, "loss.profile": "left-half"}),
    Arm(RATE, RANGE, {"lr": RATES}),
)
SCALES = {
    "smoke": Scale(
        "seconds, to see that everything works",
        TINY,
        only={"loss.profile": ("linear",), LOW: (0.1,), "lr": (0.06,)},
    ),
    "cpu": Scale(
        "a small network, all images, 2,000 steps; three seeds",
        CPU,
        seeds=3,
        only={"lr": (0.03, 0.06, 0.24)},
        data=BY_STEPS,
    ),
    "paper": Scale("A.1: ResNet-18, 200 epochs, batch 128; a GPU", A1, data=CIFAR, seeds=3),
}

SHAPES, RANGES = "Accuracy by profile", "Ranges of temperature"
SHIFTS_OF_MINIMA, LEARNING_RATES = "Shifted profiles", "Learning rates"


def _range(low: float, high: float) -> Where:
    return Where(BY_RANGE, {LOW: low, HIGH: high})


def _wider(measure: str, least: float) -> Every:
    """More of it with the higher largest temperature, at each smallest one."""
    return Every([Ahead(measure, _range(low, 0.5), [_range(low, 0.2)], least) for low in LOWS])


CLAIMS = (
    Claim(
        "The profiles are alike: cosine, linear and exponential within a point.",
        "§5.8, Table 10",
        Alike("knn200", [Where(PROFILE, {"loss.profile": p}) for p in PROFILES[:3]], within=0.01),
        figure=SHAPES,
    ),
    Claim(
        "A temperature that only rises with the similarity does as well, to a point.",
        "app. C, Table 16",
        NoWorse(
            "knn200",
            Where(PROFILE, {"loss.profile": "monotone"}),
            [Where(PROFILE, {"loss.profile": "cosine"})],
            within=0.01,
        ),
        figure=SHAPES,
    ),
    Claim(
        "0.07 to 0.2 is the best range, to a point.",
        "A.3, fig. 6",
        NoWorse(
            "knn200",
            _range(0.07, 0.2),
            [*(_range(low, high) for low in LOWS for high in HIGHS if (low, high) != (0.07, 0.2)), Where(NARROW)],
            within=0.01,
        ),
        figure=RANGES,
    ),
    Claim(
        "With the same largest temperature a lower smallest one gives more uniformity.",
        "A.3, fig. 6",
        TrendEverywhere("uniformity", BY_RANGE, LOW, HIGH, 1),
        figure=RANGES,
    ),
    Claim(
        "And a higher one more tolerance.",
        "A.3, fig. 6",
        TrendEverywhere("tolerance", BY_RANGE, LOW, HIGH, 1),
        figure=RANGES,
    ),
    Claim(
        "With the same smallest temperature a largest one of 0.5 costs uniformity.",
        "A.3, fig. 6",
        _wider("uniformity", 0.05),
        figure=RANGES,
    ),
    Claim("And gives more tolerance.", "A.3, fig. 6", _wider("tolerance", 0.01), figure=RANGES),
    Claim(
        "No shifted profile is better than the one without a shift, to a point.",
        "A.3, fig. 7",
        NoWorse("knn200", Where(OURS), [Where(name) for name in MOVED], within=0.01),
        figure=SHIFTS_OF_MINIMA,
    ),
    Claim(
        "Low temperatures of dissimilar pairs (a shift of −0.4) are more uniform than of similar ones (0.4).",
        "A.3, fig. 7",
        Ahead("uniformity", Where(SHIFTED[-0.4, 0.7]), [Where(SHIFTED[0.4, 0.7])], 0.02, lower=True),
        figure=SHIFTS_OF_MINIMA,
    ),
    Claim(
        "A higher learning rate than 0.06 is worse (CIFAR-10).",
        "A.3, fig. 8",
        Ahead("knn200", Where(RATE, {"lr": 0.06}), [Where(RATE, {"lr": 0.24})], COUNTS),
        figure=LEARNING_RATES,
    ),
)
FIGURES = (
    Figure("Solutions of the differential equation", "fig. 2", ExactTemperature(0.2)),
    Figure(
        "Temperature against similarity",
        "fig. 3 and 4",
        Profiles(((0.07, 0.2), (0.1, 0.2), (0.07, 0.5), (0.2, 0.5)), SHIFTS),
    ),
    Figure(
        SHAPES,
        "Tables 10 and 16",
        Several([Within({"loss.profile": p}, DotForEach("knn200", (PROFILE,), p.capitalize())) for p in PROFILES]),
    ),
    Figure(
        RANGES,
        "fig. 5 and 6; Table 14",
        Grid(BY_RANGE, LOW, HIGH, ("knn200", "uniformity", "tolerance")),
        headline=True,
    ),
    Figure(
        SHIFTS_OF_MINIMA,
        "fig. 7; Table 15",
        Several([DotForEach(m, (OURS, *MOVED), "Shifted") for m in ("knn200", "uniformity", "tolerance")]),
    ),
    Figure(LEARNING_RATES, "fig. 8", Against([RATE], "lr", "learning rate", ("knn200",), log_x=True)),
)
COMPARE = (Comparison(OURS, "knn200", (NARROW, *MOVED)),)
_BOTH = [("kNN", "knn"), ("linear", "linear")]
PAPER = replace(
    DYSTRESS,
    differs="The paper trains ResNet-18 for 200 epochs on CIFAR (Tables 14 and 15: ResNet-50 on ImageNet-100, "
    "judged by 20 neighbours). At cpu scale ours is a convnet of 100,000 parameters and 2,000 steps of 128 images.",
    tables={
        "Tables 10 and 16 (profiles)": PaperTable(
            published("dystress/tables-10-16"),
            [Where(PROFILE, {"loss.profile": p}) for p in PROFILES],
            [("kNN", "knn200")],
            titled=False,
        ),
        "Table 14 (ranges, ImageNet100)": PaperTable(
            published("dystress/table-14"),
            [Where(NARROW), _range(0.07, 0.5), _range(0.07, 0.2), _range(0.1, 0.2)],
            _BOTH,
        ),
        "Table 15 (shifts, ImageNet100)": PaperTable(
            published("dystress/table-15"), [Where(name) for name in SHIFTED.values()], _BOTH
        ),
    },
)

STUDY = Study(BASE, ARMS, SCALES, CLAIMS, FIGURES, PAPER, measure=MEASURE, compare=COMPARE)
