"""Every method against its paper written by hand; what it remembers; what it refuses."""

import math

import pytest
import torch
from torch import nn as tnn
from torch.nn.functional import cross_entropy, normalize

from isotherm import nn, pairing
from isotherm.encoders import VAE, encoder, head
from isotherm.losses import catalogue
from isotherm.methods import METHODS, Given, MomentumCopy, Network, method
from isotherm.streams import uniforms
from isotherm.temperature import Constant
from isotherm.types import Batch

WIDTH = 6


def network(seed=0):
    torch.manual_seed(seed)
    flat = tnn.Sequential(tnn.Flatten(), tnn.Linear(12, 8), tnn.Tanh())
    flat.width = 8
    return Network(flat, tnn.Linear(8, WIDTH)).double()


def batch(n=5, views=2, seed=1, indices=None, classes=3):
    torch.manual_seed(seed)
    x = [torch.randn(n, 3, 2, 2, dtype=torch.float64) for _ in range(views)]
    indices = torch.arange(n) if indices is None else torch.tensor(indices)
    return Batch(x, torch.arange(n) % classes, indices)


def made(name, loss=None, **settings):
    torch.manual_seed(3)
    predictor = tnn.Linear(WIDTH, WIDTH).double()
    given = Given(WIDTH, items=20, classes=3, seed=0, predictor=predictor)
    found = method(name, network(), loss, given, **settings).double()
    found.at(0, 10)
    return found


def z_of(net, x):
    return normalize(net(x), dim=1)


def test_simclr_is_the_loss_of_all_views():
    m, b = made("simclr", nn.NTXentLoss(0.3)), batch(views=3)
    torch.testing.assert_close(m.compare(b), nn.NTXentLoss(0.3)(*(m.network(v) for v in b.views)))


def test_supcon_sees_the_labels_of_every_view():
    m, b = made("supcon", nn.SupConLoss()), batch(n=6)
    expected = nn.SupConLoss()(m.network(torch.cat(b.views)), torch.cat([b.labels, b.labels]))
    torch.testing.assert_close(m.compare(b), expected)


def test_bank_is_a_softmax_over_every_entry():
    m, b = made("bank", nn.NTXentLoss(0.3)), batch(views=1, indices=[3, 7, 11, 0, 19])
    logits = z_of(m.network, b.views[0]) @ m.bank.T / 0.3
    torch.testing.assert_close(m.compare(b), cross_entropy(logits, b.indices))


def test_bank_is_written_after_the_step_with_what_was_compared():
    m, b = made("bank", nn.NTXentLoss(), momentum=0.5), batch(views=1, indices=[3, 7, 11, 0, 19])
    before = m.bank.clone()
    m.compare(b)
    assert torch.equal(m.bank, before)
    z = z_of(m.network, b.views[0]).detach()
    m.after_step()
    expected = before.clone()
    expected[b.indices] = normalize(0.5 * before[b.indices] + 0.5 * z, dim=1)
    torch.testing.assert_close(m.bank, expected, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(m.bank.norm(dim=1), torch.ones(20, dtype=torch.float64))


def test_bank_draws_negatives_outside_the_batch_anew_each_step():
    m, b = made("bank", nn.NTXentLoss(0.3), negatives=6), batch(views=1)
    drawn = [m._drawn(b.indices)]
    m.at(1, 10)
    drawn.append(m._drawn(b.indices))
    for chosen in drawn:
        assert len(set(chosen.tolist())) == 6
        assert not set(chosen.tolist()) & set(b.indices.tolist())
    assert drawn[0].tolist() != drawn[1].tolist()
    z = z_of(m.network, b.views[0])
    logits = torch.cat([(z * m.bank[b.indices]).sum(1, keepdim=True), z @ m.bank[drawn[1]].T], 1) / 0.3
    torch.testing.assert_close(m.compare(b), cross_entropy(logits, torch.zeros(5, dtype=torch.long)))


def test_hard_bank_takes_the_nearest_entries():
    m, b = made("bank", nn.HardContrastiveLoss(0.3, top_k=4)), batch(views=1)
    z = z_of(m.network, b.views[0])
    s = z @ m.bank.T
    positive = s.gather(1, b.indices[:, None])
    hardest = s.scatter(1, b.indices[:, None], -math.inf).topk(4, 1).values
    logits = torch.cat([positive, hardest], 1) / 0.3
    torch.testing.assert_close(m.compare(b), cross_entropy(logits, torch.zeros(5, dtype=torch.long)))


def test_mocov2_is_cross_entropy_against_its_queue():
    m, b = made("mocov2", nn.NTXentLoss(0.2), queue=7), batch()
    with torch.no_grad():
        for p in m.slow.network.parameters():
            p.add_(0.1)
    q, k = z_of(m.network, b.views[0]), z_of(m.slow.network, b.views[1])
    logits = torch.cat([(q * k).sum(1, keepdim=True), q @ m.queue.T], 1) / 0.2
    torch.testing.assert_close(m.compare(b), cross_entropy(logits, torch.zeros(5, dtype=torch.long)))


@pytest.mark.parametrize("size", [3, 7, 12])
def test_queue_is_first_in_first_out_for_any_size(size):
    m = made("mocov2", nn.NTXentLoss(), queue=size)
    told = list(m.queue.clone())
    for step in range(4):
        b = batch(n=5, seed=step)
        keys = z_of(m.slow.network, b.views[1]).detach()
        m.compare(b)
        assert not any(torch.allclose(row, keys[0]) for row in m.queue)
        m.after_step()
        told = (told + list(keys))[-max(size, 5) :]
        told = told[-size:]
        held = sorted(tuple(round(v, 5) for v in row.tolist()) for row in m.queue)
        assert held == sorted(tuple(round(v, 5) for v in row.tolist()) for row in told)


def algorithm_3(m, b, t_pos, t_neg):
    """CACR's Algorithm 3 as it is printed, with intra-batch negatives."""
    q_list = [z_of(m.network, im) for im in b.views]
    k_list = [z_of(m.slow.network, im).detach() for im in b.views]
    positive, negative = 0.0, 0.0
    for k, q in enumerate(q_list):
        others = torch.stack([key for i, key in enumerate(k_list) if i != k])
        cost = (q - others).norm(p=2, dim=-1).pow(2).transpose(1, 0)
        weights = torch.softmax(cost.detach() * t_pos, dim=1)
        positive += (cost * weights).sum(1).mean()
        far = 2 - 2 * q @ m.queue.T
        n = len(q)
        intra = (q[:, None] - q).pow(2).sum(-1).masked_select(~torch.eye(n, dtype=torch.bool)).view(n, n - 1)
        far = torch.cat([far, intra], 1)
        negative += (-far * torch.softmax(-t_neg * far, 1)).sum(1).mean()
    return positive / len(q_list) + negative / len(q_list)


@pytest.mark.parametrize("views", [2, 5])
def test_cacr_with_mocov2_is_algorithm_3(views):
    loss = nn.CACRLoss(t_pos=1.0, t_neg=2.0, detach_weights="positive")
    m, b = made("mocov2", loss, queue=9, every_view=True, intra_batch=True), batch(views=views)
    with torch.no_grad():
        for p in m.slow.network.parameters():
            p.mul_(0.8)
        m.queue.copy_(normalize(m.queue, dim=1))  # made in float32
    values, gradients = [], []
    for compute in (lambda: m.compare(b), lambda: algorithm_3(m, b, 1.0, 2.0)):
        m.zero_grad()
        value = compute()
        value.backward()
        values.append(value.detach())
        gradients.append([p.grad.clone() for p in m.network.parameters()])
    torch.testing.assert_close(*values)
    torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-12)


def test_pairwise_mocov2_is_the_mean_of_infonce_over_every_query_and_key():
    m, b = made("mocov2", nn.NTXentLoss(0.07), queue=9, every_view=True, pairwise=True), batch(views=3)
    q = [z_of(m.network, v) for v in b.views]
    k = [z_of(m.slow.network, v) for v in b.views]
    first, values = torch.zeros(5, dtype=torch.long), []
    for x in range(3):
        for y in range(3):
            if x != y:
                s = torch.cat([(q[x] * k[y]).sum(1, keepdim=True), q[x] @ normalize(m.queue, dim=1).T], 1)
                values.append(cross_entropy(s / 0.07, first))
    torch.testing.assert_close(m.compare(b), torch.stack(values).mean())
    together = made("mocov2", nn.NTXentLoss(0.07), queue=9, every_view=True)
    together.load_state_dict(m.state_dict())
    assert not torch.isclose(together.compare(b), m.compare(b))


def test_mocov3_is_twice_tau_times_the_sum_of_both_directions():
    m, b = made("mocov3", nn.NTXentLoss(0.2)), batch()
    q = [normalize(m.predictor(m.network(v)), dim=1) for v in b.views]
    k = [z_of(m.slow.network, v) for v in b.views]
    own = torch.arange(5)
    paper = 2 * 0.2 * (cross_entropy(q[0] @ k[1].T / 0.2, own) + cross_entropy(q[1] @ k[0].T / 0.2, own))
    torch.testing.assert_close(m.compare(b), paper)


def test_mocov3_takes_a_constant_temperature_for_its_number():
    values = [made("mocov3", nn.NTXentLoss(t)).compare(batch()) for t in (0.2, Constant(0.2))]
    torch.testing.assert_close(*values)


def test_mocov3_with_cacr_repels_the_keys_of_the_batch():
    m, b = made("mocov3", nn.CACRLoss(t_neg=2.0)), batch()
    q = [normalize(m.predictor(m.network(v)), dim=1) for v in b.views]
    k = [z_of(m.slow.network, v) for v in b.views]
    total = 0.0
    for a in (0, 1):
        d = (q[a][:, None] - k[1 - a]).square().sum(-1)
        away = d[~torch.eye(5, dtype=torch.bool)].view(5, 4)
        total += (d.diagonal() - (torch.softmax(-2 * away, 1) * away).sum(1)).mean()
    torch.testing.assert_close(m.compare(b), total)


def test_byol_sums_and_simsiam_averages_both_directions():
    b = batch()
    m = made("byol", nn.BYOLLoss())
    p = [m.predictor(m.network(v)) for v in b.views]
    k = [m.slow.network(v) for v in b.views]
    cos = tnn.functional.cosine_similarity
    torch.testing.assert_close(m.compare(b), (4 - 2 * cos(p[0], k[1]) - 2 * cos(p[1], k[0])).mean())
    m = made("simsiam", nn.SimSiamLoss())
    z = [m.network(v) for v in b.views]
    p = [m.predictor(v) for v in z]
    expected = -(cos(p[0], z[1].detach()) + cos(p[1], z[0].detach())).mean() / 2
    value = m.compare(b)
    torch.testing.assert_close(value, expected)
    m.zero_grad()
    value.backward()
    ours = [q.grad.clone() for q in m.parameters()]
    m.zero_grad()
    expected.backward()
    torch.testing.assert_close(ours, [q.grad for q in m.parameters()])


def test_slow_copy_follows_along_half_a_cosine():
    net = network()
    slow = MomentumCopy(net, 0.9, 1.0)
    start = [p.clone() for p in slow.network.parameters()]
    with torch.no_grad():
        for p in net.parameters():
            p.add_(1.0)
    slow.follow(net, progress=0.5)
    m = 1 - (1 - 0.9) * (1 + math.cos(math.pi * 0.5)) / 2
    for s, p, now in zip(start, net.parameters(), slow.network.parameters(), strict=True):
        torch.testing.assert_close(now, m * s + (1 - m) * p)
        assert not now.requires_grad


def test_supervised_is_cross_entropy():
    m, b = made("supervised"), batch(views=1)
    torch.testing.assert_close(m.compare(b), cross_entropy(m.classifier(m.network(b.views[0])).float(), b.labels))


def test_vae_draws_the_same_noise_for_the_same_step():
    torch.manual_seed(0)
    vae = VAE(1, 8)
    m = method("vae", Network(vae, head("none", vae.width)), None, Given(vae.width, seed=4))
    b = Batch([torch.rand(3, 1, 8, 8)], torch.zeros(3), torch.tensor([5, 6, 7]))
    m.at(3, 10)
    first = m.compare(b)
    torch.rand(9)  # other draws do not matter
    assert m.compare(b) == first
    m.at(4, 10)
    assert m.compare(b) != first
    half = Batch([b.views[0][1:]], b.labels[1:], b.indices[1:])
    m.at(3, 10)
    torch.testing.assert_close(m.embed(half)[0], m.embed(b)[0][1:])


def autoencoder(bits=0, **settings):
    torch.manual_seed(0)
    vae = VAE(3, 8, width=4).double()
    return method("vae", Network(vae, head("none", vae.width)), None, Given(vae.width, bits=bits, seed=4), **settings)


@pytest.mark.parametrize(("plane_weight", "weight"), [(1.0, 1.0), (0.3, 0.3), (0.0, 0.0), ("area", 1 / 64)])
def test_vae_weighs_its_planes_and_the_kl_as_it_is_told(plane_weight, weight):
    m = autoencoder(bits=2, plane_weight=plane_weight, beta=0.7)
    b = Batch([torch.rand(3, 3, 8, 8, dtype=torch.float64)], torch.zeros(3), torch.tensor([5, 6, 7]))
    vae, (x,) = m.network.encoder, b.views
    u = uniforms(b.indices, 4, seed=4, epoch=0, view=0)
    mean, log_variance = vae.posterior(x)
    p = vae.decode(mean + (log_variance / 2).exp() * torch.special.ndtri(u))
    for i in range(3):
        cost = 0.0
        for c in range(3):
            for t, q in zip(x[i, c].flatten().tolist(), p[i, c].flatten().tolist(), strict=True):
                cost -= (weight if c else 1.0) * (t * math.log(q) + (1 - t) * math.log(1 - q))
        for mu, v in zip(mean[i].tolist(), log_variance[i].tolist(), strict=True):
            cost += 0.7 * 0.5 * (mu**2 + math.exp(v) - v - 1)
        assert m.embed(b)[0][i].item() == pytest.approx(cost, rel=1e-5)  # its noise is drawn in float32


def test_vae_without_planes_has_nothing_to_weigh_and_refuses_what_is_no_weight():
    b = Batch([torch.rand(3, 3, 8, 8, dtype=torch.float64)], torch.zeros(3), torch.tensor([5, 6, 7]))
    assert torch.equal(autoencoder(plane_weight="area").compare(b), autoencoder().compare(b))
    for name in ("plane_weight", "beta"):
        with pytest.raises(ValueError, match=f"{name} .*-0.5"):
            autoencoder(**{name: -0.5})


def test_state_is_part_of_the_state_dict():
    m = made("mocov2", nn.NTXentLoss(), queue=7)
    b = batch()
    m.compare(b)
    m.after_step()
    other = made("mocov2", nn.NTXentLoss(), queue=7)
    other.load_state_dict(m.state_dict())
    assert torch.equal(other.queue, m.queue)
    assert other.place == m.place == 5
    bank = made("bank", nn.NTXentLoss())
    assert "bank" in bank.state_dict()


def test_a_queue_of_many_times_the_items_is_mentioned():
    assert "the queue of 81 keys is 4 times the 20 items" in made("mocov2", nn.NTXentLoss(), queue=81).notes[0]
    assert "--method.queue 16 " in made("mocov2", nn.NTXentLoss()).notes[0]
    assert made("mocov2", nn.NTXentLoss(), queue=80).notes == ()


REFUSED = [
    ("simclr", nn.BYOLLoss(), "makes all embeddings equal; use --method byol"),
    ("simclr", nn.SimSiamLoss(), "use --method simsiam"),
    ("bank", nn.BarlowTwinsLoss(), "BarlowTwinsLoss compares no items"),
    ("bank", nn.SupConLoss(), "takes its positives and negatives from labels"),
    ("mocov2", nn.GeneralizedContrastiveLoss(), "compares the batch with a prior"),
    ("mocov3", nn.VICRegLoss(), "VICRegLoss compares no items"),
    ("byol", nn.NTXentLoss(), "it takes BYOLLoss or SimSiamLoss, not NTXentLoss"),
    ("simsiam", nn.CACRLoss(), "not CACRLoss"),
    ("supervised", nn.NTXentLoss(), "has its own objective and takes no loss"),
    ("mocov2", None, "needs a loss, for instance NTXentLoss"),
    ("supcon", nn.NTXentLoss(), "labels, which NTXentLoss does not look at; use --loss SupConLoss, or --method simclr"),
    ("supcon", nn.BarlowTwinsLoss(), "labels, which BarlowTwinsLoss does not look at"),
    ("simclr", nn.SupConLoss(), "'simclr' learns without them; use --method supcon"),
    ("barlow", nn.SupConLoss(), "'barlow' learns without them; use --method supcon"),
    ("barlow", nn.NTXentLoss(), "'barlow' is BarlowTwinsLoss in the batch.*use --method simclr for that loss"),
    ("vicreg", nn.BarlowTwinsLoss(), "'vicreg' is VICRegLoss in the batch"),
    ("cacr", nn.NTXentLoss(), "'cacr' is CACRLoss in the batch"),
    ("cmc", nn.NTXentLoss(), "'cmc' is CMCLoss in the batch"),
    ("barlow", nn.BYOLLoss(), "use --method byol"),
    ("wmse", nn.VICRegLoss(), "'wmse' is WMSELoss in the batch"),
    ("zerocl", nn.ARBLoss(), "'zerocl' is ZeroCLLoss in the batch"),
    ("arb", nn.ZeroFCLLoss(), "'arb' is ARBLoss in the batch"),
    ("siglip", nn.InfoNCELoss(), "'siglip' is SigLIPLoss in the batch"),
    ("mocov2", nn.WMSELoss(), "its queue, but WMSELoss compares no items"),
    ("bank", nn.ZeroICLLoss(), "but ZeroICLLoss compares no items"),
    ("mocov3", nn.ARBLoss(), "but ARBLoss compares no items"),
    ("byol", nn.SigLIPLoss(), "it takes BYOLLoss or SimSiamLoss, not SigLIPLoss"),
]


@pytest.mark.parametrize(("name", "loss", "why"), REFUSED, ids=[f"{n}-{type(x).__name__}" for n, x, _ in REFUSED])
def test_combinations_that_make_no_sense_are_refused_with_a_reason(name, loss, why):
    with pytest.raises(ValueError, match=why.replace("(", r"\(")):
        made(name, loss)


def test_unknown_names_are_met_with_the_nearest():
    with pytest.raises(ValueError, match="did you mean 'mocov2'"):
        made("mocov22", nn.NTXentLoss())
    with pytest.raises(TypeError, match="did you mean 'momentum'"):
        made("bank", nn.NTXentLoss(), momentun=0.3)
    with pytest.raises(ValueError, match="one view of each image"):
        made("bank", nn.NTXentLoss()).check_views(2)
    with pytest.raises(ValueError, match="2 or more views"):
        made("simclr", nn.NTXentLoss()).check_views(1)
    with pytest.raises(ValueError, match="entries outside the batch"):
        made("bank", nn.NTXentLoss(), negatives=18).compare(batch(views=1))
    with pytest.raises(ValueError, match="--encoder vae"):
        made("vae")


@pytest.mark.parametrize(
    "name", [e for e, found in METHODS.items() if found.loss is not None and e != "clip"]
)  # test_clip
def test_every_loss_that_is_not_refused_gives_a_finite_gradient(name):
    tried = 0
    for entry in catalogue.losses():
        try:
            m = made(name, entry.loss())
        except ValueError:
            continue
        value = m.compare(batch(n=8, views=METHODS[name].views, classes=2))
        value.backward()
        assert torch.isfinite(value), entry.name
        assert all(torch.isfinite(p.grad).all() for p in m.network.parameters()), entry.name
        tried += 1
    assert tried >= (1 if METHODS[name].is_its_loss else 2)


def test_momentum_pairing_with_several_keys_hides_every_view_of_the_query():
    torch.manual_seed(0)
    q, *keys = torch.randn(4, 5, 3, dtype=torch.float64)
    (pairs,) = pairing.one_way(q, *keys)
    value = nn.NTXentLoss(0.5).per_query(pairs)
    u = [normalize(v, dim=1) for v in (q, *keys)]
    for i in range(5):
        positives = [u[0][i] @ k[i] / 0.5 for k in u[1:]]
        negatives = [u[0][i] @ k[j] / 0.5 for k in u[1:] for j in range(5) if j != i]
        everything = torch.stack([*positives, *negatives]).logsumexp(0)
        torch.testing.assert_close(value[i], torch.stack([everything - p for p in positives]).mean())


def test_encoder_of_a_network_is_what_is_probed():
    net = Network(encoder("convnet", 1, 8), head("linear", 128))
    assert net(torch.zeros(2, 1, 8, 8)).shape == (2, 128)
