"""The papers' linear protocols, to the letter and on fresh views."""

import pytest
import torch
import torch.nn.functional as F

from isotherm.data.imbalance import fraction
from isotherm.encoders import encoder
from isotherm.probes import (
    PROTOCOLS,
    features_of,
    follow,
    follow_augmented,
    linear,
    protocol,
)
from isotherm.views import recipe
from probed import DIGITS, GIVEN, TEST, TRAIN, XT, YT, X, Y, network, same_state, state


def test_protocols_are_the_papers():
    a, b, c = (PROTOCOLS[name] for name in ("wang-liu", "cacr-small", "cacr-large"))
    assert [a.rate(e) for e in (0, 39, 40, 60, 80, 99)] == pytest.approx([30, 30, 6, 1.2, 0.24, 0.24])
    assert [b.rate(e) for e in (0, 59, 60, 80)] == pytest.approx([1e-3, 1e-3, 2e-4, 4e-5])
    assert [c.rate(e) for e in (0, 60, 80)] == pytest.approx([30, 3, 0.3])
    assert [(p.epochs, p.batch, p.weight_decay) for p in (a, b, c)] == [(100, 128, 0), (100, 128, 0), (100, 256, 0)]
    made = b.make(torch.nn.Linear(2, 2)).defaults
    assert (made["betas"], made["eps"]) == ((0.5, 0.999), 1e-8)
    assert c.make(torch.nn.Linear(2, 2)).defaults["momentum"] == a.momentum == 0.9
    simclr, lightly = PROTOCOLS["simclr"], PROTOCOLS["lightly"]
    assert [(p.epochs, p.batch, p.lr, p.momentum, p.weight_decay) for p in (simclr, lightly)] == [
        (90, 4096, 0.1 * 4096 / 256, 0.9, 0),
        (90, 256, 0.1, 0.9, 0),
    ]
    assert [lightly.rate(e) for e in (0, 45, 90)] == pytest.approx([0.1, 0.05, 0])  # half a cosine
    assert (simclr.make(torch.nn.Linear(2, 2)).defaults["nesterov"], lightly.nesterov) == (True, False)
    assert protocol("wang-liu").shortened(10).milestones == (4, 6, 8)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(PROTOCOLS))
def test_protocols_reach_what_the_exact_probe_reaches(name):
    how = protocol(name)
    # Features of the size that the learning rate is for: 30 wants them short, others as ResNets have them.
    parts = (3 * X, Y, 3 * XT, YT) if how.lr < 30 else (F.normalize(X), Y, F.normalize(XT), YT)
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


def test_the_probed_layer_is_used_where_it_is_not_the_last():
    torch.manual_seed(0)
    body = encoder("small_alexnet", channels=1, size=16, width=4)
    small = recipe("digits", views=1, size=16)
    found = follow_augmented(protocol("cacr-small").shortened(1), body, fraction(TRAIN, 60), fraction(TEST, 20), small)
    assert found.settings["layer"] == "fc7"
    assert features_of(body, fraction(TEST, 20), small, layer="fc7").shape == (20, 4096)
