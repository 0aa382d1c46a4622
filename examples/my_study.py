"""Does a higher power spread the embedding more evenly? (a study of one's own, over `examples/my_loss.py`)

    isotherm study --list ./examples/my_study.py
    isotherm study ./examples/my_study.py --scale smoke     digits, seconds
    isotherm study ./examples/my_study.py                   digits, about a minute on two cores

PowerLoss over four powers, and NT-Xent beside it. Expected: like a lower temperature, a higher power looks at the
nearest negatives and makes the embedding more uniform.
"""

from pathlib import Path

from isotherm.experiments.claims.rules import Trend
from isotherm.experiments.figures.plots import Against
from isotherm.experiments.study import Arm, Claim, Figure, Scale, Study

LOSS = f"{Path(__file__).with_name('my_loss.py')}:PowerLoss"
POWER = "loss.power"
OURS, USUAL = "PowerLoss", "NT-Xent"

STUDY = Study(
    base={"data": "digits", "method": "simclr", "encoder": "convnet", "monitor": 0},
    arms=(
        Arm(OURS, {"loss": LOSS}, {POWER: (1.0, 4.0, 16.0, 64.0)}),
        Arm(USUAL, {"loss": "NTXentLoss", "loss.temperature": 0.2}),
    ),
    scales={
        "smoke": Scale("seconds", {"images": 200, "epochs": 1, "batch": 100, "encoder.widths": [8]}),
        "cpu": Scale("a small network; three seeds", {"epochs": 10, "batch": 128, "encoder.widths": [16, 32]}, seeds=3),
    },
    claims=(Claim("A higher power spreads the embedding more evenly.", "ours", Trend("uniformity", OURS, -1, POWER)),),
    figures=(
        Figure("Against the power", "ours", Against([OURS], POWER, "power", ("uniformity", "linear"), log_x=True)),
    ),
)
