"""The monitor of one's own loop: its numbers are the measures, it warns of a collapse, and disturbs nothing."""

import warnings

import numpy as np
import pytest
import torch

import isotherm
from isotherm import measures
from isotherm.measures.reach import HIGH, LOW, Queries


def pairs(n=300, d=32, noise=0.3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(n, d, generator=generator)
    return z, z + noise * torch.randn(n, d, generator=generator)


def test_its_numbers_are_the_measures():
    a, b = pairs()
    status = isotherm.Monitor()(a, b)
    for name in ("uniformity", "effective_rank", "rankme", "alpha_req"):
        assert status[name] == getattr(measures, name)(a), name
    assert status["alignment"] == measures.alignment(a, b)
    assert status["lidar"] == measures.lidar(a, b)
    u = torch.nn.functional.normalize(a.double(), dim=1)
    off = ~torch.eye(len(a), dtype=torch.bool)
    assert status["mean_similarity"] == pytest.approx(float((u @ u.T)[off].mean()), abs=1e-9)
    queries = Queries(a)
    for reach, tau in zip((LOW, HIGH), status.temperature, strict=True):
        assert queries.reach(tau) == pytest.approx(reach, rel=0.02)
    assert (status["tau_low"], status["tau_high"]) == status.temperature
    assert status.warning == ""
    assert "step 0: uniformity −3.7" in repr(status)


def test_a_sample_is_the_same_items_of_every_view_and_no_random_number_is_used():
    a, _ = pairs(2000)
    torch.manual_seed(3)
    before = torch.get_rng_state()
    status = isotherm.Monitor(sample=100)(a, a)
    assert torch.equal(torch.get_rng_state(), before)
    assert status["alignment"] == 0
    assert isotherm.Monitor(sample=100)(a, a) == status
    assert status["uniformity"] == pytest.approx(measures.uniformity(a), abs=0.1)
    assert isotherm.Monitor(sample=100)(a.numpy().astype(np.float16)) is not None


def test_it_looks_every_so_often():
    monitor = isotherm.Monitor(every=3)
    looks = [monitor(*pairs(30)) for _ in range(7)]
    assert [look is not None for look in looks] == [True, False, False, True, False, False, True]
    assert [status.step for status in monitor.history] == [0, 3, 6]
    assert "srcdoc" in monitor._repr_html_()


@pytest.mark.parametrize(
    ("break_it", "words"),
    [
        (lambda z: z * 1e-3 + torch.ones(32), "nearly collapsed: uniformity"),
        (lambda z: z[:, :1] * torch.randn(1, 32, generator=torch.Generator().manual_seed(1)) + 1e-4 * z, "collapsed"),
        (lambda z: z + 1.2, "in a cone: mean similarity"),
        (lambda z: z * torch.tensor(float("nan")), "it has diverged"),
    ],
    ids=["point", "line", "cone", "nan"],
)
def test_a_collapse_is_told_in_every_status_and_warned_of_once(break_it, words):
    monitor = isotherm.Monitor(grace=2)
    bad = break_it(pairs()[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert words in monitor(bad).warning  # a fresh network looks like that
        assert monitor(pairs()[0]).warning == ""
    with pytest.warns(RuntimeWarning, match=f"step 2: .*{words}"):
        monitor(bad)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert words in monitor(bad).warning
        monitor(pairs()[0])
    with pytest.warns(RuntimeWarning, match="step 5"):
        monitor(bad)
    isotherm.Monitor(grace=None)(bad)


def test_small_batches_have_few_numbers_and_no_error():
    monitor = isotherm.Monitor(grace=0)
    assert dict(monitor(torch.randn(1, 8))) == {}
    status = monitor(*pairs(3, 8))
    assert "alpha_req" not in status
    assert status.temperature is None
    with pytest.raises(ValueError, match=r"all of one shape; got \[\(3, 8\), \(4, 8\)\]"):
        monitor(torch.ones(3, 8), torch.ones(4, 8))
