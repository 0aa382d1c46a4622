"""Tiles that fit the registers, by precision: compiled for sm80, sm90 and gfx942 without spilling (docs/gpu.md)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

WIDEST_ROW = 16_384  # numbers of a row that fit the registers of one program


@dataclass(frozen=True)
class Blocks:
    """The tile of one program."""

    rows: int
    columns: int
    chunk: int
    """How much of the width is multiplied at once."""
    warps: int

    @property
    def options(self) -> dict[str, int]:
        return {
            "BLOCK_M": self.rows,
            "BLOCK_N": self.columns,
            "BLOCK_K": self.chunk,
            "num_warps": self.warps,
            "num_stages": 2,
        }


ADD = {"tf32x3": Blocks(128, 64, 32, 8), "tf32": Blocks(128, 64, 32, 8), "ieee": Blocks(64, 64, 16, 8)}
PULL = {"tf32x3": Blocks(64, 32, 16, 8), "tf32": Blocks(64, 32, 16, 8), "ieee": Blocks(64, 16, 16, 8)}
PULL_WIDE = {"tf32x3": Blocks(32, 32, 16, 8), "tf32": Blocks(32, 32, 16, 8), "ieee": Blocks(32, 16, 16, 8)}
WIDE = 128  # numbers of an embedding beyond which a gradient takes more registers
PULL_STRIP = Blocks(16, 128, 0, 4)


def add_blocks(precision: str, moments: bool) -> Blocks:
    """For sums; with moments, too, half as many rows fit."""
    size = ADD[precision]
    return replace(size, rows=min(64, size.rows)) if moments else size


def pull_blocks(precision: str, width: int) -> Blocks:
    return (PULL if width <= WIDE else PULL_WIDE)[precision]


def nearest_warps(width: int) -> int:
    """Warps for a row of so many numbers."""
    return 4 if width <= 8192 else 8


def precision(device: torch.device) -> str:
    """How the kernels multiply: as exactly as torch has been told to (`torch.set_float32_matmul_precision`)."""
    if device.type != "cuda" or torch.version.hip or torch.cuda.get_device_capability(device) < (8, 0):
        return "ieee"
    return "tf32x3" if torch.get_float32_matmul_precision() == "highest" else "tf32"


def shares(row_blocks: int, column_blocks: int, device: torch.device) -> int:
    """Among how many programs the columns of a row block are shared, so that the device is busy."""
    units = torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 2
    return max(1, min(column_blocks, -(-2 * units // row_blocks)))
