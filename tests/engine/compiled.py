"""The fused kernels compiled for GPUs that are not here: no spills, shared memory in bounds; run by test_kernels.py."""

import re
import subprocess
from pathlib import Path

import pytest
import triton
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import get_ptxas
from triton.compiler import ASTSource

from isotherm.engine.device import functions, kernels
from isotherm.engine.device.blocks import PULL_STRIP, add_blocks, nearest_warps, pull_blocks

TARGETS = {
    "sm80": (GPUTarget("cuda", 80, 32), "tf32x3"),
    "sm90": (GPUTarget("cuda", 90, 32), "tf32x3"),
    "gfx942": (GPUTarget("hip", "gfx942", 64), "ieee"),
}
SHARED = 99 * 1024  # what every one of them gives to one program
FLOATS = "X Y DX LEARNED GX LX VX GY LY VY TOP MASS MOMENT CTOP CMASS CMOMENT PE PW S LIMIT"
ITEMS = "XID YID XLAB YLAB"
ALIGNED = {"sx", "sy", "d", "share"}
LSE, EXPECTATION, TOTAL = 0, 1, 2
LINEAR = {"ENERGY": functions.linear, "ESHAPE": 0, "WEIGHT": functions.linear, "WSHAPE": 0}
COSINE = LINEAR | {"ENERGY": functions.cosine, "ESHAPE": 1}
SHIFTED = {"ENERGY": functions.shifted, "ESHAPE": 2, "WEIGHT": functions.gaussian, "WSHAPE": 0}
PERIODIC = {"PERIODIC": True, "SAME": False, "UNLIKE": False}
LABELLED = {"PERIODIC": False, "SAME": True, "UNLIKE": True}
SYMMETRIC = {"COLUMNS": True, "UPPER": True}
ONE_WAY = {"COLUMNS": False, "UPPER": False}
BOTH = {"DETACH": False, "FROM_X": True, "FROM_Y": True, "LEARN": 0, "LEARN_Y": False}
CASES = {
    "sums": (kernels.add_rows, LINEAR | PERIODIC | SYMMETRIC | {"KIND": LSE}, 128),
    "sums of DySTreSS, a queue": (kernels.add_rows, COSINE | PERIODIC | ONE_WAY | {"KIND": LSE}, 128),
    "expectations": (kernels.add_rows, SHIFTED | LABELLED | SYMMETRIC | {"KIND": EXPECTATION}, 256),
    "gradient": (kernels.pull_rows, LINEAR | PERIODIC | BOTH | {"KIND": LSE}, 128),
    "gradient of DySTreSS": (kernels.pull_rows, COSINE | PERIODIC | BOTH | {"KIND": LSE}, 128),
    "gradient, learnable, wide": (
        kernels.pull_rows, LINEAR | PERIODIC | BOTH | {"KIND": LSE, "LEARN": 1, "LEARN_Y": True}, 256,
    ),
    "gradient of expectations": (kernels.pull_rows, SHIFTED | LABELLED | BOTH | {"KIND": EXPECTATION}, 256),
    "nearest of 8192": (kernels.nearest_strip, COSINE | PERIODIC | {"KIND": LSE, "SUMS": True}, 8192),
    "nearest of 16384": (kernels.nearest_strip, LINEAR | PERIODIC | {"KIND": EXPECTATION, "SUMS": True}, 16_384),
    "gradient of the nearest": (
        kernels.pull_strip, SHIFTED | PERIODIC | {"KIND": EXPECTATION, "DETACH": False, "LEARN": 0}, 0,
    ),
}  # fmt: skip


def options(kernel, kind, width, precision):
    """The launch's own block sizes: constants, warps and stages."""
    if kernel is kernels.add_rows:
        constants = add_blocks(precision, kind == EXPECTATION).options | {"PRECISION": precision}
    elif kernel is kernels.pull_rows:
        constants = pull_blocks(precision, width).options | {"PRECISION": precision, "BLOCK_D": width}
    elif kernel is kernels.nearest_strip:
        constants = {"BLOCK_N": width, "num_warps": nearest_warps(width)}
    else:
        constants = {"BLOCK_M": PULL_STRIP.rows, "BLOCK_N": PULL_STRIP.columns, "num_warps": PULL_STRIP.warps}
    constants = dict(constants)
    return constants, {name: constants.pop(name) for name in ("num_warps", "num_stages") if name in constants}


def build(kernel, constants, settings, target):
    signature, attributes = {}, {}
    for i, name in enumerate(kernel.arg_names):
        if name in constants:
            signature[name] = "constexpr"
        elif name in f"{FLOATS} {ITEMS}".split():
            signature[name] = "*fp32" if name in FLOATS.split() else "*i64"
            attributes[i,] = [["tt.divisibility", 16]]
        else:
            signature[name] = "i32"
            if name in ALIGNED:
                attributes[i,] = [["tt.divisibility", 16]]
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=attributes)
    return triton.compile(source, target=target, options=settings | {"enable_fp_fusion": True})


def spilled(compiled, target, folder):
    """Bytes (NVIDIA), registers and bytes (AMD) that went to memory; AMD's scalars go to vector registers."""
    if target.backend == "hip":
        text = compiled.asm["amdgcn"]
        print(re.findall(r"\.[vsa]+gpr_(?:spill_)?count:\s*\d+|private_segment_fixed_size:\s*\d+", text))
        return sum(int(n) for n in re.findall(r"(?:vgpr_spill_count|private_segment_fixed_size):\s*(\d+)", text))
    source = Path(folder) / "kernel.ptx"
    source.write_text(compiled.asm["ptx"])
    name = {90: "sm_90a"}.get(target.arch, f"sm_{target.arch}")
    words = [
        get_ptxas(target.arch).path,
        "-v",
        f"--gpu-name={name}",
        str(source),
        "-o",
        str(source.with_suffix(".bin")),
    ]
    said = subprocess.run(words, capture_output=True, text=True, check=True)
    said = said.stdout + said.stderr
    print(re.search(r"Used \d+ registers", said)[0])
    return sum(int(n) for n in re.findall(r"(\d+) bytes spill", said))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES)
def test_it_compiles_without_spilling(case, target, tmp_path):
    target, precision = TARGETS[target]
    kernel, constants, width = CASES[case]
    more, settings = options(kernel, constants["KIND"], width, precision)
    compiled = build(kernel, constants | more, settings, target)
    print(case, target.arch, compiled.metadata.shared)
    assert compiled.metadata.shared <= SHARED
    assert spilled(compiled, target, tmp_path) == 0
