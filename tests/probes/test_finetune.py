"""Fine-tuning learns, weighs classes, and leaves the given encoder alone."""

import copy
from dataclasses import replace

import pytest
import torch
from sklearn.metrics import accuracy_score, balanced_accuracy_score, roc_auc_score

from isotherm.data.imbalance import fraction, long_tail
from isotherm.data.loaders.images import Loader
from isotherm.probes import finetune, kept
from isotherm.probes.finetune import finetuned
from probed import DIGITS, TEST, TRAIN, network, same_state, state


@pytest.mark.slow
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
    found = finetune(network(), train, test, DIGITS, "balanced", epochs=3)
    negative, positive = train.counts()
    assert found.settings["lr"] == 1.0
    assert found.settings["class_weights"] == pytest.approx([1, negative / positive])
    assert found.top5 is None
    assert len(found.per_class) == 2


def test_balanced_class_weights_favour_the_tail():
    tail = long_tail(TRAIN, 0.05)
    found = finetune(network(), tail, TEST, DIGITS, "balanced", epochs=1)
    counts = tail.counts()
    assert found.settings["class_weights"] == pytest.approx([max(counts) / c for c in counts])


def test_classes_weigh_the_same_unless_told_and_the_paper_s_medical_sets_have_names():
    tail = long_tail(TRAIN, 0.05)
    assert finetune(network(), tail, TEST, DIGITS, epochs=1).settings["class_weights"] == [1] * 10
    four = replace(TRAIN, labels=TRAIN.labels % 4, classes=("a", "b", "c", "d"))
    asked = replace(TEST, labels=TEST.labels % 4, classes=four.classes)
    chaoyang = finetune(network(), four, asked, DIGITS, "chaoyang", epochs=1)
    assert chaoyang.settings["class_weights"] == pytest.approx([1.264, 1.667, 1.0, 2.114])
    with pytest.raises(ValueError, match="for each of the 10 classes, got 2"):
        finetune(network(), TRAIN, TEST, DIGITS, "mhist", epochs=1)


def by_hand(body, train, test, recipe, epochs, rate, weights, seed=0):
    """DySTreSS A.2 as a plain loop: the loader's batches, one linear layer, SGD, two steps of the rate."""
    body = copy.deepcopy(body)
    torch.manual_seed(seed)
    width = body.eval()(recipe.plain(train.at(torch.arange(2)))).shape[1]
    classes = len(train.classes)
    head = torch.nn.Linear(width, 1 if classes == 2 else classes)
    body.train()
    every = [*body.parameters(), *head.parameters()]
    for epoch in range(epochs):
        lr = rate * (0.1 if epoch >= round(0.6 * epochs) else 1) * (0.1 if epoch >= round(0.8 * epochs) else 1)
        for views, labels, _ in Loader(train, recipe, 32, seed=seed, drop_last=False).epoch(epoch):
            out = head(body(views[0]))
            if classes == 2:
                p = out[:, 0].sigmoid()
                each = -(weights[1] / weights[0] * labels * p.log() + (1 - labels) * (1 - p).log())
                loss = each.mean()
            else:
                picked = out.log_softmax(1)[torch.arange(len(labels)), labels]
                loss = -(picked * weights[labels]).sum() / weights[labels].sum()
            for p, g in zip(every, torch.autograd.grad(loss, every), strict=True):
                p.data -= lr * g
    with torch.no_grad():
        return head(body.eval()(recipe.plain(test.at(torch.arange(len(test))))))


@pytest.mark.parametrize("classes", [2, 10])
def test_fine_tuning_is_the_loop_written_by_hand(classes):
    def relabelled(images):
        return replace(images, labels=images.labels % classes, classes=tuple(map(str, range(classes))))

    train, test = relabelled(fraction(TRAIN, 128)), relabelled(TEST)
    weights = torch.linspace(1, 2, classes)
    found, logits = finetuned(network(), train, test, DIGITS, weights.tolist(), 5, 32, lr=0.05)
    expected = by_hand(network(), train, test, DIGITS, 5, 0.05, weights)
    if classes == 2:
        expected = torch.cat([torch.zeros_like(expected), expected], 1)
    assert torch.allclose(logits, expected, atol=2e-4)
    assert found.accuracy == pytest.approx(accuracy_score(test.labels, expected.argmax(1)), abs=2 / len(test))
    assert found.balanced == pytest.approx(balanced_accuracy_score(test.labels, logits.argmax(1)))
    p = logits.double().softmax(1).numpy()
    area = roc_auc_score(test.labels, p[:, 1]) if classes == 2 else roc_auc_score(test.labels, p, multi_class="ovr")
    assert found.auc == pytest.approx(area)


class Interrupted(Exception):
    pass


def test_what_is_interrupted_goes_on_to_the_same_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "PAUSE", 0.0)
    train, how = fraction(TRAIN, 96), {"epochs": 3, "batch": 32, "lr": "search", "weight_decay": (0.0, 1e-2)}
    expected, logits = finetuned(network(), train, TEST, DIGITS, **how)
    file, epochs = tmp_path / "state.pt", []
    save = kept.Kept.save

    def stops(self, name, parts, epoch):
        save(self, name, parts, epoch)
        epochs.append(name)
        if len(epochs) in (5, 9, 20):  # in the search and at the end
            raise Interrupted

    monkeypatch.setattr(kept.Kept, "save", stops)
    for _ in range(3):
        with pytest.raises(Interrupted):
            finetuned(network(), train, TEST, DIGITS, keep=file, **how)
    assert file.exists()
    found, again = finetuned(network(), train, TEST, DIGITS, keep=file, **how)
    assert len(epochs) == 3 * 7  # six ways and the one that is taken, no epoch twice
    assert found == expected
    assert torch.equal(again, logits)
    assert not file.exists()


def test_a_state_of_another_fine_tuning_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "PAUSE", 0.0)
    file, train = tmp_path / "state.pt", fraction(TRAIN, 64)
    monkeypatch.setattr(kept.Kept, "done", lambda self: None)
    finetune(network(), train, TEST, DIGITS, epochs=1, keep=file)
    with pytest.raises(ValueError, match="other settings or data"):
        finetune(network(), train, TEST, DIGITS, epochs=2, keep=file)
    other = replace(DIGITS, views=tuple(replace(view, flip=1 - view.flip) for view in DIGITS.views))
    with pytest.raises(ValueError, match="other settings or data"):  # of the same name
        finetune(network(), train, TEST, other, epochs=1, keep=file)
    file.write_bytes(b"nothing")
    with pytest.raises(ValueError, match="damaged"):
        finetune(network(), train, TEST, DIGITS, epochs=1, keep=file)


def test_the_search_does_not_look_at_the_test_part():
    train = fraction(TRAIN, 96)
    how = {"epochs": 3, "batch": 32, "lr": "search"}
    shuffled = replace(TEST, labels=TEST.labels[torch.randperm(len(TEST), generator=torch.Generator().manual_seed(0))])
    a, b = (finetune(network(), train, test, DIGITS, **how) for test in (TEST, shuffled))
    assert a.settings["lr"] == b.settings["lr"]
    assert a.settings["searched"] == 3
    assert a.auc > b.auc + 0.2  # it was asked of other labels


def several(images):
    """Digits as what they show: even, above four, three."""
    shown = {"even": images.labels % 2 == 0, "large": images.labels > 4, "three": images.labels == 3}
    columns = {name: column.long() for name, column in shown.items()}
    columns["three"][::7] = -1  # nobody knows
    return replace(images, labels=torch.full_like(images.labels, -1), classes=tuple(columns), more_labels=columns)


def test_images_that_show_several_classes_have_a_logit_for_each():
    train, test = several(fraction(TRAIN, 400)), several(TEST)
    found, logits = finetuned(network(), train, test, DIGITS, None, 4, 32, lr=0.3)
    assert logits.shape == (len(test), 3)
    assert found.settings["head"] == "multi-label"
    assert found.auc > 0.85
    weighed = finetune(network(), train, test, DIGITS, "balanced", 1, 32)
    shown = (train.more_labels["three"] == 1).sum() / (train.more_labels["three"] == 0).sum()
    assert weighed.settings["class_weights"][2] == pytest.approx(float(1 / shown))
