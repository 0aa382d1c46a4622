"""What the designs of studies promise: rivals alike in all but the question, and no more work than two hours."""

from dataclasses import replace

import pytest

from isotherm.experiments import find
from isotherm.experiments.points import expand
from isotherm.train.build import build


@pytest.mark.slow
@pytest.mark.parametrize(("name", "arms"), [("dystress", ("SimCLR", "DySTreSS")), ("cacr", ("CL", "AU-CL", "HN-CL"))])
def test_rivals_of_a_seed_start_from_the_same_weights_and_images(name, arms):
    points = expand(find.load(name), "smoke")
    built = [build(next(p.config for p in points if p.arm == a and p.seed == 0)) for a in arms]
    first, *others = [{k: v for k, v in b.method.state_dict().items() if k.startswith("network.")} for b in built]
    for other in others:
        assert first.keys() == other.keys()
        assert all((first[k] == other[k]).all() for k in first)
    first, *others = [b.material for b in built]
    assert all((m.ids == first.ids).all() and m.recipe == first.recipe for m in others)


def test_every_k_sees_as_many_views_in_as_many_steps():
    study = find.load("cacr")
    arms = [arm for arm in study.arms if arm.name in ("CL", "CMC (K = 4)", "CACR (K = 4)")]
    assert len(arms) == 3
    headline = [p.config for p in expand(replace(study, arms=arms), "cpu", seeds=1)]
    assert {c.batch * c.views for c in headline} == {320}
    assert {c.steps for c in headline} == {1500}


@pytest.mark.parametrize(("name", "several"), [("dystress", 9), ("cacr-rivals", 11)])
def test_methods_without_negatives_or_all_have_two_rates(name, several):
    points = expand(find.load(name), "cpu", "cifar10", seeds=1)
    by_rate = [p for p in points if p.arm.endswith(" by rate")]
    assert len(by_rate) == 2 * several
    for arm in {p.arm for p in by_rate}:
        low, high = (p.config for p in by_rate if p.arm == arm)
        (plain,) = (p.config for p in points if p.arm == arm.removesuffix(" by rate"))
        assert (low.lr, high.lr, low.key) == (0.03, 0.1, plain.key)
    assert {p.config.lr for p in points if p not in by_rate} == {0.03}
    large = expand(find.load(name), "paper", seeds=1)
    assert not [p for p in large if p.arm.endswith(" by rate")]


VIEWS = {"convnet": 75e6, "small_alexnet": 36e6}
"""As many as a study can train on in two hours of two idle cores (docs/decisions/0023: a step of 320 views takes 0.11 s
of one with an eighth of the AlexNet), with a seventh of it for measuring."""


@pytest.mark.parametrize("name", [n for n in find.names() if n.startswith(("dystress", "cacr"))])
def test_a_study_on_two_cores_has_no_more_views_than_two_hours_allow(name):
    study = find.load(name)
    for scale in ("cpu", *(s for s in study.scales if s == "imbalanced")):
        configs = {p.config.key: p.config for p in expand(study, scale, "cifar10")}.values()
        (network,) = {c.encoder.name for c in configs}
        assert sum(c.steps * c.batch * (c.views or 2) for c in configs) <= VIEWS[network]
        seeds = {p.seed for p in expand(study, scale, "cifar10")}
        assert len(seeds) >= 3


def test_a_long_tail_sees_five_periods_of_the_schedule():
    points = [p for p in expand(find.load("dystress-long-tail"), "cpu", seeds=1) if p.arm == "schedule over epochs"]
    (config,) = [p.config for p in points]
    per_epoch = 12_406 // config.batch  # CIFAR-10-LT, a hundredth as many of the last class as of the first
    assert 5 <= config.steps / per_epoch / config.loss["temperature"]["period"] < 6


def test_objectives_are_compared_at_the_same_batch_where_it_is_varied():
    by_batch = [p.config for p in expand(find.load("cacr-batch"), "cpu", seeds=1)]
    assert {(c.loss["name"], c.views, c.batch) for c in by_batch} == {
        (loss, views, batch)
        for loss, views in (
            ("NTXentLoss", 2),
            ("AlignUniformLoss", 2),
            ("HardNegativeLoss", 2),
            ("CACRLoss", 2),
            ("CMCLoss", 5),
            ("CACRLoss", 5),
        )
        for batch in (32, 128)
    }
    by_k = [p.config for p in expand(find.load("cacr-parameters"), "cpu", seeds=1) if p.arm == "by K"]
    assert [(c.views, c.batch) for c in by_k] == [(2, 64), (3, 64), (5, 64), (9, 64)]
