"""CACR (arXiv:2105.03746) on ImageNet, in MoCo v2 (Alg. 3) and MoCo v3, and its tables 4, 5, 15, 16 and 18."""

from collections.abc import Mapping
from typing import Any

from isotherm.train.presets.preset import Preset, Published, Settings, of, printed, with_loss, with_method

IMAGENET = {"data": "imagenet", "normalize": "imagenet", "encoder": "resnet50"}
MULTI_CROP = {"recipe": "multi-crop"}
"""SwAV's: two crops of 224 pixels and six of 96."""
# C.2. "Decayed by a cosine scheduler for MoCo-V2 at epoch 120 and epoch 160" is a cosine here, as in MoCo v2.
_MOCO_V2 = {
    **IMAGENET,
    "recipe": "mocov2",
    "head": "mocov2",
    "method": "mocov2",
    "views": 2,
    "epochs": 200,
    "batch": 256,
    "lr": 0.03,
    "weight_decay": 1e-4,
}
_CACR = with_loss(
    with_method(_MOCO_V2, "mocov2", every_view=True, intra_batch=True),
    "CACRLoss",
    t_pos=1.0,
    t_neg=2.0,
    detach_weights="positive",
)
_FOUR = {"views": 5}
_BATCHES = "batch 256 as in Table 4 and C.2; §5 and Table 17 divide it by four: --batch 64"
# Wang & Isola's code for MoCo (SsnL/moco_align_uniform) minimizes 3 · alignment + uniformity. Ours has no factor before
# the alignment: a third of that, with three times the rate and a third of the decay, takes the same steps.
_AU_CL = {
    **with_loss(with_method(_MOCO_V2, "mocov2", intra_batch=True), "AlignUniformLoss", t=3.0, weight=1 / 3),
    "lr": 0.09,
    "weight_decay": 1e-4 / 3,
}
_IN_MOCO_V2 = {
    "mocov2-{}": ("MoCo v2 (CL), τ = 0.2", with_loss(_MOCO_V2, "NTXentLoss", temperature=0.2), (77.54, 67.50)),
    "au-cl-{}": ("AU-CL, t = 3, three parts of alignment to one of uniformity", _AU_CL, (77.66, 67.69)),
    "hn-cl-{}": (
        "HN-CL, τ = 0.5, β = 1",
        with_loss(_MOCO_V2, "HardNegativeLoss", temperature=0.5, beta=1.0),
        (76.34, 67.41),
    ),
    "cacr-{}": ("CACR, K = 1, Alg. 3: the queue and the batch's queries", _CACR, (79.40, 68.40)),
    "cmc-{}-k4": (
        "CMC, K = 4, τ = 0.07: every query for every key by itself",
        with_loss(
            with_method({**_MOCO_V2, **_FOUR}, "mocov2", every_view=True, pairwise=True), "NTXentLoss", temperature=0.07
        ),
        (78.84, 69.45),
    ),
    "cacr-{}-k4": (f"CACR, K = 4, Alg. 3; {_BATCHES}", {**_CACR, **_FOUR}, (80.46, 70.35)),
}
"""By name: what it is, its settings, and Table 15's accuracies on ImageNet-100 and ImageNet."""
_MORE = {
    "mocov2-imagenet": (Published("Table 5", 67.5), Published("Table 16", 69.9)),
    "cacr-imagenet": (Published("Table 5", 69.5),),
    "cacr-imagenet-k4": (Published("Table 5", 70.4), Published("Table 16", 70.4)),
}
_BY_EPOCHS: Mapping[str, Mapping[int, tuple[tuple[float, str], ...]]] = {
    "mocov2-imagenet": {
        100: ((67.4, "Table 16"),),
        400: ((71.0, "Table 16"),),
        800: ((72.2, "Table 16"), (72.2, "Table 4")),
    },
    "cacr-imagenet": {1000: ((73.7, "Table 4"),)},
    "cacr-imagenet-k4": {
        100: ((68.3, "Table 16"),),
        400: ((73.8, "Table 16"),),
        800: ((74.0, "Table 16"),),
        1000: ((74.4, "Table 16"), (74.4, "Table 4")),
    },
}
"""Longer and shorter. Table 16 says neither K nor framework, Table 4 no epochs; K = 4 in MoCo v2 fits both at 200."""
_LESS_CURATED = {
    "webvision": ("Webvision v1", 100, {"mocov2": 62.3, "cacr": 64.5, "cacr-k4": 66.1}),
    "imagenet22k": ("ImageNet-22K", 20, {"mocov2": 59.9, "cacr": 61.9, "cacr-k4": 64.5}),
}
# MoCo v3 (arXiv:2104.02057): its code's command for ResNet-50 and 1000 epochs, and the one for a ViT-B/16.
_MOCO_V3 = {
    **IMAGENET,
    "recipe": "mocov3-resnet",
    "head": "mocov3-resnet",
    "predictor": "mocov3-resnet-predictor",
    "method": "mocov3",
    "method.momentum": 0.996,
    "loss": "NTXentLoss",
    "loss.temperature": 1.0,
    "epochs": 800,
    "batch": 4096,
    "optimizer": "lars",
    "lr": 0.3,
    "lr_scaling": "linear",
    "weight_decay": 1.5e-6,
    "decay_all": False,
    "warmup": 10.0,
    "precision": "16-mixed",
}
VIT = {
    **IMAGENET,
    "recipe": "mocov3",
    "encoder": "vit_base",
    "encoder.stop_grad_patch": True,
    "head": "mocov3",
    "predictor": "mocov3-predictor",
    "method": "mocov3",
    "method.momentum": 0.99,
    "loss": "NTXentLoss",
    "loss.temperature": 0.2,
    "epochs": 300,
    "batch": 4096,
    "optimizer": "adamw",
    "lr": 1.5e-4,
    "lr_scaling": "linear",
    "weight_decay": 0.1,
    "warmup": 40.0,
    "precision": "16-mixed",
}
_COST = "RBF cost, the authors' default (the text's: --loss.cost euclidean)"


def _in_moco_v3(settings: Settings) -> dict[str, Any]:
    return with_loss(settings, "CACRLoss", t_pos=1.0, t_neg=2.0, cost="rbf", detach_weights="positive")


def table_18(tuned: float, linear: float) -> tuple[Published, ...]:
    """What it prints of an encoder: fine-tuned, and with a linear classifier."""
    return Published("Table 18", tuned, "fine-tuned"), Published("Table 18", linear)


def _less_curated(data: str, name: str) -> Preset:
    title, epochs, accuracies = _LESS_CURATED[data]
    settings = {
        "mocov2": _IN_MOCO_V2["mocov2-{}"][1],
        "cacr": _CACR,
        "cacr-k4": {**_CACR, **_FOUR},
    }[name]
    about = f"§5.2, {title}, {epochs} epochs, then judged on ImageNet; where your copy is: --data folder:PATH"
    return Preset(
        about, {**settings, "data": f"folder:{data}", "epochs": epochs}, published=printed("Table 5", accuracies[name])
    )


def _table_15(name: str, data: str) -> Preset:
    title, settings, accuracies = _IN_MOCO_V2[name]
    hundred = {"data": "imagenet100", "batch": 128} if data == "imagenet100" else {}
    where = "ImageNet-100, batch 128" if hundred else "ImageNet"
    numbers = (*printed("Table 15", accuracies[not hundred]), *_MORE.get(name.format(data), ()))
    return Preset(f"C.2, {where}, ResNet-50, MoCo v2, 200 epochs: {title}", {**settings, **hundred}, published=numbers)


def _for_epochs(name: str, epochs: int) -> Preset:
    base = _table_15(name.replace("imagenet", "{}"), "imagenet")
    numbers = tuple(Published(table, value) for value, table in _BY_EPOCHS[name][epochs])
    about = base.about.replace("200 epochs", f"{epochs} epochs")
    return Preset(about, {**base.settings, "epochs": epochs}, published=numbers)


CACR_LARGE = of(
    "CACR",
    "cacr-large-augmented",
    {
        **{n.format(data): _table_15(n, data) for n in _IN_MOCO_V2 for data in ("imagenet100", "imagenet")},
        **{f"{n}-{epochs}": _for_epochs(n, epochs) for n in _BY_EPOCHS for epochs in _BY_EPOCHS[n]},
        **{
            f"{n.removesuffix('-k4')}-{data}{'-k4' if n.endswith('-k4') else ''}": _less_curated(data, n)
            for data in _LESS_CURATED
            for n in ("mocov2", "cacr", "cacr-k4")
        },
        "mocov3-imagenet": Preset(
            "MoCo v3 (arXiv:2104.02057), ResNet-50: 800 epochs by CACR's text, the rest by MoCo v3's code for 1000",
            _MOCO_V3,
            published=table_18(77.0, 73.8),
        ),
        "mocov3-imagenet-1000": Preset(
            "the same for 1000 epochs, MoCo v3's own (its code reports 74.6)",
            {**_MOCO_V3, "epochs": 1000},
            tables=("Table 18",),
        ),
        "mocov3-imagenet-100": Preset(
            "MoCo v3's code for 100 epochs (it reports 68.9)",
            {**_MOCO_V3, "epochs": 100, "lr": 0.6, "weight_decay": 1e-6, "method.momentum": 0.99},
            tables=("Table 18",),
        ),
        "cacr-imagenet-mocov3": Preset(
            f"C.2, CACR in MoCo v3, ResNet-50, 800 epochs; {_COST}",
            _in_moco_v3(_MOCO_V3),
            published=table_18(78.1, 74.7),
        ),
        "cacr-imagenet-mocov3-1000": Preset(
            f"the same for the 1000 epochs of the code; {_COST}",
            _in_moco_v3({**_MOCO_V3, "epochs": 1000}),
            tables=("Table 18",),
        ),
        "mocov3-imagenet-vit": Preset(
            "MoCo v3 (arXiv:2104.02057), ViT-B/16, 300 epochs", VIT, published=table_18(83.2, 76.5)
        ),
        "cacr-imagenet-vit": Preset(
            f"C.2, CACR in MoCo v3, ViT-B/16, 300 epochs; {_COST}",
            _in_moco_v3(VIT),
            published=table_18(83.4, 76.8),
            tables=("Table 18", "Table 6"),
        ),
        "cacr-imagenet-multi-crop": Preset(
            f"CACR† in MoCo v3, ResNet-50, 800 epochs, with SwAV's crops; {_COST}",
            _in_moco_v3({**_MOCO_V3, **MULTI_CROP}),
            published=table_18(78.4, 75.3),
        ),
        "cacr-imagenet-vit-multi-crop": Preset(
            f"CACR† in MoCo v3, ViT-B/16, 300 epochs, with SwAV's crops; {_COST}",
            _in_moco_v3({**VIT, **MULTI_CROP}),
            published=table_18(83.4, 77.1),
        ),
    },
)
