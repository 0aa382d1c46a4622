"""The fused kernels without a GPU: their values and gradients in triton's interpreter, and compiled for three GPUs.

In processes of their own: triton reads TRITON_INTERPRET when it is imported. Without triton these tests are skipped
(`pip install isotherm[kernels]`).
"""

import importlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from isotherm import nn
from isotherm.engine import fused

HERE = Path(__file__).parent
needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")


def run(name, **variables):
    words = [sys.executable, "-m", "pytest", str(HERE / name), "-q", "--no-header", "-p", "no:cacheprovider"]
    environment = {"OMP_NUM_THREADS": "1"} | os.environ | variables
    said = subprocess.run(words, capture_output=True, text=True, env=environment, cwd=HERE.parent.parent, check=False)
    assert said.returncode == 0, said.stdout[-4000:] + said.stderr[-2000:]


@pytest.mark.slow
@needs_triton
def test_interpreted_they_give_the_values_and_gradients_of_the_plain_path():
    run("interpreted.py", TRITON_INTERPRET="1")


@pytest.mark.slow
@needs_triton
def test_compiled_for_three_gpus_they_fit_their_registers_and_shared_memory(tmp_path):
    run("compiled.py", TRITON_CACHE_DIR=str(tmp_path), TRITON_INTERPRET="0")


@pytest.mark.parametrize("choice", ["auto", "plain", "triton", "AUTO"])
def test_a_processor_takes_the_plain_path_and_imports_no_triton(choice, monkeypatch):
    monkeypatch.setenv("ISOTHERM_KERNELS", choice)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    before = "isotherm.engine.device.launch" in sys.modules
    z = torch.eye(4)
    assert torch.isfinite(nn.NTXentLoss()(z, z.flip(0)))
    assert ("isotherm.engine.device.launch" in sys.modules) == before


def test_an_unknown_choice_of_kernels_is_an_error(monkeypatch):
    monkeypatch.setenv("ISOTHERM_KERNELS", "cuda")
    with pytest.raises(ValueError, match="ISOTHERM_KERNELS must be"):
        nn.NTXentLoss()(torch.eye(4), torch.eye(4))


def test_why_they_are_not_used_is_said_once(monkeypatch):
    monkeypatch.setattr(fused, "_said", [])
    with pytest.warns(RuntimeWarning, match="fused kernels are not used, the plain path is \\(no luck\\)"):
        fused._warn("no luck")
    fused._warn("again")  # a second warning would be an error here


@pytest.fixture(params=["none", "old"])
def without_kernels(request, monkeypatch):
    """A machine without triton, or with an old one: what is said of it."""
    old = SimpleNamespace(__version__="3.1.0")
    monkeypatch.setitem(sys.modules, "triton", None if request.param == "none" else old)
    monkeypatch.setattr(fused, "_said", [])
    fused._unavailable.cache_clear()
    yield "triton" if request.param == "none" else r"triton 3\.1\.0 is installed, and 3\.2 or later is needed"
    fused._unavailable.cache_clear()


def test_who_insists_on_kernels_without_a_triton_for_them_is_told_what_to_install(without_kernels, monkeypatch):
    monkeypatch.setenv("ISOTHERM_KERNELS", "triton")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    with pytest.raises(RuntimeError, match=f"{without_kernels}.*pip install .*\\[kernels\\]"):
        nn.NTXentLoss()(torch.eye(4), torch.eye(4))


ON_A_GPU = SimpleNamespace(device=torch.device("cuda"), dtype=torch.float32, shape=(4, 4))
"""What is asked of queries before a kernel is: this machine has no GPU to put any on."""


def test_without_a_triton_for_them_a_gpu_takes_the_plain_path_with_one_warning(without_kernels, monkeypatch):
    monkeypatch.delenv("ISOTHERM_KERNELS", raising=False)
    with pytest.warns(RuntimeWarning, match=f"the plain path is.*{without_kernels}"):
        assert fused.fused(SimpleNamespace(queries=ON_A_GPU, visitors=None), (), None) is None
    assert fused.fused(SimpleNamespace(queries=ON_A_GPU, visitors=None), (), None) is None  # and is not told again


@needs_triton
def test_a_gpu_that_fails_the_self_check_takes_the_plain_path_with_one_warning(monkeypatch):
    monkeypatch.delenv("ISOTHERM_KERNELS", raising=False)
    monkeypatch.setattr(fused, "_said", [])
    check = importlib.import_module("isotherm.engine.device.check")
    jobs = importlib.import_module("isotherm.engine.device.jobs")

    def differs(job, device):  # as tests/engine/interpreted.py has a real one do
        raise RuntimeError(f"the self-check found gradients 1.0e-02 apart on {device}")

    monkeypatch.setattr(jobs, "plan", lambda pairs, reduction, top_k: "a job")
    monkeypatch.setattr(check, "passes", differs)
    pairs = SimpleNamespace(queries=ON_A_GPU, visitors=None)
    with pytest.warns(RuntimeWarning, match="the plain path is.*self-check found gradients 1.0e-02 apart on cuda"):
        assert fused.fused(pairs, ("a sum",), None) is None
    assert fused.fused(pairs, ("a sum",), None) is None


@pytest.mark.parametrize(
    ("triton", "numpy", "interpreted", "why"),
    [
        ("3.1.0", "1.26.4", False, "3.2 or later is needed"),
        ("3.2.0", "2.4.1", False, ""),
        ("3.5.1", "2.4.1", True, "does not run under numpy 2.4.1"),
        ("3.5.1", "2.3.5", True, ""),
        ("3.10.0", "2.4.1", True, ""),
    ],
)
def test_which_versions_of_triton_are_taken(triton, numpy, interpreted, why):
    said = fused.unsuitable(triton, numpy, interpreted)
    assert why in said
    assert bool(why) == bool(said)
