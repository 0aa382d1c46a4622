"""`make fuzz TIME=2h`: the attacks of test_files.py with ever new damage, until the time is over.

    PYTHONPATH=tests python tests/attacks/fuzz.py [--time 1h] [--only NAME …] [--seed N] [--out fuzz]
    PYTHONPATH=tests python tests/attacks/fuzz.py --atheris npy [libFuzzer's options]

The second is guided by coverage, where atheris is installed. Every finding is written to the folder: the damaged file,
the edits, and what happened; exit code 1 if there are any. A process that a signal ends is one. What is found becomes
a test in test_findings.py.
"""

import argparse
import itertools
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path

import torch

from attack import attack, whole
from edits import KINDS, Edit
from every import every
from isotherm.cli.terminal import seconds
from targets import TARGETS, Target
from watch import Broken


def drawn(rng: random.Random) -> list[Edit]:
    """Some edits: of the beginning, the end, or anywhere."""
    places = (lambda: rng.randrange(256), lambda: -1 - rng.randrange(256), lambda: rng.randrange(1 << 16))
    return [
        Edit(rng.choice(KINDS), rng.choice(places)(), rng.randint(1, 64), rng.randrange(1 << 16))
        for _ in range(rng.randint(1, 4))
    ]


def watched(words: list[str], length: float, seed: int, out: Path) -> int:
    """Attack in a process of its own: a signal that ends it is a finding, and the next one goes on. The exit code."""
    until, code, ended = time.monotonic() + length, 0, 0
    while (left := until - time.monotonic()) > 0:
        place = Path(tempfile.mkdtemp(prefix="isotherm-fuzz-"))
        own = ["--place", str(place), "--time", f"{left}s", "--seed", str(seed + ended), "--out", str(out)]
        code = subprocess.run([sys.executable, __file__, *words, *own], check=False).returncode
        if code >= 0:
            break
        ended += 1
        kept = out / f"ended-{ended}"
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(place / "here", kept)
        print(f"the process was ended by {signal.Signals(-code).name}\n  kept in {kept}", flush=True)
    return 1 if ended else code


def changed(target: Target) -> Iterator[tuple[str, Target]]:
    """The target with every value of its file replaced by every odd one, in an order that is always the same."""
    files = dict(target.files())
    first = next(iter(files))
    replaced = list(every(first, files[first]))
    random.Random(0).shuffle(replaced)
    for what, content in replaced:
        yield what, Target(target.name, lambda c=content: files | {first: c}, target.use, outputs=target.outputs)


def run(targets: list[Target], until: float, seed: int, out: Path, place: Path) -> int:
    """Attack the targets in turn, quick ones more often; how many findings there were."""
    counts, findings = dict.fromkeys((t.name for t in targets), 0), {}
    for target in targets:
        whole(target, place / "here")

    def tried(target: Target, way: int | None, changes: list[Edit], what: str) -> None:
        counts[target.name] += 1
        try:
            attack(target, place / "here", way, changes)
        except Broken as broken:
            cause = broken.__cause__
            frames = traceback.extract_tb(cause.__traceback__) if cause else []
            ours = [f for f in frames if "/isotherm/" in f.filename] or frames
            key = (target.name, type(cause).__name__, ours[-1].lineno if ours else str(broken)[-40:])
            if key not in findings:
                findings[key] = broken
                kept = out / f"{target.name.replace(' ', '-')}-{len(findings)}"
                shutil.rmtree(kept, ignore_errors=True)
                shutil.copytree(place / "here", kept)
                said = "".join(traceback.format_exception(cause)) if cause else ""
                (kept / "finding.txt").write_text(f"{what}\n{broken}\n\n{said}")
                print(f"{target.name}: {broken!s:.300}\n  kept in {kept}", flush=True)

    rng, turn = random.Random(seed), 0
    values = {t.name: changed(t) for t in targets if next(iter(t.files())).endswith((".json", ".jsonl", ".yaml"))}
    while time.monotonic() < until:
        turn += 1
        for target in targets:
            if turn % target.cost or time.monotonic() > until:
                continue
            way, changes = rng.randrange(8), drawn(rng)
            tried(target, way, changes, f"way {way}\n{changes!r}")
            for what, other in itertools.islice(values.get(target.name, ()), 1):
                tried(other, None, [], what)
    shutil.rmtree(place)
    print(f"{sum(counts.values()):,} attacks, {len(findings)} findings; seed {seed}")
    print(", ".join(f"{name} {count}" for name, count in counts.items()))
    return len(findings)


def guided(name: str, options: list[str]) -> None:
    """libFuzzer's own bytes, kept where they reach new lines of ours."""
    import atheris  # noqa: PLC0415 - not on every machine

    target = next(t for t in TARGETS if t.name == name)
    place = Path(tempfile.mkdtemp(prefix="isotherm-fuzz-")) / "here"
    whole(target, place)
    files = dict(target.files())
    first = next(iter(files))
    corpus = place.parent / "corpus"
    corpus.mkdir()
    (corpus / "valid").write_bytes(files[first])

    def once(content: bytes) -> None:
        attack(Target(name, lambda: files | {first: content}, target.use, outputs=target.outputs), place, None, [])

    atheris.instrument_all()
    atheris.Setup([sys.argv[0], *options, str(corpus)], once)
    atheris.Fuzz()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--time", type=seconds, default=3600.0, help="how long: 90s, 45m, 2h (1h)")
    parser.add_argument("--only", nargs="*", default=[], help="targets by name")
    parser.add_argument("--seed", type=int, default=None, help="of the damage (the clock)")
    parser.add_argument("--out", type=Path, default=Path("fuzz"), help="where findings go (fuzz)")
    parser.add_argument("--atheris", metavar="NAME", help="one target, guided by coverage")
    parser.add_argument("--place", type=Path, help=argparse.SUPPRESS)
    arguments, rest = parser.parse_known_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    if arguments.atheris:
        guided(arguments.atheris, rest)
    chosen = [t for t in TARGETS if not arguments.only or t.name in arguments.only]
    seed = arguments.seed if arguments.seed is not None else time.time_ns() % 2**32
    if arguments.place is None:
        words = ["--only", *arguments.only] if arguments.only else []
        sys.exit(watched(words, arguments.time, seed, arguments.out))
    sys.exit(1 if run(chosen, time.monotonic() + arguments.time, seed, arguments.out, arguments.place) else 0)
