"""mteb's own evaluation of our encoders, on a small task that needs no download."""

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize as unit

pytest.importorskip("mteb", reason="mteb is not installed")

import datasets
import mteb
from mteb.abstasks.classification import AbsTaskClassification
from mteb.abstasks.sts import AbsTaskSTS
from mteb.abstasks.task_metadata import TaskMetadata
from mteb.abstasks.zeroshot_classification import AbsTaskZeroShotClassification

import small_pairs
from isotherm.data.sources.decode import fitted
from isotherm.encoders import text
from isotherm.encoders.convnet import ConvNet
from isotherm.evaluate.encode import Embedder, open_embedder
from isotherm.integrations.mteb import MTEBEncoder
from isotherm.probes.sts import spearman
from isotherm.train.commandline import configure
from isotherm.train.config import Runtime
from isotherm.train.loop import train

WORDS = [*"abcdefghijklmnopqrstuvw"]


def pairs(n=60):
    draw = np.random.default_rng(0)
    first = [" ".join(draw.choice(WORDS, 6)) for _ in range(n)]
    kept = draw.integers(0, 6, n)  # so many words of the first, never all: mteb ties equal sentences
    rest = [draw.choice(WORDS, 6 - k) for k in kept]
    second = [" ".join([*one.split()[:k], *other]) for one, k, other in zip(first, kept, rest, strict=True)]
    return first, second, draw.uniform(0, 5, n).round(1).tolist()


def metadata(name, kind, category, modalities, score):
    unknown = ("reference", "date", "domains", "task_subtypes", "license", "annotations_creators", "dialect")
    return TaskMetadata(
        name=name,
        description="Made up.",
        dataset={"path": "none/none", "revision": "none"},
        type=kind,
        category=category,
        modalities=modalities,
        eval_splits=["test"],
        eval_langs=["eng-Latn"],
        main_score=score,
        sample_creation=None,
        bibtex_citation="",
        **dict.fromkeys(unknown),
    )


class Own(AbsTaskSTS):
    metadata = metadata("OwnSTS", "STS", "t2t", ["text"], "cosine_spearman")

    def load_data(self, **_):
        first, second, scores = pairs()
        columns = {"sentence1": first, "sentence2": second, "score": scores}
        self.dataset = datasets.DatasetDict({"test": datasets.Dataset.from_dict(columns)})
        self.data_loaded = True


def coloured(seeds):
    """Pictures of bars, labelled by their colour."""
    kinds = [(c, s, i) for i in seeds for c in small_pairs.COLOURS for s in small_pairs.SHAPES]
    features = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(names=[*small_pairs.COLOURS])}
    )
    columns = {"image": [small_pairs.picture(*kind) for kind in kinds], "label": [kind[0] for kind in kinds]}
    return datasets.Dataset.from_dict(columns, features=features)


class Named(AbsTaskZeroShotClassification):
    metadata = metadata("OwnZeroShot", "ZeroShotClassification", "i2t", ["text", "image"], "accuracy")
    input_column_name = "image"

    def load_data(self, **_):
        self.dataset = datasets.DatasetDict({"test": coloured(range(50, 52))})
        self.data_loaded = True

    def get_candidate_labels(self):
        return [f"a {name} bar" for name in small_pairs.COLOURS]


class Classified(AbsTaskClassification):
    metadata = metadata("OwnClasses", "Classification", "i2c", ["image"], "accuracy")
    input_column_name = "image"
    samples_per_label = 4
    n_experiments = 2

    def load_data(self, **_):
        self.dataset = datasets.DatasetDict({"train": coloured([60]), "test": coloured([61])})
        self.data_loaded = True


def evaluated(model, task):
    result = mteb.evaluate(model, task, cache=None, co2_tracker=False, show_progress_bar=False)
    (found,) = result.task_results
    return found.scores["test"][0]


@pytest.mark.filterwarnings("ignore")  # of mteb about its own libraries
def test_mteb_finds_our_correlation():
    first, second, scores = pairs()
    torch.manual_seed(0)
    encoder = text.small(text.train_tokenizer(first + second, 300), width=16, heads=2)
    model = MTEBEncoder(encoder, "me/small")
    found = evaluated(model, Own())
    cosines = torch.nn.functional.cosine_similarity(encoder.encode(first).double(), encoder.encode(second).double())
    assert found["cosine_spearman"] == pytest.approx(spearman(cosines, scores), abs=1e-6)
    assert model.mteb_model_meta.name == "me/small"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_towers_name_and_classify_images_in_mteb(tmp_path):
    small_pairs.folder_of(tmp_path / "pairs")
    config = configure({**small_pairs.QUICK, "data": f"parquet:{tmp_path / 'pairs'}"})
    train(config, Runtime(out=tmp_path / "run", quiet=True))
    towers = open_embedder(str(tmp_path / "run"))
    model = MTEBEncoder(towers, "me/clip")
    assert set(model.mteb_model_meta.modalities) == {"text", "image"}
    images = coloured(range(50, 52))
    pixels = torch.stack([torch.from_numpy(fitted(image, (3, 16, 16)).copy()) for image in images["image"]])
    with torch.no_grad():
        cosines = unit(towers.images(pixels)) @ unit(towers.texts(Named().get_candidate_labels())).T
    right = (cosines.argmax(1) == torch.tensor(images["label"])).float().mean().item()
    assert evaluated(model, Named())["accuracy"] == pytest.approx(right)
    assert evaluated(model, Classified())["accuracy"] > 0.5  # of four colours
    both = model.encode([{"text": ["a red bar"], "image": images["image"][:1]}])
    apart = [model.encode([{"text": ["a red bar"]}]), model.encode([{"image": images["image"][:1]}])]
    assert np.allclose(both, sum(unit(torch.from_numpy(z)) for z in apart), atol=1e-6)


def test_what_a_model_cannot_embed_is_refused():
    sentences = MTEBEncoder(text.small(text.train_tokenizer(WORDS, 300), width=16, heads=2))
    with pytest.raises(ValueError, match="embeds no images; choose mteb's tasks of text"):
        sentences.encode([{"image": [small_pairs.picture("red", "top")]}])
    images = MTEBEncoder(Embedder("net", lambda pixels: pixels.float().mean((2, 3)), None, 3, 8))
    assert images.encode([{"image": [small_pairs.picture("red", "top")] * 2}]).shape == (2, 3)
    with pytest.raises(ValueError, match="embeds no text; choose mteb's tasks of images"):
        images.encode([{"text": ["a"]}])


def test_similarities_are_cosines():
    encoder = text.small(text.train_tokenizer(WORDS, 300), width=16, heads=2)
    model = MTEBEncoder(encoder)
    a, b = np.random.default_rng(0).normal(size=(2, 3, 16)).astype(np.float32)
    wanted = (a / np.linalg.norm(a, axis=1, keepdims=True)) @ (b / np.linalg.norm(b, axis=1, keepdims=True)).T
    assert np.allclose(model.similarity(a, b), wanted, atol=1e-6)
    assert np.allclose(model.similarity_pairwise(a, b), np.diag(wanted), atol=1e-6)


def test_what_is_no_text_encoder_is_refused():
    with pytest.raises(TypeError, match=r"takes an encoder of sentences, or what .*, got ConvNet"):
        MTEBEncoder(ConvNet())
    with pytest.raises(ValueError, match="OWNER/NAME, got 'alone'"):
        MTEBEncoder(text.small(text.train_tokenizer(WORDS, 300), width=16, heads=2), "alone")
