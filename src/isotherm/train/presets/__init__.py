"""The papers' recipes by name: what their experiment sections say, as settings of `isotherm train`.

``isotherm train --preset wang-liu-cifar10 --print_config > mine.yaml`` shows one, to edit and run with ``--config``.
Where a paper is silent the choice is ours, and `about` or a comment says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Preset:
    """A recipe: where it is from, and its settings."""

    about: str
    settings: Mapping[str, Any]


_CIFAR100 = {"data": "cifar100", "normalize": "cifar100"}
_WANG_LIU = {
    "data": "cifar10",
    "recipe": "instdisc",
    "normalize": "cifar10",
    "encoder": "resnet18",
    "head": "linear",
    "method": "bank",
    "loss": "NTXentLoss",
    "loss.temperature": 0.3,
    "epochs": 200,
    "batch": 128,
    "lr": 0.03,
    "schedule": "step",
    "milestones": [160, 190],
    "weight_decay": 5e-4,
}
# SimCLR's LARS with a square-root learning rate (arXiv:2002.05709, app. B.1).
_LARS = {
    "optimizer": "lars",
    "lr": 0.075,
    "lr_scaling": "sqrt",
    "weight_decay": 1e-6,
    "decay_all": False,
    "warmup": 10.0,
}
# App. D: a square-root learning rate, as in SimCLR; the rate itself, LARS and its decay are SimCLR's (arXiv:2002.05709,
# app. B.1): the paper does not state its own.
_CHEN_LI = {
    "data": "cifar10",
    "recipe": "simclr-cifar",
    "encoder": "resnet50",
    "head": "simclr",
    "head.width": 64,
    "method": "simclr",
    "loss": "NTXentLoss",
    "loss.temperature": 0.2,
    "epochs": 400,
    "batch": 128,
    **_LARS,
}
_CHEN_LI_LARGE = {
    **_CHEN_LI,
    "data": "imagenet",
    "recipe": "simclr",
    "head.width": 128,
    "batch": 1024,
}
# SimCSE's training (arXiv:2104.08821, app. A).
_FINE_TUNED = {
    "loss": "InfoNCELoss",
    "loss.temperature": 0.05,
    "epochs": 1,
    "batch": 64,
    "lr": 3e-5,
    "optimizer": "adamw",
    "schedule": "linear",
    "weight_decay": 0.0,
}
_SIMCSE = {
    **_FINE_TUNED,
    "data": "text:wiki1m_for_simcse.txt",
    "method": "simcse",
    "encoder": "hf:bert-base-uncased",
    "encoder.pooling": "cls",
    "encoder.length": 32,
    "head": "simcse",
}
_WITHOUT_LOSS = {k: v for k, v in _SIMCSE.items() if not k.startswith("loss")}
_DYSTRESS = {
    "data": "cifar10",
    "recipe": "simclr-cifar",
    "normalize": "cifar10",
    "encoder": "resnet18",
    "head": "dystress",
    "method": "simclr",
    "loss": "DySTreSSLoss",
    "loss.tau_min": 0.07,
    "loss.tau_max": 0.2,
    "epochs": 200,
    "batch": 128,
    "lr": 0.06,
    "weight_decay": 5e-4,
}
_DYSTRESS_LARGE = {
    **_DYSTRESS,
    "data": "imagenet",
    "recipe": "simclr",
    "normalize": "imagenet",
    "encoder": "resnet50",
    "head": "simclr",
    "loss.tau_min": 0.1,
    "epochs": 100,
    "batch": 256,
    **_LARS,
    "precision": "16-mixed",
}
_CACR = {
    "data": "cifar10",
    "recipe": "cacr-cifar",
    "normalize": "cifar10",
    "encoder": "small_alexnet",
    "head": "none",
    "method": "cacr",
    "loss": "CACRLoss",
    "loss.t_pos": 1.0,
    "loss.t_neg": 2.0,
    "views": 2,
    "epochs": 200,
    "batch": 768,
    "lr": 0.12,
    "lr_scaling": "linear",
    "schedule": "step",
    "milestones": [155, 170, 185],
    "weight_decay": 1e-4,
}
_CACR_K4 = {**_CACR, "views": 5, "batch": 128, "loss.t_neg": 0.9}
_CACR_LARGE = {
    "data": "imagenet",
    "recipe": "mocov2",
    "normalize": "imagenet",
    "encoder": "resnet50",
    "head": "mocov2",
    "method": "mocov2",
    "method.every_view": True,
    "method.intra_batch": True,
    "loss": "CACRLoss",
    "loss.t_pos": 1.0,
    "loss.t_neg": 2.0,
    "loss.detach_weights": "positive",
    "views": 2,
    "epochs": 200,
    "batch": 256,
    "lr": 0.03,
    "weight_decay": 1e-4,
}
_MOCO_V3 = {
    "data": "imagenet",
    "recipe": "mocov3",
    "normalize": "imagenet",
    "encoder": "resnet50",
    "head": "mocov3-resnet",
    "predictor": "mocov3-predictor",
    "method": "mocov3",
    "loss": "NTXentLoss",
    "loss.temperature": 0.2,
    "epochs": 100,
    "batch": 4096,
    "optimizer": "lars",
    "lr": 0.6,
    "lr_scaling": "linear",
    "weight_decay": 1e-6,
    "decay_all": False,
    "warmup": 10.0,
}

PRESETS = {
    "digits": Preset("SimCLR on the embedded digits: seconds on a CPU, the defaults", {"data": "digits"}),
    "cifar10-cpu": Preset(
        "5,000 CIFAR-10 images, a small network, 20 epochs: under a minute on two cores",
        {"data": "cifar10", "recipe": "simclr-cifar", "normalize": "cifar10", "images": 5000, "epochs": 20},
    ),
    "wang-liu-cifar10": Preset("Wang & Liu §5.1: memory bank, ResNet-18", _WANG_LIU),
    "wang-liu-cifar10-hard": Preset(
        "the same with the hard contrastive loss, α = 0.0819",
        {**_WANG_LIU, "loss": "HardContrastiveLoss", "loss.temperature": 0.9, "loss.alpha": 0.0819},
    ),
    "wang-liu-cifar100": Preset("the same on CIFAR-100", {**_WANG_LIU, **_CIFAR100}),
    "wang-liu-svhn": Preset("the same on SVHN", {**_WANG_LIU, "data": "svhn", "normalize": None}),
    "wang-liu-imagenet100": Preset(
        "Wang & Liu §5.1 on ImageNet-100: ResNet-50, blur as in SimCLR",
        {
            **_WANG_LIU,
            "data": "imagenet100",
            "recipe": "mocov2",
            "normalize": "imagenet",
            "encoder": "resnet50",
            "weight_decay": 1e-4,
        },
    ),
    "wang-liu-svhn-hard": Preset(
        "SVHN with the hard contrastive loss, α = 0.0315",
        {
            **_WANG_LIU,
            "data": "svhn",
            "normalize": None,
            "loss": "HardContrastiveLoss",
            "loss.temperature": 0.9,
            "loss.alpha": 0.0315,
        },
    ),
    "wang-liu-imagenet100-hard": Preset(
        "ImageNet-100 with the hard contrastive loss, α = 0.034",
        {
            **_WANG_LIU,
            "data": "imagenet100",
            "recipe": "mocov2",
            "normalize": "imagenet",
            "encoder": "resnet50",
            "weight_decay": 1e-4,
            "loss": "HardContrastiveLoss",
            "loss.temperature": 0.9,
            "loss.alpha": 0.034,
        },
    ),
    "chen-li-cifar10": Preset("Chen & Li §2.1: ResNet-50, batch 128 (epochs vary in the paper: 100 to 800)", _CHEN_LI),
    "chen-li-cifar10-decoupled": Preset(
        "the same with decoupled NT-Xent",
        {**_CHEN_LI, "loss": "DecoupledNTXentLoss", "loss.temperature": 1.0, "loss.weight": 0.1},
    ),
    "chen-li-cifar10-swd": Preset(
        "the same with the sliced Wasserstein distance to the hypersphere, λ = 5",
        {
            **{k: v for k, v in _CHEN_LI.items() if not k.startswith("loss")},
            "loss": "GeneralizedContrastiveLoss",
            "loss.distribution": "swd",
            "loss.weight": 5.0,
        },
    ),
    "chen-li-randbit": Preset(
        "Chen & Li §3: RandBit on CIFAR-10, ResNet-18, 400 epochs", {**_CHEN_LI, "encoder": "resnet18", "randbit": 8}
    ),
    "chen-li-imagenet": Preset("Chen & Li §2.1 on ImageNet: ResNet-50, batch 1024", _CHEN_LI_LARGE),
    "chen-li-vae": Preset(
        "Chen & Li app. C.1: the VAE on MNIST with RandBit (its training is ours: Adam)",
        {
            "data": "mnist",
            "recipe": "none",
            "views": 1,
            "encoder": "vae",
            "head": "none",
            "method": "vae",
            "randbit": 8,
            "epochs": 50,
            "batch": 128,
            "optimizer": "adam",
            "lr": 1e-3,
            "weight_decay": 0.0,
        },
    ),
    "dystress-cifar": Preset("DySTreSS A.1: ResNet-18, τ 0.07 to 0.2", _DYSTRESS),
    "dystress-cifar100": Preset("the same on CIFAR-100", {**_DYSTRESS, **_CIFAR100}),
    "dystress-cifar-lt": Preset(
        "DySTreSS A.1 on long-tailed CIFAR-10: 500 epochs", {**_DYSTRESS, "imbalance": "long-tail", "epochs": 500}
    ),
    "kukleva-cifar-lt": Preset(
        "DySTreSS Tables 4–5, the rival: τ on a cosine over epochs, 2000 of them",
        {
            **{k: v for k, v in _DYSTRESS.items() if not k.startswith("loss")},
            "loss": "NTXentLoss",
            "loss.temperature": {"name": "CosineSchedule", "tau_min": 0.1, "tau_max": 1.0, "period": 400},
            "imbalance": "long-tail",
            "epochs": 2000,
        },
    ),
    "dystress-imagenet": Preset("DySTreSS §4: ResNet-50, LARS, τ 0.1 to 0.2, 100 epochs", _DYSTRESS_LARGE),
    "dystress-imagenet100": Preset(
        "DySTreSS §5.5: ImageNet-100, batch 128, 400 epochs",
        {**_DYSTRESS_LARGE, "data": "imagenet100", "batch": 128, "epochs": 400},
    ),
    "cacr-cifar10": Preset("CACR app. C.1: SmallAlexNet, K = 1, batch 768", _CACR),
    "cacr-cifar10-k4": Preset("the same with K = 4, batch 128", _CACR_K4),
    "cacr-cifar100": Preset("the same on CIFAR-100, K = 1", {**_CACR, **_CIFAR100, "loss.t_neg": 3.0}),
    "cacr-cifar100-k4": Preset("the same with K = 4", {**_CACR_K4, **_CIFAR100, "loss.t_neg": 2.0}),
    "cacr-stl10": Preset(
        "CACR app. C.1 on STL-10, K = 1",
        {**_CACR, "data": "stl10", "recipe": "stl10", "normalize": "stl10", "loss.t_neg": 3.0},
    ),
    "cacr-imagenet": Preset("CACR app. C.2, Alg. 3: MoCo v2 with queue and the batch's queries, K = 1", _CACR_LARGE),
    "cacr-imagenet-k4": Preset("the same with K = 4", {**_CACR_LARGE, "views": 5}),
    "cacr-imagenet100": Preset("the same on ImageNet-100", {**_CACR_LARGE, "data": "imagenet100", "batch": 128}),
    "cacr-imagenet-mocov3": Preset(
        "CACR app. C.2 in MoCo v3's setting",
        {
            **{k: v for k, v in _MOCO_V3.items() if not k.startswith("loss")},
            "loss": "CACRLoss",
            "loss.t_neg": 2.0,
            "loss.detach_weights": "positive",
        },
    ),
    "mocov2-imagenet": Preset(
        "MoCo v2 (arXiv:2003.04297), the baseline of DySTreSS and CACR",
        {
            **{k: v for k, v in _CACR_LARGE.items() if not k.startswith(("loss", "method"))},
            "method": "mocov2",
            "loss": "NTXentLoss",
            "loss.temperature": 0.2,
        },
    ),
    "simcse-bert": Preset(
        "SimCSE (arXiv:2104.08821) app. A, unsupervised: BERT on a million sentences of Wikipedia, the baseline of "
        "DySTreSS Table 12",
        _SIMCSE,
    ),
    "simcse-bert-macl": Preset(
        "DySTreSS Table 12, the rival: SimCSE with MACL (τ₀ is SimCSE's; α and A₀ are MACL's for images)",
        {**_WITHOUT_LOSS, "loss": "MACLLoss", "loss.temperature": 0.05},
    ),
    "simcse-bert-dystress": Preset(
        "DySTreSS Table 12: SimCSE with temperatures from 0.03 to 0.05",
        {**_WITHOUT_LOSS, "loss": "DySTreSSLoss", "loss.tau_min": 0.03, "loss.tau_max": 0.05},
    ),
    "simcse-bert-dystress-shifted": Preset(
        "DySTreSS Table 12, its best: from 0.05 to 0.07, shift −0.4, scale 0.7",
        {
            **_WITHOUT_LOSS,
            "loss": "DySTreSSLoss",
            "loss.profile": "shifted",
            "loss.tau_min": 0.05,
            "loss.tau_max": 0.07,
            "loss.shift": -0.4,
            "loss.scale": 0.7,
        },
    ),
    "mocov3-imagenet": Preset("MoCo v3 (arXiv:2104.02057) with ResNet-50", _MOCO_V3),
}
"""Every recipe by name."""

USUAL = {
    "sentences": _FINE_TUNED,
    "sentences from scratch": {**_FINE_TUNED, "head": "none", "epochs": 2, "batch": 256, "lr": 5e-3, "warmup": 0.1},
}
"""What `isotherm train --method simcse` does unless told: SimCSE's own settings (app. A), which are for a pretrained
encoder, and larger steps for one that starts from scratch (whose views are crops: `corpus`)."""
