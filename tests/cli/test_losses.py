"""`isotherm losses` for the losses of others, and lists that are there without torch."""

import os
import subprocess
import sys

import pytest

from installed import install

SAYS_WHAT_CAME = """
import sys
from isotherm.cli import main
try:
    code = main(sys.argv[1:])
except SystemExit as stop:
    code = stop.code
heavy = {"torch", "numpy", "scipy", "sklearn", "matplotlib", "transformers"} & set(sys.modules)
print(code or 0, sorted(heavy), file=sys.stderr)
"""
MINE = """
print("running")
from isotherm.nn import NTXentLoss

class Mine(NTXentLoss):
    \"\"\"What mine says.\"\"\"
"""


def isotherm(*arguments, cwd=None, path=()):
    """The last line of its errors: the exit code, and what heavy modules it imported."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, path), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        [sys.executable, "-c", SAYS_WHAT_CAME, *arguments],
        capture_output=True,
        text=True,
        check=True,
        cwd=cwd,
        env=environment,
    )
    return done.stdout, done.stderr.splitlines()


@pytest.mark.parametrize(
    "line",
    [
        *("losses", "losses NTXentLoss", "data list", "--help"),
        *(
            f"{name} --help"
            for name in [
                "losses",
                "data",
                "train",
                "evaluate",
                "inspect",
                "compare",
                "study",
                "report",
                "bench",
                "check",
            ]
        ),
    ],
)
def test_lists_and_help_need_no_torch(line):
    out, errors = isotherm(*line.split())
    assert errors == ["0 []"]
    assert len(out.splitlines()) > 5


@pytest.mark.slow  # three processes
def test_naming_a_file_runs_it(tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    out, errors = isotherm("losses", "./mine.py", cwd=tmp_path)
    assert errors[0] == "running"
    assert "Mine" in out
    assert "What mine says." in out
    out, _ = isotherm("losses", "./mine.py:Mine", cwd=tmp_path)
    assert out.startswith("./mine.py:Mine: Mine(temperature=0.2)\n\nWhat mine says.")
    out, errors = isotherm("losses", "./mine.py:Yours", cwd=tmp_path)
    assert out == ""
    assert errors[1:2] == ["isotherm: ./mine.py has no 'Yours'; it has: NTXentLoss, Mine."]


@pytest.mark.slow
def test_installed_losses_are_listed_unseen_and_shown_by_name(tmp_path):
    install(tmp_path, "theirs", MINE, losses="TheirLoss = theirs:Mine")
    out, errors = isotherm("losses", path=[tmp_path])
    assert errors == ["0 []"]
    assert "TheirLoss" in out
    assert "installed: theirs:Mine" in out
    out, errors = isotherm("losses", "TheirLoss", path=[tmp_path])
    assert errors[0] == "running"
    assert "What mine says." in out
