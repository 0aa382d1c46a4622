"""Damage to valid files: short lists of edits, drawn by hypothesis, so that a finding shrinks to the edit that matters.

Bytes are changed where formats keep their promises (heads and tails) more often than elsewhere; values of a tree
(JSON, YAML, the head of a safetensors file) are replaced by values nobody expects.
"""

import copy
import gzip
import io
import json
import struct
import tarfile
import zipfile
from dataclasses import dataclass

from hypothesis import strategies as st

PAYLOAD = b"cos\nsystem\n(S'touch /tmp/isotherm-was-here'\ntR."
"""A pickle that runs a command; whoever loads it is seen by the audit hook."""
TOKENS = (
    b"\x00" * 8,
    b"\xff" * 8,
    b"\x80\x04\x95",
    b"PK\x03\x04",
    PAYLOAD,
    b"\n\n",
    b'"',
    b",",
    b"nan",
    b"1e999",
    b"-1",
    b"99999999999999999999",
    b"{",
    b"[" * 40,
    b"[" * 20_000,
    b"\x1b[2J",
    b"\xed\xa0\x80",
    b"!!python/object/apply:os.system [true]",
    b"O",
)
NUMBERS = (0, 1, -1, 127, 255, 32767, 65535, 2**31 - 1, -(2**31), 2**32 - 1, 2**62, 2**63 - 1)
VALUES = (
    *(
        None,
        True,
        -1,
        0,
        1.5,
        1e308,
        float("nan"),
        float("inf"),
        10**30,
        2**63,
        "",
        "x",
        "\x1b[2J\u202e",
        "./mine.py:F",
    ),
    *([], {}, [None], {"": None}, {"name": 3}, [[1], 2], [0] * 3, "../../../etc/passwd", "\ud800", "1" * 5000),
)


@dataclass(frozen=True)
class Edit:
    """One change: what, where, and with what."""

    kind: str
    where: int
    size: int
    value: int


KINDS = ("flip", "byte", "cut", "drop", "double", "number", "token", "digits")
edit = st.builds(
    Edit,
    kind=st.sampled_from(KINDS),
    where=st.one_of(st.integers(0, 255), st.integers(-256, -1), st.integers(0, 1 << 16)),
    size=st.integers(1, 64),
    value=st.integers(0, 1 << 16),
)
edits = st.lists(edit, min_size=1, max_size=4)


def damaged(content: bytes, changes: list[Edit]) -> bytes:
    """The content after all of the changes, whatever it was."""
    for change in changes:
        if content:
            content = _changed(bytearray(content), change, change.where % len(content))
    return content


def _changed(content: bytearray, change: Edit, at: int) -> bytes:
    size, value = change.size, change.value
    if change.kind == "flip":
        content[at] ^= 1 << value % 8
    elif change.kind == "byte":
        content[at] = value % 256
    elif change.kind == "cut":
        del content[at:]
    elif change.kind == "drop":
        del content[at : at + size]
    elif change.kind == "double":
        content[at:at] = content[at : at + size] * (1 + value % 50)
    elif change.kind == "number":
        number = NUMBERS[value % len(NUMBERS)]
        form = "<>"[value // 16 % 2] + "BHIQ"[value // 32 % 4]
        raw = struct.pack(form, number % (1 << 8 * struct.calcsize(form)))
        content[at : at + len(raw)] = raw
    elif change.kind == "token":
        content[at : at + size * (value // 32 % 2)] = TOKENS[value % len(TOKENS)]
    elif change.kind == "digits":  # the next run of digits becomes another number
        start = next((i for i in range(at, len(content)) if 48 <= content[i] <= 57), None)
        if start is not None:
            end = start
            while end < len(content) and 48 <= content[end] <= 57:
                end += 1
            content[start:end] = str(NUMBERS[value % len(NUMBERS)] if value % 5 else 10**18).encode()
    return bytes(content)


def in_gzip(content: bytes, changes: list[Edit]) -> bytes:
    """The edits below the packing, whose checksums are right again."""
    return gzip.compress(damaged(gzip.decompress(content), changes), 1)


def in_zip(content: bytes, changes: list[Edit]) -> bytes:
    """The edits in one member of an archive, written again with right checksums."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w") as new:
        names = old.namelist()
        # a pickle or the first: what says how the others are to be read
        told = next((n for n in names if n.endswith("data.pkl")), names[0])
        chosen = told if changes[0].value % 4 else names[changes[0].value // 4 % len(names)]
        for name in names:
            member = old.read(name)
            new.writestr(name, damaged(member, changes) if name == chosen else member)
    return out.getvalue()


def in_tar(content: bytes, changes: list[Edit]) -> bytes:
    """The edits in one member of an archive, packed or not, whose head says its new size."""
    out, packed = io.BytesIO(), content[:2] == b"\x1f\x8b"
    with (
        tarfile.open(fileobj=io.BytesIO(content)) as old,
        tarfile.open(fileobj=out, mode="w:gz" if packed else "w") as new,
    ):
        members = old.getmembers()
        chosen = changes[0].value % len(members)
        for i, member in enumerate(members):
            raw = old.extractfile(member).read()
            raw = damaged(raw, changes) if i == chosen else raw
            member.size = len(raw)
            new.addfile(member, io.BytesIO(raw))
    return out.getvalue()


def in_tar_heads(content: bytes, changes: list[Edit]) -> bytes:
    """The edits in what the heads of an archive say of its members, with right checksums."""
    heads, at = [], 0
    while any(content[at : at + 512]):
        heads.append(at)
        at += 512 * (1 + -(-int(content[at + 124 : at + 135], 8) // 512))
    at = heads[changes[0].value // 8 % len(heads)]
    fields = ((0, 100), (124, 12), (156, 1), (157, 100), (257, 8), (345, 155))  # name, size, kind, link, magic, prefix
    for change in changes:
        first, length = fields[change.size % len(fields)]
        field = damaged(content[at + first : at + first + length], [change])[:length].ljust(length, b"\0")
        content = content[: at + first] + field + content[at + first + length :]
    head = content[at : at + 148] + b" " * 8 + content[at + 156 : at + 512]
    return content[: at + 148] + b"%06o\0 " % sum(head) + content[at + 156 :]


def in_tree(tree, changes: list[Edit]):
    """A tree of plain values with some of them replaced, removed, renamed or wrapped."""
    tree = copy.deepcopy(tree)
    for change in changes:
        places = list(_places(tree))
        if not places:
            return VALUES[change.value % len(VALUES)]
        holder, key = places[change.where % len(places)]
        what = change.size % 8
        if what == 0:
            del holder[key]
        elif what == 1 and isinstance(holder, dict):
            holder[f"{key}x"] = holder.pop(key)
        elif what == 2:
            holder[key] = [holder[key]]
        elif what == 3:
            holder[key] = {"name": holder[key]}
        else:
            holder[key] = copy.deepcopy(VALUES[change.value % len(VALUES)])
    return tree


def _places(tree):
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in list(pairs):
        yield tree, key
        yield from _places(value)


def in_json(content: bytes, changes: list[Edit]) -> bytes:
    return json.dumps(in_tree(json.loads(content), changes)).encode()


def in_json_lines(content: bytes, changes: list[Edit]) -> bytes:
    lines = [json.loads(line) for line in content.splitlines()]
    at = changes[0].value % len(lines)
    lines[at] = in_tree(lines[at], changes)
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def in_safetensors(content: bytes, changes: list[Edit]) -> bytes:
    length = int.from_bytes(content[:8], "little")
    head = json.dumps(in_tree(json.loads(content[8 : 8 + length]), changes)).encode()
    return len(head).to_bytes(8, "little") + head + content[8 + length :]
