"""The command line: help, tables, and one clear line for a mistake."""

import json
import re
import subprocess
import sys

import pytest
import torch
from PIL import Image

from isotherm.bench import losses, rivals
from isotherm.cli import main
from isotherm.losses import catalogue


def run(capsys, *arguments):
    try:
        code = main(list(arguments))
    except SystemExit as stop:
        code = stop.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_losses_lists_every_loss_with_paper_and_equation(capsys):
    code, out, _ = run(capsys, "losses")
    assert code == 0
    for entry in catalogue.losses():
        assert entry.name in out
        assert entry.paper.split(",")[1].strip() in out
        assert entry.equation, entry.name
    assert f"{len(catalogue.losses())} losses" in out


def test_one_loss_is_shown_with_its_equation(capsys):
    code, out, _ = run(capsys, "losses", "CACRLoss")
    assert code == 0
    assert "CACRLoss(t_pos=1.0, t_neg=2.0" in out
    assert r"\mathcal{L}_i" in out


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["losses", "CACRLos"], "isotherm: no loss 'CACRLos'; did you mean 'CACRLoss'?"),
        (["losses", "zzz"], "isotherm: no loss 'zzz'; see: isotherm losses."),
        (["loses"], "isotherm: no 'loses' here; did you mean 'losses'?"),
        (["bench", "loss"], "isotherm bench: no 'loss' here; did you mean 'losses'?"),
        (["bench"], "isotherm bench: the following arguments are required: WHAT"),
        (
            ["bench", "losses", "--pairs", "0"],
            "isotherm bench losses: argument --pairs: must be a whole number, 1 or more; got '0'",
        ),
        (["losses", "--colour"], "isotherm losses: no option '--colour'; there is: --help, --json."),
        (
            ["inspect", "z.npy", "--fial-on", "bad"],
            "isotherm inspect: no option '--fial-on'; did you mean '--fail-on'?",
        ),
        (["inspect", "z.npy", "--label=y"], "isotherm inspect: no option '--label'; did you mean '--labels'?"),
        (["study", "chen-li", "--scal", "tiny"], "isotherm study: no option '--scal'; did you mean '--scale'?"),
        (
            ["inspect", "z.npy", "--html", "pages/"],
            "isotherm inspect: argument --html: pages/ is a folder; name a file, such as pages/page.html",
        ),
        (["losses", "ntxent"], "isotherm: no loss 'ntxent'; did you mean 'NTXentLoss'?"),
    ],
)
def test_mistakes_get_one_line_and_exit_code_2(capsys, arguments, line):
    code, out, err = run(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert err == line + "\n"


@pytest.mark.parametrize("arguments", [[], ["--help"], ["losses", "--help"], ["bench", "losses", "--help"]])
def test_help_is_there(capsys, arguments):
    code, out, _ = run(capsys, *arguments)
    assert code == 0
    assert "usage: isotherm" in out


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # those of the compiler
def test_bench_measures_everybody_and_writes_json(capsys, tmp_path):
    code, out, _ = run(
        capsys, "bench", "losses", "--pairs", "16", "160", "--rounds", "1", "--json", str(tmp_path / "bench.json")
    )
    assert code == 0
    result = json.loads((tmp_path / "bench.json").read_text())
    small, names = ({row["name"] for row in result["rows"] if row["pairs"] == n} for n in (16, 160))
    everybody = {e.name for e in catalogue.losses()} | {"SwAV", "DINO", "dense PyTorch", "dense, torch.compile"}
    assert names > everybody
    assert everybody - small == {"WMSELoss"}  # 16 items cannot be whitened
    assert all(row["seconds"] > 0 for row in result["rows"])
    assert result["machine"]["torch"]
    assert "times faster than dense PyTorch" in out


def test_bench_has_every_loss_and_lightlys_of_the_same_name():
    prototypes = torch.nn.functional.normalize(torch.randn(7, 5), dim=1)
    objectives = losses.by_prototypes(prototypes)
    ours = {e.name for e in catalogue.losses()} | set(objectives)
    assert set(rivals.ALIKE) <= ours
    assert {"WMSELoss", "ZeroCLLoss", "ARBLoss", "SigLIPLoss", "FNCLoss", "SwAV", "DINO"} <= ours
    z = [torch.randn(6, 5, requires_grad=True) for _ in range(2)]
    for objective in objectives.values():
        assert all(g.abs().sum() > 0 for g in torch.autograd.grad(objective(*z), z))


def test_isotherm_is_installed_as_a_command():
    done = subprocess.run(
        [sys.executable, "-m", "isotherm.cli", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("isotherm 0.")


@pytest.mark.parametrize(
    ("more", "width"),
    [
        ([], 9),
        (["--randbit", "3", "--views", "2"], 3),
        (["--recipe", "none", "--views", "1"], 2),
        (["--digits", "5", "--digit_size", "2", "--digit_places", "grid", "--digit_blend", "sum"], 9),
    ],
)
def test_data_show_draws_images_and_their_views(capsys, tmp_path, more, width):
    out = tmp_path / "new" / "views.png"
    code, said, _ = run(capsys, "data", "show", "digits", "--out", str(out), "--rows", "4", "--views", "8", *more)
    assert code == 0
    assert str(out) in said
    edge = 96 + (12 if "--randbit" in more else 0)
    with Image.open(out) as image:
        assert image.size == (width * (edge + 3) + 3, 16 + 4 * 99 + 3)
        assert image.convert("L").crop((3, 3, 60, 16)).getextrema()[0] < 100  # a word over the column


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["digit", "--out", "x.png"], "no set 'digit'; did you mean 'digits'?"),
        (["digits", "--out", "x.png", "--recipe", "simclr-cifr"], "did you mean 'simclr-cifar'?"),
        (["digits", "--out", "x.png", "--randbit", "25"], "0 to 24 bits"),
        (["digits", "--out", "x.png", "--digits", "5", "--digit_places", "grid"], "Resize them to 2 or less"),
        (["digits", "--out", "x.png", "--read_size", "9"], "digits has no option 'size'"),
        (["digits", "--out", "x.png", "--size", "1000000"], "between 1 and 4096"),
        (["digits", "--out", "/proc/version/x.png"], "/proc/version"),
        (["digits"], "required: --out"),
    ],
)
def test_data_show_mistakes(capsys, arguments, words):
    code, out, err = run(capsys, "data", "show", *arguments)
    assert code == 2
    assert out == ""
    assert words in err
    assert err.count("\n") == 1


@pytest.mark.slow
def test_bench_views_measures_and_judges(capsys):
    code, out, err = run(capsys, "bench", "views", "--rounds", "1", "--json")
    assert code == 0
    result = json.loads(out)
    assert result["images_per_second"]["isotherm"] > 0
    assert result["machine"]["torch"]
    assert {bar["what"] for bar in result["bars"]} == {"two views, against PIL, image by image"}
    assert "two views, against PIL" in err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["losses"], "NTXentLoss"),
        (["losses", "CACRLoss"], "CACRLoss"),
        (["data", "list"], "cifar10"),
        (["study", "--list"], "temperature"),
    ],
)
def test_a_list_as_json_goes_to_standard_output_alone_or_into_a_file(words, expected, capsys, tmp_path):
    code, out, _ = run(capsys, *words, "--json")
    assert code == 0
    assert expected in {entry["name"] for entry in json.loads(out)}
    code, _, _ = run(capsys, *words, "--json", str(tmp_path / "list.json"))
    assert code == 0
    assert json.loads((tmp_path / "list.json").read_text()) == json.loads(out)
    assert main([*words, "--json", str(tmp_path / "none/list.json")]) == 2
    assert "no folder" in capsys.readouterr().err


def test_a_study_that_runs_has_no_json(capsys):
    assert main(["study", "temperature", "--json"]) == 2
    assert "records.jsonl" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["evaluate", "a"], ["inspect", "a.npy"], ["compare", "a.npy", "b.npy"]])
@pytest.mark.parametrize("seed", ["-1", "9" * 30, "x"])
def test_a_seed_that_no_generator_takes_is_a_sentence(words, seed, capsys):
    with pytest.raises(SystemExit) as end:
        main([*words, "--seed", seed])
    assert end.value.code == 2
    assert "2^63" in capsys.readouterr().err


@pytest.mark.parametrize("setting", ["--head.width", "--views"])
def test_settings_that_no_memory_holds_are_a_sentence(setting, tmp_path, capsys):
    assert main(["train", setting, "99999999999999", "--quiet", "--out", str(tmp_path / "a")]) == 2
    assert re.search("not enough memory|views at most", capsys.readouterr().err)
