"""Encoders from anywhere: a run's, a file of weights under any names, the hub's; each with the images it wants."""

import json

import pytest
import torch
from safetensors.torch import save_file

from isotherm.data.sets import load
from isotherm.encoders import ConvNet, encoder
from isotherm.evaluate.models import Wanted, fitted, open_model
from isotherm.evaluate.targets import open_target
from isotherm.probes.extract import features_of
from isotherm.train import runs
from small_runs import run


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "a"
    run(out, epochs=1)
    return out


def test_a_run_is_opened_with_the_images_it_learnt_from(trained):
    model = open_model(str(trained))
    assert (model.channels, model.size) == (1, 8)
    test = load("digits", "test")
    opened = runs.open_run(trained)
    expected = features_of(opened.network.encoder, test, opened.recipe)
    assert torch.equal(features_of(model.encoder, test, model.recipe, model.size), expected)


def test_random_weights_are_those_of_the_same_network_and_the_same_for_a_seed(trained):
    a, b, c = (open_model(f"random:{trained}", Wanted(seed=seed)) for seed in (0, 0, 1))
    learnt = open_model(str(trained))
    assert [p.shape for p in a.encoder.parameters()] == [p.shape for p in learnt.encoder.parameters()]
    first = [next(iter(m.encoder.parameters())) for m in (a, b, c, learnt)]
    assert torch.equal(first[0], first[1])
    assert not torch.equal(first[0], first[2])
    assert not torch.equal(first[0], first[3])


@pytest.mark.parametrize("form", ["plain", "moco", "checkpoint", "safetensors"])
def test_weights_are_found_under_whatever_names_they_were_saved(form, tmp_path):
    network = encoder("resnet18", 3, 64)
    state = network.state_dict()
    extra = {"fc.weight": torch.zeros(10, 512)}
    path = tmp_path / ("w.safetensors" if form == "safetensors" else "w.pt")
    if form == "safetensors":
        save_file({k: v.contiguous() for k, v in {**state, **extra}.items()}, path)
    elif form == "plain":
        torch.save(state, path)
    else:
        prefix = "module.encoder_q." if form == "moco" else "backbone."
        torch.save({"epoch": 3, "state_dict": {prefix + k: v for k, v in {**state, **extra}.items()}}, path)
    model = open_model(str(path), Wanted(arch="resnet18", size=64))
    x = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        assert torch.equal(model.encoder(x), network.eval()(x))
    assert any("left out" in note for note in model.notes) == (form != "plain")
    assert model.recipe.mean  # ImageNet's, since nothing else was said


def test_weights_under_other_names_are_refused_with_the_nearest(tmp_path):
    torch.save({f"layers.{i}.w": torch.zeros(2, 2) for i in range(30)}, tmp_path / "w.pt")
    with pytest.raises(ValueError, match="does not fit convnet: it lacks") as told:
        open_model(str(tmp_path / "w.pt"), Wanted(arch="convnet"))
    nearest = str(told.value).partition("The nearest names in it: ")[2]
    assert nearest.count(",") == 9  # ten names


def test_weights_of_another_shape_or_with_code_are_refused(tmp_path):
    torch.save(encoder("resnet18", 3, 32).state_dict(), tmp_path / "small.pt")
    with pytest.raises(ValueError, match=r"'conv1.weight' is \(64, 3, 3, 3\), \(64, 3, 7, 7\) is wanted"):
        open_model(str(tmp_path / "small.pt"), Wanted(arch="resnet18", size=64))
    torch.save(ConvNet(), tmp_path / "whole.pt")
    with pytest.raises(ValueError, match="more than tensors"):
        open_model(str(tmp_path / "whole.pt"), Wanted(arch="convnet"))
    (tmp_path / "no.pt").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="damaged or no file of weights"):
        open_model(str(tmp_path / "no.pt"), Wanted(arch="convnet"))


@pytest.mark.parametrize(
    ("source", "wanted", "said"),
    [
        ("nowhere", Wanted(), "is no run"),
        ("FILE.pt", Wanted(), "say it with --arch"),
        ("timm:nonsense", Wanted(), "timm"),
        ("torchvision:nonsense", Wanted(), "torchvision"),
        ("hf:/no/where/at/all", Wanted(), "hf:"),
        ("hf:", Wanted(), "names no model"),
        ("timm:resnet18", Wanted(arch="resnet18"), "architecture already"),
    ],
)
def test_an_encoder_that_is_none_is_told_in_a_sentence(source, wanted, said, tmp_path):
    torch.save({}, tmp_path / "FILE.pt")
    with pytest.raises(ValueError, match=said):
        open_model(source.replace("FILE", str(tmp_path / "FILE")), wanted)


def test_grey_images_are_shown_thrice_and_colours_as_grey(trained):
    three = open_model("random:convnet")
    one = open_model(str(trained))
    digits = load("digits", "test")
    shown = fitted(digits, three)
    assert torch.equal(shown.at(torch.arange(3))[:, 1], digits.pixels[:3, 0])
    back = fitted(shown, one)
    assert torch.equal(back.pixels, digits.pixels)  # the weights of the colours sum to one
    bits = load("k-bit", "test")
    with pytest.raises(ValueError, match=r"takes 3 channels; .* has 8"):
        fitted(bits, three)
    assert any("shown thrice" in note for note in open_target("digits", three).notes)


def test_a_vision_model_of_the_hub_gives_its_class_token(tmp_path):
    transformers = pytest.importorskip("transformers")
    settings = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    torch.manual_seed(0)
    vit = transformers.ViTModel(transformers.ViTConfig(image_size=16, patch_size=8, **settings))
    vit.save_pretrained(tmp_path / "vit")
    said = {"image_mean": [0.5] * 3, "image_std": [0.25] * 3, "size": {"height": 16, "width": 16}}
    (tmp_path / "vit/preprocessor_config.json").write_text(json.dumps(said))
    model = open_model(f"hf:{tmp_path / 'vit'}")
    assert (model.size, model.encoder.width, model.recipe.mean) == (16, 16, (0.5, 0.5, 0.5))
    x = torch.randn(2, 3, 16, 16)
    with torch.no_grad():
        assert torch.allclose(model.encoder(x), vit.eval()(x).last_hidden_state[:, 0])
