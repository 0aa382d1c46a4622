"""Zero-shot classification against plain numpy, and what is refused."""

import numpy as np
import pytest
import torch

from isotherm.probes.scores import wilson
from isotherm.probes.zeroshot import PHOTO, TEMPLATES, check_prompts, class_vectors, zero_shot

NAMES = ["cat", "dog ", "red fox"]
PROMPTS = ("a photo of a {}.", "{}, drawn", "the {} I saw")
TABLE = {}


def embed(texts):
    """A vector for every sentence that there is."""
    for text in texts:
        TABLE.setdefault(text, np.random.default_rng(sum(map(ord, text))).standard_normal(5))
    return torch.tensor(np.array([TABLE[text] for text in texts]))


def test_zero_shot_is_the_nearest_mean_prompt():
    chance = np.random.default_rng(0)
    images, labels = chance.standard_normal((60, 5)), chance.integers(0, 3, 60)
    vectors = class_vectors(embed, NAMES, PROMPTS)
    expected = []
    for name in NAMES:
        z = np.array([TABLE[prompt.replace("{}", name.strip())] for prompt in PROMPTS])
        mean = (z / np.linalg.norm(z, axis=1, keepdims=True)).mean(0)
        expected.append(mean / np.linalg.norm(mean))
    np.testing.assert_allclose(vectors.numpy(), expected, rtol=1e-9)
    score = zero_shot(torch.tensor(images), vectors, torch.tensor(labels), PROMPTS)
    guessed = np.argmax(images @ np.array(expected).T, axis=1)
    assert score.accuracy == pytest.approx(np.mean(guessed == labels), abs=1e-12)
    assert score.interval == wilson(int((guessed == labels).sum()), 60)
    for c, share in enumerate(score.per_class):
        assert share == pytest.approx(np.mean(guessed[labels == c] == c), abs=1e-12)
    assert score.settings["prompts"] == list(PROMPTS)


@pytest.mark.parametrize(
    ("names", "prompts", "words"),
    [
        (["crane", "dog", "Crane "], PHOTO, "classes 0 and 2 are both called 'crane'"),
        (["a", "b"], ("a photo.",), r"'a photo\.' must hold one \{\}"),
        (["a", "b"], ("{} and {}",), r"must hold one \{\}"),
        (["a", "b"], (), "no prompt is given"),
        (["a"], PHOTO, "2 classes or more, got 1"),
        (["a", " "], PHOTO, "class 1 has no name"),
    ],
)
def test_mistakes_are_one_sentence(names, prompts, words):
    with pytest.raises(ValueError, match=words):
        check_prompts(names, prompts)


def test_labels_without_a_class_are_refused():
    vectors = class_vectors(embed, NAMES)
    with pytest.raises(ValueError, match="reach to 3; there are 3 classes"):
        zero_shot(torch.randn(4, 5), vectors, torch.tensor([0, 1, 2, 3]))


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_set_of_templates_can_be_used(name):
    check_prompts(NAMES, TEMPLATES[name])
