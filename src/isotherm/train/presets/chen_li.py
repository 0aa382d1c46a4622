"""Chen & Li 2021 (arXiv:2011.02803): five losses (tables D.1 to D.3), random bits, digits on images."""

from collections.abc import Mapping
from typing import Any

from isotherm.train.presets.preset import Preset, Published, of, with_loss, with_method

# App. D: a square-root learning rate. The rates (0.2 on CIFAR, 0.075 on ImageNet), τ and widths are what the author
# states in google-research/simclr#166; LARS, its decay and its warm-up are SimCLR's (arXiv:2002.05709, app. B.1), the
# head is that of its code. Neither the paper nor the author names a decay.
LARS = {
    "optimizer": "lars",
    "lr": 0.075,
    "lr_scaling": "sqrt",
    "weight_decay": 1e-6,
    "decay_all": False,
    "warmup": 10.0,
}
"""SimCLR's, for batches of up to 2048."""
_CIFAR = {
    "data": "cifar10",
    "recipe": "simclr-cifar",
    "encoder": "resnet50",
    "head": "simclr-code",
    "head.width": 64,
    "method": "simclr",
    "loss": "NTXentLoss",
    "loss.temperature": 0.2,
    "epochs": 400,
    "batch": 128,
    **LARS,
    "lr": 0.2,
}
_IMAGENET = {**_CIFAR, "data": "imagenet", "recipe": "simclr", "head.width": 128, "batch": 1024, "lr": 0.075}
_LOSSES: Mapping[str, tuple[str, str, dict[str, Any]]] = {
    "": ("NT-Xent, τ = 0.2", "NTXentLoss", {"temperature": 0.2}),
    "-decoupled": ("decoupled NT-Xent, τ = 1, λ = 0.1", "DecoupledNTXentLoss", {"temperature": 1.0, "weight": 0.1}),
    **{
        f"-swd{'' if prior == 'hypersphere' else f'-{prior}'}": (
            f"SWD ({prior}), λ = 5",
            "GeneralizedContrastiveLoss",
            {"distribution": "swd", "prior": prior, "weight": 5.0},
        )
        for prior in ("hypersphere", "normal", "hypercube")
    },
}
_ACCURACIES = {
    "D.1": {"": 93.0, "-decoupled": 93.0, "-swd": 92.9, "-swd-normal": 92.8, "-swd-hypercube": 92.6},
    "D.2": {"": 68.8, "-decoupled": 69.0, "-swd": 69.0, "-swd-normal": 68.2, "-swd-hypercube": 67.9},
    "D.3": {"": 70.1, "-decoupled": 69.9, "-swd": 69.8, "-swd-normal": 70.1, "-swd-hypercube": 70.0},
}
"""After 400 epochs, with batches of 128 (CIFAR-10) and 1024 (ImageNet)."""
_TABLES = {
    "cifar10": ("D.1", "CIFAR-10", _CIFAR),
    "imagenet": ("D.2", "ImageNet, projector of 2 layers", _IMAGENET),
    "imagenet-3-layers": ("D.3", "ImageNet, projector of 3 layers", {**_IMAGENET, "head.layers": 3}),
}


def _preset(table: str, title: str, settings: dict[str, object], loss: str) -> Preset:
    name, kind, own = _LOSSES[loss]
    about = f"ResNet-50, {title}: {name} (100, 200 and 800 epochs: --epochs)"
    published = (Published(f"Table {table}", _ACCURACIES[table][loss]),)
    return Preset(about, with_loss(settings, kind, **own), published=published)


_BITS = {**_CIFAR, "encoder": "resnet18", "randbit": 8}
_BITS_TITLE = "CIFAR-10 with 8 random bits (others: --randbit), ResNet-18, 400 epochs"
CHEN_LI = of(
    "Chen & Li",
    "simclr-augmented",
    {
        **{
            f"chen-li-{data}{loss}": _preset(table, title, settings, loss)
            for data, (table, title, settings) in _TABLES.items()
            for loss in _LOSSES
        },
        "chen-li-randbit": Preset(f"§3.2: {_BITS_TITLE}; NT-Xent", _BITS, tables=("fig. 6",)),
        "chen-li-randbit-moco": Preset(
            f"§3.2: {_BITS_TITLE}; NT-Xent with momentum contrast", with_method(_BITS, "mocov2"), tables=("fig. 6",)
        ),
        "chen-li-randbit-swd": Preset(
            f"§3.2: {_BITS_TITLE}; SWD (hypersphere)",
            with_loss(_BITS, "GeneralizedContrastiveLoss", distribution="swd", weight=5.0),
            tables=("fig. 6",),
        ),
        "chen-li-randbit-imagenet": Preset(
            "app. C.1: ImageNet with 8 random bits, ResNet-50; batch and epochs are those of table D.2",
            {**_IMAGENET, "randbit": 8},
            tables=("fig. C.1",),
        ),
        "chen-li-randbit-mnist": Preset(
            "app. C.1: MNIST with 8 random bits, as the authors' notebook trains (network, crops, Adam, batch 1000); "
            "the epochs are ours",
            {
                "data": "mnist",
                "recipe": "mnist-crop",
                "encoder": "convnet",
                "encoder.widths": [32, 64, 64],
                "encoder.stride": 2,
                "head": "simclr-code",
                "head.width": 64,
                "method": "simclr",
                "loss": "NTXentLoss",
                "loss.temperature": 0.2,
                "randbit": 8,
                "epochs": 100,
                "batch": 1000,
                "optimizer": "adam",
                "lr": 1e-3,
                "schedule": "constant",
                "weight_decay": 0.0,
            },
            tables=("fig. C.1",),
        ),
        "chen-li-vae": Preset(
            "app. C.1: a VAE on MNIST with 8 random bits: the notebook's network mirrored and its Adam; our epochs",
            {
                "data": "mnist",
                "recipe": "none",
                "views": 1,
                "encoder": "vae",
                "encoder.widths": [32, 64, 64],
                "encoder.hidden": 128,
                "encoder.bn": True,
                "encoder.padding": 0,
                "head": "none",
                "method": "vae",
                "randbit": 8,
                "epochs": 100,
                "batch": 1000,
                "optimizer": "adam",
                "lr": 1e-3,
                "schedule": "constant",
                "weight_decay": 0.0,
            },
            tables=("fig. C.1",),
        ),
        "chen-li-digits-on-imagenet": Preset(
            "§3.2: ImageNet with 60,000 MNIST digits of 28 pixels, ResNet-50, batch 1024 (fewer: --digits; by the "
            "notebook's maximum, the text says addition: --digit_blend sum); the epochs are ours",
            {**_IMAGENET, "loss.temperature": 0.1, "digits": 60_000, "digit_source": "mnist", "epochs": 100},
            tables=("fig. 5", "fig. C.2", "fig. C.3", "fig. C.4"),
        ),
    },
)
