"""Bad input gets one clear sentence and nothing else."""

import numpy as np
import pytest
import torch

from found import LOSSES, NEGATIVE_FREE, make, views
from isotherm import nn
from isotherm.pairing import banked, in_batch, labelled

CONTRASTIVE = sorted(set(LOSSES) - {"SupConLoss"})
OF_STATISTICS = {name for name in NEGATIVE_FREE if not LOSSES[name].needs_predictor}
"""Of the features of a batch, whatever direction an embedding has."""
GOOD = views(2, dtype=torch.float32)


def bad(value):
    z = GOOD[1].clone()
    z[2, 1] = value
    return z


@pytest.mark.parametrize("name", CONTRASTIVE)
@pytest.mark.parametrize(
    ("views", "error", "words"),
    [
        ([GOOD[0]], ValueError, "at least 2 views"),
        ([GOOD[0], GOOD[1][:5]], ValueError, r"view 0 is \(7, 5\), view 1 is \(5, 5\)"),
        ([GOOD[0], GOOD[1][:, :3]], ValueError, "one shape"),
        ([GOOD[0][0], GOOD[1][0]], ValueError, r"shape \(N, D\)"),
        ([GOOD[0][None], GOOD[1][None]], ValueError, r"shape \(N, D\)"),
        (
            [GOOD[0], bad(float("nan"))],
            ValueError,
            "view 1 holds NaN or infinite numbers: 1 of 7 rows, the first is row 2",
        ),
        ([GOOD[0], bad(float("inf"))], ValueError, "NaN or infinite"),
        ([GOOD[0].long(), GOOD[1].long()], TypeError, "floating-point"),
        ([GOOD[0].tolist(), GOOD[1]], TypeError, "tensor"),
    ],
)
def test_bad_views(name, views, error, words):
    with pytest.raises(error, match=words):
        make(name)(*views)


@pytest.mark.parametrize("name", sorted(set(CONTRASTIVE) - OF_STATISTICS))
def test_zero_vectors_have_no_direction(name):
    z = GOOD[1].clone()
    z[3] = 0
    with pytest.raises(
        ValueError, match="view 1 holds zero vectors, which have no direction: 1 of 7 rows, the first is row 3"
    ):
        make(name)(GOOD[0], z)


@pytest.mark.parametrize("name", sorted(set(CONTRASTIVE) - NEGATIVE_FREE - {"GeneralizedContrastiveLoss"}))
def test_one_item_has_no_negative(name):
    with pytest.raises(ValueError, match="needs at least 2 items to have a negative, got 1"):
        make(name)(GOOD[0][:1], GOOD[1][:1])


@pytest.mark.parametrize("name", sorted(OF_STATISTICS))
def test_one_item_has_no_statistics(name):
    with pytest.raises(ValueError, match="at least 2 items are needed, got 1"):
        make(name)(GOOD[0][:1], GOOD[1][:1])


@pytest.mark.parametrize("name", sorted(set(CONTRASTIVE) - NEGATIVE_FREE - {"GeneralizedContrastiveLoss"}))
@pytest.mark.parametrize(
    ("negatives", "error", "words"),
    [
        (torch.randn(4, 6), ValueError, "negatives has width 6, the queries have 5"),
        (torch.randn(4, 5, dtype=torch.float64), ValueError, "convert one of them"),
        (torch.randn(0, 5), ValueError, "holds no rows"),
        (torch.randn(5), ValueError, r"shape \(N, D\)"),
        (torch.full((4, 5), float("nan")), ValueError, "negatives holds NaN"),
        (torch.zeros(4, 5), ValueError, "negatives holds zero vectors"),
        (torch.ones(4, 5, dtype=torch.long), TypeError, "floating-point"),
        (torch.randn(4, 5, device="meta"), ValueError, "on meta"),
    ],
)
def test_bad_negatives(name, negatives, error, words):
    with pytest.raises(error, match=words):
        make(name)(*GOOD, negatives=negatives)


@pytest.mark.parametrize("name", sorted(NEGATIVE_FREE | {"GeneralizedContrastiveLoss"}))
def test_losses_without_negatives_say_so(name):
    with pytest.raises(ValueError, match="takes no negatives"):
        make(name)(*GOOD, negatives=GOOD[0])


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_unknown_settings_get_a_suggestion(name):
    with pytest.raises(TypeError, match=f"{name} has no setting 'reducton'; did you mean 'reduction'"):
        LOSSES[name](reducton="mean")
    with pytest.raises(ValueError, match="reduction must be one of mean, sum, none; got 'total'"):
        LOSSES[name](reduction="total")


@pytest.mark.parametrize(
    ("make_loss", "error", "words"),
    [
        (
            lambda: nn.NTXentLoss(temprature=0.1),
            TypeError,
            "NTXentLoss has no setting 'temprature'; did you mean 'temperature'",
        ),
        (lambda: nn.NTXentLoss(temperature=0), ValueError, "temperature must be a positive number, got 0"),
        (lambda: nn.NTXentLoss(temperature=-0.1), ValueError, "positive"),
        (lambda: nn.NTXentLoss(temperature=float("inf")), ValueError, "positive"),
        (lambda: nn.NTXentLoss(temperature="0.1"), TypeError, "must be a number, got str"),
        (lambda: nn.NTXentLoss(temperature=True), TypeError, "must be a number"),
        (lambda: nn.NTXentLoss(temperature=float("nan")), ValueError, "temperature must be a finite number"),
        (lambda: nn.DCLWLoss(sigma=0), ValueError, "sigma must be a positive number, got 0"),
        (lambda: nn.AlignUniformLoss(t=-1), ValueError, "t must be a positive number, got -1"),
        (lambda: nn.MACLLoss(alpha=-1), ValueError, "alpha must be a positive number"),
        (lambda: nn.SimpleContrastiveLoss(weight="x"), TypeError, "weight must be a number, got str"),
        (lambda: nn.CACRLoss(margin=float("nan")), ValueError, "margin must be a finite number"),
        (lambda: nn.DySTreSSLoss(shift=float("nan")), ValueError, "shift must be a finite number"),
        (lambda: nn.HardContrastiveLoss(alpha=None), TypeError, "alpha must be a number"),
        (lambda: nn.DySTreSSLoss(tau_min=0.3, tau_max=0.2), ValueError, "must not exceed"),
        (lambda: nn.DySTreSSLoss(profile="cosin"), ValueError, "did you mean 'cosine'"),
        (lambda: nn.DySTreSSLoss(profile="linear", shift=0.1), ValueError, "cosine profile only"),
        (lambda: nn.DySTreSSLoss(scale=0.7), ValueError, "needs a shift"),
        (lambda: nn.HardContrastiveLoss(alpha=0), ValueError, r"in \(0, 1\]; got 0"),
        (lambda: nn.HardSimpleLoss(alpha=1.5), ValueError, r"in \(0, 1\]"),
        (lambda: nn.HardSimpleLoss(top_k=0), ValueError, "1 or more"),
        (lambda: nn.HardSimpleLoss(top_k=2.5), ValueError, "1 or more"),
        (lambda: nn.HardNegativeLoss(beta=-1), ValueError, "beta must be 0 or more"),
        (lambda: nn.HardNegativeLoss(tau_plus=1.0), ValueError, "below 1"),
        (lambda: nn.CACRLoss(cost="rfb"), ValueError, "did you mean 'rbf'"),
        (lambda: nn.CACRLoss(t_neg=float("nan")), ValueError, "finite"),
        (lambda: nn.CACRLoss(cost="rbf", margin=0.1), ValueError, "margin"),
        (lambda: nn.CACRLoss(cost="rbf", reduction="none"), ValueError, "no value per query"),
        (lambda: nn.AlignUniformLoss(reduction="none"), ValueError, "no value per query"),
        (lambda: nn.AlignUniformLoss(alpha=0), ValueError, "positive"),
        (lambda: nn.GeneralizedContrastiveLoss(distribution="lse", prior="normal"), ValueError, "needs distribution"),
        (lambda: nn.GeneralizedContrastiveLoss(prior="sphere"), ValueError, "did you mean 'hypersphere'"),
        (lambda: nn.WMSELoss(size=1), ValueError, "size must be 2 or more, got 1"),
        (lambda: nn.WMSELoss(size=2.5), TypeError, "size must be a whole number, got 2.5"),
        (lambda: nn.WMSELoss(iterations=0), ValueError, "iterations must be 1 or more, got 0"),
        (lambda: nn.WMSELoss(eps=1), ValueError, "part of the identity in the covariance, below 1; got 1"),
        (lambda: nn.WMSELoss(eps=-0.1), ValueError, "eps must be 0 or more"),
        (lambda: nn.WMSELoss(reduction="none"), ValueError, "no value per query .whitening belongs to the batch"),
        (lambda: nn.ZeroCLLoss(eps=0), ValueError, "eps must be a positive number, got 0"),
        (lambda: nn.ZeroICLLoss(reduction="none"), ValueError, "no value per query"),
        (lambda: nn.ARBLoss(eps=0), ValueError, "eps must be a positive number, got 0"),
        (lambda: nn.ARBLoss(reduction="none"), ValueError, "no value per query .a basis belongs to the batch"),
        (lambda: nn.SigLIPLoss(temperature=0), ValueError, "temperature must be a positive number"),
        (lambda: nn.SigLIPLoss(bias="x"), TypeError, "bias must be a number, got str"),
        (
            lambda: nn.SigLIPLoss(temperature=1e-5),
            ValueError,
            r"learnable temperature starts between 0.0001 and 10000.0, got 1e-05",
        ),
    ],
)
def test_bad_settings(make_loss, error, words):
    with pytest.raises(error, match=words):
        make_loss()


def test_top_k_beyond_the_negatives():
    with pytest.raises(ValueError, match="top_k=13 asks for more than the 12 negatives each query has"):
        nn.HardContrastiveLoss(top_k=13)(*GOOD)


@pytest.mark.parametrize(
    ("loss", "n", "words"),
    [
        (
            nn.WMSELoss(),
            5,
            "whitens 5 items at a time, which takes embeddings of fewer numbers than that; got 5. Use a ",
        ),
        (nn.WMSELoss(), 4, "whitens 4 items at a time"),
        (
            nn.WMSELoss(size=3),
            7,
            "whitens 3 items at a time, .*; got 5. Use a larger batch or size, or a narrower head",
        ),
    ],
)
def test_whitening_needs_more_items_than_numbers(loss, n, words):
    with pytest.raises(ValueError, match=words):
        loss(GOOD[0][:n], GOOD[1][:n])


def test_macl_keeps_its_temperature_positive():
    with pytest.raises(ValueError, match=r"must stay positive\. Use a smaller alpha"):
        nn.MACLLoss(alpha=50.0, threshold=0.99)(*GOOD)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (torch.arange(6), r"shape \(7,\); got \(6,\)"),
        (torch.tensor([0, 0, 1, 1, 2, 2, 3]), r"these have 1: \[3\]"),
        (torch.arange(7), "…"),
    ],
)
def test_bad_labels(labels, words):
    with pytest.raises(ValueError, match=words):
        nn.SupConLoss()(GOOD[0], labels)


def test_bad_bank_index():
    q, bank = views(1, n=3)[0], views(1, n=8, seed=1)[0]
    with pytest.raises(ValueError, match="the bank has 8 entries"):
        banked(q, torch.tensor([0, 1, 8]), bank)
    with pytest.raises(ValueError, match="one bank entry per query"):
        banked(q, torch.tensor([0, 1]), bank)
    with pytest.raises(ValueError, match="which has 8"):
        banked(q, torch.tensor([0, 1, 2]), bank, among=torch.tensor([9]))
    with pytest.raises(ValueError, match="at least 2 entries"):
        banked(q[:1], torch.tensor([0]), bank[:1])
    with pytest.raises(ValueError, match="own entry"):
        banked(q, torch.tensor([0, 1, 2]), bank, among=torch.tensor([2, 5]))


def test_views_of_mixed_precision_meet_in_the_highest():
    loss = make("NTXentLoss")
    assert loss(GOOD[0].half(), GOOD[1].bfloat16()).dtype == torch.float32
    assert loss(GOOD[0], GOOD[1].double()).dtype == torch.float64
    assert loss(GOOD[0].double(), GOOD[1]).dtype == torch.float64


@pytest.mark.parametrize("name", CONTRASTIVE)
def test_nothing_is_no_batch(name):
    for z in (GOOD[0][:0], GOOD[0][:, :0]):
        with pytest.raises(ValueError, match="views hold no numbers"):
            make(name)(z, z)


def test_labelled_pairs_are_for_losses_that_take_labels():
    blocks = labelled(GOOD[0], torch.tensor([0, 0, 1, 1, 2, 2, 2]))
    with pytest.raises(ValueError, match="NTXentLoss cannot use labelled pairs"):
        nn.NTXentLoss().of(blocks)
    with pytest.raises(ValueError, match="SupConLoss needs labelled pairs"):
        nn.SupConLoss().of(in_batch(GOOD))


def test_targets_that_are_not_tensors_are_refused():
    with pytest.raises(TypeError, match="view 2 must be a tensor"):
        nn.BYOLLoss()(*GOOD, None)


def test_numbers_of_numpy_are_numbers():
    loss = nn.HardContrastiveLoss(temperature=np.float32(0.2), top_k=np.int64(2))
    assert loss(*GOOD) == nn.HardContrastiveLoss(temperature=float(np.float32(0.2)), top_k=2)(*GOOD)


@pytest.mark.parametrize("settings", [{"invariance": -1}, {"variance": -0.1}, {"covariance": float("nan")}])
def test_a_weight_that_would_turn_a_term_round_is_refused(settings):
    with pytest.raises(ValueError, match="must be"):
        nn.VICRegLoss(**settings)


def test_labels_are_sent_to_the_loss_that_takes_them():
    z, y = torch.randn(4, 8), torch.tensor([0, 0, 1, 1])
    with pytest.raises(TypeError, match=r"NTXentLoss takes no labels: .* SupConLoss\(\)\(z0, z1, labels=y\)"):
        nn.NTXentLoss()(z, z, labels=y)
    with pytest.raises(ValueError, match="Labels go to SupConLoss"):
        nn.NTXentLoss()(z, y)
    with pytest.raises(
        TypeError, match="InfoNCELoss is called with views, negatives= and weights=; there is no wieghts="
    ):
        nn.InfoNCELoss()(z, z, wieghts=y)
    with pytest.raises(ValueError, match=r"loss\(\*z.chunk\(2\)\)"):
        nn.NTXentLoss()(z)


def test_a_loss_of_labels_says_why_it_takes_no_negatives():
    z, y = torch.randn(4, 8), torch.tensor([0, 0, 1, 1])
    with pytest.raises(TypeError, match=r"labels= and weights=; there is no negatives=: it takes .* from labels"):
        nn.SupConLoss()(z, z, labels=y, negatives=z)
    with pytest.raises(TypeError, match="SupConLoss is called with views, labels= and weights=; there is no lables="):
        nn.SupConLoss()(z, z, lables=y)


def test_a_loss_that_is_not_there_is_answered_with_the_nearest():
    with pytest.raises(AttributeError, match=r"'isotherm.nn' has no attribute 'NTXent'; did you mean 'NTXentLoss'"):
        nn.NTXent  # noqa: B018
    assert not hasattr(nn, "SimCLR")
