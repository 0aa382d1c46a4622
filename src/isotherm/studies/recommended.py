"""Is the temperature that `inspect` recommends worth training at? (ours, on Wang & Liu 2021, arXiv:2012.09740)

    isotherm study recommended                      CIFAR-10, all images, 2,000 steps a run: estimated at 20 minutes
    isotherm study recommended --data NAME          other images

NT-Xent at eight temperatures. Each run's embedding recommends a temperature, the middle of the range that `inspect`
names; what a run would have there is read off the accuracies of the same seed. So an embedding that was made at 0.05 or
at 1 says where to train next, and we see what following it is worth against staying at the default of 0.2.
Expected: by reasoning alone, that it is better than the default.
"""

from dataclasses import replace

from isotherm.experiments.claims.rules import AdviceAhead, AdviceNearBest
from isotherm.experiments.figures.plots import Against
from isotherm.experiments.papers import WANG_LIU
from isotherm.experiments.sizes import BY_STEPS, SMOKE
from isotherm.experiments.study import Arm, Claim, Figure, Scale, Study
from isotherm.studies import temperature

TAU = "loss.temperature"
ARM = "NT-Xent"
DEFAULT = 0.2
"""What `isotherm train` has."""
TEMPERATURES = (0.05, 0.07, 0.1, 0.14, DEFAULT, 0.3, 0.5, 1.0)

BASE = {"data": "cifar10", "method": "simclr", "loss": "NTXentLoss", "monitor": 0}
MEASURE = ("probes", "geometry", "recommended")
ARMS = (Arm(ARM, {}, {TAU: TEMPERATURES}),)
SCALES = {
    "smoke": Scale(
        "seconds, to see that everything works", {**SMOKE, "data": "digits"}, only={TAU: (0.1, DEFAULT, 0.5)}
    ),
    "cpu": Scale("a small network, all images, 2,000 steps; three seeds", {}, seeds=3, data=BY_STEPS),
    "paper": temperature.SCALES["paper"],
}
ACCURACY = "Accuracy, and the recommended temperature, against the temperature"
CLAIMS = (
    Claim(
        "Training where the advice leads is half a point better than at the default of 0.2, on average over the "
        "temperatures at which the embedding was made.",
        "ours",
        AdviceAhead("linear", ARM, usual=DEFAULT, least=0.005),
        figure=ACCURACY,
    ),
    Claim(
        "Followed twice, train and inspect and train again, it is so, too.",
        "ours",
        AdviceAhead("linear", ARM, times=2, usual=DEFAULT, least=0.005),
        figure=ACCURACY,
    ),
    Claim(
        "Followed once, it leads to within a point of the best temperature.",
        "ours",
        AdviceNearBest("linear", ARM, within=0.01),
        figure=ACCURACY,
    ),
    Claim(
        "Followed twice, it leads to within a point of the best temperature.",
        "ours",
        AdviceNearBest("linear", ARM, times=2, within=0.01),
        figure=ACCURACY,
    ),
)
FIGURES = (
    Figure(
        ACCURACY,
        "ours",
        Against([ARM], TAU, "temperature", ("linear", "recommended_temperature")),
        headline=True,
    ),
)
PAPER = replace(
    WANG_LIU,
    differs="The paper has nothing like it: the recommendation is ours, made from its equation 5 by reasoning, and "
    "this study asks what it is worth.",
)

STUDY = Study(BASE, ARMS, SCALES, CLAIMS, FIGURES, PAPER, measure=MEASURE)
