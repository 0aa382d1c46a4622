"""CLIP: open_clip's losses as formulas, CACR with K captions as loops, both towers in parts and on two processes."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn as torch_nn
from torch.nn.functional import logsigmoid, normalize

import processes
from isotherm import nn, world
from isotherm.encoders.towers import Locked, Projections, Towers
from isotherm.losses import catalogue
from isotherm.methods import Given, method
from isotherm.methods.clip import PairNetwork, image_text
from isotherm.temperature import Cosine, Learnable
from isotherm.train.averaging import Averaging
from isotherm.train.step import split
from isotherm.types import Batch

N, K, WIDTH = 9, 3, 5


class Words(torch_nn.Module):
    """Token numbers (N, T) to features: the mean of their vectors."""

    def __init__(self, width=7):
        super().__init__()
        self.vectors, self.width = torch_nn.Embedding(12, width), width

    def forward(self, tokens):
        return torch.tanh(self.vectors(tokens)).mean(1)


def towers(lock="none"):
    torch.manual_seed(0)
    image = torch_nn.Sequential(
        torch_nn.Conv2d(3, 6, 2), torch_nn.Tanh(), torch_nn.AdaptiveAvgPool2d(1), torch_nn.Flatten()
    )
    image.width = 6
    return Towers(image, Words(), lock)


def head(features):
    layer = torch_nn.Linear(features, WIDTH)
    layer.width = WIDTH
    return layer


def network(lock="none"):
    both = towers(lock)
    return PairNetwork(both, Projections(*(head(width) for width in both.widths))).double()


def batch(captions=1, n=N, seed=1):
    chance = torch.Generator().manual_seed(seed)
    images = torch.randn(n, 3, 4, 4, dtype=torch.float64, generator=chance)
    words = [torch.randint(0, 12, (n, 4), generator=chance) for _ in range(captions)]
    return Batch([images, *words], torch.full((n,), -1), torch.arange(n))


def part(whole, mine):
    return Batch([v[mine] for v in whole.views], whole.labels[mine], whole.indices[mine])


def clip(loss, captions=1, lock="none", **settings):
    result = method("clip", network(lock), loss, Given(WIDTH, views=1 + captions), lock=lock, **settings).double()
    result.at(0, 10)
    return result


def embeddings(captions=1, n=N):
    torch.manual_seed(3)
    return [torch.randn(n, WIDTH, dtype=torch.float64) for _ in range(1 + captions)]


def test_infonce_is_open_clips_loss():
    x, y = embeddings()
    scale = 1 / 0.07
    logits = scale * normalize(x, dim=1) @ normalize(y, dim=1).T
    target = torch.arange(N)
    cross_entropy = torch_nn.functional.cross_entropy
    expected = (cross_entropy(logits, target) + cross_entropy(logits.T, target)) / 2
    value = image_text(nn.InfoNCELoss(0.07), x, [y])
    torch.testing.assert_close(value, expected, rtol=1e-9, atol=1e-12)
    assert image_text(nn.InfoNCELoss(Learnable(0.07)), x, [y]).item() == pytest.approx(expected.item(), rel=1e-6)


def test_siglip_is_open_clips_loss():
    x, y = embeddings()
    scale, bias = 10.0, -10.0
    logits = scale * normalize(x, dim=1) @ normalize(y, dim=1).T + bias
    signs = 2 * torch.eye(N, dtype=torch.float64) - 1
    expected = -logsigmoid(signs * logits).sum() / N
    value = image_text(nn.SigLIPLoss(0.1, -10.0, learnable=False), x, [y])
    torch.testing.assert_close(value, expected, rtol=1e-9, atol=1e-12)


def cacr_by_loops(x, captions, t_pos, t_neg):
    """Eq. 2–5 both ways: an image among the other images' captions, a caption among the other captions' images."""
    x, captions = normalize(x, dim=1).numpy(), [normalize(c, dim=1).numpy() for c in captions]

    def value(query, positives, negatives):
        near = np.array([((query - p) ** 2).sum() for p in positives])
        far = np.array([((query - m) ** 2).sum() for m in negatives])
        pull, push = np.exp(t_pos * near), np.exp(-t_neg * far)
        return (pull / pull.sum() * near).sum() - (push / push.sum() * far).sum()

    asked, answered = [], []
    for i in range(len(x)):
        asked.append(value(x[i], [c[i] for c in captions], [c[j] for c in captions for j in range(len(x)) if j != i]))
        answered += [value(c[i], [x[i]], [x[j] for j in range(len(x)) if j != i]) for c in captions]
    return (np.mean(asked) + np.mean(answered)) / 2


@pytest.mark.parametrize("captions", [1, K])
def test_cacr_both_ways_is_the_papers_equation(captions):
    x, *texts = embeddings(captions)
    value = image_text(nn.CACRLoss(t_pos=1.5, t_neg=2.5), x, texts)
    assert value.item() == pytest.approx(cacr_by_loops(x, texts, 1.5, 2.5), rel=1e-10)


def test_dystress_temperatures_and_several_captions():
    x, *texts = embeddings(K)
    tau = Cosine(0.07, 0.2)
    one = [nn.InfoNCELoss(tau)(x, y) for y in texts]
    torch.testing.assert_close(image_text(nn.InfoNCELoss(tau), x, texts), torch.stack(one).mean())
    s = normalize(x, dim=1) @ normalize(texts[0], dim=1).T
    energy = s / tau(s)
    both = (energy.logsumexp(1) - energy.diagonal()).mean() + (energy.logsumexp(0) - energy.diagonal()).mean()
    value = image_text(nn.DySTreSSLoss(0.07, 0.2), x, texts[:1])
    torch.testing.assert_close(value, both / 2, rtol=1e-9, atol=1e-12)


def test_the_own_pairing_of_cacr_takes_negatives_of_the_query_s_modality():
    x, y = embeddings()
    loss = nn.CACRLoss()
    torch.testing.assert_close(image_text(loss, x, [y], "own"), loss(x, y))
    assert image_text(loss, x, [y]) != loss(x, y)


@pytest.mark.parametrize("captions", [1, K])
def test_every_loss_that_is_not_refused_gives_a_finite_gradient(captions):
    tried = set()
    for entry in catalogue.losses():
        try:
            m = clip(entry.loss(), captions)
        except ValueError:
            continue
        value = m.compare(batch(captions))
        value.backward()
        assert torch.isfinite(value), entry.name
        assert all(torch.isfinite(p.grad).all() for p in m.network.parameters()), entry.name
        tried.add(entry.name)
    wanted = {"InfoNCELoss", "SigLIPLoss", "CACRLoss", "DySTreSSLoss", "MACLLoss", "DCLLoss", "HardNegativeLoss"}
    assert wanted <= tried
    assert "SupConLoss" not in tried


def gradients(m):
    return {name: p.grad.clone() for name, p in m.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("loss", [nn.InfoNCELoss(Learnable(0.1)), nn.CACRLoss(), nn.SigLIPLoss()], ids=repr)
def test_parts_give_the_gradient_of_the_whole(loss):
    whole = clip(loss, K)
    whole.compare(batch(K)).backward()
    expected = gradients(whole)
    whole.zero_grad()
    pieces = split(batch(K), 4)
    with torch.no_grad():
        first = [whole.embed(piece) for piece in pieces]
    together = [torch.cat(column).requires_grad_() for column in zip(*first, strict=True)]
    whole.objective(together, [], batch(K)).backward()
    counts = [len(piece.indices) for piece in pieces]
    for i, piece in enumerate(pieces):
        torch.autograd.backward(whole.embed(piece), [z.grad.split(counts)[i] for z in together])
    torch.testing.assert_close(gradients(whole), expected, rtol=1e-9, atol=1e-12)


CASES = {
    "clip": lambda: clip(nn.InfoNCELoss(Learnable(0.1))),
    "siglip, three captions": lambda: clip(nn.SigLIPLoss(), K),
    "cacr, three captions": lambda: clip(nn.CACRLoss(), K),
    "cacr, own negatives": lambda: clip(nn.CACRLoss(), K, pairing="own"),
    "dystress": lambda: clip(nn.DySTreSSLoss()),
    "macl": lambda: clip(nn.MACLLoss(), K),
    "dcl": lambda: clip(nn.DCLLoss()),
    "hard negatives": lambda: clip(nn.HardNegativeLoss(), K),
    "locked": lambda: clip(nn.InfoNCELoss(0.1), lock="image"),
}
SPLIT = (4, 5)


def steps(case, mine=slice(None)):
    m = CASES[case]()
    learning = [p for p in m.parameters() if p.requires_grad]
    averaging = Averaging(learning)
    values = []
    for step in range(3):
        m.zero_grad()
        m.at(step, 3)
        value = m.compare(part(batch(m.captions, seed=step), mine))
        with averaging.during_backward():
            value.backward()
        values.append(value.detach())
        with torch.no_grad():
            for p in learning:
                p.sub_(p.grad, alpha=0.1)
    return values, dict(m.state_dict())


def process(rank, folder):
    world.join(rank, 2, Path(folder) / "meet")
    start = sum(SPLIT[:rank])
    mine = slice(start, start + SPLIT[rank])
    x, y = embeddings()
    formulas = [
        image_text(nn.InfoNCELoss(0.07), x[mine], [y[mine]]),
        image_text(nn.SigLIPLoss(0.1, -10.0, learnable=False), x[mine], [y[mine]]),
    ]
    torch.save(({case: steps(case, mine) for case in CASES}, formulas), Path(folder) / f"{rank}.pt")
    world.leave()


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    folder = tmp_path_factory.mktemp("processes")
    processes.two(process, str(folder))
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]


@pytest.mark.parametrize("case", CASES)
def test_two_processes_are_one(case, two):
    one = steps(case)
    for each, _ in two:
        torch.testing.assert_close(each[case], one, rtol=1e-9, atol=1e-12)


def test_open_clips_losses_on_two_processes(two):
    x, y = embeddings()
    s = normalize(x, dim=1) @ normalize(y, dim=1).T
    target = torch.arange(N)
    cross_entropy = torch_nn.functional.cross_entropy
    signs = 2 * torch.eye(N, dtype=torch.float64) - 1
    expected = [
        (cross_entropy(s / 0.07, target) + cross_entropy(s.T / 0.07, target)) / 2,
        -logsigmoid(signs * (10 * s - 10)).sum() / N,
    ]
    for _, formulas in two:
        torch.testing.assert_close([f.detach() for f in formulas], expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("lock", ["image", "text", "both"])
def test_a_locked_tower_is_in_no_checkpoint_and_does_not_move(lock):
    m = clip(nn.InfoNCELoss(0.1), lock=lock)
    names = {name.split(".")[2] for name in m.state_dict() if name.startswith("network.encoder")}
    sides = {"image", "text"} if lock == "both" else {lock}
    for side in sides:
        tower = getattr(m.network.encoder, side)
        assert isinstance(tower, Locked)
        assert list(tower.state_dict()) == ["digest"]
        assert not list(tower.parameters())
    assert names == {"image", "text"}
    m.train()
    before = m.network.encoder.image(batch().views[0])
    m.compare(batch()).backward()
    optimizer = torch.optim.SGD([p for p in m.parameters() if p.requires_grad], 1.0)
    optimizer.step()
    after = m.network.encoder.image(batch().views[0])
    assert torch.equal(before, after) == (lock != "text")


def test_features_of_a_locked_tower_stand_for_its_images():
    m = clip(nn.InfoNCELoss(0.1), lock="both")
    whole = batch()
    features = [m.network.encoder.image(whole.views[0]), m.network.encoder.text(whole.views[1])]
    torch.testing.assert_close(m.compare(whole), m.compare(whole._replace(views=features)))


def test_other_weights_than_a_run_was_trained_with_are_refused():
    state = clip(nn.InfoNCELoss(0.1), lock="text").state_dict()
    other = clip(nn.InfoNCELoss(0.1), lock="text")
    other.load_state_dict(state)
    with torch.no_grad():
        other.network.encoder.text_encoder.vectors.weight.add_(0.1)
    other.network.encoder.text = Locked(other.network.encoder.text_encoder)
    with pytest.raises(ValueError, match="Words are not those this run was trained with"):
        other.load_state_dict(state)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: clip(nn.SupConLoss()), "needs labels, which captions are not"),
        (lambda: clip(nn.BYOLLoss()), "without a predictor"),
        (lambda: clip(nn.InfoNCELoss(), lock="images"), "did you mean 'image'"),
        (lambda: clip(nn.InfoNCELoss()).compare(batch(n=1)), "holds 1 pair, which has no negative"),
    ],
)
def test_mistakes(make, words):
    with pytest.raises(ValueError, match=words):
        make()
