"""What studies measure of a run, each group computed in another way; and that what is damaged is done again."""

import json
import shutil

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from isotherm import probes
from isotherm.experiments import execute, records, wording
from isotherm.experiments.claims.verdict import Evidence, Verdict
from isotherm.experiments.measuring import carry_out, done
from isotherm.experiments.trained import images as trained_images
from isotherm.experiments.trained.images import TrainedImages
from isotherm.measures import geometry
from isotherm.measures.catalogue import groups, in_groups
from isotherm.probes.extract import features_of
from isotherm.probes.linear import linear
from isotherm.probes.splits import few_shot_split
from isotherm.report import Page, figures
from isotherm.report.charts import Picture
from isotherm.train import runs
from isotherm.train.commandline import configure
from isotherm.train.modality.images import images_of
from isotherm.train.monitor import two_views

PROTOCOLS = tuple(f"linear {name}" for name in probes.PROTOCOLS)
"""Groups that take as long as a training."""
IMAGES = tuple(
    name
    for name, group in groups().items()
    if name not in PROTOCOLS and all(not {"sentences", "pairs", "towers"} & set(m.needs) for m in group)
)
SMALL = {"images": 200, "epochs": 1, "batch": 50, "encoder.widths": [16], "monitor": 0}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "r"
    carry_out(configure({**SMALL, "randbit": 2, "imbalance": "linear"}), folder, IMAGES)
    return folder


def test_every_group_gives_what_it_names(run):
    found = done(run, IMAGES).measures
    absent = {"linear_digit", "linear_object", "recommended_temperature"}  # nothing pasted; two bits are four points
    names = {m.name for m in in_groups(IMAGES) if not m.curve} - absent
    assert names <= found.keys()
    assert all(np.isfinite(found[name]) for name in names)


def test_one_and_ten_neighbours_are_scikit_learns_weighted_by_distance(run):
    trained = TrainedImages(runs.open_run(run))
    bank, queries = (torch.nn.functional.normalize(z.double(), dim=1) for z in (trained.bank, trained.queries))
    for k in (1, 10):
        theirs = KNeighborsClassifier(k, weights="distance").fit(bank, trained.run.images.labels)
        assert done(run).measures[f"knn{k}"] == pytest.approx(theirs.score(queries, trained.test.labels))


def test_two_hundred_neighbours_vote_by_their_similarity(run):
    trained = TrainedImages(runs.open_run(run))
    bank, queries = (torch.nn.functional.normalize(z, dim=1).double().numpy() for z in (trained.bank, trained.queries))
    labels, right = trained.run.images.labels.numpy(), []
    for query, label in zip(queries, trained.test.labels.tolist(), strict=True):
        s = bank @ query
        votes = np.zeros(10)
        for i in np.argsort(-s)[:200]:
            votes[labels[i]] += np.exp(s[i] / 0.1)
        right.append(votes.argmax() == label)
    assert done(run).measures["knn200"] == pytest.approx(np.mean(right))


def test_few_labels_is_a_mean_over_ten_draws_of_the_whole_training_part(run):
    trained = TrainedImages(runs.open_run(run))
    whole = images_of(configure({**SMALL, "images": None, "randbit": 2}), "train")
    features = features_of(trained.run.network.encoder, whole, trained.run.recipe)
    scores = []
    for seed in range(10):
        some, _ = few_shot_split(whole.labels, 5, seed)
        assert torch.bincount(whole.labels[some]).tolist() == [5] * 10
        theirs = make_pipeline(StandardScaler(), LogisticRegression(C=1 / (0.01 * 50), tol=1e-8, max_iter=10_000))
        theirs.fit(features[some].double(), whole.labels[some])
        scores.append(theirs.score(trained.queries.double(), trained.test.labels))
    # an item between two classes may fall to either by rounding
    assert done(run).measures["few_labels"] == pytest.approx(np.mean(scores), abs=0.5 / len(trained.test))


def test_few_labels_cannot_be_said_where_a_class_has_fewer(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {f"{split}_images": rng.integers(0, 255, (60, 8, 8), dtype=np.uint8) for split in ("train", "test")}
    arrays |= {f"{split}_labels": np.array([0] * 4 + [1] * 56) for split in ("train", "test")}
    np.savez(tmp_path / "few.npz", **arrays)
    config = configure({**SMALL, "images": None, "data": f"arrays:{tmp_path}/few.npz"})
    found = carry_out(config, tmp_path / "r", ("probes", "few labels")).measures
    assert "few_labels" not in found
    assert "linear" in found


def test_features_are_measured_as_embeddings_are(run):
    trained, found = TrainedImages(runs.open_run(run)), done(run).measures
    encoder, sample = trained.run.network.encoder, trained.sample
    z = features_of(encoder, sample, trained.run.recipe)
    assert found["feature_uniformity"] == pytest.approx(geometry.uniformity(z))
    assert found["feature_tolerance"] == pytest.approx(geometry.tolerance(z, sample.labels))
    assert found["feature_class_alignment"] == pytest.approx(2 - 2 * geometry.tolerance(z, sample.labels))
    assert found["feature_interclass_uniformity"] == pytest.approx(geometry.interclass_uniformity(z, sample.labels))
    views = two_views(encoder, sample, trained.run.recipe)
    assert found["feature_alignment"] == pytest.approx(geometry.alignment(*views))
    assert found["rankme"] == pytest.approx(geometry.rankme(z))
    assert found["feature_uniformity"] != found["uniformity"]


@pytest.mark.parametrize(
    ("settings", "t_neg"), [({}, 2.0), ({"method": "cacr", "loss": "CACRLoss", "loss.t_neg": 0.9}, 0.9)]
)
def test_conditional_entropy_is_a_mean_over_mini_batches_with_the_losss_own_t(tmp_path, settings, t_neg):
    carry_out(configure({**SMALL, **settings}), tmp_path / "r", ("geometry",))
    trained = TrainedImages(runs.open_run(tmp_path / "r"))
    z = torch.nn.functional.normalize(trained.embeddings.double(), dim=1)
    order = torch.randperm(360, generator=torch.Generator().manual_seed(0))
    entropies = []
    for batch in (order[:128], order[128:256]):  # what is left is not a whole one
        for i in batch:
            others = batch[batch != i]
            weights = torch.softmax(-t_neg * (z[i] - z[others]).square().sum(1), 0)
            entropies.append(-float((weights * weights.log()).sum()))
    found = done(tmp_path / "r").measures["conditional_entropy"]
    assert found == pytest.approx(np.mean(entropies), abs=1e-4)
    assert runs.read_result(tmp_path / "r").measures["conditional_entropy"] == pytest.approx(found, abs=1e-3)


def test_what_one_left_that_was_killed_while_it_measured_goes_when_it_is_measured_again(tmp_path):
    config, folder = configure(SMALL), tmp_path / "r"
    carry_out(config, folder, ("geometry",))
    before = {p.name for p in folder.iterdir()}
    (folder / "measured.json").unlink()
    (folder / ".embedding.npz.99.isotherm-part").write_bytes(b"half of it")
    carry_out(config, folder, ("geometry",))
    assert {p.name for p in folder.iterdir()} == before


def test_class_alignment_is_a_mean_over_pairs_of_one_class(run):
    trained = TrainedImages(runs.open_run(run))
    z = torch.nn.functional.normalize(trained.embeddings.double(), dim=1)
    alike = (trained.sample.labels[:, None] == trained.sample.labels) & ~torch.eye(len(z), dtype=torch.bool)
    distances = (z[:, None] - z[None]).square().sum(2)[alike]
    assert done(run).measures["class_alignment"] == pytest.approx(float(distances.mean()), abs=1e-5)


def test_kinds_of_pairs_are_all_pairs():
    labels = torch.tensor([0, 0, 1, 2])
    z = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    found = trained_images.similarities_by_kind(z, z, labels)
    assert {name: len(s) for name, s in found.items()} == {"true positive": 4, "false negative": 2, "true negative": 10}
    np.testing.assert_allclose(found["true positive"], 1)
    a, b = z[0] / z[0].norm(), z[1] / z[1].norm()
    np.testing.assert_allclose(found["false negative"], float(a @ b), atol=1e-6)


def test_pairs_before_training_are_those_of_the_first_weights(run):
    found = done(run).measures
    width = trained_images.EDGES[1] - trained_images.EDGES[0]
    for when in ("before", "after"):
        for counts in found[f"pairs_{when}"].values():
            assert sum(counts) * width == pytest.approx(1, abs=1e-3)  # records keep four digits of each
    assert found["pairs_before"] != found["pairs_after"]


def test_the_probe_of_the_whole_set_is_taught_on_balanced_images(run):
    learnt = images_of(configure({**SMALL, "randbit": 2, "imbalance": "linear"}), "train").counts()
    assert max(learnt) > 4 * min(learnt)
    trained = TrainedImages(runs.open_run(run))
    even = images_of(configure({**SMALL, "randbit": 2}), "train")
    bank = features_of(trained.run.network.encoder, even, trained.run.recipe)
    expected = linear(bank, even.labels, trained.queries, trained.test.labels, seed=0).accuracy
    assert done(run).measures["linear_whole"] == expected


def test_every_protocol_of_a_paper_is_a_measure_in_a_group_of_its_own():
    assert tuple(name for name in groups() if name.startswith("linear ")) == PROTOCOLS


def test_the_measure_of_a_protocol_follows_it_on_augmented_images_of_equal_classes(tmp_path):
    settings = {**SMALL, "images": 100, "imbalance": "linear"}
    found = carry_out(configure(settings), tmp_path / "r", ("linear cacr-small",)).measures
    run = runs.open_run(tmp_path / "r")
    even = images_of(configure({**SMALL, "images": 100}), "train")
    expected = probes.follow_augmented("cacr-small", run.network.encoder, even, run.test, run.recipe)
    assert found == {"linear_cacr_small": expected.accuracy}


def test_one_class_is_measured_without_probes(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {f"{split}_images": rng.integers(0, 255, (60, 8, 8), dtype=np.uint8) for split in ("train", "test")}
    arrays |= {f"{split}_labels": np.zeros(60, int) for split in ("train", "test")}
    np.savez(tmp_path / "one.npz", **arrays)
    config = configure({**SMALL, "images": None, "data": f"arrays:{tmp_path}/one.npz"})
    found = carry_out(config, tmp_path / "r").measures
    assert "linear" not in found
    assert "uniformity" in found


@pytest.mark.parametrize("name", ["measured.json", "embedding.npz"])
@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_what_is_damaged_counts_as_not_done(run, tmp_path, name, damage):
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    assert done(copy) is not None
    if damage == "gone":
        (copy / name).unlink()
        assert done(copy) is None
    elif name == "measured.json":
        for text in ("", '{"measures": {', "[]", "{}"):
            (copy / name).write_text(text)
            assert done(copy) is None


def test_a_damaged_checkpoint_is_thrown_away_and_the_run_made_again(tmp_path):
    config = configure(SMALL)
    first = carry_out(config, tmp_path / "r")
    for name in ("checkpoint.pt", "result.json"):
        path = tmp_path / "r" / name
        path.write_bytes(path.read_bytes()[:100])
    (tmp_path / "r/measured.json").unlink()
    assert carry_out(config, tmp_path / "r").measures == first.measures


def test_a_further_group_is_measured_without_training_again(tmp_path):
    config = configure(SMALL)
    carry_out(config, tmp_path / "r", ("geometry",))
    before = (tmp_path / "r/checkpoint.pt").stat().st_mtime_ns
    assert done(tmp_path / "r", ("geometry", "nearest")) is None
    assert "knn1" in carry_out(config, tmp_path / "r", ("geometry", "nearest")).measures
    assert (tmp_path / "r/checkpoint.pt").stat().st_mtime_ns == before


# data that probes


def test_k_bit_images_are_a_set_with_options():
    images = images_of(configure({"data": "k-bit", "data_options.bits": 3, "data_options.size": 4}), "train")
    assert tuple(images.pixels.shape) == (4096, 3, 4, 4)
    assert sorted(images.labels.unique().tolist()) == list(range(8))


def test_digits_are_limited_where_they_are_learnt_from_only():
    config = configure({"data": "digits", "digits": 3})
    assert len(images_of(config, "train").more_labels["digit_image"].unique()) == 3
    assert len(images_of(config, "test").more_labels["digit_image"].unique()) > 100


# telling


def test_a_image_goes_into_the_page_and_beside_it(tmp_path):
    png = b"\x89PNG\r\n\x1a\nnot really"
    page = Page("x")
    page.figure(Picture("A <title>", png, 'what "it" shows'))
    html = page.html()
    assert "data:image/png;base64," in html
    assert "A &lt;title&gt;" in html
    assert 'alt="what &quot;it&quot; shows"' in html
    assert figures.draw(Picture("t", png, ""), tmp_path / "p.png").read_bytes() == png


def test_damaged_files_of_a_study_are_named(tmp_path):
    about = execute.About("temperature", "smoke", "digits", "x")
    with execute.begin(tmp_path / "s", about):
        pass
    for text in ("", "[]", "{}", '{"study": 1'):
        (tmp_path / "s/study.json").write_text(text)
        with pytest.raises(ValueError, match=r"study.json is damaged; delete it"):
            execute.about(tmp_path / "s")
    for text in ("", '{"arm": ', '{"arm": 1}\n'):
        (tmp_path / "s/records.jsonl").write_text(text)
        with pytest.raises(ValueError, match=r"records.jsonl is damaged or empty"):
            records.read(tmp_path / "s")
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is a file"):
        execute.begin(tmp_path / "file", about).__enter__()


def test_the_evidence_of_every_claim_can_be_told():
    found = Evidence(a=1.0, b=None, c={"x": -0.5}, d=[1, 2.5], values=[[0.1, 0.5, 0.0]], e=float("nan"))
    told = dict(wording.details(Verdict("held", None, found)))
    assert told == {"a": "1", "b": "None", "c": "x −0.5", "d": "1, 2.5", "values": "0.1: 0.5", "e": "unknown"}
    assert json.dumps(Evidence(a=float("nan"), b=(np.float64(1),)).as_dict()) == '{"a": null, "b": [1.0]}'
