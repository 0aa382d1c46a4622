"""How embeddings are made and what is remembered: SimCLR, memories, slow copies, references."""

from isotherm.methods.bank import MemoryBank
from isotherm.methods.build import METHODS, method
from isotherm.methods.dino import DINO
from isotherm.methods.in_batch import InBatch
from isotherm.methods.individual import ISogCLR, TaU
from isotherm.methods.method import Given, Method, MomentumCopy, Network
from isotherm.methods.momentum import MoCoV2, MoCoV3
from isotherm.methods.nnclr import NNCLR
from isotherm.methods.reference import Autoencoder, Supervised
from isotherm.methods.siamese import BYOL, SimSiam
from isotherm.methods.simcse import SimCSE
from isotherm.methods.swav import SwAV

__all__ = [
    "BYOL",
    "DINO",
    "METHODS",
    "NNCLR",
    "Autoencoder",
    "Given",
    "ISogCLR",
    "InBatch",
    "MemoryBank",
    "Method",
    "MoCoV2",
    "MoCoV3",
    "MomentumCopy",
    "Network",
    "SimCSE",
    "SimSiam",
    "Supervised",
    "SwAV",
    "TaU",
    "method",
]
