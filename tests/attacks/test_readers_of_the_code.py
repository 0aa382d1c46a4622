"""What a fourth reading of the code found, in training and in judging: wrong without a word, lost, without an end."""

import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from isotherm import cached
from isotherm.cli import main
from isotherm.data.decoding.one_image import in_mode
from isotherm.data.pairs import is_pairs
from isotherm.data.sets import load
from isotherm.data.shards import expand
from isotherm.data.sources import arrays
from isotherm.encoders import encoder
from isotherm.experiments.claims.rules import Ahead, Flatter, Later, Trend
from isotherm.experiments.records import Record, Records
from isotherm.experiments.study import Where
from isotherm.nn import NTXentLoss
from isotherm.probes.finetune import finetune
from isotherm.train.commandline import configure
from isotherm.train.modality import first_run
from isotherm.views import recipe

TAU = "loss.temperature"
TAUS = (0.05, 0.1, 0.2, 0.5, 1.0)
DIGITS = ["train", "--data", "digits", "--images", "200", "--steps", "2", "--batch", "50", "--encoder.widths", "[8]"]


@pytest.fixture(autouse=True)
def own_places(tmp_path, monkeypatch):
    monkeypatch.setenv("ISOTHERM_DATA", str(tmp_path / "root"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def record(arm, seed, value, **varied):
    varied = {TAU if k == "tau" else k: v for k, v in varied.items()}
    return Record(arm, varied, seed, f"{arm}{seed}{varied}", {"knn": float(value)}, 1.0, {}, Path("x"))


def along(arm, values, seeds, **more):
    return [record(arm, s, v + 1e-3 * s, tau=t, **more) for s in seeds for t, v in zip(TAUS, values, strict=False)]


def noisy(path, classes, per_class, noise, seed=0):
    """Images of plain classes, more or less drowned."""
    g = np.random.default_rng(seed)
    levels = np.linspace(30, 220, classes)
    parts = {}
    for part, n in (("train", per_class), ("test", max(5, per_class // 2))):
        y = np.repeat(np.arange(classes), n)
        x = levels[y][:, None, None] + noise * g.normal(size=(len(y), 16, 16))
        parts |= {f"{part}_images": np.clip(x, 0, 255).astype(np.uint8), f"{part}_labels": y}
    np.savez(path, **parts)


# --- claims are judged on whole lines


def test_seeds_that_have_a_part_of_a_line_say_nothing_of_it():
    values = (0.8, 0.9, 0.92, 0.94, 0.5)  # rises, then falls far
    even = along("A", values, range(3))
    more = along("A", values[:3], range(3, 12))  # seeds that another claim asked for
    for records in (even, even + more):
        verdict = Trend("knn", "A", 1, least=0.7).judge(Records(records))
        assert verdict.outcome == "contradicted"
        assert len(verdict.part.by_seed) == 3
    rival = along("B", (0.7, 0.72, 0.8, 0.9, 0.9), range(12))
    assert Flatter("knn", "A", "B", most=1.2).judge(Records(even + more + rival)).outcome == "contradicted"


def test_a_mean_over_points_is_of_the_same_points_with_every_seed():
    ends = along("A", (0.5,), range(3)) + [record("A", s, 0.9, tau=1.0) for s in range(12)]
    level = [record("B", s, 0.7 + 1e-3 * s) for s in range(12)]
    verdict = Ahead("knn", "A", ["B"], 0.02).judge(Records(ends + level))
    assert set(verdict.part.by_seed) == {0, 1, 2}
    assert verdict.outcome == "contradicted"


def test_a_seed_that_never_falls_is_not_left_out():
    falls, rises = (0.9, 0.8, 0.7, 0.6, 0.5), (0.5, 0.6, 0.7, 0.8, 0.9)
    records = along("C", falls, range(6), batch=1)
    records += along("C", (0.9, 0.9, 0.9, 0.9, 0.5), range(3), batch=2) + along("C", rises, range(3, 6), batch=2)
    verdict = Later("knn", Where("C"), TAU, "batch", 0.5, 0.1).judge(Records(records))
    assert verdict.outcome == "undecided"
    assert "does not fall with every seed" in verdict.evidence["why"]


# --- settings


def test_a_typed_warm_up_is_the_only_one(tmp_path):
    (tmp_path / "s.txt").write_text("".join(f"word{i % 7} word{i % 5} word{i % 3}\n" for i in range(60)))
    pytest.importorskip("transformers", reason="the extra 'text' is not installed")
    words = ["--data", "text:s.txt", "--method", "mlm", "--encoder.width", "32", "--batch", "20", "--monitor", "0"]
    words += ["--device", "cpu", "--epochs", "3", "--warmup", "2", "--out", "r"]
    assert main(["train", *words]) == 0
    assert main(["train", *words, "--resume"]) == 0
    config = (tmp_path / "r/config.yaml").read_text()
    assert "warmup: 2.0" in config
    assert "warmup_part: 0.0" in config
    similar = [json.loads(line).get("similarity") for line in (tmp_path / "r/metrics.jsonl").read_text().splitlines()]
    assert set(similar) <= {0.0, None}  # costs and counts are no embeddings
    with pytest.raises(ValueError, match="give one of them"):
        configure({"warmup": 2.0, "warmup_part": 0.1})


def test_masked_words_are_of_the_sentences_that_the_run_learns_from():
    some = {"data": "text:s.txt", "encoder.masked": 10}
    assert first_run.before(configure({**some, "images": 50, "seed": 3})).images == 50
    keys = {first_run.before(configure({**some, "images": n, "seed": s})).key for n in (50, 60) for s in (0, 1)}
    assert len(keys) == 4
    assert len({first_run.before(configure({**some, "seed": s})).key for s in (0, 1)}) == 1


# --- data


def test_a_list_of_superclasses_is_not_matched_with_folders(tmp_path, capsys):
    for part in ("train", "test"):
        for name in ("cat", "dog", "car", "bus"):
            (tmp_path / "f" / part / name).mkdir(parents=True)
            Image.new("L", (16, 16), 10).save(tmp_path / "f" / part / name / "0.png")
    lines = [f"train/{name}/0.png {number}" for name, number in (("cat", 0), ("dog", 0), ("car", 1), ("bus", 1))]
    (tmp_path / "super.txt").write_text("\n".join(lines))
    train = ["train", "--data", "folder:f", "--data.size", "16", "--steps", "1", "--batch", "2", "--out", "r"]
    assert main([*train, "--data.list", "super.txt"]) == 2
    assert "give the other parts one, too" in capsys.readouterr().err


@pytest.mark.parametrize("pattern", ["{a,b}" * 26, "x-{0000..9999}-{0000..9999}.tar", "{1..999999}{a,b}"])
def test_braces_are_counted_before_they_are_written_out(pattern):
    with pytest.raises(ValueError, match="more than 1,000,000 shards"):
        expand(pattern)
    assert len(expand("{a,b}-{00..09}.tar")) == 20


@pytest.mark.parametrize("largest", [200, 300, 40_000])
def test_dark_images_of_sixteen_bits_stay_dark(largest, tmp_path):
    (tmp_path / "x.pgm").write_bytes(b"P5 2 1 65535\n" + np.array([largest, 0], ">u2").tobytes())
    with Image.open(tmp_path / "x.pgm") as image:
        assert np.asarray(in_mode(image, "L")).tolist() == [[largest >> 8, 0]]


def test_labels_of_one_part_are_not_those_of_another(tmp_path):
    for part in ("train", "test"):
        np.save(tmp_path / f"{part}.npy", np.zeros((4, 8, 8), np.uint8))
        np.save(tmp_path / f"own_{part}.npy", np.arange(4) + (part == "test"))
    with pytest.raises(ValueError, match=r"put \{split\} into its name"):
        arrays.read(tmp_path, "test", labels=tmp_path / "own_train.npy")
    assert arrays.read(tmp_path, "test", labels=f"{tmp_path}/own_{{split}}.npy").labels.tolist() == [1, 2, 3, 4]


def test_numbers_in_text_are_classes_and_no_captions(shard_of):
    kinds = {
        "number": {"txt": b"2"},
        "label": {"json": b'{"label": 2}'},
        "words": {"txt": b"2 ants"},
        "both": {"json": b'{"label": 2, "caption": "an ant"}'},
    }
    found = {name: is_pairs(f"shards:{shard_of(name, **parts)}") for name, parts in kinds.items()}
    assert found == {"number": False, "label": False, "words": True, "both": True}


@pytest.fixture
def shard_of(tmp_path):

    def make(name, **parts):
        (tmp_path / name).mkdir()
        image = io.BytesIO()
        Image.new("RGB", (16, 16)).save(image, "PNG")
        with tarfile.open(tmp_path / name / "train-0.tar", "w") as archive:
            for ending, content in {"png": image.getvalue(), **parts}.items():
                member = tarfile.TarInfo(f"0.{ending}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        return tmp_path / name

    return make


def test_a_cached_encoder_learns_all_that_it_uses_or_is_refused():
    encoder, head = nn.Linear(8, 8), nn.Linear(8, 4)
    x = torch.randn(2, 16, 8, requires_grad=True)
    both = {"encoder": lambda v: head(encoder(v)), "chunk": 4}
    with pytest.raises(ValueError, match="the encoder learns something that is in no module the cache knows"):
        cached(NTXentLoss(0.2), **both, module=encoder)(*x).backward()
    cached(NTXentLoss(0.2), **both, module=nn.ModuleList([encoder, head]))(*x).backward()
    assert head.weight.grad is not None


# --- what is compared, and what is replaced


def test_embeddings_replace_embeddings_alone(tmp_path, capsys):
    noisy("mine.npz", 3, 20, 5)
    before = Path("mine.npz").read_bytes()
    assert main([*DIGITS, "--out", "r"]) == 0
    assert main(["embed", "r", "arrays:mine.npz", "--out", "mine.npz"]) == 2
    assert main(["embed", "r", "digits", "--out", "mine.npz"]) == 2
    assert "holds no embeddings" in capsys.readouterr().err
    assert Path("mine.npz").read_bytes() == before
    for _ in range(2):
        assert main(["embed", "r", "digits", "--split", "test", "--out", "z.npz"]) == 0
    Image.new("RGB", (9, 9)).save("mine.png")
    assert main(["data", "show", "digits", "--out", "mine.png"]) == 2
    assert "was not drawn by this" in capsys.readouterr().err
    for _ in range(2):
        assert main(["data", "show", "digits", "--rows", "2", "--out", "views.png"]) == 0


def test_models_of_one_name_are_told_apart_and_other_pixels_not_compared(tmp_path, capsys):
    for seed in range(3):
        assert main([*DIGITS, "--seed", str(seed), "--out", f"e{seed}/run"]) == 0
    assert main(["compare", "e0/run", "e1/run", "e2/run", "--on", "digits", "--json", "c.json"]) == 0
    said = json.loads(Path("c.json").read_text())
    assert said["models"] == ["e0/run", "e1/run", "e2/run"]
    assert list(said["against"]) == ["e1/run", "e2/run"]
    noisy("clean.npz", 4, 20, 5)
    noisy("noisy.npz", 4, 20, 200)
    for kind in ("clean", "noisy"):
        suite = f"name: mine\nsets:\n  - name: it\n    data: arrays:{kind}.npz\nprobes: [knn]\n"
        Path(f"{kind}.yaml").write_text(suite)
        assert main(["evaluate", "e0/run", "--suite", f"{kind}.yaml", "--json", f"{kind}.json"]) == 0, kind
    capsys.readouterr()
    assert main(["compare", "--suite", "clean.json", "noisy.json"]) == 2
    assert "nothing in common" in capsys.readouterr().err


def test_a_run_is_not_judged_on_images_that_have_changed(tmp_path, capsys):
    noisy("d.npz", 4, 20, 5)
    train = ["train", "--data", "arrays:d.npz", "--steps", "2", "--batch", "20", "--encoder.widths", "[8]"]
    for name in ("c0", "c1"):
        assert main([*train, "--seed", name[1], "--out", name]) == 0
    assert main(["evaluate", "c0"]) == 0
    noisy("d.npz", 4, 20, 200, seed=1)
    assert main([*train, "--out", "n0"]) == 0
    capsys.readouterr()
    assert main(["evaluate", "c0"]) == 2
    assert "have changed since c0 was trained" in capsys.readouterr().err
    assert main(["compare", "c0", "n0", "--json", "c.json"]) == 0
    assert json.loads(Path("c.json").read_text())["differences"] == []


def test_classes_that_training_lacked_are_told(capsys):
    assert main([*DIGITS, "--imbalance", "exponential", "--out", "r"]) == 0
    capsys.readouterr()
    assert main(["evaluate", "r", "--json", "r.json"]) == 0
    assert "left out: their classes are not in the training part" in capsys.readouterr().out
    assert json.loads(Path("r.json").read_text())["notes"]


def test_what_depends_on_classes_is_compared_of_the_same_classes(capsys):
    z = np.random.default_rng(0).normal(size=(400, 16)).astype(np.float32)
    np.savez("two.npz", embeddings=z, labels=np.arange(400) % 2)
    np.savez("twenty.npz", embeddings=z + 0.1, labels=np.arange(400) % 20)
    assert main(["compare", "two.npz", "twenty.npz"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "leads in class gap" not in text
    assert "neighbours of one class" not in text.partition("Beyond chance")[2]


def test_what_fine_tuning_kept_is_of_the_same_normalization(tmp_path):

    digits = load("digits").subset(torch.arange(60))
    network = encoder("convnet", 1, 8)
    kept = tmp_path / "kept.pt"

    def tune(mean):
        shown = recipe("none", 1, 8, ((mean,), (0.5,)))
        return finetune(network, digits, digits, shown, epochs=1, lr="search", keep=kept, note=stop)

    def stop(stage):
        if kept.exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(0.1)
    with pytest.raises(ValueError, match="delete it"):
        tune(0.9)


def test_ids_with_underscores_are_no_dimension(tmp_path, capsys):
    z = np.random.default_rng(0).normal(size=(60, 4))
    rows = [f"{i % 3}_{i % 2},{','.join(f'{v:.6f}' for v in row)}" for i, row in enumerate(z)]
    Path("w.csv").write_text("plate,d0,d1,d2,d3\n" + "\n".join(rows))
    assert main(["inspect", "w.csv", "--map", "none", "--json", "w.json"]) == 0
    assert "60 × 4" in capsys.readouterr().out
