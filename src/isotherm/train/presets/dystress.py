"""Manna et al. 2024 (DySTreSS, arXiv:2308.01140): CIFAR (A.1), long tails, ImageNet-100 and ImageNet, with rivals."""

from typing import Any

from isotherm.train.presets.chen_li import LARS
from isotherm.train.presets.preset import Preset, Published, Settings, of, printed, with_loss, with_method

# A.1: each linear layer of the projector is followed by BN; the head of the authors' code is the same.
_SMALL = {
    "recipe": "simclr-cifar",
    "encoder": "resnet18",
    "head": "dystress",
    "method": "simclr",
    "epochs": 200,
    "batch": 128,
    "lr": 0.06,
    "weight_decay": 5e-4,
}
_CIFAR = {
    "": {**_SMALL, "data": "cifar10", "normalize": "cifar10"},
    "100": {**_SMALL, "data": "cifar100", "normalize": "cifar100"},
}
# "As per the pre-training configuration in Kukleva et al.": that of its code (Annusha/temperature_schedules), whose
# crops hold a tenth of the image or more where ours hold 0.08.
_KUKLEVA = {"epochs": 2000, "batch": 512, "lr": 0.5, "weight_decay": 1e-4, "warmup": 10.0}
_SCHEDULE = {"name": "CosineSchedule", "tau_min": 0.1, "tau_max": 1.0, "period": 400}
_LARGE = {
    "data": "imagenet",
    "recipe": "simclr",
    "normalize": "imagenet",
    "encoder": "resnet50",
    "head": "dystress",
    "method": "simclr",
    "epochs": 100,
    "batch": 256,
    **LARS,
    "precision": "16-mixed",
}
_HUNDRED = {**_LARGE, "data": "imagenet100"}
_T8 = {**_HUNDRED, "epochs": 400, "batch": 128}
# Rivals as lightly's benchmark, which §4 and §5.2 name, has them; its extra rate for the biases of Barlow Twins is not
# here, and VICReg has BYOL's pair of views.
_BYOL = {"recipe": "byol", "head": "byol", "predictor": "byol", "lr": 0.45, "lr_scaling": "linear"}
_BARLOW = {"recipe": "byol", "head": "barlow", "lr": 0.2, "lr_scaling": "linear"}
# §5.5 trains "as in [52] and [51]", Zero-CL and ARB, whose code for large images this is (a rate of its own for biases
# is not here). ARB's code names no rate: Zero-CL's. W-MSE, DINO and VICReg have the numbers, both accuracies, that
# solo-learn prints for ResNet-18 (vturrisi/solo-learn, scripts/pretrain/imagenet-100); W-MSE and DINO are set as there.
# Its W-MSE also has six crops of 96 pixels (--small_crops 6 --small_size 96 --small_scale [0.2,1]) and blurs a fifth of
# the views; W-MSE's own code (htdt/self-supervised) has 240 epochs, 512 images, 128 numbers of 256 items.
_WHITENED = {"encoder.zero_init": True, "recipe": "byol", "head": "barlow", "head.hidden": 2048}
_TRUSTING = {"lr": 0.3, "lr_scaling": "linear", "weight_decay": 1e-6, "trust": 0.02}
_LOSSES = {"zerocl": "ZeroCLLoss", "zeroicl": "ZeroICLLoss", "zerofcl": "ZeroFCLLoss", "arb": "ARBLoss"}
_ADAM = {"optimizer": "adam", "lr": 2e-3, "lr_scaling": "linear", "weight_decay": 1e-6, "decay_all": True}


def rival(name: str, settings: Settings) -> dict[str, Any]:
    """A rival of Tables 1, 2 and 8 in DySTreSS's setting."""
    if name == "byol":
        return with_loss(with_method({**settings, **_BYOL}, "byol", momentum=0.99), "BYOLLoss")
    if name == "barlow":
        return with_loss(with_method({**settings, **_BARLOW, "weight_decay": 1.5e-6}, "barlow"), "BarlowTwinsLoss")
    if name == "vicreg":
        return with_loss(with_method({**settings, **_BARLOW}, "vicreg"), "VICRegLoss")
    if name in _LOSSES:
        method = "arb" if name == "arb" else "zerocl"
        return with_loss(with_method({**settings, **_WHITENED, **_TRUSTING}, method), _LOSSES[name])
    if name == "wmse":
        views = {"recipe": "simclr", "crop_scale": [0.2, 1.0], "head": "wmse"}
        return with_loss(with_method({**settings, **_ADAM, **views}, "wmse"), "WMSELoss", size=128)
    if name == "dino":
        own = {"recipe": "byol", "head": "dino", **_TRUSTING}
        return with_method({**settings, **own}, "dino", prototypes=4096, momentum=0.9995, teacher_warmup=50.0)
    losses = {"simclr": "NTXentLoss", "dcl": "DCLLoss", "dclw": "DCLWLoss", "macl": "MACLLoss"}
    return with_loss(settings, losses[name], temperature=0.1)


_TITLES = {
    "simclr": "SimCLR, τ = 0.1",
    "dcl": "DCL, τ = 0.1",
    "dclw": "DCLW, τ = 0.1",
    "macl": "MACL, τ₀ = 0.1",
    "byol": "BYOL",
    "barlow": "Barlow Twins",
    "vicreg": "VICReg",
    "zeroicl": "Zero-ICL",
    "zerofcl": "Zero-FCL",
    "zerocl": "Zero-CL",
    "arb": "ARB",
    "wmse": "W-MSE as solo-learn has it (the table says 256 numbers, which 128 items cannot whiten)",
    "dino": "DINO as solo-learn has it, two views, 4096 prototypes",
}
_TABLE_1 = {"simclr": 75.54, "dcl": 77.38, "byol": 75.02, "barlow": 75.88, "vicreg": 76.36, "macl": 78.28}
_TABLE_2 = {"simclr": 63.2, "dcl": 65.1, "dclw": 64.2, "byol": 62.4, "barlow": 62.9, "vicreg": 63.0, "macl": 64.3}
_TABLE_8 = {
    "barlow": (2048, 78.62),
    "vicreg": (2048, 79.22),
    "zeroicl": (256, 78.02),
    "zerofcl": (2048, 79.32),
    "zerocl": (2048, 79.26),
    "wmse": (64, 69.06),
    "arb": (2048, 79.48),
    "dino": (256, 74.84),
    "byol": (4096, 80.09),
}
"""Width of the projector's last layer, and accuracy."""
_RESNET_18 = {"vicreg", "wmse", "dino"}
"""Whose printed number is solo-learn's of ResNet-18; §4 says ResNet-50 for all."""
_TABLE_9 = {"": ("CIFAR-10", 84.02, 85.52), "100": ("CIFAR-100", 46.79, 52.72)}
"""Accuracies of DINO and of W-MSE."""
_TABLE_14 = {"0.07-0.1": (0.07, 0.1, 77.28), "0.07-0.5": (0.07, 0.5, 76.34), "0.07-0.2": (0.07, 0.2, 78.46)}
_TABLE_15 = {
    "shift-0": (0.0, 0.5, 78.46),
    "right-0.2": (0.2, 0.6, 78.56),
    "right-0.4": (0.4, 0.7, 78.46),
    "left-0.2": (-0.2, 0.6, 78.78),
    "left-0.4": (-0.4, 0.7, 78.82),
}
"""Δs, k, accuracy."""
_EPOCHS = "the epochs, which the paper does not state, are those of the authors' command"


def _dystress(settings: Settings, low: float, high: float = 0.2, **own: Any) -> dict[str, Any]:
    return with_loss(settings, "DySTreSSLoss", tau_min=low, tau_max=high, **own)


def _eight(name: str, width: int) -> dict[str, Any]:
    wide = {**rival(name, _T8), "head.width": width}
    return {**wide, "predictor.width": width} if name == "byol" else wide


def _dino_on_cifar(settings: Settings) -> dict[str, Any]:
    """lightly's benchmark on CIFAR-10: no small crops, two layers, a momentum that stays; rate 0.06 · batch/128."""
    own = {"crop_scale": [0.4, 1.0], "head": "dino-resnet", "head.layers": 2, "lr": 0.12, "batch": 256}
    return with_method({**settings, **own}, "dino", prototypes=2048, momentum=0.99, momentum_end=0.99)


def _wmse_on_cifar(settings: Settings) -> dict[str, Any]:
    """W-MSE's own (arXiv:2007.06346, §4; htdt/self-supervised): the rate falls to a fifth 50 and 25 epochs before the
    end, 500 steps of warm-up. Its command has 512 images and 1000 epochs, and grey views with 0.1 instead of 0.2."""
    own = {"crop_scale": [0.2, 1.0], "head": "wmse", "batch": 256, "lr": 3e-3, "optimizer": "adam"}
    falls = {"weight_decay": 1e-6, "warmup": 2.5, "schedule": "step", "milestones": [150, 175], "factor": 0.2}
    return with_loss(with_method({**settings, **own, **falls}, "wmse"), "WMSELoss", size=128)


_SMALL_SCALE = {
    "dystress-cifar": Preset(
        "A.1: CIFAR-10, ResNet-18, τ 0.07 to 0.2 (Table 9 has batches of 256: --batch 256)",
        _dystress(_CIFAR[""], 0.07),
        published=(Published("Table 3", 85.68, "200-NN"), Published("Table 9", 85.68, "200-NN")),
    ),
    "dystress-cifar100": Preset(
        "A.1: CIFAR-100, ResNet-18, τ 0.07 to 0.2 (Table 9 has batches of 256: --batch 256)",
        _dystress(_CIFAR["100"], 0.07),
        published=(Published("Table 3", 56.57, "200-NN"), Published("Table 9", 56.57, "200-NN")),
    ),
    "dystress-tiny-imagenet": Preset(
        "A.1: Tiny-ImageNet, ResNet-50 as for large images, 200 epochs; no table has its result",
        _dystress({**_SMALL, "data": "tiny-imagenet", "normalize": "imagenet", "encoder": "resnet50"}, 0.07),
        tables=("A.1",),
    ),
    **{
        f"dino-cifar{data}": Preset(
            f"{title}, batch 256, 200 epochs: DINO as lightly's benchmark has it",
            _dino_on_cifar(_CIFAR[data]),
            published=printed("Table 9", dino, "200-NN"),
        )
        for data, (title, dino, _) in _TABLE_9.items()
    },
    **{
        f"wmse-cifar{data}": Preset(
            f"{title}, batch 256, 200 epochs: W-MSE 2, the rest as in its authors' code (there 512 and 1000)",
            _wmse_on_cifar(_CIFAR[data]),
            published=printed("Table 9", wmse, "200-NN"),
        )
        for data, (title, _, wmse) in _TABLE_9.items()
    },
}
_TAIL_6 = {
    "": ("CIFAR-10-LT", "Table 6", (58.36, 56.40), (57.12, 55.29)),
    "100": ("CIFAR-100-LT", "Table 7", (29.43, 27.10), (28.27, 26.18)),
}
"""Accuracies of the nearest neighbour and of ten: of DySTreSS, of SimCLR."""
_TAIL_4 = {"": ("CIFAR-10-LT", 64.98, 62.91), "100": ("CIFAR-100-LT", 31.71, 30.20)}
_LONG_TAIL = {
    **{
        f"dystress-cifar{data}-lt": Preset(
            f"A.1: {title}, 500 epochs, τ 0.07 to 0.2 (from 0.1: --loss.tau_min 0.1)",
            _dystress({**_CIFAR[data], "imbalance": "long-tail", "epochs": 500}, 0.07),
            published=(Published(table, ours[0], "1-NN"), Published(table, ours[1], "10-NN")),
        )
        for data, (title, table, ours, _) in _TAIL_6.items()
    },
    **{
        f"simclr-cifar{data}-lt": Preset(
            f"{title}, 500 epochs: SimCLR, whose τ the paper does not state: 0.2",
            with_loss({**_CIFAR[data], "imbalance": "long-tail", "epochs": 500}, "NTXentLoss", temperature=0.2),
            published=(Published(table, theirs[0], "1-NN"), Published(table, theirs[1], "10-NN")),
        )
        for data, (title, table, _, theirs) in _TAIL_6.items()
    },
    **{
        f"dystress-cifar{data}-lt-2000": Preset(
            f"{title}, 2000 epochs in Kukleva et al.'s setting, τ 0.07 to 0.2; which accuracy it is nobody says",
            _dystress({**_CIFAR[data], **_KUKLEVA, "imbalance": "long-tail"}, 0.07),
            published=printed("Table 4", ours, "accuracy"),
        )
        for data, (title, ours, _) in _TAIL_4.items()
    },
    **{
        f"kukleva-cifar{data}-lt": Preset(
            f"{title}, the rival: τ from 1 to 0.1 and back in 400 epochs, five times (Kukleva et al. 2023)",
            with_loss(
                {**_CIFAR[data], **_KUKLEVA, "imbalance": "long-tail"}, "NTXentLoss", temperature=dict(_SCHEDULE)
            ),
            published=printed("Table 4", theirs, "accuracy"),
        )
        for data, (title, _, theirs) in _TAIL_4.items()
    },
}
_LT_100 = {
    **{k: v for k, v in _HUNDRED.items() if k not in LARS},
    **_KUKLEVA,
    "imbalance": "imagenet100-lt",
    "batch": 256,
    "epochs": 800,
}
_LT_ABOUT = "ImageNet-100-LT, batch 256; epochs and the rest as in Kukleva et al.'s code (the text: 2000 for CIFAR)"
_LONG_TAIL |= {
    "dystress-imagenet100-lt": Preset(
        f"{_LT_ABOUT}; τ 0.1 to 0.2", _dystress(_LT_100, 0.1), published=printed("Table 5", 46.1, "accuracy")
    ),
    "kukleva-imagenet100-lt": Preset(
        f"{_LT_ABOUT}; the rival with its schedule",
        with_loss(_LT_100, "NTXentLoss", temperature=dict(_SCHEDULE)),
        published=printed("Table 5", 45.3, "accuracy"),
    ),
}
_LARGE_SCALE = {
    "dystress-imagenet": Preset(
        "§4, ImageNet, ResNet-50, LARS, 100 epochs: τ 0.1 to 0.2",
        _dystress(_LARGE, 0.1),
        published=printed("Table 2", 65.21),
        tables=("Table 2", "Table 11", "Table 13"),
    ),
    **{
        f"{name}-imagenet": Preset(
            f"ImageNet, 100 epochs, as lightly's benchmark has it: {_TITLES[name]}",
            rival(name, _LARGE),
            published=printed("Table 2", value),
        )
        for name, value in _TABLE_2.items()
    },
    "dystress-imagenet100": Preset(
        f"§5.1, ImageNet-100, ResNet-50, batch 256, τ 0.1 to 0.2; {_EPOCHS}",
        _dystress(_HUNDRED, 0.1),
        published=(Published("Table 1", 78.78), Published("Table 14", 78.76)),
    ),
    **{
        f"{name}-imagenet100": Preset(
            f"ImageNet-100, batch 256: {_TITLES[name]}", rival(name, _HUNDRED), published=printed("Table 1", value)
        )
        for name, value in _TABLE_1.items()
    },
    "dcl-dystress-imagenet100": Preset(
        "§5.1, ImageNet-100: DCL with DySTreSS's temperature, which gains 0.14 points",
        with_loss(_HUNDRED, "DCLLoss", temperature={"name": "Cosine", "tau_min": 0.1, "tau_max": 0.2}),
        tables=("Table 1",),
    ),
    **{
        f"dystress-imagenet100-{name}": Preset(
            f"§5.8, ImageNet-100, batch 256: τ {low:g} to {high:g}",
            _dystress(_HUNDRED, low, high),
            published=printed("Table 14", value),
        )
        for name, (low, high, value) in _TABLE_14.items()
    },
    **{
        f"dystress-imagenet100-{name}": Preset(
            f"§5.8, ImageNet-100, batch 256: τ 0.1 to 0.2, Δs = {shift:g}, k = {scale:g} (Alg. 2)",
            _dystress(_HUNDRED, 0.1, profile="shifted", shift=shift, scale=scale),
            published=(*printed("Table 15", value), *(printed("Table 1", 78.82) if name == "left-0.4" else ())),
        )
        for name, (shift, scale, value) in _TABLE_15.items()
    },
    "dystress-imagenet100-400": Preset(
        "§5.5, ImageNet-100, 400 epochs, batch 128, embeddings of 2048",
        _dystress({**_T8, "head.width": 2048}, 0.1),
        published=printed("Table 8", 81.24),
    ),
    **{
        f"{name}-imagenet100-400": Preset(
            f"§5.5, ImageNet-100, 400 epochs, batch 128, embeddings of {width}: {_TITLES[name]}"
            + "; printed: that of ResNet-18 (--encoder resnet18)" * (name in _RESNET_18),
            _eight(name, width),
            published=printed("Table 8", value),
        )
        for name, (width, value) in _TABLE_8.items()
    },
}
DYSTRESS = {
    **of("DySTreSS", "knn", _SMALL_SCALE | _LONG_TAIL),
    **of("DySTreSS", "lightly-augmented", _LARGE_SCALE),
}
