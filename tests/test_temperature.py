"""Temperature profiles have the values and slopes their paper gives them."""

import math

import numpy as np
import pytest
import torch

import oracles
from isotherm import temperature as T

S = torch.linspace(-1, 1, 41, dtype=torch.float64)
PROFILES = [
    T.Constant(0.3),
    T.Cosine(0.07, 0.2),
    T.Linear(0.07, 0.2),
    T.Exponential(0.07, 0.2),
    T.Exponential(0.07, 0.2, rate=1.5),
    T.Monotone(0.07, 0.2),
    T.LeftHalf(0.07, 0.2),
    T.Shifted(0.07, 0.2, -0.4, 0.7),
    T.Shifted(0.07, 0.2, 0.4, 0.7),
    T.Shifted(0.07, 0.2, 0.0, 1.0),
    T.LeftHalf(0.07, 0.1),
]


@pytest.mark.parametrize("profile", PROFILES, ids=repr)
def test_profile_equals_its_algorithm(profile):
    expected = [profile.value if isinstance(profile, T.Constant) else oracles.tau(profile, s) for s in S.tolist()]
    np.testing.assert_allclose(profile(S).numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("profile", PROFILES, ids=repr)
def test_profile_never_falls_below_its_lowest(profile):
    assert profile(S).min() >= profile.lowest - 1e-12


@pytest.mark.parametrize("ends", [(0.07, 0.2), (0.05, 1.0), (0.2, 0.2)])
@pytest.mark.parametrize(("dtype", "apart"), [(torch.float32, 3e-7), (torch.float64, 1e-15)])
def test_the_cosine_of_a_tile_is_as_exact_as_its_precision(ends, dtype, apart):
    profile = T.Cosine(*ends)
    s = torch.linspace(-1.000001, 1.000001, 100_001, dtype=dtype)
    tau = profile.write(s, torch.empty_like(s), torch.empty_like(s))
    assert tau.dtype == dtype
    assert (tau.double() - profile(s.double())).abs().max() < apart * (ends[1] - ends[0]) / 2 + apart * ends[1] / 2


def test_landmarks_of_the_profiles():
    at = lambda profile, s: profile(torch.tensor(s, dtype=torch.float64)).item()  # noqa: E731
    for end in (-1.0, 1.0):
        assert at(T.Cosine(0.07, 0.2), end) == pytest.approx(0.2)
        assert at(T.Linear(0.07, 0.2), end) == pytest.approx(0.2)
    for profile in (T.Cosine(0.07, 0.2), T.Linear(0.07, 0.2), T.Exponential(0.07, 0.2)):
        assert at(profile, 0.0) == pytest.approx(0.07)
    assert at(T.Monotone(0.07, 0.2), -1.0) == pytest.approx(0.07)
    assert at(T.Monotone(0.07, 0.2), 1.0) == pytest.approx(0.2)
    assert [at(T.LeftHalf(0.07, 0.2), s) for s in (-1.0, -0.5, 0.0, 0.5, 1.0)] == pytest.approx(
        [0.2, 0.07, 0.2, 0.2, 0.2]
    )
    best = T.Shifted(0.1, 0.2, -0.4, 0.7)
    assert S[best(S).argmin()].item() == pytest.approx(-0.3)
    assert torch.allclose(best(S[S > 0.4]), torch.tensor(0.2, dtype=torch.float64))
    assert at(best, -1.0) == pytest.approx(0.2)


@pytest.mark.parametrize("profile", [T.Cosine(0.07, 0.2), T.Linear(0.07, 0.2), T.Exponential(0.07, 0.2)], ids=repr)
def test_slopes_have_the_signs_of_proposition_1(profile):
    s = S.clone().requires_grad_()
    (slope,) = torch.autograd.grad(profile(s).sum(), s)
    inner = (S.abs() > 1e-9) & (S.abs() < 1 - 1e-9)
    assert (slope[inner & (S > 0)] > 0).all()
    assert (slope[inner & (S < 0)] < 0).all()


def test_ode_solution_meets_the_ends_and_solves_the_equation():
    tau_max, delta, k = 0.5, 0.01, 40.0
    one = torch.tensor(1.0, dtype=torch.float64)
    assert T.ode_solution(one, tau_max, delta, k, blend=1.0).item() == pytest.approx(tau_max)
    assert T.ode_solution(-one, tau_max, delta, k, blend=0.0).item() == pytest.approx(tau_max)
    # eq. 13: τ' = (τ/s)(1 − τ δ K e^{−s/τ})
    s = torch.linspace(0.2, 0.9, 8, dtype=torch.float64, requires_grad=True)
    tau = T.ode_solution(s, tau_max, delta, k, blend=0.9)
    (slope,) = torch.autograd.grad(tau.sum(), s)
    torch.testing.assert_close(slope, tau / s * (1 - tau * delta * k * torch.exp(-s / tau)))


def test_schedule_swings_between_its_ends():
    schedule = T.CosineSchedule(0.1, 1.0, 400)
    assert [schedule.at(e) for e in (0, 200, 400)] == pytest.approx([1.0, 0.1, 1.0])
    assert schedule.at(100) == pytest.approx(0.55)


@pytest.mark.parametrize(("tau_min", "tau_max"), [(0.07, 0.1), (0.1, 0.2)])
def test_left_half_is_lowest_in_the_middle_of_the_left_half_and_constant_in_the_right(tau_min, tau_max):
    profile = T.LeftHalf(tau_min, tau_max)
    values = profile(S)
    assert S[values.argmin()].item() == pytest.approx(-0.5)
    assert values.min().item() == pytest.approx(tau_min)
    torch.testing.assert_close(values[S >= 0], torch.full_like(values[S >= 0], tau_max))
    assert values[0].item() == pytest.approx(tau_max)
    torch.testing.assert_close(values[S <= 0], T.Shifted(tau_min, tau_max, 0.0, 0.5)(S[S <= 0]))  # Alg. 2's own side


def test_schedules_turn_where_the_paper_says():
    linear, step = T.LinearSchedule(), T.StepSchedule()  # 0.1, 1.0, T = 400
    assert [linear.at(e) for e in (0, 100, 200, 300, 400, 500)] == pytest.approx([1.0, 0.55, 0.1, 0.55, 1.0, 0.55])
    assert [step.at(e) for e in (0, 199, 200, 399, 400)] == pytest.approx([0.1, 0.1, 1.0, 1.0, 0.1])
    for epoch in range(0, 401, 40):  # the cosine as the authors' code has it: half periods, t_max = 200
        code = 0.1 + 0.5 * (1.0 - 0.1) * (1 + math.cos(math.pi * epoch / 200))
        assert T.CosineSchedule().at(epoch) == pytest.approx(code)


def test_random_schedule_is_uniform_and_the_same_for_the_same_seed_and_epoch():
    draws = np.array([T.RandomSchedule(0.1, 1.0, seed=3).at(e) for e in range(2000)])
    assert draws.min() >= 0.1
    assert draws.max() <= 1.0
    np.testing.assert_allclose(np.quantile(draws, [0.25, 0.5, 0.75]), [0.325, 0.55, 0.775], atol=0.03)
    assert T.RandomSchedule(seed=3).at(7) == draws[7] == T.RandomSchedule(seed=3).at(7.9)
    assert T.RandomSchedule(seed=4).at(7) != draws[7]


@pytest.mark.parametrize("kind", [T.CosineSchedule, T.LinearSchedule, T.StepSchedule])
def test_a_schedule_without_a_period_is_refused(kind):
    with pytest.raises(ValueError, match="period must be a positive number, got 0"):
        kind(period=0)
    with pytest.raises(ValueError, match="tau_min must not exceed tau_max"):
        kind(1.0, 0.1)


def test_a_constant_entropy_of_penalties_grows_with_temperature():
    """Wang & Liu, supplement: H(r) strictly increases with τ."""
    s = torch.randn(50, generator=torch.Generator().manual_seed(0), dtype=torch.float64).clamp(-1, 1)
    entropies = []
    for tau in (0.01, 0.05, 0.1, 0.3, 1.0, 10.0):
        r = torch.softmax(T.scaled(tau)(s), 0)
        entropies.append(-(r * torch.log(r)).sum().item())
    assert entropies == sorted(entropies)
    assert entropies[-1] < math.log(50)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: T.Constant(0), "positive"),
        (lambda: T.Constant(-1), "positive"),
        (lambda: T.Constant(float("nan")), "finite"),
        (lambda: T.Cosine(0.3, 0.2), "must not exceed"),
        (lambda: T.Exponential(0.1, 0.2, rate=0), "rate"),
        (lambda: T.Shifted(0.1, 0.2, 0.1, 0.0), "scale"),
        (lambda: T.Learnable(200.0), "learnable temperature starts"),
        (lambda: T.CosineSchedule(0.1, 1.0, 0), "period"),
        (lambda: T.scaled(torch.ones(2)), "one number"),
        (lambda: T.scaled(torch.tensor(-0.1)), "positive"),
        (lambda: T.scaled(lambda s: s), "positive and finite"),
        (lambda: T.scaled(lambda s: s.sum()[None, None]), "shape"),
    ],
)
def test_impossible_temperatures_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_a_class_is_not_a_temperature():
    with pytest.raises(TypeError, match="got the class Cosine"):
        T.scaled(T.Cosine)


def test_a_function_that_hides_its_parameters_is_refused():
    weight = torch.tensor(0.2, requires_grad=True)
    with pytest.raises(TypeError, match=r"nn\.Module"):
        T.scaled(lambda s: weight + s * 0)
