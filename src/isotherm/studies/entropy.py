"""Does a higher temperature spread the penalty over more negatives? (Wang & Liu 2021, arXiv:2012.09740, §3.2)

    isotherm study entropy                          digits, under half a minute on two cores

The entropy H(r) of the relative penalties at many temperatures, on the similarities of trained embeddings; and the
closed forms of the gradients (eq. 4 and 5; supplement, eq. 6) against autograd. Expected: H(r) strictly rises, the
forms agree to rounding.
"""

from dataclasses import replace

from isotherm.experiments.claims.penalties import EntropyRises, GradientsAgree
from isotherm.experiments.figures.plots import Entropies
from isotherm.experiments.papers import WANG_LIU
from isotherm.experiments.sizes import BY_STEPS, SMOKE
from isotherm.experiments.study import Arm, Claim, Figure, Scale, Study

TAU = "loss.temperature"
GRID = (0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)
TRAINED = "contrastive"

BASE = {"method": "simclr", "monitor": 0}
ARMS = (Arm(TRAINED, {"loss": "NTXentLoss"}, {TAU: (0.07, 0.3, 1.0)}),)
SCALES = {
    "smoke": Scale("seconds", {**SMOKE, "epochs": 1}),
    "cpu": Scale(
        "a small network",
        {},
        data=BY_STEPS,
    ),
    "paper": Scale(
        "ResNet-18 on CIFAR-10; a GPU", {"data": "cifar10", "encoder": "resnet18", "epochs": 200, "lr": 0.03}
    ),
}

ENTROPIES = "Entropy of the relative penalties"
CLAIMS = (
    Claim(
        "The entropy of the relative penalties strictly rises with the temperature, for every query.",
        "§3.2; supplement, §2",
        EntropyRises(TRAINED, GRID),
        figure=ENTROPIES,
    ),
    Claim(
        "The closed forms of the gradients are what autograd finds.",
        "eq. 4 and 5; supplement, eq. 6",
        GradientsAgree(TRAINED, GRID),
    ),
)
FIGURES = (Figure(ENTROPIES, "§3.2", Entropies(TRAINED, TAU, GRID)),)
PAPER = replace(
    WANG_LIU,
    differs="The paper proves it; here it is checked on similarities of embeddings that were trained small.",
)

STUDY = Study(BASE, ARMS, SCALES, CLAIMS, FIGURES, PAPER)
