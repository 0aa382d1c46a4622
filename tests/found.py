"""The losses that exist, found by looking, and random views for them."""

from isotherm.losses import catalogue
from isotherm.losses.laws import Maker, labels, views

__all__ = ["LOSSES", "NEGATIVE_FREE", "call", "labels", "make", "views"]

LOSSES = {entry.name: entry.loss for entry in catalogue.losses()}
NEGATIVE_FREE = {name for name, cls in LOSSES.items() if cls.negative_free}


def make(name, **settings):
    """A loss with its random numbers fixed."""
    return Maker(LOSSES[name])(**settings)


def call(loss, z, **more):
    """The loss of these views, however it is called."""
    return Maker(type(loss)).value(z, loss, **more)
