"""What a run's card says: how it was made, what was measured of it, and what its study found, if it belongs to one."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import stdtrit

from isotherm.data.catalogue import SETS
from isotherm.experiments.records import RECORDS, Records, read
from isotherm.experiments.study import Where
from isotherm.measures.measure import usable
from isotherm.train import names, runs
from isotherm.train.commandline import configure, recorded
from isotherm.train.config import Config
from isotherm.train.layers import PARTS, RIVALS, Settings, flat
from isotherm.train.result import RunResult
from isotherm.train.unread import is_unread

CLAIMS = "claims.json"
ON_THE_HUB = {
    "cifar10": "uoft-cs/cifar10",
    "cifar100": "uoft-cs/cifar100",
    "mnist": "ylecun/mnist",
    "fashion-mnist": "zalando-datasets/fashion_mnist",
    "imagenette": "frgfm/imagenette",
}
"""What the hub calls sets of ours."""


@dataclass(frozen=True)
class Spread:
    """A measure over the seeds of a point of a study: its mean, and Student's interval at 95 %."""

    mean: float
    low: float
    high: float
    seeds: int


@dataclass(frozen=True)
class Facts:
    """All that a card tells of a run."""

    config: Config
    command: str
    result: RunResult | None
    """None: it has not ended."""
    unfinished: str
    study: str = ""
    """The command that made the study it belongs to."""
    spreads: Mapping[str, Spread] | None = None
    claims: tuple[tuple[str, str, str], ...] = ()
    """The study's claims: what, in which paper, what came of it."""

    @property
    def measures(self) -> dict[str, float]:
        return {} if self.result is None else {k: v for k, v in self.result.measures.items() if usable(v)}

    @property
    def licence_of_data(self) -> str:
        entry = SETS.get(self.config.data)
        return "" if entry is None else entry.licence


def facts_of(out: Path) -> Facts:
    """Read a run's folder, and that of its study where it lies in one."""
    if not (out / names.CONFIG).exists():
        raise ValueError(f"{out} is no run: it has no {names.CONFIG}. `isotherm train --out {out}` makes one.")
    config = recorded(runs.read_config(out), out / names.CONFIG)
    result = runs.read_result(out) if (out / names.RESULT).exists() else None
    facts = Facts(config, command_of(config), result, runs.unfinished(out))
    study = out.resolve().parent.parent
    return _with_study(facts, out, study) if (study / RECORDS).exists() else facts


def _with_study(facts: Facts, out: Path, study: Path) -> Facts:
    records = read(study)
    own = next((r for r in records if r.folder.name == out.resolve().name), None)
    if own is None:
        return facts
    spreads = _spreads(records, Where(own.arm, own.varied), facts.measures)
    about = _json(study / "study.json", {})
    claims = [(c["claim"], c["paper"], c["verdict"]) for c in _json(study / CLAIMS, [])]
    command = about.get("command", "")
    return Facts(facts.config, facts.command, facts.result, facts.unfinished, command, spreads, tuple(claims))


def _spreads(records: Records, where: Where, measures: Mapping[str, float]) -> dict[str, Spread]:
    """Each measure at the run's point of the study: mean over seeds and Student's interval of it."""
    values = {name: list(records.by_seed(where, name).values()) for name in measures}
    return {name: _spread(each) for name, each in values.items() if len(each) > 1}


def _spread(values: Sequence[float]) -> Spread:
    n, mean = len(values), float(np.mean(values))
    half = float(stdtrit(n - 1, 0.975)) * float(np.std(values, ddof=1)) / math.sqrt(n)
    return Spread(mean, mean - half, mean + half, n)


def _json(path: Path, otherwise: Any) -> Any:
    try:
        return json.loads(path.read_text()) if path.exists() else otherwise
    except ValueError as error:
        raise ValueError(f"{path} is damaged; the command that made the study writes it again.") from error


def command_of(config: Config) -> str:
    """The line that would train this run again: what differs from the defaults of its data and of its parts."""
    own = flat(config.as_dict())
    named = {name: own[name] for name in ("data", *PARTS) if own.get(name) and not is_unread(name, config)}
    usual = flat(configure(named).as_dict())
    said_otherwise = {name for names in RIVALS for name in names if any(own[name] for name in names) and not own[name]}
    words = ["isotherm", "train"]
    for name, value in own.items():
        silent = name in said_otherwise or name.endswith(".code") or is_unread(name, config)
        if name in named or (value != usual.get(name) and not silent):
            words += [f"--{name}", _word(public(value))]
    return shlex.join(words)


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def public(value: Any) -> Any:
    """A setting as strangers may see it: of an absolute path only its last name."""
    if isinstance(value, Mapping):
        return {key: public(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [public(each) for each in value]
    if not isinstance(value, str):
        return value
    form, path = re.fullmatch(r"(\w+:)?(.*)", value, re.DOTALL).groups("")  # type: ignore[union-attr]
    return f"{form}{os.path.basename(path.rstrip(os.sep))}" if path.startswith((os.sep, "~")) else value


def public_card(card: Settings) -> Settings:
    """A card without paths of this machine; an encoder of images is built by its name, which stays."""
    return {key: value if key == "encoder" and "model" not in card else public(value) for key, value in card.items()}
