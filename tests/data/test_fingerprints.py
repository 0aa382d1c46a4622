"""One changed byte of a set is another set; a fingerprint of an earlier version says less, and is believed as far."""

import zlib

import numpy as np
import pytest

from isotherm.data.fingerprints import checksum, same
from isotherm.data.sentences import load_sentences
from isotherm.train.commandline import configure
from isotherm.train.modality import ImageModality


def test_a_checksum_is_that_of_all_bytes():
    assert checksum([b"ab", memoryview(b"cd")]) == f"{zlib.crc32(b'abcd'):08x}"


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("a.1", "a.1", True),
        ("a.1", "a.2", False),
        ("a", "a.2", True),
        ("b", "a", False),
        ("a.1-b.2", "a.1-b", True),
        ("a.1-b.2", "a.1-b.3", False),
        ("a", "a-b", False),
    ],
)
def test_fingerprints_are_compared_as_far_as_both_say(one, other, expected):
    assert same(one, other) is same(other, one) is expected


def test_a_pixel_that_no_sample_sees_is_noticed(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (2000, 64, 64, 3), dtype=np.uint8)
    path = tmp_path / "set.npz"

    def fingerprint():
        arrays = {"train_images": pixels, "train_labels": np.arange(2000) % 10}
        np.savez(path, **arrays, test_images=pixels[:10], test_labels=np.arange(10))
        return ImageModality.of(configure({"data": f"arrays:{path}"})).fingerprint()

    before = fingerprint()
    pixels[1] ^= 1  # the sample is of every sixth image
    after = fingerprint()
    assert before.partition(".")[0] == after.partition(".")[0]
    assert not same(before, after)


def test_a_sentence_that_no_sample_sees_is_noticed(tmp_path):
    lines = [
        f"this is sentence number {i:06d} of a text that is longer than what is sampled of it" for i in range(80_000)
    ]
    path = tmp_path / "text.txt"
    path.write_text("\n".join(lines))
    before = load_sentences(f"text:{path}").fingerprint()
    lines[1] = lines[1].replace("sentence", "SENTENCE")
    path.write_text("\n".join(lines))
    assert not same(before, load_sentences(f"text:{path}").fingerprint())
