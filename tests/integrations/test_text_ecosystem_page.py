"""The Python of docs/text-ecosystem.md, run with the real libraries; only mteb's own downloads are left out."""

import re
from pathlib import Path

import pytest

pytest.importorskip("mteb", reason="mteb is not installed")

import mteb

import isotherm
import small_pairs
from tiny_bert import texts

PAGE = Path(__file__).parents[2] / "docs/text-ecosystem.md"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the libraries about each other
def test_the_python_of_the_page_runs_as_printed(folder, tmp_path, monkeypatch):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(f"{a} {b}" for a, b in zip(*texts(2), strict=True)))
    small = {"encoder.width": 16, "encoder.layers": 1, "encoder.heads": 2, "encoder.vocabulary": 300}
    quick = {"batch": 8, "epochs": 1, "monitor": 0, "quiet": True}
    isotherm.train(tmp_path / "run", data=f"text:{corpus}", **small, **quick)
    pairs = {**small_pairs.QUICK, "data": f"parquet:{small_pairs.folder_of(tmp_path / 'pairs')}"}
    isotherm.train(tmp_path / "clip", **pairs, quiet=True)
    judged = []
    monkeypatch.setattr(mteb, "evaluate", lambda model, tasks: judged.append((model, [t.metadata.name for t in tasks])))
    anchors, positives = texts(2)
    given = {"folder": str(folder), "out": str(tmp_path / "out"), "anchors": anchors, "positives": positives}
    given |= {"run": tmp_path / "run", "clip_run": str(tmp_path / "clip")}
    codes = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    exec("\n".join(codes), given)
    assert [name for _, names in judged for name in names] == ["STSBenchmark", "SICK-R", "CIFAR10ZeroShot"]
    (sentences, _), (towers, _) = judged
    assert sentences.encode([{"text": anchors[:3]}]).shape == (3, 16)
    assert towers.encode([{"text": anchors[:3]}]).shape == (3, 8)
