"""The tables of docs/scale.md are what the simulator says, and it says what can be said by hand."""

from pathlib import Path

import pytest

from isotherm.bench import scale

PAGE = Path(__file__).parent.parent.parent / "docs" / "scale.md"


def test_the_page_is_current():
    assert "\n".join(scale.tables()) in PAGE.read_text()


def test_costs_by_hand():
    """Two GPUs, 4 pairs of width 3: each has 4 rows, and 4 visit."""
    ring, whole, alone = scale.visited(4, 2, 3), scale.gathered(4, 2, 3), scale.gathered(4, 1, 3)
    assert ring.operations == 8 * 3 * (8 + 16)
    assert whole.operations == 8 * 3 * 4 * 8
    assert alone.operations == 8 * 3 * 32
    assert ring.sent == 3 * 4 * 3 * 4  # there, there again, and the gradient home
    assert ring.memory == 7 * 48
    assert whole.memory == 4 * 48 + 2 * 96
    assert scale.visited(4, 1, 3) == alone


@pytest.mark.parametrize("items", scale.BATCHES)
def test_memory_of_the_ring_falls_with_the_gpus_and_that_of_gathering_does_not(items):
    for few, many in zip(scale.GPUS[1:], scale.GPUS[2:], strict=False):
        ratio = scale.visited(items, many).memory / scale.visited(items, few).memory
        assert ratio == pytest.approx(few / many)
        assert scale.gathered(items, many).memory > scale.gathered(items, few).memory / 2
