"""Vision transformers as MoCo v3 trains them."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, interpolate, scaled_dot_product_attention

from isotherm.checks import at_least, deep
from isotherm.encoders.contract import Encoder


class ViT(Encoder):
    """A vision transformer; its feature is the class token after the last norm.

    Dosovitskiy et al. 2020 (arXiv:2010.11929), with what Chen et al. 2021 (MoCo v3, arXiv:2104.02057) §4 changed: a
    fixed sine-cosine position embedding, Xavier weights (queries, keys and values each for themselves), and
    `stop_grad_patch`, which keeps the patch projection at its random start. The defaults are ViT-Small; ViT-Base is
    ``width=768``. MoCo v3's ViT-Small has 12 heads where DeiT's has 6.

    `size` is the edge whose positions it has; images of other sizes, such as small crops, get those positions stretched
    or shrunk to their own grid of patches (bicubic), as Caron et al. 2021 (DINO, arXiv:2104.14294) do.

    At 224×224 with patches of 16: 21,590,016 parameters (Small), 85,647,360 (Base). The position embedding is not one
    of them and is not in the state dict, so weights move between image sizes.
    Differs from DINO's code: positions shrink by the exact ratio of the grids; there a tenth of a patch is added.
    """

    positions: Tensor

    def __init__(
        self,
        channels: int = 3,
        size: int = 224,
        patch: int = 16,
        width: int = 384,
        depth: int = 12,
        heads: int = 12,
        stop_grad_patch: bool = False,
    ) -> None:
        super().__init__()
        at_least(1, channels=channels, size=size, patch=patch, width=width, heads=heads)
        deep(1, depth=depth)
        if size % patch:
            raise ValueError(f"images of {size} pixels do not divide into patches of {patch}. Use another patch.")
        if width % heads:
            raise ValueError(f"width {width} does not divide among {heads} heads.")
        self.channels, self.size, self.width = channels, size, width
        self.patch = nn.Conv2d(channels, width, patch, stride=patch)
        self.token = nn.Parameter(torch.empty(1, 1, width))
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.register_buffer("positions", positions(size // patch, size // patch, width), persistent=False)
        start(self.patch)
        nn.init.normal_(self.token, std=1e-6)
        if stop_grad_patch:
            self.patch.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        self.check(x)
        x = self.patch(x)
        x = x.flatten(2).transpose(1, 2) + self.positions_of(*x.shape[2:])
        # The class token has no position: MoCo v3 gives it zeros.
        x = torch.cat([self.token.expand(x.shape[0], -1, -1).to(x.dtype), x], 1)
        out: Tensor = self.norm(self.blocks(x)[:, 0])
        return out

    def refuses(self, height: int, width: int) -> str | None:
        edge = self.patch.kernel_size[0]
        if height % edge == width % edge == 0 and height and width:
            return None
        return f"It cuts them into patches of {edge} pixels: give edges that are multiples of {edge}"

    def positions_of(self, rows: int, columns: int) -> Tensor:
        """The positions of a grid of patches: its own as they are, others between them."""
        edge = math.isqrt(self.positions.shape[1])
        if (rows, columns) == (edge, edge):
            return self.positions
        grid = self.positions.transpose(1, 2).unflatten(2, (edge, edge))
        return interpolate(grid, (rows, columns), mode="bicubic", align_corners=False).flatten(2).transpose(1, 2)


class Block(nn.Module):
    """Attention and an MLP four times as wide, each behind a norm and beside a shortcut."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width, eps=1e-6)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width, eps=1e-6)
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)
        start(self.qkv, parts=3)
        for layer in (self.proj, self.fc1, self.fc2):
            start(layer)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        out: Tensor = x + self.fc2(gelu(self.fc1(self.norm2(x))))
        return out

    def attention(self, x: Tensor) -> Tensor:
        n, tokens, width = x.shape
        q, k, v = self.qkv(x).reshape(n, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = scaled_dot_product_attention(q, k, v)
        out: Tensor = self.proj(mixed.transpose(1, 2).reshape(n, tokens, width))
        return out


def start(layer: nn.Linear | nn.Conv2d, parts: int = 1) -> None:
    """Xavier's uniform weights and no bias; a layer that is several matrices on top of each other starts each alone."""
    for part in layer.weight.detach().flatten(1).chunk(parts):
        nn.init.xavier_uniform_(part)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)


def positions(rows: int, columns: int, width: int) -> Tensor:
    r"""Where each patch lies, as sines and cosines: (1, rows·columns, width), row by row.

    .. math::
        [\sin(x\omega), \cos(x\omega), \sin(y\omega), \cos(y\omega)], \qquad
        \omega_k = 10000^{-k/(d/4)}, \quad k = 0, \dots, d/4 - 1

    Chen et al. 2021 (MoCo v3, arXiv:2104.02057) §4.
    Differs from its code: there x counts rows, here columns; the two differ by the names of the axes only.
    """
    if width % 4:
        raise ValueError(f"a two-dimensional position needs a width divisible by 4, got {width}.")
    omega = 10000.0 ** -(torch.arange(width // 4, dtype=torch.float64) / (width // 4))
    y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    across, down = x.flatten()[:, None] * omega, y.flatten()[:, None] * omega
    return torch.cat([across.sin(), across.cos(), down.sin(), down.cos()], 1).float()[None]
