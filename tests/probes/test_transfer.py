"""SentEval's transfer tasks against plain loops over scikit-learn's regressions."""

import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score
from sklearn.model_selection import StratifiedKFold

from isotherm.data import senteval
from isotherm.probes.transfer import ALL, GRID, GRID_TRAIN_TEST, MOST_STEPS, transfer
from probed import regression

REAL = Path(os.environ.get("ISOTHERM_DATA") or "/nonexistent") / "senteval"
real = pytest.mark.skipif(not REAL.is_dir(), reason="ISOTHERM_DATA is not set or holds no senteval")
D = 6


def encode(sentences):
    """The vector of a sentence: a draw of its own, pushed by what it says and by its length."""
    rows = []
    for s in sentences:
        number = int.from_bytes(s.encode()[:64], "little") % (1 << 62)
        z = torch.randn(D, generator=torch.Generator().manual_seed(number))
        z[0] += s.count("good") - s.count("bad")
        z[1] += len(s.split()) % 5 - 2
        rows.append(z)
    return torch.stack(rows)


def said(count, label, seed):
    """Sentences of 2 to 6 words of which most say what they are."""
    random = np.random.default_rng(seed)
    word = np.where(random.random(count) < 0.85, label, 1 - label)
    return [
        " ".join([f"x{seed}{i}", *["very"] * int(random.integers(0, 5)), ("bad", "good")[w]])
        for i, w in enumerate(word)
    ]


def write(path, lines, encoding="utf-8"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(line + "\n" for line in lines).encode(encoding))


def write_halves(root, task, zeros=60, ones=70):
    names = senteval.HALVES[task]
    for label, (name, count) in enumerate(zip(names, (zeros, ones), strict=True)):
        write(root / name, said(count, label, 2 * len(task) + label))


def write_sst(root):
    for seed, (part, count) in enumerate((("train", 80), ("dev", 40), ("test", 50))):
        lines = [f"{s} \t{label}" for label in (0, 1) for s in said(count, label, 30 + 2 * seed + label)]
        write(root / f"SST/binary/sentiment-{part}", lines)


def write_trec(root):
    random = np.random.default_rng(5)
    for name, count, encoding in (("train_5500", 150, "latin-1"), ("TREC_10", 60, "utf-8")):
        lines = []
        for i in range(count):
            label = i % 6
            shown = label if random.random() < 0.8 else int(random.integers(6))
            lines.append(f"{senteval.QUESTIONS[label]}:kind {name}{i} café {'good ' * shown}?")
        write(root / f"TREC/{name}.label", lines, encoding)


def write_mrpc(root):
    random = np.random.default_rng(6)
    for part, count in (("train", 120), ("test", 60)):
        lines = ["\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String"]
        for i in range(count):
            first = f"{part}{i} " + "good " * int(random.integers(0, 4))
            same = random.random() < 0.6
            second = first if same and random.random() < 0.8 else f"other {i} bad bad"
            lines.append(f"{int(same)}\t{i}\t{i}\t{first}\t{second}")
        write(root / f"MRPC/msr_paraphrase_{part}.txt", lines)


@pytest.fixture
def everything(tmp_path):
    for task in senteval.HALVES:
        write_halves(tmp_path, task)
    write_sst(tmp_path)
    write_trec(tmp_path)
    write_mrpc(tmp_path)
    return tmp_path


def numbers(sentences):
    return encode(sentences).double().numpy()


def in_order(*columns):
    """SentEval's: by the words of each sentence, then by label, the last column."""
    rows = sorted(zip(*columns, strict=True), key=lambda row: (*(len(s.split()) for s in row[:-1]), row[-1]))
    return zip(*rows, strict=True)


def best_of(x, y, grid, folds, seed):
    scores = []
    for strength in grid:
        each = [
            regression(strength).fit(x[fit], y[fit]).score(x[ask], y[ask])
            for fit, ask in StratifiedKFold(folds, shuffle=True, random_state=seed).split(x, y)
        ]
        scores.append(round(100 * np.mean(each), 2))
    return grid[int(np.argmax(scores))]


@pytest.mark.parametrize("task", ["MR", "SUBJ"])
def test_folds_inside_folds_are_those_of_a_plain_double_loop(tmp_path, task):
    write_halves(tmp_path, task)
    zeros, ones = ((tmp_path / name).read_text().splitlines() for name in senteval.HALVES[task])
    sentences, labels = in_order([*ones, *zeros], [1] * len(ones) + [0] * len(zeros))
    x, y = numbers(sentences), np.array(labels)
    accuracies, strengths = [], []
    for fit, ask in StratifiedKFold(4, shuffle=True, random_state=7).split(x, y):
        strengths.append(best_of(x[fit], y[fit], GRID, 4, 7))
        accuracies.append(regression(strengths[-1]).fit(x[fit], y[fit]).score(x[ask], y[ask]))
    found = transfer(encode, tmp_path, [task], seed=7, folds=4).tasks[task]
    assert found.folds == pytest.approx(accuracies, abs=1e-12)
    assert found.strengths == tuple(strengths)
    assert found.accuracy == pytest.approx(np.mean(accuracies))
    assert found.sd == pytest.approx(np.std(accuracies, ddof=1))
    assert found.n == 130
    assert 0.6 < found.accuracy < 1


def test_how_many_problems_are_solved_at_once_changes_nothing(tmp_path, monkeypatch):
    write_halves(tmp_path, "MPQA")
    together = transfer(encode, tmp_path, ["MPQA"], folds=3)
    monkeypatch.setattr("isotherm.probes.transfer.LOGITS", 2 * 130)
    assert transfer(encode, tmp_path, ["MPQA"], folds=3) == together


def test_sst_is_chosen_on_dev_and_asked_on_test(tmp_path):
    write_sst(tmp_path)
    part = {}
    for name in ("train", "dev", "test"):
        lines = [line.split("\t") for line in (tmp_path / f"SST/binary/sentiment-{name}").read_text().splitlines()]
        part[name] = numbers([s.strip() for s, _ in lines]), np.array([int(label) for _, label in lines])
    scores = [round(100 * regression(c).fit(*part["train"]).score(*part["dev"]), 2) for c in GRID]
    best = GRID[int(np.argmax(scores))]
    found = transfer(encode, tmp_path, ["SST-2"]).tasks["SST-2"]
    assert found.strengths == (best,)
    assert found.validation == pytest.approx(max(scores) / 100, abs=1e-4)
    assert found.accuracy == pytest.approx(regression(best).fit(*part["train"]).score(*part["test"]))
    assert found.n == 100
    assert found.folds == ()
    assert found.sd is None


def test_trec_is_cross_validated_on_train_and_asked_on_test(tmp_path):
    write_trec(tmp_path)
    part = {}
    for name, encoding in (("train_5500", "latin-1"), ("TREC_10", "utf-8")):
        lines = (tmp_path / f"TREC/{name}.label").read_text(encoding).splitlines()
        sentences = [" ".join(line.split()[1:]) for line in lines]
        labels = [("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM").index(line[: line.index(":")]) for line in lines]
        sentences, labels = in_order(sentences, labels)
        part[name] = numbers(sentences), np.array(labels)
    best = best_of(*part["train_5500"], GRID_TRAIN_TEST, 3, 1111)
    found = transfer(encode, tmp_path, ["TREC"], folds=3).tasks["TREC"]
    assert found.strengths == (best,)
    assert found.accuracy == pytest.approx(regression(best).fit(*part["train_5500"]).score(*part["TREC_10"]))
    assert found.accuracy > 0.3


def test_mrpc_compares_by_difference_and_product_and_has_an_f1(tmp_path):
    write_mrpc(tmp_path)
    part = {}
    for name in ("train", "test"):
        lines = (tmp_path / f"MRPC/msr_paraphrase_{name}.txt").read_text("utf-8-sig").splitlines()[1:]
        rows = [line.split("\t") for line in lines]
        first, second, labels = in_order(
            [r[3].strip() for r in rows], [r[4].strip() for r in rows], [int(r[0]) for r in rows]
        )
        u, v = numbers(first), numbers(second)
        part[name] = np.concatenate([np.abs(u - v), u * v], 1), np.array(labels)
    best = best_of(*part["train"], GRID_TRAIN_TEST, 5, 1111)
    oracle = regression(best).fit(*part["train"])
    found = transfer(encode, tmp_path, ["MRPC"], folds=5).tasks["MRPC"]
    assert found.strengths == (best,)
    assert found.accuracy == pytest.approx(oracle.score(*part["test"]))
    assert found.f1 == pytest.approx(f1_score(part["test"][1], oracle.predict(part["test"][0])))


def test_all_seven_are_there_and_their_average_is_called_that(everything):
    told = []
    found = transfer(encode, everything, folds=3, note=told.append)
    assert tuple(found.tasks) == tuple(told) == ALL
    assert found.complete
    assert not found.notes
    assert found.average == pytest.approx(np.mean([task.accuracy for task in found.tasks.values()]))
    assert "average of the seven tasks" in str(found)
    assert json.loads(json.dumps(found.as_dict(), allow_nan=False))["tasks"]["CR"]["n"] == 130
    again = transfer(encode, everything, folds=3)
    assert again == found


def test_a_task_with_a_missing_file_is_named_and_the_rest_evaluated(everything):
    (everything / "CR/custrev.pos").unlink()
    (everything / "TREC/TREC_10.label").unlink()
    found = transfer(encode, everything, ["MR", "CR", "TREC"], folds=3)
    assert tuple(found.tasks) == ("MR",)
    assert found.missing == ("CR", "TREC")
    assert not found.complete
    assert found.notes == ("CR was left out: no CR/custrev.pos.", "TREC was left out: no TREC/TREC_10.label.")
    assert str(found).endswith(f"average of MR: {100 * found.average:.2f}")


def test_a_folder_with_nothing_in_it_says_what_is_expected(tmp_path):
    with pytest.raises(ValueError, match=r"holds none of MR, CR.*MR/rt-polarity\.pos") as error:
        transfer(encode, tmp_path)
    assert str(tmp_path) in str(error.value)
    with pytest.raises(ValueError, match="Set ISOTHERM_DATA"):
        transfer(encode, tmp_path / "nowhere")


def test_blank_lines_are_sentences(tmp_path):
    write_halves(tmp_path, "CR")
    path = tmp_path / "CR/custrev.neg"
    path.write_text(path.read_text() + " \n")
    parts, _ = senteval.classified(tmp_path, "CR")
    assert parts["all"].first[-1] == ""
    assert transfer(encode, tmp_path, ["CR"], folds=2).tasks["CR"].n == 131


@pytest.mark.parametrize(
    ("task", "file", "line", "message"),
    [
        ("MR", "MR/rt-polarity.neg", b"na\xefve", "not utf-8 at byte 3"),
        ("SST-2", "SST/binary/sentiment-dev", b"no label", "2 fields"),
        ("SST-2", "SST/binary/sentiment-dev", b"odd\t2", "a label 0 or 1 is wanted, got '2'"),
        ("TREC", "TREC/TREC_10.label", b"WHO:ind Who ?", "a class as `NUM:dist`"),
        ("TREC", "TREC/TREC_10.label", b"NUM:dist", "a sentence is empty"),
        ("MRPC", "MRPC/msr_paraphrase_test.txt", b"1\t2\t3\tone", "5 fields"),
    ],
)
def test_a_malformed_line_is_an_error_with_file_and_line(everything, task, file, line, message):
    lines = (everything / file).read_bytes().split(b"\n")
    lines[2] = line
    (everything / file).write_bytes(b"\n".join(lines))
    with pytest.raises(ValueError, match=message) as error:
        transfer(encode, everything, [task], folds=3)
    assert f"{everything / file}, line 3:" in str(error.value)


def test_too_few_items_for_the_folds_are_refused_before_anything_is_encoded(tmp_path):
    write_halves(tmp_path, "MR", zeros=11)
    with pytest.raises(ValueError, match="MR has 11 items of class 0, too few for 10 folds"):
        transfer(lambda s: pytest.fail("encoded"), tmp_path, ["MR"])
    write(tmp_path / "SST/binary/sentiment-train", ["good\t1", "better\t1"])
    for part in ("dev", "test"):
        write(tmp_path / f"SST/binary/sentiment-{part}", ["good\t1", "bad\t0"])
    with pytest.raises(ValueError, match="SST-2 has nothing of class 0"):
        transfer(encode, tmp_path, ["SST-2"])


def test_settings_that_make_no_sense_are_refused(everything):
    with pytest.raises(ValueError, match="did you mean 'SST-2'"):
        transfer(encode, everything, ["SST2"])
    with pytest.raises(ValueError, match="folds must be 2 or more"):
        transfer(encode, everything, folds=1)
    with pytest.raises(ValueError, match="NaN or infinite"):
        transfer(lambda s: torch.full((len(s), 2), math.nan), everything, ["MR"], folds=2)


def test_embeddings_that_say_nothing_do_as_well_as_the_larger_class(tmp_path):
    write_halves(tmp_path, "MR")
    found = transfer(lambda s: torch.zeros(len(s), 3), tmp_path, ["MR"], folds=5)
    assert found.tasks["MR"].accuracy == pytest.approx(70 / 130)
    assert found.tasks["MR"].strengths == (GRID[0],) * 5
    assert not found.notes


def test_a_fit_that_is_cut_short_is_noted(tmp_path, monkeypatch):
    write_halves(tmp_path, "MR")
    monkeypatch.setattr("isotherm.probes.logistic.MOST_STEPS", 2)
    monkeypatch.setattr("isotherm.probes.transfer.MOST_STEPS", 2)
    assert "MR: a fit stopped after 2 steps" in transfer(encode, tmp_path, ["MR"], folds=2).notes[0]
    assert MOST_STEPS > 2


@real
def test_the_real_tasks_have_as_many_sentences_as_published():
    counts = {}
    for task in senteval.TRANSFER:
        parts, missing = senteval.classified(REAL, task)
        assert not missing
        counts[task] = tuple(len(part.labels) for part in parts.values())
    assert counts == {
        "MR": (10662,),
        "CR": (3775,),
        "SUBJ": (10000,),
        "MPQA": (10606,),
        "SST-2": (67349, 872, 1821),
        "TREC": (5452, 500),
        "MRPC": (4076, 1725),
    }
