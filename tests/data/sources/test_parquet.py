"""Parquet in the hub's layout, and broken files."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from isotherm.data.sets import load
from written import encoded, noise, same

FEATURES = {
    "image": {"_type": "Image"},
    "fine_label": {"_type": "ClassLabel", "names": ["ant", "bee", "cat"]},
    "coarse_label": {"_type": "ClassLabel", "names": ["insect", "mammal"]},
}


def write_parquet(path, encoded_images, fine=(0, 1, 2, 1), coarse=(0, 0, 1, 0), features=FEATURES, **more):
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = {"image": [{"bytes": p, "path": None} for p in encoded_images], **more}
    if fine is not None:
        columns |= {"fine_label": list(fine), "coarse_label": list(coarse)}
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    table = pa.table({k: pa.array(v, image if k == "image" else None) for k, v in columns.items()})
    if features is not None:
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    pq.write_table(table, path, row_group_size=2)


def four(h=8, w=8):
    return noise(4, h, w, 3)


def test_parquet_in_the_hubs_layout(tmp_path):
    pixels = four()
    write_parquet(tmp_path / "set" / "train.parquet", [encoded(p) for p in pixels])
    train = load(f"parquet:{tmp_path / 'set'}")
    same(train, pixels.transpose(0, 3, 1, 2), [0, 1, 2, 1])
    assert train.classes == ("ant", "bee", "cat")
    assert train.more_labels["coarse_label"].tolist() == [0, 0, 1, 0]
    assert train.notes == ()
    other = load(f"parquet:{tmp_path / 'set'}", label="coarse_label")
    assert other.classes == ("insect", "mammal")
    assert other.more_labels["fine_label"].tolist() == [0, 1, 2, 1]
    one = load(f"parquet:{tmp_path / 'set' / 'train.parquet'}")
    assert torch.equal(one.pixels, train.pixels)


def test_parquet_in_shards_counts_rows_through(tmp_path):
    pixels = four()
    for i in range(2):
        write_parquet(tmp_path / "data" / f"test-0000{i}-of-00002.parquet", [encoded(p) for p in pixels])
    test = load(f"parquet:{tmp_path}", "test")
    assert np.array_equal(test.pixels[4:].numpy(), pixels.transpose(0, 3, 1, 2))
    assert (test.ids - test.ids[0]).tolist() == list(range(8))
    assert test.ids[0] > 1 << 31  # far from those of train


def test_parquet_without_labels_or_names(tmp_path):
    pixels = [encoded(p) for p in four()]
    write_parquet(
        tmp_path / "train.parquet", pixels, fine=None, features=None, captions=[["a", "b"]] * 4, n=[5, 6, 7, 8]
    )
    train = load(f"parquet:{tmp_path}")
    assert train.labels.tolist() == [-1] * 4
    assert train.classes == ()
    assert load(f"parquet:{tmp_path}", label="n").labels.tolist() == [5, 6, 7, 8]
    with pytest.raises(ValueError, match="no column of whole numbers 'captions'; it has: n"):
        load(f"parquet:{tmp_path}", label="captions")
    write_parquet(tmp_path / "train.parquet", pixels, fine=(0, None, 1, -1))
    assert load(f"parquet:{tmp_path}").labels.tolist() == [0, -1, 1, -1]


def test_parquet_with_mixed_sizes_and_modes(tmp_path):
    written = [encoded(noise(8, 8, 3)), encoded(noise(8, 8)), encoded(noise(9, 8, 3)), encoded(noise(8, 8, 3))]
    write_parquet(tmp_path / "train.parquet", written)
    with pytest.raises(ValueError, match=r"train\.parquet: the image in row 2 is 9×8, the first is 8×8; say size=N"):
        load(f"parquet:{tmp_path}")
    train = load(f"parquet:{tmp_path}", size=8)
    assert train.shape == (3, 8, 8)
    assert train.notes == (
        "1 image had another mode than RGB: converted",
        "1 image had another size: resized",
    )
    assert load(f"parquet:{tmp_path}", size=4, channels=1).shape == (1, 4, 4)


@pytest.mark.parametrize(
    "bad", [b"no image", None, b"", encoded(noise(8, 8, 3))[:-60]], ids=["text", "null", "empty", "cut"]
)
@pytest.mark.parametrize("row", [0, 3])
def test_a_corrupt_image_in_parquet_is_named_by_its_row(tmp_path, bad, row):
    written = [encoded(p) for p in four()]
    written[row] = bad
    write_parquet(tmp_path / "train.parquet", written)
    with pytest.raises(
        ValueError, match=rf"train\.parquet: the image in row {row} is not an image that can be decoded"
    ):
        load(f"parquet:{tmp_path}")


def test_broken_parquet_files_are_named(tmp_path):
    file = tmp_path / "train.parquet"
    write_parquet(file, [encoded(p) for p in four()], fine=(0, 1, 3, 1))
    with pytest.raises(ValueError, match=r"train\.parquet is damaged: labels must be 0 to 2, row 2 has 3"):
        load(f"parquet:{tmp_path}")
    whole = file.read_bytes()
    file.write_bytes(whole[:-100])
    with pytest.raises(ValueError, match=r"train\.parquet is damaged"):
        load(f"parquet:{tmp_path}")
    file.write_bytes(whole[:50] + bytes(200) + whole[250:])
    with pytest.raises(ValueError, match=r"train\.parquet"):
        load(f"parquet:{tmp_path}")
    pq.write_table(pa.table({"text": ["a"]}), file)
    with pytest.raises(ValueError, match=r"train\.parquet has no column image\{bytes, path\}; it has: text"):
        load(f"parquet:{tmp_path}")
    write_parquet(file, [], (), ())
    with pytest.raises(ValueError, match="holds no images"):
        load(f"parquet:{tmp_path}")
    with pytest.raises(FileNotFoundError, match=r"holds no test\.parquet or test-\*\.parquet; its splits are: train"):
        load(f"parquet:{tmp_path}", "test")
