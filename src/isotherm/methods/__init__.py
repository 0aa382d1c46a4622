"""How embeddings are made and what is remembered: SimCLR, a memory bank, MoCo v2 and v3, BYOL, SimSiam, references."""

from isotherm.methods.bank import MemoryBank
from isotherm.methods.build import METHODS, method
from isotherm.methods.in_batch import InBatch
from isotherm.methods.method import Method, Network, Slow
from isotherm.methods.momentum import MoCoV2, MoCoV3
from isotherm.methods.reference import Autoencoder, Supervised
from isotherm.methods.siamese import BYOL, SimSiam

__all__ = [
    "BYOL",
    "METHODS",
    "Autoencoder",
    "InBatch",
    "MemoryBank",
    "Method",
    "MoCoV2",
    "MoCoV3",
    "Network",
    "SimSiam",
    "Slow",
    "Supervised",
    "method",
]
