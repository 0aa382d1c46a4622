"""What studies share: how large a run is on a processor for each set of images, and Chen & Li's optimizers."""

from collections.abc import Mapping

from isotherm.experiments.study import Settings

ADAM = {"optimizer": "adam", "lr": 0.002, "weight_decay": 1e-6}
"""Chen & Li's losses at smoke and cpu scale."""
LARS = {"optimizer": "lars", "lr": 0.075, "lr_scaling": "sqrt", "decay_all": False, "warmup": 10.0}
"""Chen & Li's at paper scale: SimCLR's, as the paper states none of its own (`train.presets`)."""
SMOKE = {"images": 300, "epochs": 2, "batch": 100, "encoder": "convnet", "encoder.widths": [8, 16]}
DIGITS = {
    "epochs": 24,
    "batch": 128,
    "encoder": "convnet",
    "encoder.widths": [32, 64, 64],
    "encoder.stride": 2,
}
CIFAR = {
    "images": 5000,
    "epochs": 15,
    "batch": 128,
    "recipe": "simclr-cifar",
    "encoder": "convnet",
    "encoder.stride": 2,
}
MNIST = {
    "images": 3000,
    "epochs": 8,
    "batch": 128,
    "encoder": "convnet",
    "encoder.widths": [16, 32, 64],
    "encoder.stride": 2,
}
BY_DATA: Mapping[str, Settings] = {
    "digits": DIGITS,
    "mnist": MNIST,
    "fashion-mnist": MNIST,
    "cifar10": {**CIFAR, "normalize": "cifar10"},
    "cifar100": {**CIFAR, "normalize": "cifar100"},
}
"""Settings of `cpu` scale."""
_THIN = {**CIFAR, "epochs": 10, "encoder.widths": [16, 32, 64, 128]}
QUICK: Mapping[str, Settings] = {
    **BY_DATA,
    "cifar10": {**_THIN, "normalize": "cifar10"},
    "cifar100": {**_THIN, "normalize": "cifar100"},
}
"""The same for studies of many arms: thinner and shorter on CIFAR."""
SHORT: Settings = {"head": "mlp-bn", "lr": 0.03, "warmup_part": 0.05, "clip": 3.0}
"""How SGD spreads an embedding at low temperatures too, the same for every arm (docs/decisions/0016).

The head's last BN has no shift that could grow into a cone. Gradients grow as 1/τ: without a bound on their norm
NT-Xent at τ = 0.05 has not spread after 2,000 steps.
"""
_BY_STEPS = {
    **SHORT,
    "steps": 2000,
    "batch": 128,
    "recipe": "simclr-cifar",
    "encoder": "convnet",
    "encoder.widths": [16, 32, 64, 128],
    "encoder.stride": 2,
}
BY_STEPS: Mapping[str, Settings] = {
    "cifar10": {**_BY_STEPS, "normalize": "cifar10"},
    "cifar100": {**_BY_STEPS, "normalize": "cifar100"},
}
"""So many steps over all images: images are free, steps are not."""
BANK: Settings = {"head": "linear-bn", "images": 5000, "clip": 1.0}
"""Over `BY_STEPS` for a memory bank: an entry is as old as an epoch, so 2,000 steps must be many of them. Its first
gradients are some 0.4 times as long; with a bound of 3 it spread less and learnt less than with 1."""
