"""Studies as a user meets them: real runs, killed runners and workers, claims that can fail, pages that open."""

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from isotherm.cli import main
from isotherm.evaluate import assessment
from isotherm.evaluate.image_text import assess, check_zero_shot
from isotherm.experiments import execute, find, plan, report
from isotherm.experiments.claims import rules
from isotherm.experiments.measuring import carry_out, done
from isotherm.experiments.points import at_scale, check_measures, expand
from isotherm.experiments.records import EMBEDDING, Record, Records, read
from isotherm.experiments.study import Arm, Claim, Paper, PaperTable, Scale, Study, Where
from isotherm.train import runs
from isotherm.train.config import Runtime
from isotherm.train.devices import fabric_for
from isotherm.train.loop import Run
from isotherm.train.modality.image_text import pairs_of
from isotherm.train.pair_embeddings import pair_subject
from study_runs import carry_out_here

TAU = "loss.temperature"
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def record(arm, tau, seed=0, **measures):
    varied = {} if tau is None else {TAU: tau}
    return Record(arm, varied, seed, f"{arm}{tau}{seed}", measures, 1.0, {"data": "digits"}, Path("nowhere"))


def line(arm, values, measure="linear", seeds=(0,)):
    return [record(arm, t, s, **{measure: v + 0.001 * s}) for s in seeds for t, v in values.items()]


# what is refused


def test_unknown_studies_scales_and_values_are_refused_before_anything_runs(tmp_path, capsys):
    for words, said in (
        (["temprature"], "did you mean 'temperature'?"),
        (["temperature", "--scale", "huge"], "it has: smoke, demo, cpu, representative, paper"),
        (["temperature", "--data", "cifar11"], "did you mean 'cifar10'?"),
        (["temperature", "--budget", "2h"], "--budget is for --until-decided"),
        (["temperature", "--gpus", "4"], "are for what --plan reckons"),
        (["temperature", "--plan", "--gpus", "4"], "--gpus needs --throughput"),
    ):
        assert main(["study", *words, "--out", str(tmp_path / "s")]) == 2
        err = capsys.readouterr().err
        assert said in err
        assert err.count("\n") == 1
    assert not (tmp_path / "s/runs").exists() or not any((tmp_path / "s/runs").iterdir())


MINE = Study(
    name="mine",
    doc="A question?",
    base={"monitor": 0},
    arms=(Arm("a", {"loss": "NTXentLoss"}, {TAU: (0.1, 0.5)}),),
    scales={"smoke": Scale("", {"images": 300, "epochs": 1, "batch": 100, "encoder.widths": [8]})},
    claims=(Claim("It rises.", "§1", rules.Trend("knn", "a", 1)),),
)


def mine(**changes):
    return replace(MINE, **changes)


def written(path, changes=""):
    """A study of one's own in a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        '"""A question?"""\n'
        "from isotherm.experiments.study import Arm, Scale, Study\n"
        "SIZE = {'images': 300, 'epochs': 1, 'batch': 100, 'encoder.widths': [8]}\n"
        f"STUDY = Study(base={{'monitor': 0}}, scales={{'smoke': Scale('', SIZE)}}, {changes or 'arms=()'})\n"
    )
    return str(path)


def test_an_impossible_value_or_a_missing_measure_is_named():
    impossible = mine(arms=(Arm("a", {"loss": "NTXentLoss"}, {"loss.tau": (1,)}),))
    with pytest.raises(ValueError, match=r"study mine, a loss.tau = 1: .*no setting 'tau'"):
        expand(impossible, "smoke")
    with pytest.raises(ValueError, match="names the measure 'kn', which nobody takes; did you mean 'knn'"):
        expand(mine(claims=(Claim("x", "", rules.Trend("kn", "a", 1)),)), "smoke")


def test_a_scale_reads_the_papers_own_measure_in_place_of_another(tmp_path):
    arm = Arm("a", {"images": 60, "epochs": 1, "batch": 30, "encoder.widths": [4], "monitor": 0})
    plain, paper = Scale("", {}), Scale("", {}, instead={"knn": "knn200"})
    claim = Claim("Above a half.", "", rules.NoWorse("knn", Where("a"), [Where("a")], 0))
    (tmp_path / "table.csv").write_text("data,measure,a\nCIFAR10,kNN,90\n")
    tables = {"T": PaperTable(tmp_path / "table.csv", [Where("a")], [("kNN", "knn")])}
    study = Study({}, (arm,), {"cpu": plain, "paper": paper}, (claim,), paper=Paper(tables=tables), name="mine")
    small, large = expand(study, "cpu"), expand(study, "paper")
    assert [p.config.key for p in small] == [p.config.key for p in large]  # how a run is judged is not what it is
    assert set(large[0].measure) - set(small[0].measure) == {"200 neighbours"}
    records = Records([record("a", None, 0, knn=0.25, knn200=0.75), record("a", None, 1, knn=0.25)])
    asked = records.reading(paper.instead)
    assert asked.by_seed("a", "knn") == {0: 0.75}  # the second run has not been measured so, and says nothing
    assert asked.unanswered == {"a, seed 1": "has no knn"}
    assert records.by_seed("a", "knn") == {0: 0.25, 1: 0.25}
    whole = Records([record("a", None, 0, knn=0.25, knn200=0.75)])
    for scale, ours in (("cpu", "25"), ("paper", "75")):
        (tmp_path / scale).mkdir()
        report.tell(study, whole, tmp_path / scale, execute.About("mine", scale, "digits", "x"))
        page = (tmp_path / scale / "report.md").read_text()
        assert f"| ours, digits | kNN | {ours}" in page
        assert ("in place of “kNN accuracy”" in page) == (scale == "paper")
        assert "in place of" not in page or "in place of" in (tmp_path / scale / "report.html").read_text()
    for instead, said in (
        ({"knn": "knn20"}, "no measure 'knn20'; did you mean"),
        ({"nn": "knn200"}, "no measure 'nn'"),
    ):
        with pytest.raises(ValueError, match=said):
            check_measures(replace(study, scales={"paper": Scale("", {}, instead=instead)}))


def test_the_papers_own_probes_are_read_at_paper_scale():
    for name, instead in {
        "temperature": {"linear": "linear_wang_liu"},
        "temperature-bank": {"linear": "linear_wang_liu"},
        "cacr": {"linear": "linear_cacr_small", "linear_whole": "linear_cacr_small"},
        **{name: {"linear_whole": "linear_cacr_small"} for name in ("cacr-weights", "cacr-parameters", "cacr-batch")},
        "cacr-rivals": {"linear_whole": "linear_cacr_large"},
        **{name: {"linear": "linear_simclr"} for name in ("generalized", "tau-lambda", "randbit", "digits-on-images")},
    }.items():
        scales = find.load(name).scales
        assert scales["paper"].instead == instead
        assert not scales["cpu"].instead


def points_of(part):
    """Every point that a rule names."""
    if isinstance(part, Where):
        return [part]
    if dataclasses.is_dataclass(part):
        return [where for f in dataclasses.fields(part) for where in points_of(getattr(part, f.name))]
    return [where for item in part for where in points_of(item)] if isinstance(part, list | tuple) else []


@pytest.mark.parametrize("name", [n for n in find.names() if n.startswith(("dystress", "cacr"))])
def test_every_claim_of_dystress_and_cacr_has_a_figure_and_the_runs_it_names(name):
    study = find.load(name)
    for scale in (s for s in study.scales if s != "smoke"):  # that one has some values only
        points = [(p.arm, p.varied.items()) for p in expand(study, scale, seeds=1)]
        for claim in at_scale(study, scale).claims:
            assert claim.figure, claim.claim
            for where in points_of(claim.rule):
                there = [arm for arm, varied in points if arm == where.arm and where.varied.items() <= varied]
                assert there, (scale, claim.claim, where.label)


def test_another_loss_in_one_line_is_another_study(tmp_path):
    study = mine(arms=(Arm("dcl", {"loss": "DCLLoss"}, {TAU: (0.1, 0.5, 0.9)}),))
    carry_out_here(expand(study, "smoke"), tmp_path)
    records = execute.run_points(expand(study, "smoke"), tmp_path)
    assert [r.settings["loss"]["name"] for r in records] == ["DCLLoss"] * 3
    about = execute.About("mine", "smoke", "digits", "isotherm study mine")
    assert len(report.tell(study, records, tmp_path, about)) == 1
    assert "A question?" in (tmp_path / "report.html").read_text()


@pytest.mark.slow
def test_seeds_once_and_only_shape_the_grid():
    study = find.load("temperature")
    once = replace(study, scales={"cpu": replace(study.scales["cpu"], once={TAU: (0.05,)})})
    cpu = expand(once, "cpu")
    assert len({p.config.key for p in cpu}) == len(cpu)
    assert sum(p.varied.get(TAU) == 0.07 for p in cpu) == 6
    assert sum(p.varied.get(TAU) == 0.05 for p in cpu) == 2
    more = expand(once, "cpu", more={"contrastive temperature 0.05": 5, "contrastive temperature 0.07": 2})
    assert len(more) == len(cpu) + 4
    assert {p.varied.get(TAU) for p in expand(study, "smoke")} == {0.07, 0.3, 1.0, None}
    assert {(p.config.data, p.config.steps) for p in expand(study, "cpu", "cifar10")} == {("cifar10", 2000)}


@pytest.fixture(scope="module")
def random_images(tmp_path_factory):
    path = tmp_path_factory.mktemp("images") / "random.npz"
    rng = np.random.default_rng(0)
    arrays = {}
    for split in ("train", "test"):
        arrays[f"{split}_images"] = rng.integers(0, 256, (16, 32, 32, 3), dtype=np.uint8)
        arrays[f"{split}_labels"] = np.arange(16) % 4
    np.savez(path, **arrays)
    return f"arrays:{path}"


@pytest.mark.slow
def test_every_kind_of_run_on_sentences_at_paper_scale_takes_a_step(tmp_path):
    """BERT's place is taken by a small one: the real one is not here."""
    text = pytest.importorskip("isotherm.encoders.text")
    pytest.importorskip("transformers", reason="the extra 'text' is not installed")
    rows = [f"sentence number {i} of {i * i}" for i in range(8)]
    (tmp_path / "corpus.txt").write_text("\n".join(rows))
    text.small(text.train_tokenizer(rows, 300), width=16, layers=2, heads=2).save(tmp_path / "bert")
    kinds = {p.config.loss["name"]: p.config for p in expand(find.load("sentences"), "paper")}
    assert set(kinds) == {"InfoNCELoss", "MACLLoss", "DySTreSSLoss"}
    for name, config in kinds.items():
        assert (config.encoder["pooling"], config.encoder["length"], config.head["name"]) == ("cls", 32, "simcse")
        encoder = {**config.encoder, "name": f"hf:{tmp_path / 'bert'}"}
        small = replace(config, data=f"text:{tmp_path / 'corpus.txt'}", batch=4, encoder=encoder)
        place = Runtime(out=tmp_path / name, quiet=True)
        place.out.mkdir()
        run = Run(fabric_for(small, place), small, place)
        with run.closing():
            value, _ = run.advance(next(iter(run.loader.epoch(0))))
        assert np.isfinite(value)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in find.names() if name not in ("sentences", "image-text")])
def test_every_kind_of_run_at_paper_scale_builds_and_takes_a_step(name, random_images, tmp_path):
    """The paper's network, views, optimizer and loss; the images are few, random and (ImageNet's apart) 32 × 32."""
    data = None if name == "saturation" else random_images
    kinds = {}
    for point in expand(find.load(name), "paper", data):
        kinds.setdefault((point.config.method["name"], point.config.loss.get("name"), point.config.views), point.config)
    for config in kinds.values():
        small = replace(config, batch=4, imbalance="none", images=None, size=32 if config.size is None else config.size)
        if config.digits:  # MNIST may not be here
            small = replace(small, digits=8, digit_source="digits")
        if config.method["name"] == "wmse":  # it wants more items than numbers
            small = replace(small, head={**config.head, "width": 2})
        if "prototypes" in config.method:  # and these more than prototypes
            small = replace(small, method={**config.method, "prototypes": 4})
        place = Runtime(out=tmp_path, quiet=True)
        run = Run(fabric_for(small, place), small, place)
        with run.closing():
            value, _ = run.advance(next(iter(run.loader.epoch(0))))
        assert value is not None
        assert np.isfinite(value)


# real studies


@contextlib.contextmanager
def threads(count):
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    folder = tmp_path_factory.mktemp("smoke") / "temperature"
    words = [sys.executable, "-m", "isotherm.cli", "study", "temperature", "--scale", "smoke", "--out", str(folder)]
    run = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return folder, run


@pytest.mark.slow
def test_a_study_leaves_the_files_the_contract_names(smoke):
    folder, run = smoke
    assert len(read(folder)) == 10
    judged = json.loads((folder / "claims.json").read_text())
    named = {"claim", "paper", "verdict", "held", "effect", "interval", "least", "seeds", "remedy", "evidence"}
    assert all(set(c) == named and c["verdict"] == "undecided" and c["held"] is None for c in judged)  # one seed
    assert len(judged) == len(find.load("temperature").claims)
    page = (folder / "report.html").read_text()
    assert len(page) < 3_000_000
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert len(list((folder / "figures").glob("*.png"))) >= 9
    assert len((folder / "records.csv").read_text().splitlines()) == 11
    assert "report.html" in run.stdout


@pytest.mark.slow
def test_what_is_done_is_not_done_again_and_the_report_is_written_anew(smoke, capsys):
    folder, _ = smoke
    before = {p: p.stat().st_mtime_ns for p in folder.glob("runs/*/measured.json")}
    (folder / "report.html").unlink()
    assert main(["study", "temperature", "--scale", "smoke", "--out", str(folder)]) == 0
    assert {p: p.stat().st_mtime_ns for p in folder.glob("runs/*/measured.json")} == before
    assert (folder / "report.html").exists()
    assert main(["report", str(folder)]) == 0
    assert main(["study", "entropy", "--scale", "smoke", "--out", str(folder)]) == 2
    assert "holds another study" in capsys.readouterr().err
    assert main(["report", str(folder / "runs")]) == 2


@pytest.fixture
def few_sentences(tmp_path, monkeypatch):
    """ISOTHERM_DATA with sixty pairs of every file of SentEval's: a run is judged on all the tasks, in a second."""
    pytest.importorskip("transformers", reason="the extra 'text' is not installed")
    data, root = Path(os.environ.get("ISOTHERM_DATA", "nowhere")), tmp_path / "data"
    if not ((data / "senteval").is_dir() and (data / "text/sentences.txt").is_file()):
        pytest.skip("ISOTHERM_DATA does not hold senteval and text/sentences.txt")
    for part in ("STS", "SICK"):
        for path in (data / "senteval" / part).rglob("*.*"):
            if path.is_file():
                copy = root / path.relative_to(data)
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:60]))
    (root / "text").symlink_to(data / "text")
    monkeypatch.setenv("ISOTHERM_DATA", str(root))


@pytest.fixture
def few_pairs(tmp_path, monkeypatch):
    """ISOTHERM_DATA with bars in place of Flickr8k's photos, and of Imagenette's."""
    pytest.importorskip("transformers", reason="the extra 'text' is not installed")
    small_pairs = pytest.importorskip("small_pairs")
    items = list(small_pairs.rows())
    for split, part in {"train": items, "validation": items[16:], "test": items[:16]}.items():
        for name in ("flickr8k", "imagenette"):
            folder = tmp_path / "data" / name
            folder.mkdir(parents=True, exist_ok=True)
            small_pairs.as_parquet(folder / f"{split}.parquet", part, labelled=name == "imagenette")
    monkeypatch.setenv("ISOTHERM_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # the user may have Imagenette


def test_zero_shot_data_that_is_missing_is_told_before_anything_trains(few_pairs, tmp_path):
    points = expand(find.load("image-text"), "smoke")
    plan.check_data(points)
    imagenette = tmp_path / "data/imagenette"
    imagenette.rename(tmp_path / "elsewhere")
    with pytest.raises(FileNotFoundError, match="imagenette is not in"):
        plan.check_data(points)
    for split in ("train", "val"):
        folder = tmp_path / "data/imagenet" / split / "n01440764"
        folder.mkdir(parents=True)
        (folder / "a.JPEG").write_bytes(b"")
    with pytest.raises(ValueError, match=r"imagenet: its classes are numbers. Write .* to .*imagenet/class_names.txt"):
        check_zero_shot("imagenet")
    (tmp_path / "data/imagenet/class_names.txt").write_text("tench\ngoldfish\n")
    check_zero_shot("imagenet")


def test_what_a_study_measures_of_pairs_is_what_evaluate_says(few_pairs, tmp_path):
    """Retrieval, zero-shot; and the validation part is another than the one judged on."""
    study = find.load("image-text")
    point = next(p for p in expand(study, "smoke") if p.arm == "CACR, three captions")
    measured = carry_out(point.config, tmp_path / "run", point.measure)
    values = measured.measures
    assert {name for part in (*study.claims, *study.figures) for name in part.measures} <= set(values)
    options = assessment.Options(zeroshot=("imagenette",))
    said = assess(tmp_path / "run", ("retrieval", "zeroshot"), options)
    assert values["mean_recall"] == said.retrieval.mean_recall
    assert values["zeroshot_imagenette"] == said.scores["zero-shot, imagenette"].accuracy
    run = runs.open_pairs(tmp_path / "run")
    part = pair_subject(run.network, pairs_of(run.config, "validation", 16), run.recipe)
    assert values["validation_recall"] == part.retrieval.mean_recall
    assert len(measured.fingerprint.split("-")) == 2  # of what it learnt from, and of what it was judged on
    kept = np.load(tmp_path / "run" / EMBEDDING)
    assert kept["z"].shape == (32, 8)
    assert kept["labels"].tolist() == [0] * 16 + [1] * 16
    assert carry_out(point.config, tmp_path / "run", point.measure) == measured  # it is done


@pytest.mark.slow
def test_every_kind_of_run_on_pairs_at_paper_scale_takes_a_step(tmp_path):
    """App. C.3 on a few drawn images; the vocabulary is what they have."""
    pytest.importorskip("transformers", reason="the extra 'text' is not installed")
    small_pairs = pytest.importorskip("small_pairs")
    (tmp_path / "cc3m").mkdir()
    data = small_pairs.as_shards(tmp_path / "cc3m", list(small_pairs.rows(1))[:8])
    (data / "train-001.tar").rename(data / "validation-000.tar")
    kinds = {p.arm: p.config for p in expand(find.load("image-text"), "paper", f"shards:{data}")}
    assert set(kinds) == {"CLIP", "CLIP, learnt temperature", "SigLIP", "DySTreSS", "CACR"}
    for name, config in kinds.items():
        assert (config.batch, config.epochs, config.lr, config.encoder.name) == (2048, 32, 5e-4, "resnet50")
        small = replace(config, batch=4, precision="32", text_encoder={**config.text_encoder, "vocabulary": 300})
        place = Runtime(out=tmp_path / name, quiet=True)
        place.out.mkdir()
        run = Run(fabric_for(small, place), small, place)
        with run.closing():
            value, _ = run.advance(next(iter(run.loader.epoch(0))))
        assert np.isfinite(value)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in find.names() if n != "temperature"])
def test_every_other_study_runs_at_smoke_scale(name, request, tmp_path):
    if name in ("sentences", "image-text"):
        request.getfixturevalue("few_sentences" if name == "sentences" else "few_pairs")
    carry_out_here(expand(find.load(name), "smoke"), tmp_path / "s")
    assert main(["study", name, "--scale", "smoke", "--out", str(tmp_path / "s")]) == 0
    judged = json.loads((tmp_path / "s/claims.json").read_text())
    if name == "entropy":
        assert all(c["held"] for c in judged)


@pytest.mark.slow
def test_a_killed_worker_is_replaced_and_its_run_tried_again(tmp_path):
    study = mine()
    points = expand(study, "smoke", seeds=2)
    killed = []

    def show(progress):
        if progress.running and not killed:
            mine = ["pgrep", "-P", str(os.getpid()), "-f", "spawn_main"]
            children = subprocess.run(mine, capture_output=True, text=True, check=False)
            if children.stdout.split():
                os.kill(int(children.stdout.split()[0]), signal.SIGKILL)
                killed.append(progress)

    records = execute.run_points(points, tmp_path, workers=2, show=show)
    assert killed[0].retried == 1
    assert len(records) == len(points)


@pytest.mark.slow
def test_a_run_that_is_left_is_made_as_it_would_have_been_beside_the_others(tmp_path):
    """Alone, its worker would have more threads, and round otherwise."""
    points = expand(mine(), "smoke", seeds=1)[:2]
    assert len(points) == 2
    execute.run_points(points, tmp_path, workers=2)
    left = tmp_path / "runs" / points[0].config.key
    first = {name: (left / name).read_bytes() for name in ("encoder.safetensors", EMBEDDING)}
    measured = done(left).measures
    shutil.rmtree(left)
    (tmp_path / "records.jsonl").unlink()
    execute.run_points(points, tmp_path, workers=2)
    assert {name: (left / name).read_bytes() for name in first} == first
    assert done(left).measures == measured


@pytest.mark.slow
def test_a_killed_runner_goes_on_where_it_was(tmp_path):
    arms = 'arms=(Arm("a", {"loss": "NTXentLoss", "epochs": 8}, {"loss.temperature": (0.1, 0.3, 0.5, 0.9)}),)'
    study = written(tmp_path / "killed.py", arms)
    folder, whole = tmp_path / "t", tmp_path / "whole"
    words = ["study", study, "--scale", "smoke", "--seeds", "2", "--out", str(folder), "--workers", "2"]
    line = [sys.executable, "-m", "isotherm.cli", *words]
    process = subprocess.Popen(line, env=ENVIRONMENT, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while len(list(folder.glob("runs/*/measured.json"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.kill()
    process.wait()
    time.sleep(1)
    finished = {p: p.stat().st_mtime_ns for p in folder.glob("runs/*/measured.json")}
    assert 2 <= len(finished) < 8
    assert main(words) == 0
    assert all(p.stat().st_mtime_ns == t for p, t in finished.items())
    points = expand(find.load(study), "smoke", seeds=2)
    with threads(max(1, (os.cpu_count() or 1) // 2)):  # as many as a worker has
        carry_out_here(points, whole)
    ours = {r.key: dict(r.measures) for r in read(folder)}
    assert ours == {p.config.key: dict(done(whole / "runs" / p.config.key).measures) for p in points}
    assert len(ours) == 8


def test_workers_and_a_cluster_exclude_each_other(capsys):
    assert main(["study", "entropy", "--scale", "smoke", "--ray", "local", "--workers", "2"]) == 2
    assert "Give one of them" in capsys.readouterr().err


def test_an_address_where_nobody_listens_is_refused_at_once(tmp_path):
    pytest.importorskip("ray", reason="extra 'ray' is not installed")
    study = mine()
    with pytest.raises(ValueError, match=r"no Ray cluster at '127\.0\.0\.1:1'"):
        execute.run_points(expand(study, "smoke"), tmp_path, ray="127.0.0.1:1")


@pytest.mark.slow
def test_a_second_call_keeps_the_seeds_of_the_first(tmp_path):
    one = written(tmp_path / "one.py", 'arms=(Arm("a", {"loss": "NTXentLoss"}),)')
    words = ["study", one, "--scale", "smoke", "--out", str(tmp_path / "s"), "--workers", "1"]
    carry_out_here(expand(find.load(one), "smoke", seeds=2), tmp_path / "s")
    assert main([*words, "--seeds", "2"]) == 0
    assert main(words) == 0
    assert len(read(tmp_path / "s")) == 2
