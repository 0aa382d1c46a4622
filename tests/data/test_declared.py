"""What files declare, held against what they can hold."""

import gzip
import io
import struct
import tarfile
import zipfile
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from isotherm.data.declared import believable, fits
from isotherm.data.sets import load
from isotherm.data.sources import idx, reading


def blank(side):
    """A PNG that says it is of this size; decoding it would come to an early end."""
    out = io.BytesIO()
    Image.new("L", (1, 1)).save(out, "PNG")
    png = bytearray(out.getvalue())
    png[16:24] = struct.pack(">II", side, side)
    png[29:33] = struct.pack(">I", zlib.crc32(png[12:29]))
    return bytes(png)


def parquet_of(path, image, rows):
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    column = pa.array([{"bytes": image, "path": None}] * rows, kind)
    pq.write_table(pa.table({"image": column, "label": pa.array([0] * rows)}), path)
    return f"parquet:{path}"


def test_a_file_may_declare_a_hundred_times_its_size_and_what_is_small():
    believable("file", 2**28, 10)
    believable("file", 10**12, 10**10)
    with pytest.raises(ValueError, match=r"file declares 1\.0 GiB and takes 1,000 bytes .* It was not read"):
        believable("file", 2**30, 1000)
    fits("file", 2**28, "")
    with pytest.raises(ValueError, match=r"file would take 1,048,576\.0 GiB of memory, .* are free\. Take less"):
        fits("file", 2**50, "Take less.")


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_huge_images_of_small_files_are_not_decoded(tmp_path, monkeypatch):
    monkeypatch.setenv("ISOTHERM_DATA", str(tmp_path / "root"))
    with pytest.raises(ValueError, match=r"row 0 is not an image that can be decoded .13,000×13,000 are more than"):
        load(parquet_of(tmp_path / "huge.parquet", blank(13_000), 2))
    with pytest.raises(ValueError, match=r"row 0 is not an image that can be decoded .13,000×13,000 are more than"):
        load(parquet_of(tmp_path / "huge.parquet", blank(13_000), 2), size=8)
    with pytest.raises(ValueError, match=r"would take .* GiB of memory, .* Say size=N"):
        load(parquet_of(tmp_path / "many.parquet", blank(8_000), 5_000))
    folder = tmp_path / "set" / "train" / "a"
    folder.mkdir(parents=True)
    (folder / "huge.png").write_bytes(blank(9_000))
    (folder / "small.png").write_bytes(blank(1))
    images = load(f"folder:{tmp_path / 'set'}", size=8)
    assert len(images) == 1
    assert any("1 file skipped, no image" in note and "huge.png" in note for note in images.notes)


def test_packed_files_are_unpacked_no_further_than_they_should_be(tmp_path):
    head = bytes((0, 0, 8, 3)) + struct.pack(">3I", 10**6, 100, 100)
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(head + bytes(1000)))
    with pytest.raises(ValueError, match=r"bomb\.gz declares 9\.3 GiB and takes \d+ bytes"):
        idx.array(tmp_path / "bomb.gz", 3)
    (tmp_path / "more.gz").write_bytes(gzip.compress(head[:4] + struct.pack(">3I", 1, 2, 3)) + gzip.compress(bytes(9)))
    with pytest.raises(ValueError, match=r"more\.gz is damaged: its head announces 6 bytes, more follow"):
        idx.array(tmp_path / "more.gz", 3)
    member = tarfile.TarInfo("data_batch_1")
    member.size = 10**11
    (tmp_path / "bomb.tar").write_bytes(member.tobuf())
    with pytest.raises(ValueError, match=r"bomb\.tar declares 93\.1 GiB and takes 1,536 bytes"):
        reading.members(tmp_path / "bomb.tar", ["data_batch_1"])


def test_an_npz_of_images_holds_what_it_declares(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive, archive.open("images.npy", "w") as file:
        declared = {"descr": "|u1", "fortran_order": False, "shape": (10**9, 99, 99)}
        np.lib.format.write_array_header_1_0(file, declared)
    with pytest.raises(ValueError, match=r"a\.npz is damaged: 'images' declares 9,801,000,000,000 bytes, 0 follow"):
        load(f"arrays:{tmp_path / 'a.npz'}")
