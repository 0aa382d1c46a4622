"""A grid that was typed, as a study's file: what ran can be read, changed, and run again like any other study."""

from __future__ import annotations

import itertools
import pprint
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from isotherm.train.layers import RIVALS, preset_settings

NAME = "grid_study.py"
MEASURED = ("knn", "uniformity")
"""What is drawn against a number that is varied."""
NOT_HERE = ("config", "resume", "device", "out", "seed", "print_config")
"""Options of `isotherm train` that a grid has none of, or its own."""

TEMPLATE = '''"""Which of these settings is best? (a grid from the command line)

    {command}
"""

from isotherm.experiments.figures.plots import Against
from isotherm.experiments.study import Arm, Figure, Scale, Study

STUDY = Study(
    base={base},
    arms=({arms}),
    scales={{"cpu": Scale("as typed", {{}}, seeds={seeds})}},
    claims=(),
    figures=({figures}),
)
'''


def source(vary: Sequence[str], words: Sequence[str], seeds: int, command: Sequence[str]) -> str:
    """The study of every combination of these values (`lr=0.03,0.1`), over settings as `isotherm train` has them."""
    pairs = [_values(text) for text in vary]
    varied = dict(pairs)
    if not varied:
        raise ValueError("a grid needs something to vary: --vary loss.temperature=0.05,0.1,0.2")
    if len(varied) < len(pairs):
        raise ValueError(f"--vary names {', '.join(k for k, _ in pairs)}; each setting once, with all its values.")
    settings = _settings(words)
    for one, other in RIVALS:
        if {one, other} <= {*varied, *settings}:
            raise ValueError(f"{one} and {other} are two ways to say one thing; a grid has one of them.")
    along = {k: v for k, v in varied.items() if all(isinstance(each, int | float) for each in v)}
    named = {k: v for k, v in varied.items() if k not in along}
    combinations = list(itertools.product(*named.values()))
    labels = [", ".join(_label(v) for v in values) or "runs" for values in combinations]
    if len(set(labels)) < len(labels):  # ./a/mine.py:Loss and ./b/mine.py:Loss
        labels = [", ".join(map(str, values)) for values in combinations]
    arms = [
        f"Arm({label!r}, {dict(zip(named, values, strict=True))!r}, {along!r})"
        for label, values in zip(labels, combinations, strict=True)
    ]
    figures = [
        f"Figure({f'Against {key}'!r}, 'ours', Against({labels!r}, {key!r}, {key!r}, {MEASURED!r}))"
        for key in along
        if len(along) == 1
    ]
    return TEMPLATE.format(
        command=shlex.join(command).replace("\\", "\\\\").replace('"""', "'''"),
        base=pprint.pformat(settings, sort_dicts=False),
        arms="".join(f"\n        {arm}," for arm in arms) + "\n    ",
        seeds=seeds,
        figures="".join(f"\n        {figure}," for figure in figures) + ("\n    " if figures else ""),
    )


def _values(text: str) -> tuple[str, tuple[Any, ...]]:
    """A setting and the values it is to have, of `lr=0.03,0.1`."""
    key, sign, values = text.partition("=")
    try:
        listed = yaml.safe_load(f"[{values}]")
    except yaml.YAMLError:
        listed = None
    if not sign or not key.strip() or not listed:
        raise ValueError(f"--vary wants a setting and its values, such as lr=0.03,0.1; got '{text}'.")
    read = tuple(map(_number, listed))
    twice = [value for i, value in enumerate(read) if value in read[:i]]
    if twice:
        raise ValueError(f"--vary {key} has {twice[0]} twice.")
    return key.strip().removeprefix("--"), read


def _number(value: Any) -> Any:
    """YAML takes 1e-3 for a word."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _label(value: Any) -> str:
    return str(value).rpartition("/")[2]


def _settings(words: Sequence[str]) -> Mapping[str, Any]:
    """Settings of `isotherm train` as they are typed; whether they are any is seen when the runs are made of them."""
    words = [part for word in words for part in (word.split("=", 1) if word.startswith("--") else [word])]
    settings: dict[str, Any] = {"monitor": 0}
    for i in range(0, len(words), 2):
        name, value = words[i].removeprefix("--"), words[i + 1 : i + 2]
        if not words[i].startswith("--") or not value or value[0].startswith("--"):
            raise ValueError(f"settings are written --name value, as for isotherm train; got '{words[i]}'.")
        if name in NOT_HERE:
            raise ValueError(f"--{name} is for isotherm train; a grid has --vary, --seeds, --out and --workers.")
        if name == "preset":
            settings = {**preset_settings(value[0]), **settings}
        else:
            settings[name] = _number(yaml.safe_load(value[0]))
    return settings
