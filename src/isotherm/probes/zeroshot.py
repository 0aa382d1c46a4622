"""Zero-shot classification: an image is of the class whose name, put into a sentence, is nearest to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from torch import Tensor

from isotherm.pairing import unit
from isotherm.probes.extract import feature_matrix, label_column
from isotherm.probes.scores import Score, ranks, score

PHOTO = ("a photo of a {}.",)
"""CLIP's usual prompt (arXiv:2103.00020, §3.1.4)."""
SEVEN = (
    *("itap of a {}.", "a bad photo of the {}.", "a origami {}.", "a photo of the large {}."),
    *("a {} in a video game.", "art of the {}.", "a photo of the small {}."),
)
"""The seven that CLIP's authors name as doing nearly as well as their eighty on ImageNet."""
TEMPLATES = {"photo": PHOTO, "clip-7": SEVEN}


def check_prompts(names: Sequence[str], templates: Sequence[str]) -> None:
    """Refuse classes that cannot be told apart by name, and templates that name none."""
    if not templates:
        raise ValueError("no prompt is given; one such as 'a photo of a {}.' is needed.")
    for template in templates:
        if template.count("{}") != 1:
            raise ValueError(f"the prompt '{template}' must hold one {{}}, where the class's name goes.")
    if len(names) < 2:
        raise ValueError(f"zero-shot classification needs 2 classes or more, got {len(names)}.")
    twice = [name for name, many in Counter(name.strip().lower() for name in names).items() if many > 1]
    if twice:
        places = [i for i, name in enumerate(names) if name.strip().lower() == twice[0]]
        raise ValueError(
            f"classes {' and '.join(map(str, places))} are both called '{names[places[0]]}': by name nobody can tell "
            "them apart. Give each its own, one per line (--class-names FILE)."
        )
    empty = next((i for i, name in enumerate(names) if not name.strip()), None)
    if empty is not None:
        raise ValueError(f"class {empty} has no name. Name every class, one per line (--class-names FILE).")


def class_vectors(
    embed: Callable[[Sequence[str]], Tensor], names: Sequence[str], templates: Sequence[str] = PHOTO
) -> Tensor:
    """(classes, D): for each class the mean of its prompts' unit embeddings, of unit length again (CLIP §3.1.4)."""
    check_prompts(names, templates)
    prompts = [template.replace("{}", name.strip()) for name in names for template in templates]
    z = unit(embed(prompts).double(), "prompts")
    return unit(z.view(len(names), len(templates), -1).mean(1), "classes")


def zero_shot(images: Tensor, vectors: Tensor, labels: Tensor, templates: Sequence[str] = PHOTO) -> Score:
    """How often the nearest class vector is the image's own class."""
    z = unit(feature_matrix(images, "images").double(), "images")
    labels = label_column(labels, len(z), "labels")
    if int(labels.max()) >= len(vectors):
        raise ValueError(f"labels reach to {int(labels.max())}; there are {len(vectors)} classes.")
    rank = ranks(z @ vectors.double().T, labels)
    return score("zero-shot", rank, labels, len(vectors), None, {"prompts": list(templates)})
