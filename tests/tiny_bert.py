"""Texts of 48 words for a tiny BERT, and what both trainers of Hugging Face take. No network."""

import os

import pytest
import torch

os.environ.setdefault("HF_HUB_OFFLINE", "1")
transformers = pytest.importorskip("transformers", reason="needs transformers")
sentence_transformers = pytest.importorskip("sentence_transformers", reason="needs sentence-transformers")
datasets = pytest.importorskip("datasets", reason="needs datasets")

WORDS = [f"{kind}{i}" for kind in ("a", "b", "c") for i in range(16)]


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


def tokens(tokenizer, columns, rows=16):
    """A dataset of token numbers: one column flat, several nested."""
    encoded = [tokenizer(column)["input_ids"] for column in texts(columns, rows)]
    ids = encoded[0] if columns == 1 else [list(row) for row in zip(*encoded, strict=True)]
    return datasets.Dataset.from_dict({"input_ids": ids})


def together(rows):
    """SimCSE's collator in short: (N, columns, T). Every text here has the same number of tokens."""
    ids = torch.tensor([row["input_ids"] for row in rows])
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
