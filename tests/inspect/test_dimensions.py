"""Tables with a column a dimension: which columns are the embedding, and what is said of the others."""

import numpy as np
import pytest

from isotherm.inspect.reading import read

Z = np.random.default_rng(0).standard_normal((50, 6)).round(3)
HEAD = [f"d{i}" for i in range(6)]


def write(path, columns, between=",", head=True):
    names, values = list(columns), [list(map(str, column)) for column in columns.values()]
    rows = [names, *map(list, zip(*values, strict=True))] if head else list(zip(*values, strict=True))
    path.write_text("\n".join(between.join(row) for row in rows) + "\n")
    return path


def table(**others):
    return {**dict(zip(HEAD, Z.T.tolist(), strict=True)), **others}


def said(embedding):
    return " ".join(note.text for note in embedding.notes)


@pytest.mark.parametrize("cell", ["", "missing", "NA"])
@pytest.mark.parametrize(("name", "between"), [("z.csv", ","), ("z.tsv", "\t")])
def test_a_cell_that_is_no_number_is_a_row_that_cannot_be_used(tmp_path, cell, name, between):
    columns = table()
    columns["d2"][7] = cell
    path = write(tmp_path / name, columns, between)
    with pytest.raises(ValueError, match=r"1 of 50 rows hold NaN, infinite or missing numbers: row 7\..*--drop"):
        read(path)
    kept = read(path, drop=True)
    np.testing.assert_allclose(kept.z, np.delete(Z, 7, 0), rtol=1e-6)
    assert "row 7" in said(kept)


def test_whole_numbers_of_one_numbering_with_fractions_are_dimensions(tmp_path):
    columns = table(id=range(50), words=["w"] * 50, year=[2000] * 50)
    columns["d0"], columns["d5"] = list(range(50)), [3] * 50
    embedding = read(write(tmp_path / "z.csv", columns))
    wanted = np.column_stack([range(50), Z[:, 1:5], [3] * 50])
    np.testing.assert_allclose(embedding.z, wanted, rtol=1e-6)
    assert "3 columns were left out of the embedding: 'id', 'words', 'year'." in said(embedding)
    whole = {f"q{i}": [(i * j) % 5 + 1 for j in range(50)] for i in range(4)}
    assert read(write(tmp_path / "q.csv", {"id": range(50), **whole})).z.shape == (50, 4)


def test_without_a_head_whole_numbers_between_fractions_are_dimensions(tmp_path):
    columns = {"id": range(50), **table(label=[i % 3 for i in range(50)])}
    columns["d2"] = list(range(50))
    embedding = read(write(tmp_path / "z.csv", columns, head=False))
    np.testing.assert_allclose(embedding.z[:, 2], np.arange(50))
    assert embedding.z.shape == (50, 6)
    assert "left out of the embedding: '0', '7'" in said(embedding)


@pytest.mark.parametrize("name", ["label", "target", "Class"])
def test_labels_written_with_a_point_are_no_dimension(tmp_path, name):
    columns = table(**{name: [float(i % 3) for i in range(50)]})
    assert read(write(tmp_path / "z.csv", columns)).z.shape == (50, 6)


def test_the_column_that_is_given_as_labels_is_no_dimension(tmp_path):
    columns = table(kind=[float(i % 3) for i in range(50)])
    embedding = read(write(tmp_path / "z.csv", columns), labels="kind")
    np.testing.assert_allclose(embedding.z, Z, rtol=1e-6)
    assert embedding.classes == ("0", "1", "2")
    assert "left out" not in said(embedding)


def test_a_parquet_is_read_by_the_same_rules(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    arrow = pytest.importorskip("pyarrow")
    columns = table(kind=[float(i % 3) for i in range(50)], target=[0.0, 1.0] * 25, words=["w"] * 50)
    columns["d3"] = list(range(50))
    parquet.write_table(arrow.table(columns), tmp_path / "z.parquet")
    embedding = read(tmp_path / "z.parquet", labels="kind")
    np.testing.assert_allclose(embedding.z, np.column_stack([Z[:, :3], range(50), Z[:, 4:]]), rtol=1e-6)
    assert embedding.classes == ("0", "1", "2")
    assert "'target', 'words'" in said(embedding)


@pytest.mark.parametrize("decimal", [".", ","])
def test_a_table_with_semicolons_is_told_so(tmp_path, decimal):
    path = write(tmp_path / "z.csv", {k: [str(x).replace(".", decimal) for x in v] for k, v in table().items()}, ";")
    with pytest.raises(ValueError, match=r"seem to be separated by semicolons: save it with commas"):
        read(path)


@pytest.mark.parametrize(
    ("array", "words"),
    [(np.ones(2), r"it has one of shape \(2,\)"), (np.ones(0), "is empty"), (np.ones((0, 4)), r"is empty: .* 0×4")],
)
def test_an_array_that_is_no_table_is_told_its_shape(tmp_path, array, words):
    np.save(tmp_path / "z.npy", array)
    with pytest.raises(ValueError, match=words):
        read(tmp_path / "z.npy")


def test_labels_that_lie_on_their_side_are_asked_about(tmp_path):
    np.save(tmp_path / "z.npy", Z)
    np.save(tmp_path / "y.npy", np.zeros((1, 50), dtype=int))
    with pytest.raises(ValueError, match=r"1 rows for 50 embeddings\. Is it transposed\?"):
        read(tmp_path / "z.npy", labels=tmp_path / "y.npy")


def test_a_column_that_is_not_there_is_answered_with_the_nearest_or_with_a_few(tmp_path):
    wide = {f"e{i}": Z[:, i % 6] for i in range(32)}
    path = write(tmp_path / "z.csv", {**wide, "label": [i % 3 for i in range(50)]})
    with pytest.raises(ValueError, match=r"no such file, and nothing of that name in z\.csv; did you mean 'label'\?$"):
        read(path, labels="lable")
    with pytest.raises(ValueError, match=r"z\.csv; it has: e0, .*, e7, … \(33 in all\)\.$"):
        read(path, labels="genus")
    np.savez(tmp_path / "z.npz", embeddings=Z, kinds=np.arange(50) % 3)
    with pytest.raises(ValueError, match="has no 'kind'; did you mean 'kinds'"):
        read(path, labels=f"{tmp_path / 'z.npz'}:kind")
    with pytest.raises(ValueError, match="has no 'embeding'; did you mean 'embeddings'"):
        read(tmp_path / "z.npz", key="embeding")
