"""The losses inside the Hugging Face `Trainer`: the real library, a tiny BERT, no network."""

import math

import pytest
import torch
from torch.nn import functional

from isotherm import Monitor, nn, temperature
from isotherm.integrations.trainer_callback import MonitorCallback
from isotherm.integrations.transformers import ContrastiveModel
from tiny_bert import arguments, losses_of, together, tokens, transformers


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


@pytest.mark.parametrize("head", [None, 8])
def test_texts_in_mini_batches_give_the_gradient_of_the_whole_batch(encoder, tokenizer, head):
    ids = torch.tensor(tokens(tokenizer, 1, rows=6)["input_ids"])
    pairs = torch.stack([ids, ids.flip(0)], 1)
    torch.manual_seed(0)
    layer = None if head is None else torch.nn.Linear(32, head)
    results = []
    for size in (None, 5):
        model = ContrastiveModel(encoder, nn.InfoNCELoss(0.1), head=layer, mini_batch_size=size).train()
        for part in encoder.modules():  # no dropout, but training
            if isinstance(part, torch.nn.Dropout):
                part.p = 0.0
        model.zero_grad()
        out = model(pairs)
        out["loss"].backward()
        gradient = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
        results.append((out["loss"].detach(), out["embeddings"].detach(), gradient))
        assert [z.shape for z in model.seen] == [(6, head or 32)] * 2
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-6)  # float32, summed in another order


def test_the_trainer_trains_in_mini_batches_and_logs_the_monitor(encoder, tokenizer, tmp_path):
    model = ContrastiveModel(encoder, nn.InfoNCELoss(0.05), mini_batch_size=3)
    trainer = transformers.Trainer(
        model=model,
        args=arguments(tmp_path, transformers.TrainingArguments, max_steps=10),
        train_dataset=tokens(tokenizer, 1),
        data_collator=transformers.DataCollatorWithPadding(tokenizer),
        callbacks=[MonitorCallback(model, Monitor(grace=None))],
    )
    trainer.train()
    assert all("monitor_uniformity" in entry for entry in trainer.state.log_history if "loss" in entry)
