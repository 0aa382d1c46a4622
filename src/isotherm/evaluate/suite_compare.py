"""Two models or more on the same suite: who wins where, by how much, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from isotherm.evaluate.assessment import Table
from isotherm.evaluate.measured import Measured, Suited
from isotherm.evaluate.paired import Difference, paired
from isotherm.evaluate.suite import TITLES
from isotherm.files import Json


@dataclass(frozen=True)
class Pair:
    """One probe on one set, by the first model and by another."""

    first: Measured
    other: Measured
    difference: Difference | None
    """The first less the other; None where nothing says how sure it is."""


@dataclass(frozen=True)
class SuiteComparison:
    """The first model against each other one."""

    suited: tuple[Suited, ...]
    pairs: tuple[tuple[Pair, ...], ...]
    """Per other model."""
    notes: tuple[str, ...]

    def tables(self) -> list[Table]:
        tables = []
        for other, pairs in zip(self.suited[1:], self.pairs, strict=True):
            first = self.suited[0].model
            heads = ("set", "probe", "metric", first, other.model, "difference (95 %)", "wins")
            rows: list[tuple[str, ...]] = [
                (
                    pair.first.set,
                    pair.first.probe,
                    TITLES[pair.first.metric],
                    f"{100 * pair.first.mean:.2f}",
                    f"{100 * pair.other.mean:.2f}",
                    _difference(pair),
                    _winner(pair, first, other.model),
                )
                for pair in pairs
            ]
            for probe in dict.fromkeys(pair.first.probe for pair in pairs):
                of = [pair for pair in pairs if pair.first.probe == probe]
                rows.append(_mean_row(probe, of))
            tables.append(Table(heads, tuple(rows)))
        return tables

    def lines(self) -> list[str]:
        said = "A difference whose interval excludes 0 is decided (*); a win is a higher mean."
        return [said, *self.notes]

    def as_dict(self) -> Json:
        return {
            "models": [s.model for s in self.suited],
            "against": {
                other.model: [
                    {
                        "set": p.first.set,
                        "probe": p.first.probe,
                        "metric": p.first.metric,
                        "first": p.first.mean,
                        "other": p.other.mean,
                        "difference": None if p.difference is None else p.difference.as_dict(),
                    }
                    for p in pairs
                ]
                for other, pairs in zip(self.suited[1:], self.pairs, strict=True)
            },
            "notes": list(self.notes),
        }


def compare_suites(suited: Sequence[Suited]) -> SuiteComparison:
    """Pair what was measured alike: the same set, probe, metric, seeds, shots and test items."""
    if len(suited) < 2:
        raise ValueError(f"compare --suite needs at least 2 models, got {len(suited)}.")
    notes = [f"{each.model}: {line}" for each in suited for line in each.lines()]
    all_pairs = []
    for other in suited[1:]:
        theirs = {(m.set, m.probe): m for m in other.measured}
        pairs = []
        for mine in suited[0].measured:
            that = theirs.get((mine.set, mine.probe))
            if that is None:
                notes.append(f"{mine.set}, {mine.probe}: only {suited[0].model} has it")
            elif not mine.like(that):
                unlike = "asked of other items, with other seeds, shots or epochs, or by another metric"
                notes.append(f"{mine.set}, {mine.probe}: {unlike}; left out")
            else:
                pairs.append(Pair(mine, that, difference(mine, that)))
        if not pairs:
            raise ValueError(f"{suited[0].model} and {other.model} have nothing in common to compare.")
        all_pairs.append(tuple(pairs))
    return SuiteComparison(tuple(suited), tuple(all_pairs), tuple(dict.fromkeys(notes)))


def difference(first: Measured, other: Measured) -> Difference | None:
    """The first less the other, paired by seed and by test item."""
    by_seed = [a - b for a, b in zip(first.values, other.values, strict=True)]
    mine, theirs = first.items(), other.items()
    return paired(by_seed, None if mine is None or theirs is None else (mine - theirs).mean(0))


def _difference(pair: Pair) -> str:
    if pair.difference is None:
        return f"{100 * (pair.first.mean - pair.other.mean):+.2f}"
    return f"{pair.difference}{' *' if pair.difference.decided else ''}"


def _winner(pair: Pair, first: str, other: str) -> str:
    if pair.first.mean == pair.other.mean:
        return "tie"
    return first if pair.first.mean > pair.other.mean else other


def _mean_row(probe: str, pairs: Sequence[Pair]) -> tuple[str, ...]:
    means = [(p.first.mean, p.other.mean) for p in pairs]
    mine, theirs = (sum(column) / len(means) for column in zip(*means, strict=True))
    wins = sum(a > b for a, b in means), sum(b > a for a, b in means)
    over = paired([a - b for a, b in means])  # over other sets: each is one
    said = f"{100 * (mine - theirs):+.2f}" if over is None else str(over).replace("(", "(over sets ")
    return (
        "mean",
        probe,
        f"{len(pairs)} sets",
        f"{100 * mine:.2f}",
        f"{100 * theirs:.2f}",
        said,
        f"{wins[0]} : {wins[1]}",
    )
