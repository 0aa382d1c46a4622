"""Presets: settings and numbers as the papers print them (typed from their text), one step of each, and the list."""

import csv
import json
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from isotherm.cli import main
from isotherm.data.imbalance import IMAGENET100_LT, long_tail_counts
from isotherm.encoders import HEADS, encoder
from isotherm.encoders.heads import GELUHead
from isotherm.evaluate.images import PROBES
from isotherm.evaluate.sentences import PROBES as OF_SENTENCES
from isotherm.train.commandline import configure
from isotherm.train.config import Runtime
from isotherm.train.devices import fabric_for
from isotherm.train.layers import nested
from isotherm.train.loop import Run
from isotherm.train.presets import OURS, PAPERS, PRESETS, Preset
from isotherm.train.presets.cost import FORWARD, IMAGES, SMALL_CROPS, SMALL_EDGE, cost_of
from isotherm.views import RECIPES

HERE = Path(__file__).parent


def rows(name):
    with (HERE / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


SETTINGS = rows("presets_settings.csv")
PUBLISHED = rows("presets_published.csv")


@pytest.mark.parametrize("row", SETTINGS, ids=lambda row: f"{row['presets']} {row['setting']}")
def test_settings_are_those_that_the_paper_states(row):
    names = [name for name in PRESETS if fnmatch(name, row["presets"])]
    assert names
    for name in names:
        value = PRESETS[name].settings[row["setting"]]
        typed = row["value"] if isinstance(value, str) else json.loads(row["value"])
        assert value == typed, name


def test_every_preset_of_a_paper_has_settings_that_were_typed_from_it():
    typed = {n for n in PRESETS if any(fnmatch(n, row["presets"]) for row in SETTINGS)}
    assert set(PRESETS) - typed - set(OURS) == set()


def test_published_numbers_are_those_that_the_tables_print():
    typed = sorted((row["preset"], row["table"], row["measure"], float(row["value"])) for row in PUBLISHED)
    ours = sorted((name, p.table, p.measure, p.value) for name, preset in PRESETS.items() for p in preset.published)
    assert ours == typed


def test_every_preset_says_where_it_is_from_and_is_a_run_of_its_own():
    for name, preset in PRESETS.items():
        assert preset.about
        assert (name in OURS) != (preset.paper in PAPERS), name
        assert name in OURS or preset.tables, name
        assert {p.table for p in preset.published} <= set(preset.tables), name
        assert preset.probe in (*PROBES, *OF_SENTENCES), name
    trees = [json.dumps(nested(preset.settings), sort_keys=True) for preset in PRESETS.values()]
    assert len(set(trees)) == len(trees)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Eight images of two classes, of each kind that a preset may want."""
    folder = tmp_path_factory.mktemp("tiny")
    rng = np.random.default_rng(0)
    for name, shape in (("gray", (8, 16, 16)), ("colour", (8, 32, 32, 3))):
        parts = {f"{s}_images": rng.integers(0, 256, shape, np.uint8) for s in ("train", "test")}
        np.savez(folder / f"{name}.npz", **parts, **{f"{s}_labels": np.arange(8) % 2 for s in ("train", "test")})
    return folder


def small(preset: Preset, folder: Path):
    """The same with tiny images, few items and thin networks; what makes it what it is stays."""
    given = dict(preset.settings)
    gray = given["data"] in ("digits", "mnist")
    size = 8 if given["data"] == "digits" else 16 if gray else 32
    changes = {
        "data": f"arrays:{folder}/{'gray' if gray else 'colour'}.npz",
        "batch": 4,
        "size": size,
        "split": "train",
    }
    changes |= {"images": None, "imbalance": "none", "precision": "32", "monitor": 0}
    if given.get("digits"):
        changes |= {"digits": 8, "digit_source": "digits"}
    head = given.get("head", "none")
    if head != "none" and (HEADS[head].settings.get("hidden") or HEADS[head].kind is GELUHead):
        changes |= {"head.hidden": 16, "head.width": 8}
    if given.get("loss") == "WMSELoss":
        changes |= {"head.width": 2, "loss.size": 4}  # fewer numbers than items
    if "method.prototypes" in given:
        changes["method.prototypes"] = 4
    if given.get("recipe") == "multi-crop":
        changes["small_size"] = 16
    if "predictor" in given:
        changes |= {"predictor.hidden": 16, "predictor.width": 8}
        changes |= {"head.width": 8}
    if given.get("method") == "mocov2":
        changes["method.queue"] = 16
    if "loss.top_k" in given:
        changes["loss.top_k"] = 3
    name = given.get("encoder", "convnet")
    if name == "vit_base":
        changes |= {"encoder.depth": 1, "encoder.heads": 12, "encoder.patch": 16}
    elif name != "vae":
        given = {k: v for k, v in given.items() if not k.startswith("encoder.")}
        changes |= {"encoder": "convnet", "encoder.widths": [4]}
    return configure({**given, **changes})


@pytest.mark.parametrize(
    "name", [name for name in PRESETS if not name.startswith("simcse")]
)  # test_sentences has those
def test_every_preset_takes_a_step_at_a_small_size(name, tiny, tmp_path):
    config = small(PRESETS[name], tiny)
    place = Runtime(out=tmp_path, quiet=True, prefetch=0)
    run = Run(fabric_for(config, place), config, place)
    with run.closing():
        run.state.method.train()
        before = [p.detach().clone() for p in run.state.method.network.parameters() if p.requires_grad]
        run.advance(next(run.loader.epoch(0)))
        after = [p for p in run.state.method.network.parameters() if p.requires_grad]
        assert all(bool(torch.isfinite(p).all()) for p in after)
        assert any(not torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_presets_name_what_there_is():
    """Their encoders, recipes and heads at full size are built in the tests of those; here their names and settings."""
    for name in ("cacr-imagenet-vit", "mocov3-imagenet", "barlow-imagenet100-400", "simsiam-imagenet", "chen-li-vae"):
        configure({}, preset=name)
    for name, preset in PRESETS.items():
        assert preset.settings.get("recipe") in (None, *RECIPES), name
        assert preset.settings.get("head", "none") in HEADS, name


@pytest.mark.parametrize(("name", "size"), [key for key in FORWARD if not key[0].startswith("hf:")])
def test_the_arithmetic_of_an_encoder_is_counted(name, size):
    own = {
        "convnet": {28: {"widths": [32, 64, 64], "stride": 2, "channels": 9}, 8: {"channels": 1}}.get(size, {}),
        "vae": {"widths": [32, 64, 64], "hidden": 128, "bn": True, "padding": 0, "channels": 9},
    }.get(name, {})
    settings = {k: v for k, v in own.items() if k != "channels"}
    with torch.device("meta"):
        network = encoder(name, own.get("channels", 3), 224 if size == 96 else size, **settings).eval()
        images = torch.empty(2, own.get("channels", 3), size, size)
    counter = FlopCounterMode(display=False)
    with counter:
        network(images)
    each = counter.get_total_flops() / 2e9 * (2 if name == "vae" else 1)  # its decoder mirrors it
    assert FORWARD[name, size] == pytest.approx(each, rel=0.05)


def test_the_cost_of_a_preset_is_its_views_and_passes():
    assert IMAGES["cifar10", "long-tail"] == sum(long_tail_counts(10, 5000, 0.01))
    assert IMAGES["cifar100", "long-tail"] == sum(long_tail_counts(100, 500, 0.01))
    assert IMAGES["imagenet100", "imagenet100-lt"] == sum(IMAGENET100_LT)
    bank, plain, slow = (cost_of(PRESETS[n]) for n in ("wang-liu-imagenet100", "simclr-imagenet", "cacr-imagenet"))
    assert bank.views == 126_689 * 200
    assert plain.views == 1_281_167 * 100 * 2
    assert plain.operations == pytest.approx(plain.views * 8.174 * 3)
    assert slow.operations == pytest.approx(slow.views * 8.174 * 4)  # every view asks and answers
    one_asks = cost_of(PRESETS["mocov2-imagenet"])
    assert one_asks.operations == pytest.approx(one_asks.views * 8.174 * 2)
    assert plain.hours(1600) == pytest.approx(plain.views / 1600 / 3600)
    assert plain.hours(800) == 2 * plain.hours(1600)
    crops = cost_of(PRESETS["swav-imagenet-multi-crop"])
    assert crops.views == 1_281_167 * 800 * 8
    assert crops.operations == pytest.approx(1_281_167 * 800 * 3 * (2 * 8.174 + 6 * 1.501))
    both = cost_of(PRESETS["cacr-imagenet-vit-multi-crop"])  # the slow copy sees the large ones
    assert both.operations == pytest.approx(1_281_167 * 300 * (2 * 4 * 35.126 + 6 * 3 * 6.378))
    assert cost_of(PRESETS["dino-cifar"]).operations == pytest.approx(50_000 * 200 * 2 * 4 * 1.111)
    for name, preset in PRESETS.items():
        assert cost_of(preset).views > 0
        recipe = RECIPES[preset.settings.get("recipe") or "none"]
        crops = preset.settings.get("small_crops", SMALL_CROPS.get(recipe.name, 0))
        assert crops == len(recipe.small), name
        assert all(view.size == SMALL_EDGE for view in recipe.small), name
    assert cost_of(replace(PRESETS["cifar10-cpu"])).views == 5000 * 20 * 2


def test_the_list_has_every_preset_by_paper_and_words_choose(capsys):
    assert main(["presets"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in PRESETS)
    assert [out.index(f"{paper} ({number})") for paper, number in PAPERS.items()] == sorted(
        out.index(f"{paper} ({number})") for paper, number in PAPERS.items()
    )
    assert "1,600 views per second of ResNet-50 at 224 pixels" in out
    assert main(["presets", "dystress", "Table 1"]) == 0
    out = capsys.readouterr().out
    assert "macl-imagenet100" in out
    assert "78.28" in out
    assert "0.07-0.5" not in out  # of Table 14
    assert main(["presets", "wang-liu-cifar10", "--throughput", "160"]) == 0
    out = capsys.readouterr().out
    for said in ("Table 1: linear 83.27", "10,000,000 views", "--probe wang-liu-augmented", "160 views per second"):
        assert said in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["wang-lui-cifar10"], "did you mean 'wang-liu-cifar10'"),
        (["cacr", "table 99"], "no preset has 'cacr table 99' in its name, paper or tables"),
        (["cacr", "--throughput", "0"], "--throughput must be positive, got 0"),
    ],
)
def test_what_cannot_be_listed_is_told_in_a_line(words, said, capsys):
    assert main(["presets", *words]) == 2
    assert said in capsys.readouterr().err
