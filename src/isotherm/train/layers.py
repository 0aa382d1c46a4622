"""Settings laid over each other: a preset, then a YAML file, then the command line, each over the one before.

Settings are plain values as YAML holds them, nested or by dotted names. Six of them (`PARTS`) name something that has
settings of its own; naming another one starts from that one's defaults.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from isotherm.checks import did_you_mean
from isotherm.train.presets import PRESETS

Settings = dict[str, Any]
"""Plain values by name, as YAML and JSON hold them."""
PARTS = ("encoder", "text_encoder", "head", "predictor", "method", "loss")
FORMER = {"normalise": "normalize", "watch": "monitor", "watch_images": "monitor_images"}
"""Settings by the names they had before 0.2: still read, and what a run's key is tree of."""
LONGEST, MOST, DEEPEST = 1_000_000, 10_000, 50
"""Characters that a file of settings may have, values when its aliases are written out, and levels."""
LATER: Mapping[tuple[str, str], Settings] = {
    ("encoder", "convnet"): {"factor": 1.0},
    ("encoder", "small_alexnet"): {"factor": 1.0, "hidden": 4096},
    ("encoder", "text_small"): {"masked": 0},
    ("encoder", "vae"): {"widths": None, "bn": False, "padding": 1},
    ("method", "vae"): {"plane_weight": 1.0, "beta": 1.0},
    ("method", "mocov2"): {"pairwise": False},
    ("loss", "CACRLoss"): {"negatives_from": "own"},
}
"""Settings of a part that came later, with the value that means "as before": they change no key where they have it."""
RIVALS = (("epochs", "steps"), ("warmup", "warmup_part"))
"""Settings that say one thing in two ways; null and 0 say nothing."""


def preset_settings(name: str | None) -> Settings:
    if name is None:
        return {}
    if name not in PRESETS:
        near = did_you_mean(name, PRESETS, ["`isotherm presets` lists them"], lead="none is like it")
        raise ValueError(f"no preset '{name}'{near}")
    return nested(PRESETS[name].settings)


def nested(settings: Mapping[str, Any]) -> Settings:
    """Dotted names taken apart; a part that is only a name becomes {name: …}."""
    tree: Settings = {}
    without_rivals({}, settings)
    for name, value in settings.items():
        first, dot, rest = FORMER.get(name, name).partition(".")
        only_name = not dot and first in PARTS and isinstance(value, str)
        tree = _laid(tree, {first: {rest: value} if dot else {"name": value} if only_name else value})
    return tree


def merge(under: Mapping[str, Any], over: Mapping[str, Any]) -> Settings:
    """`over` laid on `under`. A part with another name forgets the settings of the one below; steps forget epochs, and
    epochs steps."""
    return _laid(without_rivals(under, over), over)


def _laid(under: Mapping[str, Any], over: Mapping[str, Any]) -> Settings:
    tree = dict(under)
    for name, value in over.items():
        below = tree.get(name)
        if name in PARTS and isinstance(value, Mapping) and isinstance(below, Mapping):
            other = "name" in value and value["name"] != below.get("name", value["name"])
            tree[name] = dict(value) if other else {**below, **value}
        elif isinstance(value, Mapping) and isinstance(below, Mapping):
            tree[name] = {**below, **value}
        else:
            tree[name] = value
    return tree


def without_rivals(under: Mapping[str, Any], over: Mapping[str, Any]) -> Settings:
    """`under` without what `over` says in another way; `over` itself must not say it in two."""
    tree = dict(under)
    for names in RIVALS:
        said = [name for name in names if over.get(name)]
        if len(said) > 1:
            both = " and ".join(f"{name} ({over[name]})" for name in said)
            raise ValueError(f"{both} say one thing in two ways: give one of them.")
        for name in names:
            if said and name not in said:
                tree.pop(name, None)
    return tree


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What differs between two configurations, one line each."""
    flat_old, flat_new = flat(old), flat(new)
    return [
        f"{name}: {flat_old.get(name, 'not set')} → {flat_new.get(name, 'not set')}"
        for name in dict.fromkeys([*flat_old, *flat_new])
        if flat_old.get(name) != flat_new.get(name)
    ]


def flat(settings: Mapping[str, Any]) -> Settings:
    """Dotted names."""
    tree: Settings = {}
    for name, value in settings.items():
        if name in PARTS and isinstance(value, Mapping):
            tree |= {name if k == "name" else f"{name}.{k}": v for k, v in value.items()}
        else:
            tree[name] = value
    return tree


def read_yaml(path: Path) -> Settings:
    """The settings in a file. One that would unfold to more than any settings are, or for ever, is refused."""
    try:
        if path.exists() and not path.is_file():
            raise ValueError("it is no file")
        with path.open(encoding="utf-8") as file:
            text = file.read(LONGEST + 1)
        settings = bounded(text)
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no YAML: {' '.join(str(error).split())}") from error
    except ValueError as error:
        raise ValueError(f"{path} holds no settings: {error}.") from error
    if not isinstance(settings, dict):
        raise ValueError(f"{path} must hold settings, one per line (name: value); got a {type(settings).__name__}.")
    return nested({str(k): v for k, v in settings.items()})


def depth(text: str) -> int:
    """How deeply a YAML text is nested; by its events, so that no text can exhaust the stack."""
    deepest = level = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        level += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        deepest = max(deepest, level)
        if deepest > DEEPEST:
            break
    return deepest


def bounded(text: str) -> Any:
    """What a YAML text says, if it is of a size that settings have."""
    if len(text) > LONGEST:
        raise ValueError(f"it has more than {LONGEST:,} characters")
    if depth(text) > DEEPEST:
        raise ValueError(f"it is nested too deeply: more than {DEEPEST} levels")
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if unfolded(node, {}) > MOST:
            raise ValueError(f"with its aliases written out it has more than {MOST:,} values")
        refuse_twice(node)
        return None if node is None else loader.construct_document(node)
    finally:
        loader.dispose()


def refuse_twice(node: Any) -> None:
    """Refuse a mapping that says one thing twice: YAML would take the last in silence."""
    if isinstance(node, yaml.MappingNode):
        counted = Counter(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode))
        twice = next((name for name, count in counted.items() if count > 1), None)
        if twice is not None:
            raise ValueError(f"it says '{twice}' twice")
    for entry in node.value if isinstance(node, yaml.CollectionNode) else ():
        for part in entry if isinstance(entry, tuple) else (entry,):
            refuse_twice(part)


def unfolded(node: Any, known: dict[int, float]) -> float:
    """How many values there are with every alias written out: one that stands for itself makes them endless."""
    if id(node) not in known:
        known[id(node)] = math.inf  # should it come again inside itself
        parts = node.value if isinstance(node, yaml.CollectionNode) else ()
        inner = [part for entry in parts for part in (entry if isinstance(entry, tuple) else (entry,))]
        known[id(node)] = 1 + sum(unfolded(part, known) for part in inner)
    return known[id(node)]
