"""Many small networks trained one after another, each for several steps while its weights stay in a core's cache.

Stacked products (`devmind.algorithms.population`) move every weight of every member through memory at each step. Here a
core takes a member, copies its weights into a buffer of its own whose columns are padded to `PANEL`, makes all steps of
a call, and writes the weights back. Its products are tiles of `TILES[0]` x `PANEL` numbers that stay in registers,
written as LLVM vectors, since numba's loops reach a tenth of it; LLVM makes of them what the processor has. An update
is part of the gradient's product: a tile of weights is loaded, decayed, gets -rate X^T D added, and is stored.

Float32 on a CPU, ReLU and the cross-entropy of classes. No other thread takes part in a member's numbers: its bits do
not depend on other members.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import get_num_threads, njit, prange, types
from numba.core import cgutils
from numba.extending import intrinsic

LANES, PANEL, TILES = 8, 16, (6, 4, 1)
BLOCK = 128
"""Rows of the weights that a product goes through before the next ones, so that they stay in the first cache."""


def _make_tile(rows: int) -> Any:
    """C [rows, PANEL] = scale C + A [rows, K] B [K, PANEL], K >= 1; places are addresses, strides count numbers."""
    size, number, vector = 4, ir.FloatType(), ir.VectorType(ir.FloatType(), LANES)
    word, panels = ir.IntType(64), PANEL // LANES

    @intrinsic
    def tile(typing_context, a, a_row, a_k, b, b_k, c, c_row, k, scale):
        def generate(context, build, signature, arguments):
            a, a_row, a_k, b, b_k, c, c_row, k, scale = arguments

            def const(n: int) -> Any:
                return ir.Constant(word, n)

            def at(base: Any, count: Any, stride: Any, kind: Any, more: int = 0) -> Any:
                address = build.add(base, build.mul(build.mul(count, stride), const(size)))
                return build.inttoptr(build.add(address, const(more * size)), kind.as_pointer())

            def spread(x: Any) -> Any:
                one = build.insert_element(ir.Constant(vector, ir.Undefined), x, ir.Constant(ir.IntType(32), 0))
                everywhere = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
                return build.shuffle_vector(one, ir.Constant(vector, ir.Undefined), everywhere)

            name = f"llvm.fmuladd.v{LANES}f32"
            fused = cgutils.get_or_insert_function(build.module, ir.FunctionType(vector, [vector] * 3), name)
            places = [at(c, const(row), c_row, vector, LANES * p) for row in range(rows) for p in range(panels)]
            factor, start = spread(scale), build.block
            begun = [build.fmul(build.load(place, align=size), factor) for place in places]
            loop, done = build.append_basic_block("loop"), build.append_basic_block("done")
            build.branch(loop)
            build.position_at_end(loop)
            n, sums = build.phi(word), [build.phi(vector) for _ in places]
            right = [build.load(at(b, n, b_k, vector, LANES * p), align=size) for p in range(panels)]
            here = build.add(a, build.mul(build.mul(n, a_k), const(size)))
            left = [spread(build.load(at(here, const(row), a_row, number), align=size)) for row in range(rows)]
            pairs = [(one, other) for one in left for other in right]
            after = [build.call(fused, [*pair, one]) for pair, one in zip(pairs, sums, strict=True)]
            following = build.add(n, const(1))
            for phi, first, later in zip((n, *sums), (const(0), *begun), (following, *after), strict=True):
                phi.add_incoming(first, start)
                phi.add_incoming(later, loop)
            build.cbranch(build.icmp_signed("<", following, k), loop, done)
            build.position_at_end(done)
            for place, value in zip(places, after, strict=True):
                build.store(value, place, align=size)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 8, types.float32), generate

    return tile


_TILE_6, _TILE_4, _TILE_1 = (_make_tile(rows) for rows in TILES)


@njit(error_model="numpy")
def _product(a, a_row, a_k, b, b_row, c, c_row, rows, columns, k, scale):
    """C [rows, columns] = scale C + A [rows, k] B [k, columns]; columns are a multiple of PANEL."""
    for begin in range(0, k, BLOCK):
        deep = min(BLOCK, k - begin)
        factor = scale if begin == 0 else np.float32(1.0)
        for column in range(0, columns, PANEL):
            right, row = b + 4 * (begin * b_row + column), 0
            while row < rows:
                left, out = a + 4 * (row * a_row + begin * a_k), c + 4 * (row * c_row + column)
                # 8 rows go as 4 and 4: a tile of one row waits for itself
                if rows - row >= 6 and rows - row != 8:
                    _TILE_6(left, a_row, a_k, right, b_row, out, c_row, deep, factor)
                    row += 6
                elif rows - row >= 4:
                    _TILE_4(left, a_row, a_k, right, b_row, out, c_row, deep, factor)
                    row += 4
                else:
                    _TILE_1(left, a_row, a_k, right, b_row, out, c_row, deep, factor)
                    row += 1


@njit(error_model="numpy", inline="always")
def _exp(x):
    """Within 2e-7 of the exponential, for x up to 0; loops over it become vectors. NaN becomes NaN."""
    x = np.float32(-87.0) if x < np.float32(-87.0) else x
    whole = np.floor(x * np.float32(1.44269504) + np.float32(0.5))
    r = x - whole * np.float32(0.693359375) + whole * np.float32(2.12194440e-4)
    p = np.float32(1.9875691500e-4)
    for c in (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1):
        p = p * r + np.float32(c)
    return (p * r * r + r + np.float32(1.0)) * np.int32((np.int32(whole) + 127) << 23).view(np.float32)


@njit(error_model="numpy", fastmath={"reassoc", "nsz", "contract", "arcp"})
def _cross_entropy(out, labels, rows, classes, factor):
    """Mean cross-entropy of logits [B, wide]; they become factor (p - target), and 0 where there is no class."""
    wide, total = out.size // len(rows), 0.0
    for i in range(len(rows)):
        line, label = out[i * wide : (i + 1) * wide], labels[rows[i]]
        most, target, mass = line[0], line[label], np.float32(0.0)
        for j in range(1, classes):
            most = line[j] if line[j] > most else most
        for panel in range(0, wide, PANEL):
            for j in range(PANEL):
                e = _exp(line[panel + j] - most)
                line[panel + j] = e if panel + j < classes else np.float32(0.0)
                mass += line[panel + j]
        share = factor / mass
        for panel in range(0, wide, PANEL):
            for j in range(PANEL):
                line[panel + j] *= share
        line[label] -= factor
        total += math.log(mass) - (target - most)
    return total / len(rows)


@njit(error_model="numpy")
def _copy(weights, buffer, at, inner, outer, wide, back):
    """A layer's weights and then biases between a member's own place and the buffer with padded columns."""
    for i in range(inner + 1):
        for j in range(outer):
            if back:
                weights[at + i * outer + j] = buffer[i * wide + j]
            else:
                buffer[i * wide + j] = weights[at + i * outer + j]


@njit(error_model="numpy")
def _member(weights, sizes, x, labels, index, rate, decay, buffers, hidden, deltas, turned, losses):
    """All steps of one member; `buffers`, `hidden` and `deltas` are a core's own places, by layer."""
    layers, batch, at = len(sizes) - 1, index.shape[1], 0
    one, none, keep = np.float32(1.0), np.float32(0.0), np.float32(1.0) - rate * decay
    for n in range(layers):
        buffers[n][:] = none
        _copy(weights, buffers[n], at, sizes[n], sizes[n + 1], hidden[n + 1].size // batch, False)
        at += (sizes[n] + 1) * sizes[n + 1]
    for step in range(len(index)):
        rows, width = index[step], sizes[0]
        for i in range(batch):
            row, place = x[rows[i]], hidden[0][i * width : (i + 1) * width]
            for j in range(width):
                place[j] = row[j]
        for n in range(layers):
            w, h, out = buffers[n], hidden[n], hidden[n + 1]
            wide = out.size // batch
            for i in range(batch):
                for j in range(wide):
                    out[i * wide + j] = w[sizes[n] * wide + j]
            a, b, c = h.ctypes.data, w.ctypes.data, out.ctypes.data
            _product(a, h.size // batch, 1, b, wide, c, wide, batch, wide, sizes[n], one)
            if n < layers - 1:
                for i in range(out.size):  # times 0, so that NaN stays
                    out[i] *= one if out[i] > none else none
        out, factor = hidden[layers], -rate / np.float32(batch)
        losses[step] = _cross_entropy(out, labels, rows, sizes[layers], factor)
        deltas[layers][:] = out
        for n in range(layers - 1, -1, -1):
            w, h, d = buffers[n], hidden[n], deltas[n + 1]
            wide, before = d.size // batch, h.size // batch
            if n:
                for i in range(sizes[n]):
                    for j in range(sizes[n + 1]):
                        turned[j * before + i] = w[i * wide + j]
                a, b, c = d.ctypes.data, turned.ctypes.data, deltas[n].ctypes.data
                deltas[n][:] = none
                _product(a, wide, 1, b, before, c, before, batch, before, sizes[n + 1], none)
                for i in range(h.size):
                    deltas[n][i] *= one if h[i] > none else none
            a, b, c = h.ctypes.data, d.ctypes.data, w.ctypes.data
            _product(a, 1, before, b, wide, c, wide, sizes[n], wide, batch, keep)
            bias = w[sizes[n] * wide :]
            for j in range(wide):
                bias[j] *= keep
            for i in range(batch):
                for j in range(wide):
                    bias[j] += d[i * wide + j]
    at = 0
    for n in range(layers):
        _copy(weights, buffers[n], at, sizes[n], sizes[n + 1], hidden[n + 1].size // batch, True)
        at += (sizes[n] + 1) * sizes[n + 1]


@njit(parallel=True, nogil=True, cache=True, error_model="numpy")
def _train(weights, sizes, x, labels, index, rates, decays, cores, losses):
    members, batch, layers = len(weights), index.shape[2], len(sizes) - 1
    for core in prange(cores):
        wides = [(size + PANEL - 1) // PANEL * PANEL for size in sizes]
        wides[0] = sizes[0]
        buffers = [np.empty((sizes[n] + 1) * wides[n + 1], np.float32) for n in range(layers)]
        hidden = [np.empty(batch * wide, np.float32) for wide in wides]
        deltas = [np.empty(batch * (wides[n] if n else 1), np.float32) for n in range(layers + 1)]
        turned = np.zeros(max([wides[n] * sizes[n + 1] if n else 1 for n in range(layers)]), np.float32)
        for member in range(core * members // cores, (core + 1) * members // cores):
            _member(
                weights[member], sizes, x, labels, index[member], rates[member], decays[member], buffers, hidden,
                deltas, turned, losses[member],
            )  # fmt: skip


def train(
    weights: np.ndarray,
    sizes: tuple[int, ...],
    x: np.ndarray,
    labels: np.ndarray,
    index: np.ndarray,
    rates: np.ndarray,
    decays: np.ndarray,
) -> np.ndarray:
    """Make steps of gradient descent with each member's own rows, in place; the losses before each, float64 [P, S].

    Args:
        weights: float32 [P, D]; by layer the weights [in, out], then the biases [out].
        sizes: numbers in, of each hidden layer, and out.
        x: float32 [N, in]; labels: int64 [N].
        index: int32 [P, S, B], the rows of each member's batches.
        rates, decays: float32 [P].
    """
    losses, cores = np.empty(index.shape[:2]), min(len(weights), get_num_threads())
    _train(weights, np.array(sizes, np.int64), x, labels, index, rates, decays, cores, losses)
    return losses
