"""Probes against scikit-learn and plain loops, the papers' protocols, and what no probe may do to an encoder."""

import copy
import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.neighbors import KNeighborsClassifier

from isotherm.data.imbalance import fraction, long_tail
from isotherm.data.probing import randbit
from isotherm.data.sets import load
from isotherm.encoders import ConvNet, encoder
from isotherm.probes import (
    PROTOCOLS,
    features_of,
    few_shot,
    few_shot_finetune,
    finetune,
    fit,
    follow,
    follow_augmented,
    knn,
    linear,
    protocol,
)
from isotherm.probes.knn import nearest
from isotherm.probes.scores import ranks, score, wilson
from isotherm.probes.splits import few_shot_split, held_out_split
from isotherm.views import recipe

TRAIN, TEST = load("digits"), load("digits", "test")
DIGITS = recipe("digits", views=1)
X, Y = TRAIN.pixels.flatten(1).float() / 255 + 0.01, TRAIN.labels
XT, YT = TEST.pixels.flatten(1).float() / 255 + 0.01, TEST.labels
GIVEN = (X, Y, XT, YT)
FEW = (X[:300], Y[:300], XT[:100], YT[:100])
KS = (1, 3, 10, 200)


def network(seed=0):
    torch.manual_seed(seed)
    return ConvNet(channels=1, widths=(16, 32, 64))


def state(module):
    return {name: value.clone() for name, value in module.state_dict().items()}


def same_state(module, before):
    after = module.state_dict()
    return all(torch.equal(after[name], value) for name, value in before.items())


def brute_force(weights, k, temperature=0.07):
    """Votes of the k nearest, one query after the other, in float64; the rank of the true class."""
    train, test = X.double().numpy(), XT.double().numpy()
    if weights != "l2":
        train, test = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (train, test))
    found = []
    for x, label in zip(test, YT.tolist(), strict=True):
        distance = np.linalg.norm(train - x, axis=1)
        near = np.argsort(distance, kind="stable")[:k]
        weight = {
            "cosine": lambda near=near, x=x: np.exp(train[near] @ x / temperature),
            "l2": lambda near=near, distance=distance: 1 / distance[near],
            "uniform": lambda near=near: np.ones(len(near)),
        }[weights]()
        votes = np.bincount(Y.numpy()[near], weight, minlength=10)
        found.append(int((votes > votes[label]).sum() + (votes[:label] == votes[label]).sum()))
    return np.array(found)


@pytest.mark.parametrize("weights", ["cosine", "l2", "uniform"])
def test_knn_is_the_vote_of_the_nearest_for_every_k_in_one_pass(weights):
    scores = knn(*GIVEN, ks=KS, weights=weights)
    assert list(scores) == list(KS)
    for k in KS:
        rank = brute_force(weights, k)
        assert scores[k].accuracy == (rank == 0).mean()
        assert scores[k].top5 == (rank < 5).mean()
        assert scores[k].settings["k"] == k
        assert scores[k].n == 360


def test_knn_is_that_of_scikit_learn():
    peers = {"l2": KNeighborsClassifier(10, weights="distance"), "uniform": KNeighborsClassifier(10, metric="cosine")}
    for weights, peer in peers.items():
        right = peer.fit(X.numpy(), Y.numpy()).predict(XT.numpy()) == YT.numpy()
        assert knn(*GIVEN, ks=[10], weights=weights)[10].accuracy == right.mean()


def test_neighbours_at_distance_zero_are_the_only_ones_that_count():
    train = torch.tensor([[1.0, 0.0], [1.0, 1e-4], [1.0, 2e-4], [5.0, 5.0]])
    labels = torch.tensor([1, 0, 0, 0])
    assert knn(train, labels, train[:1], labels[:1], ks=[3], weights="l2")[3].accuracy == 1
    # 2e-4 apart at a distance of 1e3 from the origin: the distances are not formed from their squares
    far = train.double() + 1e3
    assert knn(far, labels, far[:1], labels[:1], ks=[3], weights="l2")[3].accuracy == 1


def test_distances_do_not_overflow():
    for weights in ("l2", "cosine"):
        tiny = knn(X * 1e-30, Y, XT * 1e-30, YT, ks=[5], weights=weights)[5]
        huge = knn(X * 1e30, Y, XT * 1e30, YT, ks=[5], weights=weights)[5]
        assert tiny.accuracy == huge.accuracy == knn(*GIVEN, ks=[5], weights=weights)[5].accuracy
    assert knn(*GIVEN, ks=[20], temperature=1e-4)[20].accuracy == knn(*GIVEN, ks=[1])[1].accuracy


def test_the_first_of_equally_near_items_is_the_nearer_one():
    train = torch.ones(400, 3)
    labels = torch.cat([torch.tensor([2, 1]), torch.zeros(398, dtype=torch.int64)])
    scores = knn(train, labels, train[:1], torch.tensor([2]), ks=[1, 2, 100], weights="uniform")
    assert scores[1].accuracy == 1
    assert scores[2].accuracy == 0  # one vote each for 1 and 2: the lower class
    assert scores[100].accuracy == 0


def test_strips_of_the_least_height_find_the_same_neighbours():
    s = F.normalize(XT) @ F.normalize(X).T
    strips = list(nearest(F.normalize(XT), F.normalize(X), 30, strip=1))
    assert [rows.start for rows, _, _ in strips] == list(range(0, 360, 32))
    values = torch.cat([v for _, v, _ in strips])
    assert torch.allclose(values, s.sort(1, descending=True).values[:, :30], atol=1e-6)
    assert torch.allclose(s.gather(1, torch.cat([p for _, _, p in strips])), values, atol=1e-6)


def test_fit_is_the_optimum_scikit_learn_finds():
    x, y = X[:400].double(), Y[:400]
    for regularisation in (1e-1, 1e-3):
        found = fit(x, y, regularisation)
        z = ((x - found.mean) / found.scale).numpy()
        peer = LogisticRegression(C=1 / (regularisation * len(z)), tol=1e-10, max_iter=10_000).fit(z, y.numpy())
        np.testing.assert_allclose(found.weight.numpy(), peer.coef_, atol=1e-5)
        bias = found.bias.numpy() - found.bias.numpy().mean()  # the loss does not see a common part
        np.testing.assert_allclose(bias, peer.intercept_ - peer.intercept_.mean(), atol=1e-5)
        loss = F.cross_entropy(torch.from_numpy(z @ peer.coef_.T + peer.intercept_), y)
        value = float(loss) + regularisation / 2 * float(np.square(peer.coef_).sum())
        assert found.objective == pytest.approx(value, abs=1e-9)
        assert found.objective <= value + 1e-12


def test_fit_in_float32_reaches_the_same_objective():
    exact = fit(X[:400].double(), Y[:400], 1e-3).objective
    assert fit(X[:400], Y[:400], 1e-3).objective == pytest.approx(exact, abs=1e-6)  # rounding of float32


def test_features_are_standardised_and_constant_ones_do_not_matter():
    strange = torch.cat([X * torch.logspace(-3, 3, 64), torch.full((len(X), 1), 0.1)], 1)
    strange_test = torch.cat([XT * torch.logspace(-3, 3, 64), torch.full((len(XT), 1), 0.7)], 1)
    assert linear(strange, Y, strange_test, YT, 1e-2).accuracy == linear(*GIVEN, 1e-2).accuracy


def test_linear_chooses_a_regularisation_and_is_good():
    found = linear(*GIVEN)
    assert found.accuracy > 0.93
    assert found.seed == 0
    assert found.settings["regularisation"] in (1e-1, 1e-2, 1e-3, 1e-4)
    assert linear(*GIVEN) == found
    given = linear(*GIVEN, regularisation=0.5)
    assert given.seed is None
    assert given.settings == {"regularisation": 0.5}


def test_the_held_out_part_is_stratified_and_seeded():
    labels = torch.tensor([0] * 40 + [1] * 10 + [2] * 2 + [4])
    kept, held = held_out_split(labels, 0.1, seed=3)
    assert torch.bincount(labels[held], minlength=5).tolist() == [4, 1, 1, 0, 0]
    assert torch.equal(torch.cat([kept, held]).sort().values, torch.arange(len(labels)))
    assert torch.equal(held_out_split(labels, 0.1, seed=3)[1], held)
    assert not torch.equal(held_out_split(labels, 0.1, seed=4)[1], held)


def test_protocols_are_the_papers():
    a, b, c = (PROTOCOLS[name] for name in ("wang-liu", "cacr-small", "cacr-large"))
    assert [a.rate(e) for e in (0, 39, 40, 60, 80, 99)] == pytest.approx([30, 30, 6, 1.2, 0.24, 0.24])
    assert [b.rate(e) for e in (0, 59, 60, 80)] == pytest.approx([1e-3, 1e-3, 2e-4, 4e-5])
    assert [c.rate(e) for e in (0, 60, 80)] == pytest.approx([30, 3, 0.3])
    assert [(p.epochs, p.batch, p.weight_decay) for p in (a, b, c)] == [(100, 128, 0), (100, 128, 0), (100, 256, 0)]
    made = b.make(torch.nn.Linear(2, 2)).defaults
    assert (made["betas"], made["eps"], b.layer) == ((0.5, 0.999), 1e-8, "fc7")
    assert c.make(torch.nn.Linear(2, 2)).defaults["momentum"] == a.momentum == 0.9
    assert protocol("wang-liu").shortened(10).milestones == (4, 6, 8)


@pytest.mark.parametrize("name", list(PROTOCOLS))
def test_protocols_reach_what_the_exact_probe_reaches(name):
    how = protocol(name)
    # Features of the size that the learning rate is for: 30 wants them short, Adam's 0.001 longer.
    parts = (3 * X, Y, 3 * XT, YT) if how.optimizer == "adam" else (F.normalize(X), Y, F.normalize(XT), YT)
    found = follow(how, *parts)
    assert found.accuracy > linear(*GIVEN).accuracy - 0.02
    assert follow(how, *parts) == found
    assert found.settings["augmented"] is False


def test_augmented_protocol_recomputes_features_and_leaves_the_encoder_alone():
    body = network()
    body.train()
    before = state(body)
    some, asked = fraction(TRAIN, 300), fraction(TEST, 100)
    how = protocol("cacr-small").shortened(3)
    found = follow_augmented(how, body, some, asked, DIGITS)
    assert follow_augmented(how, body, some, asked, DIGITS) == found
    assert found.settings == {"epochs": 3, "augmented": True, "recipe": "digits", "layer": None}
    assert same_state(body, before)
    assert all(part.training for part in body.modules())
    assert all(p.grad is None for p in body.parameters())


def test_the_protocols_layer_is_used_where_there_is_one():
    torch.manual_seed(0)
    body = encoder("small_alexnet", channels=1, size=16, width=4)
    small = recipe("digits", views=1, size=16)
    found = follow_augmented(protocol("cacr-small").shortened(1), body, fraction(TRAIN, 60), fraction(TEST, 20), small)
    assert found.settings["layer"] == "fc7"
    assert features_of(body, fraction(TEST, 20), small, layer="fc7").shape == (20, 4096)


def test_features_are_of_plain_images_in_eval_mode():
    body = network()
    body.conv1.eval()
    modes = [part.training for part in body.modules()]
    before = state(body)
    found = features_of(body, TEST, DIGITS, batch=100)
    assert found.shape == (360, 64)
    assert found.dtype == torch.float32
    assert not found.requires_grad
    assert [part.training for part in body.modules()] == modes
    assert same_state(body, before)
    expected = copy.deepcopy(body).eval()(TEST.pixels.float() / 255).detach()
    assert torch.allclose(found, expected, atol=1e-6)
    assert features_of(body, TEST, DIGITS, size=16).shape == (360, 64)


def test_random_bits_are_features_too():
    bits = randbit(TEST, 3)
    plain = features_of(torch.nn.Flatten(), TEST, DIGITS)
    with_bits = features_of(torch.nn.Flatten(), bits, DIGITS)
    assert torch.equal(with_bits[:, :64], plain)
    code = sum(with_bits[:, 64 * (i + 1)].long() << i for i in range(3))
    assert torch.equal(code, bits.more_labels["randbit"])


def test_no_probe_can_send_a_gradient_into_its_features():
    body = network()
    live = body(TRAIN.pixels[:300].float() / 255)
    before = state(body)
    assert live.requires_grad
    asked = body.eval()(TEST.pixels[:100].float() / 255)
    knn(live, Y[:300], asked, YT[:100], ks=[1])
    linear(live, Y[:300], asked, YT[:100], 1e-2)
    follow(protocol("cacr-small").shortened(1), live, Y[:300], asked, YT[:100])
    assert same_state(body, before)
    assert all(p.grad is None for p in body.parameters())
    assert not fit(live, Y[:300], 1e-2).weight.requires_grad


def test_finetuning_learns_and_does_not_change_the_given_encoder():
    body = network()
    body.requires_grad_(False)
    before = state(body)
    some = fraction(TRAIN, 500)
    random = torch.get_rng_state()
    found = finetune(body, some, TEST, DIGITS, epochs=6, batch=32)
    assert torch.equal(torch.get_rng_state(), random)
    assert found.accuracy > 0.8
    assert found.settings["lr"] == 0.1
    assert same_state(body, before)
    assert not any(p.requires_grad for p in body.parameters())
    assert finetune(body, some, TEST, DIGITS, epochs=6, batch=32) == found
    assert finetune(body, some, TEST, DIGITS, epochs=6, batch=32, seed=1) != found


def test_two_classes_have_one_logit_and_a_weight_of_the_positive_one():
    def binary(images):
        return replace(images, labels=(images.labels == 3).long(), classes=("other", "three"))

    train, test = binary(fraction(TRAIN, 257)), binary(TEST)  # the last batch would be a single image
    found = finetune(network(), train, test, DIGITS, epochs=3)
    negative, positive = train.counts()
    assert found.settings["lr"] == 1.0
    assert found.settings["class_weights"] == pytest.approx([1, negative / positive])
    assert found.top5 is None
    assert len(found.per_class) == 2


def test_balanced_class_weights_favour_the_tail():
    tail = long_tail(TRAIN, 0.05)
    found = finetune(network(), tail, TEST, DIGITS, epochs=1)
    counts = tail.counts()
    assert found.settings["class_weights"] == pytest.approx([max(counts) / c for c in counts])
    assert finetune(network(), tail, TEST, DIGITS, None, epochs=1).settings["class_weights"] == [1] * 10


def test_few_shot_is_a_mean_over_seeds():
    found = few_shot(*GIVEN, per_class=5, seeds=(0, 1, 2))
    values = [s.accuracy for s in found.scores]
    assert found.mean == pytest.approx(np.mean(values))
    assert found.sd == pytest.approx(np.std(values, ddof=1))
    half = 4.302652729911275 * found.sd / math.sqrt(3)  # Student's t with 2 degrees of freedom
    assert found.interval == pytest.approx((found.mean - half, min(1, found.mean + half)))
    assert found.seeds == tuple(s.seed for s in found.scores) == (0, 1, 2)
    assert few_shot(*GIVEN, per_class=5, seeds=(0, 1, 2)) == found
    assert 0.3 < few_shot(*GIVEN, per_class=1, seeds=(0, 1)).mean < found.mean
    assert json.loads(json.dumps(found.as_dict()))["settings"] == {"per_class": 5}


def test_few_items_are_part_of_more():
    five, ten = (set(few_shot_split(Y, n, 0)[0].tolist()) for n in (5, 10))
    assert five < ten
    assert torch.bincount(Y[list(ten)]).tolist() == [10] * 10


def test_few_shot_finetuning_draws_images():
    found = few_shot_finetune(network(), TRAIN, TEST, DIGITS, per_class=2, seeds=(0, 1), epochs=2)
    assert found.n == 2
    assert found.scores[0].seed == 0
    assert found.settings == {"per_class": 2, "epochs": 2}


def test_scores_carry_what_is_needed_to_judge_them():
    scores = torch.tensor([[1.0, 2, 0], [0, 1, 2], [1, 1, 1], [3, 1, 2]])
    labels = torch.tensor([1, 2, 1, 2])
    rank = ranks(scores, labels)
    assert rank.tolist() == [0, 0, 1, 1]
    found = score("test", rank, labels, 3, seed=4, settings={"k": (1, 2)})
    assert (found.accuracy, found.n, found.seed) == (0.5, 4, 4)
    assert found.per_class == (None, 0.5, 0.5)
    assert found.balanced == 0.5
    assert json.loads(json.dumps(found.as_dict()))["settings"] == {"k": [1, 2]}
    assert "50.00 %" in str(found)


def test_balanced_accuracy_is_that_of_scikit_learn():
    labels = YT.clone()
    labels[labels > 6] = 6
    guess = torch.where(torch.arange(360) % 3 == 0, 0, labels)
    found = score("test", (guess != labels).long(), labels, 7, None)
    assert found.balanced == pytest.approx(balanced_accuracy_score(labels, guess))
    assert found.accuracy != found.balanced


def test_wilson_is_the_interval_whose_ends_just_admit_the_share():
    for hits, n in ((0, 10), (3, 10), (10, 10), (9321, 10_000)):
        low, high = wilson(hits, n)
        assert 0 <= low <= hits / n <= high <= 1
        for end in {low, high} - {0.0, 1.0}:  # by definition |p̂ − p| = z √(p(1 − p)/n)
            assert abs(hits / n - end) == pytest.approx(1.959963984540054 * math.sqrt(end * (1 - end) / n))


@pytest.mark.parametrize("probe", [lambda *g: knn(*g, ks=[1]), linear, lambda *g: follow("wang-liu", *g)])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({1: Y[:299]}, r"train_labels must hold one label per item, shape \(300,\); got \(299,\)"),
        ({3: YT[:5]}, r"test_labels must hold one label per item, shape \(100,\); got \(5,\)"),
        ({1: Y[:300].clamp_max(8)}, r"1 of the 10 classes are tested but not in the training part: 9"),
        ({1: Y[:300] * 0, 3: YT[:100] * 0}, "at least 2 classes"),
        ({1: Y[:300] - 1}, "train_labels holds -1: below 0 means unknown"),
        ({1: Y[:300].float()}, "train_labels must hold whole numbers, got torch.float32"),
        ({0: torch.full((300, 64), float("nan"))}, "train holds NaN or infinite features in 300 rows, first in row 0"),
        ({2: XT[:100] / 0}, "test holds NaN or infinite"),
        ({0: X[:300].long()}, "train must hold floating-point features, got torch.int64"),
        ({0: X[:300].numpy()}, r"train must be a tensor of features \(N, D\), got ndarray"),
        ({0: X[:0], 1: Y[:0]}, r"train holds no features: shape \(0, 64\)"),
        ({2: XT[:100, :5]}, "train has 64 features per item, test has 5"),
        ({2: XT[0]}, r"test must have shape \(N, D\)"),
    ],
)
def test_what_cannot_be_probed_is_said(probe, change, words):
    with pytest.raises((ValueError, TypeError), match=words):
        probe(*(change.get(i, part) for i, part in enumerate(FEW)))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: knn(*FEW, ks=[301]), "k = 301 neighbours are more than the 300 training items"),
        (lambda: knn(*FEW, ks=[]), "ks is empty"),
        (lambda: knn(*FEW, ks=[0]), "1 or more, got 0"),
        (lambda: knn(*FEW, ks=[2.0]), "whole number"),
        (lambda: knn(*FEW, ks=[1], weights="cosin"), "did you mean 'cosine'"),
        (lambda: knn(*FEW, ks=[1], temperature=0), "temperature must be a positive number"),
        (lambda: knn(X[:300] * 0, *FEW[1:], ks=[1]), "zero vectors"),
        (lambda: knn(*FEW, ks=[1], classes=9), "labels reach up to 9, but classes is 9"),
        (lambda: linear(*FEW, held_out=1.0), "between 0 and 1, got 1.0"),
        (lambda: linear(*FEW, regularisation=0), "regularisation must be a positive number"),
        (lambda: linear(X[:3], torch.arange(3), X[:3], torch.arange(3)), "every class has a single training item"),
        (lambda: protocol("wang-lui"), "did you mean 'wang-liu'"),
        (lambda: replace(protocol("wang-liu"), optimizer="sdg").make(torch.nn.Linear(1, 1)), "did you mean 'sgd'"),
        (lambda: follow(protocol("wang-liu").shortened(3), FEW[0] * 1e30, *FEW[1:]), "wang-liu, 3 epochs diverged"),
        (lambda: few_shot(*FEW, per_class=100), "cannot draw 100"),
        (lambda: few_shot(*FEW, per_class=0), "per_class must be 1 or more"),
        (lambda: few_shot(*FEW, per_class=1, seeds=[1]), "2 different seeds or more"),
        (lambda: finetune(network(), TRAIN, TEST, DIGITS, [1.0]), "for each of the 10 classes, got 1"),
        (lambda: finetune(network(), TRAIN, TEST, DIGITS, [0.0] * 10), "positive numbers"),
        (lambda: finetune(network(), TRAIN, TEST, DIGITS, "equal"), "'balanced', None or one number per class"),
        (lambda: features_of(network(), TEST, DIGITS, layer="fc7"), "has no layer 'fc7'"),
        (lambda: wilson(3, 2), "got 3 of 2"),
    ],
)
def test_bad_settings_are_said(call, words):
    with pytest.raises((ValueError, TypeError), match=words):
        call()
