"""Five hundred command lines that nobody meant: each is told in a sentence, or does what it says."""

import numpy as np
import pytest

from command_lines import line
from watch import harmless

LINES, TOGETHER = 500, 50


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # what libraries say of odd settings
@pytest.mark.usefixtures("nobody_is_trusted")
@pytest.mark.parametrize("first", range(0, LINES, TOGETHER))
def test_no_command_line_shows_a_traceback(first, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("ISOTHERM_DATA", str(tmp_path / "root"))
    codes = []
    for seed in range(first, first + TOGETHER):
        here = tmp_path / str(seed)
        here.mkdir()
        np.save(here / "z.npy", np.random.default_rng(0).standard_normal((24, 4)))
        (here / "y.txt").write_text("\n".join("abc"[i % 3] for i in range(24)))
        codes.append(harmless(line(seed, str(here)), tmp_path))
    assert {0, 2} == set(codes)
