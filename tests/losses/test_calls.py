"""The ways a loss can be called: negatives of one's own, weights of items, sums, labels of views."""

import pytest
import torch
import torch.distributed as dist

import processes
from found import LOSSES, NEGATIVE_FREE, labels, make, views
from isotherm import nn, world

OF_THE_BATCH = {
    "AlignUniformLoss": "its logarithm",
    "DCLWLoss": "its weights",
    "GeneralizedContrastiveLoss": "swd",
    "MACLLoss": "its temperature",
}
"""Losses whose value of a query depends on the other queries, and by what."""
ONE_BY_ONE = sorted(name for name, cls in LOSSES.items() if not cls.takes_labels and name not in NEGATIVE_FREE)
WEIGHTS = torch.tensor([0.0, 1, 2, 0.5, 3, 1, 1], dtype=torch.float64)


def own_negatives(n=7, k=4):
    return torch.stack(views(k, n=n, seed=3), 1)


@pytest.mark.parametrize("name", [n for n in ONE_BY_ONE if n not in OF_THE_BATCH])
def test_negatives_of_its_own_are_a_query_s_only_negatives(name):
    z, keys = ([v.requires_grad_() for v in views(2)] for _ in range(2))
    negatives, queues = own_negatives().requires_grad_(), own_negatives().requires_grad_()
    together = make(name, reduction="none")(*z, negatives=negatives)
    alone = [
        make(name, reduction="none")(*(v[i : i + 1] for v in keys), negatives=queues[i]) for i in range(len(keys[0]))
    ]
    torch.testing.assert_close(together, torch.cat(alone), rtol=1e-10, atol=1e-10)
    slopes = torch.arange(1.0, 8.0, dtype=torch.float64)
    (together * slopes).sum().backward()
    (torch.cat(alone) * slopes).sum().backward()
    for a, b in zip([*z, negatives], [*keys, queues], strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", ["MACLLoss", "AlignUniformLoss", "DCLWLoss"])
def test_losses_of_the_batch_take_negatives_of_their_own_too(name):
    """The same negatives for everybody are a queue."""
    z, queue = views(2), views(1, n=4, seed=3)[0]
    torch.testing.assert_close(make(name)(*z, negatives=queue.expand(7, 4, -1)), make(name)(*z, negatives=queue))


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_weights_weigh_the_value_of_each_item(name):
    z = views(2)
    more = {"labels": labels(7)} if LOSSES[name].takes_labels else {}
    try:
        each = make(name, reduction="none")(*z, **more)
    except ValueError:  # it has no value per query
        with pytest.raises(ValueError, match="has no value per query, which weights could weigh"):
            make(name)(*z, weights=WEIGHTS)
        with pytest.raises(ValueError, match="has no value per query"):
            make(name, reduction="sum")
        return
    w = WEIGHTS.repeat(len(each) // 7)
    for reduction, wanted in (
        ("mean", (w * each).sum() / w.sum()),
        ("sum", (w * each).sum()),
        ("none", w * each),
    ):
        value = make(name, reduction=reduction)(*z, weights=WEIGHTS, **more)
        torch.testing.assert_close(value, wanted, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(
        make(name)(*z, weights=torch.full((7,), 3.0), **more), make(name)(*z, **more), rtol=1e-6, atol=1e-7
    )


def test_weights_move_a_learnable_temperature():
    tau = torch.tensor(0.2, dtype=torch.float64, requires_grad=True)
    loss = nn.NTXentLoss(tau)
    loss(*views(2), weights=WEIGHTS).backward()
    by_weights, tau.grad = tau.grad, None
    each = nn.NTXentLoss(tau, reduction="none")(*views(2))
    ((each * WEIGHTS.repeat(2)).sum() / (2 * WEIGHTS.sum())).backward()
    torch.testing.assert_close(by_weights, tau.grad)


def test_supcon_takes_views_and_one_label_for_all_of_them():
    z = views(3)
    loss = nn.SupConLoss(0.1)
    torch.testing.assert_close(loss(*z, labels=labels(7)), loss(torch.cat(z), labels(7).repeat(3)))
    torch.testing.assert_close(loss(z[0], labels=labels(7)), loss(z[0], labels(7)))
    alone = torch.arange(7)  # every item its own class: the other view is the only positive
    torch.testing.assert_close(loss(*z[:2], labels=alone), nn.NTXentLoss(0.1)(*z[:2]))


def test_mistakes_get_one_sentence():
    z = views(2)
    for arguments, words in (
        ({"weights": WEIGHTS[:3]}, r"one number per item, shape \(7,\); got \(3,\)"),
        ({"weights": -WEIGHTS}, "finite and 0 or more"),
        ({"weights": 0 * WEIGHTS}, "every weight is 0"),
        ({"negatives": own_negatives(n=5)}, r"K rows per query, \(7, K, D\); got \(5, 4, 5\)"),
    ):
        with pytest.raises(ValueError, match=words):
            nn.NTXentLoss()(*z, **arguments)
    with pytest.raises(ValueError, match=r"labels are missing: .* loss\(z0, z1, labels=y\)"):
        nn.SupConLoss()(*z)
    with pytest.raises(ValueError, match=r"one label per item, shape \(7,\), for all its views; got \(14,\)"):
        nn.SupConLoss()(*z, labels=labels(7).repeat(2))
    with pytest.raises(ValueError, match="reduction must be one of mean, sum, none"):
        nn.NTXentLoss(reduction="total")


def everything(z, weights, kinds, negatives):
    z = [v.clone().requires_grad_() for v in z]
    values = torch.stack(
        [
            nn.NTXentLoss(0.2, reduction="sum")(*z),
            nn.NTXentLoss(0.2)(*z, weights=weights),
            nn.SupConLoss(0.2, reduction="sum")(*z, labels=kinds, weights=weights),
            nn.CACRLoss(reduction="sum")(*z, negatives=negatives, weights=weights),
        ]
    )
    values.sum().backward()
    return values.detach(), torch.stack([v.grad for v in z])


def process(rank, folder):
    world.join(rank, 2, f"{folder}/meet")
    mine = slice(0, 3) if rank == 0 else slice(3, 7)
    given = ([v[mine] for v in views(2)], WEIGHTS[mine], labels(7)[mine], own_negatives()[mine])
    torch.save(everything(*given), f"{folder}/{rank}.pt")
    world.leave()


@pytest.mark.skipif(not dist.is_available(), reason="torch without torch.distributed")
def test_sums_and_weights_of_two_processes_are_those_of_one(tmp_path):
    processes.two(process, str(tmp_path))
    value, gradient = everything(views(2), WEIGHTS, labels(7), own_negatives())
    parts = [torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in (0, 1)]
    for part in parts:
        torch.testing.assert_close(part[0], value, rtol=1e-10, atol=1e-10)
    together = torch.cat([part[1] for part in parts], 1) / 2
    torch.testing.assert_close(together, gradient, rtol=1e-9, atol=1e-11)
