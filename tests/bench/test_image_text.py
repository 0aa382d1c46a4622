"""`isotherm bench image-text` at a tiny size: what it compares are the same towers, and its bars can be missed."""

import pytest

pytest.importorskip("transformers", reason="the extra 'text' is not installed")

from dataclasses import replace

from isotherm.bench import image_text

TINY = image_text.Size("convnet", 16, 8, {"width": 16, "layers": 1, "heads": 2}, 1024)


def test_a_step_of_every_loss_is_timed_against_the_towers_alone():
    result = image_text.run(1, lambda stage, what: None, TINY)
    assert set(result.seconds) == {image_text.ALONE, *image_text.LOSSES}
    assert min(result.seconds.values()) > 0
    assert set(result.memory) == set(image_text.LOSSES)
    names = [target.what for target in image_text.targets(result)]
    assert sum("a step over its towers" in name for name in names) == len(image_text.LOSSES)


def test_bars_are_kept_and_missed():
    alike = dict.fromkeys((image_text.ALONE, *image_text.LOSSES), 1.0)
    small = dict.fromkeys(image_text.LOSSES, (1000, 4000))
    kept = image_text.Result(TINY, alike, small)
    assert all(target.met for target in image_text.targets(kept))
    slow = replace(kept, seconds={**alike, "CACR": 1.06}, memory={**small, "SigLIP": (1000, 16_000)})
    assert [t.what.split(":")[0] for t in image_text.targets(slow) if not t.met] == ["CACR", "SigLIP"]
