"""`isotherm export --to onnx`: an encoder as a graph that onnxruntime and others run, and what it must be fed, as JSON.

Images: NAME.onnx and NAME.json. Sentences: the tokenizer, too, as NAME.tokenizer.json (`tokenizers` reads it).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from isotherm import files
from isotherm.encoders import onnx_graph
from isotherm.encoders.onnx_graph import Graph
from isotherm.encoders.text import TextEncoder
from isotherm.evaluate.encode import modality_at, text_encoder_of
from isotherm.evaluate.models import Model, Wanted, open_model
from isotherm.train import runs
from isotherm.train.modality import ImageTextModality

TOKENIZER = ".tokenizer.json"


def export_onnx(source: str, out: Path, wanted: Wanted, opset: int = onnx_graph.OPSET) -> tuple[Graph, str]:
    """Write the graph and what belongs to it; and what is to be said of a run that has not ended."""
    if out.suffix != ".onnx":
        raise ValueError(f"--out must end in .onnx, got '{out}'.")
    files.check_places(out=out, read=[Path(source)])
    _refuse_another_s(out.with_suffix(".json"))
    path = Path(source)
    if modality_at(path) is ImageTextModality:
        raise ValueError(
            f"{source} has two towers: `isotherm export {source} --out FOLDER` takes them apart, then export "
            "FOLDER/image."
        )
    if (encoder := text_encoder_of(path)) is not None:
        if out.with_suffix(TOKENIZER).exists() and not out.with_suffix(".json").exists():
            raise ValueError(f"{out.with_suffix(TOKENIZER)} is there without its graph; name another --out.")
        return _export_text(encoder, path.name, out, opset), runs.unfinished(path)
    model = open_model(source, wanted)
    return _export_images(model, out, opset), model.unfinished


def _refuse_another_s(beside: Path) -> None:
    """What is written beside the graph may replace what an export wrote there, and nothing else."""
    if not beside.exists():
        return
    try:
        ours = "opset" in json.loads(beside.read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError):
        ours = False
    if not ours:
        raise ValueError(
            f"{beside}, which goes beside the graph, is there and is of something else; name another --out."
        )


def _export_images(model: Model, out: Path, opset: int) -> Graph:
    about = {
        "name": model.name,
        "input": {
            "name": onnx_graph.PIXELS,
            "type": "float32",
            "shape": ["batch", model.channels, model.size, model.size],
        },
        "preprocessing": {
            "resize": f"the middle square, to {model.size} × {model.size} pixels",
            "scale": "from 0 to 1 (bytes / 255)",
            "mean": list(model.recipe.mean),
            "std": list(model.recipe.std),
            "then": "(pixels − mean) / std" if model.recipe.mean else "nothing",
        },
        "output": {
            "name": onnx_graph.FEATURES,
            "type": "float32",
            "layer": model.layer or "the last",
        },
    }
    graph = onnx_graph.image_graph(model.encoder.cpu(), model.channels, model.size, model.layer, about, opset)
    _write(out, graph, about)
    return graph


def _export_text(encoder: TextEncoder, name: str, out: Path, opset: int) -> Graph:
    shape = ["batch", "length"]
    about = {
        "name": name,
        "inputs": [{"name": n, "type": "int64", "shape": shape} for n in (onnx_graph.IDS, onnx_graph.MASK)],
        "preprocessing": {
            "tokenizer": out.with_suffix(TOKENIZER).name,
            "longest": encoder.longest,
            "padding": encoder.filler,
            "mask": "1 where there is a token, 0 where there is padding",
        },
        "pooling": f"{encoder.pooling}, in the graph",
        "output": {"name": onnx_graph.SENTENCE, "type": "float32", "shape": ["batch", encoder.width]},
    }
    backend = getattr(encoder.tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise ValueError(f"the tokenizer of {name} is none of the library tokenizers, and cannot be written as JSON.")
    graph = onnx_graph.text_graph(encoder.cpu(), about, opset)
    files.write_text(out.with_suffix(TOKENIZER), backend.to_str())
    _write(out, graph, about)
    return graph


def _write(out: Path, graph: Graph, about: dict[str, Any]) -> None:
    """The graph last: where it is, everything is."""
    checked: dict[str, Any] = {"against": f"torch {torch.__version__}", "tolerance": onnx_graph.TOLERANCE}
    if graph.difference is None:
        checked["onnxruntime"] = "not installed: not checked"
    else:
        checked |= {"onnxruntime": graph.runtime, "largest_difference": graph.difference}
    files.write_json(out.with_suffix(".json"), {**about, "opset": graph.opset, "checked": checked})
    files.write_bytes(out, graph.content)
