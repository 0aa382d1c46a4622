"""Networks that turn images (N, C, H, W) into features (N, width), and heads that turn those into embeddings."""

from isotherm.encoders.alexnet import SmallAlexNet
from isotherm.encoders.build import NETWORKS, encoder
from isotherm.encoders.contract import Encoder
from isotherm.encoders.convnet import ConvNet
from isotherm.encoders.features import features
from isotherm.encoders.heads import HEADS, Head, head
from isotherm.encoders.resnet import ResNet
from isotherm.encoders.vae import VAE, Elbo
from isotherm.encoders.vit import ViT

__all__ = [
    "HEADS",
    "NETWORKS",
    "VAE",
    "ConvNet",
    "Elbo",
    "Encoder",
    "Head",
    "ResNet",
    "SmallAlexNet",
    "ViT",
    "encoder",
    "features",
    "head",
]
