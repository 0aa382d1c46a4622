"""Views of sentences: what they keep and what they depend on."""

import itertools

import torch

from isotherm.views.sentences import RECIPES


def test_views_of_words_keep_the_ends_and_depend_on_id_epoch_and_view_only():
    tokens = [[2, *range(10, 10 + n), 3] for n in (0, 1, 2, 9, 30)]
    ids = torch.arange(5)
    for recipe in RECIPES.values():
        made = recipe.view(tokens, ids, seed=0, epoch=0, view=0)
        assert made == recipe.view(tokens, ids, seed=0, epoch=0, view=0)
        assert recipe.view(tokens[3:], ids[3:], seed=0, epoch=0, view=0) == made[3:] or recipe.name == "delete"
        for before, after in zip(tokens, made, strict=True):
            assert (after[0], after[-1]) == (2, 3)
            assert len(after) >= min(3, len(before))
            assert set(after) <= set(before)
            assert after[1:-1] == sorted(after[1:-1])
        differs = recipe.view(tokens, ids, seed=0, epoch=0, view=1) != made
        assert differs == (recipe.draw is not None)
    crops = RECIPES["crop"].view(tokens, ids, seed=0, epoch=3, view=0)
    assert all(b - a == 1 for c in crops for a, b in itertools.pairwise(c[1:-1]))
