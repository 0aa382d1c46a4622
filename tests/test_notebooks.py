"""The notebooks of examples/: small, without outputs, and run from the first cell to the last as they stand."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "examples/notebooks").glob("*.ipynb"))
RUNNER = """
import json, sys
names = {"__name__": "__main__"}
for cell in json.load(open(sys.argv[1], encoding="utf-8"))["cells"]:
    if cell["cell_type"] == "code":
        exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
print("ran to its end")
"""
"""What a kernel does with a notebook, as far as these need it: its cells one after the other, in one namespace."""


def test_the_five_notebooks_are_there():
    assert [path.stem for path in NOTEBOOKS] == ["image-text", "inspect", "own-loop", "sentences", "study"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_valid_short_and_without_outputs(path):
    stored = json.loads(path.read_text(encoding="utf-8"))
    assert (stored["nbformat"], stored["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in stored["cells"]]
    assert len(set(ids)) == len(ids) <= 14
    assert all(re.fullmatch(r"[\w-]{1,64}", name) for name in ids)
    for cell in stored["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            assert cell["execution_count"] is None
    assert stored["cells"][0]["source"][0].startswith("# ")
    linked = [link for cell in stored["cells"] for link in re.findall(r"\]\(([^)#:]+)\)", "".join(cell["source"]))]
    assert all((path.parent / link).exists() for link in linked)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_to_its_end_without_a_download(path, tmp_path):
    if path.stem in ("sentences", "image-text"):
        pytest.importorskip("transformers", reason="the extra 'text' is not installed")
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "ISOTHERM_DATA": str(tmp_path / "nothing"),
        "HF_HUB_OFFLINE": "1",
    }
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", RUNNER, str(path)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.endswith("ran to its end\n")
