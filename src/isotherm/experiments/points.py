"""From a study to its runs: every arm, value and seed of a scale, checked before anything runs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from isotherm import doors
from isotherm.checks import did_you_mean
from isotherm.data import sets
from isotherm.data.sentences import is_text
from isotherm.experiments.study import Arm, Point, Scale, Settings, Study, Where, as_recorded
from isotherm.measures.catalogue import in_groups, measures
from isotherm.train.commandline import configure
from isotherm.train.config import Config
from isotherm.train.layers import flat, merge, nested
from isotherm.train.unread import refuse_unread

MANY_SEEDS = 10_000
"""A claim that needs more is not worth its runs."""


def expand(
    study: Study,
    scale: str,
    data: str | None = None,
    seeds: int | None = None,
    more: Mapping[str, int] = MappingProxyType({}),
) -> list[Point]:
    """Every run of a scale; a value that is impossible is told before anything runs.

    `more` are seeds of single points, by their labels, where they have more than the scale gives them (`looks`).
    Whoever asks for a study's runs has asked for the code that they name: it is allowed from now on.
    """
    check_measures(study)
    if scale not in study.scales:
        raise ValueError(f"study {study.name} has no scale '{scale}'; it has: {', '.join(study.scales)}.")
    size = study.scales[scale]
    if (most := max(seeds or 0, size.seeds, *more.values())) > MANY_SEEDS:
        raise ValueError(f"study {study.name} would have {most:,} seeds; {MANY_SEEDS:,} are the most.")
    data_name = str(data or size.settings.get("data") or study.base.get("data", "digits"))
    if ":" not in data_name and not is_text(data_name):
        sets.named(data_name)
    points, groups = [], groups_at(study, scale)
    for arm in study.arms:
        for varied, own in itertools.groupby(_grid(arm, size, seeds, more), key=lambda each: each[0]):
            config = _config(study, arm, varied, size, data_name)  # slow, and the same for every seed
            points += [Point(arm.name, varied, seed, replace(config, seed=seed), groups) for _, seed in own]
    _refuse_two_of_one_name(points)
    if not points:
        raise ValueError(f"study {study.name} has no runs at scale {scale}: give it arms, and values to vary.")
    _refuse_unread_everywhere(study, points)
    doors.allow(*(name for point in points for name in doors.outside_names(point.config.as_dict())))
    return points


def _refuse_two_of_one_name(points: Sequence[Point]) -> None:
    """Refuse runs that differ and would be told as one: of arms of one name, at the same values."""
    known: dict[tuple[str, int], str] = {}
    for point in points:
        label = Where(point.arm, point.varied).label
        if known.setdefault((label, point.seed), point.config.key) != point.config.key:
            raise ValueError(f"two arms of the study are called '{label}': their runs could not be told apart.")
    by_arm: dict[str, dict[str, Settings]] = {}
    for point in points:
        by_arm.setdefault(point.arm, {}).setdefault(Where(point.arm, point.varied).label, point.varied)
    for arm, there in by_arm.items():
        for one, other in itertools.permutations(there.values(), 2):
            if one.items() < other.items():
                raise ValueError(
                    f"two arms of the study are called '{arm}': what is asked of it{_of(one)} would be of "
                    f"'{Where(arm, other).label}', too. Give them names of their own."
                )


def _of(varied: Settings) -> str:
    return f" at {', '.join(f'{k} = {v}' for k, v in varied.items())}" if varied else ""


def _refuse_unread_everywhere(study: Study, points: Sequence[Point]) -> None:
    """Refuse what all runs are given and none reads; of several scales another may read it."""
    for name in flat(study.base) if len(study.scales) == 1 else ():
        for point in points:
            try:
                refuse_unread([name], point.config)
                break
            except ValueError as error:
                why = error
        else:
            raise ValueError(f"study {study.name}: {why}") from why


def _grid(arm: Arm, scale: Scale, seeds: int | None, more: Mapping[str, int]) -> Iterator[tuple[Settings, int]]:
    """What is varied, and the seed, of every run of an arm."""
    over = {k: [v for v in values if v in scale.only.get(k, values)] for k, values in arm.over.items()}
    for values in itertools.product(*over.values()):
        varied = as_recorded(dict(zip(over, values, strict=True)))
        once = arm.once or any(v in scale.once.get(k, ()) for k, v in varied.items())
        given = 1 if once else seeds or scale.seeds
        for seed in range(max(given, more.get(Where(arm.name, varied).label, 0))):
            yield varied, seed


def _config(study: Study, arm: Arm, varied: Settings, scale: Scale, data: str) -> Config:
    settings: Settings = {}
    for layer in (study.base, scale.settings, scale.data.get(data, {}), {"data": data}, arm.settings, varied):
        settings = merge(settings, nested(layer))
    for layer in (scale.adjust(settings), varied):
        settings = merge(settings, nested(layer))
    if "seed" in settings:
        raise ValueError(f"study {study.name}, {arm.name}: seeds are no setting; a scale and --seeds say how many.")
    try:
        config = configure(settings)
        refuse_unread(list(varied), config)
        return config
    except (ValueError, TypeError) as error:
        values = ", ".join(f"{k} = {v}" for k, v in varied.items())
        raise ValueError(f"study {study.name}, {arm.name} {values}: {error}") from error


def groups_at(study: Study, scale: str) -> tuple[str, ...]:
    """The groups of measures taken at a scale: the study's, its own, those of what is read in place of some."""
    size = study.scales.get(scale)
    more = [] if size is None else [*size.measure, *(measures()[name].groups[0] for name in size.instead.values())]
    return tuple(dict.fromkeys([*study.measure, *more]))


def at_scale(study: Study, scale: str) -> Study:
    """A study as it is judged at a scale: with the claims that can be, and the measures that are taken there."""
    claims = [claim for claim in study.claims if not claim.at or scale in claim.at]
    return replace(study, claims=claims, measure=groups_at(study, scale))


def check_measures(study: Study) -> None:
    """Claims and figures may only speak of what is measured, and claims only of figures that there are."""
    try:
        groups = [*study.measure, *(group for scale in study.scales.values() for group in scale.measure)]
        measured = [measure.name for measure in in_groups(groups)]
    except ValueError as error:
        raise ValueError(f"study {study.name}: {error}") from error
    for scale, size in study.scales.items():
        for name, other in size.instead.items():
            for wanted, known in ((name, measured), (other, list(measures()))):
                if wanted not in known:
                    hint = did_you_mean(wanted, known)
                    raise ValueError(f"study {study.name}: scale '{scale}' has no measure '{wanted}'{hint}")
    for title, asked in _needs(study):
        for measure in asked:
            if measure not in measured:
                hint = did_you_mean(measure, measured)
                raise ValueError(
                    f"study {study.name}: '{title}' names the measure '{measure}', which nobody takes{hint}"
                )
    figures = [figure.name for figure in study.figures]
    for claim in study.claims:
        if claim.figure and claim.figure not in figures:
            hint = did_you_mean(claim.figure, figures)
            raise ValueError(f"study {study.name}: '{claim.claim}' names the figure '{claim.figure}'{hint}")


def _needs(study: Study) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Which measures each claim, figure and comparison speaks of."""
    yield from ((claim.claim, claim.measures) for claim in study.claims)
    yield from ((figure.name, figure.measures) for figure in study.figures)
    yield from ((f"compared with {c.against}", (c.measure,)) for c in study.compare)


def instead_at(study: Study, scale: str) -> Mapping[str, str]:
    """Measures that a scale reads in place of others; a folder may be of a scale that the study no longer has."""
    return study.scales[scale].instead if scale in study.scales else {}
