"""Wang & Liu 2021 (arXiv:2012.09740), §5.1 and Table 1: four losses on four sets."""

from isotherm.train.presets.preset import Preset, Published, of, with_loss

# The bank's momentum (0.5) and the linear head are those of Wu et al. 2018 (arXiv:1805.01978), which §5.1 follows.
_BANK = {
    "recipe": "instdisc",
    "encoder": "resnet18",
    "head": "linear",
    "method": "bank",
    "epochs": 200,
    "batch": 128,
    "lr": 0.03,
    "schedule": "step",
    "milestones": [160, 190],
    "weight_decay": 5e-4,
}
_SETS = {
    "cifar10": {**_BANK, "data": "cifar10", "normalize": "cifar10"},
    "cifar100": {**_BANK, "data": "cifar100", "normalize": "cifar100"},
    "svhn": {**_BANK, "data": "svhn", "normalize": None},
    "imagenet100": {
        **_BANK,
        "data": "imagenet100",
        "recipe": "instdisc-blur",
        "normalize": "imagenet",
        "encoder": "resnet50",
        "weight_decay": 1e-4,
    },
}
_TITLES = {
    "cifar10": "CIFAR-10, ResNet-18",
    "cifar100": "CIFAR-100, ResNet-18",
    "svhn": "SVHN, ResNet-18",
    "imagenet100": "ImageNet-100, ResNet-50",
}
_NEAREST = 4095
_ALPHA = {"cifar10": 0.0819, "cifar100": 0.0819, "svhn": 0.0315, "imagenet100": 0.034}
_ALPHA_NOTE = {
    "svhn": ", 2,308 of 73,257 negatives; §5.1 also says 4095: --loss.top_k 4095",
    "imagenet100": ", 4,308 of 126,689 negatives; §5.1 also says 4095: --loss.top_k 4095",
}
_LOSSES = {
    "": ("contrastive, τ = 0.3", {"cifar10": 83.27, "cifar100": 56.44, "svhn": 95.47, "imagenet100": 75.10}),
    "-simple": ("simple", {"cifar10": 74.83, "cifar100": 39.31, "svhn": 70.83, "imagenet100": 48.09}),
    "-hard": ("hard contrastive, τ = 0.7", {"cifar10": 84.19, "cifar100": 57.54, "svhn": 95.02, "imagenet100": 74.70}),
    "-hard-simple": (
        "hard simple, the nearest 4095",
        {"cifar10": 84.84, "cifar100": 55.71, "svhn": 94.99, "imagenet100": 74.31},
    ),
}
"""What Table 1 calls them, and its accuracies."""


def _preset(data: str, loss: str) -> Preset:
    title, accuracies = _LOSSES[loss]
    settings = {
        "": with_loss(_SETS[data], "NTXentLoss", temperature=0.3),
        "-simple": with_loss(_SETS[data], "SimpleContrastiveLoss"),
        "-hard": with_loss(_SETS[data], "HardContrastiveLoss", temperature=0.7, alpha=_ALPHA[data]),
        "-hard-simple": with_loss(_SETS[data], "HardSimpleLoss", top_k=_NEAREST),
    }[loss]
    note = f" (α = {_ALPHA[data]}{_ALPHA_NOTE.get(data, '')})" if loss == "-hard" else ""
    more = {"": ("supplement, Table 1",), "-hard": ("supplement, Table 2",)}.get(loss, ())
    published = (Published("Table 1", accuracies[data]),)
    return Preset(f"§5.1, {_TITLES[data]}: {title}{note}", settings, tables=("Table 1", *more), published=published)


WANG_LIU = of(
    "Wang & Liu",
    "wang-liu-augmented",
    {f"wang-liu-{data}{loss}": _preset(data, loss) for data in _SETS for loss in _LOSSES},
)
"""Other temperatures of the supplement's tables: ``--loss.temperature``, or `isotherm study temperature-bank`."""
