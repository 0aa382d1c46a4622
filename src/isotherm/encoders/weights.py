"""Weights that somebody else saved, brought into a network: whatever was wrapped around their names is taken off."""

from __future__ import annotations

import difflib
import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

FILES = (".safetensors", ".pt", ".pth", ".bin")
INSIDE = ("state_dict", "model_state_dict", "model", "encoder", "teacher", "student", "net", "network")
"""Under which of these names a checkpoint keeps its weights, the first first."""
NEAREST = 10


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a file by name. Nothing in it is run: safetensors, or torch's own format with weights only."""
    if not path.is_file():
        raise ValueError(f"no file {path}; a .safetensors or .pt file of weights is wanted.")
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file  # noqa: PLC0415 - extra `lab`

            return load_file(path)
        held = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever a damaged file makes the readers say
        if isinstance(error, pickle.UnpicklingError) and zipfile.is_zipfile(path):
            raise ValueError(
                f"{path} holds more than tensors, which would be run as code; save its state dict alone "
                "(torch.save(model.state_dict(), …))."
            ) from error
        said = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"{path} is damaged or no file of weights: {said}") from error
    return _inner(held, path)


def _inner(held: object, path: Path) -> dict[str, Tensor]:
    """The mapping of names to tensors, wherever in a checkpoint it is."""
    for _ in range(3):
        if not isinstance(held, Mapping):
            break
        tensors = {str(k): v for k, v in held.items() if isinstance(v, Tensor)}
        inner = next((held[k] for k in INSIDE if isinstance(held.get(k), Mapping)), None)
        if inner is None:
            if tensors:
                return tensors
            break
        held = inner
    raise ValueError(f"{path} holds no weights: names with tensors are wanted, or a checkpoint with 'state_dict'.")


def load_weights(network: nn.Module, given: Mapping[str, Tensor], where: str, arch: str) -> list[str]:
    """Load them, under whatever prefix they stand; what was left out, as notes.

    Every tensor of the network must be there, in its shape; how many batches a BN has seen may be missing.
    """
    wanted = network.state_dict()
    needed = [name for name in wanted if not name.endswith("num_batches_tracked")]
    prefix = _prefix(needed, given)
    missing = [name for name in needed if prefix + name not in given]
    if missing:
        near = difflib.get_close_matches(missing[0], list(given), n=NEAREST, cutoff=0.0)
        raise ValueError(
            f"{where} does not fit {arch}: it lacks {len(missing)} of {len(needed)} tensors, such as '{missing[0]}'. "
            f"The nearest names in it: {', '.join(near)}."
        )
    for name in needed:
        if given[prefix + name].shape != wanted[name].shape:
            raise ValueError(
                f"{where} does not fit {arch}: '{name}' is {tuple(given[prefix + name].shape)}, "
                f"{tuple(wanted[name].shape)} is wanted. Another size, number of channels or architecture?"
            )
    network.load_state_dict({name: given.get(prefix + name, wanted[name]) for name in wanted})
    others = [name for name in given if name.removeprefix(prefix) not in wanted or not name.startswith(prefix)]
    if not others:
        return []
    several = ", …" if len(others) > 1 else ""
    return [f"{len(others)} tensors of {where} are not the encoder's and were left out: {others[0]}{several}"]


def _prefix(needed: list[str], given: Mapping[str, Tensor]) -> str:
    """What stands before the network's own names in the file: what fits most of them, the shortest of equal ones."""
    ends = [name for name in given if name.endswith(needed[0])] if needed else []
    prefixes = sorted({name[: len(name) - len(needed[0])] for name in ends} | {""}, key=len)
    return max(prefixes, key=lambda p: sum(p + name in given for name in needed))
