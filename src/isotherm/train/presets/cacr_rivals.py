"""The methods of others in CACR's Tables 4, 16 and 18, in the settings of their own papers and code."""

from collections.abc import Mapping
from typing import Any

from isotherm.train.presets.cacr_large import IMAGENET, MULTI_CROP, VIT, table_18
from isotherm.train.presets.preset import Preset, Published, Settings, of, with_loss, with_method

_LARS = {**IMAGENET, "optimizer": "lars", "lr_scaling": "linear", "decay_all": False, "warmup": 10.0}
_SIMCLR = with_loss(
    {
        **_LARS,
        "recipe": "simclr",
        "head": "simclr-code",
        "method": "simclr",
        "batch": 4096,
        "lr": 0.3,
        "weight_decay": 1e-6,
    },
    "NTXentLoss",
    temperature=0.1,
)
_BYOL = {
    **_LARS,
    "recipe": "byol",
    "head": "byol",
    "predictor": "byol",
    "method": "byol",
    "loss": "BYOLLoss",
    "batch": 4096,
}
_SIMSIAM = {
    **IMAGENET,
    "recipe": "mocov2",
    "encoder.zero_init": True,
    "head": "simsiam",
    "predictor": "simsiam-predictor",
    "method": "simsiam",
    "loss": "SimSiamLoss",
    "batch": 256,
    "lr": 0.05,
    "lr_scaling": "linear",
    "weight_decay": 1e-4,
}
_SWAV_ITSELF = {
    "head": "swav",
    "method": "swav",
    "method.prototypes": 3000,
    "method.temperature": 0.1,
    "method.epsilon": 0.05,
}
# SwAV's code (facebookresearch/swav, scripts/swav_400ep_2x224_pretrain.sh and swav_800ep_pretrain.sh): its rate falls
# to a thousandth instead of to nothing, and begins at 0.3; its LARS spares no BN.
_SWAV = {
    **IMAGENET,
    **_SWAV_ITSELF,
    "recipe": "simclr",
    "batch": 4096,
    "optimizer": "lars",
    "lr": 4.8,
    "weight_decay": 1e-6,
    "warmup": 10.0,
    "precision": "16-mixed",
}
# FNC's code (google-research/fnc) is SimCLR v2's: ten views of 224 pixels, each of which asks a memory of a slow copy's
# keys, sixteen times the batch. There it also holds the keys of the batch, and views have RandAugment; not here.
_FNC = with_loss(
    with_method(
        {
            **_LARS,
            "recipe": "simclr",
            "views": 10,
            "head": "simclr-code",
            "head.layers": 3,
            "batch": 4096,
            "lr": 0.1,
            "lr_scaling": "sqrt",
            "weight_decay": 1e-4,
        },
        "mocov2",
        every_view=True,
        queue=65536,
        momentum=0.999,
    ),
    "FNCLoss",
    temperature=0.1,
    top_k=10,
    threshold=0.7,
)
# SimCLR v2 (arXiv:2006.10029): three layers, decay and τ are the defaults of its code (google-research/simclr, run.py),
# whose rate (0.3 · batch/256) and warm-up (10 epochs) are still SimCLR's: those here are of the paper's §3.1 (0.1 ·
# √batch, 5 % of the epochs). Its memory of past keys is not here.
_SIMCLR_V2 = {**_SIMCLR, "head.layers": 3, "lr": 0.1, "lr_scaling": "sqrt", "weight_decay": 1e-4, "warmup": 40.0}
_ALONE = {name: value for name, value in VIT.items() if name.split(".")[0] not in ("predictor", "method", "loss")}
_TABLE_16: Mapping[str, Mapping[int, float]] = {
    "simclr": {100: 66.5, 200: 68.3, 400: 69.8, 800: 70.4, 1000: 71.7},
    "byol": {100: 66.5, 200: 70.6, 400: 73.2},
    "simsiam": {100: 68.1, 200: 70.0, 400: 70.8, 800: 71.3},
    "swav": {100: 66.5, 200: 69.1, 400: 70.7, 800: 71.8},
    "fnc": {100: 70.4, 1000: 74.4},
}
"""Accuracies by epochs."""
_TABLE_4 = {("simclr", 1000): 71.7, ("simsiam", 800): 71.3, ("swav", 800): 71.8, ("fnc", 1000): 74.4}
_TITLES = {
    "simclr": "SimCLR (arXiv:2002.05709), batch 4096, τ = 0.1",
    "byol": "BYOL (arXiv:2006.07733), batch 4096, rate, decay and momentum of its code for so many epochs",
    "simsiam": "SimSiam (arXiv:2011.10566), batch 256; the predictor's rate falls with the others' here",
    "swav": "SwAV (arXiv:2006.09882), batch 4096, two crops of 224 (256: --lr 0.6 --warmup 0 --method.queue 3840)",
    "fnc": "FNC (arXiv:2011.11765) with its code's multi-crop, ten views of 224 pixels; attraction, top 10 above 0.7",
}


def _byol(lr: float, weight_decay: float, momentum: float) -> dict[str, Any]:
    return {**_BYOL, "lr": lr, "weight_decay": weight_decay, "method.momentum": momentum}


def _by_epochs(name: str, epochs: int) -> Preset:
    settings: Settings = {
        "simclr": _SIMCLR,
        "byol": _byol(0.45 if epochs == 100 else 0.3, 1e-6, 0.99),  # its code has 100, 300 and 1000
        "simsiam": _SIMSIAM,
        "swav": _SWAV,
        "fnc": _FNC,
    }[name]
    numbers = [Published("Table 16", _TABLE_16[name][epochs])]
    if (name, epochs) in _TABLE_4:
        numbers.insert(0, Published("Table 4", _TABLE_4[name, epochs]))
    return Preset(f"{_TITLES[name]}; {epochs} epochs", {**settings, "epochs": epochs}, published=tuple(numbers))


CACR_RIVALS = of(
    "CACR",
    "cacr-large-augmented",
    {
        **{
            "simsiam-imagenet" if (n, epochs) == ("simsiam", 800) else f"{n}-imagenet-{epochs}": _by_epochs(n, epochs)
            for n in _TABLE_16
            for epochs in _TABLE_16[n]
        },
        "byol-imagenet-1000": Preset(
            "BYOL (arXiv:2006.07733), batch 4096; its 74.3 is after 1000 epochs, Table 16 has it at 800",
            {**_byol(0.2, 1.5e-6, 0.996), "epochs": 1000},
            published=(Published("Table 4", 74.3), Published("Table 16", 74.3)),
        ),
        "barlow-imagenet-1000": Preset(
            "Barlow Twins (arXiv:2103.03230), 1000 epochs; batch 1024 as Table 4 has it (its own paper: --batch 2048)",
            {
                **_LARS,
                "recipe": "byol",
                "head": "barlow",
                "method": "barlow",
                "loss": "BarlowTwinsLoss",
                "batch": 1024,
                "lr": 0.2,
                "weight_decay": 1.5e-6,
                "epochs": 1000,
            },
            published=(Published("Table 4", 73.2), Published("Table 16", 73.2)),
        ),
        "fnc-imagenet-small-crops": Preset(
            "FNC by the other reading of multi-crop: two views and SwAV's six small crops, 1000 epochs",
            {**_FNC, **MULTI_CROP, "views": 2, "epochs": 1000},
            tables=("Table 4", "Table 16"),
        ),
        "fnc-imagenet-in-batch": Preset(
            "FNC without memory and slow copy, its code's --memory_multiplier=0: ten views, 100 epochs",
            {**with_method(_FNC, "fnc"), "epochs": 100},
            tables=("Table 16",),
        ),
        "swav-imagenet-multi-crop": Preset(
            "SwAV (arXiv:2006.09882), batch 4096, 800 epochs: two crops of 224 pixels and six of 96",
            {**_SWAV, **MULTI_CROP, "epochs": 800},
            published=(Published("Table 4", 75.3), *table_18(77.8, 75.3)),
        ),
        "swav-imagenet-vit": Preset(
            "SwAV with its crops, ViT-B/16, 300 epochs; optimizer as for MoCo v3's ViT, which the paper does not state",
            {**_ALONE, **_SWAV_ITSELF, **MULTI_CROP},
            published=table_18(82.8, 71.6),
        ),
        "simclrv2-imagenet": Preset(
            "SimCLR v2 (arXiv:2006.10029), ResNet-50, batch 4096, 800 epochs, three layers, τ = 0.1",
            {**_SIMCLR_V2, "epochs": 800},
            published=table_18(77.2, 71.7),
        ),
        "simclrv2-imagenet-vit": Preset(
            "SimCLR, ViT-B/16, 300 epochs, τ = 0.1; the rest as for MoCo v3's ViT, which the paper does not state",
            with_loss({**_ALONE, "recipe": "simclr", "method": "simclr"}, "NTXentLoss", temperature=0.1),
            published=table_18(83.1, 73.9),
        ),
    },
)
