"""Twenty of `make torture`'s: killed inside a write or anywhere, they go on and end as if nothing had been."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from undisturbed import differences

HERE = Path(__file__).parent
pytestmark = pytest.mark.skipif(
    shutil.which("gcc") is None or not sys.platform.startswith("linux"),
    reason="needs gcc and Linux: the library that stops programs inside a write is built and preloaded",
)


@pytest.mark.slow
def test_twenty_that_were_killed_end_as_if_they_had_not_been(tmp_path):
    """No Ray, whose start takes half a minute; `make torture` has it."""
    path = os.pathsep.join([str(HERE.parent), str(HERE), *filter(None, sys.path)])
    words = [
        "--count",
        "20",
        "--seed",
        "5",
        "--out",
        str(tmp_path),
        "--of",
        "train=10",
        "torchrun=2",
        "study=1",
        "get=7",
    ]
    line = [sys.executable, "-W", "ignore", str(HERE / "torture.py"), *words]
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=environment)
    assert "20 of 20 identical" in done.stdout, done.stdout[-6000:] + done.stderr[-2000:]
    assert done.returncode == 0


def test_what_differs_is_noticed_and_clocks_are_not(tmp_path):
    """The judge itself."""
    saved = {"step": 3, "seconds": 1.5, "metrics": 26, "method": {"w": torch.arange(4.0)}}
    lines = '{"step": 1, "seconds": 1}\n'
    for name, seconds in (("a", 1.5), ("b", 2.5)):
        (tmp_path / name).mkdir()
        torch.save({**saved, "seconds": seconds}, tmp_path / name / "checkpoint.pt")
        (tmp_path / name / "metrics.jsonl").write_text(lines)
        (tmp_path / name / ".lock").touch()
    a, b = tmp_path / "a", tmp_path / "b"
    assert differences(a, b) == []
    torch.save({**saved, "method": {"w": torch.tensor([0.0, 1.0, 2.0, 3.0000002])}}, b / "checkpoint.pt")
    (b / "metrics.jsonl").write_text(lines.replace('"step": 1', '"step": 2'))
    (b / ".checkpoint.pt.7.isotherm-part").touch()
    (a / "result.json").write_text("{}")
    told = "; ".join(differences(a, b))
    for words in ("result.json is missing", "part is left over", "checkpoint.pt differs: .method.w", "[0].step"):
        assert words in told
