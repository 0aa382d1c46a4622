"""How many kernels a pass asks a GPU for, counted without one; and how large its tiles are."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from isotherm import nn
from isotherm.engine import tile_size
from isotherm.engine.sizes import TILE, gpu_tile, strip_height, tile_edge

NO_KERNEL = {"empty", "new_empty", "empty_like", "empty_strided", "detach", "lift_fresh", "_unsafe_view"}


class Kernels(TorchDispatchMode):
    """Counts the operations that would be launched: neither views nor allocations."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += not (func.is_view or func._schema.name.split("::")[1] in NO_KERNEL)
        return func(*args, **(kwargs or {}))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loss", "most"), [(nn.NTXentLoss(), 250), (nn.DySTreSSLoss(), 310), (nn.CACRLoss(), 270)], ids=repr
)
def test_a_pass_over_4096_pairs_launches_few_kernels(loss, most):
    # float64, because a processor has ways of its own for float32
    z = [torch.randn(4096, 4, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    with tile_size(gpu_tile(8192, free=40 << 30)), Kernels() as kernels:
        torch.autograd.grad(loss(*z), z)
    assert 50 < kernels.count <= most  # 2362 with a processor's tiles


@pytest.mark.parametrize(
    ("rows", "free", "edge"),
    [(9, None, 2048), (16_384, 40 << 30, 2048), (16_385, 40 << 30, 4096), (16_385, 3 << 30, 2048), (9, 1 << 20, 512)],
)
def test_a_gpu_has_large_tiles_while_they_take_an_eighth_of_what_is_free(rows, free, edge):
    assert gpu_tile(rows, free) == edge
    assert free is None or edge == TILE or 8 * 4 * edge**2 <= free / 8


def test_a_processor_keeps_its_tiles_in_the_cache_and_the_user_has_the_last_word():
    cpu, other = torch.device("cpu"), torch.device("meta")
    assert tile_edge(cpu, 100_000) == TILE
    assert tile_edge(other, 100_000) == 4096
    assert strip_height(other, 8192) == 32 * strip_height(cpu, 8192)
    with tile_size(7):
        assert tile_edge(cpu, 100_000) == tile_edge(other, 100) == strip_height(cpu, 10) == 7
