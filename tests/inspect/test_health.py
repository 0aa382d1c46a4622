"""Inspecting embedding files: what is read, what is measured, what is found, what is shown."""

import json
import math
import multiprocessing
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from isotherm import inspect as I
from isotherm import measures as M
from isotherm.bench.measure import peak_extra_memory
from isotherm.cli import main
from isotherm.inspect import reading
from isotherm.inspect.findings import verdict_of
from isotherm.inspect.health import even_uniformity
from isotherm.inspect.page import flattened
from isotherm.inspect.temperature_advice import advise
from isotherm.measures.measure import take
from isotherm.measures.reach import HIGH, LOW, Queries, recommended_temperature
from isotherm.measures.subject import Subject
from isotherm.report import Finding, number

pytest_plugins = ("browser",)
RANDOM = np.random.default_rng(0)
N, D = 400, 16
LABELS = np.arange(N) % 4
CENTRES = np.linalg.qr(RANDOM.normal(size=(D, D)))[0]
SPHERE = RANDOM.normal(size=(N, D)).astype(np.float32)
CLUSTERS = (CENTRES[LABELS] + 0.15 * RANDOM.normal(size=(N, D))).astype(np.float32)
POINT = (np.ones((N, D)) + 0.02 * RANDOM.normal(size=(N, D))).astype(np.float32)


def tensors(z):
    return torch.from_numpy(z.copy())


def levels(health, word):
    return [f.level for f in health.findings if word in f.text]


# ---- reading


def save(folder, form):
    path = folder / f"e.{form}"
    if form == "npy":
        np.save(path, CLUSTERS)
    elif form == "npz":
        np.savez_compressed(path, embeddings=CLUSTERS, labels=LABELS, other=SPHERE)
    elif form == "pt":
        torch.save({"z": tensors(CLUSTERS), "labels": LABELS.tolist(), "step": 3}, path)
    elif form == "safetensors":
        from safetensors.torch import save_file  # noqa: PLC0415

        save_file({"features": tensors(CLUSTERS), "y": torch.from_numpy(LABELS)}, path)
    elif form == "jsonl":
        rows = zip(CLUSTERS.tolist(), LABELS.tolist(), strict=True)
        path.write_text("".join(json.dumps({"embedding": z, "label": f"kind {c}", "more": {}}) + "\n" for z, c in rows))
    else:
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.parquet as pq  # noqa: PLC0415
        from pyarrow import feather  # noqa: PLC0415

        table = {"embedding": pa.array(list(CLUSTERS)), "label": pa.array([f"kind {c}" for c in LABELS])}
        if form == "feather":
            feather.write_feather(pa.table(table), path, chunksize=150)
        else:
            pq.write_table(pa.table(table), path, row_group_size=150)
    return path


@pytest.mark.parametrize("form", ["npy", "npz", "pt", "safetensors", "parquet", "feather", "jsonl"])
def test_every_format_gives_the_same_rows(tmp_path, form):
    found = I.read(save(tmp_path, form))
    assert torch.equal(found.z, tensors(CLUSTERS))
    if form != "npy":
        assert torch.equal(found.labels, torch.from_numpy(LABELS))
        assert found.classes[0] == ("kind 0" if form in ("parquet", "feather", "jsonl") else "0")
    part = I.read(save(tmp_path, form), sample=50, seed=3)
    assert torch.equal(part.z, tensors(CLUSTERS)[part.rows])
    assert len(part.z) == 50
    assert part.total == N
    if form != "npy":
        assert torch.equal(part.labels, torch.from_numpy(LABELS)[part.rows])
    assert torch.equal(part.rows, I.read(save(tmp_path, form), sample=50, seed=3).rows)
    assert not torch.equal(part.rows, I.read(save(tmp_path, form), sample=50, seed=4).rows)


def test_parquet_may_have_a_column_a_dimension(tmp_path):
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    pq.write_table(pa.table({**{f"x{i}": CLUSTERS[:, i] for i in range(D)}, "label": LABELS}), tmp_path / "e.parquet")
    found = I.read(tmp_path / "e.parquet")
    assert torch.equal(found.z, tensors(CLUSTERS))
    assert len(found.classes) == 4


@pytest.mark.parametrize(
    ("write", "name"),
    [
        (lambda p: np.save(p, LABELS), "l.npy"),
        (lambda p: np.savez(p, y=LABELS, more=SPHERE), "l.npz"),
        (lambda p: p.write_text("\n".join(f"c{c}" for c in LABELS)), "l.txt"),
        (lambda p: p.write_text("\n".join(["label", *map(str, LABELS)])), "l.csv"),
        (lambda p: p.write_text("\n".join(map(str, LABELS))), "l.csv"),
        (lambda p: p.write_text("\n".join(["name,kind", *(f"n{i},k{c}" for i, c in enumerate(LABELS))])), "l.csv:kind"),
    ],
)
def test_labels_come_from_another_file(tmp_path, write, name):
    write(tmp_path / name.split(":")[0])
    found = I.read(save(tmp_path, "npy"), str(tmp_path / name))
    assert torch.equal(found.labels, torch.from_numpy(LABELS))


@pytest.mark.parametrize("kind", ["float64", "float16", "bfloat16", ">f4", "int8", "V2"])
def test_any_real_numbers_are_read(tmp_path, kind):
    path = tmp_path / ("e.pt" if kind == "bfloat16" else "e.npy")
    if kind == "bfloat16":
        torch.save(tensors(CLUSTERS).bfloat16(), path)
    elif kind == "V2":  # what numpy makes of bfloat16
        np.save(path, tensors(CLUSTERS).bfloat16().view(torch.int16).numpy().view("V2"))
    else:
        np.save(path, (CLUSTERS * 100 if kind == "int8" else CLUSTERS).astype(kind))
    found = I.read(path)
    assert found.z.dtype == torch.float32
    assert torch.nn.functional.cosine_similarity(found.z, tensors(CLUSTERS)).min() > 0.99
    said = [f.text for f in found.notes]
    assert bool(said) == (kind in ("int8", "V2")), said


def bad(z=CLUSTERS, **changes):
    """A copy with a few numbers changed."""
    z = z.copy()
    for row, value in changes.get("rows", {}).items():
        z[row] = value
    return z


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        (
            bad(rows={7: np.nan, 300: np.inf}),
            {},
            r"2 of 400 rows hold NaN, infinite or missing numbers: rows 7, 300\..*--drop",
        ),
        (bad(rows={12: 0}), {}, "1 of 400 rows hold nothing but zeros, which have no direction: row 12"),
        (CLUSTERS[:, 0], {}, r"a 2-D array is wanted, one row per item; it has one of shape .400,."),
        (CLUSTERS[:, :1], {}, "holds 400 × 1: one number an item; an embedding has 2 dimensions or more"),
        (CLUSTERS[None], {}, "2-D array"),
        (CLUSTERS[:1], {}, "1 usable embeddings; at least 2"),
        (CLUSTERS.astype(str), {}, "must hold real numbers, got <U"),
        (CLUSTERS > 0, {}, "must hold real numbers, got bool"),
        (CLUSTERS.astype(complex), {}, "must hold real numbers, got complex"),
        (CLUSTERS.astype(object), {}, r"is refused: it holds Python objects"),
        (CLUSTERS, {"sample": 1}, "at least 2 rows"),
        (CLUSTERS, {"key": "z"}, "has no 'z'"),
        (CLUSTERS, {"labels": "nowhere.npy"}, "labels 'nowhere.npy': there is no such file"),
    ],
)
def test_bad_arrays_are_refused_in_one_sentence(tmp_path, content, options, words):
    np.save(tmp_path / "e.npy", content)
    with pytest.raises(ValueError, match=words) as refused:
        I.read(tmp_path / "e.npy", **options)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (LABELS[:50], "has 50 rows for 400 embeddings"),
        (LABELS + 0.5, "integers or texts"),
        (np.eye(4)[LABELS], "one-hot rows take the argmax"),
    ],
)
def test_bad_labels_are_refused(tmp_path, labels, words):
    np.save(tmp_path / "l.npy", labels)
    with pytest.raises(ValueError, match=words):
        I.read(save(tmp_path, "npy"), str(tmp_path / "l.npy"))


def test_pickles_are_refused_and_never_run(tmp_path):
    class Trap:
        def __reduce__(self):
            return (open, (str(tmp_path / "sprung"), "w"))

    for name in ("e.pkl", "e.npy", "e.pt"):
        (tmp_path / name).write_bytes(pickle.dumps(Trap()))
        with pytest.raises(ValueError, match=r"refused: .* any program") as refused:
            I.read(tmp_path / name)
        assert "\n" not in str(refused.value)
    torch.save({"model": Trap()}, tmp_path / "f.pt")
    with pytest.raises(ValueError, match=r"refused: .* any program"):
        I.read(tmp_path / "f.pt")
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("name", ["e.npy", "e.npz", "e.pt", "e.safetensors", "e.parquet"])
@pytest.mark.parametrize("content", [b"", b"rubbish" * 50])
def test_damaged_files_are_refused(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=rf"{name} (cannot be read as|is refused)") as refused:
        I.read(tmp_path / name)
    assert "\n" not in str(refused.value)


def test_what_is_no_file_is_refused(tmp_path):
    with pytest.raises(ValueError, match="there is no file"):
        I.read(tmp_path / "none.npy")
    with pytest.raises(ValueError, match="is a folder"):
        I.read(tmp_path)
    (tmp_path / "e.xyz").write_text("")
    with pytest.raises(ValueError, match=r"unknown format '\.xyz'; known are \.npy"):
        I.read(tmp_path / "e.xyz")
    np.savez(tmp_path / "e.npz", a=SPHERE, b=CLUSTERS)
    with pytest.raises(ValueError, match=r"several arrays; say which with --key: a 400×16, b 400×16"):
        I.read(tmp_path / "e.npz")
    assert torch.equal(I.read(tmp_path / "e.npz", key="b").z, tensors(CLUSTERS))


def test_bad_rows_can_be_left_out(tmp_path):
    np.savez(tmp_path / "e.npz", z=bad(rows={7: np.nan, 9: 0}), labels=LABELS, second=bad(SPHERE, rows={11: np.nan}))
    found = I.read(tmp_path / "e.npz", views="second", drop=True)
    assert len(found.z) == len(found.labels) == len(found.views) == N - 3
    assert not {7, 9, 11} & set(found.rows.tolist())
    assert [f.level for f in found.notes].count("bad") == 3


def test_a_huge_file_is_mapped_and_sampled(tmp_path):
    """10 GB that hardly exist on the disk: only the sampled rows may be touched."""
    path = tmp_path / "huge.npy"
    array = np.lib.format.open_memmap(path, "w+", np.float32, (20_000_000, 128))
    indices = np.sort(np.random.default_rng(0).choice(20_000_000, 200, replace=False))
    array[indices] = RANDOM.normal(size=(200, 128))
    del array
    with pytest.raises(ValueError, match=r"20,000,000 embeddings; .* hours\. Give a sample, such as --sample 50000"):
        I.read(path)
    samples = []
    used = peak_extra_memory(lambda: samples.append(I.read(path, sample=200)))
    assert used is None or used < 50e6
    assert samples[0].rows.tolist() == indices.tolist()
    path.unlink()


def test_limit_can_be_overruled_by_asking_for_all(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "LIMIT", 100)
    with pytest.raises(ValueError, match="--sample 400 for all"):
        I.read(save(tmp_path, "npy"))
    assert len(I.read(save(tmp_path, "npy"), sample=N).z) == N


# ---- examining


def test_measures_are_those_of_loops():
    z, views = tensors(CLUSTERS).double()[:40], tensors(SPHERE).double()[:40]
    labels = torch.from_numpy(LABELS[:40])
    found = I.examine(z, labels, views).values
    u = (z / z.norm(dim=1, keepdim=True)).numpy()
    s, apart, same = u @ u.T, ~np.eye(40, dtype=bool), LABELS[:40, None] == LABELS[:40]
    nearest = np.where(apart, s, -2).argmax(1)
    wanted = {
        "uniformity": math.log(np.mean(np.exp(4 * s[apart] - 4))),
        "mean_similarity": s[apart].mean(),
        "tolerance": s[apart & same].mean(),
        "class_gap": s[apart & same].mean() - s[~same].mean(),
        "nearest_agreement": np.mean([same[i, nearest[i]] for i in range(40)]),
        "nearest_similarity": np.where(apart, s, -2).max(1).mean(),
        "alignment": M.alignment(z, views),
        "effective_rank": M.effective_rank(z),
        "conditional_entropy": M.conditional_entropy(z),
        "interclass_uniformity": M.interclass_uniformity(z, labels),
        "prior_distance": M.prior_distance(z),
        "positive_similarity": M.local_separation(z, views)[0],
        "nearest_negative": float(M.local_separation(z, views)[1].mean()),
    }
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert found[name] == pytest.approx(value, rel=1e-10), name


def test_classes_are_measured_one_by_one():
    z, labels = tensors(CLUSTERS), torch.from_numpy(LABELS)
    found = I.examine(z, labels, classes=["a", "b", "c", "d"])
    assert [c.name for c in found.classes] == ["a", "b", "c", "d"]
    for i, one in enumerate(found.classes):
        assert one.items == 100
        assert one.tolerance == pytest.approx(M.tolerance(z[labels == i], torch.zeros(100)), rel=1e-4)  # float32
    assert found.chance == pytest.approx(99 / 399)


def test_even_uniformity_is_that_of_many_random_points():
    for d in (2, 3, 16, 128):
        sphere = torch.randn(4000, d, generator=torch.Generator().manual_seed(d))
        assert even_uniformity(d) == pytest.approx(M.uniformity(sphere), abs=0.02)  # 4,000 points are not all points
    assert even_uniformity(3) == pytest.approx(math.log(math.sinh(4) / 4) - 4)


def test_reach_is_the_entropy_of_the_shares_and_grows_with_temperature():
    z = tensors(SPHERE).double()[:60]
    queries = Queries(z)
    u = (z / z.norm(dim=1, keepdim=True)).numpy()
    for tau in (0.05, 0.3):
        entropies = []
        for i in range(60):
            r = np.exp(np.delete(u[i] @ u.T, i) / tau)
            r /= r.sum()
            entropies.append(-(r * np.log(r)).sum())
        assert queries.reach(tau) == pytest.approx(math.exp(np.mean(entropies)) / 59, rel=1e-10)
    reaches = [queries.reach(tau) for tau in np.geomspace(0.01, 10, 20)]
    assert (np.diff(reaches) > 0).all()


def test_recommended_temperatures_reach_what_they_promise():
    z = torch.randn(3000, 32, generator=torch.Generator().manual_seed(0))
    queries = Queries(z)
    low, high = queries.temperature_of(LOW), queries.temperature_of(HIGH)
    assert queries.reach(low) == pytest.approx(LOW, rel=0.01)
    assert queries.reach(high) == pytest.approx(HIGH, rel=0.01)
    # similarities that are normal: reach = exp(−σ²/2τ²), here σ² = 1/32, up to the fewness of the negatives
    assert high == pytest.approx(math.sqrt(1 / 32 / (2 * math.log(1 / HIGH))), rel=0.05)
    advice = advise(queries)
    assert (advice.low, advice.high) == (pytest.approx(low, rel=0.05), pytest.approx(high, rel=0.05))
    assert advice.tau_min <= advice.tau_max
    assert f"τ = {advice.low:g}" in advice.reasoning
    assert take([recommended_temperature], Subject(z)) == {
        "recommended_temperature": pytest.approx(math.sqrt(low * high), rel=1e-6)
    }
    assert take([recommended_temperature], Subject(z[:40])) == {}  # too few to speak of a tenth of them
    fewer = Queries(z[:600])
    assert fewer.temperature_of(HIGH) == pytest.approx(high, rel=0.05)  # hardly depends on how many negatives there are


def test_own_class_takes_more_of_the_repulsion_at_low_temperature():
    hardness = I.examine(tensors(CLUSTERS), torch.from_numpy(LABELS)).hardness
    assert hardness.same_class[0] > 0.95 > hardness.same_class[-1]
    assert (np.diff(hardness.reach) > 0).all()
    middles = (hardness.edges[1:] + hardness.edges[:-1]) / 2
    means = [profile @ middles for profile in hardness.profiles.values()]
    assert (np.diff(means) < 0).all()
    assert sum(hardness.profiles[0.1]) == pytest.approx(1)


def test_a_sphere_is_healthy_and_knows_no_labels():
    health = I.examine(tensors(SPHERE), torch.from_numpy(LABELS))
    assert levels(health, "spread well") == ["good"]
    assert levels(health, "many of its directions") == ["good"]
    assert levels(health, "labels are not in the embedding") == ["bad"]


def test_clusters_agree_with_their_labels():
    health = I.examine(tensors(CLUSTERS), torch.from_numpy(LABELS))
    assert levels(health, "neighbour is of its class 100.0%") == ["good"]
    assert not [f for f in health.findings if f.level == "bad"]
    tight = CENTRES[LABELS] + 0.001 * RANDOM.normal(size=(N, D))
    assert levels(I.examine(torch.from_numpy(tight), torch.from_numpy(LABELS)), "classes have shrunk to points") != []


def test_one_point_is_collapsed():
    health = I.examine(tensors(POINT))
    assert levels(health, "nearly collapsed") == ["bad"]
    assert health.values["uniformity"] > -0.4
    same = I.examine(torch.ones(50, 8))
    assert levels(same, "nearly collapsed") == ["bad"]
    assert same.duplicates == 49
    assert len(same.constant_columns) == 8
    assert same.advice.low is None
    assert "Mend the collapse" in same.advice.reasoning


def test_no_temperature_is_recommended_where_it_would_mean_nothing():
    noise = torch.randn(N, D, generator=torch.Generator().manual_seed(0))
    collapsed = I.examine(torch.ones(N, D) + 0.05 * noise)  # similarities do differ, a little
    assert levels(collapsed, "nearly collapsed") == ["bad"]
    assert collapsed.advice.low is None
    assert "nearly collapsed" in collapsed.advice.reasoning
    assert I.examine(noise, views=noise.clone()).advice.low is None
    assert I.examine(noise[:40]).advice.low is None
    assert I.examine(noise).advice.low is not None


def test_nothing_is_said_about_classes_that_nobody_knows():
    z = tensors(CLUSTERS)
    assert "own class" not in I.examine(z).advice.reasoning
    assert "own class" in I.examine(z, torch.from_numpy(LABELS)).advice.reasoning


def test_a_few_items_or_identical_views_are_not_called_good():
    few = I.examine(tensors(SPHERE)[:2])
    assert levels(few, "spread well") == levels(few, "many of its directions") == []
    assert levels(few, "too few to say how well they are spread") == ["look"]
    assert "good" not in {row.healthy.level for row in I.describe(few)}
    z = tensors(SPHERE)
    same = I.examine(z, views=z.clone())
    assert levels(same, "are identical") == ["look"]
    assert levels(same, "closer than its nearest other") == []
    views = [row.healthy.level for row in I.describe(same) if "views" in row.measure.needs]
    assert views == ["look"] * 3


def test_minus_one_is_no_label(tmp_path):
    labels = torch.from_numpy(LABELS.copy())
    labels[:100] = -1
    some = I.examine(tensors(CLUSTERS), labels)
    assert levels(some, "100 of 400 items are labelled −1, which is taken for no label") == ["look"]
    assert len(some.classes) == 4
    rest, whole = I.examine(tensors(CLUSTERS)[100:], labels[100:]), I.examine(tensors(CLUSTERS))
    for name in ("tolerance", "class_gap", "nearest_agreement", "interclass_uniformity"):
        assert some.values[name] == pytest.approx(rest.values[name]), name
    assert some.values["uniformity"] == whole.values["uniformity"]
    none = I.examine(tensors(CLUSTERS), torch.full((N,), -1))
    assert none.classes == ()
    assert "tolerance" not in none.values
    for name, write in (("y.npy", lambda p: np.save(p, labels)), ("y.txt", lambda p: np.savetxt(p, labels, "%d"))):
        write(tmp_path / name)
        np.save(tmp_path / "z.npy", CLUSTERS)
        there = I.read(tmp_path / "z.npy", labels=tmp_path / name)
        assert there.classes == ("0", "1", "2", "3")
        assert torch.equal(there.labels, labels)
        I.run(tmp_path / "z.npy", I.Reading(labels=tmp_path / name), I.Output(tmp_path / "z.html"), layout="pca")
        assert "no label" in (tmp_path / "z.html").read_text()


@pytest.mark.parametrize("gap", [None, ""])
def test_rows_without_a_label_can_be_left_out(tmp_path, gap):
    labels = [f"kind {c}" for c in LABELS]
    labels[7] = gap
    pq.write_table(pa.table({"z": pa.array(list(CLUSTERS)), "label": pa.array(labels)}), tmp_path / "e.parquet")
    with pytest.raises(ValueError, match=r"1 of 400 rows have no label: row 7\. .* --drop"):
        I.read(tmp_path / "e.parquet", labels="label")
    assert len(I.read(tmp_path / "e.parquet", labels="label", drop=True).z) == N - 1
    np.save(tmp_path / "z.npy", CLUSTERS)
    np.save(tmp_path / "y.npy", np.where(np.arange(N) == 3, np.nan, LABELS))
    assert len(I.read(tmp_path / "z.npy", labels=tmp_path / "y.npy", drop=True).labels) == N - 1


def test_one_number_is_one_number_on_the_page_and_in_the_findings(tmp_path):
    np.save(tmp_path / "z.npy", SPHERE)
    health = I.run(tmp_path / "z.npy", output=I.Output(tmp_path / "z.html"), layout="none")
    text = (tmp_path / "z.html").read_text()
    for name in ("effective_rank", "uniformity"):
        said = number(health.values[name])
        assert text.count(said) >= 3, name  # the tile, a finding's reason, the table


def test_low_rank_is_dimension_collapse():
    z = torch.randn(500, 2, generator=torch.Generator().manual_seed(0)) @ torch.randn(2, 64)
    assert levels(I.examine(z), "Dimensions have collapsed") == ["bad"]


def test_classes_torn_apart_mean_too_low_a_temperature():
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(2000, 128, generator=generator)
    labels = torch.arange(2000) % 10
    z[::2] = z[1::2].roll(0, 0)  # pairs that are near …
    labels[::2] = labels[1::2]  # … and alike, while the classes are not
    z += 0.5 * torch.randn(2000, 128, generator=generator)
    health = I.examine(z, labels)
    assert levels(health, "temperature is too low") == ["look"]


def test_a_cone_dead_units_uneven_lengths_and_repeats_are_found():
    z = tensors(SPHERE)
    z[100:200] *= 20
    z[:, 5] = 4.0
    z[10:40] = z[3]
    health = I.examine(z)
    assert health.constant_columns == (5,)
    assert health.duplicates == 30
    for word in ("columns is constant", "30 rows repeat", "Lengths differ"):
        assert levels(health, word) == ["look"], word
    assert levels(I.examine(tensors(SPHERE) + 1.5), "in a cone") == ["look"]


def test_labels_of_one_class_or_with_singletons_are_said():
    one = I.examine(tensors(SPHERE), torch.zeros(N, dtype=torch.long))
    assert levels(one, "All labels are one class") == ["look"]
    assert "interclass_uniformity" not in one.values
    labels = torch.from_numpy(LABELS.copy())
    labels[:3] = torch.tensor([10, 11, 12])
    some = I.examine(tensors(CLUSTERS), labels)
    assert levels(some, "3 of 7 classes have a single item") == ["look"]
    assert some.values["nearest_agreement"] > 0.98
    every = I.examine(tensors(CLUSTERS), torch.arange(N))
    assert "tolerance" not in every.values


def test_views_in_another_order_are_found():
    z = tensors(SPHERE)
    near = z + 0.05 * torch.randn(N, D, generator=torch.Generator().manual_seed(0))
    assert levels(I.examine(z, views=near), "closer than its nearest other") == ["good"]
    assert levels(I.examine(z, views=near.flip(0)), "same order") == ["bad"]


def test_nobody_is_asked_about_the_order_of_views_that_a_run_made():
    z = tensors(SPHERE)
    made = I.examine(z, views=(z, z.flip(0)))
    assert levels(made, "same order") == []
    assert levels(made, "More training, or weaker views") == ["bad"]


@pytest.mark.parametrize("n", [2, 3, 12])
def test_a_handful_of_items_is_enough(n, tmp_path):
    np.save(tmp_path / "e.npy", SPHERE[:n])
    health = I.run(tmp_path / "e.npy", output=I.Output(tmp_path / "e.html"))
    assert health.n == n
    assert levels(health, "is the array transposed?") == ["look"]


def test_every_measure_is_explained():
    health = I.examine(tensors(CLUSTERS), torch.from_numpy(LABELS), tensors(SPHERE))
    rows = I.describe(health)
    assert {row.measure.name for row in rows} == health.values.keys()
    assert all(row.measure.meaning and row.healthy.where for row in rows)
    assert all(f.text.endswith((".", "?")) for f in health.findings)


def test_numbers_are_saved_as_json(tmp_path):
    I.run(save(tmp_path, "npz"), output=I.Output(json=tmp_path / "e.json"), layout="none")
    found = json.loads((tmp_path / "e.json").read_text())
    assert found["n"] == N
    assert found["values"]["uniformity"] < -2
    assert len(found["spectrum"]) == D
    assert {"level", "text", "why"} <= found["findings"][0].keys()
    assert found["advice"]["tau_min"] > 0


@pytest.mark.parametrize(
    ("z", "on", "code"),
    [(POINT, "bad", 3), (POINT, "warning", 3), (POINT, None, 0), (SPHERE, "bad", 0), (SPHERE, "warning", 0)],
)
def test_a_pipeline_can_stop_at_what_is_bad(tmp_path, capsys, z, on, code):
    np.save(tmp_path / "z.npy", z)
    more = [] if on is None else ["--fail-on", on]
    assert main(["inspect", str(tmp_path / "z.npy"), "--map", "none", *more]) == code
    said = capsys.readouterr()
    assert ("nearly collapsed" in said.err) == (code == 3)
    assert "uniformity" in said.out.lower()


def test_a_pipeline_stops_at_a_warning_only_where_it_is_asked_to(tmp_path):
    np.save(tmp_path / "z.npy", np.concatenate([SPHERE, SPHERE[:40]]))  # repeated rows are worth a look, not bad
    codes = [main(["inspect", str(tmp_path / "z.npy"), "--fail-on", on]) for on in ("bad", "warning")]
    assert codes == [0, 3]


def test_a_pipeline_does_not_stop_at_good_classes_nor_at_a_sample(tmp_path):
    labels = np.arange(N) % 2
    z = 3 * CENTRES[labels] + RANDOM.normal(size=(N, D))  # half of the negatives are of the query's class
    np.savez(tmp_path / "z.npz", embeddings=z, labels=labels)
    command = ["inspect", str(tmp_path / "z.npz"), "--fail-on", "warning", "--map", "none", "--html"]
    assert main([*command, str(tmp_path / "z.html"), "--json", str(tmp_path / "z.json")]) == 0
    (advice,) = (f for f in json.loads((tmp_path / "z.json").read_text())["findings"] if f["remark"])
    assert advice["level"] == "look"
    assert "falls on its own class" in advice["text"]
    assert "Healthy: " in (tmp_path / "z.html").read_text()
    assert main([*command, str(tmp_path / "z.html"), "--sample", "200"]) == 0


def test_what_cannot_be_written_is_refused_before_the_work(tmp_path):
    with pytest.raises(ValueError, match="cannot be written"):
        I.run(save(tmp_path, "npy"), output=I.Output(tmp_path))
    with pytest.raises(ValueError, match="no layout 'umap'; there is: tsne, pca, none"):
        I.run(save(tmp_path, "npy"), layout="umap")


@pytest.mark.slow
def test_maps_keep_clusters_together():
    for layout in ("tsne", "pca"):
        at, _ = flattened(CLUSTERS.astype(np.float64), layout)
        near = ((at[:, None] - at[None]) ** 2).sum(2) + 1e9 * np.eye(N)
        assert np.mean(LABELS[near.argmin(1)] == LABELS) > (0.95 if layout == "tsne" else 0.6), layout
        few = CLUSTERS[:60].astype(np.float64)
        np.testing.assert_array_equal(flattened(few, layout)[0], flattened(few, layout)[0])


# ---- comparing


def test_files_and_runs_are_compared(tmp_path):
    first, second, run = tmp_path / "a" / "e.npy", tmp_path / "b" / "e.npy", tmp_path / "run"
    for folder in (first.parent, second.parent, run):
        folder.mkdir()
    np.save(first, SPHERE)
    np.save(second, POINT)
    (run / "result.json").write_text(json.dumps({"measures": {"uniformity": -1.0, "knn": {"top1": 0.5}, "note": "x"}}))
    both = {row.measure: row.best for row in I.compare([first, second]).rows}
    assert both["uniformity"] == 0
    found = I.run_compare([first, second, run], output=I.Output(tmp_path / "c.html", tmp_path / "c.json"))
    assert [e.name for e in found.entries] == ["a/e.npy", "b/e.npy", f"{tmp_path.name}/run"]
    rows = {row.measure: row for row in found.rows}
    assert rows["uniformity"].best is None  # a run beside files
    assert rows["uniformity"].values[2] == -1.0
    assert rows["knn.top1"].values == (None, None, 0.5)
    assert rows["mean_similarity"].best is None
    assert json.loads((tmp_path / "c.json").read_text())["entries"] == [e.name for e in found.entries]


def stars(comparison):
    return {row.measure: row.best for row in comparison.rows if row.best is not None}


def test_a_star_means_more_than_chance(tmp_path):
    generator = np.random.default_rng(1)
    for name, spread in (("a", 0.15), ("b", 0.15), ("c", 0.3)):
        z = CENTRES[LABELS] + spread * generator.normal(size=(N, D))
        np.savez(tmp_path / f"{name}.npz", z=z, labels=LABELS)
    a, b, c = (tmp_path / f"{name}.npz" for name in "abc")
    assert stars(I.compare([a, b])) == {}  # two draws of one distribution
    assert stars(I.compare([a, c]))["uniformity"] == 1
    assert stars(I.compare([a, c]))["class_gap"] == 0
    assert "uniformity" not in stars(I.compare([c, a, c]))  # the best two are one


def test_a_share_has_the_error_of_so_many_items_and_no_interval_above_one(tmp_path):
    rng = np.random.default_rng(0)
    labels = np.arange(600) % 40  # 15 of a class: in an eighth of the rows some have nobody of their own
    for name, noise in (("a", 0.05), ("b", 0.06)):
        np.savez(tmp_path / f"{name}.npz", z=np.eye(40)[labels] + noise * rng.standard_normal((600, 40)), labels=labels)
    compared = I.compare([tmp_path / "a.npz", tmp_path / "b.npz"])
    assert [entry.values["nearest_agreement"] for entry in compared.entries] == [1, 1]
    p = 602 / 604  # Agresti & Coull
    for entry in compared.entries:
        assert entry.errors["nearest_agreement"] == pytest.approx(math.sqrt(p * (1 - p) / 600))
    I.run_compare([tmp_path / "a.npz", tmp_path / "b.npz"], output=I.Output(tmp_path / "c.html", None))
    assert '"most":1' in (tmp_path / "c.html").read_text()


def test_nothing_collapsed_or_of_another_width_gets_a_star(tmp_path):
    views = tensors(SPHERE) + 0.3 * torch.randn(N, D, generator=torch.Generator().manual_seed(0))
    np.savez(tmp_path / "a.npz", z=SPHERE, views=views.numpy(), labels=LABELS)
    np.save(tmp_path / "b.npy", POINT)
    generator = np.random.default_rng(1)
    np.save(tmp_path / "turned.npy", generator.normal(size=(D, N)))
    wide = np.repeat(CLUSTERS, 2, 1) + generator.normal(size=(N, 2 * D)) / 9
    np.savez(tmp_path / "wide.npz", z=wide, labels=LABELS)
    assert stars(I.compare([tmp_path / "a.npz", tmp_path / "turned.npy"])) == {}
    assert stars(I.compare([tmp_path / "a.npz", tmp_path / "wide.npz"])).keys() <= {
        *("tolerance", "class_gap", "nearest_agreement", "interclass_uniformity"),
    }
    assert stars(I.compare([tmp_path / "a.npz", tmp_path / "wide.npz"]))["nearest_agreement"] == 1


@pytest.mark.parametrize(
    ("first", "second", "starred"),
    [
        ({"knn": 0.9806}, {"knn": 0.9778}, {}),  # one image of 360
        ({"knn": 0.98}, {"knn": 0.85}, {"knn": 0}),
        ({"uniformity": -3.0, "alignment": 0.3}, {"uniformity": -0.05, "alignment": 0.001}, {}),
    ],
)
def test_runs_are_starred_by_how_many_images_they_were_asked_about(tmp_path, first, second, starred):
    config = {"data": "digits", "test": "test", "head": {"name": "simclr", "width": 128}}
    for name, measured in (("a", first), ("b", second)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "result.json").write_text(json.dumps({"measures": measured, "config": config}))
    assert stars(I.compare([tmp_path / "a", tmp_path / "b"])) == starred
    (tmp_path / "b" / "result.json").write_text(json.dumps({"measures": second, "config": {"data": "cifar10"}}))
    assert stars(I.compare([tmp_path / "a", tmp_path / "b"])) == {}


def test_bad_comparisons_are_refused(tmp_path):
    with pytest.raises(ValueError, match="at least 2 files"):
        I.compare([save(tmp_path, "npy")])
    with pytest.raises(ValueError, match=r"is no finished run: it has no result\.json"):
        I.compare([save(tmp_path, "npy"), tmp_path])
    (tmp_path / "result.json").write_text("[]")
    with pytest.raises(ValueError, match="damaged"):
        I.compare([save(tmp_path, "npy"), tmp_path])


# ---- pages


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inspect")
    labels = np.array([f"<b>kind</b> {c}" for c in LABELS])
    np.savez(folder / "full.npz", z=CLUSTERS, labels=labels, second=CLUSTERS + 0.05 * SPHERE)
    np.save(folder / "bare.npy", POINT)
    full = I.Output(folder / "full.html", command="isotherm inspect full.npz")
    I.run(folder / "full.npz", I.Reading(views="second"), full)
    I.run(folder / "bare.npy", output=I.Output(folder / "bare.html"), layout="pca")
    I.run_compare([folder / "full.npz", folder / "bare.npy"], output=I.Output(folder / "compare.html"))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(("name", "figures"), [("full", 7), ("bare", 4), ("compare", 4)])
def test_pages_are_whole_quiet_and_readable(browser, pages, name, figures):
    path = pages / f"{name}.html"
    assert path.stat().st_size < 3_000_000
    for width, dark in ((1200, False), (400, False), (400, True)):
        browser.open(path, width=width, dark=dark)
        assert browser.complaints() == []
        assert browser.requests() == [path.as_uri()]
        assert browser.run("return document.querySelectorAll('figure svg path').length") >= figures
        assert browser.run("return document.querySelectorAll('figure').length") == figures
        assert browser.run("return document.documentElement.scrollWidth") <= width
        ratio, what = browser.contrasts()[0]
        assert ratio > 4.5, what


def test_map_names_the_item_under_the_pointer(browser, pages):
    browser.open(pages / "full.html")
    x, y = browser.run(
        "const svg = document.querySelector('.canvas .cloud').closest('svg'); svg.scrollIntoView({block: 'center'});"
        "const start = svg.querySelector('.cloud').getAttribute('d').match(/M([\\d.]+) ([\\d.]+)/);"
        "const b = svg.getBoundingClientRect(); return [b.x + Number(start[1]), b.y + Number(start[2])];"
    )
    browser.hover(x, y)
    assert browser.run("return document.querySelector('.tip strong').textContent").startswith("<b>kind</b> 0 · row ")


def examined_fifty_thousand():
    """How much memory it takes."""
    z = torch.randn(50_000, 128, generator=torch.Generator().manual_seed(0))
    return peak_extra_memory(lambda: I.examine(z, torch.arange(50_000) % 10))


@pytest.mark.slow
def test_fifty_thousand_embeddings_stay_in_memory():
    """The bar on memory; time is measured by `isotherm bench probes`.

    In a process of its own: what earlier tests did to the allocator is not what is asked.
    """
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        used = pool.apply(examined_fifty_thousand)
    assert used is None or used < 500e6


@pytest.mark.parametrize(("width", "explained"), [("80", False), ("160", True)])
def test_a_terminal_shows_findings_first_and_meanings_where_there_is_room(
    tmp_path, capsys, monkeypatch, width, explained
):
    np.save(tmp_path / "z.npy", np.random.default_rng(0).standard_normal((80, 8)))
    monkeypatch.setenv("COLUMNS", width)
    assert main(["inspect", str(tmp_path / "z.npy")]) == 0
    said = capsys.readouterr().out
    assert said.index("good") < said.index("uniformity")
    assert ("what it means" in said) == explained
    table = said[said.index("healthy") :].splitlines()
    assert max(map(len, table)) <= int(width)


@pytest.mark.parametrize(
    ("levels", "words"),
    [
        (("good", "good"), "Healthy: 2 of 2 findings are good."),
        (("good", "look", "look"), "Worth a look: an item, and 1 more."),
        (("look", "bad"), "Not healthy: an item."),
    ],
)
def test_a_line_sums_the_findings_up(levels, words):
    verdict = verdict_of([Finding(level, "An item: more 3.5 of it.") for level in levels])
    assert verdict.text == words
    assert verdict.level == min(levels, key=("bad", "look", "good").index)
