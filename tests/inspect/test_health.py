"""What is measured of an embedding and what is found: against loops, and on shapes that are known."""

import json
import math
import multiprocessing

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from isotherm import inspect as I
from isotherm import measures as M
from isotherm.bench.measure import peak_extra_memory
from isotherm.cli import main
from isotherm.inspect.health import even_uniformity
from isotherm.inspect.page import flattened
from isotherm.inspect.temperature_advice import advise
from isotherm.measures.measure import take
from isotherm.measures.reach import HIGH, LOW, Queries, recommended_temperature
from isotherm.measures.subject import Subject
from isotherm.report import number
from small_embeddings import CENTRES, CLUSTERS, LABELS, POINT, RANDOM, SPHERE, D, N, levels, save, tensors


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
    # similarities that are normal: reach = exp(−σ²/2τ²), here σ² = 1/32, but for their ends and their fewness
    assert queries.temperature_of(0.5) == pytest.approx(math.sqrt(1 / 32 / (2 * math.log(2))), rel=0.05)
    advice = advise(queries)
    assert (advice.low, advice.high) == (pytest.approx(low, rel=0.05), pytest.approx(high, rel=0.05))
    assert advice.tau_min <= advice.tau_max
    assert f"τ = {advice.low:g}" in advice.reasoning
    assert take([recommended_temperature], Subject(z)) == {
        "recommended_temperature": pytest.approx(math.sqrt(low * high), rel=1e-6)
    }
    assert take([recommended_temperature], Subject(z[:200])) == {}  # too few to speak of 2 % of them
    fewer = Queries(z[:600])
    assert fewer.temperature_of(HIGH) == pytest.approx(high, rel=0.05)  # hardly depends on how many negatives there are


def test_what_falls_on_the_own_class_is_said_of_the_temperatures_that_are_recommended():
    draw = torch.Generator().manual_seed(0)
    labels = torch.arange(1000) % 10
    cone = 0.3 * torch.randn(10, 256, generator=draw)[labels] + torch.randn(1000, 256, generator=draw) + 2.4
    health = I.examine(cone, labels)
    u = torch.nn.functional.normalize(cone.double(), dim=1)
    shares = [
        (u @ u.T / t).fill_diagonal_(-torch.inf).softmax(1)[labels[:, None] == labels].sum() / len(u)
        for t in (health.advice.low, health.advice.high)
    ]
    assert health.advice.high < 0.01  # below all that was looked at once
    assert health.advice.own_class == pytest.approx([float(share) for share in shares], abs=0.05)  # a sample of queries
    assert levels(health, f"{health.advice.own_class[0]:.0%} to {health.advice.own_class[1]:.0%} of a query's") != []
    assert health.hardness.temperatures[0] < health.advice.low


def test_clusters_that_are_points_are_not_told_to_mend_a_collapse():
    tight = torch.from_numpy(np.repeat(CENTRES[:4], 300, 0) + 1e-4 * RANDOM.normal(size=(4 * 300, D)))
    advice = I.examine(tight, torch.arange(4).repeat_interleave(300)).advice
    assert advice.low is None
    assert "25% of a query's negatives are as similar to it as its nearest one" in advice.reasoning


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
