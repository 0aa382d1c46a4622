"""Command lines nobody meant: words of ours in the wrong places, values of the wrong kind, names of nothing.

Drawn by a seeded generator, so that the five hundred of the suite are always the same ones. Every line is bounded so
that one which happens to be right takes seconds: small data, one epoch, few rows.
"""

import random
import shlex

LOSSES = (
    "NTXentLoss",
    "DCLLoss",
    "HardContrastiveLoss",
    "CACRLoss",
    "SupConLoss",
    "SimSiamLoss",
    "Nonsense",
    "./no.py:L",
)
METHODS = ("simclr", "mocov2", "byol", "swav", "simcse", "nothing", "vae", "dino")
NUMBERS = ("0", "1", "-1", "2", "7", "0.5", "1e999", "nan", "inf", "-0", "1e-30", "99999999999999999999", "0x10", "١٢")
ODD = (
    "", " ", "-", "--", "---", "=", "null", "true", "[]", "{}", "[1, 2", "{a: b}", "*a", "&a [*a]",
    "!!python/name:os.system", "\x1b[2J", "\u202e", "é", "\udc80", "a\nb", "a\tb", "../..", "/dev/null",
    "/proc/self/mem", "$(touch x)", "; true", "%s%n",
    "x" * 3000, "{" * 200, "folder:", "arrays:", "parquet:/nowhere", "text:", "hf:", "hf:/nowhere", "./no.py:Nothing",
    "os:system", "builtins:exec", "HERE/z.npy", "HERE/z.npy:k", "HERE/y.txt", "HERE", "HERE/none", "HERE/z.txt",
)  # fmt: skip
TRAIN = (
    "epochs", "steps", "batch", "lr", "seed", "images", "size", "warmup", "warmup_part", "weight_decay", "precision",
    "optimizer", "schedule", "data", "split", "test", "recipe", "crop_scale", "normalize", "imbalance", "ratio",
    "randbit", "digits", "monitor", "monitor_images", "average", "clip", "accumulate", "small_crops",
    "small_size", "data_options",
    "loss.temperature", "loss.alpha", "loss.nothing", "loss", "method", "encoder", "encoder.widths", "encoder.width",
    "head", "head.width", "head.layers", "predictor", "method.queue", "method.momentum", "log", "device", "devices",
    "checkpoint", "resume", "quiet", "nothing",
)  # fmt: skip
BOUNDED = ("--images", "64", "--batch", "32", "--epochs", "1", "--monitor", "0", "--encoder.widths", "[4]", "--quiet")
OTHERS = {
    "inspect": ("labels", "views", "key", "sample", "seed", "map", "html", "json", "drop", "help"),
    "compare": ("labels", "sample", "seed", "html", "json", "drop"),
    "evaluate": ("probe", "senteval", "seed", "html", "json", "trust-code"),
    "data": ("out", "split", "recipe", "views", "rows", "read_size", "size", "seed", "randbit", "digits", "digit_size"),
    "losses": ("json", "help", "nothing"),
    "presets": ("json", "help", "nothing"),
    "study": ("list", "scale", "data", "seeds", "workers", "budget", "gpus", "throughput", "plan"),
    "report": ("publish", "trust-code"),
    "check": ("law",),
    "bench": ("rounds", "pairs", "loss", "json"),
}
NAMES = (
    "digits",
    "cifar99",
    "temperature",
    "NTXentLoss",
    "show",
    "list",
    "get",
    "minilm",
    "HERE/run",
    "losses",
    "knn,linear",
)


def line(seed: int, here: str) -> list[str]:
    """The words of the command line with this number; HERE is a folder with a few files."""
    rng = random.Random(seed)
    command = rng.choice(["train"] * 8 + ["inspect"] * 6 + ["data"] * 3 + list(OTHERS) + [_odd(rng)])
    words = _train(rng) if command == "train" else _other(rng, command)
    if rng.random() < 0.15 and words:
        words.insert(rng.randrange(len(words)), _odd(rng))
    if rng.random() < 0.1 and words:
        del words[rng.randrange(len(words))]
    return [word.replace("HERE", here) for word in words]


def _train(rng: random.Random) -> list[str]:
    words = ["train", *BOUNDED]
    if rng.random() < 0.5:
        words += ["--loss", rng.choice(LOSSES)]
    if rng.random() < 0.3:
        words += ["--method", rng.choice(METHODS)]
    for _ in range(rng.randint(1, 3)):
        name = rng.choice(TRAIN)
        joined = rng.random() < 0.1
        value = _value(rng)
        words += [f"--{name}={value}"] if joined else [f"--{name}", value]
    words += rng.choice(
        [["--print_config"]] * 3 + [["--config", _value(rng)], ["--preset", _value(rng)], ["--out", "HERE/out"]]
    )
    # the last word counts: whatever was said, a line trains on little data for one epoch
    return [*words, *(BOUNDED[:6] if rng.random() < 0.7 or "--out" in words else ())]


def _other(rng: random.Random, command: str) -> list[str]:
    if command in ("study", "bench"):  # what is right of these runs for minutes: only what cannot be
        words = [command, *(["--list"] if command == "study" else []), _odd(rng)]
    elif command == "data":
        words = ["data", rng.choice(("list", "show", "show", "show", "nothing")), rng.choice((*NAMES, _odd(rng)))]
    elif command == "inspect":
        words = ["inspect", rng.choice(("HERE/z.npy", "HERE/z.npy", "HERE/z.npy", _odd(rng))), "--map", "none"]
    elif command == "check":
        words = ["check", _odd(rng)]
    else:
        words = [command, rng.choice((*NAMES, _odd(rng)))]
    for option in rng.choices(OTHERS.get(command, ("help",)), k=rng.randint(0, 3)):
        words += [f"--{option}", *([_value(rng)] if rng.random() < 0.9 else [])]
    return words


def _value(rng: random.Random) -> str:
    return rng.choice(NUMBERS) if rng.random() < 0.5 else rng.choice((*ODD, *NAMES))


def _odd(rng: random.Random) -> str:
    return rng.choice(ODD)


def typed(words: list[str]) -> str:
    """The line as a person would type it."""
    return shlex.join(["isotherm", *words])
