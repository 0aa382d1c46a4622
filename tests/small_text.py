"""A few words as a corpus, triples and SentEval's tasks, and small encoders of them, for the tests of sentences."""

import random

import pytest
import torch

from isotherm.encoders import text
from isotherm.train import runs
from isotherm.train.commandline import configure
from isotherm.train.config import Runtime
from isotherm.train.loop import train

pytest.importorskip("transformers", reason="the extra 'text' is not installed")

WORDS = [
    *("the", "a", "cat", "dog", "bird", "man", "woman", "sits", "runs", "eats", "sees"),
    *("on", "under", "near", "mat", "tree", "house", "red", "old", "small", "one", "two"),
]
SMALL = {"encoder.width": 16, "encoder.layers": 2, "encoder.heads": 2, "encoder.vocabulary": 300}
QUICK = {**SMALL, "batch": 16, "epochs": 2, "monitor": 0}


def sentence(rng):
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(3, 12)))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    rng = random.Random(0)
    path = tmp_path_factory.mktemp("text") / "corpus.txt"
    path.write_text("\n".join(sentence(rng) for _ in range(80)) + "\n")
    return path


@pytest.fixture(scope="module")
def triples(tmp_path_factory):
    rng = random.Random(1)
    path = tmp_path_factory.mktemp("text") / "nli.csv"
    path.write_text(
        "sent0,sent1,hard_neg\n" + "".join(f"{','.join(sentence(rng) for _ in range(3))}\n" for _ in range(40))
    )
    return path


@pytest.fixture(scope="module")
def tokenizer(corpus):
    return text.train_tokenizer(corpus.read_text().splitlines(), 300)


@pytest.fixture
def encoder(tokenizer):
    torch.manual_seed(0)
    return text.small(tokenizer, width=16, layers=2, heads=2)


@pytest.fixture(scope="module")
def senteval(tmp_path_factory):
    """SentEval's layout with STS-B, one subset of STS12, and MR."""
    root = tmp_path_factory.mktemp("senteval")
    rng = random.Random(2)
    bench = root / "STS/STSBenchmark"
    bench.mkdir(parents=True)
    for part in ("train", "dev", "test"):
        rows = [f"g\tf\ty\t{i}\t{rng.randint(0, 50) / 10}\t{sentence(rng)}\t{sentence(rng)}" for i in range(30)]
        (bench / f"sts-{part}.csv").write_text("\n".join(rows) + "\n")
    twelve = root / "STS/STS12-en-test"
    twelve.mkdir()
    (twelve / "STS.input.MSRpar.txt").write_text("".join(f"{sentence(rng)}\t{sentence(rng)}\n" for _ in range(20)))
    (twelve / "STS.gs.MSRpar.txt").write_text("".join(f"{rng.randint(0, 5)}\n" for _ in range(20)))
    (root / "MR").mkdir()
    for name in ("pos", "neg"):
        (root / f"MR/rt-polarity.{name}").write_text("".join(f"{sentence(rng)}\n" for _ in range(120)))
    return root


@pytest.fixture
def no_senteval(tmp_path, monkeypatch):
    """Runs find no STS-B to watch, wherever the tests run: the real one's three thousand sentences outlast training."""
    monkeypatch.setenv("ISOTHERM_DATA", str(tmp_path / "no data"))


def run(out, corpus, **settings):
    config = configure({"data": f"text:{corpus}", **QUICK, **settings})
    train(config, Runtime(out=out, quiet=True, resume=True))
    return out


def weights(out):
    return runs.last_checkpoint(out)["method"]
