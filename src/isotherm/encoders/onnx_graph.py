"""An encoder as a graph of ONNX: any batch size (of sentences any length), checked against torch by onnxruntime."""

from __future__ import annotations

import importlib
import json
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from isotherm import extras
from isotherm.encoders.features import evaluating, find_layer, flat
from isotherm.encoders.text import TextEncoder

PIXELS, FEATURES = "pixel_values", "features"
IDS, MASK, SENTENCE = "input_ids", "attention_mask", "sentence_embedding"
"""Names of inputs and outputs, as transformers and sentence-transformers have them."""
TOLERANCE = 2e-5
"""What onnxruntime may differ by from torch, of the largest feature: sums in float32 in another order."""
ABOUT = "isotherm"
"""The graph's own metadata has what its JSON says, under this key."""
OPSET = 18
"""What torch's exporter writes; others are converted from it, where they can be."""
LOGS = ("torch.onnx", "onnxscript", "onnx_ir")


@dataclass(frozen=True)
class Graph:
    """A graph, and how far onnxruntime is from torch on it."""

    content: bytes
    opset: int
    difference: float | None
    """The largest, as a part of the largest feature; None: onnxruntime is not installed."""
    runtime: str = ""
    """The version of onnxruntime."""


class Pooled(nn.Module):
    """A text encoder as others call it: token numbers and where they are, without groups by length."""

    def __init__(self, encoder: TextEncoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.encoder.pooled(input_ids, attention_mask != 0)


class AtLayer(nn.Module):
    """What an encoder says at a layer in its middle, as `features` gives it."""

    def __init__(self, encoder: nn.Module, layer: str) -> None:
        super().__init__()
        self.encoder, self.layer = encoder, layer

    def forward(self, x: Tensor) -> Tensor:
        kept: list[Tensor] = []
        handle = find_layer(self.encoder, self.layer).register_forward_hook(lambda _, __, out: kept.append(out.clone()))
        self.encoder(x)
        handle.remove()
        return flat(kept[0], pool=False)


def image_graph(
    encoder: nn.Module, channels: int, size: int, layer: str | None, about: Mapping[str, Any], opset: int
) -> Graph:
    """Normalized images (batch, channels, size, size) in, features (batch, width) out: those of a layer, if named."""
    encoder = encoder if layer is None else AtLayer(encoder, layer)
    generator = torch.Generator().manual_seed(0)
    shown = [(torch.rand(n, channels, size, size, generator=generator),) for n in (2, 1, 3)]
    return _graph(encoder, shown, {PIXELS: {0: "batch"}}, FEATURES, about, opset)


def text_graph(encoder: TextEncoder, about: Mapping[str, Any], opset: int) -> Graph:
    """Token numbers and their mask (batch, length) in, features (batch, width) out."""
    generator = torch.Generator().manual_seed(0)
    shown = []
    for n, length in ((2, 7), (1, min(3, encoder.longest)), (3, min(19, encoder.longest))):
        ids = torch.randint(len(encoder.tokenizer), (n, length), generator=generator)
        mask = torch.ones_like(ids)
        mask[-1, (length + 1) // 2 :] = 0
        shown.append((ids, mask))
    axes = {0: "batch", 1: "length"}
    return _graph(Pooled(encoder), shown, {IDS: axes, MASK: axes}, SENTENCE, about, opset)


def _graph(
    module: nn.Module,
    shown: Sequence[tuple[Tensor, ...]],
    inputs: Mapping[str, Mapping[int, str]],
    output: str,
    about: Mapping[str, Any],
    opset: int,
) -> Graph:
    """Traced with the first example, checked with all of them."""
    _needed()
    dims = {name: torch.export.Dim(name) for axes in inputs.values() for name in axes.values()}
    shapes = tuple({axis: dims[name] for axis, name in axes.items()} for axes in inputs.values())
    with evaluating(module), _quietly():
        try:
            program: Any = torch.onnx.export(
                module,
                shown[0],
                dynamo=True,
                dynamic_shapes=shapes,
                input_names=list(inputs),
                output_names=[output],
                opset_version=opset,
                verbose=False,
            )
        except Exception as error:  # torch's exporter raises a dozen kinds, with pages of advice
            raise ValueError(f"ONNX cannot do this network at opset {opset}: {_why(error)}.") from error
        written = int(program.model.opset_imports[""])
        if written != opset:
            raise ValueError(f"ONNX cannot do this network at opset {opset}; at opset {written} it can: --opset.")
        program.model.metadata_props[ABOUT] = json.dumps(about)
        content: bytes = program.model_proto.SerializeToString()
        wanted = [module(*example) for example in shown]
    difference, runtime = _checked(content, list(inputs), shown, wanted)
    return Graph(content, opset, difference, runtime)


def _checked(
    content: bytes, inputs: Sequence[str], shown: Sequence[tuple[Tensor, ...]], wanted: Sequence[Tensor]
) -> tuple[float | None, str]:
    """The largest difference from torch in batches of several sizes; refused where it is not rounding."""
    try:
        runtime = importlib.import_module("onnxruntime")
    except ModuleNotFoundError:
        return None, ""
    largest = 0.0
    try:
        session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
        for example, features in zip(shown, wanted, strict=True):
            (got,) = session.run(None, {name: x.numpy() for name, x in zip(inputs, example, strict=True)})
            apart = (torch.from_numpy(got) - features).abs().max() / features.abs().max().clamp_min(1e-30)
            largest = max(largest, float(apart))
    except Exception as error:
        raise ValueError(f"onnxruntime {runtime.__version__} does not run the graph: {_why(error)}.") from error
    if not largest <= TOLERANCE:
        raise ValueError(
            f"onnxruntime's features differ from torch's by {largest:.1e} of the largest; {TOLERANCE:.0e} is rounding."
        )
    return largest, str(runtime.__version__)


def _needed() -> None:
    for library in ("onnx", "onnxscript"):
        try:
            importlib.import_module(library)
        except ModuleNotFoundError as error:
            raise ValueError(f"export --to onnx needs {error.name}: {extras.command('onnx')}.") from error


def _why(error: BaseException) -> str:
    """What the innermost of an exporter's errors says, in a line."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:200].rstrip(".")


@contextmanager
def _quietly() -> Iterator[None]:
    """torch's exporter without its logs of what it skips, and its warnings about itself."""
    logs = [logging.getLogger(name) for name in LOGS]
    levels = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for log, level in zip(logs, levels, strict=True):
            log.setLevel(level)
