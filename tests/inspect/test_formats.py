"""Files that declare more than they hold, or what is no array: one sentence, and no memory."""

import io
import zipfile

import numpy as np
import pytest
import torch

from isotherm.inspect.reading import read

SOME = torch.randn(50, 8, generator=torch.Generator().manual_seed(0))


def npy_head(*shape, kind="<f4"):
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": kind, "fortran_order": False, "shape": shape})
    return head.getvalue()


def zipped(path, content):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("z.npy", content)


@pytest.mark.filterwarnings("ignore")  # torch's, about its own kinds of tensors
@pytest.mark.parametrize(
    ("name", "write", "words"),
    [
        ("sparse.pt", lambda p: torch.save(SOME.to_sparse(), p), r"is sparse; save tensor\.to_dense"),
        ("csr.pt", lambda p: torch.save({"z": SOME.to_sparse_csr()}, p), r"is sparse; save tensor\.to_dense"),
        (
            "quantised.pt",
            lambda p: torch.save(torch.quantize_per_tensor(SOME, 0.1, 0, torch.qint8), p),
            r"is quantised; save tensor\.dequantize",
        ),
        ("meta.pt", lambda p: torch.save(torch.empty(9, 4, device="meta"), p), "device 'meta' and holds no numbers"),
        (
            "nested.pt",
            lambda p: torch.save(torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(1, 3)]), p),
            "is nested",
        ),
        ("stride.pt", lambda p: torch.save(torch.ones(1).expand(200_000, 4096), p), r"holds once; save tensor\.clone"),
        ("old.pt", lambda p: torch.save(torch.ones(1).expand(9, 4), p, _use_new_zipfile_serialization=False), "clone"),
        (
            "terabytes.npz",
            lambda p: zipped(p, npy_head(200_000, 10**7) + bytes(40)),
            "declares 8,000,000,000,000 bytes",
        ),
        ("below.npz", lambda p: zipped(p, npy_head(-1, 4) + bytes(40)), "is damaged: 'z' declares"),
        ("wide.npz", lambda p: zipped(p, npy_head(2, kind="<U100000000") + bytes(40)), "declares 800,000,000 bytes"),
        ("terabytes.npy", lambda p: p.write_bytes(npy_head(200_000, 10**7) + bytes(40)), "cannot be read as .npy"),
        (
            "terabytes.safetensors",
            lambda p: p.write_bytes(
                (72).to_bytes(8, "little") + b'{"z":{"dtype":"F32","shape":[200000,10000000],"data_offsets":[0,40]}}   '
            ),
            "cannot be read as .safetensors",
        ),
    ],
)
def test_what_a_file_declares_is_held_against_what_it_holds(tmp_path, name, write, words):
    write(tmp_path / name)
    with pytest.raises(ValueError, match=words) as refused:
        read(tmp_path / name, sample=100)
    assert str(refused.value).startswith(str(tmp_path / name))


def test_a_damaged_part_is_a_sentence_also_when_it_is_read_late(tmp_path):
    path = tmp_path / "z.npz"
    np.savez_compressed(path, z=SOME.numpy())
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"z\.npz cannot be read as \.npz"):
        read(path)


@pytest.mark.parametrize("head", [True, False])
@pytest.mark.parametrize(("name", "between"), [("e.csv", ","), ("e.tsv", "\t")])
def test_a_table_of_text_may_have_a_column_a_dimension(tmp_path, head, name, between):
    rows = [[str(i), *map(repr, row), str(i % 4)] for i, row in enumerate(SOME.tolist())]
    lines = [["id", *(f"d{i}" for i in range(8)), "label"], *rows] if head else rows
    (tmp_path / name).write_text("\n".join(between.join(line) for line in lines) + "\n")
    there = read(tmp_path / name)
    torch.testing.assert_close(there.z, SOME)
    if head:
        assert there.classes == ("0", "1", "2", "3")
    assert torch.equal(read(tmp_path / name, labels="label" if head else "9").labels, torch.arange(50) % 4)


def test_rows_that_are_missing_in_a_parquet_are_no_numbers(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [None if i % 5 == 0 else SOME[i].tolist() for i in range(50)]
    parquet.write_table(pytest.importorskip("pyarrow").table({"z": rows}), tmp_path / "z.parquet")
    with pytest.raises(ValueError, match="10 of 50 rows hold NaN"):
        read(tmp_path / "z.parquet")
    kept = [i for i in range(50) if i % 5]
    torch.testing.assert_close(read(tmp_path / "z.parquet", drop=True).z.float(), SOME[kept])


def test_an_empty_line_in_a_column_of_labels_is_a_label_that_is_missing(tmp_path):
    np.save(tmp_path / "z.npy", SOME.numpy())
    lines = ["" if i % 7 == 3 else str(i % 3) for i in range(50)]
    (tmp_path / "y.csv").write_text("label\n" + "\n".join(lines) + "\n")
    found = read(tmp_path / "z.npy", labels=tmp_path / "y.csv", drop=True)
    assert len(found.z) == sum(1 for line in lines if line)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"z": [1, 2]}\n[3]\n', "line 2 is no object of JSON"),
        ('{"z": [1, 2]}\nnonsense\n', "line 2 is no object of JSON"),
        ('{"z": [1, 2]}\n{"z": [1]}\n', "'z' are not all lists of 2 numbers: line 2"),
        ('{"z": [1, 2]}\n\n{"z": [1, "a"]}\n', "'z' holds something that is no number in line 3"),
        ('{"z": 1}\n{"z": 2}\n', "2-D"),
        ("", "cannot be read|holds no"),
    ],
)
def test_json_lines_that_are_no_embeddings_are_refused(tmp_path, content, words):
    (tmp_path / "e.jsonl").write_text(content)
    with pytest.raises(ValueError, match=words):
        read(tmp_path / "e.jsonl")


def test_missing_vectors_of_json_lines_are_missing_rows(tmp_path):
    lines = ['{"z": [1, 2], "y": 0}', '{"y": 1}', "", '{"z": [2, 1], "y": 10}', '{"z": [0.5, 1], "y": 2}']
    (tmp_path / "e.jsonl").write_text("\n".join(lines))
    with pytest.raises(ValueError, match="drop"):
        read(tmp_path / "e.jsonl")
    found = read(tmp_path / "e.jsonl", drop=True)
    assert found.rows.tolist() == [0, 2, 3]
    assert found.classes == ("0", "1", "2", "10")


def test_a_feather_file_that_is_none_is_refused(tmp_path):
    (tmp_path / "e.feather").write_bytes(b"FEA1 of long ago")
    with pytest.raises(ValueError, match=r"e\.feather cannot be read as \.feather"):
        read(tmp_path / "e.feather")
