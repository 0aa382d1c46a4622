"""Which settings there are: those of every run, and those of the encoder, head, method and loss that are named.

The settings of what is named are its constructor's arguments, found by looking.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Union, get_args, get_origin

from torch import Tensor

from isotherm.checks import did_you_mean
from isotherm.encoders import HEADS, NETWORKS, text
from isotherm.encoders.efficientnet import EFFICIENTNET, EfficientNetLite0
from isotherm.methods.build import method_spec
from isotherm.train.config import Config, Runtime
from isotherm.train.layers import PARTS, Settings
from isotherm.train.lookup import encoder_maker, loss_class

Spec = tuple[Any, Any, str]
"""Type, default, help."""


def specifications(settings: Mapping[str, Any]) -> dict[str, Spec]:
    """Every setting there is for these choices, by its dotted name."""
    specs: dict[str, Spec] = {}
    hints = typing.get_type_hints(Config)
    for f in dataclasses.fields(Config):
        if f.name in PARTS:
            if settings.get(f.name):
                specs[f"{f.name}.name"] = (str, settings[f.name]["name"], f.metadata["about"])
                specs |= {f"{f.name}.{k}": v for k, v in _settings_of(f.name, settings[f.name]["name"]).items()}
            continue
        specs[f.name] = (hints[f.name], _default_of(f), f.metadata["about"])
    hints = typing.get_type_hints(Runtime)
    for f in dataclasses.fields(Runtime):
        specs[f.name] = (str | None if f.name == "out" else hints[f.name], _default_of(f), f.metadata["about"])
    return specs


def _default_of(f: dataclasses.Field[Any]) -> Any:
    return f.default if f.default_factory is dataclasses.MISSING else f.default_factory()


def _settings_of(part: str, name: str) -> dict[str, Spec]:
    """The settings of what is named: its constructor's arguments."""
    if part == "loss":
        return _arguments(loss_class(name), ("reduction", "generator"), {})
    if part == "method":
        return {k: _spec(p) for k, p in method_spec(name).settings.items()}
    if part == "encoder":
        return _encoder_settings(name)
    if part == "text_encoder":
        if not text.is_text_encoder(name):
            there = [text.SMALL, text.INSTALLED, "hf:NAME", "hf:PATH"]
            raise ValueError(f"no text encoder '{name}'{did_you_mean(name, there)}")
        return _encoder_settings(name, part)
    if name not in HEADS:
        raise ValueError(f"no {part} '{name}'{did_you_mean(name, HEADS)}")
    return _arguments(HEADS[name].kind, ("features",), HEADS[name].settings)


def _encoder_settings(name: str, part: str = "encoder") -> dict[str, Spec]:
    if name == text.SMALL:
        own = {"vocabulary": (int, text.VOCABULARY, ""), **_arguments(text.small, ("tokenizer",), {})}
        return {**own, "masked": (int, 0, "")} if part == "encoder" else own
    if text.is_text_encoder(name):
        return _arguments(text.pretrained, ("name",), {})
    if name in NETWORKS:
        network, fixed = NETWORKS[name]
        own = _arguments(network, ("channels", "size", *fixed), {})
        by_size = {k: (own[k][0] | None, None, "") for k in ("small", "patch") if k in own}
        return own | by_size  # these follow the size of the images unless given
    if name == EFFICIENTNET:
        return _arguments(EfficientNetLite0, (), {})
    make = encoder_maker(name)
    if make is not None:
        return _arguments(make, ("channels", "size"), {})
    if ":" in name:
        return {"settings": (Settings, {}, "settings of the library's constructor")}
    there = [
        *NETWORKS,
        EFFICIENTNET,
        text.SMALL,
        text.INSTALLED,
        "hf:NAME",
        "timm:NAME",
        "torchvision:NAME",
        "./FILE.py:NAME",
    ]
    raise ValueError(f"no encoder '{name}'{did_you_mean(name, there)}")


def _arguments(of: Callable[..., Any], without: Sequence[str], defaults: Mapping[str, Any]) -> dict[str, Spec]:
    signed = of.__init__ if isinstance(of, type) else of  # type: ignore[misc]
    try:
        parameters = inspect.signature(signed, eval_str=True).parameters
    except NameError:  # somebody's annotation that names what is imported for type checkers only
        parameters = inspect.signature(signed).parameters
    fixed = ("self", *without, *(k for k, p in parameters.items() if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)))
    own = {k: p for k, p in parameters.items() if k not in fixed}
    return {k: _spec(p.replace(default=defaults.get(k, p.default))) for k, p in own.items()}


def _spec(parameter: inspect.Parameter) -> Spec:
    if parameter.name == "temperature" and parameter.annotation is inspect.Parameter.empty:  # in somebody's loss
        return float | Settings, parameter.default, ""
    return _readable(parameter.annotation), parameter.default, ""


def _readable(hint: Any) -> Any:
    """A type that can be written down: a temperature is a number or {name: …}."""
    if get_origin(hint) in (Union, types.UnionType):
        members = get_args(hint)
        if any(get_origin(m) is collections.abc.Callable or m is Tensor for m in members):
            return float | Settings
    if get_origin(hint) is collections.abc.Sequence:
        return list[get_args(hint)[0]]  # type: ignore[misc]
    return hint if _writable(hint) else Any


def _writable(hint: Any) -> bool:
    """Whether values of a type can be typed and checked; what somebody's annotation says beyond that is theirs."""
    if get_origin(hint) in (Union, types.UnionType, list, dict, tuple):
        return all(_writable(member) for member in get_args(hint))
    return hint in WORDS or hint in (type(None), Any, ..., list, dict, tuple) or get_origin(hint) is Literal


WORDS: dict[Any, str] = {int: "a whole number", float: "a number", bool: "true or false", str: "a word"}


def wanted(kind: Any) -> str:
    """A type in words."""
    if kind in WORDS:
        return WORDS[kind]
    if kind is type(None):
        return "null"
    if kind is Any:
        return "a value"
    origin = get_origin(kind)
    if origin is Literal:
        return "one of " * (len(get_args(kind)) > 1) + ", ".join(str(v) for v in get_args(kind))
    if origin in (Union, types.UnionType):
        return " or ".join(wanted(k) for k in get_args(kind))
    if origin is list:
        return "a list such as 1,2"
    if origin is dict:
        return "{name: …}"
    return str(kind)
