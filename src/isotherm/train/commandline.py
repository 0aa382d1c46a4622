"""From what is typed to a configuration: reading settings of their types, telling mistakes, and the help text.

A part is written ``--loss NTXentLoss --loss.temperature 0.1`` or, in YAML, ``loss: {name: NTXentLoss, temperature:
0.1}``.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

import yaml
from jsonargparse import ArgumentError, ArgumentParser

from isotherm import doors
from isotherm.checks import did_you_mean
from isotherm.encoders import text
from isotherm.encoders.build import NETWORKS
from isotherm.encoders.heads import HEADS
from isotherm.methods.build import METHODS, check_loss, method_spec
from isotherm.train.choice import Choice
from isotherm.train.config import Config, Runtime
from isotherm.train.layers import (
    FORMER,
    PARTS,
    RIVALS,
    Settings,
    bounded,
    differences,
    flat,
    merge,
    nested,
    preset_settings,
    read_yaml,
    without_rivals,
)
from isotherm.train.lookup import code_in, loss_class
from isotherm.train.modality import modality_for
from isotherm.train.presets import PRESETS, USUAL
from isotherm.train.specifications import Spec, specifications, wanted
from isotherm.train.unread import refuse_unread
from isotherm.views.recipes import RECIPES

TRUST = "--trust-code"
"""Says that code which a file names may be run."""
TOO_LARGE = "a number among the settings is larger than any that can be computed with."


def configure(settings: Mapping[str, Any] | None = None, preset: str | None = None) -> Config:
    """A configuration from dotted or nested settings over a preset: ``configure({"loss.temperature": 0.1})``.

    Who names code of their own here has it run; settings that come from a file are for `parse` and `recorded`.
    """
    merged = merge(preset_settings(preset), nested(settings or {}))
    doors.allow(*code_in(merged))
    return _config(merged, [])[0]


def recorded(settings: Mapping[str, Any], source: Path) -> Config:
    """A run's configuration as its folder has it.

    Its loss is taken as it stands: to open a run nobody needs it, and no code of it is run. Other code from outside
    must be allowed, and be what it was.
    """
    own = {name: value for name, value in settings.items() if name != "loss"}
    doors.refuse_strangers(code_in(own), source)
    config = dataclasses.replace(configure(own), loss=Choice.of(settings.get("loss", {})))
    lines = differences(settings, config.as_dict())
    changed = [line for line in lines if line.startswith(("encoder.code:", "data_options:"))]
    if changed:
        raise ValueError(f"{source}: code has changed since this run ({'; '.join(changed)}). Bring the old file back.")
    return config


def parse(argv: Sequence[str]) -> tuple[Config, Runtime, bool]:
    """The command line: the configuration, the place, and whether the configuration is only to be printed."""
    argv = [a for word in argv for a in (word.split("=", 1) if word.startswith("--") and "=" in word else [word])]
    argv = [f"--{FORMER[word[2:]]}" if word.startswith("--") and word[2:] in FORMER else word for word in argv]
    argv = [word.replace("--data.", "--data_options.", 1) if word.startswith("--data.") else word for word in argv]
    typed = tuple(argv)
    preset, argv = _taken(argv, "--preset")
    file, argv = _taken(argv, "--config")
    only_print = "--print_config" in argv
    if TRUST in argv:
        doors.allow(doors.EVERYTHING)
    argv = [a for a in argv if a not in ("--print_config", TRUST)]
    settings = merge(preset_settings(preset), read_yaml(Path(file)) if file else {})
    for part in PARTS:
        name, argv = _taken(argv, f"--{part}")
        if name is not None:
            settings = merge(settings, {part: {"name": name}})
    data, _ = _taken(argv, "--data")
    settings = merge(settings, {} if data is None else {"data": data})  # what is usual depends on it
    argv = _with_temperature(argv)
    _check_aliases(argv)
    doors.allow(*(word for word in typed if doors.is_outside(word)))
    doors.refuse_strangers(code_in(settings), file or "the preset")
    config, place = _config(settings, argv)
    refuse_unread([word[2:] for word in typed if word.startswith("--")], config)
    return config, place, only_print


def _taken(argv: Sequence[str], option: str) -> tuple[str | None, list[str]]:
    """The value of an option, the last one if it is there several times, and the other words."""
    value, rest, words = None, [], iter(argv)
    for word in words:
        if word == option:
            value = next(words, None)
            if value is None or value.startswith("--"):
                raise ValueError(f"{option} needs a value.")
        else:
            rest.append(word)
    return value, rest


def _with_temperature(argv: Sequence[str]) -> list[str]:
    """``--loss.temperature ./mine.py:tau`` as the mapping that it stands for, which may have settings too."""
    before = ["", *argv]
    return [
        json.dumps({"name": word}) if before[i] == "--loss.temperature" and doors.is_outside(word) else word
        for i, word in enumerate(argv)
    ]


def _check_aliases(argv: Sequence[str]) -> None:
    """Refuse a value which is read as YAML and has no end."""
    for word in argv:
        try:
            bounded(word)
        except yaml.YAMLError:  # told when it is read, in the words of the setting
            continue
        except ValueError as error:
            raise ValueError(f"a value that is typed is no setting: {error}.") from error


def _config(settings: Mapping[str, Any], argv: Sequence[str]) -> tuple[Config, Runtime]:
    settings = _without_code(settings)
    typed = {name: _taken(argv, f"--{name}")[0] for names in RIVALS for name in names}
    typed = {name: value for name, value in typed.items() if value != "null"}
    settings = completed(without_rivals(merge(usual(settings), without_rivals(settings, typed)), typed))
    method = method_spec(str(settings["method"]["name"]))
    if method.loss is None and not settings["loss"].get("name"):
        _without_loss(settings, argv)
        settings["loss"] = {}
    elif "name" not in settings["loss"]:
        settings["loss"] = {"name": method.loss, **settings["loss"]}
    if settings["loss"]:
        check_loss(str(settings["method"]["name"]), loss_class(str(settings["loss"]["name"])))
    specs = specifications(settings)
    given = {(f"{name}.name" if name in PARTS else name): value for name, value in flat(settings).items()}
    for name in given:
        _known(name, specs, "")
    for word in argv:
        if word.startswith("--"):
            _known(word[2:].removesuffix("+"), specs, "--")
    return _stamped(_tree(_parsed(specs, given, argv)))


def _without_loss(settings: Mapping[str, Any], argv: Sequence[str]) -> None:
    """Refuse settings of a loss for a method that has none, however they came."""
    typed = [word.removeprefix("--loss.") for word in argv if word.startswith("--loss.")]
    for setting in (*settings["loss"], *typed):
        name = str(settings["method"]["name"])
        own = setting in method_spec(name).settings
        raise ValueError(
            f"method '{name}' has its own objective and takes no loss, got loss.{setting}; "
            f"{f'say --method.{setting}' if own else 'leave it out'}."
        )


def _without_code(settings: Mapping[str, Any]) -> Settings:
    """Settings whose parts are mappings, without what a file says of the state of code: that is looked up again."""
    plain = dict(settings)
    for part in PARTS:
        choice = plain.setdefault(part, {})
        if not isinstance(choice, Mapping) or not isinstance(choice.get("name", ""), str):
            raise ValueError(f"{part} must be a name, or {{name: …, settings}}; got {choice!r}.")
        outside = doors.is_outside(choice.get("name"))
        plain[part] = {k: v for k, v in choice.items() if not (outside and k == "code")}
    tau = plain["loss"].get("temperature")
    if isinstance(tau, str) and doors.is_outside(tau):
        plain["loss"]["temperature"] = {"name": tau}
    options = plain.get("data_options")
    if isinstance(options, Mapping):
        plain["data_options"] = {k: v for k, v in options.items() if k != "code"}
    return plain


def _stamped(values: Settings) -> tuple[Config, Runtime]:
    """The configuration, with the state of the code that it names, and the place."""
    place = {f.name: values.pop(f.name) for f in dataclasses.fields(Runtime)}
    place["out"] = Path(place["out"]) if place["out"] is not None else None
    parts = {part: Choice.of(values.get(part, {})).stamped() for part in PARTS}
    tau = parts["loss"].settings.get("temperature")
    if isinstance(tau, Mapping):
        settings = {**parts["loss"].settings, "temperature": Choice.of(tau).stamped().as_dict() or tau}
        parts["loss"] = dataclasses.replace(parts["loss"], settings=settings)
    code = doors.digest(values["data"]) if doors.is_outside(values["data"]) else ""
    options = {**({"code": code} if code else {}), **values["data_options"]}
    return Config(**{**values, **parts, "data_options": options}), Runtime(**place)


def completed(settings: Mapping[str, Any]) -> Settings:
    """Every part with a name: the method's default where none is given."""
    method = method_of(settings)
    second = method_spec(method).text_encoder
    if settings["text_encoder"] and not second:
        raise ValueError(f"method '{method}' has one encoder; --text_encoder belongs to --method clip.")
    names = {
        "method": method,
        "encoder": method_spec(method).encoder,
        "head": method_spec(method).head,
        "predictor": "simclr",
        **({"text_encoder": second} if second else {}),
    }
    return {**settings, **{part: {"name": name, **settings[part]} for part, name in names.items()}}


def method_of(settings: Mapping[str, Any]) -> str:
    """The method that is named, or the usual one for the data."""
    if "name" in settings["method"]:
        return str(settings["method"]["name"])
    return modality_for(str(settings.get("data") or Config.data), settings["encoder"].get("name")).method


def usual(settings: Mapping[str, Any]) -> Settings:
    """What goes without saying for this method and encoder, under whatever is said."""
    method = method_of(settings)
    if method != "simcse":
        return nested(method_spec(method).usual)
    scratch = settings["encoder"].get("name", method_spec(method).encoder) == text.SMALL
    return nested(USUAL["sentences from scratch" if scratch else "sentences"])


def _known(name: str, specs: Mapping[str, Spec], dashes: str) -> None:
    first = ".".join(name.split(".")[:2])
    if name in specs or first in specs or name.split(".", maxsplit=1)[0] in specs:
        return
    part = name.split(".", maxsplit=1)[0]
    if part in PARTS and f"{part}.name" in specs:
        those = [k.partition(".")[2] for k in specs if k.startswith(f"{part}.") and k != f"{part}.name"]
        what = f"{part} '{specs[f'{part}.name'][1]}'"
        dotted = [f"{dashes}{part}.{k}" for k in those]
        hint = did_you_mean(f"{dashes}{name}", dotted, those or ["none"], lead="it has")
        raise ValueError(f"{what} has no setting '{name.partition('.')[2]}'{hint}")
    options = [f"{dashes}{k.removesuffix('.name')}" for k in specs]
    hint = did_you_mean(f"{dashes}{name}", options, ["isotherm train --help"], lead="see")
    raise ValueError(f"no setting '{dashes}{name}'{hint}")


def _parsed(specs: Mapping[str, Spec], given: Mapping[str, Any], argv: Sequence[str]) -> Settings:
    """Every setting's value, of its type."""
    parser = ArgumentParser(exit_on_error=False, prog="isotherm train", add_help=False)
    for name, (kind, default, _) in specs.items():
        missing = default is inspect.Parameter.empty
        parser.add_argument(f"--{name}", type=kind, default=None if missing else default)
    words: list[str] = []
    flags = {f"--{name}" for name, (kind, _, _) in specs.items() if kind is bool}
    lists = {f"--{name}" for name, (kind, _, _) in specs.items() if _takes_only_lists(kind)}
    for i, word in enumerate(argv):
        is_list = i > 0 and argv[i - 1] in lists and not word.startswith(("[", "--")) and word != "null"
        words.append(f"[{word}]" if is_list else word)  # --milestones 3,5 means --milestones [3,5]
        if word in flags and (i + 1 == len(argv) or argv[i + 1].startswith("--")):
            words.append("true")  # --resume alone means --resume true
    try:
        checked = parser.parse_object(_tree(given), defaults=False)
    except ArgumentError as error:
        raise ValueError(_one_line(str(error), specs, given, ())) from error
    except OverflowError as error:
        raise ValueError(TOO_LARGE) from error
    parser.set_defaults({name: checked[name] for name in given})
    try:
        parsed = parser.parse_args(words)
    except ArgumentError as error:
        raise ValueError(_one_line(str(error), specs, given, words)) from error
    except OverflowError as error:
        raise ValueError(TOO_LARGE) from error
    values = {name: _plain(parsed[name]) for name in specs}
    for name, (kind, default, _) in specs.items():
        if values[name] is None and default is not None and type(None) not in get_args(kind):
            raise ValueError(f"{name} must be {wanted(kind)}; got null.")
    return values


def _takes_only_lists(kind: Any) -> bool:
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    return all(get_origin(each) in (list, tuple) for each in kinds if each is not NoneType)


def _tree(given: Mapping[str, Any]) -> Settings:
    tree: Settings = {}
    for name, value in given.items():
        part, dot, key = name.partition(".")
        if dot:
            tree.setdefault(part, {})[key] = value
        else:
            tree[name] = value
    return tree


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _one_line(message: str, specs: Mapping[str, Spec], given: Mapping[str, Any], words: Sequence[str]) -> str:
    """jsonargparse's complaint in a sentence."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    if lines[0].startswith('Parser key "'):
        name = lines[0].split('"')[1]
        kind = specs[name][0] if name in specs else None
        said = [words[i + 1] for i, word in enumerate(words[:-1]) if word == f"--{name}"]
        got = said[-1] if said else given.get(name)
        return f"{name.removesuffix('.name')} must be {wanted(kind)}; got {got!r}."
    return " ".join(lines) + ("" if lines[-1].endswith(".") else ".")


def help_text(argv: Sequence[str] = ()) -> str:
    """Every setting, what it is, its default: what `isotherm train --help` shows."""
    settings: Settings = {}
    words = [a for a in argv if a not in ("--help", "-h")]
    for part in PARTS:
        name, _ = _taken(words, f"--{part}")
        settings[part] = {"name": name} if name else {}
    settings["data"] = _taken(words, "--data")[0]
    settings = completed(merge(usual(settings), settings))
    method = method_spec(settings["method"]["name"])
    if method.loss and not settings["loss"]:
        settings["loss"] = {"name": method.loss}
    goes = {k: v for k, v in flat(settings).items() if v is not None}
    specs = {k: (kind, goes.get(k, default), about) for k, (kind, default, about) in specifications(settings).items()}
    lines = []
    for name, (kind, default, about) in specs.items():
        value = "" if default in (None, inspect.Parameter.empty) or default in ([], {}) else f" ({_default(default)})"
        if name.endswith(".name"):
            part = name.removesuffix(".name")
            lines.append(f"  --{part} NAME".ljust(30) + f"{about}{value}")
        elif "." in name:
            lines.append(f"    --{name}".ljust(30) + f"{wanted(kind)}{value}")
        else:
            lines.append(f"  --{name}".ljust(30) + f"{about}{value}")
    return "\n".join(lines)


def _default(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


ELSEWHERE = ("hf:NAME", "timm:NAME", "torchvision:NAME", "./FILE.py:NAME")
"""How encoders are named that do not come with Isotherm."""


def listing() -> str:
    """Where the presets are, which encoders, heads and recipes there are, and the methods, a line each."""
    rows = [
        f"presets: `isotherm presets` lists all {len(PRESETS)}; --preset NAME --print_config shows one.",
        f"encoders: {', '.join([*NETWORKS, text.SMALL, text.INSTALLED, *ELSEWHERE])}",
        f"heads: {', '.join(HEADS)}",
        f"recipes of views: {', '.join(RECIPES)}",
        "",
        "methods (isotherm train --method NAME --help shows the settings of one):",
    ]
    rows += [f"  {name:<24}{spec.about}" for name, spec in METHODS.items()]
    return "\n".join(rows)
