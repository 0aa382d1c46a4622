"""Every loss under its conventional name: ``isotherm.nn.NTXentLoss(temperature=0.2)(z0, z1)``."""

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
