"""What the papers say about how losses relate, and comparisons with code that is not ours."""

import math

import pytest
import torch

from found import LOSSES, views
from isotherm import nn
from isotherm import temperature as T
from isotherm.engine import LogSumExp, reduce
from isotherm.pairing import in_batch
from isotherm.temperature import scaled

Z = views(2, n=9)
CLOSE = {"rtol": 1e-10, "atol": 1e-12}


def gradients(loss, *z):
    z = [v.clone().requires_grad_() for v in z]
    loss(*z).backward()
    return [v.grad for v in z]


def rows(z0, z1):
    """Dense positives (2n,) and negatives (2n, 2n−2) for expressions written out here."""
    z = torch.nn.functional.normalize(torch.cat([z0, z1]), dim=1)
    n = len(z0)
    s = z @ z.T
    i = torch.arange(2 * n)
    return s[i, (i + n) % (2 * n)], s[(i[:, None] - i) % n != 0].reshape(2 * n, -1)


def test_small_temperature_is_the_triplet_limit():
    tau = 1e-4
    torch.testing.assert_close(tau * nn.NTXentLoss(tau)(*Z), nn.TripletLimitLoss()(*Z), rtol=0, atol=5 * tau)


def test_large_temperature_is_the_simple_loss():
    tau, m = 1e5, 2 * 9 - 2
    constant = math.log(1 + m)
    # eq. 7: log(1 + Σ e^{(s_k − s_p)/τ}) → log(1 + m) + (m/(1 + m)) · mean(s_k − s_p)/τ
    simple = (nn.NTXentLoss(tau)(*Z) - constant) * tau * (1 + m) / m
    torch.testing.assert_close(simple, nn.SimpleContrastiveLoss()(*Z), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("temperature", [0.1, 0.5])
def test_hard_losses_with_all_negatives_are_the_plain_ones(temperature):
    torch.testing.assert_close(nn.HardContrastiveLoss(temperature, alpha=1.0)(*Z), nn.NTXentLoss(temperature)(*Z))
    torch.testing.assert_close(nn.HardSimpleLoss(alpha=1.0)(*Z), nn.SimpleContrastiveLoss()(*Z))


def test_hard_simple_with_one_negative_is_the_triplet_before_its_hinge():
    value = nn.HardSimpleLoss(top_k=1, reduction="none")(*Z)
    torch.testing.assert_close(value.relu().mean(), nn.TripletLimitLoss()(*Z), **CLOSE)


def test_alpha_counts_negatives_without_rounding_surprises():
    z = views(2, n=16)  # 30 negatives; 0.1 · 30 is 3.0000000000000004 in floating point
    torch.testing.assert_close(
        nn.HardContrastiveLoss(alpha=0.1)(*z), nn.HardContrastiveLoss(top_k=3)(*z), rtol=0, atol=0
    )


def test_decoupled_at_weight_tau_is_tau_times_nt_xent():
    torch.testing.assert_close(nn.DecoupledNTXentLoss(0.3, 0.3)(*Z), 0.3 * nn.NTXentLoss(0.3)(*Z), **CLOSE)


@pytest.mark.parametrize("profile", ["cosine", "linear", "exponential", "monotone", "shifted", "left-half"])
def test_a_constant_profile_is_plain_nt_xent(profile):
    loss = nn.DySTreSSLoss(0.2, 0.2, profile=profile)
    torch.testing.assert_close(loss(*Z), nn.NTXentLoss(0.2)(*Z), **CLOSE)
    for a, b in zip(gradients(loss, *Z), gradients(nn.NTXentLoss(0.2), *Z), strict=True):
        torch.testing.assert_close(a, b, **CLOSE)


def test_hard_negative_without_beta_and_tau_plus_is_nt_xent():
    for z in (Z, views(3)):
        loss = nn.HardNegativeLoss(0.4, beta=0, tau_plus=0)
        torch.testing.assert_close(loss(*z), nn.NTXentLoss(0.4)(*z), **CLOSE)


def test_cacr_with_one_positive_has_no_attraction_weights():
    plain = nn.CACRLoss(attraction="uniform")(*Z)
    torch.testing.assert_close(nn.CACRLoss(t_pos=7.0)(*Z), plain, **CLOSE)
    assert not torch.isclose(nn.CACRLoss(t_pos=7.0)(*views(3)), nn.CACRLoss(attraction="uniform")(*views(3)))


def test_cacr_without_temperatures_is_uaur():
    z = views(4)
    torch.testing.assert_close(nn.CACRLoss(t_pos=0.0, t_neg=0.0)(*z), nn.UAURLoss()(*z), **CLOSE)


def test_cacr_at_large_t_neg_repels_the_nearest_only():
    value = nn.CACRLoss(t_neg=1e5, reduction="none")(*Z)
    z = [torch.nn.functional.normalize(v, dim=1) for v in Z]
    nearest = torch.cat([(v @ v.T).fill_diagonal_(-2).amax(1) for v in z])
    positive = (z[0] * z[1]).sum(1).repeat(2)
    torch.testing.assert_close(value, (2 - 2 * positive) - (2 - 2 * nearest))


def test_uaur_is_twice_the_simple_loss_of_one_view():
    value = nn.UAURLoss(reduction="none")(*Z)[:9]
    z0, z1 = (torch.nn.functional.normalize(v, dim=1) for v in Z)
    s = z0 @ z0.T
    mean = (s.sum(1) - 1) / 8
    torch.testing.assert_close(value, 2 * (mean - (z0 * z1).sum(1)), **CLOSE)


def test_detaching_weights_changes_gradients_not_values():
    free, fixed = nn.CACRLoss(), nn.CACRLoss(detach_weights=True)
    z = views(3)
    torch.testing.assert_close(free(*z), fixed(*z))
    assert not torch.allclose(gradients(free, *z)[0], gradients(fixed, *z)[0])


def test_cmc_is_the_mean_of_infonce_over_pairs_of_views():
    z = views(4)
    pairs = [nn.InfoNCELoss(0.07)(z[a], z[b]) for a in range(4) for b in range(a)]
    torch.testing.assert_close(nn.CMCLoss()(*z), torch.stack(pairs).mean(), **CLOSE)


def test_all_equal_embeddings_have_the_documented_value():
    n, d = 5, 4
    ones = torch.ones(n, d, dtype=torch.float64)
    m = 2 * n - 2
    expected = {
        "NTXentLoss": math.log(1 + m),
        "DySTreSSLoss": math.log(1 + m),
        "HardContrastiveLoss": math.log(1 + m),
        "HardNegativeLoss": math.log(1 + m),
        "InfoNCELoss": math.log(n),
        "CMCLoss": math.log(n),
        "DCLLoss": math.log(m),
        "DCLWLoss": math.log(m),
        "MACLLoss": (1 + 1 / m) * math.log(1 + m),
        "DecoupledNTXentLoss": -1 + 0.1 * (1 + math.log(1 + m)),
        "VICRegLoss": 25 * (1 - 0.01),
        "BYOLLoss": 0.0,
        "SimSiamLoss": -1.0,
        "WMSELoss": 2.0,
        "ZeroICLLoss": n,
        "ZeroFCLLoss": d,
        "ZeroCLLoss": n + d,
        "ARBLoss": 2 * d,
    } | dict.fromkeys(
        ["SimpleContrastiveLoss", "HardSimpleLoss", "TripletLimitLoss", "CACRLoss", "UAURLoss", "AlignUniformLoss"], 0.0
    )
    for name, value in expected.items():
        assert LOSSES[name]()(ones, ones).item() == pytest.approx(value, abs=1e-12), name
    sigmoid = nn.SigLIPLoss(temperature=0.5, bias=1.0, learnable=False)  # x = 3
    expected = math.log1p(math.exp(-3)) + (n - 1) * math.log1p(math.exp(3))
    assert sigmoid(ones, ones).item() == pytest.approx(expected, rel=1e-12)


def test_uncorrelated_views_that_agree_have_the_documented_value():
    n, d = 9, 4
    basis = torch.linalg.qr(torch.randn(n, n, generator=torch.Generator().manual_seed(0), dtype=torch.float64)).Q
    centred = torch.cat([torch.ones(n, 1, dtype=torch.float64), basis[:, : n - 1]], 1)
    z = torch.linalg.qr(centred).Q[:, 1 : d + 1] * math.sqrt(n)  # features: mean 0, variance 1, no correlations
    assert nn.WMSELoss()(z, 3 * z + 1).item() == pytest.approx(0, abs=1e-12)
    assert nn.ZeroFCLLoss(eps=0.3)(z, z).item() == pytest.approx(d * (0.3 / 1.3) ** 2, rel=1e-4)
    assert nn.ARBLoss(eps=1e-9)(z, z).item() == pytest.approx(0, abs=1e-9)
    assert nn.ZeroICLLoss(eps=0.3)(z.T, z.T).item() == pytest.approx(d * (0.3 / 1.3) ** 2, rel=1e-4)
    many = nn.ZeroICLLoss(eps=1e-9)(z, z).item()
    assert many == pytest.approx((n - d + 1) ** 2 / n, rel=0.5)
    assert many >= (n - d + 1) ** 2 / n


def test_relative_penalties_are_the_closed_form_gradients():
    """Wang & Liu eq. 4: ∂L/∂s_ip = −(1/τ) Σ P_ik, ∂L/∂s_ij = P_ij/τ, read off the engine's own gradient."""
    tau = 0.3
    (pairs,) = in_batch([v.requires_grad_() for v in views(2, n=5, d=4)])
    energy = scaled(tau)
    (total,) = reduce(pairs, LogSumExp(energy))
    loss = torch.logaddexp(energy(pairs.positives[:, 0]), total)[0] - energy(pairs.positives[0, 0])
    by_positive, by_query = torch.autograd.grad(loss, (pairs.positives, pairs.queries), retain_graph=True)
    z = pairs.queries.detach()
    s = z[0] @ z.T
    p = torch.softmax(s[[5, 1, 2, 3, 4, 6, 7, 8, 9]] / tau, 0)
    torch.testing.assert_close(by_positive[0, 0], -p[1:].sum() / tau, **CLOSE)
    # gradients through the positives also reach the queries; take the negatives' part alone
    (through_negatives,) = torch.autograd.grad(total[0], pairs.queries, retain_graph=True)
    share = torch.softmax(s[[1, 2, 3, 4, 6, 7, 8, 9]] / tau, 0)
    torch.testing.assert_close(through_negatives[[1, 2, 3, 4, 6, 7, 8, 9]], share[:, None] * z[0] / tau, **CLOSE)
    assert by_query is not None


def test_stop_gradients_of_macl_and_dclw_are_where_the_papers_put_them():
    z = [v.clone().requires_grad_() for v in Z]
    p, n = rows(*z)
    tau = 0.1 * (1 + 0.5 * p.detach().mean())
    log_p = p / tau - torch.logaddexp(p / tau, (n / tau).logsumexp(1))
    ((-log_p) / (1 - log_p.exp()).detach()).mean().backward()
    for a, b in zip(gradients(nn.MACLLoss(), *Z), z, strict=True):
        torch.testing.assert_close(a, b.grad, **CLOSE)

    z = [v.clone().requires_grad_() for v in Z]
    p, n = rows(*z)
    weight = (2 - torch.exp(p / 0.5) / torch.exp(p / 0.5).mean()).detach()
    (-weight * p / 0.1 + (n / 0.1).logsumexp(1)).mean().backward()
    for a, b in zip(gradients(nn.DCLWLoss(), *Z), z, strict=True):
        torch.testing.assert_close(a, b.grad, **CLOSE)


@pytest.mark.parametrize("detach", [True, False])
@pytest.mark.parametrize("profile", ["cosine", "linear", "exponential", "monotone", "left-half"])
def test_dystress_gradient_with_and_without_detaching_tau(profile, detach):
    temperature = getattr(T, {"left-half": "LeftHalf"}.get(profile, profile.title()))(0.07, 0.2)
    z = [v.clone().requires_grad_() for v in Z]
    p, n = rows(*z)
    ep = p / (temperature(p).detach() if detach else temperature(p))
    en = n / (temperature(n).detach() if detach else temperature(n))
    (torch.logaddexp(ep, en.logsumexp(1)) - ep).mean().backward()
    for a, b in zip(gradients(nn.DySTreSSLoss(profile=profile, detach=detach), *Z), z, strict=True):
        torch.testing.assert_close(a, b.grad, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("loss", [nn.BYOLLoss(), nn.SimSiamLoss()])
def test_targets_get_no_gradient(loss):
    z = [v.clone().requires_grad_() for v in Z]
    value = loss(*z)
    value.backward()
    assert z[1].grad is None
    other = Z[0].clone().requires_grad_()
    cosine = torch.nn.functional.cosine_similarity(other, Z[1]).mean()
    expected = 2 - 2 * cosine if isinstance(loss, nn.BYOLLoss) else -cosine
    expected.backward()
    torch.testing.assert_close(value, expected, **CLOSE)
    torch.testing.assert_close(z[0].grad, other.grad, **CLOSE)


# --- code that is not ours ----------------------------------------------------------------------


def test_nt_xent_agrees_with_pytorch_cross_entropy():
    z = [v.clone().requires_grad_() for v in Z]
    p, n = rows(*z)
    logits = torch.cat([p[:, None], n], 1) / 0.2
    expected = torch.nn.functional.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long))
    expected.backward()
    torch.testing.assert_close(nn.NTXentLoss(0.2)(*Z), expected.detach(), **CLOSE)
    for a, b in zip(gradients(nn.NTXentLoss(0.2), *Z), z, strict=True):
        torch.testing.assert_close(a, b.grad, **CLOSE)


def test_nt_xent_and_supcon_agree_with_pytorch_metric_learning():
    pml = pytest.importorskip("pytorch_metric_learning.losses")
    z = torch.cat(Z)
    items = torch.arange(9).repeat(2)
    torch.testing.assert_close(nn.NTXentLoss(0.2)(*Z), pml.NTXentLoss(0.2)(z, items))
    classes = items % 4
    torch.testing.assert_close(nn.SupConLoss(0.1)(z, classes), pml.SupConLoss(0.1)(z, classes))


def test_supcon_with_one_item_a_class_is_nt_xent():
    torch.testing.assert_close(nn.SupConLoss(0.2)(torch.cat(Z), torch.arange(9).repeat(2)), nn.NTXentLoss(0.2)(*Z))


def test_swd_of_the_prior_itself_vanishes_and_of_a_collapsed_batch_does_not():
    generator = torch.Generator().manual_seed(0)
    big = torch.randn(20_000, 8, generator=generator)
    loss = nn.GeneralizedContrastiveLoss(prior="normal", weight=1.0)
    assert loss(big, big).item() < 2e-3
    assert loss(torch.zeros_like(big), torch.zeros_like(big)).item() == pytest.approx(1.0, abs=0.02)


def test_sliced_wasserstein_agrees_with_scipy_in_one_dimension():
    stats = pytest.importorskip("scipy.stats")
    generator = torch.Generator().manual_seed(7)
    z = torch.randn(50, 1, generator=generator, dtype=torch.float64)
    loss = nn.GeneralizedContrastiveLoss(prior="normal", weight=1.0, generator=torch.Generator().manual_seed(1))
    value = loss(z, z).item()
    again = torch.Generator().manual_seed(1)
    sign = torch.linalg.qr(torch.randn(1, 1, generator=again, dtype=torch.float64)).Q.item()
    prior = torch.randn(100, 1, generator=again, dtype=torch.float64)
    both = torch.cat([z, z])[:, 0] * sign
    # squared 2-Wasserstein distance of equal-sized samples, through scipy's quantile pairing
    ours, theirs = stats.rankdata(both, method="ordinal"), stats.rankdata(prior[:, 0] * sign, method="ordinal")
    paired = sum(
        (x - y) ** 2
        for x, y in zip(
            [v for _, v in sorted(zip(ours, both.tolist(), strict=True))],
            [v for _, v in sorted(zip(theirs, (prior[:, 0] * sign).tolist(), strict=True))],
            strict=True,
        )
    )
    assert value == pytest.approx(paired / 100, rel=1e-12)
