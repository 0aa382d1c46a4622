"""Images with captions: every layout gives the same pairs; what cannot be used is left out, counted and named."""

import io
import json
import tarfile

import numpy as np
import pytest
import torch
from PIL import Image

from isotherm.data.captioned import Captioned
from isotherm.data.loaders.pairs import PairLoader
from isotherm.data.pairs import is_pairs, load_pairs
from small_pairs import add, as_csv, as_jsonl, as_parquet, as_shards, encoded, pa, picture, pq, rows


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    """Indices of shards go into a folder of the test's own."""
    monkeypatch.setenv("ISOTHERM_DATA", str(tmp_path_factory.mktemp("data")))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


LAYOUTS = {
    "parquet": lambda folder, items: f"parquet:{as_parquet(folder / 'a.parquet', items)}",
    "csv": lambda folder, items: f"captions:{as_csv(folder, items)}",
    "tsv": lambda folder, items: f"captions:{as_csv(folder, items, chr(9))}",
    "jsonl": lambda folder, items: f"captions:{as_jsonl(folder, items)}",
    "shards": lambda folder, items: f"shards:{as_shards(folder, items)}",
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_pairs(layout, tmp_path):
    items = list(rows(1))
    pairs = load_pairs(LAYOUTS[layout](tmp_path, items), size=16)
    assert len(pairs) == 16
    numbers, owner = pairs.numbers()
    texts = pairs.captions(numbers)
    pixels, index = pairs.decoded(torch.arange(16))
    assert index.tolist() == list(range(16))
    found = {
        tuple(t for t, o in zip(texts, owner.tolist(), strict=True) if o == i): pixels[i].float().mean((1, 2)).tolist()
        for i in range(16)
    }
    for _, image, captions in items:
        square = Image.open(io.BytesIO(image)).resize((16, 16), Image.Resampling.BICUBIC, box=(2, 0, 22, 20))
        np.testing.assert_allclose(found[tuple(captions)], np.asarray(square).mean((0, 1)), atol=1e-3)


def test_captions_are_drawn_anew_every_epoch_and_none_twice(tmp_path):
    pairs = load_pairs(LAYOUTS["parquet"](tmp_path, list(rows(1))), size=8)
    index = torch.arange(16)
    two = [pairs.drawn(index, 2, seed=0, epoch=e) for e in range(40)]
    assert all(bool((d[:, 0] != d[:, 1]).all()) for d in two)
    assert torch.equal(pairs.drawn(index[5:7], 2, seed=0, epoch=3), two[3][5:7])
    counts = torch.bincount(torch.cat([d[:, 0] for d in two]), minlength=48)
    assert counts.min() > 0  # each of three captions comes up in forty epochs
    five = pairs.drawn(index, 5, seed=0, epoch=0)
    assert all(len(set(row)) == 3 for row in five.tolist())


def test_a_batch_of_two_processes_is_that_of_one(tmp_path):
    pairs = load_pairs(LAYOUTS["parquet"](tmp_path, list(rows(1))), size=8)

    def loader(rank, world):
        image = lambda indices, epoch: (pairs.decoded(indices)[0].float(), indices)  # noqa: E731
        return PairLoader(pairs, image, lambda n: list(n.T), 6, 2, 0, rank=rank, world=world, prefetch=0)

    one = list(loader(0, 1).epoch(1))
    shares = [list(loader(rank, 2).epoch(1)) for rank in range(2)]
    assert len(one) == 2
    for whole, a, b in zip(one, *shares, strict=True):
        for view, first, second in zip(whole.views, a.views, b.views, strict=True):
            assert torch.equal(view, torch.cat([first, second]))
    assert [b.indices.tolist() for b in loader(0, 1).epoch(1, 1)] == [one[1].indices.tolist()]


BAD = [
    ("good", encoded(picture("red", "top")), ["one", "two"]),
    ("no caption", encoded(picture("red", "top")), []),
    ("no image", None, ["lonely words"]),
    ("empty", encoded(picture("blue", "top")), ["", "   ", "said"]),
    ("only empty", encoded(picture("blue", "left")), [" "]),
    ("long", encoded(picture("green", "top")), ["word " * 10_000]),
    ("no image at all", b"these are no pixels", ["a promise"]),
    ("cmyk", encoded(picture("green", "left").convert("CMYK"), "JPEG"), ["ink"]),
    ("palette", encoded(picture("green", "right").convert("P")), ["few colours"]),
]
WORDS = [
    "2 images without a caption left out: row 1; row 4",
    "1 caption without an image left out: row 2",
    "3 empty captions left out: row 3; row 3; row 4",
    "1 caption cut after 10,000 characters: row 5",
    "1 image that cannot be decoded left out: row 6 (cannot identify image file)",
    "2 images had another mode than RGB (1 CMYK, 1 P): converted",
]


def test_what_cannot_be_used_is_counted_and_named(tmp_path):
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    images = pa.array([None if b is None else {"bytes": b, "path": n} for n, b, _ in BAD], kind)
    captions = pa.array([c for *_, c in BAD], pa.list_(pa.string()))
    pq.write_table(pa.table({"image": images, "captions": captions}), tmp_path / "a.parquet")
    pairs = load_pairs(f"parquet:{tmp_path / 'a.parquet'}", size=8)
    assert sorted(pairs.notes) == sorted(WORDS)
    assert pairs.ids.tolist() == [0, 3, 5, 7, 8]
    numbers, owner = pairs.numbers()
    assert [len(t) for t in pairs.captions(numbers)] == [3, 3, 4, 9_999, 3, 11]
    assert owner.tolist() == [0, 0, 1, 2, 3, 4]
    pixels, _ = pairs.decoded(torch.arange(5))
    middle = pixels[3].float()  # a green bar at the left, once CMYK
    assert middle[1, :, 0].mean() > middle[0, :, 0].mean() + 60


def test_text_that_is_not_utf8_is_left_out_by_line(tmp_path):
    (tmp_path / "a.png").write_bytes(encoded(picture("red", "top")))
    (tmp_path / "a.csv").write_bytes(b"image,caption\na.png,fine\na.png,na\xefve\n,nobody's\nb.png,not there\n")
    pairs = load_pairs(f"captions:{tmp_path / 'a.csv'}", size=8)
    assert pairs.captions(torch.arange(1)) == ["fine"]
    assert pairs.notes == (
        "1 caption without an image left out: line 4",
        "1 caption that is not UTF-8 left out: line 2 (byte 0xef)",
        "1 image that is not there left out: line 5 (b.png)",
    )


def test_a_shard_that_is_cut_or_listed_twice_is_refused_by_name(tmp_path):
    as_shards(tmp_path, rows(1))
    first = tmp_path / "train-000.tar"
    with pytest.raises(ValueError, match=r"train-000\.tar.*twice"):
        load_pairs(f"shards:{tmp_path}/train-{{000,000}}.tar", size=8)
    first.write_bytes(first.read_bytes()[:3000])
    with pytest.raises(ValueError, match=r"train-000\.tar"):
        load_pairs(f"shards:{tmp_path}", size=8)


def test_shards_without_an_image_or_a_caption_are_counted(tmp_path):
    with tarfile.open(tmp_path / "train-0.tar", "w") as tar:
        add(tar, "1.jpg", encoded(picture("red", "top"), "JPEG"))
        add(tar, "1.txt", b"red")
        add(tar, "2.jpg", encoded(picture("red", "top"), "JPEG"))
        add(tar, "3.txt", b"alone")
        add(tar, "4.png", encoded(picture("blue", "top")))
        add(tar, "4.json", json.dumps({"caption": "blue", "width": 3}).encode())
        add(tar, "5.png", encoded(picture("blue", "top")))
        add(tar, "5.txt", b"\xff\xfe")
    pairs = load_pairs(f"shards:{tmp_path}", size=8)
    assert pairs.captions(pairs.numbers()[0]) == ["red", "blue"]
    assert sorted(pairs.notes) == [
        "1 caption that is not UTF-8 left out: train-0.tar: 5 (byte 0xff)",
        "1 caption without an image left out: train-0.tar: 3",
        "2 images without a caption left out: train-0.tar: 2; train-0.tar: 5",
    ]


def test_an_image_cut_in_the_middle_gives_its_place_to_the_next(tmp_path):
    items = list(rows(1))
    whole = encoded(picture("red", "top").resize((200, 200)), "JPEG")
    items[3] = ("003", whole[: len(whole) // 2], items[3][2])
    items[4] = ("004", whole[: len(whole) // 3], items[4][2])
    pairs = load_pairs(LAYOUTS["parquet"](tmp_path, items), size=8)
    assert len(pairs) == 16  # its head is whole
    _, index = pairs.decoded(torch.arange(16))
    assert index.tolist() == [0, 1, 2, 5, 5, *range(5, 16)]
    (note,) = pairs.every_note
    assert note.startswith("2 images left out: row 3 is not an image that can be decoded")
    _, again = pairs.decoded(torch.tensor([3]))
    assert again.tolist() == [5]


def test_a_set_is_told_from_another(tmp_path):
    items = list(rows(1))
    prints = []
    for change in (lambda i: None, lambda i: i[2][2].append("more"), lambda i: None):
        change(items)
        prints.append(load_pairs(LAYOUTS["parquet"](tmp_path, items), size=8).fingerprint())
    assert prints[0] != prints[1] == prints[2]
    pairs = load_pairs(LAYOUTS["parquet"](tmp_path, items), size=8)
    part = pairs.subset(torch.tensor([5, 2]))
    assert part.fingerprint() != prints[1]
    assert part.ids.tolist() == [5, 2]
    assert part.captions(part.numbers()[0])[:3] == items[5][2]


def test_which_data_holds_captions(tmp_path):
    assert is_pairs("flickr8k")
    assert is_pairs(LAYOUTS["csv"](tmp_path, list(rows(1))))
    assert is_pairs(LAYOUTS["parquet"](tmp_path, list(rows(1))))
    assert not is_pairs("imagenette")
    assert not is_pairs(f"parquet:{tmp_path / 'nothing'}")
    assert not is_pairs("text:a.txt")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda f: "flickr9k", "did you mean 'flickr8k'"),
        (lambda f: "captions:", "names no file"),
        (lambda f: f"captions:{f / 'no.csv'}", "there is no file"),
        (lambda f: f"captions:{_written(f, 'a.csv', 'x,y')}", "no column of images such as 'image'; it has: x, y"),
        (lambda f: f"captions:{_written(f, 'b.jsonl', '[1]')}", "line 1: an object"),
        (lambda f: f"captions:{_written(f, 'c.jsonl', '{')}", "line 1 is not JSON"),
        (lambda f: f"captions:{_written(f, 'd.csv', 'image,caption')}", "holds no images with captions"),
    ],
)
def test_mistakes_are_one_sentence(make, words, tmp_path):
    with pytest.raises((ValueError, FileNotFoundError), match=words):
        load_pairs(make(tmp_path))


def _written(folder, name, text):
    (folder / name).write_text(text + "\n")
    return folder / name


def test_a_split_that_is_not_there_is_named(tmp_path):
    data = LAYOUTS["csv"](tmp_path, list(rows(1)))
    with pytest.raises(ValueError, match="has no split 'test'"):
        load_pairs(data, "test")
    assert isinstance(load_pairs(data, "train"), Captioned)
