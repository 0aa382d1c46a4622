"""Encoders of sentences: any of Hugging Face's, from the hub, a folder or an installed package; or a small one of ours.

Tokens (N, T) in, features (N, width) out. A view of a batch of sentences is one tensor of token numbers, padded to the
longest with −1, which is nobody's token. So a method, a loop and a loss see tensors, as they do with images.
"""

from isotherm.encoders.text.encoder import (
    HUB,
    INSTALLED,
    PADDING,
    SMALL,
    Pooling,
    TextEncoder,
    is_text_encoder,
    remembering,
    small,
)
from isotherm.encoders.text.huggingface import library, quietly
from isotherm.encoders.text.loading import pretrained
from isotherm.encoders.text.tokenizer import VOCABULARY, read_tokenizer, train_tokenizer

__all__ = [
    "HUB",
    "INSTALLED",
    "PADDING",
    "SMALL",
    "VOCABULARY",
    "Pooling",
    "TextEncoder",
    "is_text_encoder",
    "library",
    "pretrained",
    "quietly",
    "read_tokenizer",
    "remembering",
    "small",
    "train_tokenizer",
]
