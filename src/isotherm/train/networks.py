"""An encoder with its head, and the predictor of the methods that have one."""

from __future__ import annotations

from torch import nn

from isotherm.encoders import head
from isotherm.encoders.contract import Encoder
from isotherm.encoders.text import TextEncoder
from isotherm.methods import Network
from isotherm.methods.build import method_spec
from isotherm.train.config import Config


def networks(config: Config, backbone: Encoder | TextEncoder) -> tuple[Network, nn.Module | None]:
    """The encoder with its head, and the predictor if the method has one."""
    projector = head(config.head.name, backbone.width, **config.head.settings)
    predictor = None
    if method_spec(config.method.name).predictor:
        settings = {**config.predictor.settings, "width": projector.width}  # it is compared with an embedding
        predictor = head(config.predictor.name, projector.width, **settings)
    return Network(backbone, projector), predictor
