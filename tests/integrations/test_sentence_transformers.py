"""The losses inside sentence-transformers: the real library, a tiny BERT, no network."""

import math
from types import SimpleNamespace

import pytest
import torch
from torch.nn import functional

from found import LOSSES, make
from isotherm import Monitor, nn, temperature
from isotherm.integrations.sentence_transformers import SentenceTransformerLoss
from isotherm.integrations.trainer_callback import MonitorCallback
from isotherm.losses.columns import contrast
from tiny_bert import arguments, dataset, embedded, features, losses_of, sentence_transformers, value_and_gradient

theirs = pytest.importorskip("sentence_transformers.sentence_transformer.losses")
BOTH_WAYS = {"directions": ("query_to_doc", "doc_to_query"), "partition_mode": "per_direction"}
UNUSABLE = {"BYOLLoss", "SimSiamLoss", "SupConLoss"}
ON_VIEWS = {name for name, loss in LOSSES.items() if loss.negative_free} | {"GeneralizedContrastiveLoss"}
"""Those that compare no items with items, at their defaults."""


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


@pytest.mark.parametrize("name", [name for name in LOSSES if name not in UNUSABLE | {"WMSELoss"}])  # takes 33 rows
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


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_texts_in_mini_batches_give_the_gradient_of_the_whole_batch(model, columns):
    """Of one column dropout makes the views: it must draw the same numbers in both passes."""
    model.train(columns == 1)
    results = []
    for size in (None, 2):
        adapter = SentenceTransformerLoss(model, nn.InfoNCELoss(0.1), mini_batch_size=size)
        torch.manual_seed(4)
        if size is None and columns == 1:  # in the chunks of the other, with their random numbers
            whole = features(model, 1)[0]
            chunks = [{k: v[i : i + 2] for k, v in whole.items() if torch.is_tensor(v)} for i in (0, 2, 4)]
            views = [torch.cat([model(dict(c))["sentence_embedding"] for c in chunks]) for _ in range(2)]
            model.zero_grad()
            value = contrast(adapter.loss, views, [], "cross_view", False)
            value.backward()
            gradient = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
            results.append((value.detach(), gradient))
        else:
            results.append(value_and_gradient(model, adapter, columns))
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-6)  # float32, summed in another order
    assert adapter.get_config_dict()["mini_batch_size"] == 2


def test_the_cached_loss_trains_and_the_monitor_logs_beside_the_loss(model, tmp_path):
    adapter = SentenceTransformerLoss(model, nn.InfoNCELoss(0.05), mini_batch_size=4)
    callback = MonitorCallback(adapter, Monitor(grace=None))
    trainer = sentence_transformers.SentenceTransformerTrainer(
        model=model, args=arguments(tmp_path), train_dataset=dataset(2), loss=adapter, callbacks=[callback]
    )
    trainer.train()
    first, *_, last = losses_of(trainer)
    assert last < first
    assert [status.step for status in callback.monitor.history] == list(range(20))
    logged = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert [entry["monitor_alignment"] for entry in logged] == [
        callback.monitor.history[entry["step"] - 1]["alignment"] for entry in logged
    ]


def test_numbers_of_a_batch_that_diverged_are_not_those_before_it(model):
    source = SimpleNamespace(seen=tuple(torch.randn(2, 16, 8)))
    callback, state, logs = MonitorCallback(source, Monitor(grace=None)), SimpleNamespace(log_history=[]), {"loss": 1.0}
    callback.on_step_end(None, state, None)
    callback.on_log(None, state, None, logs)
    assert "monitor_uniformity" in logs
    source.seen = tuple(torch.zeros(2, 16, 8))
    callback.on_step_end(None, state, None)
    assert "it has diverged" in callback.last.warning
    logs = {"loss": 1.0}
    callback.on_log(None, state, None, logs)
    assert logs == {"loss": 1.0}


def test_the_monitor_names_what_it_cannot_look_at(model):
    with pytest.raises(TypeError, match="got SentenceTransformer"):
        MonitorCallback(model)
