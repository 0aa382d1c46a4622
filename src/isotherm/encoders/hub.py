"""Image encoders of Hugging Face's transformers, from the hub or a folder: images in, one vector per image out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from isotherm import doors
from isotherm.encoders.text.huggingface import library, quietly


class HubEncoder(nn.Module):
    """A vision model as an encoder: its class token where it has one, else what it pools, else the positions' mean."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        out = self.model(pixel_values=x)
        hidden: Tensor = out.last_hidden_state
        if hidden.ndim == 3 and any(name.endswith("cls_token") for name, _ in self.model.named_parameters()):
            return hidden[:, 0]
        pooled = getattr(out, "pooler_output", None)
        if isinstance(pooled, Tensor):
            return pooled.flatten(1)
        return hidden.mean((2, 3) if hidden.ndim == 4 else 1)


def from_hub(source: str) -> tuple[nn.Module, int, tuple[list[float], list[float]] | None]:
    """The encoder of a name on the hub or of a folder, the size of its images, and their mean and deviation if said."""
    transformers = library()
    local = Path(source).expanduser().is_dir()
    where = str(Path(source).expanduser()) if local else source
    how = {"local_files_only": local, "trust_remote_code": doors.everything_allowed()}
    try:
        with quietly():
            model: Any = transformers.AutoModel.from_pretrained(where, **how)
            config = model.config
            if hasattr(config, "vision_config"):  # of two towers the one that sees
                model, config = model.vision_model, config.vision_config
            said = _processor(transformers, where, local)
    except Exception as error:  # whatever the hub, the disk or the file says first
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ValueError(
            f"cannot get hf:{source} ({first[:160]}). Without a network give a folder: hf:PATH."
        ) from error
    size = _edge(said.get("crop_size") or said.get("size")) or _edge(getattr(config, "image_size", None)) or 224
    mean, std = said.get("image_mean"), said.get("image_std")
    if "pixel_values" not in str(getattr(model, "main_input_name", "")):
        raise ValueError(f"hf:{source} is a {type(model).__name__}, which reads no images.")
    return HubEncoder(model.float().eval()), size, (mean, std) if mean and std else None


def _processor(transformers: Any, where: str, local: bool) -> dict[str, Any]:
    """What the model's preprocessor_config.json says; nothing where there is none."""
    if local:
        file = Path(where) / "preprocessor_config.json"
        said = json.loads(file.read_text()) if file.is_file() else {}
        return said if isinstance(said, dict) else {}
    try:
        said, _ = transformers.image_processing_base.ImageProcessingMixin.get_image_processor_dict(where)
    except OSError:
        return {}
    return dict(said)


def _edge(size: Any) -> int | None:
    if isinstance(size, dict):
        size = size.get("height") or size.get("shortest_edge")
    if isinstance(size, list | tuple):
        size = size[0] if size else None
    return int(size) if isinstance(size, int | float | torch.Tensor) and size else None
