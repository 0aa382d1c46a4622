"""The run of masked words with which an encoder of sentences begins (``--encoder.masked STEPS``).

Such an encoder is not random when its run begins: a run of method `mlm` on the same sentences, with seed 0 whatever the
run's own, was before it; with `--images N` on the same N, which the run's seed draws. That is made once, as any other
run, and kept in the user's cache folder by its settings and its sentences; `train.loop` makes it where it is not there.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from isotherm.data import roots
from isotherm.encoders import text
from isotherm.methods.build import method_spec
from isotherm.train.choice import Choice
from isotherm.train.config import Config
from isotherm.train.modality.corpus import read
from isotherm.train.names import RESULT

METHOD = "mlm"
MODEL = "model"
"""The folder in a run's that `transformers` and `sentence-transformers` load."""
LOOKS = 5
"""How often STS-B is looked at on the way."""


def before(config: Config) -> Config | None:
    """The run that a run begins with; None where it does not."""
    steps = config.encoder.settings.get("masked", 0) if config.encoder.name == text.SMALL else 0
    if not steps:
        return None
    if steps < 0:
        raise ValueError(f"masked is a number of steps, 0 or more, got {steps}.")
    spec = method_spec(METHOD)
    usual = {k: v for k, v in spec.usual.items() if k not in ("epochs", "batch")}
    return Config(
        data=config.data,
        data_options=config.data_options,
        images=config.images,
        seed=0 if config.images is None else config.seed,  # which draws them
        encoder=Choice(text.SMALL, {**config.encoder.settings, "masked": 0}),
        head=Choice(spec.head, {}),
        method=Choice(METHOD, {name: p.default for name, p in spec.settings.items()}),
        steps=steps,
        batch=min(spec.usual["batch"], config.batch),  # of few sentences a large one cannot be had
        monitor=LOOKS,
        **usual,
    )


def folder(config: Config) -> Path | None:
    """Where the run is that a run begins with, or will be; None where it does not begin with one."""
    first = before(config)
    return None if first is None else roots.masked() / f"{first.key}-{read(first).fingerprint()[:8]}"


def there(place: Path) -> Path:
    """The folder, if its run has ended."""
    if not (place / RESULT).exists():
        raise ValueError(f"the masked words that this run begins with are not made yet ({place}): isotherm train does.")
    return place


def begun_with(place: Path, config: Config) -> text.TextEncoder:
    """The encoder that the run has left, with the pooling, length and dropout of another."""
    own = {name: config.encoder.settings[name] for name in ("pooling", "length", "dropout")}
    return text.pretrained(f"{text.HUB}{there(place) / MODEL}", **own)


def without(config: Config) -> Config:
    """The same run from chance: a step costs the same."""
    if before(config) is None:
        return config
    return replace(config, encoder=Choice(text.SMALL, {**config.encoder.settings, "masked": 0}))
