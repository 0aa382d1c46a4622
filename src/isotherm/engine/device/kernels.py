"""The kernels: a tile of similarities lives in registers, is summed or pulled back, and is gone.

`add_rows` and `pull_rows` make their similarities themselves; the width is taken in chunks (BLOCK_K), whose operands
fit the registers. `nearest_strip` and `pull_strip` are given whole rows that a matrix product of the library made.
Nothing is added atomically: the same input gives the same bits.
A device function returns once, at its end: triton wants all its returns to be of one type.
"""

from __future__ import annotations

import triton
import triton.language as tl

from isotherm.engine.device.functions import evaluate

LSE, EXPECTATION, TOTAL = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
LOWEST = tl.constexpr(-1e30)  # where a running maximum starts: finite, so that LOWEST − LOWEST is 0 and not NaN


@triton.jit
def identity(at, size, period, IDS, PERIODIC: tl.constexpr, SAME: tl.constexpr):
    """Which item a row or column is."""
    item = at
    if PERIODIC:
        item = at % period
    if SAME:
        item = tl.load(IDS + at, mask=at < size, other=-1)
    return item


@triton.jit
def label(at, size, LABELS, UNLIKE: tl.constexpr):
    kind = at
    if UNLIKE:
        kind = tl.load(LABELS + at, mask=at < size, other=-1)
    return kind


@triton.jit
def counting(
    rows, cols, n, m, x_item, y_item, x_label, y_label, PERIODIC: tl.constexpr, SAME: tl.constexpr, UNLIKE: tl.constexpr
):
    """Which entries of a tile count."""
    yes = (rows < n)[:, None] & (cols < m)[None, :]
    if PERIODIC or SAME:
        yes = yes & (x_item[:, None] != y_item[None, :])
    if UNLIKE:
        yes = yes & (x_label[:, None] == y_label[None, :])
    return yes


@triton.jit
def block(Z, at, size, k, d, stride):
    """Rows `at` and columns `k` of Z, zero beyond its edges."""
    inside = (at < size)[:, None] & (k < d)[None, :]
    return tl.load(Z + at[:, None].to(tl.int64) * stride + k[None, :], mask=inside, other=0.0)


@triton.jit
def similarities(
    X, Y, rows, cols, n, m, d, sx, sy,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    s = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, d, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        x, y = block(X, rows, n, k, d, sx), block(Y, cols, m, k, d, sy)
        s = tl.dot(x, tl.trans(y), s, input_precision=PRECISION)
    return s


@triton.jit
def add_rows(
    X, Y, TOP, MASS, MOMENT, CTOP, CMASS, CMOMENT, PE, PW, XID, YID, XLAB, YLAB, n, m, d, sx, sy, period, share,
    ENERGY: tl.constexpr, ESHAPE: tl.constexpr, WEIGHT: tl.constexpr, WSHAPE: tl.constexpr, KIND: tl.constexpr,
    PERIODIC: tl.constexpr, SAME: tl.constexpr, UNLIKE: tl.constexpr, COLUMNS: tl.constexpr, UPPER: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """(top, Σ e^{E−top}, Σ w e^{E−top}) of each row over one share of the columns; grid (row blocks, shares).

    COLUMNS: each tile serves its columns, too, which get a line of sums per row block. UPPER: the matrix is symmetric,
    and only entries on and above its diagonal are looked at.
    """
    first = tl.program_id(0) * BLOCK_M
    part = tl.program_id(1)
    rows = first + tl.arange(0, BLOCK_M)
    x_item, x_label = identity(rows, n, period, XID, PERIODIC, SAME), label(rows, n, XLAB, UNLIKE)
    top = tl.full((BLOCK_M,), LOWEST, tl.float32)
    mass = tl.zeros((BLOCK_M,), tl.float32)
    moment = tl.zeros((BLOCK_M,), tl.float32)
    begin = part * share
    if UPPER:
        begin = tl.maximum(begin, first // BLOCK_N * BLOCK_N)
    for start in range(begin, tl.minimum(m, (part + 1) * share), BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        s = similarities(X, Y, rows, cols, n, m, d, sx, sy, BLOCK_M, BLOCK_N, BLOCK_K, PRECISION)
        y_item, y_label = identity(cols, m, period, YID, PERIODIC, SAME), label(cols, m, YLAB, UNLIKE)
        yes = counting(rows, cols, n, m, x_item, y_item, x_label, y_label, PERIODIC, SAME, UNLIKE)
        below = yes  # what counts for the columns
        if UPPER:
            yes = yes & (cols[None, :] >= rows[:, None])
            below = yes & (cols[None, :] > rows[:, None])
        at = tl.program_id(0).to(tl.int64) * m + cols
        if KIND == TOTAL:
            w, _ = evaluate(s, PW, WEIGHT, WSHAPE)
            moment += tl.sum(tl.where(yes, w, 0.0), 1)
            if COLUMNS:
                tl.store(CMOMENT + at, tl.sum(tl.where(below, w, 0.0), 0), mask=cols < m)
        else:
            e, _ = evaluate(s, PE, ENERGY, ESHAPE)
            row_e = tl.where(yes, e, float("-inf"))
            higher = tl.maximum(top, tl.max(row_e, 1))
            shrink = tl.exp(top - higher)
            p = tl.exp(row_e - higher[:, None])
            mass = mass * shrink + tl.sum(p, 1)
            top = higher
            if KIND == EXPECTATION:
                w, _ = evaluate(s, PW, WEIGHT, WSHAPE)
                moment = moment * shrink + tl.sum(p * tl.where(yes, w, 0.0), 1)
            if COLUMNS:
                column_e = tl.where(below, e, float("-inf"))
                highest = tl.maximum(tl.max(column_e, 0), LOWEST)
                q = tl.exp(column_e - highest[None, :])
                tl.store(CTOP + at, highest, mask=cols < m)
                tl.store(CMASS + at, tl.sum(q, 0), mask=cols < m)
                if KIND == EXPECTATION:
                    tl.store(CMOMENT + at, tl.sum(q * tl.where(below, w, 0.0), 0), mask=cols < m)
    at = part.to(tl.int64) * n + rows
    tl.store(MOMENT + at, moment, mask=rows < n)
    if KIND != TOTAL:
        tl.store(TOP + at, top, mask=rows < n)
        tl.store(MASS + at, mass, mask=rows < n)


@triton.jit
def slopes(
    s, gx, lx, vx, gy, ly, vy, PE, PW,
    ENERGY: tl.constexpr, ESHAPE: tl.constexpr, WEIGHT: tl.constexpr, WSHAPE: tl.constexpr, KIND: tl.constexpr,
    DETACH: tl.constexpr, FROM_Y: tl.constexpr, LEARN: tl.constexpr, LEARN_Y: tl.constexpr,
):  # fmt: skip
    """dL/ds of a tile whose rows (and with FROM_Y whose columns) ask; g, l, v are upstream, log mass and value.

    Second: dL/da of every entry, where a multiplies s in the energy (LEARN = 1) or in the weight (2).
    """
    learned = tl.zeros_like(s)
    if KIND == TOTAL:
        _, dw = evaluate(s, PW, WEIGHT, WSHAPE)
        g = tl.zeros_like(s) + gx[:, None]
        both = g
        if FROM_Y:
            both = g + gy[None, :]
        ds = both * dw
        if LEARN == 2:
            learned = (both if LEARN_Y else g) * s
    else:
        e, de = evaluate(s, PE, ENERGY, ESHAPE)
        px = gx[:, None] * tl.exp(tl.minimum(e - lx[:, None], 0.0))
        p = px
        if FROM_Y:
            py = gy[None, :] * tl.exp(tl.minimum(e - ly[None, :], 0.0))
            p = px + py
        if KIND == LSE:
            ds = p * de
            if LEARN == 1:
                learned = (p if LEARN_Y else px) * s
        else:
            w, dw = evaluate(s, PW, WEIGHT, WSHAPE)
            ds = p * dw
            if LEARN == 2:
                learned = (p if LEARN_Y else px) * s
            if not DETACH:
                dex = px * (w - vx[:, None])
                dey = dex
                if FROM_Y:
                    dey = dex + py * (w - vy[None, :])
                ds += dey * de
                if LEARN == 1:
                    learned = (dey if LEARN_Y else dex) * s
    return ds, learned


@triton.jit
def pull_rows(
    X, Y, DX, LEARNED, GX, LX, VX, GY, LY, VY, PE, PW, XID, YID, XLAB, YLAB, n, m, d, sx, sy, period, share,
    ENERGY: tl.constexpr, ESHAPE: tl.constexpr, WEIGHT: tl.constexpr, WSHAPE: tl.constexpr, KIND: tl.constexpr,
    DETACH: tl.constexpr, FROM_X: tl.constexpr, FROM_Y: tl.constexpr, LEARN: tl.constexpr, LEARN_Y: tl.constexpr,
    PERIODIC: tl.constexpr, SAME: tl.constexpr, UNLIKE: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_D: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """dL/dx_i = Σ_j dL/ds_ij y_j over one share of the columns; grid (row blocks, shares).

    FROM_X: the rows are queries; FROM_Y: the columns are.
    """
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    part = tl.program_id(1)
    inside = rows < n
    x_item, x_label = identity(rows, n, period, XID, PERIODIC, SAME), label(rows, n, XLAB, UNLIKE)
    gx = tl.load(GX + rows, mask=inside & FROM_X, other=0.0)
    lx = tl.load(LX + rows, mask=inside & FROM_X, other=0.0)
    vx = tl.load(VX + rows, mask=inside & FROM_X, other=0.0)
    width = tl.arange(0, BLOCK_D)
    dx = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    sums = tl.zeros((BLOCK_M,), tl.float32)
    for start in range(part * share, tl.minimum(m, (part + 1) * share), BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        s = similarities(X, Y, rows, cols, n, m, d, sx, sy, BLOCK_M, BLOCK_N, BLOCK_K, PRECISION)
        y_item, y_label = identity(cols, m, period, YID, PERIODIC, SAME), label(cols, m, YLAB, UNLIKE)
        yes = counting(rows, cols, n, m, x_item, y_item, x_label, y_label, PERIODIC, SAME, UNLIKE)
        asking = (cols < m) & FROM_Y
        gy = tl.load(GY + cols, mask=asking, other=0.0)
        ly = tl.load(LY + cols, mask=asking, other=0.0)
        vy = tl.load(VY + cols, mask=asking, other=0.0)
        ds, learned = slopes(
            s, gx, lx, vx, gy, ly, vy, PE, PW, ENERGY, ESHAPE, WEIGHT, WSHAPE, KIND, DETACH, FROM_Y, LEARN, LEARN_Y
        )
        ds = tl.where(yes, ds, 0.0)
        if LEARN != 0:
            sums += tl.sum(tl.where(yes, learned, 0.0), 1)
        y = block(Y, cols, m, width, d, sy)
        dx = tl.dot(ds, y, dx, input_precision=PRECISION)
    at = part.to(tl.int64) * n + rows
    tl.store(DX + at[:, None] * d + width[None, :], dx, mask=inside[:, None] & (width < d)[None, :])
    if LEARN != 0:
        tl.store(LEARNED + at, sums, mask=inside)


@triton.jit
def nearest_strip(
    S, LIMIT, TOP, MASS, MOMENT, PE, PW, XID, YID, XLAB, YLAB, first, n, m, period, k,
    ENERGY: tl.constexpr, ESHAPE: tl.constexpr, WEIGHT: tl.constexpr, WSHAPE: tl.constexpr, KIND: tl.constexpr,
    PERIODIC: tl.constexpr, SAME: tl.constexpr, UNLIKE: tl.constexpr, SUMS: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """The k-th largest of each row of a strip, exactly, and the sums over those not below it; one program per row.

    The row stays in registers. Floats are compared as integers of the same order, and the limit is built bit by bit
    from the highest: the largest number that k entries reach. `first` is the strip's first row, `n` ends it.
    """
    local = tl.program_id(0)
    cols = tl.arange(0, BLOCK_N)
    rows = first + local + tl.zeros((1,), tl.int32)
    x_item, x_label = identity(rows, n, period, XID, PERIODIC, SAME), label(rows, n, XLAB, UNLIKE)
    y_item, y_label = identity(cols, m, period, YID, PERIODIC, SAME), label(cols, m, YLAB, UNLIKE)
    yes = counting(rows, cols, n, m, x_item, y_item, x_label, y_label, PERIODIC, SAME, UNLIKE)
    yes = tl.reshape(yes, (BLOCK_N,))
    s = tl.load(S + local.to(tl.int64) * m + cols, mask=cols < m, other=0.0) + 0.0  # −0 and 0 are one number
    bits = tl.where(yes, s, float("-inf")).to(tl.int32, bitcast=True)
    key = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    reached = tl.where(tl.sum((key >= 0).to(tl.int32), 0) >= k, 0, -2147483648)
    for step in range(0, 31):
        higher = reached + (1 << (30 - step))
        reached = tl.where(tl.sum((key >= higher).to(tl.int32), 0) >= k, higher, reached)
    limit = tl.where(reached < 0, reached ^ 0x7FFFFFFF, reached).to(tl.float32, bitcast=True)
    tl.store(LIMIT + first + local, limit)
    if SUMS:
        near = yes & (key >= reached)
        if KIND == TOTAL:
            w, _ = evaluate(s, PW, WEIGHT, WSHAPE)
            tl.store(MOMENT + first + local, tl.sum(tl.where(near, w, 0.0), 0))
        else:
            e, _ = evaluate(s, PE, ENERGY, ESHAPE)
            e = tl.where(near, e, float("-inf"))
            top = tl.maximum(tl.max(e, 0), LOWEST)
            p = tl.exp(e - top)
            tl.store(TOP + first + local, top)
            tl.store(MASS + first + local, tl.sum(p, 0))
            if KIND == EXPECTATION:
                w, _ = evaluate(s, PW, WEIGHT, WSHAPE)
                tl.store(MOMENT + first + local, tl.sum(p * tl.where(near, w, 0.0), 0))


@triton.jit
def pull_strip(
    S, LIMIT, LEARNED, GX, LX, VX, PE, PW, XID, YID, XLAB, YLAB, first, n, m, period,
    ENERGY: tl.constexpr, ESHAPE: tl.constexpr, WEIGHT: tl.constexpr, WSHAPE: tl.constexpr, KIND: tl.constexpr,
    DETACH: tl.constexpr, LEARN: tl.constexpr, PERIODIC: tl.constexpr, SAME: tl.constexpr, UNLIKE: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """S ↦ dL/dS in place, for entries that reach their row's limit; grid (row blocks of the strip, column blocks)."""
    local = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    rows = first + local
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = rows < n
    x_item, x_label = identity(rows, n, period, XID, PERIODIC, SAME), label(rows, n, XLAB, UNLIKE)
    y_item, y_label = identity(cols, m, period, YID, PERIODIC, SAME), label(cols, m, YLAB, UNLIKE)
    yes = counting(rows, cols, n, m, x_item, y_item, x_label, y_label, PERIODIC, SAME, UNLIKE)
    gx = tl.load(GX + rows, mask=inside, other=0.0)
    lx = tl.load(LX + rows, mask=inside, other=0.0)
    vx = tl.load(VX + rows, mask=inside, other=0.0)
    there = inside[:, None] & (cols < m)[None, :]
    at = S + local[:, None].to(tl.int64) * m + cols[None, :]
    s = tl.load(at, mask=there, other=0.0)
    yes = yes & (s >= tl.load(LIMIT + rows, mask=inside, other=0.0)[:, None])
    none = tl.zeros((BLOCK_N,), tl.float32)
    ds, learned = slopes(
        s, gx, lx, vx, none, none, none, PE, PW, ENERGY, ESHAPE, WEIGHT, WSHAPE, KIND, DETACH, False, LEARN, False
    )
    tl.store(at, tl.where(yes, ds, 0.0), mask=there)
    if LEARN != 0:
        total = tl.sum(tl.where(yes, learned, 0.0), 1)
        tl.store(LEARNED + rows.to(tl.int64) * tl.num_programs(1) + tl.program_id(1), total, mask=inside)
