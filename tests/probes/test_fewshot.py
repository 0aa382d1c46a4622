"""Few labels, several seeds."""

import json
import math

import numpy as np
import pytest

from isotherm.probes import (
    few_shot,
    few_shot_finetune,
)
from probed import DIGITS, GIVEN, TEST, TRAIN, network


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


def test_few_shot_finetuning_draws_images():
    found = few_shot_finetune(network(), TRAIN, TEST, DIGITS, per_class=2, seeds=(0, 1), epochs=2)
    assert found.n == 2
    assert found.scores[0].seed == 0
    assert found.settings == {"per_class": 2, "epochs": 2}
