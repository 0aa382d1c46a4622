"""What studies share: how large a run is on a processor for each set of images, and Chen & Li's optimizers."""

from collections.abc import Mapping

from isotherm.experiments.study import Settings

ADAM = {"optimizer": "adam", "lr": 0.002, "weight_decay": 1e-6}
"""Chen & Li's losses at smoke and cpu scale."""
LARS = {"optimizer": "lars", "lr": 0.2, "lr_scaling": "sqrt", "decay_all": False, "warmup": 10.0}
"""Chen & Li's at paper scale: SimCLR's, with the rate that its author states for CIFAR (google-research/simclr#166)."""
DECOUPLED = {"loss": "GeneralizedContrastiveLoss", "loss.distribution": "lse", "loss.temperature": 1.0}
"""Chen & Li's decoupled NT-Xent as Table 1 has it, to which their λ = 0.1 belongs: the alignment is per dimension.

In eq. 4, which has similarities, λ = 0.1 at τ = 1 leaves everything at one point (docs/decisions/0005).
"""
PROJECTOR = {"head": "simclr-code", "head.width": 64}
"""Chen & Li's: as SimCLR's code has it, BN after every layer, the last without a shift; 64 wide on CIFAR-10."""
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
"""How SGD spreads an embedding at every temperature from 0.05 to 1 in 2,000 steps, the same for every arm.

The head's last BN has no shift that could grow into a cone. Gradients grow as 1/τ, and the first of low temperatures
would leave the network where it does not recover: their norm is bounded (docs/decisions/0016).
"""
_CONVNET = {"batch": 128, "encoder": "convnet", "encoder.stride": 2}
_GRAY = {**_CONVNET, "encoder.widths": [16, 32, 64]}
_COLOUR = {**_CONVNET, "recipe": "simclr-cifar", "encoder.widths": [16, 32, 64, 128]}
THIN: Mapping[str, Settings] = {
    "digits": {**_CONVNET, "encoder.widths": [32, 64, 64]},
    "mnist": _GRAY,
    "fashion-mnist": _GRAY,
    "cifar10": {**_COLOUR, "normalize": "cifar10"},
    "cifar100": {**_COLOUR, "normalize": "cifar100"},
}
"""A network, views and batch for each set, with which 2,000 steps take a minute or two of one core."""
_PACE: Mapping[str, Settings] = {
    "digits": {"steps": 300, "lr": 0.05},
    "mnist": {"steps": 1000},
    "fashion-mnist": {"steps": 1000},
}
BY_STEPS: Mapping[str, Settings] = {
    name: {**SHORT, "steps": 2000, **_PACE.get(name, {}), **size} for name, size in THIN.items()
}
"""The same with SGD as above, for so many steps over all images: images are free, steps are not."""
BANK = {"head": "linear-bn", "clip": 1.0}
"""Over `BY_STEPS` for a memory bank: the paper's linear head, and a lower bound, for gradients from old entries."""
FEW = {"cifar10": {"images": 5000}, "cifar100": {"images": 5000}}
"""And few images: an entry is as old as an epoch, so 2,000 steps must be many of them."""
