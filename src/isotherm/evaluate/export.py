"""`isotherm export`: the towers and projections of a run on pairs as a folder that others load.

The text tower as `transformers` and `sentence-transformers` load it, the image tower as every image encoder is
exported, the projections as plain layers of torch, and a README whose code is run by the tests. Locked towers are
written, too: a run's own folder leaves them out, as there may be hundreds of runs. `VisionTextDualEncoder` of
transformers is not what these are: it takes a tower's `pooler_output` and one linear layer without bias.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import nn

from isotherm import files
from isotherm.encoders.text import TextEncoder
from isotherm.train import runs
from isotherm.train.modality.images import ENCODER
from isotherm.train.modality.modality import provenance
from isotherm.train.state import export_encoder

CONFIG, PROJECTIONS, README = "config.json", "projections.safetensors", "README.md"
TEXT, IMAGE = "text", "image"


def export(source: Path, folder: Path) -> None:
    """Write the model of a run; whole, or not at all."""
    if folder.exists():
        raise ValueError(f"{folder} is there already; name a folder that is not.")
    if not folder.parent.is_dir():
        raise ValueError(f"no folder {folder.parent} to write {folder.name} into.")
    towers = runs.open_towers(source)
    heads, encoder = towers.network.head, towers.network.encoder
    text = encoder.text_encoder
    assert isinstance(text, TextEncoder)
    layers = {side: [layer_of(layer) for layer in getattr(heads, side)] for side in (IMAGE, TEXT)}
    normalize = {"mean": list(towers.recipe.mean), "std": list(towers.recipe.std)}
    card = {
        "encoder": towers.config.encoder.as_dict(),
        "channels": 3,
        "size": towers.size,
        "width": encoder.width,
        "normalize": normalize,
        **provenance(towers.config),
    }
    part = files.beside(folder)
    try:
        (part / IMAGE).mkdir(parents=True)
        text.save(part / TEXT)
        export_encoder(part / IMAGE / ENCODER, encoder.image_encoder, card)
        save_file({name: w.detach().cpu().contiguous() for name, w in heads.state_dict().items()}, part / PROJECTIONS)
        about = {"size": towers.size, "normalize": normalize, "pooling": text.pooling, "longest": text.longest}
        files.write_json(part / CONFIG, {**about, "projections": layers, **provenance(towers.config)})
        files.write_text(part / README, _readme(source.name, text, heads.width))
        part.rename(folder)
    except OSError as error:
        raise files.DiskFull(f"cannot write {folder}: {files.reason(error)}.") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def layer_of(layer: nn.Module) -> list[Any]:
    """A layer of a projection by its name in torch.nn and its arguments."""
    name = type(layer).__name__
    if isinstance(layer, nn.Linear):
        arguments = {"in_features": layer.in_features, "out_features": layer.out_features}
        return [name, {**arguments, "bias": layer.bias is not None}]
    if isinstance(layer, nn.BatchNorm1d):
        return [name, {"num_features": layer.num_features, "affine": layer.affine}]
    if isinstance(layer, nn.ReLU | nn.GELU | nn.Tanh):
        return [name, {}]
    raise ValueError(
        f"a projection with {name} cannot be exported; heads of linear layers, BN, ReLU, GELU and tanh can."
    )


POOLED = {
    "mean": "(last * mask).sum(1) / mask.sum(1)",
    "cls": "last[:, 0]",
    "first-last-avg": "(((out.hidden_states[1] + last) / 2) * mask).sum(1) / mask.sum(1)",
}


def _readme(name: str, text: TextEncoder, width: int) -> str:
    return f"""# {name}: images and texts in one space of {width} numbers

`text/` loads with `transformers` (and with `sentence_transformers.SentenceTransformer("text")`), `image/` with
`isotherm.load_encoder`, `projections.safetensors` holds plain layers of torch. Run this in this folder:

```python
import json
from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers import AutoModel, AutoTokenizer

config = json.loads(Path("config.json").read_text())
weights = load_file("projections.safetensors")


def projection(side):
    head = torch.nn.Sequential(*(getattr(torch.nn, name)(**how) for name, how in config["projections"][side]))
    head.load_state_dict({{k.removeprefix(side + "."): w for k, w in weights.items() if k.startswith(side + ".")}})
    return head.eval()


tokenizer, model = AutoTokenizer.from_pretrained("text"), AutoModel.from_pretrained("text").eval()
project_text, project_image = projection("text"), projection("image")


@torch.no_grad()
def embed_texts(texts):
    tokens = tokenizer(texts, padding=True, truncation=True, max_length=config["longest"], return_tensors="pt")
    out = model(input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"])
    last, mask = out.last_hidden_state, tokens["attention_mask"][:, :, None].float()
    return project_text({POOLED[text.pooling]})
```

Images are squares of `config["size"]` pixels, from 0 to 1, normalized by `config["normalize"]` where that is not empty:

```python
import isotherm

tower = isotherm.load_encoder("image")


@torch.no_grad()
def embed_images(pixels):  # (N, 3, size, size), from 0 to 1
    mean, std = (torch.tensor(config["normalize"][name]) for name in ("mean", "std"))
    return project_image(tower((pixels - mean[:, None, None]) / std[:, None, None] if len(mean) else pixels))
```

Compare by cosine: normalize both, then `images @ texts.T`.
"""
