"""Methods by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from isotherm.checks import did_you_mean, known_settings
from isotherm.losses.loss import Loss
from isotherm.methods.bank import MemoryBank
from isotherm.methods.clip import CLIP
from isotherm.methods.dino import DINO
from isotherm.methods.in_batch import InBatch
from isotherm.methods.individual import ISogCLR, TaU
from isotherm.methods.masked import MaskedWords
from isotherm.methods.method import Given, Method, Network, method_for
from isotherm.methods.momentum import MoCoV2, MoCoV3
from isotherm.methods.nnclr import NNCLR
from isotherm.methods.reference import Autoencoder, Supervised
from isotherm.methods.siamese import BYOL, SimSiam
from isotherm.methods.simcse import SimCSE
from isotherm.methods.swav import SwAV

FROM_THE_RUN = ("self", "network", "loss", "given")
"""Arguments that a user does not set."""
LABELLED = "supcon"
"""The method whose loss looks at labels."""


@dataclass(frozen=True)
class MethodSpec:
    """A method as the command line knows it."""

    about: str
    kind: type[Method]
    loss: str | None = None
    """The loss it has unless told otherwise; None: it takes none."""
    is_its_loss: bool = False
    """Whether nothing but that loss tells it from simclr: with another it would be something else than its name."""
    views: int = 2
    predictor: bool = False
    encoder: str = "convnet"
    head: str = "dystress"
    """What stands before and after, unless told otherwise."""
    text_encoder: str = ""
    """The second tower of a method that has one."""
    usual: Mapping[str, Any] = field(default_factory=dict)
    """Further settings that go without saying, by their dotted names."""

    @property
    def settings(self) -> dict[str, inspect.Parameter]:
        """What a user may set."""
        parameters = inspect.signature(self.kind.__init__, eval_str=True).parameters
        return {name: p for name, p in parameters.items() if name not in FROM_THE_RUN}


METHODS = {
    "simclr": MethodSpec("every view through one network, negatives from the batch (SimCLR)", InBatch, "NTXentLoss"),
    "cmc": MethodSpec("InfoNCE between every two views (CMC)", InBatch, "CMCLoss", is_its_loss=True),
    "cacr": MethodSpec(
        "attraction, repulsion in the batch; K + 1 views for K positives (CACR)", InBatch, "CACRLoss", is_its_loss=True
    ),
    "supcon": MethodSpec("positives are those of the same class (SupCon)", InBatch, "SupConLoss", is_its_loss=True),
    "barlow": MethodSpec(
        "decorrelated features, no negatives (Barlow Twins)", InBatch, "BarlowTwinsLoss", is_its_loss=True
    ),
    "vicreg": MethodSpec(
        "variance, invariance, covariance, no negatives (VICReg)", InBatch, "VICRegLoss", is_its_loss=True
    ),
    "fnc": MethodSpec(
        "negatives like the item are positives or do not count; 8 more views find them (FNC)",
        InBatch,
        "FNCLoss",
        is_its_loss=True,
        views=10,
    ),
    "tau": MethodSpec("a temperature that the network predicts for each view: its uncertainty (TaU)", TaU),
    "isogclr": MethodSpec("a temperature learnt for each item by robust optimization (iSogCLR)", ISogCLR),
    "wmse": MethodSpec(
        "whitened views agree, no negatives (W-MSE)", InBatch, "WMSELoss", is_its_loss=True, head="wmse"
    ),
    "zerocl": MethodSpec(
        "decorrelated items and features, no negatives (Zero-CL)", InBatch, "ZeroCLLoss", is_its_loss=True
    ),
    "arb": MethodSpec(
        "features agree with the basis nearest to the other view's (ARB)", InBatch, "ARBLoss", is_its_loss=True
    ),
    "siglip": MethodSpec(
        "yes or no for every pair of items of two views (SigLIP)", InBatch, "SigLIPLoss", is_its_loss=True
    ),
    "bank": MethodSpec(
        "each item against a memory of all (instance discrimination)", MemoryBank, "NTXentLoss", views=1
    ),
    "mocov2": MethodSpec("keys of a slow copy, negatives from a queue (MoCo v2; CACR Alg. 3)", MoCoV2, "NTXentLoss"),
    "mocov3": MethodSpec("a predictor, keys of a slow copy (MoCo v3)", MoCoV3, "NTXentLoss", predictor=True),
    "nnclr": MethodSpec(
        "the nearest past embedding asks for the other view's prediction (NNCLR)",
        NNCLR,
        "NTXentLoss",
        predictor=True,
        usual={"loss": "NTXentLoss", "loss.temperature": 0.1},
    ),
    "byol": MethodSpec("predict a slow copy, no negatives (BYOL)", BYOL, "BYOLLoss", predictor=True),
    "simsiam": MethodSpec("predict the other view, no negatives (SimSiam)", SimSiam, "SimSiamLoss", predictor=True),
    "swav": MethodSpec("predict the other view's prototypes, equally many for each (SwAV)", SwAV, head="swav"),
    "dino": MethodSpec("predict what a centred slow copy says of the other view (DINO)", DINO, head="dino-resnet"),
    "simcse": MethodSpec(
        "a sentence looks for its other pass, or its pair (SimCSE)",
        SimCSE,
        "InfoNCELoss",
        encoder="text_small",
        head="simcse",
    ),
    "mlm": MethodSpec(
        "guess hidden words of a sentence from the others, to start from (BERT's masked words)",
        MaskedWords,
        views=1,
        encoder="text_small",
        head="none",
        # BERT's optimizer, with the rate of a network of a hundredth its size
        usual={
            "optimizer": "adamw",
            "lr": 1e-3,
            "weight_decay": 0.01,
            "decay_all": False,
            "schedule": "linear",
            "warmup_part": 0.05,
            "clip": 1.0,
            "batch": 64,
            "epochs": 10,
        },
    ),
    "clip": MethodSpec(
        "an image looks for its caption, a caption for its image; two towers (CLIP, LiT)",
        CLIP,
        "InfoNCELoss",
        encoder="convnet",
        head="linear",
        text_encoder="text_small",
        # CLIP's optimizer and rate (its Tables 18 and 19, and CACR's C.3), but for the length
        usual={
            "loss": "InfoNCELoss",
            "loss.temperature": {"name": "Learnable", "initial": 0.07},
            "optimizer": "adamw",
            "lr": 5e-4,
            "weight_decay": 0.1,
            "decay_all": False,
            "epochs": 32,
        },
    ),
    "supervised": MethodSpec("labels and cross-entropy, for comparison", Supervised, views=1, head="none"),
    "vae": MethodSpec("reconstruction, for comparison (a VAE)", Autoencoder, views=1, encoder="vae", head="none"),
}
"""The methods by name."""


def method_spec(name: str) -> MethodSpec:
    if name not in METHODS:
        raise ValueError(f"no method '{name}'{did_you_mean(name, METHODS)}")
    return METHODS[name]


def check_loss(name: str, loss: type[Loss]) -> None:
    """Refuse a loss with which a method would not do what it is called for."""
    spec = method_spec(name)
    if spec.loss is None:
        raise ValueError(
            f"method '{name}' has its own objective and takes no loss, got {loss.__name__}; leave it out, or use "
            f"--method {method_for(loss)} for that loss."
        )
    if spec.kind is not InBatch or loss.needs_predictor:  # those say themselves what they take
        return
    if loss.takes_labels:
        if name != LABELLED:
            raise ValueError(
                f"{loss.__name__} takes its positives from labels, and method '{name}' learns without them; "
                f"use --method {LABELLED}."
            )
    elif name == LABELLED:
        raise ValueError(
            f"method '{name}' takes its positives from labels, which {loss.__name__} does not look at; "
            f"use --loss {spec.loss}, or --method simclr to learn without labels."
        )
    elif spec.is_its_loss and spec.loss not in [kind.__name__ for kind in loss.__mro__]:
        raise ValueError(
            f"method '{name}' is {spec.loss} in the batch, and with {loss.__name__} it would be something else; "
            f"use --method simclr for that loss."
        )


def method(name: str, network: Network, loss: Loss | None, given: Given, **settings: Any) -> Method:
    """A method by name around a network, with what the run brings and the settings a user may set."""
    spec = method_spec(name)
    known_settings(f"method '{name}'", settings, list(spec.settings))
    wanted = inspect.signature(spec.kind.__init__).parameters
    if "loss" in wanted and loss is None:
        raise ValueError(f"method '{name}' needs a loss, for instance {spec.loss}.")
    if loss is not None:
        check_loss(name, type(loss))
    if given.hard_negatives and not spec.kind.takes_hard_negatives:
        raise ValueError(f"hard negatives need --method simcse; {name} would take them for positives.")
    offered = {"loss": loss, "given": given}
    make: Callable[..., Method] = spec.kind
    result = make(network, **{k: v for k, v in offered.items() if k in wanted}, **settings)
    if given.small_crops and result.without_small_crops:
        raise ValueError(
            f"method '{name}' {result.without_small_crops}: say --small_crops 0, or use one that asks with them, "
            "such as --method simclr, mocov3 or swav."
        )
    result.small_crops = given.small_crops
    result.seed, result.name = given.seed, name
    return result
