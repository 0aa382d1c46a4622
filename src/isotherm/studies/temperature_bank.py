"""How does the temperature shape an embedding learnt with a memory bank? (Wang & Liu 2021, arXiv:2012.09740)

    isotherm study temperature-bank --scale demo                digits, estimated at two minutes
    isotherm study temperature-bank --data cifar10              5,000 images, 2,000 steps a run: estimated at 1¼ hours

The study `temperature` in the paper's own setting: each image against its own past among all images, a linear head,
one view. α of the hard losses is a part of the bank. An entry of the bank is as old as an epoch, so at small scale
there must be many epochs, hence few images; BN without affine follows the head, as in `temperature`. Expected: what
`temperature` expects.
"""

from dataclasses import replace

from isotherm.experiments.sizes import BANK, FEW
from isotherm.experiments.study import Scale, Settings
from isotherm.studies import temperature


def banked(scale: Scale) -> Scale:
    """The same with the head and the bound of a bank, and few of many images."""
    by_data = {data: {**settings, **BANK, **FEW.get(data, {})} for data, settings in scale.data.items()}
    return replace(scale, settings={**scale.settings, **BANK}, data=by_data)


ALPHA = {
    "HardContrastiveLoss": {"svhn": 0.0315, "imagenet100": 0.034},
    "HardSimpleLoss": {"svhn": 4095 / 73_257, "imagenet100": 4095 / 126_689},
}
"""α where it is not 0.0819: of the hard loss as §5.1 prints it, of the simple one what makes 4095 (§5.5)."""
LARGE = {"recipe": "instdisc-blur", "normalize": "imagenet", "encoder": "resnet50", "weight_decay": 1e-4}


def by_set(settings: Settings) -> Settings:
    """The share of negatives that count in this set."""
    alpha = ALPHA.get(settings["loss"]["name"], {}).get(settings["data"])
    return {} if alpha is None else {"loss.alpha": alpha}


SMALL = ("demo", "cpu", "representative")
SCALES = {name: banked(scale) if name in SMALL else scale for name, scale in temperature.SCALES.items()}
_PAPER = SCALES["paper"]
SCALES["paper"] = replace(_PAPER, data={**_PAPER.data, "imagenet100": LARGE}, adjust=by_set)
STUDY = replace(temperature.STUDY, base={"method": "bank", "monitor": 0}, scales=SCALES)
