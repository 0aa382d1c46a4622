"""An encoder with its head, and the predictor of the methods that have one."""

from __future__ import annotations

from torch import nn

from isotherm.encoders import head
from isotherm.encoders.contract import Encoder
from isotherm.encoders.text import TextEncoder
from isotherm.encoders.towers import Projections, Towers
from isotherm.methods import Network
from isotherm.methods.build import method_spec
from isotherm.methods.clip import PairNetwork
from isotherm.train.config import Config


def networks(config: Config, backbone: Encoder | TextEncoder | Towers) -> tuple[Network, nn.Module | None]:
    """The encoder with its head, and the predictor if the method has one; of two towers each has a head."""
    if isinstance(backbone, Towers):
        sides = [head(config.head.name, width, **config.head.settings) for width in backbone.widths]
        return PairNetwork(backbone, Projections(*sides)), None
    projector = head(config.head.name, backbone.width, **config.head.settings)
    predictor = None
    if method_spec(config.method.name).predictor:
        settings = {**config.predictor.settings, "width": projector.width}  # it is compared with an embedding
        predictor = head(config.predictor.name, projector.width, **settings)
    return Network(backbone, projector), predictor
