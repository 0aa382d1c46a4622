"""Two encoders side by side, of images and of text; one that is locked is used as it is and is in no checkpoint."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from typing import Any, Literal, Self, get_args

import torch
from torch import Tensor, nn

from isotherm.checks import one_of

Lock = Literal["none", "image", "text", "both"]
"""Which towers are not trained (Zhai et al. 2022, LiT, arXiv:2111.07991: the image tower)."""


class Locked(nn.Module):
    """An encoder that is never trained: in eval mode, without gradients, and with no weights in a state dict.

    Its name says which weights it has; a digest of them is kept instead, and others are refused.
    """

    digest: Tensor

    def __init__(self, tower: nn.Module) -> None:
        super().__init__()
        self._held = [tower.eval().requires_grad_(False)]  # in a list: not one of its parts
        self.width = tower.width
        self.register_buffer("digest", torch.tensor(list(digest_of(tower)), dtype=torch.uint8))

    @property
    def tower(self) -> nn.Module:
        return self._held[0]

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            features: Tensor = self.tower(x)
        return features

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:  # moves with the rest
        self.tower._apply(fn, recurse)
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def _load_from_state_dict(self, state: Any, prefix: str, *others: Any) -> None:
        saved = state.get(f"{prefix}digest")
        if saved is not None and not torch.equal(saved.cpu(), self.digest.cpu()):
            raise ValueError(
                f"the weights of {type(self.tower).__name__} are not those this run was trained with; install the "
                "version of its package or bring the folder that it was trained with."
            )
        super()._load_from_state_dict(state, prefix, *others)


class Towers(nn.Module):
    """An image encoder and a text encoder. Its `width` is the image encoder's."""

    def __init__(self, image: nn.Module, text: nn.Module, lock: Lock = "none") -> None:
        super().__init__()
        one_of("lock", lock, get_args(Lock))
        self.image = Locked(image) if lock in ("image", "both") else image
        self.text = Locked(text) if lock in ("text", "both") else text
        self.width = int(image.width)  # type: ignore[arg-type]

    @property
    def widths(self) -> tuple[int, int]:
        """Features of an image, and of a text."""
        return self.width, int(self.text.width)  # type: ignore[arg-type]

    @property
    def image_encoder(self) -> nn.Module:
        """Itself, locked or not."""
        return unlocked(self.image)

    @property
    def text_encoder(self) -> Any:
        return unlocked(self.text)


class Projections(nn.Module):
    """A head for each tower, into one space."""

    def __init__(self, image: nn.Module, text: nn.Module) -> None:
        super().__init__()
        if image.width != text.width:
            raise ValueError(
                f"the towers end in {image.width} and {text.width} numbers; one space needs a head with a width: "
                "--head linear."
            )
        self.image, self.text = image, text
        self.width = int(image.width)  # type: ignore[arg-type]


def unlocked(encoder: nn.Module) -> nn.Module:
    return encoder.tower if isinstance(encoder, Locked) else encoder


def digest_of(module: nn.Module) -> bytes:
    """16 bytes that tell weights from others."""
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.digest()[:16]


def structure_of(module: nn.Module) -> str:
    """16 letters that tell what a network does with its weights: its parts, their settings and their code."""
    digest = hashlib.sha256()
    for name, part in module.named_modules():
        kind = type(part)
        settings = {k: v for k, v in sorted(vars(part).items()) if k[0] != "_" and k != "training" and _plain(v)}
        digest.update(repr((name, kind.__qualname__, settings, part.extra_repr())).encode())
        try:
            digest.update(inspect.getsource(kind).encode())
        except (OSError, TypeError):  # it was not made from a file
            continue
    return digest.hexdigest()[:16]


def _plain(value: object) -> bool:
    """Whether a setting is the same text in every process."""
    if isinstance(value, tuple | list):
        return all(map(_plain, value))
    return isinstance(value, bool | int | float | str | None)
