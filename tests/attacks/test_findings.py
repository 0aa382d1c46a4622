"""What fuzzing found, each with the damage that showed it: once a traceback, since then a sentence."""

import io
import json
import tarfile

import pytest
import torch

from attack import attack
from edits import Edit
from isotherm.train.state import HOLDS
from tar_shards import packed
from targets import TARGETS

TARGET = {target.name: target for target in TARGETS}


def put(name, content, tmp_path, allowed=(2,)):
    """The target read with this content instead of its own; it must be refused in a sentence."""
    target = TARGET[name]
    files = dict(target.files())
    first = next(iter(files))
    changed = type(target)(name, lambda: files | {first: content(files[first])}, target.use, outputs=target.outputs)
    assert attack(changed, tmp_path / "here", None, []) in allowed


def with_entries(**entries):
    """JSON with other values; of lines, in the first."""

    def changed(content):
        head, *rest = content.splitlines() if b"}\n{" in content else [content]
        return b"\n".join([json.dumps({**json.loads(head), **entries}).encode(), *rest])

    return changed


def of_version_25(content):
    """An archive that says a later zip is needed to unpack it."""
    at = content.index(b"PK\1\2") + 6
    return content[:at] + b"\xff" + content[at + 1 :]


def labelled(label):
    """A shard whose last sample has this label."""

    def changed(content):
        with tarfile.open(fileobj=io.BytesIO(content)) as tar:
            parts = {member.name: tar.extractfile(member).read() for member in tar}
        last = next(name for name in reversed(parts) if name.endswith((".cls", ".json")))
        return packed({**parts, last: label})

    return changed


def longer_prefix(content):
    """A tokenizer whose merges are shorter than the prefix they should have."""
    tree = json.loads(content)
    tree["model"]["continuing_subword_prefix"] = "\u001b[2J\u202e"
    return json.dumps(tree).encode()


def other_number(content):
    """A tokenizer one of whose words has a number that the model does not know."""
    tree = json.loads(content)
    word = next(iter(tree["model"]["vocab"]))
    tree["model"]["vocab"][word] = 65_535
    return json.dumps(tree).encode()


def first_mark(**entries):
    """A tokenizer whose first mark is another."""

    def change(content):
        tree = json.loads(content)
        post = tree["post_processor"]
        (post["special_tokens"]["[CLS]"] if "ids" in entries else post["single"][0]["SpecialToken"]).update(entries)
        return json.dumps(tree).encode()

    return change


def without(name):
    return lambda content: json.dumps({k: v for k, v in json.loads(content).items() if k != name}).encode()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("images npy", lambda c: c.replace(b"'shape': (6, 8, 8, 3)", b"'shape': (6, 8, 8, 3 ")),  # tokenize.TokenError
        ("images npz", of_version_25),  # NotImplementedError
        ("encoder's card", without("channels")),  # KeyError
        ("encoder's card", with_entries(encoder=["convnet"])),  # AttributeError
        ("encoder's card", with_entries(channels=None)),  # TypeError with a stack of C++
        ("records", with_entries(varied=True)),  # AttributeError
        ("records", with_entries(config={"encoder": ["convnet"]})),  # AttributeError
        ("report", with_entries(warnings=[["collapsed"]])),  # AttributeError
        ("report", with_entries(groups=[{}])),
        ("report", with_entries(seconds=float("inf"))),  # OverflowError
        ("report", with_entries(versions={"torch": [2]})),
        ("records", with_entries(folder="../../elsewhere")),  # a folder that is not the study's
        ("records", lambda c: b"[" * 100_000),  # RecursionError
        ("about", lambda c: b'{"study":' + b"[" * 100_000),  # RecursionError
        ("about", with_entries(command=[[1], 2])),  # AttributeError
        ("about", with_entries(seeds="many")),  # TypeError
        ("cifar pickle", lambda c: c[:-1] + b"r" + (2**28).to_bytes(4, "little") + b"."),  # 2.7 GB for a memo's places
        ("metrics", lambda c: b'{"loss_mean":' + b"[" * 100_000),  # RecursionError
        ("shards", labelled(b"9" * 30)),  # OverflowError
        ("shards", labelled(b"999999999999")),  # a name for each class: no end, and all memory
        ("shards labelled in json", labelled(b'{"label": 1e400}')),  # OverflowError
        ("shards labelled in json", labelled(b"[" * 100_000)),  # RecursionError
        ("a model's tokenizer", longer_prefix),  # pyo3_runtime.PanicException, which is no Exception
        ("a model's settings", with_entries(hidden_dropout_prob=float("nan"))),  # RuntimeError in the first step
        ("a model's settings", with_entries(num_attention_heads=-1)),  # RuntimeError
        ("a model's tokenizer", other_number),  # IndexError
        ("a model's tokenizer", first_mark(ids=[65_535])),  # IndexError
        ("a model's tokenizer", first_mark(id="x")),  # PanicException
        ("a run's settings", lambda c: c.replace(b"- 4\n", b"- 4\n  - 8\n")),  # RuntimeError: Missing key(s)
        ("a run's settings", lambda c: c.replace(b"encoder:\n", b"encoder: [3]\nother:\n")),  # AttributeError
        ("a run's settings", lambda c: c.replace(b"- 4\n", b"- 65535\n")),  # a head of 16 GiB
        ("a run's settings", lambda c: c.replace(b"- 4\n", b"- 4\n  - 65535\n")),
        ("a run's settings", lambda c: c.replace(b"layers: 2\n", b"layers: 1180591620717411303424\n")),  # no end
        ("a run's settings", lambda c: c.replace(b"layers: 2\n", b"layers: 65535\n")),  # 886 MiB
    ],
)
def test_it_is_a_sentence_now(name, content, tmp_path):
    put(name, content, tmp_path)


def checkpoint_with(name, value):
    def change(content):
        state = torch.load(io.BytesIO(content), weights_only=True)
        if value is None:
            del state[name]
        else:
            state[name] = value
        out = io.BytesIO()
        torch.save(state, out)
        return out.getvalue()

    return change


@pytest.mark.parametrize("value", [None, {1: 2}, "x", [[]]], ids=str)
def test_a_checkpoint_of_which_any_part_is_missing_or_another_thing_is_told(value, tmp_path):
    """KeyError: 'config', AttributeError: 'int' object has no attribute 'partition'."""
    for name in (*HOLDS, "rng", "format"):
        put("resumed", checkpoint_with(name, value), tmp_path / name, (0, 2))


def test_an_attack_that_breaks_a_promise_is_noticed(tmp_path):
    """The harness itself: a reader that runs what it reads, fails, hangs on to memory or leaves half an output."""
    import os  # noqa: PLC0415

    from watch import MEMORY, Broken, harmless  # noqa: PLC0415

    def unpacks():
        assert len(b"x" * (3 * MEMORY))  # also beside what others free meanwhile

    def half():
        (tmp_path / "out.json").write_text("{")
        raise ValueError("refused.")

    for read, words in (
        (lambda: os.system("true"), "os.system"),
        (lambda: {}["a"], "KeyError"),
        (lambda: (tmp_path.parent / "elsewhere").write_text("x"), "wrote"),
        (unpacks, "MiB for 0 bytes"),
        (half, "was written, and the command refused"),
    ):
        with pytest.raises(Broken, match=words):
            harmless(read, tmp_path, outputs=(tmp_path / "out.json",) if read is half else ())


def test_edits_change_what_they_are_given():
    from edits import KINDS, damaged  # noqa: PLC0415

    content = b"some 123 bytes of a file" * 4
    for kind in KINDS:
        assert any(damaged(content, [Edit(kind, at, 8, 97)]) != content for at in range(8)), kind
