"""The embedded digits."""

from isotherm.data.sets import load


def test_digits_are_embedded_and_split_for_good():
    train, test = load("digits"), load("digits", "test")
    assert (len(train), len(test)) == (1437, 360)
    assert train.shape == (1, 8, 8)
    assert int(train.pixels.max()) == 255
    assert sorted(train.ids.tolist() + test.ids.tolist()) == list(range(1797))
    assert test.ids[:5].tolist() == [3, 8, 10, 11, 19]
    assert min(test.counts()) >= 20
