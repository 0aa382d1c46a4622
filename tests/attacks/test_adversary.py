"""What an adversary found by reading (2026-11-18): results that were wrong without a word, files that were lost."""

import io
import json
import os
import resource
import shutil
import tarfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from sklearn.neighbors import NearestNeighbors

from isotherm import cached, files, inspect, measures
from isotherm.cli import main
from isotherm.data.fingerprints import of_images, same
from isotherm.data.pairs import load_pairs
from isotherm.data.sets import load
from isotherm.data.sharding import shard
from isotherm.encoders import encoder
from isotherm.evaluate.encode import Encoded
from isotherm.experiments.claims.decision import at_least, decide, exact, together
from isotherm.experiments.comparing import Difference
from isotherm.measures.catalogue import measure
from isotherm.measures.retrieval import retrieval
from isotherm.nn import NTXentLoss
from isotherm.probes.extract import parts
from isotherm.probes.knn import _voters
from isotherm.probes.linear import fit
from isotherm.temperature import Learnable

COLOURS = {"ant": (255, 0, 0), "bee": (0, 255, 0), "cat": (0, 0, 255)}


@pytest.fixture(autouse=True)
def own_root(tmp_path, monkeypatch):
    monkeypatch.setenv("ISOTHERM_DATA", str(tmp_path / "root"))
    monkeypatch.chdir(tmp_path)


def picture(name, seed):
    noise = np.random.default_rng(seed).normal(0, 20, (16, 16, 3))
    return Image.fromarray(np.clip(0.7 * np.array(COLOURS[name]) + noise, 0, 255).astype(np.uint8))


def put(folder, names, n):
    for name in names:
        (folder / name).mkdir(parents=True)
        for i in range(n):
            picture(name, i).save(folder / name / f"{i}.png")


def tar(path, keys, **parts):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as archive:
        for i, key in enumerate(keys):
            image = io.BytesIO()
            picture(key.partition("/")[0] if "/" in key else "ant", i).save(image, "PNG")
            for ending, content in {"png": image.getvalue(), **parts}.items():
                member = tarfile.TarInfo(f"{key}.{ending}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))


# --- one number for a class in every part


def test_a_class_has_one_number_in_all_parts_of_a_folder(tmp_path, capsys):
    put(tmp_path / "fold/train", ("ant", "bee", "cat"), 20)
    put(tmp_path / "fold/test", ("bee", "cat"), 10)
    (tmp_path / "fold/test/dog").mkdir()
    picture("ant", 0).save(tmp_path / "fold/test/dog/0.png")
    test = load(f"folder:{tmp_path}/fold", "test", size=16)
    assert test.classes == ("ant", "bee", "cat", "dog")
    assert test.labels.tolist() == [1] * 10 + [2] * 10 + [3]
    train = ["train", "--data", "folder:fold", "--data.size", "16", "--steps", "3", "--batch", "20"]
    assert main([*train, "--encoder.widths", "[8]", "--out", "r"]) == 0
    capsys.readouterr()
    for more in ([], ["--on", "folder:fold"]):
        assert main(["evaluate", "r", "--probe", "knn", *more]) == 0
        assert "100.0" in capsys.readouterr().out


def test_a_class_has_one_number_in_all_parts_of_shards_and_lists(tmp_path):
    tar(tmp_path / "s/train-0.tar", [f"{c}/{i}" for c in COLOURS for i in range(2)])
    tar(tmp_path / "s/test-0.tar", [f"{c}/{i}" for c in ("bee", "cat") for i in range(2)])
    test = load(f"shards:{tmp_path}/s", "test", size=16)
    assert (test.classes, test.labels.tolist()) == (("ant", "bee", "cat"), [1, 1, 2, 2])
    put(tmp_path / "l/train", COLOURS, 1)
    put(tmp_path / "l/test", COLOURS, 1)
    (tmp_path / "l/train.txt").write_text("".join(f"train/{c}/0.png\n" for c in COLOURS))
    (tmp_path / "l/test.txt").write_text("test/cat/0.png\n")
    listed = load(f"folder:{tmp_path}/l", "test", list="{split}.txt", size=16)
    assert (listed.classes, listed.labels.tolist()) == (("ant", "bee", "cat"), [2])


def test_a_part_that_is_there_and_damaged_is_not_replaced_by_another(tmp_path, capsys):
    for part in ("train", "val", "test"):
        put(tmp_path / "fold" / part, ("bee", "cat"), 10)
    train = ["train", "--data", "folder:fold", "--data.size", "16", "--steps", "2", "--batch", "20"]
    assert main([*train, "--encoder.widths", "[8]", "--out", "r"]) == 0
    (tmp_path / "fold/test/ant").mkdir()
    capsys.readouterr()
    assert main(["evaluate", "r", "--on", "folder:fold", "--probe", "knn"]) == 2
    assert "test/ant holds no images" in capsys.readouterr().err


def test_shards_of_captions_of_one_part_are_not_another_s(tmp_path):
    tar(tmp_path / "a/cc3m-train-0000.tar", ["t0", "t1", "t2"], txt=b"an ant")
    tar(tmp_path / "a/cc3m-validation-0000.tar", ["v0", "v1"], txt=b"an ant")
    assert len(load_pairs(f"shards:{tmp_path}/a", size=16)) == 3
    assert len(load_pairs(f"shards:{tmp_path}/a", "val", size=16)) == 2
    tar(tmp_path / "b/photos-0000.tar", ["t0"], txt=b"an ant")
    tar(tmp_path / "b/test-0000.tar", ["v0"], txt=b"an ant")
    with pytest.raises(ValueError, match="has no split 'train'"):
        load_pairs(f"shards:{tmp_path}/b", size=16)
    for i in range(2):
        tar(tmp_path / f"c/train-{i}.tar", ["0001", "0002"], txt=b"an ant")
    assert len(load_pairs(f"shards:{tmp_path}/c", size=16).ids.unique()) == 4


# --- files that were lost


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("adversary") / "r"
    small = ["--data", "digits", "--images", "100", "--steps", "2", "--batch", "50", "--encoder.widths", "[8]"]
    assert main(["train", *small, "--out", str(out)]) == 0
    return out


def test_a_model_is_replaced_only_by_one_that_is_whole(run, tmp_path, capsys):
    assert main(["push", str(run), "model", "--map", "none"]) == 0
    before = {p.name: p.read_bytes() for p in (tmp_path / "model").iterdir()}
    assert main(["push", "typo", "model", "--replace", "--map", "none"]) == 2
    assert {p.name: p.read_bytes() for p in (tmp_path / "model").iterdir()} == before
    (tmp_path / "model/README.md").write_text("another")
    assert main(["push", str(run), "model", "--replace", "--map", "none"]) == 0
    assert (tmp_path / "model/README.md").read_bytes() == before["README.md"]
    (tmp_path / "model/NOTES.md").write_text("mine")
    assert main(["push", str(run), "model", "--replace", "--map", "none"]) == 2
    assert (tmp_path / "model/NOTES.md").read_text() == "mine"
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_an_export_leaves_the_card_of_a_run(run, capsys):
    card = (run / "encoder.json").read_bytes()
    assert main(["export", str(run), "--to", "onnx", "--out", str(run / "encoder.onnx")]) == 2
    assert "encoder.json" in capsys.readouterr().err
    assert (run / "encoder.json").read_bytes() == card


def test_numbers_and_pages_replace_numbers_and_pages_alone(run, tmp_path, capsys):
    rng = np.random.default_rng(0)
    np.save("z.npy", rng.normal(size=(60, 4)))
    np.save("y.npy", np.arange(60) % 3)
    np.savez("t.npz", texts=rng.normal(size=(60, 4)))
    (tmp_path / "notes.txt").write_text("mine")
    kept = {p: p.read_bytes() for p in (*tmp_path.glob("*.np?"), tmp_path / "notes.txt", *run.iterdir()) if p.is_file()}
    result = run / "result.json"
    for words in (
        ["inspect", "z.npy", "--labels", "y.npy", "--json", "y.npy"],
        ["inspect", "z.npy", "--labels", "y.npy", "--html", "y.npy"],
        ["inspect", "z.npy", "--pairs", "t.npz:texts", "--json", "t.npz"],
        ["inspect", "z.npy", "--json", "notes.txt"],
        ["compare", "z.npy", "z.npy", "--labels", "y.npy", "--json", "y.npy"],
        ["evaluate", str(run), "--json", str(result)],
        ["evaluate", str(run), "--json", str(run / "config.yaml")],
        ["inspect", "z.npy", "--html", "a.html", "--json", f"../{tmp_path.name}/a.html"],
    ):
        assert main(words) == 2, words
    assert {p: p.read_bytes() for p in kept} == kept
    for _ in range(2):  # one's own output may be written again
        assert main(["inspect", "z.npy", "--html", "a.html", "--json", "a.json", "--map", "none"]) == 0


def test_a_name_with_a_line_separator_does_not_break_records(tmp_path, capsys):
    separated = f"m{chr(0x2028)}n.py"
    (tmp_path / separated).write_text("from isotherm.nn import NTXentLoss\n\n\nclass MyLoss(NTXentLoss):\n    pass\n")
    small = ["--data", "digits", "--images", "100", "--batch", "50", "--encoder.widths", "[8]", "--steps", "2"]
    grid = ["grid", "--vary", f"loss=./{separated}:MyLoss", *small, "--seeds", "1", "--workers", "1", "--out", "g"]
    assert main(grid) == 0
    assert main(["report", "g", "--trust-code"]) == 0


# --- told as one, or of another time


def test_two_losses_of_one_name_are_two_rows(tmp_path, capsys):
    for folder, tau in (("la", 0.2), ("lb", 5.0)):
        (tmp_path / folder).mkdir()
        loss = f"class MyLoss(NTXentLoss):\n    def __init__(self):\n        super().__init__({tau})\n"
        (tmp_path / folder / "mine.py").write_text(f"from isotherm.nn import NTXentLoss\n\n\n{loss}")
    small = ["--data", "digits", "--images", "100", "--batch", "50", "--encoder.widths", "[8]", "--steps", "2"]
    vary = "loss=./la/mine.py:MyLoss,./lb/mine.py:MyLoss"
    assert main(["grid", "--vary", vary, *small, "--seeds", "1", "--workers", "1", "--out", "g"]) == 0
    text = (tmp_path / "g/report.md").read_text()
    assert "./la/mine.py:MyLoss" in text
    assert "./lb/mine.py:MyLoss" in text


SUITE = (
    "name: own\nsets:\n  - {name: fold, data: 'folder:fold', metric: accuracy, shots: 5}\nprobes: [knn]\nseeds: [0]\n"
)


def test_what_a_suite_kept_is_of_the_data_at_hand(run, tmp_path, capsys):
    for part in ("train", "test"):
        put(tmp_path / "fold" / part, COLOURS, 10)
    (tmp_path / "s.yaml").write_text(SUITE)
    said = []
    for _ in range(2):
        assert main(["evaluate", str(run), "--suite", "s.yaml", "--out", "kept", "--json", "s.json"]) == 0
        said.append((tmp_path / "s.json").read_text())
        for a, b in (("ant", "x"), ("bee", "ant"), ("x", "bee")):
            (tmp_path / "fold/test" / a).rename(tmp_path / "fold/test" / b)
    assert said[0] != said[1]


def test_other_shots_are_not_compared(run, tmp_path, capsys):
    for part in ("train", "test"):
        put(tmp_path / "fold" / part, COLOURS, 10)
    (tmp_path / "s.yaml").write_text(SUITE)
    for shots in ("1", "5"):
        words = ["evaluate", str(run), "--suite", "s.yaml", "--shots", shots, "--json", f"{shots}.json"]
        assert main(words) == 0
    assert main(["compare", "--suite", "s.yaml", "1.json", "5.json"]) == 2
    assert "nothing in common" in capsys.readouterr().err


# --- tables


def test_tables_are_read_as_they_are_meant(tmp_path, capsys):
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(60, 4)), np.arange(60) % 3
    rows = [",".join(map(str, row)) for row in z.tolist()]
    (tmp_path / "pandas.csv").write_text("\n".join(["0,1,2,3", *rows]) + "\n")
    (tmp_path / "mark.csv").write_text("\n".join(rows) + "\n", encoding="utf-8-sig")
    labelled = [f"{float(label)},{row}" for label, row in zip(y, rows, strict=True)]
    (tmp_path / "labelled.csv").write_text("\n".join(["label,a,b,c,d", *labelled]) + "\n", encoding="utf-8-sig")
    (tmp_path / "y.txt").write_text("".join(f"class{label}\n" for label in y), encoding="utf-8-sig")
    for name in ("pandas.csv", "mark.csv", "labelled.csv"):
        read = inspect.read(tmp_path / name)
        assert torch.allclose(read.z, torch.from_numpy(z).float()), name
    assert read.classes == ("0", "1", "2")
    assert inspect.read(tmp_path / "mark.csv", str(tmp_path / "y.txt")).classes == ("class0", "class1", "class2")
    (tmp_path / "twice.csv").write_text("a,b,a,b\n" + "\n".join(rows) + "\n")
    with pytest.raises(ValueError, match="more than one column 'a'"):
        inspect.read(tmp_path / "twice.csv")
    minus = [f"{label}.0,{row}" for label, row in zip(y - 1, rows, strict=True)]
    (tmp_path / "minus.csv").write_text("\n".join(["label,a,b,c,d", *minus]) + "\n")
    read = inspect.read(tmp_path / "minus.csv")
    assert (read.classes, int(read.labels.min())) == (("0", "1"), -1)
    np.save("large.npy", y * 1e30)
    with pytest.raises(ValueError, match="beyond 2⁵³"):
        inspect.read(tmp_path / "mark.csv", "large.npy")


def test_parquet_rows_keep_their_numbers(tmp_path):
    ragged = [[1.0, 2.0], [3.0], [4.0, 5.0, 6.0]] * 20
    pq.write_table(pa.table({"z": ragged}), tmp_path / "ragged.parquet")
    with pytest.raises(ValueError, match="are not all 2 wide"):
        inspect.read(tmp_path / "ragged.parquet")
    z = np.random.default_rng(0).normal(size=(60, 4)).tolist()
    labels = [None, *((1 << 60) + i % 4 for i in range(59))]
    pq.write_table(pa.table({"z": z, "label": pa.array(labels, pa.int64())}), tmp_path / "large.parquet")
    assert len(inspect.read(tmp_path / "large.parquet", "label", drop=True).classes) == 4


def test_a_long_label_takes_its_own_room(tmp_path):
    np.save("z.npy", np.random.default_rng(0).normal(size=(3000, 4)))
    (tmp_path / "y.txt").write_text("".join(f"{i % 5}\n" for i in range(2999)) + "x" * 50_000 + "\n")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert len(inspect.read("z.npy", "y.txt").classes) == 6
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000


def test_a_sample_says_that_it_is_one(tmp_path, capsys):
    rng = np.random.default_rng(0)
    np.save("i.npy", rng.normal(size=(600, 8)))
    np.save("t.npy", rng.normal(size=(600, 8)))
    for words in (["i.npy", "--pairs", "t.npy"], ["i.npy"]):
        assert main(["inspect", *words, "--sample", "300"]) == 0
        assert "A sample" in capsys.readouterr().out
    np.save("j.npy", 5 + rng.normal(size=(1200, 8)))
    assert main(["compare", "i.npy", "j.npy", "--sample", "300"]) == 0
    assert inspect.compare(["i.npy", "j.npy"], inspect.Reading(sample=300)).verdict.level == "look"


def test_lines_end_where_the_text_says(run, tmp_path):
    (tmp_path / "l.txt").write_text("one\x0ctwo\nthree" + chr(0x2028) + "four\nfive" + chr(0x85) + "six\n")
    assert len(files.lines(tmp_path / "l.txt")) == 3


# --- without an end, or a traceback


def test_a_pipe_is_not_waited_for(run, tmp_path, capsys):
    for name in ("p.npy", "p.csv", "p.yaml"):
        os.mkfifo(tmp_path / name)
    np.save("z.npy", np.random.default_rng(0).normal(size=(60, 4)))
    shutil.copytree(run, tmp_path / "piped")
    (tmp_path / "piped/result.json").unlink()
    os.mkfifo(tmp_path / "piped/result.json")
    for words in (
        ["inspect", "p.npy"],
        ["inspect", "p.csv"],
        ["inspect", "z.npy", "--labels", "p.csv"],
        ["train", "--config", "p.yaml", "--out", "x"],
        ["compare", "piped", str(run)],
    ):
        assert main(words) == 2, words
    assert main(["runs", "."]) == 0


def test_options_that_would_do_nothing_are_refused(run, capsys):
    for words in (["--shots", "20"], ["--size", "99"], ["--epochs", "1"], ["--zeroshot", "none"], ["--prompt", "a {}"]):
        assert main(["evaluate", str(run), *words]) == 2, words
    assert main(["compare", str(run), str(run), "--shots", "3"]) == 2


def test_damaged_results_of_a_suite_are_refused(tmp_path, capsys):
    whole = {"set": "a", "probe": "knn", "metric": "accuracy", "values": [0.5], "seeds": [0], "asked": "x"}
    for changed in ({"values": [], "seeds": []}, {"metric": "bogus"}, {"right": ["AA=="], "n": 1_500_000_000}):
        said = {"suite": "s", "model": "m", "unfinished": "", "notes": [], "skipped": [], "measured": [whole | changed]}
        (tmp_path / "h.json").write_text(json.dumps(said))
        assert main(["compare", "--suite", "elevater", "h.json", "h.json"]) == 2, changed


def test_odd_looks_seeds_and_measures_of_a_study_are_refused_or_left_alone(tmp_path, capsys):
    small = ["--data", "digits", "--images", "100", "--batch", "50", "--encoder.widths", "[8]", "--steps", "2"]
    assert main(["grid", "--vary", "lr=0.1", *small, "--seeds", "1", "--workers", "1", "--out", "g"]) == 0
    again = ["study", "g/grid_study.py", "--scale", "cpu", "--out", "g", "--workers", "1"]
    (tmp_path / "g/looks.json").write_text('{"seeds": {}, "looks": [{"runs": 1, "seconds": 1, "verdicts": [1]}]}')
    assert main(["report", "g", "--trust-code"]) == 2
    (tmp_path / "g/looks.json").write_text('{"seeds": {"runs, lr 0.1": 1000000000}, "looks": []}')
    assert main(again) == 2
    assert "looks.json is damaged" in capsys.readouterr().err
    (tmp_path / "g/looks.json").unlink()
    about = json.loads((tmp_path / "g/study.json").read_text())
    (tmp_path / "g/study.json").write_text(json.dumps(about | {"seeds": 10**9}))
    capsys.readouterr()
    assert main(again) == 2
    assert "10,000 are the most" in capsys.readouterr().err
    (tmp_path / "g/study.json").write_text(json.dumps(about))
    (measured,) = tmp_path.glob("g/runs/*/measured.json")
    measured.write_text(json.dumps(json.loads(measured.read_text()) | {"measures": []}))
    (tmp_path / "g/records.jsonl").unlink()
    assert main(again) == 0
    (config,) = tmp_path.glob("g/runs/*/config.yaml")
    config.write_text(config.read_text().replace("seed: 0", "seed: abc"))
    assert main(["runs", "g", "--sort", "seed"]) == 0


# --- the gradient cache


def test_a_cached_loss_learns_all_that_it_knows_or_is_refused():
    loss, encoder = NTXentLoss(temperature=Learnable(0.5)), torch.nn.Linear(6, 4)
    a, b = torch.randn(8, 6), torch.randn(8, 6)

    def doubled(p, q):
        return 2 * loss(p, q)

    with pytest.raises(ValueError, match="module=loss"):
        cached(doubled, encoder, chunk=4)(a, b)
    cached(doubled, encoder, chunk=4, module=loss)(a, b).backward()
    assert all(p.grad is not None for p in (*loss.parameters(), *encoder.parameters()))


def test_a_cached_pass_counts_each_chunk_once():
    encoder = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.BatchNorm1d(4))
    cached(NTXentLoss(), encoder, chunk=4)(torch.randn(8, 6), torch.randn(8, 6)).backward()
    assert int(encoder[1].num_batches_tracked) == 4


def test_one_point_finds_nothing_and_measures_take_arrays():
    point = torch.nn.functional.normalize(torch.ones(50, 64) * 0.3, dim=1)
    found = retrieval(point, point, torch.arange(50))
    assert found.image_to_text.recalls[1] == 0
    z, y = np.random.default_rng(0).normal(size=(20, 4)), np.arange(20) % 2
    assert measures.interclass_uniformity(z, y) < 0


# --- a second adversary, on the same day


def test_a_list_of_the_training_part_alone_numbers_the_others_too(tmp_path):
    for part in ("train", "test"):
        put(tmp_path / "f" / part, ("ant", "bee"), 2)
    (tmp_path / "f/train.txt").write_text("train/bee/0.png 0\ntrain/ant/0.png 1\n")
    train, test = (load(f"folder:{tmp_path}/f", part, list="train.txt", size=16) for part in ("train", "test"))
    assert train.classes == test.classes == ("bee", "ant")
    assert test.labels.tolist() == [1, 1, 0, 0]


def as_parquet(path, names, labels, kind=None):
    image = io.BytesIO()
    picture("ant", 0).save(image, "PNG")
    path.parent.mkdir(parents=True, exist_ok=True)
    features = {"image": {"_type": "Image"}, "label": {"_type": "ClassLabel", "names": names}}
    about = {b"huggingface": json.dumps({"info": {"features": features}}).encode()}
    columns = {"image": [{"bytes": image.getvalue(), "path": None}] * len(labels), "label": pa.array(labels, kind)}
    pq.write_table(pa.table(columns).replace_schema_metadata(about), path)


def test_parquet_files_that_name_labels_otherwise_are_refused(tmp_path):
    as_parquet(tmp_path / "p/train.parquet", ["cat", "dog"], [0, 1])
    as_parquet(tmp_path / "p/test.parquet", ["dog", "cat"], [0, 1])
    assert load(f"parquet:{tmp_path}/p", "train").classes == ("cat", "dog")
    with pytest.raises(ValueError, match="in different orders"):
        load(f"parquet:{tmp_path}/p", "test")
    as_parquet(tmp_path / "q/train-0.parquet", ["cat", "dog"], [0, 1])
    as_parquet(tmp_path / "q/train-1.parquet", ["dog", "cat"], [0, 1])
    with pytest.raises(ValueError, match="in different orders"):
        load(f"parquet:{tmp_path}/q", "train")
    as_parquet(tmp_path / "u/train.parquet", ["cat", "dog"], [0, 1, None], pa.uint8())
    assert load(f"parquet:{tmp_path}/u", "train").labels.tolist() == [0, 1, -1]


SMALL_RUNS = ["--data", "digits", "--images", "100", "--epochs", "1", "--batch", "50", "--encoder.widths", "[8]"]


def test_robustness_tells_losses_and_seeds_apart(tmp_path, capsys):
    (tmp_path / "x").mkdir()
    for name, tau in (("x/y.py", 0.1), ("x-y.py", 5.0)):
        loss = f"class L(NTXentLoss):\n    def __init__(self):\n        super().__init__({tau})\n"
        (tmp_path / name).write_text(f"from isotherm.nn import NTXentLoss\n\n\n{loss}")
    words = ["robustness", *SMALL_RUNS, "--imbalance", "exponential", "--probe", "knn", "--out", "rob"]
    assert main([*words, "--loss", "./x/y.py:L,./x-y.py:L", "--seeds", "0"]) == 0
    assert len(list((tmp_path / "rob/runs").iterdir())) == 4
    capsys.readouterr()
    assert main([*words, "--seeds", "0,1,1"]) == 2
    assert "names one twice" in capsys.readouterr().err


def test_robustness_asks_for_the_label_that_was_named(tmp_path, capsys):
    """One colour a coarse class: only by the label that was named can everything be right."""
    for part in ("train", "test"):
        for name, coarse in (("ant", 0), ("bee", 1)):
            for i in range(10):
                (tmp_path / "c" / part).mkdir(parents=True, exist_ok=True)
                picture(name, i).save(tmp_path / "c" / part / f"{coarse}-{i}.png")
        files_there = sorted((tmp_path / "c" / part).iterdir())
        images = [{"bytes": file.read_bytes(), "path": None} for file in files_there]
        columns = {"image": images, "label": [0, 1] * 10, "coarse_label": [int(f.name[0]) for f in files_there]}
        (tmp_path / "p").mkdir(exist_ok=True)
        names = {c: {"_type": "ClassLabel", "names": ["a", "b"]} for c in ("label", "coarse_label")}
        about = {b"huggingface": json.dumps({"info": {"features": names}}).encode()}
        pq.write_table(pa.table(columns).replace_schema_metadata(about), tmp_path / f"p/{part}.parquet")
    words = ["robustness", "--data", "parquet:p", "--data.label", "coarse_label", "--epochs", "1", "--batch", "10"]
    words += ["--encoder.widths", "[8]", "--imbalance", "linear", "--seeds", "0", "--probe", "knn", "--out", "rob"]
    assert main([*words, "--json", "rob.json"]) == 0
    assert json.loads((tmp_path / "rob.json").read_text())["rows"][0]["regular"] == [1.0]
    assert main([*words, "--randbit", "2"]) == 2


def test_a_rate_does_not_turn_negative(capsys):
    words = ["train", *SMALL_RUNS, "--schedule", "step", "--milestones", "[0]", "--factor", "-1", "--out", "x"]
    assert main(words) == 2
    assert "factor" in capsys.readouterr().err


# --- what was found open (2026-11-18, evening)


def test_embeddings_of_another_model_are_not_searched(run, tmp_path, capsys):
    put(tmp_path / "photos", ["ant", "bee"], 2)
    words = ["train", *SMALL_RUNS, "--seed", "1", "--out", "other"]
    assert main(words) == 0
    assert main(["encode", "other", "photos", "--out", "e.npz"]) == 0
    asked = ["photos/ant/0.png", "--images", "e.npz"]
    assert main(["search", "other", *asked]) == 0
    capsys.readouterr()
    assert main(["search", str(run), *asked]) == 2
    assert "another model" in capsys.readouterr().err


def test_a_mistyped_image_is_no_sentence(run, tmp_path, capsys):
    put(tmp_path / "photos", ["ant"], 2)
    assert main(["search", str(run), "photos/ant/9.png", "--images", "photos"]) == 2
    assert "there is no image photos/ant/9.png" in capsys.readouterr().err


def test_images_of_another_kind_than_learnt_from_are_refused(tmp_path, capsys):
    rng = np.random.default_rng(0)
    for part in ("train", "test"):
        (tmp_path / "wide").mkdir(exist_ok=True)
        pixels, labels = rng.integers(0, 256, (60, 12, 20), np.uint8), np.arange(60) % 3
        np.savez(tmp_path / f"wide/{part}.npz", images=pixels, labels=labels)
    small = ["--epochs", "1", "--batch", "30", "--encoder.widths", "[8]", "--monitor", "0"]
    assert main(["train", "--data", "arrays:wide", "--recipe", "none", *small, "--out", "w"]) == 0
    assert main(["evaluate", "w", "--probe", "knn"]) == 0
    capsys.readouterr()
    assert main(["embed", "w", "arrays:wide", "--out", "z.npz"]) == 2
    assert "12 × 20" in capsys.readouterr().err
    assert main(["evaluate", "w", "--on", "digits", "--size", "12", "--probe", "knn"]) == 0
    assert main(["train", "--data", "digits", "--randbit", "2", "--images", "60", *small, "--out", "bits"]) == 0
    put(tmp_path / "photos", ["ant"], 2)
    capsys.readouterr()
    assert main(["encode", "bits", "photos", "--out", "z.npz"]) == 2
    assert "2 RandBit planes" in capsys.readouterr().err


def test_nearest_by_distance_beside_one_huge_feature():
    """Within each half of the items all that differs is what float32 loses beside the first feature's square."""
    g = torch.Generator().manual_seed(0)
    x = torch.randn(400, 8, generator=g)
    x[:, 0] = 1e6 * (torch.arange(400) % 2)
    train, test = x[:300], x[300:]
    labels = torch.arange(400) // 20
    truth = NearestNeighbors(n_neighbors=5, algorithm="kd_tree").fit(train.double().numpy())
    near = torch.from_numpy(truth.kneighbors(test.double().numpy(), return_distance=False))
    (given,) = [near for _, near, _ in _voters(parts(train, labels[:300], test, labels[:100]), 5, "l2", 1.0)]
    assert torch.equal(given, near)


def test_a_long_line_of_text_takes_its_own_room():
    lines = ("a" * 5000, "b")
    assert Encoded(None, (), torch.zeros(2, 3), lines).arrays()["text_lines"].nbytes == 2 * 1000 * 4


def test_labels_without_names_are_labels(tmp_path):
    image = io.BytesIO()
    picture("ant", 0).save(image, "PNG")
    columns = {"image": [{"bytes": image.getvalue(), "path": None}] * 3, "label": [0, 2, 1]}
    for name, label in (("few", [0, 2, 1]), ("ids", [0, 2, 10**12])):
        pq.write_table(pa.table({**columns, "label": label}), tmp_path / f"{name}.parquet")
    assert load(f"parquet:{tmp_path}/few.parquet").classes == ("0", "1", "2")
    assert load(f"parquet:{tmp_path}/ids.parquet").classes == ()


def test_probes_given_one_by_one_are_all_asked(run, tmp_path):
    assert main(["evaluate", str(run), "--probe", "knn", "--probe", "linear", "--json", "e.json"]) == 0
    probes = json.loads((tmp_path / "e.json").read_text())["probes"]
    assert {"linear", "knn, k = 1"} <= set(probes)


def test_less_is_better_where_it_is():
    less = Difference("a", "", 3, -0.2, -0.3, -0.1)
    assert less.told(measure("uniformity")) == "better"
    assert less.shown(measure("uniformity")) == (0.2, 0.1, 0.3)
    assert less.told(measure("linear")) == "worse"


def test_a_seed_is_not_varied_and_each_setting_once(capsys):
    grid = ["grid", *SMALL_RUNS, "--out", "g"]
    assert main([*grid, "--vary", "seed=0,1"]) == 2
    assert "seeds are no setting" in capsys.readouterr().err
    assert main([*grid, "--vary", "lr=0.1,0.2", "--vary", "lr=0.3"]) == 2
    assert "each setting once" in capsys.readouterr().err
    assert main([*grid, "--vary", "steps=2,3"]) == 2
    assert "epochs and steps" in capsys.readouterr().err
    assert main([*grid, "--vary", "ratio=0.1,0.5"]) == 2
    assert "imbalance" in capsys.readouterr().err
    assert main([*grid, "--ratio", "0.1", "--vary", "lr=0.1,0.5"]) == 2
    assert "imbalance" in capsys.readouterr().err


def test_runs_judged_on_other_data_are_not_paired(tmp_path, capsys):
    for data in ("digits", "scene-digits"):
        for seed in ("0", "1"):
            words = ["--images", "100", "--steps", "2", "--batch", "50", "--encoder.widths", "[8]", "--seed", seed]
            assert main(["train", "--data", data, *words, "--out", f"{data}{seed}"]) == 0
    both = [f"{data}{seed}" for data in ("digits", "scene-digits") for seed in (0, 1)]
    assert main(["compare", *both, "--json", "c.json"]) == 0
    assert json.loads((tmp_path / "c.json").read_text())["differences"] == []


def test_an_export_does_not_replace_what_it_is_made_of(tmp_path, capsys):
    torch.save(encoder("resnet18", 3, 32).state_dict(), tmp_path / "w.pth")
    before = (tmp_path / "w.pth").read_bytes()
    words = ["export", "w.pth", "--arch", "resnet18", "--to", "torchvision", "--out", "w.pth"]
    assert main(words) == 2
    assert (tmp_path / "w.pth").read_bytes() == before
    (tmp_path / "notes.csv").write_text("mine")
    assert main(["data", "show", "digits", "--out", "notes.csv"]) == 2
    assert (tmp_path / "notes.csv").read_text() == "mine"


def test_two_images_that_would_be_one_sample_are_not_sharded(tmp_path, capsys):
    put(tmp_path / "f/train", ["ant"], 2)
    picture("ant", 5).save(tmp_path / "f/train/ant/0.jpg")
    assert main(["data", "shard", "f", "--out", "s"]) == 2
    assert "differ in their ending alone" in capsys.readouterr().err


def test_a_fingerprint_knows_the_size_of_every_file(tmp_path):
    put(tmp_path / "f/train", ["ant"], 9)
    shard(tmp_path / "f", tmp_path / "s")
    for source in ("folder:f", "shards:s"):
        images = load(source, "train", size=2000)  # of so large ones a fingerprint looks at one
        before = of_images(images)
        if source == "folder:f":
            Image.new("RGB", (16, 16)).save(tmp_path / "f/train/ant/7.png")
            assert not same(before, of_images(load(source, "train", size=2000)))
        assert same(before, before.partition(".")[0])


def test_two_seeds_that_agree_decide_nothing():
    alike = at_least("x", {0: 0.01, 1: 0.01}, 0.005)
    assert decide([alike]).outcome == "undecided"
    assert decide([at_least("x", {0: 0.01, 1: 0.01, 2: 0.01}, 0.005)]).outcome == "held"


def test_a_probe_s_optimum_is_as_near_where_the_loss_is_small():
    """scipy's tolerance is absolute below 1; features that tell everything apart have their optimum far below."""
    g = torch.Generator().manual_seed(0)
    y = torch.arange(300) % 3
    x = torch.randn(300, 40, generator=g) + 0.5 * torch.randn(3, 40, generator=g)[y]
    fine, coarse = (fit(x.to(kind), y, 1e-6).objective for kind in (torch.float64, torch.float32))
    assert coarse == pytest.approx(fine, rel=0.01)


def test_what_is_computed_stays_decided_among_others():
    held = decide([at_least("x", {0: 1.0, 1: 1.1, 2: 0.9}, 0.5)])
    assert together([exact("y", 1.0, True, 0.0), held]).outcome == "held"
    assert together([exact("y", 1.0, False, 2.0), held]).outcome == "contradicted"
