"""Does the best temperature rise as training goes on? (ours, on Wang & Liu 2021, arXiv:2012.09740, fig. 9)

    isotherm study temperature-steps --data cifar10          500 and 8,000 steps a run: estimated at ¾ of an hour

The paper trains for 200 epochs and finds its best accuracy at 0.2 or 0.3; 2,000 steps of a small network
(`temperature`) have theirs at a lower temperature. If that were for want of steps, the best temperature would rise with
them. Expected by nobody: it decides whether the scale of ours is what contradicts the paper.
"""

from dataclasses import replace

from isotherm.experiments.claims.rules import BestWithin, PrefersLarger
from isotherm.experiments.figures.plots import Against
from isotherm.experiments.papers import WANG_LIU
from isotherm.experiments.sizes import BY_STEPS, SMOKE
from isotherm.experiments.study import Arm, Claim, Figure, Scale, Study
from isotherm.studies import temperature

TAU, STEPS = "loss.temperature", "steps"
FEWER, MORE = "few steps", "many steps"

BASE = {"method": "simclr", "loss": "NTXentLoss", "monitor": 0}
MEASURE = ("probes", "geometry")
TEMPERATURES = (0.07, 0.1, 0.2, 0.3)
ARMS = (
    Arm(FEWER, {}, {TAU: TEMPERATURES, STEPS: (5, 500, 7800)}),
    Arm(MORE, {}, {TAU: TEMPERATURES, STEPS: (10, 8000, 78_000)}),
)
SCALES = {
    "smoke": Scale("seconds, to see that everything works", SMOKE, only={STEPS: (5, 10)}),
    "cpu": Scale(
        "a small network, all images, 500 and 8,000 steps; three seeds",
        {},
        seeds=3,
        data=BY_STEPS,
        only={STEPS: (500, 8000)},
    ),
    "paper": replace(temperature.SCALES["paper"], about="§5.1, 20 and 200 epochs; a GPU", only={STEPS: (7800, 78_000)}),
}
ACCURACY = "Accuracy against temperature"
CLAIMS = (
    Claim(
        "With sixteen times the steps 0.3 gains on 0.07, by a point or more.",
        "ours",
        PrefersLarger("linear", MORE, FEWER, least=0.01),
        figure=ACCURACY,
    ),
    Claim(
        "With many steps the best is at 0.2 or 0.3, to a point.",
        "§5.3, fig. 9",
        BestWithin("linear", MORE, 0.2, 0.3, within=0.01),
        figure=ACCURACY,
    ),
)
FIGURES = (
    Figure(ACCURACY, "fig. 9", Against([FEWER, MORE], TAU, "temperature", ("linear", "uniformity")), headline=True),
)
PAPER = replace(WANG_LIU, differs="The study `temperature` at other numbers of steps: the paper has nothing like it.")

STUDY = Study(BASE, ARMS, SCALES, CLAIMS, FIGURES, PAPER, measure=MEASURE)
