"""mteb's own evaluation of our encoders, on a small task that needs no download."""

import numpy as np
import pytest
import torch

pytest.importorskip("mteb", reason="mteb is not installed")

import datasets
import mteb
from mteb.abstasks.sts import AbsTaskSTS
from mteb.abstasks.task_metadata import TaskMetadata

from isotherm.encoders import text
from isotherm.encoders.convnet import ConvNet
from isotherm.integrations.mteb import MTEBEncoder
from isotherm.probes.sts import spearman

WORDS = [*"abcdefghijklmnopqrstuvw"]


def pairs(n=60):
    draw = np.random.default_rng(0)
    first = [" ".join(draw.choice(WORDS, 6)) for _ in range(n)]
    kept = draw.integers(0, 6, n)  # so many words of the first, never all: mteb ties equal sentences
    rest = [draw.choice(WORDS, 6 - k) for k in kept]
    second = [" ".join([*one.split()[:k], *other]) for one, k, other in zip(first, kept, rest, strict=True)]
    return first, second, draw.uniform(0, 5, n).round(1).tolist()


class Own(AbsTaskSTS):
    metadata = TaskMetadata(
        name="OwnSTS",
        description="Made up.",
        dataset={"path": "none/none", "revision": "none"},
        type="STS",
        category="t2t",
        modalities=["text"],
        eval_splits=["test"],
        eval_langs=["eng-Latn"],
        main_score="cosine_spearman",
        reference=None,
        date=None,
        domains=None,
        task_subtypes=None,
        license=None,
        annotations_creators=None,
        dialect=None,
        sample_creation=None,
        bibtex_citation="",
    )

    def load_data(self, **_):
        first, second, scores = pairs()
        columns = {"sentence1": first, "sentence2": second, "score": scores}
        self.dataset = datasets.DatasetDict({"test": datasets.Dataset.from_dict(columns)})
        self.data_loaded = True


@pytest.mark.filterwarnings("ignore")  # of mteb about its own libraries
def test_mteb_finds_our_correlation():
    first, second, scores = pairs()
    torch.manual_seed(0)
    encoder = text.small(text.train_tokenizer(first + second, 300), width=16, heads=2)
    model = MTEBEncoder(encoder, "me/small")
    result = mteb.evaluate(model, Own(), cache=None, co2_tracker=False, show_progress_bar=False)
    (task,) = result.task_results
    cosines = torch.nn.functional.cosine_similarity(encoder.encode(first).double(), encoder.encode(second).double())
    assert task.scores["test"][0]["cosine_spearman"] == pytest.approx(spearman(cosines, scores), abs=1e-6)
    assert model.mteb_model_meta.name == "me/small"


def test_similarities_are_cosines():
    encoder = text.small(text.train_tokenizer(WORDS, 300), width=16, heads=2)
    model = MTEBEncoder(encoder)
    a, b = np.random.default_rng(0).normal(size=(2, 3, 16)).astype(np.float32)
    wanted = (a / np.linalg.norm(a, axis=1, keepdims=True)) @ (b / np.linalg.norm(b, axis=1, keepdims=True)).T
    assert np.allclose(model.similarity(a, b), wanted, atol=1e-6)
    assert np.allclose(model.similarity_pairwise(a, b), np.diag(wanted), atol=1e-6)


def test_what_is_no_text_encoder_is_refused():
    with pytest.raises(TypeError, match="takes an encoder of sentences, got ConvNet"):
        MTEBEncoder(ConvNet())
    with pytest.raises(ValueError, match="OWNER/NAME, got 'alone'"):
        MTEBEncoder(text.small(text.train_tokenizer(WORDS, 300), width=16, heads=2), "alone")
