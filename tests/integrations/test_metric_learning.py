"""Our losses called as pytorch-metric-learning's, against the real ones."""

import pytest
import torch

from isotherm import nn
from isotherm.integrations.metric_learning import MetricLearningLoss
from peers import example, library

theirs = library("pytorch_metric_learning.losses")


def batch(n=7, count=2, d=6):
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(n, d, generator=generator, dtype=torch.float64).repeat(count, 1)
    z = z + 0.4 * torch.randn(z.shape, generator=generator, dtype=torch.float64)
    return z.requires_grad_(), torch.arange(n).repeat(count)


def value_and_gradient(loss, z, *more, **named):
    z = z.detach().clone().requires_grad_()
    value = loss(z, *more, **named)
    value.backward()
    return value.detach(), z.grad


def test_two_views_by_label_are_their_nt_xent():
    z, labels = batch()
    shuffled = torch.randperm(len(z), generator=torch.Generator().manual_seed(1))
    for order in (torch.arange(len(z)), shuffled):
        a = value_and_gradient(theirs.NTXentLoss(temperature=0.2), z[order], labels[order])
        b = value_and_gradient(MetricLearningLoss(nn.NTXentLoss(0.2)), z[order], labels[order])
        for x, y in zip(a, b, strict=True):
            torch.testing.assert_close(y, x, rtol=1e-8, atol=1e-10)


def test_supcon_is_theirs_for_any_labels():
    z, _ = batch()
    labels = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2, 2, 1, 0, 1, 2, 0])
    a = value_and_gradient(theirs.SupConLoss(temperature=0.1), z, labels)
    b = value_and_gradient(MetricLearningLoss(nn.SupConLoss(0.1)), z, labels)
    for x, y in zip(a, b, strict=True):
        torch.testing.assert_close(y, x, rtol=1e-7, atol=1e-9)


def test_a_second_view_may_come_as_ref_emb():
    z, labels = batch()
    loss = MetricLearningLoss(nn.NTXentLoss(0.2))
    torch.testing.assert_close(loss(z[:7], labels[:7], ref_emb=z[7:], ref_labels=labels[7:]), loss(z, labels))
    torch.testing.assert_close(loss(z[:7], labels[:7], ref_emb=z[7:]), loss(z, labels))


def test_a_value_belongs_to_the_row_that_asked():
    z, labels = batch()
    order = torch.randperm(len(z), generator=torch.Generator().manual_seed(1))
    z, labels = z[order], labels[order]
    s = torch.nn.functional.normalize(z, dim=1)
    s = (s @ s.T / 0.2).fill_diagonal_(-torch.inf)
    partner = ((labels[:, None] == labels) & ~torch.eye(len(z), dtype=torch.bool)).int().argmax(1)
    wanted = s.logsumexp(1) - s.gather(1, partner[:, None])[:, 0]
    torch.testing.assert_close(MetricLearningLoss(nn.NTXentLoss(0.2, reduction="none"))(z, labels), wanted)


def test_mistakes_get_one_sentence():
    z, labels = batch()
    with pytest.raises(ValueError, match="ref_emb is not taken: in SupConLoss"):  # theirs would let it answer only
        MetricLearningLoss(nn.SupConLoss())(z[:7], labels[:7], ref_emb=z[7:])
    with pytest.raises(ValueError, match="7 values for 14 rows"):
        MetricLearningLoss(nn.InfoNCELoss(symmetric=False, reduction="none"))(z, labels)
    with pytest.raises(ValueError, match="every label must occur equally often"):
        MetricLearningLoss(nn.NTXentLoss())(z[:-1], labels[:-1])
    with pytest.raises(ValueError, match="Leave the miner out"):
        MetricLearningLoss(nn.NTXentLoss())(z, labels, (labels, labels, labels))
    with pytest.raises(ValueError, match=r"14 embeddings need as many labels, got \(7,\)"):
        MetricLearningLoss(nn.SupConLoss())(z, labels[:7])
    with pytest.raises(TypeError, match=r"must be one of isotherm\.nn"):
        MetricLearningLoss(theirs.NTXentLoss())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_example_learns():
    before, after = example("metric_learning.py")()
    assert after > before
    assert after > 0.9
