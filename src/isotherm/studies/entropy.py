"""Does a higher temperature spread the penalty over more negatives? (Wang & Liu 2021, arXiv:2012.09740, §3.2)

    isotherm study entropy                          digits, under half a minute on two cores

The entropy H(r) of the relative penalties at many temperatures, on the similarities of trained embeddings; and the
closed forms of the gradients (eq. 4 and 5; supplement, eq. 6) against autograd. Expected: H(r) strictly rises, the
forms agree to rounding.
"""

from isotherm.experiments.claims import penalties as judge
from isotherm.experiments.figures import curves as draw
from isotherm.experiments.study import Arm, Claim, Figure, Scale
from isotherm.experiments.sizes import BY_DATA, SMOKE

TAU = "loss.temperature"
GRID = (0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)
TRAINED = "contrastive"

base = {"method": "simclr", "monitor": 0}
arms = (Arm(TRAINED, {"loss": "NTXentLoss"}, {TAU: (0.07, 0.3, 1.0)}),)
scales = {
    "smoke": Scale("seconds", {**SMOKE, "epochs": 1}),
    "cpu": Scale(
        "a small network",
        {"epochs": 20},
        data=BY_DATA,
    ),
    "paper": Scale(
        "ResNet-18 on CIFAR-10; a GPU", {"data": "cifar10", "encoder": "resnet18", "epochs": 200, "lr": 0.03}
    ),
}
claims = (
    Claim(
        "The entropy of the relative penalties strictly rises with the temperature, for every query.",
        "§3.2; supplement, §2",
        (),
        judge.entropy_rises(TRAINED, GRID),
    ),
    Claim(
        "The closed forms of the gradients are what autograd finds.",
        "eq. 4 and 5; supplement, eq. 6",
        (),
        judge.gradients_agree(TRAINED, GRID),
    ),
)
figures = (
    Figure(
        "Entropy of the relative penalties",
        "§3.2",
        (),
        lambda records: draw.entropies(records, TRAINED, TAU, GRID),
    ),
)
paper = {
    "title": "Wang & Liu 2021, Understanding the Behaviour of Contrastive Loss",
    "address": "https://arxiv.org/abs/2012.09740",
    "differs": "The paper proves it; here it is checked on similarities of embeddings that were trained small.",
    "tables": {},
}
