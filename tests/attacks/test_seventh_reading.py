"""What a seventh and an eighth reading of the code found: in what replaces what, in what is compared, in training."""

import json
import math

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import isotherm
from isotherm import doors, files
from isotherm import inspect as inspection
from isotherm.cli import main
from isotherm.data.sources import arrays
from isotherm.encoders.towers import Towers, structure_of
from isotherm.evaluate import pictures
from isotherm.evaluate.measured import same_items
from isotherm.evaluate.paired import paired
from isotherm.evaluate.targets import _items as items_of
from isotherm.evaluate.targets import part_of
from isotherm.experiments.points import expand
from isotherm.experiments.study import Arm, Scale, Study
from isotherm.losses import laws
from isotherm.measures import lidar
from isotherm.methods.clip import CLIP, image_text
from isotherm.methods.method import Given
from isotherm.nn import InfoNCELoss, NTXentLoss
from isotherm.probes import kept
from isotherm.train import runs
from isotherm.train.commandline import configure
from isotherm.train.pair_embeddings import locked_images
from isotherm.train.step import statistics
from isotherm.views import recipe

# --- what replaces what ------------------------------------------------------------------------------------------


@pytest.fixture
def embedding(tmp_path):
    np.save(tmp_path / "z.npy", np.random.default_rng(0).normal(size=(60, 8)))
    return str(tmp_path / "z.npy")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("metrics.jsonl", '{"epoch": 1, "loss": 2.0}\n'),
        ("package.json", '{"name": "my-app", "isotherm": 1}'),
        ("list.json", "[1, 2, 3]"),
        ("blank.json", " " * 99),
    ],
)
def test_numbers_replace_only_what_was_written_by_json(name, content, embedding, tmp_path, capsys):
    (tmp_path / name).write_text(content)
    for words in (["inspect", embedding], ["losses"], ["data", "list"]):
        assert main([*words, "--json", str(tmp_path / name)]) == 2, words
        assert "was not written by --json" in capsys.readouterr().err
    assert (tmp_path / name).read_text() == content


def test_numbers_replace_numbers_and_lists_lists_of_their_kind(embedding, tmp_path, capsys):
    out = tmp_path / "out.json"
    for _ in range(2):
        assert main(["inspect", embedding, "--json", str(out)]) == 0
    assert next(iter(json.loads(out.read_text()))) == files.MARK
    assert main(["losses", "--json", str(out)]) == 2
    for _ in range(2):
        assert main(["losses", "--json", str(tmp_path / "losses.json")]) == 0
    assert main(["data", "list", "--json", str(tmp_path / "losses.json")]) == 2
    assert "was not written by --json" in capsys.readouterr().err


def test_a_fine_tuning_keeps_its_own_state_beside_anothers(tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "PAUSE", 0)
    place = tmp_path / "tune-{key}.pt"
    one, other = (kept.Kept(place, [name]) for name in "ab")
    weights = {"body": nn.Linear(2, 2)}
    one.save("final", weights, 7)
    other.save("final", weights, 3)
    other.done()
    assert kept.Kept(place, ["a"]).load("final", weights) == 7


# --- what is compared, and told ----------------------------------------------------------------------------------


def test_a_class_that_only_training_had_is_a_column_of_its_own(tmp_path):
    np.savez(tmp_path / "test.npz", images=np.zeros((4, 8, 8, 3), "u1"), labels=np.array([0, 1, 1, 1]))
    np.savez(tmp_path / "train.npz", images=np.zeros((6, 8, 8, 3), "u1"), labels=np.arange(6))
    test, training = (arrays.read(tmp_path, part) for part in ("test", "train"))
    names = pictures._names(test, training)
    assert names == list("012345")
    shown = pictures._confusion(test, torch.tensor([0, 5, 5, 5]), names)
    assert shown.values[1].tolist() == [0, 0, 0, 0, 0, 100]
    page = isotherm.report.Page("a", "b")
    pictures._add_classes(page, test, torch.tensor([0, 5, 5, 5]), names)
    assert "5 (3)" in page.html()


def test_two_seeds_that_agree_decide_nothing():
    assert not paired([0.0028, 0.0028]).decided
    assert paired([0.0028, 0.0028, 0.0028]).decided
    assert paired([0.01, 0.01], torch.full((50,), 0.01)).decided


def test_two_runs_each_that_agree_lead_in_nothing(tmp_path):
    folders = []
    for arm, batch, accuracies in (("a", 64, (0.9500, 0.9528)), ("b", 128, (0.9528, 0.9556))):
        for seed, knn in enumerate(accuracies):
            folders.append(tmp_path / f"{arm}{seed}")
            folders[-1].mkdir()
            config = {"data": "digits", "test": "test", "batch": batch, "seed": seed}
            (folders[-1] / "result.json").write_text(json.dumps({"config": config, "measures": {"knn": knn}}))
    comparison = inspection.compare(folders)
    assert comparison.differences[0].seeds == 2
    assert comparison.differences[0].better is None
    assert "leads" not in comparison.verdict.text


def test_files_of_other_items_get_no_stars(tmp_path):
    chance = np.random.default_rng(0)
    spread, cone = chance.normal(size=(2, 400, 16))
    cone[:, 0] += 5
    for name, z, ids in (
        ("a", spread, np.arange(400)),
        ("b", cone, np.arange(400)),
        ("c", cone, 9000 + np.arange(400)),
    ):
        np.savez(tmp_path / f"{name}.npz", embeddings=z, ids=ids)
    files_of = {name: tmp_path / f"{name}.npz" for name in "abc"}
    assert any(row.best == 0 for row in inspection.compare([files_of["a"], files_of["b"]]).rows)
    assert all(row.best is None for row in inspection.compare([files_of["a"], files_of["c"]]).rows)


def test_other_pixels_behind_the_same_names_are_other_items(tmp_path):
    digests = []
    for value in (10, 200):
        for part in ("train", "test"):
            for label in "ab":
                (tmp_path / part / label).mkdir(parents=True, exist_ok=True)
                Image.new("RGB", (9, 9), (value, 0, 0)).save(tmp_path / part / label / "x.png")
        digests.append([items_of(part_of(f"folder:{tmp_path}", ("test",), size), "folder:x") for size in (8, 16)])
    (small, large), (small_later, large_later) = digests
    assert same_items(f"{small}-{small}", f"{small}-{large}")  # for models of other sizes
    assert not same_items(f"{small}-{small}", f"{small}-{small_later}")
    assert not same_items(large, large_later)


def test_arms_of_one_name_of_which_one_would_stand_for_the_other_are_refused():
    scales = {"smoke": Scale("small", {"images": 60, "epochs": 1})}
    arms = (Arm("A", {"loss": "NTXentLoss"}), Arm("A", {"loss": "DCLLoss"}, {"views": (3, 4)}))
    with pytest.raises(ValueError, match=r"two arms of the study are called 'A'.* Give them names of their own"):
        expand(Study(name="x", doc="Why?", base={}, arms=arms, scales=scales), "smoke")


def test_lidar_of_huge_embeddings_is_refused_and_a_monitor_goes_on():
    chance = torch.Generator().manual_seed(0)
    z = torch.randn(64, 128, generator=chance) * 1e7
    again = z + 1e6 * torch.randn(64, 128, generator=chance)
    with pytest.raises(ValueError, match="numbers as large as these"):
        lidar(z, again)
    status = isotherm.Monitor(grace=None)(z, again)
    assert "lidar" not in status.measures
    assert "rankme" in status.measures


def test_a_page_gives_the_command_as_it_was_typed(tmp_path):
    words = ["train", "--data", "digits", "--images", "200", "--steps", "2", "--batch", "50", "--encoder.widths", "[8]"]
    assert main([*words, "--monitor", "0", "--quiet", "--out", str(tmp_path / "run")]) == 0
    typed = ["evaluate", str(tmp_path / "run"), "--probe", "knn", "--seed", "7", "--html", str(tmp_path / "a.html")]
    assert main(typed) == 0
    assert f"isotherm {' '.join(typed)}" in (tmp_path / "a.html").read_text()


# --- training ----------------------------------------------------------------------------------------------------


class Pooling(nn.Module):
    """One set of weights, two ways to use them."""

    width = 8

    def __init__(self, pooling):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.pooling = nn.Conv2d(3, 8, 3), pooling

    def forward(self, x):
        return self.layer(x).mean((2, 3)) if self.pooling == "mean" else self.layer(x).amax((2, 3))


class Six:
    """As much of images with captions as features are made of."""

    size, ids, broken = 32, torch.arange(6), {}
    pixels = torch.randint(0, 256, (6, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))

    def __len__(self):
        return 6

    def fingerprint(self):
        return "six"

    def decoded(self, index):
        return self.pixels[index], index


def test_features_of_a_locked_tower_are_of_its_code_and_settings_too(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    text = nn.Linear(2, 8)
    text.width = 8
    shown = recipe("clip", 1, 32)
    for pooling in ("mean", "max"):
        tower = Pooling(pooling)
        features = locked_images(Towers(tower, text, "image"), Six(), shown)
        torch.testing.assert_close(features, tower(shown.plain(Six.pixels, 32)).detach())
    assert structure_of(Pooling("max")) == structure_of(Pooling("max")) != structure_of(Pooling("mean"))


def test_pairs_that_ask_one_way_are_taken_so_or_refused():
    a, b = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(0))
    one_way = InfoNCELoss(0.2, symmetric=False)
    assert image_text(one_way, a, [b], "own").item() == pytest.approx(one_way(a, b).item())
    assert image_text(one_way, a, [b], "own").item() != pytest.approx(InfoNCELoss(0.2)(a, b).item())
    with pytest.raises(ValueError, match=r"asks both ways, whatever InfoNCELoss\(symmetric=False\) says"):
        CLIP(nn.Identity(), one_way, Given(8, 6, 2, views=2))


def test_a_loss_of_somebodys_own_has_to_keep_the_laws_of_its_namesake(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(doors, "_allowed", set())
    (tmp_path / "mine.py").write_text(
        "import isotherm.nn as nn\n\n"
        "class MACLLoss(nn.NTXentLoss):\n"
        "    def per_query(self, pairs):\n"
        "        value = super().per_query(pairs)\n"
        "        return value + 3 * (value - value.detach())\n"
    )
    doors.allow("./mine.py:MACLLoss")
    assert laws.judge("gradient", laws.Maker.of("./mine.py:MACLLoss")).verdict == "broken"
    assert laws.judge("gradient", laws.Maker.of("MACLLoss")).verdict == "exempt"


def test_a_skipped_step_leaves_no_trace_in_instance_norms():
    norm = nn.InstanceNorm2d(4, track_running_stats=True)
    before = statistics(norm)
    norm(torch.randn(2, 4, 3, 3))
    assert {name for name, _ in norm.named_buffers()} == {"running_mean", "running_var", "num_batches_tracked"}
    assert any(not torch.equal(now, then) for now, then in before)


def test_training_says_that_it_takes_the_mean(tmp_path):
    with pytest.raises(ValueError, match="takes the mean over the queries; leave reduction='sum' out"):
        isotherm.train(data="digits", loss=NTXentLoss(0.2, reduction="sum"), out=tmp_path / "a")


@pytest.mark.parametrize("name", ["warmup", "weight_decay"])
@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_settings_that_are_no_numbers_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name} must be 0 or more, got"):
        configure({"data": "digits", "steps": 3, name: value})


def test_a_run_that_was_killed_at_its_start_begins_anew_beside_its_trackers_files(tmp_path):
    config = configure({"data": "digits", "steps": 5})
    (tmp_path / "config.yaml").write_text(runs.as_yaml(config))
    (tmp_path / "metrics.jsonl").write_text("")
    (tmp_path / "events.out.tfevents.1.host").write_text("")
    (tmp_path / "wandb").mkdir()
    assert runs.looked_into(tmp_path, config, True) is None
    (tmp_path / "mine.txt").write_text("")
    with pytest.raises(ValueError, match="is not empty and holds no run"):
        runs.looked_into(tmp_path, config, True)
