"""Encoders as graphs of ONNX, run by the real onnxruntime."""

import json

import numpy as np
import pytest
import torch
from torch import nn

pytest.importorskip("onnx", reason="the extra 'onnx' is not installed")
pytest.importorskip("onnxruntime", reason="the extra 'onnx' is not installed")

import onnx
import onnxruntime

from isotherm.encoders import encoder, features
from isotherm.encoders.onnx_graph import OPSET, TOLERANCE, image_graph, text_graph


def run(graph, **inputs):
    session = onnxruntime.InferenceSession(graph.content, providers=["CPUExecutionProvider"])
    (out,) = session.run(None, inputs)
    return out


@pytest.mark.parametrize(
    ("name", "channels", "size"),
    [
        ("convnet", 1, 8),
        pytest.param("resnet18", 3, 32, marks=pytest.mark.slow),
        pytest.param("vit_small", 3, 32, marks=pytest.mark.slow),
        pytest.param("small_alexnet", 3, 32, marks=pytest.mark.slow),
    ],
)
def test_a_graph_gives_the_features_of_the_network_for_any_batch(name, channels, size):
    torch.manual_seed(0)
    network = encoder(name, channels, size)
    layer = network.probed
    graph = image_graph(network, channels, size, layer, {"name": name}, OPSET)
    assert network.training, "it is left as it was found"
    onnx.checker.check_model(onnx.load_from_string(graph.content))
    for n in (1, 5):
        x = torch.rand(n, channels, size, size)
        wanted = features(network, x, layer).numpy()
        got = run(graph, pixel_values=x.numpy())
        assert got.shape == wanted.shape
        assert np.abs(got - wanted).max() <= TOLERANCE * np.abs(wanted).max()
    assert 0 <= graph.difference <= TOLERANCE
    (about,) = [json.loads(p.value) for p in onnx.load_from_string(graph.content).metadata_props if p.key == "isotherm"]
    assert about == {"name": name}


@pytest.mark.parametrize("pooling", ["mean", pytest.param("first-last-avg", marks=pytest.mark.slow)])
def test_a_text_graph_takes_sentences_of_any_number_and_length(pooling):
    text = pytest.importorskip("isotherm.encoders.text")
    pytest.importorskip("transformers", reason="the extra 'text' is not installed")
    sentences = ["one", "two words here", "and three words more than that"]
    torch.manual_seed(0)
    tokenizer = text.train_tokenizer(sentences * 20, 300)
    model = text.small(tokenizer, width=16, layers=2, heads=2, pooling=pooling)
    graph = text_graph(model, {}, OPSET)
    for some in (sentences, sentences[:1]):
        padded = model.padded(model.tokens(some, model.longest))
        real = (padded != text.PADDING).long()
        got = run(graph, input_ids=padded.clamp_min(0).numpy(), attention_mask=real.numpy())
        wanted = model.encode(some).numpy()
        assert np.abs(got - wanted).max() <= TOLERANCE * np.abs(wanted).max()


class Eigenvalues(nn.Module):
    def forward(self, x):
        square = x.mean(1)
        return torch.linalg.eigvalsh(square @ square.mT)


class OneBatch(nn.Module):
    def forward(self, x):
        return x.flatten(1) * len(x)  # the number becomes a constant of the graph


@pytest.mark.parametrize(
    ("network", "opset", "words"),
    [
        (Eigenvalues(), OPSET, "ONNX cannot do this network at opset 18: No ONNX function found for .*eigh"),
        (OneBatch(), OPSET, "onnxruntime .* does not run the graph: .*invalid dimensions"),
        (nn.Sequential(nn.Flatten(), nn.LayerNorm(48)), 9, "at opset 9; at opset 18 it can: --opset"),
        (nn.Sequential(nn.Flatten()), 99, "at opset 99; at opset 18 it can: --opset"),
    ],
)
def test_what_onnx_cannot_do_is_a_sentence(network, opset, words):
    with pytest.raises(ValueError, match=words) as refusal:
        image_graph(network, 3, 4, None, {}, opset)
    assert "\n" not in str(refusal.value)
