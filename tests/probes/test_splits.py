"""What is fitted on and what is kept back: stratified and seeded."""

import torch

from isotherm.probes.splits import few_shot_split, held_out_split
from probed import Y


def test_the_held_out_part_is_stratified_and_seeded():
    labels = torch.tensor([0] * 40 + [1] * 10 + [2] * 2 + [4])
    kept, held = held_out_split(labels, 0.1, seed=3)
    assert torch.bincount(labels[held], minlength=5).tolist() == [4, 1, 1, 0, 0]
    assert torch.equal(torch.cat([kept, held]).sort().values, torch.arange(len(labels)))
    assert torch.equal(held_out_split(labels, 0.1, seed=3)[1], held)
    assert not torch.equal(held_out_split(labels, 0.1, seed=4)[1], held)


def test_few_items_are_part_of_more():
    five, ten = (set(few_shot_split(Y, n, 0)[0].tolist()) for n in (5, 10))
    assert five < ten
    assert torch.bincount(Y[list(ten)]).tolist() == [10] * 10
