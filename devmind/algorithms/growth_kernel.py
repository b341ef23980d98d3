"""The products of gathered blocks as Triton kernels, for GPUs of CUDA and ROCm; `devmind.algorithms.growth` calls them.

A program multiplies the blocks of one group and `COLUMNS` columns, and reads each block from where it lies: nothing is
gathered in memory. Sums have a fixed order on every device, as blocks that write to the same group are sorted first,
so there are no atomic additions. Triton's interpreter agrees with torch, and its compiler makes programs for cards of
both makers; no card has run them yet.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

# mypy: allow-incomplete-defs

COLUMNS = tl.constexpr(64)
"""Columns of a tile."""


@triton.jit
def _multiply(found, weights, x, entries, strides, n, ROWS: tl.constexpr, DEPTH: tl.constexpr, PRECISION: tl.constexpr):
    """found [R, ROWS, n]: over entries e = begins[r] .. begins[r + 1] - 1, the sum of the weights' block [ROWS, DEPTH]
    at origins[e] times x[ends[e]] [DEPTH, n]."""
    begins, origins, ends = entries
    down, across, x_block, x_row, x_column = strides
    row = tl.program_id(0)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    rows, depth = tl.arange(0, ROWS), tl.arange(0, DEPTH)
    there = columns[None, :] < n
    block = rows[:, None] * down + depth[None, :] * across
    read = depth[:, None] * x_row + columns[None, :] * x_column
    total = tl.full((ROWS, COLUMNS), 0.0, tl.float32)
    for entry in range(tl.load(begins + row), tl.load(begins + row + 1)):
        left = tl.load(weights + tl.load(origins + entry) + block)
        right = tl.load(x + tl.load(ends + entry) * x_block + read, mask=there, other=0.0)
        total = tl.dot(left, right, total, input_precision=PRECISION)
    place = found + row.to(tl.int64) * ROWS * n + rows[:, None] * n + columns[None, :]
    tl.store(place, total.to(found.dtype.element_ty), mask=there)


@triton.jit
def _outer(found, d, x, sources, strides, reads, n, ROWS: tl.constexpr, SIZE: tl.constexpr, PRECISION: tl.constexpr):
    """found [G, ROWS, reads SIZE], of which a program makes [ROWS, SIZE]: d[group] times what it reads, transposed."""
    d_group, d_row, d_column, x_block, x_row, x_column = strides
    entry = tl.program_id(0).to(tl.int64)
    group, read = entry // reads, entry % reads
    rows, side, columns = tl.arange(0, ROWS), tl.arange(0, SIZE), tl.arange(0, COLUMNS)
    left = d + group * d_group + rows[:, None] * d_row
    right = x + tl.load(sources + entry) * x_block + side[None, :] * x_row
    total = tl.full((ROWS, SIZE), 0.0, tl.float32)
    for begin in range(0, n, COLUMNS):
        at = begin + columns
        of_d = tl.load(left + at[None, :] * d_column, mask=at[None, :] < n, other=0.0)
        of_x = tl.load(right + at[:, None] * x_column, mask=at[:, None] < n, other=0.0)
        total = tl.dot(of_d, of_x, total, input_precision=PRECISION)
    place = found + (group * ROWS + rows[:, None]) * reads * SIZE + read * SIZE + side[None, :]
    tl.store(place, total.to(found.dtype.element_ty))


def _precision() -> str:
    """Of float32, as torch's own products have it; ROCm's cards have full precision alone."""
    return "tf32" if torch.backends.cuda.matmul.allow_tf32 and not torch.version.hip else "ieee"


def _run(found: Tensor, weights: Tensor, x: Tensor, entries: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    (rows, side, n), strides = found.shape, (*weights.stride()[1:], *x.stride())
    grid = rows, triton.cdiv(n, COLUMNS.value)
    _multiply[grid](found, weights, x, entries, strides, n, ROWS=side, DEPTH=x.shape[1], PRECISION=_precision())
    return found


def gather_matmul(x: Tensor, weights: Tensor, sources: Tensor) -> Tensor:
    """See `growth.gather_matmul`; nothing is empty."""
    (groups, reads), size = sources.shape, x.shape[1]
    entries = torch.arange(groups * reads, device=x.device)
    origins = entries // reads * weights.stride(0) + entries % reads * size * weights.stride(2)
    begins = torch.arange(groups + 1, device=x.device) * reads
    found = x.new_empty(groups, weights.shape[1], x.shape[2])
    return _run(found, weights, x, (begins, origins, sources.flatten()))


def scatter_matmul(h: Tensor, weights: Tensor, targets: Tensor, outputs: int) -> Tensor:
    """See `growth.scatter_matmul`; nothing is empty."""
    writes = targets.shape[1]
    size = weights.shape[1] // writes
    ends, order = targets.flatten().sort(stable=True)
    group = order // writes
    origins = group * weights.stride(0) + order % writes * size * weights.stride(1)
    begins = torch.searchsorted(ends, torch.arange(outputs + 1, device=h.device))
    found = h.new_empty(outputs, size, h.shape[2])
    return _run(found, weights, h, (begins, origins, group))


def gather_outer(d: Tensor, x: Tensor, sources: Tensor) -> Tensor:
    """See `growth.gather_outer`; nothing is empty."""
    (groups, reads), (_, size, columns) = sources.shape, x.shape
    (rows, precision), strides = (d.shape[1], _precision()), (*d.stride(), *x.stride())
    found = d.new_empty(groups, rows, reads * size)
    grid, ends = (groups * reads,), sources.contiguous()
    _outer[grid](found, d, x, ends, strides, reads, columns, ROWS=rows, SIZE=size, PRECISION=precision)
    return found
