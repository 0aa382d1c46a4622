"""Vision transformers against slow references: positions, attention, patches, and how they start."""

import math

import pytest
import torch

from isotherm.encoders import (
    ViT,
)
from isotherm.encoders.vit import positions
from networks import noise, shaken


def test_positions_are_sines_and_cosines_of_column_and_row():
    rows, columns, width = 3, 5, 8
    made = positions(rows, columns, width)
    assert made.shape == (1, rows * columns, width)
    for y in range(rows):
        for x in range(columns):
            wanted = []
            for wave, place in ((math.sin, x), (math.cos, x), (math.sin, y), (math.cos, y)):
                for k in range(width // 4):
                    wanted.append(wave(place / 10000 ** (k / (width // 4))))
            assert made[0, y * columns + x].tolist() == pytest.approx(wanted, abs=1e-7)


def test_vit_attention_is_a_softmax_over_tokens():
    network = shaken(ViT(size=8, patch=4, width=12, heads=3, depth=1).double()).eval()
    block, x = network.blocks[0], torch.randn(2, 5, 12, dtype=torch.float64)
    with torch.no_grad():
        q, k, v = block.qkv(x).chunk(3, 2)
        mixed = torch.zeros_like(x)
        for h in range(3):
            part = slice(4 * h, 4 * h + 4)
            for n in range(2):
                weights = (q[n, :, part] @ k[n, :, part].T / math.sqrt(4)).exp()
                mixed[n, :, part] = weights / weights.sum(1, keepdim=True) @ v[n, :, part]
        torch.testing.assert_close(block.attention(x), block.proj(mixed))


def test_vit_patches_meet_their_own_positions():
    network = shaken(ViT(channels=1, size=8, patch=4, width=8, heads=2, depth=1).double()).eval()
    x = noise(1, 1, 8, torch.float64)
    seen = []
    network.blocks.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    network(x)
    corner = (network.patch.weight[:, 0] * x[0, 0, 0:4, 4:8]).sum((1, 2)) + network.patch.bias
    torch.testing.assert_close(seen[0][0, 2], corner + network.positions[0, 1])
    torch.testing.assert_close(seen[0][0, 0], network.token[0, 0])


def test_mocov3_keeps_the_random_patch_projection():
    network = ViT(size=8, patch=4, depth=1, stop_grad_patch=True)
    network(noise(2, size=8)).square().sum().backward()
    assert network.patch.weight.grad is None
    assert all(p.grad is not None for p in network.blocks.parameters())


def test_vit_starts_as_mocov3_says():
    torch.manual_seed(0)
    network = ViT(size=8, patch=4, depth=1)
    block = network.blocks[0]
    for weight, fans in [
        (block.qkv.weight, 384 + 384),  # each of the three for itself
        (block.fc1.weight, 384 + 4 * 384),
        (network.patch.weight, 3 * 16 + 384),
    ]:
        assert weight.abs().max().item() == pytest.approx(math.sqrt(6 / fans), rel=1e-3)
    assert network.token.abs().max() < 1e-5
    assert not block.qkv.bias.any()


def test_vit_weights_move_between_sizes():
    large, small = ViT(size=16, patch=4, depth=1), ViT(size=8, patch=4, depth=1)
    small.load_state_dict(large.state_dict())
    assert small(noise(2, size=8)).shape == (2, 384)


def cubic(distance):
    """The kernel of bicubic interpolation with a = −0.75, as torch has it."""
    d = abs(distance)
    if d <= 1:
        return 1.25 * d**3 - 2.25 * d**2 + 1
    return -0.75 * d**3 + 3.75 * d**2 - 6 * d + 3 if d < 2 else 0.0


def test_vit_positions_of_another_size_lie_between_its_own():
    network = ViT(channels=1, size=20, patch=4, width=8, heads=2, depth=1).double()
    own, rows, columns = network.positions[0].unflatten(0, (5, 5)), 3, 7
    stretched = network.positions_of(rows, columns)[0].unflatten(0, (rows, columns))
    for y in range(rows):
        for x in range(columns):
            down, across = (y + 0.5) * 5 / rows - 0.5, (x + 0.5) * 5 / columns - 0.5
            wanted = torch.zeros(8, dtype=torch.float64)
            for i in range(math.floor(down) - 1, math.floor(down) + 3):
                for j in range(math.floor(across) - 1, math.floor(across) + 3):
                    weight = cubic(down - i) * cubic(across - j)
                    wanted += weight * own[min(4, max(0, i)), min(4, max(0, j))]
            torch.testing.assert_close(stretched[y, x], wanted, rtol=1e-9, atol=1e-9)


def test_vit_takes_several_sizes_and_is_the_same_at_its_own():
    network = shaken(ViT(size=16, patch=4, depth=1, width=12, heads=3).double()).eval()
    assert network.positions_of(4, 4) is network.positions
    for height, width in ((16, 16), (8, 8), (32, 12)):
        x = torch.rand(2, 3, height, width, dtype=torch.float64)
        assert network(x).shape == (2, 12)
    for wrong in ((10, 8), (8, 18)):
        with pytest.raises(ValueError, match=r"patches of 4 pixels: give edges that are multiples of 4\."):
            network(torch.rand(2, 3, *wrong, dtype=torch.float64))
