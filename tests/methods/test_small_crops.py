"""Multi-crop in every method that can use it: small crops ask and are never looked for; who cannot says why."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch.nn.functional import cosine_similarity, cross_entropy, normalize

from isotherm import nn
from isotherm.encoders import VAE, head
from isotherm.methods import Given, Network, method
from isotherm.pairing import one_way
from small_methods import batch, built, taught

LABELS = torch.zeros(5, dtype=torch.long)


def units(net, views):
    return [normalize(net(v), dim=1) for v in views]


def softmax_among(query, i, keys, temperature):
    """−log of a softmax: the mean over an item's keys, each against the keys of all other items and itself."""
    negatives = [query @ k[j] for k in keys for j in range(len(k)) if j != i]
    terms = []
    for k in keys:
        logits = torch.stack([query @ k[i], *(query @ other[i] for other in keys if other is not k), *negatives])
        terms.append(-torch.log_softmax(logits / temperature, 0)[0])
    return torch.stack(terms).mean()


def test_simclr_asks_with_every_crop_among_the_large_ones():
    m, b = built("simclr", nn.NTXentLoss(0.3), small=3), batch(small=3)
    z = units(m.network, b.views)
    plain = built("simclr", nn.NTXentLoss(0.3)).compare(b._replace(views=b.views[:2]))
    terms = [softmax_among(z[v][i], i, z[:2], 0.3) for v in (2, 3, 4) for i in range(5)]
    expected = (2 * plain + 3 * torch.stack(terms).mean()) / 5
    torch.testing.assert_close(m.compare(b), expected, rtol=1e-10, atol=0)


@pytest.mark.parametrize("views", [2, 3])
def test_cacr_repels_small_crops_from_the_large_ones_of_other_items(views):
    m, b = built("cacr", nn.CACRLoss(t_pos=1.0, t_neg=2.0), views=views, small=2), batch(views=views, small=2)
    z = units(m.network, b.views)
    plain = nn.CACRLoss(t_pos=1.0, t_neg=2.0)(*z[:views])
    total = 0.0
    for small in z[views:]:
        for i in range(5):
            near = torch.stack([(small[i] - k[i]).square().sum() for k in z[:views]])
            far = torch.stack([(small[i] - k[j]).square().sum() for k in z[:views] for j in range(5) if j != i])
            value = (torch.softmax(near, 0) * near).sum() - (torch.softmax(-2 * far, 0) * far).sum()
            total = total + value / 5
    torch.testing.assert_close(m.compare(b), (views * plain + total) / (views + 2), rtol=1e-10, atol=0)


def test_losses_without_negatives_take_every_pair_with_a_large_crop():
    m, b = built("vicreg", nn.VICRegLoss(), small=2), batch(small=2)
    z, loss = [m.network(v) for v in b.views], nn.VICRegLoss()
    pairs = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3)]
    torch.testing.assert_close(m.compare(b), sum(loss(z[i], z[j]) for i, j in pairs) / 5)


def test_mocov2_asks_its_queue_with_small_crops_and_keeps_keys_of_large_ones():
    m, b = taught(built("mocov2", nn.NTXentLoss(0.2), small=2, queue=7)), batch(small=2)
    k = units(m.slow.network, b.views[1:2])[0]
    values = []
    for q in units(m.network, [b.views[0], *b.views[2:]]):
        values.append(cross_entropy(torch.cat([(q * k).sum(1, keepdim=True), q @ m.queue.T], 1) / 0.2, LABELS))
    torch.testing.assert_close(m.compare(b), sum(values) / 3)
    m.after_step()
    torch.testing.assert_close(m.queue[:5], k.detach())


def test_algorithm_3_repels_small_crops_from_the_large_queries():
    loss = nn.CACRLoss(t_pos=1.0, t_neg=2.0, detach_weights="positive")
    settings = {"queue": 9, "every_view": True, "intra_batch": True}
    m, b = taught(built("mocov2", loss, small=2, **settings)), batch(small=2)
    q, k = units(m.network, b.views), units(m.slow.network, b.views[:2])
    total = 0.0
    for v, query in enumerate(q):
        for i in range(5):
            near = torch.stack([(query[i] - key[i]).square().sum() for t, key in enumerate(k) if t != v])
            batch_mates = [query] if v < 2 else q[:2]
            far = [(query[i] - normalize(m.queue, dim=1)[j]).square().sum() for j in range(9)]
            far += [(query[i] - z[j]).square().sum() for z in batch_mates for j in range(5) if j != i]
            far = torch.stack(far)
            total = total + (torch.softmax(near, 0) * near).sum() - (torch.softmax(-2 * far, 0) * far).sum()
    torch.testing.assert_close(m.compare(b), total / 20, rtol=1e-9, atol=0)


def cancelled(query, positives, negatives, item_views, cancel, top_k=3, threshold=-0.1, temperature=0.2):
    """FNC of one query: its false negatives are those most like a large view of its item."""
    scores = [max(float(n.detach() @ v) for v in item_views) for n in negatives]
    best = sorted(range(len(negatives)), key=lambda j: -scores[j])[:top_k]
    false = [j for j in best if scores[j] > threshold]
    near = [query @ p / temperature for p in positives]
    far = [query @ n / temperature for n in negatives]
    if cancel == "attract":
        below, near = near + far, near + [far[j] for j in false]
    else:
        below = near + [s for j, s in enumerate(far) if j not in false]
    return torch.stack(below).logsumexp(0) - torch.stack(near).mean()


def fnc_in_the_batch(m, b, cancel):
    z, values = units(m.network, b.views), []
    large = z[:3]
    for v, view in enumerate(z):
        for i, query in enumerate(view):
            positives = [k[i] for t, k in enumerate(large) if t != v]
            negatives = [k[j] for k in large for j in range(5) if j != i]
            values.append(cancelled(query, positives, negatives, [k[i].detach() for k in large], cancel))
    return torch.stack(values).mean()


def fnc_with_a_queue(m, b, cancel, every_view=True, intra_batch=False):
    k, values = units(m.slow.network, b.views[:3]), []
    asking = range(5) if every_view else (0, 3, 4)
    q = {v: units(m.network, [b.views[v]])[0] for v in asking}
    for v in asking:
        for i in range(5):
            keys = [key[i] for t, key in enumerate(k) if t != (v if every_view else 0)]
            item = [q[v if v < 3 else 0][i].detach(), *keys] if v < 3 or not every_view else keys
            negatives = list(m.queue)
            if intra_batch:
                negatives += [q[t][j] for t in ([v] if v < 3 else range(3)) for j in range(5) if j != i]
            values.append(cancelled(q[v][i], keys, negatives, item, cancel))
    return torch.stack(values).mean()


FNC = {
    "in the batch": ("fnc", {}, fnc_in_the_batch),
    "with a queue": ("mocov2", {"every_view": True}, fnc_with_a_queue),
    "with a queue that one view asks": ("mocov2", {}, partial(fnc_with_a_queue, every_view=False)),
    "with a queue and the batch": (
        "mocov2",
        {"every_view": True, "intra_batch": True},
        partial(fnc_with_a_queue, intra_batch=True),
    ),
}


@pytest.mark.parametrize("cancel", ["attract", "eliminate"])
@pytest.mark.parametrize("how", FNC)
def test_fnc_asks_with_small_crops_and_finds_false_negatives_by_the_large_ones(how, cancel):
    name, settings, by_hand = FNC[how]
    settings = settings | ({"queue": 9} if name == "mocov2" else {})
    loss = nn.FNCLoss(0.2, cancel, top_k=3, threshold=-0.1)
    m, b = built(name, loss, views=3, small=2, **settings), batch(views=3, small=2)
    if name == "mocov2":
        taught(m).queue.copy_(normalize(m.queue, dim=1))  # made in float32
    expected, value = by_hand(m, b, cancel), m.compare(b)
    torch.testing.assert_close(value, expected, rtol=1e-9, atol=0)
    learning = list(m.network.parameters())
    got, wanted = (torch.autograd.grad(v, learning, retain_graph=True) for v in (value, expected))
    torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-12)


def test_a_small_crop_is_in_no_support_set():
    """By itself it would find others: those that look like the little it shows."""
    loss, b = nn.FNCLoss(0.2, top_k=3, threshold=None), batch(small=1)
    m = built("fnc", loss, small=1)
    (block,) = one_way(m.network(b.views[2]), *(m.network(v) for v in b.views[:2]))
    with_it = loss.false_negatives(block).columns
    without = loss.false_negatives(replace(block, item_views=block.partners)).columns
    assert with_it.tolist() != without.tolist()


def test_mocov3_and_byol_predict_the_large_crops_with_every_crop():
    b, own = batch(small=2), torch.arange(5)
    m = taught(built("mocov3", nn.NTXentLoss(0.2), small=2))
    q = [normalize(m.predictor(m.network(v)), dim=1) for v in b.views]
    k = units(m.slow.network, b.views[:2])
    terms = [cross_entropy(q[0] @ k[1].T / 0.2, own), cross_entropy(q[1] @ k[0].T / 0.2, own)]
    terms += [torch.stack([softmax_among(q[v][i], i, k, 0.2) for i in range(5)]).mean() for v in (2, 3)]
    torch.testing.assert_close(m.compare(b), 2 * 2 * 0.2 * sum(terms) / 4)
    for name, loss in (("byol", nn.BYOLLoss()), ("simsiam", nn.SimSiamLoss())):
        m = built(name, loss, small=2)
        p = [m.predictor(m.network(v)) for v in b.views]
        k = [(m.network if name == "simsiam" else m.slow.network)(v).detach() for v in b.views[:2]]
        pairs = [[(0, 1)], [(1, 0)], [(2, 0), (2, 1)], [(3, 0), (3, 1)]]
        mean = sum(sum(cosine_similarity(p[i], k[j]) for i, j in each) / len(each) for each in pairs).mean() / 4
        torch.testing.assert_close(m.compare(b), 2 * (2 - 2 * mean) if name == "byol" else -mean)


def test_the_slow_copy_never_sees_a_small_crop():
    for name, loss in (
        ("mocov2", nn.NTXentLoss()),
        ("mocov3", nn.NTXentLoss()),
        ("byol", nn.BYOLLoss()),
        ("dino", None),
    ):
        m, seen = built(name, loss, small=3), set()
        m.slow.network.register_forward_pre_hook(lambda _, x, seen=seen: seen.add(x[0].shape[-1]))
        m.compare(batch(small=3))
        assert seen == {4}, name


REFUSED = [
    ("bank", nn.NTXentLoss(), "method 'bank' has no use for views that are never looked for: say --small_crops 0"),
    ("supcon", nn.SupConLoss(), "'supcon' takes SupConLoss, whose positives come from labels: .*--method simclr"),
    ("simcse", nn.InfoNCELoss(), "'simcse' reads sentences"),
]


@pytest.mark.parametrize(("name", "loss", "why"), REFUSED, ids=[name for name, *_ in REFUSED])
def test_methods_that_cannot_use_small_crops_say_why(name, loss, why):
    with pytest.raises(ValueError, match=why):
        built(name, loss, small=2)


def test_reconstruction_refuses_small_crops_and_labels_take_them():
    vae = VAE(1, 8)
    with pytest.raises(ValueError, match="method 'vae' has no use"):
        method("vae", Network(vae, head("none", vae.width)), None, Given(vae.width, small_crops=1))
    m, b = built("supervised", small=2), batch(views=1, small=2)
    losses = [cross_entropy(m.classifier(m.network(v)).float(), b.labels) for v in b.views]
    torch.testing.assert_close(m.compare(b), sum(losses) / 3)


def test_one_large_crop_is_too_few():
    with pytest.raises(
        ValueError, match="method 'simclr' needs 2 or more views of each item beside its small crops, got 1"
    ):
        built("simclr", nn.NTXentLoss(), views=1, small=3).check_views(1)
