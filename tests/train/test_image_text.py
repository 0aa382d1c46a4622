"""Training on image–text pairs: it learns, resumes, goes in parts and on two processes; locked towers; evaluation."""

import json
import os
import warnings
from pathlib import Path

import pytest
import torch
import yaml

import processes
from isotherm import world
from isotherm.cli import main
from isotherm.data import roots
from isotherm.evaluate import image_text
from isotherm.evaluate.assessment import Options
from isotherm.evaluate.choose import noun_of
from isotherm.measures.retrieval import retrieval
from isotherm.train import runs
from isotherm.train.build import build
from isotherm.train.commandline import configure
from isotherm.train.config import Runtime
from isotherm.train.loop import run_to_end, train
from isotherm.train.modality import ImageModality, ImageTextModality, modality_for
from isotherm.train.pair_embeddings import pair_subject
from small_pairs import COLOURS, QUICK, as_csv, as_parquet, encoded, folder_of, picture, rows
from small_runs import lines, same, stopped_after_a_step, weights

pytest.importorskip("transformers", reason="the extra 'text' is not installed")


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    return folder_of(tmp_path_factory.mktemp("pairs"))


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


def settings_of(pairs, **more):
    return {"data": f"parquet:{pairs}", **QUICK, **more}


def run(out, pairs, **more):
    return train(configure(settings_of(pairs, **more)), Runtime(out=out, quiet=True))


def test_captions_say_that_the_method_is_clip(pairs, tmp_path):
    config = configure({"data": f"parquet:{pairs}"})
    assert config.method.name == "clip"
    assert (config.encoder.name, config.text_encoder.name) == ("convnet", "text_small")
    assert config.loss["temperature"] == {"name": "Learnable", "initial": 0.07}
    assert modality_for(f"parquet:{pairs}") is ImageTextModality
    assert modality_for(f"parquet:{pairs}", None, "simclr") is ImageModality
    assert configure({"data": f"captions:{as_csv(tmp_path, rows(1))}"}).method.name == "clip"


def test_the_second_tower_changes_no_key_of_runs_without_one():
    assert configure({}).key == "1e3e922efc06a4e0"


def test_pairs_find_each_other_after_training(pairs, tmp_path):
    before = build(configure(settings_of(pairs)))
    untrained = before.material.monitor(before.method.network.eval())
    result = run(tmp_path / "a", pairs, epochs=30, lr=5e-3, views=3)
    assert result.measures["mean_recall"] > untrained["mean_recall"] + 0.2
    assert {"modality_gap", "text_uniformity", "uniformity", "image_to_text_r1"} <= result.measures.keys()
    assert 0.01 <= lines(tmp_path / "a")[-1]["temperature"] < 0.2
    card = json.loads((tmp_path / "a/encoder.json").read_text())
    assert card["encoder"]["name"] == "convnet"
    assert runs.load_encoder(tmp_path / "a")(torch.zeros(2, 3, 16, 16)).shape == (2, card["width"])
    assert (tmp_path / "a/model/config.json").exists()
    opened = runs.open_pairs(tmp_path / "a")
    subject = pair_subject(opened.network, opened.test, opened.recipe)
    assert retrieval(subject.images, subject.texts, subject.owner).mean_recall == result.measures["mean_recall"]


def test_a_stopped_run_ends_with_the_weights_of_a_whole_one(pairs, tmp_path):
    settings = settings_of(pairs, views=3, loss="CACRLoss")
    stopped_after_a_step(tmp_path / "a", settings)
    train(configure(settings), Runtime(out=tmp_path / "a", quiet=True, resume=True))
    train(configure(settings), Runtime(out=tmp_path / "b", quiet=True))
    assert same(weights(tmp_path / "a"), weights(tmp_path / "b"))


EXACT = {"precision": "64-true", "text_encoder.dropout": 0.0, "head": "linear", "encoder": "vit_small"}
EXACT |= {"encoder.depth": 1, "encoder.patch": 8, "encoder.heads": 2, "views": 3}
KINDS = {
    "clip": {},
    "siglip": {"loss": "SigLIPLoss"},
    "cacr": {"loss": "CACRLoss"},
    "locked image": {"method.lock": "image"},
    "both locked": {"method.lock": "both"},
}


def exact(pairs, **more):
    settings = settings_of(pairs, **EXACT, **more)
    return {name: value for name, value in settings.items() if name != "encoder.widths"}


@pytest.mark.parametrize("kind", ["clip", "cacr"])
def test_parts_end_where_the_whole_batch_ends(kind, pairs, tmp_path):
    for parts in (1, 3):
        train(configure(exact(pairs, parts=parts, **KINDS[kind])), Runtime(out=tmp_path / str(parts), quiet=True))
    one, three = weights(tmp_path / "1"), weights(tmp_path / "3")
    for key in one:
        torch.testing.assert_close(three[key], one[key], rtol=1e-8, atol=1e-10)


def every_run(pairs, folder):
    for kind, more in KINDS.items():
        train(configure(exact(pairs, batch=9, **more)), Runtime(out=Path(folder) / kind, quiet=True))


def one_of_two(rank, pairs, folder, port, cache):
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GROUP_RANK": "0"}
    os.environ |= {"TORCHELASTIC_RUN_ID": "test", "XDG_CACHE_HOME": cache}
    warnings.simplefilter("ignore")
    every_run(pairs, folder)
    assert world.size() == 2
    world.leave()


@pytest.mark.slow
def test_two_processes_end_with_the_weights_of_one(pairs, tmp_path):
    every_run(pairs, tmp_path / "one")
    port = 20000 + (os.getpid() + 31) % 20000
    processes.two(one_of_two, str(pairs), str(tmp_path / "two"), port, str(tmp_path / "cache"))
    for kind in KINDS:
        one, two = (weights(tmp_path / many / kind) for many in ("one", "two"))
        assert one.keys() == two.keys()
        for key in one:
            torch.testing.assert_close(two[key], one[key], rtol=1e-6, atol=1e-9, msg=lambda m, k=key: f"{k}: {m}")


def test_features_of_locked_towers_are_made_once(pairs, tmp_path):
    run(tmp_path / "a", pairs, **{"method.lock": "both"})
    kept = sorted(roots.features().glob("*.npy"))
    assert len(kept) == 4  # images and captions, of both splits
    times = [path.stat().st_mtime_ns for path in kept]
    run(tmp_path / "b", pairs, **{"method.lock": "both", "loss": "CACRLoss", "views": 3})
    assert [path.stat().st_mtime_ns for path in kept] == times
    assert sorted(roots.features().glob("*.npy")) == kept
    run(tmp_path / "c", pairs, **{"method.lock": "both", "size": 24})
    assert len(list(roots.features().glob("*.npy"))) == 6  # images of another size are others
    saved = weights(tmp_path / "a")
    assert not [name for name in saved if name.startswith("network.encoder") and not name.endswith("digest")]
    kept[0].write_bytes(kept[0].read_bytes()[:200])  # cut: it is made again
    run(tmp_path / "d", pairs, **{"method.lock": "both", "views": 3})
    opened = runs.open_pairs(tmp_path / "b")
    assert opened.embed_texts(["a red bar at the top"]).shape == (1, 8)


def test_a_locked_image_tower_keeps_its_features_and_the_text_tower_learns(pairs, tmp_path):
    started = build(configure(settings_of(pairs, **{"method.lock": "image"}))).method.network.encoder
    before = [p.clone() for p in started.text_encoder.parameters()]
    out = run_to_end(configure(settings_of(pairs, **{"method.lock": "image"})), Runtime(out=tmp_path / "a", quiet=True))
    towers = out.opened.network.encoder
    image = zip(towers.image_encoder.parameters(), started.image_encoder.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in image)
    assert any(not torch.equal(a, b) for a, b in zip(towers.text_encoder.parameters(), before, strict=True))


@pytest.mark.parametrize("lock", ["none", "image"])
def test_a_broken_image_is_not_judged_as_another(lock, tmp_path):
    items = list(rows(1))
    for part in ("train", "test"):
        (tmp_path / part).mkdir()
        for name, image, _ in items:
            (tmp_path / part / f"{name}.png").write_bytes(image)
        lines = [f"{part}/{name}.png,{captions[0]}" for name, _, captions in items]
        (tmp_path / f"{part}.csv").write_text("image,caption\n" + "\n".join(lines) + "\n")
    third = tmp_path / "test" / f"{items[3][0]}.png"
    third.write_bytes(third.read_bytes()[: third.stat().st_size // 2])
    config = configure({"data": f"captions:{tmp_path}", **QUICK, "epochs": 1, "method.lock": lock})
    for out in ("a", "b"):  # the second finds the features that the first has kept
        result = train(config, Runtime(out=tmp_path / out, quiet=True))
        assert any("test: 1 image left out" in note for note in result.notes)
        opened = runs.open_pairs(tmp_path / out)
        subject = pair_subject(opened.network, opened.test, opened.recipe)
        assert len(subject.images) == len(subject.texts) == len(items) - 1
        assert list(opened.test.broken) == [int(opened.test.ids[3])]
        whole = [i for i in range(len(items)) if i != 3]
        alone = pair_subject(opened.network, opened.test.subset(torch.tensor(whole)), opened.recipe)
        torch.testing.assert_close(subject.images, alone.images)
        torch.testing.assert_close(subject.texts, alone.texts)


def test_a_broken_image_is_told_at_the_end(tmp_path):
    items = list(rows())
    whole = encoded(picture("red", "top").resize((200, 200)), "JPEG")
    items[3] = ("003", whole[: len(whole) // 2], items[3][2])
    as_parquet(tmp_path / "a.parquet", items)
    result = run(tmp_path / "a", tmp_path / "a.parquet")
    assert any(note.startswith("1 image left out: row 3 is not an image") for note in result.notes)


@pytest.fixture(scope="module")
def trained(pairs, tmp_path_factory):
    out = tmp_path_factory.mktemp("run") / "a"
    run(out, pairs, epochs=30, lr=5e-3, views=3)
    return out


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    """Bars in folders by their colour: SPLIT/CLASS/*.png."""
    folder = tmp_path_factory.mktemp("classes")
    for split, first in (("train", 0), ("test", 100)):
        for colour in COLOURS:
            place = folder / split / colour
            place.mkdir(parents=True)
            for i, shape in enumerate(("top", "left", "right", "bottom")):
                (place / f"{i}.png").write_bytes(encoded(picture(colour, shape, first + i).resize((24, 24))))
    return folder


def test_evaluate_says_how_well_it_retrieves_and_names(trained, classes, tmp_path, capsys):
    out, page = tmp_path / "a.json", tmp_path / "a.html"
    words = ["evaluate", str(trained), "--probe", "retrieval,zeroshot,linear", "--zeroshot", f"folder:{classes}"]
    words += ["--prompt", "a {} bar at the top", "--prompt", "left: {} paint", "--json", str(out), "--html", str(page)]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "image to text" in said
    assert "R@10" in said
    numbers = json.loads(out.read_text())
    name = f"zero-shot, folder:{classes}"
    assert numbers["probes"][name]["accuracy"] > 0.5  # four colours
    assert len(numbers["probes"][name]["per_class"]) == 4
    assert numbers["probes"][f"linear, folder:{classes}"]["accuracy"] > 0.5
    assert numbers["retrieval"]["mean_recall"] == pytest.approx(runs.read_result(trained).measures["mean_recall"])
    low, high = numbers["retrieval"]["image_to_text"]["intervals"]["10"]
    assert low <= numbers["retrieval"]["image_to_text"]["recalls"]["10"] <= high
    assert numbers["pairs"]["values"]["modality_gap"] > 0
    assert "zero-shot" in page.read_text()
    assert noun_of(str(trained)) == "pairs"


@pytest.mark.parametrize(
    ("probes", "options", "words"),
    [
        (("zeroshot",), {}, "say --zeroshot DATA"),
        (("zeroshot",), {"zeroshot": ("digits",), "prompts": ("a photo",)}, "must hold one"),
        (("knn",), {}, "no probe 'knn' for image–text pairs"),
    ],
)
def test_evaluation_s_mistakes(probes, options, words, trained):
    with pytest.raises(ValueError, match=words):
        image_text.assess(str(trained), probes, Options(**options))


def test_classes_of_one_name_and_wrong_names_are_refused(trained, classes, tmp_path):
    names = tmp_path / "names.txt"
    names.write_text("red\nred\ngreen\nblue\n")
    options = {"zeroshot": (f"folder:{classes}",), "class_names": names}
    with pytest.raises(ValueError, match="classes 0 and 1 are both called 'red'"):
        image_text.assess(str(trained), ("zeroshot",), Options(**options))
    names.write_text("red\n")
    with pytest.raises(ValueError, match="names 1 classes; there are 4"):
        image_text.assess(str(trained), ("zeroshot",), Options(**options))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"text_encoder": "minilm"}, "has one encoder; --text_encoder belongs to --method clip"),
        ({"method": "clip"}, "no image–text pairs 'digits'"),
        ({"data": "flickr8k", "text_encoder": "resnet18"}, "no text encoder 'resnet18'"),
        ({"data": "flickr8k", "method.lock": "images"}, "lock must be one of none, image, text, both"),
    ],
)
def test_mistakes_of_settings(settings, words, tmp_path):
    with pytest.raises((ValueError, FileNotFoundError), match=words):
        train(configure({**settings, "epochs": 1}), Runtime(out=tmp_path / "a", quiet=True))


def test_settings_for_images_alone_and_too_few_pairs_are_refused(pairs, tmp_path):
    for more, words in (
        ({"small_crops": 2}, "small_crops is for images without captions"),
        ({"images": 1000}, "has 32 images; 1000 are asked for"),
        ({"batch": 64}, "a batch of 64 is larger"),
        ({"batch": 1}, "holds 1 pair, which has no negative"),
        ({"head": "none", "head.width": None, "text_encoder.width": 32}, "numbers; one space needs a head"),
    ):
        settings = {k: v for k, v in settings_of(pairs, **more).items() if v is not None}
        with pytest.raises(ValueError, match=words):
            train(configure(settings), Runtime(out=tmp_path / words[:5], quiet=True))


def test_the_configuration_is_written_and_read_again(pairs, tmp_path):
    run(tmp_path / "a", pairs)
    settings = yaml.safe_load((tmp_path / "a/config.yaml").read_text())
    assert settings["text_encoder"]["name"] == "text_small"
    assert configure(settings).key == runs.read_result(tmp_path / "a").key
