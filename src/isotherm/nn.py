"""Every loss under its conventional name: ``isotherm.nn.NTXentLoss(temperature=0.2)(z0, z1)``."""

from typing import TYPE_CHECKING

from isotherm.checks import did_you_mean as _did_you_mean
from isotherm.losses.cancellation import *
from isotherm.losses.decoupled import *
from isotherm.losses.generalized import *
from isotherm.losses.loss import Loss as Loss
from isotherm.losses.negative_free import *
from isotherm.losses.sigmoid import *
from isotherm.losses.simple import *
from isotherm.losses.softmax import *
from isotherm.losses.transport import *
from isotherm.losses.whitening import *

if not TYPE_CHECKING:  # which would take any name for one that is there

    def __getattr__(name: str) -> object:
        """The nearest loss, for a name that is none: `nn.NTXent` means `NTXentLoss`."""
        losses = sorted(each for each in globals() if each.endswith("Loss"))
        meant = _did_you_mean(name, losses, lead="it has")
        raise AttributeError(f"module 'isotherm.nn' has no attribute '{name}'{meant}")
