"""FNC, NNCLR, TaU and iSogCLR against their papers as loops; what they remember; what they refuse."""

import math
import tempfile
from pathlib import Path

import pytest
import torch
import torch.multiprocessing as mp
from torch import nn as tnn
from torch.nn.functional import normalize

import processes
from isotherm import nn, world
from isotherm.engine import tile_size
from isotherm.losses.individual import robust, uncertain
from isotherm.losses.laws import Kept, LargestTensor
from isotherm.methods import Given, Network, method
from isotherm.pairing import in_batch
from isotherm.train import runs
from isotherm.train.averaging import Averaging
from isotherm.train.commandline import configure
from isotherm.train.config import Runtime
from isotherm.train.loop import train
from isotherm.types import Batch
from small_runs import SMALL, run, same, stopped_after_a_step, weights

WIDTH, ITEMS = 6, 20
EXACT = {"rtol": 1e-9, "atol": 1e-11}
NAMES = ("fnc", "nnclr", "tau", "isogclr")
SETTINGS = {"nnclr": {"queue": 11}, "isogclr": {"tau_min": 0.1, "temperature": 0.3, "eta": 0.1}}


def make(name, loss=None, predictor=True, items=ITEMS, **settings):
    torch.manual_seed(0)
    flat = tnn.Sequential(tnn.Flatten(), tnn.Linear(12, 8), tnn.Tanh())
    flat.width = 8
    predictor = tnn.Linear(WIDTH, WIDTH) if predictor else None
    given = Given(WIDTH, items=items, predictor=predictor)
    losses = {"fnc": nn.FNCLoss(0.2, top_k=3, threshold=0.0), "nnclr": nn.NTXentLoss(0.1)}
    loss = losses.get(name) if loss is None else loss
    built = method(name, Network(flat, tnn.Linear(8, WIDTH)), loss, given, **{**SETTINGS.get(name, {}), **settings})
    return built.double()


def batch(step=0, n=8, views=3):
    chance = torch.Generator().manual_seed(step)
    x = torch.randn(n, 3, 2, 2, generator=chance, dtype=torch.float64)
    noise = [0.3 * torch.randn(n, 3, 2, 2, generator=chance, dtype=torch.float64) for _ in range(views)]
    return Batch([x + v for v in noise], torch.zeros(n), torch.randperm(ITEMS, generator=chance)[:n])


def gradients(m, value):
    m.zero_grad()
    value.backward()
    return [p.grad.clone() for p in m.parameters() if p.grad is not None]


def unit(z):
    return normalize(z, dim=1)


# --- NNCLR --------------------------------------------------------------------------------------


def nnclr_by_hand(m, b, held, tau):
    """Algorithm 1 of the paper, an item at a time."""
    z = [unit(m.network(v)).detach() for v in b.views]
    p = [unit(m.predictor(m.network(v))) for v in b.views]
    total, count = 0.0, 0
    for a in range(2):
        for i in range(len(z[a])):
            if len(held):
                distances = [float((z[a][i] - q).norm()) for q in held]
                neighbour = held[distances.index(min(distances))]
            else:
                neighbour = z[a][i]
            logits = torch.stack([neighbour @ p[1 - a][k] / tau for k in range(len(z[a]))])
            total, count = total + torch.logsumexp(logits, 0) - logits[i], count + 1
    return total / count


def test_nnclr_is_its_algorithm_with_a_queue_that_is_empty_filling_and_full():
    m = make("nnclr", queue=20)
    held = []
    for step in range(4):
        b = batch(step, views=2)
        by_hand = nnclr_by_hand(m, b, held, 0.1)
        value = m.compare(b)
        torch.testing.assert_close(value, by_hand, **EXACT)
        torch.testing.assert_close(gradients(m, value), gradients(m, by_hand), **EXACT)
        assert int(m.held) == min(len(held), 20)
        held = [*held, *unit(m.network(b.views[0])).detach()][-20:]
        m.after_step()
        assert sorted(row.tolist() for row in m.queue[: int(m.held)]) == sorted(row.tolist() for row in held)


def test_nnclr_gives_its_neighbours_no_gradient():
    m, b = make("nnclr"), batch(views=2)
    m.compare(b)
    m.after_step()
    z = m.embed(b)
    assert not any(view.requires_grad for view in z[2:])
    assert all(p.requires_grad for p in z[:2])


def test_nnclr_says_when_its_queue_is_longer_than_the_data():
    assert "the queue of 64 embeddings is longer than the 20 items" in make("nnclr", queue=64).notes[0]
    assert "--method.queue 8 holds others" in make("nnclr", queue=64).notes[0]
    assert make("nnclr", queue=20).notes == ()


# --- FNC ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("cancel", ["attract", "eliminate"])
def test_fnc_with_a_queue_and_a_slow_copy_finds_false_negatives_by_the_keys(cancel):
    loss = nn.FNCLoss(0.2, cancel, top_k=3, threshold=-0.2)
    m, b = make("mocov2", loss, queue=9, every_view=True), batch(n=4)
    with torch.no_grad():
        for p in m.slow.network.parameters():
            p.mul_(0.8)
        m.queue.copy_(normalize(m.queue, dim=1))  # made in float32
    q, k = [unit(m.network(v)) for v in b.views], [unit(m.slow(v)) for v in b.views]
    values = []
    for a in range(3):
        for i in range(4):
            keys = [k[v][i] for v in range(3) if v != a]
            scores = [max(float(x @ row) for x in (q[a][i].detach(), *keys)) for row in m.queue]
            best = sorted(range(9), key=lambda j, scores=scores: -scores[j])[:3]
            false = [j for j in best if scores[j] > -0.2]
            e = (q[a][i] @ m.queue.T / 0.2).unbind()
            positives = [q[a][i] @ key / 0.2 for key in keys]
            if cancel == "attract":
                below, near = [*positives, *e], [*positives, *(e[j] for j in false)]
            else:
                below, near = [*positives, *(x for j, x in enumerate(e) if j not in false)], positives
            values.append(torch.stack(below).logsumexp(0) - torch.stack(near).mean())
    by_hand, value = torch.stack(values).mean(), m.compare(b)
    torch.testing.assert_close(value, by_hand, **EXACT)
    torch.testing.assert_close(gradients(m, value), gradients(m, by_hand), **EXACT)


# --- TaU ----------------------------------------------------------------------------------------


def tau_by_hand(m, b, tau):
    features = [m.network.encoder(v) for v in b.views]
    z = torch.cat([unit(m.network.head(h)) for h in features])
    certainty = torch.cat([1 / (1 + torch.exp(-m.certainty(h)[:, 0])) for h in features])
    n, views = len(b.indices), len(b.views)
    values = []
    for i in range(views * n):
        logits = {k: z[i] @ z[k] * certainty[i] / tau for k in range(views * n) if k != i}
        below = torch.stack(list(logits.values())).logsumexp(0)
        positives = [logits[k] for k in logits if k % n == i % n]
        values.append(below - torch.stack(positives).mean())
    return torch.stack(values).mean()


@pytest.mark.parametrize("views", [2, 3])
def test_tau_is_nt_xent_at_the_temperature_that_the_network_predicts(views):
    m, b = make("tau", temperature=0.15), batch(views=views)
    value, by_hand = m.compare(b), tau_by_hand(m, b, 0.15)
    torch.testing.assert_close(value, by_hand, **EXACT)
    torch.testing.assert_close(gradients(m, value), gradients(m, by_hand), **EXACT)
    assert m.certainty.weight.grad.abs().sum() > 0


def test_tau_with_certainty_one_is_nt_xent():
    m, b = make("tau", temperature=0.2), batch()
    with torch.no_grad():
        m.certainty.weight.zero_()
        m.certainty.bias.fill_(50.0)
    torch.testing.assert_close(m.compare(b), nn.NTXentLoss(0.2)(*(m.network(v) for v in b.views)), **EXACT)


def test_uncertainty_is_the_temperature_of_a_view_and_leaves_the_method_as_it_was():
    m, b = make("tau", temperature=0.2), batch()
    m.train()
    x = b.views[0]
    expected = 0.2 * (1 + torch.exp(-m.certainty(m.network.encoder(x))[:, 0]))
    torch.testing.assert_close(m.uncertainty(x), expected.detach(), **EXACT)
    assert (m.uncertainty(x) > 0.2).all()
    assert m.training
    assert not m.uncertainty(x).requires_grad


# --- iSogCLR ------------------------------------------------------------------------------------


class ByHand:
    """iSogCLR an item at a time, with the state of every item in plain numbers."""

    def __init__(self, m):
        self.m, self.tau = m, dict.fromkeys(range(ITEMS), 0.3)
        self.u, self.v = {}, dict.fromkeys(range(ITEMS), 0.0)

    def step(self, b, gamma=0.8, beta=0.5, eta=0.1, rho=0.4, low=0.1, high=1.0):
        """The value, and an expression whose gradient is the estimator of the paper; then the state moves."""
        z = [unit(self.m.network(v)) for v in b.views]
        n, count = len(b.indices), len(z)
        value, surrogate, moved = 0.0, 0.0, {}
        for i, item in enumerate(b.indices.tolist()):
            averages, slopes = [], []
            for a in range(count):
                s = [z[a][i] @ z[c][j] for c in range(count) for j in range(n) if j != i]
                tau = self.tau[item]
                e = [math.exp(float(x.detach()) / tau) for x in s]
                g = sum(e) / len(e)
                u = (1 - gamma) * self.u[item] + gamma * g if item in self.u else g
                positive = sum(z[a][i] @ z[c][i] for c in range(count) if c != a) / (count - 1)
                value += float(tau * (math.log(u) + rho) - positive.detach())
                surrogate = surrogate + sum(w / u * x for w, x in zip(e, s, strict=True)) / len(e) - positive
                averages.append(u)
                slopes.append(
                    math.log(u) + rho - sum(w / u * float(x.detach()) / tau for w, x in zip(e, s, strict=True)) / len(e)
                )
            moved[item] = (sum(averages) / count, max(-3.0, min(3.0, sum(slopes) / count)))
        for item, (u, slope) in moved.items():
            self.u[item] = u
            self.v[item] = (1 - beta) * self.v[item] + beta * slope
            self.tau[item] = min(high, max(low, self.tau[item] - eta * self.v[item]))
        return value / (count * n), surrogate / (count * n)


@pytest.mark.parametrize("views", [2, 3])
def test_isogclr_follows_its_estimators_step_by_step(views):
    m = make("isogclr")
    m.temperatures.fill_(0.3)  # made in float32
    by_hand = ByHand(m)
    for step in range(4):
        b = batch(step, views=views)
        value, (expected, surrogate) = m.compare(b), by_hand.step(b)
        assert value.item() == pytest.approx(expected, abs=1e-9)
        torch.testing.assert_close(gradients(m, value), gradients(m, surrogate), **EXACT)
        m.after_step()
        for item in range(ITEMS):
            assert m.temperatures[item].item() == pytest.approx(by_hand.tau[item], abs=1e-9)
            assert m.slopes[item].item() == pytest.approx(by_hand.v[item], abs=1e-9)
            u = by_hand.u.get(item)
            assert m.log_masses[item].item() == (pytest.approx(math.log(u), abs=1e-9) if u else -math.inf)
    assert m.temperatures.unique().numel() > 5
    assert (m.temperatures >= 0.1 - 1e-7).all()


def test_isogclr_estimators_are_the_exact_gradients_of_the_objective_when_nothing_is_old():
    z = [v.double().requires_grad_() for v in torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(1))]
    tau = torch.linspace(0.2, 0.7, 12, dtype=torch.float64, requires_grad=True)
    (pairs,) = in_batch(z)
    fresh = robust(pairs, tau.detach(), torch.full((12,), -math.inf), 0.2, 0.8, 0.4)
    u = unit(torch.cat(z))
    s = u @ u.T
    i = torch.arange(12)
    negatives = s[(i[:, None] - i) % 6 != 0].view(12, 10)
    dense = tau * ((negatives / tau[:, None]).exp().mean(1).log() + 0.4) - s[i, (i + 6) % 12]
    torch.testing.assert_close(fresh.value, dense.detach(), **EXACT)
    wanted = torch.autograd.grad(dense.sum(), [*z, tau], retain_graph=True)
    torch.testing.assert_close(torch.autograd.grad(fresh.value.sum(), z), wanted[:2], **EXACT)
    torch.testing.assert_close(fresh.slope, wanted[2], **EXACT)


def test_isogclr_state_is_part_of_the_state_dict():
    m = make("isogclr")
    m.compare(batch())
    m.after_step()
    other = make("isogclr")
    other.load_state_dict(m.state_dict())
    for name in ("temperatures", "log_masses", "slopes"):
        assert torch.equal(getattr(other, name), getattr(m, name))
    torch.testing.assert_close(other.compare(batch(1)), m.compare(batch(1)), rtol=0, atol=0)


# --- all of them --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_the_batch_and_its_tiles_do_not_matter(name):
    plain, shuffled, tiled = (make(name) for _ in range(3))
    order = torch.randperm(8, generator=torch.Generator().manual_seed(3))
    for step in range(2):
        b = batch(step)
        values = [plain.compare(b)]
        values.append(shuffled.compare(Batch([v[order] for v in b.views], b.labels, b.indices[order])))
        with tile_size(3):
            values.append(tiled.compare(b))
            values[-1].backward()
        torch.testing.assert_close(values[1], values[0], **EXACT)
        torch.testing.assert_close(values[2], values[0], **EXACT)
        for m in (plain, shuffled, tiled):
            m.after_step()


@pytest.mark.parametrize("name", ["tau", "isogclr", "nnclr"])
def test_nothing_of_the_size_of_all_pairs_is_made_or_kept(name):
    n, d, edge = 768, 4, 32
    m = make(name, items=n).float()
    if name == "nnclr":
        m.register_buffer("queue", unit(torch.randn(2 * n, d)))
        m.held.fill_(2 * n)
        m.recount()
    z = [torch.randn(n, d, requires_grad=True) for _ in range(2)]
    further = {"tau": [torch.randn(n, 1, requires_grad=True) for _ in range(2)], "nnclr": [v.detach() for v in z]}
    kept = Kept()
    with tile_size(edge), LargestTensor() as largest:
        with torch.autograd.graph.saved_tensors_hooks(kept.pack, lambda held: held.tensor):
            value = m.objective([*z, *further.get(name, [])], [], Batch(z, torch.zeros(n), torch.arange(n)))
        numbers = kept.numbers
        value.backward()
    assert numbers < 60 * n * d
    assert largest.entries <= edge * 2 * n + 8 * n * d


@pytest.mark.parametrize("tau", [0.001, 0.02, 100.0])
@pytest.mark.parametrize("kind", ["random", "identical", "opposite"])
def test_values_and_gradients_are_finite_at_the_extremes(tau, kind):
    a = torch.randn(6, 8, generator=torch.Generator().manual_seed(0))
    pair = {"random": (a, a.flip(0)), "identical": (torch.ones(6, 8), torch.ones(6, 8)), "opposite": (a, -a)}[kind]
    for dtype in (torch.float32, torch.bfloat16):
        z = [v.to(dtype).clone().requires_grad_() for v in pair]
        outputs = torch.tensor([-1e4, -90.0, -1.0, 0.0, 1.0, 1e4] * 2).requires_grad_()
        (pairs,) = in_batch(z)
        value = uncertain(pairs, torch.sigmoid(outputs), tau).mean()
        result = robust(pairs, torch.full((12,), tau), torch.full((12,), 1 / tau), tau, 0.8, 0.4)
        first = robust(pairs, torch.full((12,), tau), torch.full((12,), -math.inf), tau, 0.8, 0.4)
        for number in (value, result.value.mean(), first.value.mean()):
            grads = torch.autograd.grad(number, z, retain_graph=True)
            assert torch.isfinite(number)
            assert all(torch.isfinite(g).all() for g in grads)
        assert torch.isfinite(torch.autograd.grad(value, outputs)[0]).all()
        assert torch.isfinite(result.slope).all()
        assert torch.isfinite(result.log_mass).all()


def three_steps(m, mine):
    """Values, gradients and states of three steps on one process's part of each batch."""
    trace, averaging = [], Averaging([p for p in m.parameters() if p.requires_grad])
    for step in range(3):
        b = batch(step)
        m.at(step, 3)
        value = m.compare(Batch([v[mine] for v in b.views], b.labels[mine], b.indices[mine]))
        m.zero_grad()
        with averaging.during_backward():
            value.backward()
        m.after_step()
        trace += [value.detach(), *(p.grad.clone() for p in m.parameters() if p.grad is not None)]
        trace += [buffer.clone() for buffer in m.buffers()]
    return trace


def part(rank, split, folder):
    torch.set_num_threads(1)
    world.join(rank, len(split), Path(folder) / "meet")
    start = sum(split[:rank])
    traces = {name: three_steps(make(name), slice(start, start + split[rank])) for name in NAMES}
    torch.save(traces, Path(folder) / f"{rank}.pt")
    world.leave()


@pytest.fixture(scope="module", params=[(4, 4), (1, 7), (3, 2, 3)], ids=str)
def traces(request):
    """What one process and several made of three steps of each method."""
    split = request.param
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(part, args=(split, folder), nprocs=len(split), start_method=processes.METHOD)
        parts = [torch.load(Path(folder) / f"{rank}.pt", weights_only=True) for rank in range(len(split))]
    whole = {name: three_steps(make(name), slice(0, 8)) for name in NAMES}
    return whole, parts


@pytest.mark.parametrize("name", NAMES)
def test_two_and_three_processes_equal_one(name, traces):
    whole, parts = traces
    for one in parts:
        assert len(one[name]) == len(whole[name])
        for got, wanted in zip(one[name], whole[name], strict=True):
            torch.testing.assert_close(got, wanted, **EXACT)


REFUSED = [
    ("nnclr", {"loss": nn.BarlowTwinsLoss()}, "NNCLR compares with the predictions of its batch, but BarlowTwinsLoss"),
    ("nnclr", {"loss": nn.SupConLoss()}, "takes its positives and negatives from labels"),
    ("nnclr", {"predictor": False}, "NNCLR needs a predictor"),
    ("nnclr", {"queue": 0}, "the queue holds 1 embedding or more, got 0"),
    ("fnc", {"loss": nn.NTXentLoss()}, "'fnc' is FNCLoss in the batch.*use --method simclr for that loss"),
    ("tau", {"loss": nn.NTXentLoss()}, "'tau' has its own objective and takes no loss, got NTXentLoss"),
    ("tau", {"temperature": 0.0}, "temperature must be a positive number"),
    ("isogclr", {"loss": nn.DCLLoss()}, "'isogclr' has its own objective and takes no loss"),
    ("isogclr", {"items": 0}, "say how many there are"),
    ("isogclr", {"temperature": 2.0}, r"temperature must lie in \[0.1, 1.0\], got 2.0"),
    ("isogclr", {"gamma": 0.0}, r"gamma, the weight of what is new.* lies in \(0, 1\], got 0.0"),
    ("isogclr", {"tau_min": 3.0}, "tau_min must not exceed tau_max"),
]


@pytest.mark.parametrize(("name", "settings", "why"), REFUSED, ids=[f"{n}-{next(iter(s))}" for n, s, _ in REFUSED])
def test_what_makes_no_sense_is_refused_with_a_reason(name, settings, why):
    with pytest.raises(ValueError, match=why):
        make(name, **settings)


def test_isogclr_must_know_its_items_and_have_room_for_them():
    m, b = make("isogclr"), batch()
    with pytest.raises(ValueError, match=r"must know which 8 these are: .* shape \(8,\); got None"):
        m.compare(b._replace(indices=None))
    with pytest.raises(ValueError, match=r"got \(3,\)"):
        m.compare(b._replace(indices=torch.arange(3)))
    with pytest.raises(ValueError, match="items 18 to 25 came, and iSogCLR remembers 20"):
        m.compare(b._replace(indices=torch.arange(18, 26)))
    with pytest.raises(ValueError, match="items -1 to 6 came"):
        m.compare(b._replace(indices=torch.arange(-1, 7)))


def test_fnc_refuses_a_support_set_larger_than_the_views():
    m = make("fnc", nn.FNCLoss(support=8))
    with pytest.raises(ValueError, match=r"support=8 needs 10 views of each item.*got 3. Give 10 \(--views 10\)"):
        m.compare(batch())
    four = batch(views=4)
    some, more = (make("fnc", nn.FNCLoss(0.2, support=k, top_k=4, threshold=None)).compare(four) for k in (0, 2))
    assert some != more


def test_a_finished_run_tells_its_uncertainty_and_its_temperatures(tmp_path):
    run(tmp_path / "tau", method="tau")
    opened, tau = runs.open_run(tmp_path / "tau"), runs.open_method(tmp_path / "tau")
    x = opened.recipe.plain(opened.images.at(torch.arange(9)), 8)
    z = opened.network.encoder.eval()(x)
    weight, bias = weights(tmp_path / "tau")["certainty.weight"], weights(tmp_path / "tau")["certainty.bias"]
    expected = 0.1 * (1 + torch.exp(-(z @ weight.T + bias)[:, 0]))
    torch.testing.assert_close(tau.uncertainty(x), expected.detach())
    run(tmp_path / "isogclr", method="isogclr")
    temperatures = runs.open_method(tmp_path / "isogclr").temperatures
    assert len(temperatures) == 512
    assert temperatures.unique().numel() > 100
    assert temperatures.min() >= 0.05
    assert temperatures.max() <= 1


def test_nnclr_asks_at_a_temperature_of_a_tenth_unless_told_otherwise():
    assert configure({"method": "nnclr"}).loss.settings["temperature"] == 0.1
    assert configure({"method": "nnclr", "loss.temperature": 0.3}).loss.settings["temperature"] == 0.3
    assert configure({"method": "nnclr", "loss": "DCLLoss"}).loss.name == "DCLLoss"


@pytest.mark.parametrize("more", [{"method": "nnclr", "method.queue": 300}, {"method": "isogclr"}, {"method": "tau"}])
def test_a_run_that_was_stopped_resumes_to_the_same_weights_and_memory(more, tmp_path):
    settings = {**SMALL, **more}
    stopped_after_a_step(tmp_path / "a", settings)
    train(configure(settings), Runtime(out=tmp_path / "a", resume=True, quiet=True))
    run(tmp_path / "b", **more)
    assert same(weights(tmp_path / "a"), weights(tmp_path / "b"))
