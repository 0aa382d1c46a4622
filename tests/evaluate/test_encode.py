"""`isotherm encode` and `isotherm search`: embeddings of files, and the images nearest to a sentence."""

import json
import shutil

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

pytest.importorskip("transformers", reason="the extra 'text' is not installed")

from isotherm.cli import main
from isotherm.train import runs
from isotherm.train.commandline import configure
from isotherm.train.config import Runtime
from isotherm.train.layers import nested
from isotherm.train.loop import run_to_end
from small_pairs import COLOURS, QUICK, SHAPES, encoded, folder_of, picture

pytest_plugins = ("browser",)


def train(out, **settings):
    run_to_end(configure(nested(settings)), Runtime(out=out, quiet=True))
    return out


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    """A run on pairs whose data is gone."""
    place = tmp_path_factory.mktemp("clip")
    data = folder_of(place / "data")
    out = train(place / "run", **{**QUICK, "data": f"parquet:{data}", "epochs": 30, "lr": 5e-3, "views": 3})
    opened = runs.open_pairs(out)
    pixels, _ = opened.test.decoded(torch.arange(4))
    here = (pixels, opened.embed_pixels(pixels), opened.embed_texts(["a red bar at the top"]))
    shutil.rmtree(data)
    return out, here


@pytest.fixture(scope="module")
def pairs_data(tmp_path_factory):
    return folder_of(tmp_path_factory.mktemp("pairs") / "data")


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    for colour in COLOURS:
        (folder / colour).mkdir()
        for i, shape in enumerate(SHAPES):
            (folder / colour / f"{shape}.png").write_bytes(encoded(picture(colour, shape, 500 + i)))
    return folder


def test_towers_embed_files_without_the_data_they_learnt_from(clip, photos, tmp_path, capsys):
    out, (pixels, images, texts) = clip
    towers = runs.open_towers(out)
    assert torch.equal(towers.embed_pixels(pixels), images)
    assert torch.equal(towers.embed_texts(["a red bar at the top"]), texts)
    (tmp_path / "broken.png").write_bytes(b"no image")
    (tmp_path / "two.txt").write_text("a red bar at the top\n\nleft: blue paint\n")
    words = ["encode", str(out), str(photos), str(tmp_path / "broken.png"), str(tmp_path / "two.txt")]
    assert main([*words, "--out", str(tmp_path / "e.npz")]) == 0
    said = capsys.readouterr().out
    assert "1 of 17 images left out" in said
    assert "broken.png" in said
    assert "1 empty lines left out" in said
    with np.load(tmp_path / "e.npz") as e:
        assert e["images"].shape == (16, 8)
        assert e["image_files"].tolist() == [str(p) for p in sorted(photos.rglob("*.png"))]
        assert e["text_lines"].tolist() == ["a red bar at the top", "left: blue paint"]
        assert np.allclose(e["texts"][:1], texts.numpy(), atol=1e-6)  # in a batch sums are in another order


def test_search_gives_the_nearest_images_in_order(clip, photos, tmp_path, capsys):
    out, _ = clip
    query, other = "a red bar at the top", str(photos / "blue/left.png")
    page = tmp_path / "page.html"
    words = ["search", str(out), query, other, "--top", "5"]
    assert main([*words, "--images", str(photos), "--html", str(page), "--json", str(tmp_path / "s.json")]) == 0
    result = json.loads((tmp_path / "s.json").read_text())
    assert result["among"] == 16
    first, second = result["answers"]
    towers, paths = runs.open_towers(out), sorted(photos.rglob("*.png"))
    assert main(["encode", str(out), str(photos), "--out", str(tmp_path / "e.npz")]) == 0
    z = normalize(torch.from_numpy(np.load(tmp_path / "e.npz")["images"]).double(), dim=1)
    s = z @ normalize(towers.embed_texts([query]).double(), dim=1)[0]
    for got, i in zip(first["images"], s.argsort(descending=True).tolist(), strict=False):
        assert got["image"] == str(paths[i])
        assert got["similarity"] == pytest.approx(float(s[i]), abs=1e-9)
    assert "/red/" in first["images"][0]["image"]  # it has learnt that much
    assert second["images"][0] == {"image": other, "similarity": pytest.approx(1.0)}
    assert page.read_text().count("<img") == 10
    assert main([*words, "--images", str(tmp_path / "e.npz"), "--json", str(tmp_path / "again.json")]) == 0
    assert json.loads((tmp_path / "again.json").read_text())["answers"] == result["answers"]
    assert "red" in capsys.readouterr().out


def test_the_page_of_a_search_shows_its_images_and_fetches_nothing(clip, photos, tmp_path, browser):
    assert (
        main(["search", str(clip[0]), "blue paint", "--images", str(photos), "--html", str(tmp_path / "p.html")]) == 0
    )
    browser.open(tmp_path / "p.html")
    wide = browser.run("return [...document.images].map(i => i.complete && i.naturalWidth)")
    assert len(wide) == 12
    assert min(wide) > 0
    assert browser.complaints() == []
    assert [a for a in browser.requests() if not a.startswith("file:")] == []


def test_runs_on_images_and_on_sentences_embed_what_they_know(photos, tmp_path, capsys):
    images = train(
        tmp_path / "images", data="digits", images=60, epochs=1, batch=30, monitor=0, **{"encoder.widths": [8]}
    )
    assert main(["encode", str(images), str(photos), "--out", str(tmp_path / "i.npz")]) == 0
    assert np.load(tmp_path / "i.npz")["images"].shape == (16, runs.load_encoder(images).width)
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("".join(f"sentence number {i}\n" for i in range(12)))
    small = {"encoder.width": 16, "encoder.heads": 2, "encoder.vocabulary": 300}
    texts = train(tmp_path / "texts", data=f"text:{corpus}", epochs=1, batch=6, monitor=0, **small)
    assert main(["encode", str(texts), str(corpus), "--out", str(tmp_path / "t.npz")]) == 0
    own = runs.load_encoder(texts).encode(["sentence number 3"])
    assert np.allclose(np.load(tmp_path / "t.npz")["texts"][3], own[0].numpy(), atol=1e-6)
    capsys.readouterr()
    for words, message in (
        (["encode", images, corpus], "embeds no text"),
        (["encode", texts, photos], "embeds no images"),
        (["encode", images, tmp_path / "no.png"], "there is no file or folder"),
        (["encode", images, images / "config.yaml"], "neither an image nor a .txt file"),
        (["search", images, "a dog", "--images", photos], "ask with the path of an image, not 'a dog'"),
        (["search", texts, "a dog", "--images", photos], "embeds no images"),
        (["search", images, photos / "red/top.png", "--images", tmp_path / "t.npz"], "is not what `isotherm encode`"),
    ):
        more = ["--out", str(tmp_path / "x.npz")] if words[0] == "encode" else []
        assert main([*map(str, words), *more]) == 2
        assert message in capsys.readouterr().err
    assert main(["encode", str(images), str(photos), "--out", str(tmp_path / "x.csv")]) == 2
    (tmp_path / "empty").mkdir()
    assert main(["search", str(images), "q.png", "--images", str(tmp_path / "empty")]) == 2
    assert "holds no images" in capsys.readouterr().err


@pytest.mark.parametrize("lock", ["none", "both"])
def test_an_exported_model_embeds_as_its_readme_says(lock, clip, pairs_data, tmp_path, monkeypatch):
    out = clip[0]
    if lock == "both":
        head = {"head": "simclr", "head.hidden": 12, "normalize": "imagenet", "epochs": 1, "method.lock": "both"}
        out = train(tmp_path / "locked", **{**QUICK, **head, "data": f"parquet:{pairs_data}"})
    assert main(["export", str(out), "--out", str(tmp_path / "model")]) == 0
    towers = runs.open_towers(out)
    monkeypatch.chdir(tmp_path / "model")
    code = (tmp_path / "model/README.md").read_text().split("```")[1::2]
    names = {}
    for block in code:
        exec(block.removeprefix("python"), names)
    texts = ["a red bar at the top", "paint"]
    assert torch.allclose(names["embed_texts"](texts), towers.embed_texts(texts), atol=1e-6)
    pixels = torch.randint(0, 256, (3, 3, 16, 16), dtype=torch.uint8)
    assert torch.allclose(names["embed_images"](pixels / 255), towers.embed_pixels(pixels), atol=1e-6)
    pooled = pytest.importorskip("sentence_transformers").SentenceTransformer("text", device="cpu").encode(texts)
    features = towers.network.encoder.text_encoder.encode(texts)
    assert np.allclose(pooled, features.numpy(), atol=1e-6)


def test_what_cannot_be_exported_is_said(clip, tmp_path, capsys):
    assert main(["export", str(clip[0]), "--out", str(tmp_path)]) == 2
    assert "is there already" in capsys.readouterr().err
    assert main(["export", str(tmp_path), "--out", str(tmp_path / "m")]) == 2
    assert "is no run" in capsys.readouterr().err
    assert not (tmp_path / "m").exists()


def test_towers_are_pushed_without_the_place_of_their_data(clip, tmp_path, capsys):
    model = tmp_path / "model"
    assert main(["push", str(clip[0]), str(model), "--map", "none"]) == 0
    assert {p.name for p in model.iterdir()} == {
        "README.md",
        "USE.md",
        "config.json",
        "image",
        "text",
        "projections.safetensors",
    }
    said = "".join(p.read_text() for p in model.rglob("*") if p.suffix in (".md", ".json"))
    assert str(clip[0].parent) not in said
    assert main(["pull", str(model), "--out", str(tmp_path / "again")]) == 0
    ours, theirs = (runs.load_encoder(place).state_dict() for place in (clip[0], tmp_path / "again"))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
