"""Multi-crop in every method that can use it: small crops ask and are never looked for; who cannot says why."""

import pytest
import torch
from torch.nn.functional import cosine_similarity, cross_entropy, normalize

from isotherm import nn
from isotherm.encoders import VAE, head
from isotherm.methods import Given, Network, method
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
    with pytest.raises(ValueError, match="InBatch needs 2 or more views of each item beside its small crops, got 1"):
        built("simclr", nn.NTXentLoss(), views=1, small=3).check_views(1)
