"""Loader, probing sets and imbalance: pure functions of their seeds, exact counts, both labels."""

import json
import math
import threading
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from isotherm.data import imbalance, probing
from isotherm.data.catalogue import IMAGENET100
from isotherm.data.images import Images
from isotherm.data.loaders.images import Loader
from isotherm.views import recipe


def make_images(n=50, classes=5, channels=3, size=8, name="made up"):
    generator = torch.Generator().manual_seed(0)
    return Images(
        name,
        torch.randint(0, 256, (n, channels, size, size), dtype=torch.uint8, generator=generator),
        torch.arange(n) % classes,
        torch.arange(n) * 3 + 7,
        tuple(f"class {i}" for i in range(classes)),
    )


# --- images -------------------------------------------------------------------------------------


def test_a_subset_keeps_ids_labels_and_classes():
    images = make_images()
    part = images.subset(torch.tensor([4, 1, 9]), "three of them")
    assert part.ids.tolist() == [19, 10, 34]
    assert part.labels.tolist() == [4, 1, 4]
    assert part.classes == images.classes
    assert part.notes == ("three of them",)
    assert images.counts() == [10] * 5


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"pixels": torch.zeros(3, 3, 2, 2)}, "must be uint8"),
        ({"labels": torch.zeros(2, dtype=torch.int64)}, r"labels must be int64 \(3,\)"),
        ({"labels": torch.tensor([0, 1, 2])}, "labels reach from 0 to 2, but there are 2 classes"),
        ({"labels": torch.tensor([0, -2, 1])}, "reach from -2"),
        ({"more_labels": {"coarse": torch.zeros(3)}}, "coarse must be int64"),
    ],
)
def test_images_refuse_what_does_not_fit(change, words):
    good = {
        "name": "tiny",
        "pixels": torch.zeros(3, 3, 2, 2, dtype=torch.uint8),
        "labels": torch.tensor([0, 1, 0]),
        "ids": torch.arange(3),
        "classes": ("a", "b"),
    }
    with pytest.raises(ValueError, match=words):
        Images(**(good | change))
    with pytest.raises(ValueError, match="the subset is empty"):
        Images(**good).subset(torch.tensor([], dtype=torch.int64))


# --- loader -------------------------------------------------------------------------------------


def load(**settings):
    return Loader(make_images(), recipe("simclr-cifar"), **({"batch": 8, "seed": 3} | settings))


def test_an_epoch_deals_every_image_once():
    loader = load(drop_last=False)
    seen = torch.cat([b.indices for b in loader.epoch(2)])
    assert sorted(seen.tolist()) == list(range(50))
    assert len(loader) == 7
    assert len(load()) == 6
    assert sum(len(b.indices) for b in load().epoch(2)) == 48


def test_a_plain_loop_over_the_loader_is_one_epoch_and_the_next_time_the_next():
    loader = Loader(make_images(), recipe("none", 1), batch=10, seed=3)
    for epoch in range(3):
        seen = [batch.indices.tolist() for batch in loader]
        assert seen == [batch.indices.tolist() for batch in loader.epoch(epoch)]
    assert sorted(i for batch in seen for i in batch) == list(range(50))


def test_images_say_in_a_line_what_they_are():
    assert repr(make_images()) == "made up: 50 images of 3 × 8 × 8, 5 classes"
    assert repr(replace(make_images(), classes=())) == "made up: 50 images of 3 × 8 × 8"


def test_order_is_a_pure_function_of_seed_and_epoch():
    assert torch.equal(load().order(4), load().order(4))
    assert not torch.equal(load().order(4), load().order(5))
    assert not torch.equal(load().order(4), load(seed=4).order(4))
    assert torch.equal(load(shuffle=False).order(4), torch.arange(50))


def test_first_places_of_the_order_are_uniform():
    first = [int(load().order(e)[0]) for e in range(1000)]
    assert stats.chisquare(np.bincount(first, minlength=50)).pvalue > 1e-4


@pytest.mark.parametrize("prefetch", [0, 2])
def test_an_epoch_resumes_in_the_middle_with_the_same_views(prefetch):
    whole = list(load(prefetch=0).epoch(1))
    rest = list(load(prefetch=prefetch).epoch(1, start=4))
    assert len(rest) == 2
    for a, b in zip(whole[4:], rest, strict=True):
        assert torch.equal(a.indices, b.indices)
        assert torch.equal(a.labels, b.labels)
        for x, y in zip(a.views, b.views, strict=True):
            assert torch.equal(x, y)


@pytest.mark.parametrize("world", [2, 3])
def test_shares_of_the_processes_make_up_the_batch(world):
    whole = list(load().epoch(1))
    shares = [list(load(rank=r, world=world).epoch(1)) for r in range(world)]
    for number, batch in enumerate(whole):
        parts = [s[number] for s in shares]
        assert torch.equal(torch.cat([p.indices for p in parts]), batch.indices)
        torch.testing.assert_close(torch.cat([p.views[1] for p in parts]), batch.views[1], rtol=1e-5, atol=1e-5)


def test_the_last_batch_is_shared_even_when_it_is_short():
    shares = [list(load(rank=r, world=3, drop_last=False, batch=16).epoch(0))[-1] for r in range(3)]
    assert sum(len(s.indices) for s in shares) == 2


def test_stopping_early_ends_the_thread_and_errors_come_out():
    batches = load(prefetch=1).epoch(0)
    next(batches)
    batches.close()
    assert not [t for t in threading.enumerate() if t.name == "isotherm-loader"]
    broken = Loader(make_images(channels=2), recipe("simclr-cifar", normalize="cifar10"), batch=8)
    with pytest.raises(ValueError, match="normalizes 3 channels"):
        next(broken.epoch(0))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"batch": 0}, "1 image or more"),
        ({"batch": 51}, "larger than made up with its 50 images"),
        ({"rank": 2, "world": 2}, "not one of 2 processes"),
        ({"batch": 2, "world": 3}, "cannot be shared"),
    ],
)
def test_impossible_loaders_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        load(**settings)
    with pytest.raises(ValueError, match="cannot start at 7"):
        load().epoch(0, start=7)


def test_a_process_may_get_nothing_of_a_short_last_batch():
    shares = [
        list(Loader(make_images(n=33), recipe("digits"), 16, drop_last=False, rank=r, world=4).epoch(0))
        for r in range(4)
    ]
    assert [len(s[-1].indices) for s in shares] == [1, 0, 0, 0]
    views, labels, indices = shares[0][0]
    assert len(views) == 2
    assert len(labels) == len(indices) == 4


# --- probing ------------------------------------------------------------------------------------


def test_randbit_planes_are_the_same_in_all_views_and_epochs():
    images = probing.randbit(make_images(), bits=4)
    loader = Loader(images, recipe("simclr-cifar"), batch=10)
    planes = {}
    for epoch in (0, 1):
        for batch in loader.epoch(epoch):
            for view in batch.views:
                assert view.shape[1] == 3 + 4
                for place, extra in zip(batch.indices.tolist(), view[:, 3:], strict=True):
                    assert (extra == extra[:, :1, :1]).all()  # constant over the image
                    bits = extra[:, 0, 0].tolist()
                    assert planes.setdefault(place, bits) == bits
    code = images.more_labels["randbit"]
    for place, bits in planes.items():
        assert sum(int(b) << i for i, b in enumerate(bits)) == code[place]


def test_randbit_codes_are_uniform_and_belong_to_ids():
    many = make_images(n=8000, size=1)
    code = probing.randbit(many, bits=3).more_labels["randbit"]
    assert stats.chisquare(np.bincount(code, minlength=8)).pvalue > 1e-4
    part = many.subset(torch.tensor([5, 77, 3]))
    assert torch.equal(probing.randbit(part, bits=3).more_labels["randbit"], code[[5, 77, 3]])
    assert not torch.equal(probing.randbit(many, bits=3, seed=1).more_labels["randbit"], code)
    none = probing.randbit(many, bits=0)
    view = torch.zeros(2, 3, 1, 1)
    assert probing.append_bits(view, none, torch.tensor([0, 1])) is view


def test_digits_are_pasted_at_nine_places_by_maximum():
    images, digits = make_images(size=40), make_images(n=20, classes=10, channels=1, size=6, name="digits")
    made = probing.digits_on_images(images, digits, unique=4)
    pasted = made.at(torch.arange(len(made)))
    which, label = made.more_labels["digit_image"], made.more_labels["digit"]
    assert set(which.tolist()) <= set(range(4))
    assert torch.equal(made.labels, images.labels)
    images_used = {}
    for i in range(len(images)):
        indices = [(int(a * 40), int(b * 40)) for a in (0.15, 0.45, 0.75) for b in (0.15, 0.45, 0.75)]
        found = [
            d
            for d in range(20)
            if all(
                torch.equal(
                    pasted[i, :, y : y + 6, x : x + 6],
                    torch.maximum(images.pixels[i, :, y : y + 6, x : x + 6], digits.pixels[d]),
                )
                for y, x in indices
            )
        ]
        assert len(found) == 1
        assert digits.labels[found[0]] == label[i]
        assert images_used.setdefault(int(which[i]), found[0]) == found[0]
        untouched = torch.ones(40, 40, dtype=torch.bool)
        for y, x in indices:
            untouched[y : y + 6, x : x + 6] = False
        assert torch.equal(pasted[i][:, untouched], images.pixels[i][:, untouched])
    assert torch.equal(images.pixels, make_images(size=40).pixels)  # the source is left alone


def test_digits_larger_than_the_border_are_cut_and_none_is_none():
    images, digits = make_images(size=10), make_images(n=5, channels=1, size=6, name="digits")
    assert probing.digits_on_images(images, digits, unique=2).at(torch.arange(3)).shape == (3, 3, 10, 10)
    plain = probing.digits_on_images(images, digits, unique=0)
    assert torch.equal(plain.at(torch.arange(50)), images.pixels)
    assert set(plain.more_labels["digit"].tolist()) == {-1}
    with pytest.raises(ValueError, match="cannot take 6 unique ones"):
        probing.digits_on_images(images, digits, unique=6)


def test_k_bit_images_spell_their_label():
    images = probing.k_bit_images(5, count=400, size=4)
    assert images.pixels.shape == (400, 5, 4, 4)
    bits = images.pixels[:, :, 0, 0] // 255
    assert torch.equal((bits.long() << torch.arange(5)).sum(1), images.labels)
    assert (images.pixels == images.pixels[:, :, :1, :1]).all()
    assert len(images.labels.unique()) == 32
    with pytest.raises(ValueError, match="1 to 24 bits"):
        probing.k_bit_images(0, count=4)


def test_k_bit_images_say_what_entropy_they_have_where_they_are_too_few():
    few = probing.k_bit_images(16, count=4096, size=4)
    counts = np.unique(few.labels.numpy(), return_counts=True)[1]
    entropy = stats.entropy(counts, base=2)
    assert few.notes == (f"4,096 images show {len(counts):,} of 65,536 numbers: {entropy:.1f} bits of entropy",)
    many = probing.k_bit_images(16, count=200_000, size=32)
    assert many.notes == ()
    assert many.pixels.untyped_storage().nbytes() == 16 * 200_000  # however large the images
    assert abs(len(many.labels.unique()) - 65536 * (1 - math.exp(-200_000 / 65536))) < 300
    assert (many.at(torch.tensor([199_999]))[0, :, 7, 3] // 255).tolist() == [
        (int(many.labels[-1]) >> b) & 1 for b in range(16)
    ]


# --- imbalance ----------------------------------------------------------------------------------


def test_counts_are_those_of_the_formulas():
    assert imbalance.long_tail_counts(10, 5000, 0.01) == [5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50]
    assert imbalance.linear_counts(10, 5000) == [500 * (c + 1) for c in range(10)]
    assert imbalance.exponential_counts(10, 5000) == [math.floor(5000 * math.exp(c + 1 - 10)) for c in range(10)]
    hundred = imbalance.exponential_counts(100, 500)
    assert hundred == [math.floor(500 * math.exp(c // 10 + 1 - 10)) for c in range(100)]
    assert hundred[0] == 0
    assert sum(imbalance.linear_counts(100, 500)) == 25_250
    assert sum(imbalance.linear_counts(100, 500, groups=10)) == 27_500
    assert imbalance.linear_counts(10, 5000, groups=10) == imbalance.linear_counts(10, 5000)
    assert min(imbalance.exponential_counts(100, 500, minimum=1)) == 1


@pytest.mark.parametrize(
    "build", [lambda i, s: imbalance.long_tail(i, 0.1, s), imbalance.linear, imbalance.exponential]
)
def test_imbalanced_subsets_are_exact_and_seeded(build, tmp_path):
    images = make_images(n=500)
    part = build(images, 1)
    again, other = build(images, 1), build(images, 2)
    assert torch.equal(part.ids, again.ids)
    assert not torch.equal(part.ids, other.ids)
    assert part.counts() == other.counts()
    assert len(part.ids.unique()) == len(part)
    path = tmp_path / "index.json"
    imbalance.save_index(part, path)
    assert json.loads(path.read_text())["ids"] == part.ids.tolist()
    assert torch.equal(imbalance.from_index(images, path).pixels, part.pixels)


def test_imagenet100_lt_has_the_class_sizes_of_its_authors_list():
    sizes = dict(zip(IMAGENET100, imbalance.IMAGENET100_LT, strict=True))
    assert (sum(sizes.values()), max(sizes.values()), min(sizes.values())) == (12_205, 1280, 6)
    assert (sizes["n02116738"], sizes["n03930630"], sizes["n02483362"], sizes["n02869837"]) == (1280, 679, 6, 30)
    labels = torch.arange(100).repeat_interleave(1300)
    whole = Images("imagenet100", torch.zeros(len(labels), 1, 1, 1, dtype=torch.uint8), labels, torch.arange(130_000))
    part = imbalance.imagenet100_lt(replace(whole, classes=IMAGENET100))
    assert part.counts() == list(sizes.values())
    with pytest.raises(ValueError, match="a subset of imagenet100, whose classes"):
        imbalance.imagenet100_lt(make_images(n=50))


def test_emptied_classes_are_allowed_but_said():
    part = imbalance.exponential(make_images(n=50))
    assert part.counts()[0] == 0
    assert any("classes are empty" in note for note in part.notes)


def test_random_parts_by_count_and_fraction():
    images = make_images()
    assert len(imbalance.fraction(images, 20)) == 20
    assert len(imbalance.fraction(images, 0.5)) == 25
    assert torch.equal(imbalance.fraction(images, 20).ids, imbalance.fraction(images, 20).ids)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda i: imbalance.fraction(i, 0), "cannot take 0"),
        (lambda i: imbalance.fraction(i, 51), "cannot take 51"),
        (lambda i: imbalance.fraction(i, 1.5), r"in \(0, 1\]"),
        (lambda i: imbalance.long_tail(i, 0), r"in \(0, 1\]"),
        (lambda i: imbalance.with_counts(i, [1, 2]), "5 classes, got 2"),
        (lambda i: imbalance.with_counts(i, [11, 1, 1, 1, 1]), "10 images of 'class 0', cannot take 11"),
        (lambda i: imbalance.with_counts(i, [0] * 5), "the subset is empty"),
        (lambda i: imbalance.with_counts(i, [-1, 1, 1, 1, 1]), "cannot take -1"),
        (lambda i: imbalance.exponential_counts(5, 10, groups=0), "groups must be 1 or more"),
        (lambda i: imbalance.linear(i.subset(i.labels.nonzero()[:, 0])), "no images of 'class 0' to begin with"),
        (lambda i: imbalance.linear(probing.k_bit_images(3, 50, 8)), "3-bit has no classes"),
    ],
)
def test_impossible_subsets_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make(make_images())


def test_an_index_of_another_set_is_refused(tmp_path):
    (tmp_path / "b.json").write_text("{}")
    with pytest.raises(ValueError, match="no index that `save_index` wrote"):
        imbalance.from_index(make_images(), tmp_path / "b.json")
    imbalance.save_index(make_images(), tmp_path / "a.json")
    with pytest.raises(ValueError, match="lacks 40 of the 50 images"):
        imbalance.from_index(make_images(n=10), tmp_path / "a.json")
