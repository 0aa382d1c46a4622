"""`make torture COUNT=100`: programs are killed at random moments and go on, until they end as if nothing had been.

    PYTHONPATH=src:tests:tests/attacks python tests/attacks/torture.py [--count 100] [--seed N] [--of KIND=SHARE …]

Every one is first run undisturbed, and the calls that write are counted. Then it is stopped with SIGKILL at a moment
drawn from the seed (before, in the middle of, or after a call that writes; or after a time), alone or with all its
processes; or the disk is full from a moment on. Some times over; then it goes on to its end. What it leaves must be
what the undisturbed one left: weights, metrics, records, pages and names, to the bit; only clocks are left out.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from stopping import Hangs, Program, Stop, preloaded

SHARES = {"train": 9, "torchrun": 3, "study": 2, "ray": 1, "get": 5}
"""How many of twenty."""
KILLED = -signal.SIGKILL


@dataclass
class Whole:
    """What an undisturbed program left, and what it took."""

    folder: Path
    calls: int
    seconds: float


class Torture:
    """Some programs, their undisturbed ends, and what became of the others."""

    def __init__(self, place: Path, seed: int) -> None:
        self.place, self.seed = place, seed
        self.whole: dict[str, Whole] = {}

    def undisturbed(self, victim) -> Whole:
        if victim.name not in self.whole:
            out = self._empty(victim.name)
            began = time.monotonic()
            code, said, calls = Program(lambda: victim.run(out), out).ended()
            if code != 0:
                raise AssertionError(f"{victim.name} does not run undisturbed: {said[-2000:]}")
            kept = self.place / f"whole {victim.name}"
            out.rename(kept)
            self.whole[victim.name] = Whole(kept, calls, time.monotonic() - began)
        return self.whole[victim.name]

    def torture(self, victim, number: int) -> tuple[list[str], list[Stop]]:
        """What is wrong at the end, and how it was stopped on the way."""
        from undisturbed import differences  # noqa: PLC0415 - after the library is loaded

        whole, chance = self.undisturbed(victim), random.Random(f"{self.seed} {number}")
        out, stops = self._empty(victim.name), []
        for _ in range(chance.randint(1, victim.kills)):
            stop = self._stop(victim, whole, chance)
            stops.append(stop)
            code, said, _ = Program(lambda: victim.run(out), out, stop).ended()
            if wrong := _wrong(code, said, stop):
                return [wrong], stops
        code, said, _ = Program(lambda: victim.run(out), out).ended()
        if code != 0:
            return [f"it does not go on (exit code {code}): {said[-2000:]}"], stops
        return differences(whole.folder, out), stops

    def _stop(self, victim, whole: Whole, chance: random.Random) -> Stop:
        if chance.random() < 0.25:
            return Stop(after=chance.random() * whole.seconds)
        how = chance.choice(("before", "half", "after", "full") if victim.fills else ("before", "half", "after"))
        return Stop(chance.randint(1, whole.calls), how, chance.choice(("self", "group")))

    def _empty(self, name: str) -> Path:
        """The same folder for all of a kind: some files name it."""
        out = self.place / name / "out"
        shutil.rmtree(out.parent, ignore_errors=True)
        out.parent.mkdir(parents=True)
        return out


def _wrong(code: int, said: str, stop: Stop) -> str:
    """What is wrong with how a stopped program ended: killed, or at its end before; on a full disk with a sentence."""
    if code == 0 or (code == KILLED and stop.how != "full"):
        return ""
    last = (said.strip().splitlines() or [""])[-1]
    if stop.how == "full" and code == 2 and "Traceback" not in said and last.startswith("isotherm"):
        return ""
    return f"{stop}: exit code {code}: {said[-2000:]}"


def shared(shares: dict[str, int], count: int) -> list[str]:
    """So many kinds, by their shares, evenly mixed."""
    total = sum(shares.values())
    due = dict.fromkeys(shares, 0.0)
    order = []
    for _ in range(count):
        for kind, share in shares.items():
            due[kind] += share / total
        order.append(max(due, key=lambda kind: due[kind]))
        due[order[-1]] -= 1
    return order


def run(count: int, seed: int, shares: dict[str, int], keep: Path) -> int:
    """How many did not end as if nothing had been."""
    from disturbed import serve, victims  # noqa: PLC0415 - seconds of imports, after the library is loaded

    place, failed, began = Path(tempfile.mkdtemp(prefix="isotherm-torture-")), [], time.monotonic()
    server, address = serve()
    try:
        kinds, machine = victims(address), Torture(place, seed)
        for number, kind in enumerate(shared(shares, count)):
            victim = kinds[kind][number % len(kinds[kind])]
            try:
                wrong, stops = machine.torture(victim, number)
            except Hangs as hangs:
                wrong, stops = [str(hangs)], []
            told = ", ".join(f"{s.after:.1f} s" if s.after is not None else f"{s.how} {s.at} {s.whom}" for s in stops)
            print(f"{number + 1:>4} {victim.name:<10} {'differs' if wrong else 'identical'}  ({told})", flush=True)
            if wrong:
                failed.append(victim.name)
                kept = keep / f"{number + 1}-{victim.name.replace(' ', '-')}"
                shutil.rmtree(kept, ignore_errors=True)
                shutil.copytree(place / victim.name, kept, symlinks=True)
                (kept / "wrong.txt").write_text("\n".join(wrong))
                print("     " + "\n     ".join(w[-1500:] for w in wrong[:8]) + f"\n     kept in {kept}", flush=True)
    finally:
        os.kill(server, signal.SIGKILL)
        os.waitpid(server, 0)
        shutil.rmtree(place, ignore_errors=True)
    calls = ", ".join(f"{name} {whole.calls}" for name, whole in machine.whole.items())
    print(f"{count - len(failed)} of {count} identical, seed {seed}, {time.monotonic() - began:.0f} s; calls: {calls}")
    return len(failed)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100, help="how many programs (100)")
    parser.add_argument("--seed", type=int, default=None, help="of the moments (the clock)")
    parser.add_argument("--of", nargs="*", default=[], metavar="KIND=SHARE", help=f"instead of {json.dumps(SHARES)}")
    parser.add_argument("--out", type=Path, default=Path("torture"), help="where what differs is kept (torture)")
    arguments = parser.parse_args()
    chosen = {kind: int(share or 1) for kind, _, share in (word.partition("=") for word in arguments.of)} or SHARES
    if unknown := chosen.keys() - SHARES.keys():
        parser.error(f"no kind {', '.join(unknown)}; there are: {', '.join(SHARES)}")
    preloaded()
    os.environ["OMP_NUM_THREADS"] = "1"
    first = arguments.seed if arguments.seed is not None else time.time_ns() % 2**32
    sys.exit(1 if run(arguments.count, first, chosen, arguments.out) else 0)
