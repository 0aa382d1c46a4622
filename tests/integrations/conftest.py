"""A BERT of two narrow layers as each library wants it. The tests skip themselves where a library is not installed."""

import copy

import pytest
import torch


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A BERT of two narrow layers with a tokenizer that knows 48 words."""
    from tiny_bert import WORDS, transformers  # noqa: PLC0415 - skips the test that asked where it cannot be had

    path = tmp_path_factory.mktemp("bert")
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    (path / "vocab.txt").write_text("\n".join(special + WORDS))
    transformers.BertTokenizer(str(path / "vocab.txt")).save_pretrained(path)
    config = transformers.BertConfig(
        vocab_size=len(special) + len(WORDS),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=16,
    )
    torch.manual_seed(0)
    transformers.BertModel(config, add_pooling_layer=False).save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def untouched(folder):
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer  # noqa: PLC0415

    return SentenceTransformer(modules=[Transformer(str(folder)), Pooling(32)], device="cpu")


@pytest.fixture
def model(untouched):
    return copy.deepcopy(untouched)


@pytest.fixture
def tokenizer(folder):
    from transformers import AutoTokenizer  # noqa: PLC0415

    return AutoTokenizer.from_pretrained(folder)


@pytest.fixture
def encoder(folder):
    from transformers import BertModel  # noqa: PLC0415

    return BertModel.from_pretrained(folder, add_pooling_layer=False)
