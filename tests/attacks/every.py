"""Every value of a file of settings or records replaced by every odd one: what damage by chance finds in days."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import yaml

ODD: tuple[Any, ...] = (
    *([], {}, "", "x", "\x1b[2J\u202e", None, True, [[]], ["x"], {"a": {"b": 1}}),
    *(0, -1, 0.5, 65_535, 2**70, 1e308, float("inf"), float("nan")),
)
SAMPLED = 2
"""Entries of a list that are replaced: the others are as they are."""


def every(name: str, content: bytes, odd: tuple[Any, ...] = ODD) -> Iterator[tuple[str, bytes]]:
    """Where and by what a value was replaced, and the file so; of lines, in the first. JSON is YAML, too."""
    head, newline, rest = content.partition(b"\n") if name.endswith(".jsonl") else (content, b"", b"")
    tree = yaml.safe_load(head) if name.endswith(".yaml") else json.loads(head)
    for path in _paths(tree):
        for value in odd:
            yield f"{path} {value!r}", json.dumps(_with(tree, path, value)).encode() + newline + rest


def _paths(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    parts = tree.items() if isinstance(tree, dict) else enumerate(tree[:SAMPLED]) if isinstance(tree, list) else ()
    for name, part in parts:
        yield from _paths(part, (*path, name))


def _with(tree: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    tree = copy.copy(tree)
    tree[path[0]] = _with(tree[path[0]], path[1:], value)
    return tree
