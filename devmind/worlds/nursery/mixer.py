"""The compiled sound mixer: it reads each source from its table with each ear's delay, level and dullness.

Level falls with 1 / distance; an ear turned away hears quieter and duller sound. Delay and level move linearly within
the tick from the old geometry to the new one, so tones are continuous over ticks, and head turns make no clicks.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit, prange

EAR_M = 0.09  # from the head's centre
EAR_AXIS_DEG = 70.0  # ears open sideways and a little forwards, which tells front from back
SOUND_M_S = 343.0
REFERENCE = 0.08  # RMS of a tone of loudness 1 at 1 m
NEAREST_M = 0.3
SHADOW = 0.4  # an ear turned fully away hears (1 - SHADOW) / (1 + SHADOW) of one turned to the source
_ONE = np.float32(1.0)


@njit(error_model="numpy")
def _at_ear(x, y, z, pan, lean, side):
    """Delay (s), bright and dull gain of a source at an ear; side is +1 for the left ear."""
    ex, ey = lean - side * EAR_M * math.sin(pan), side * EAR_M * math.cos(pan)
    distance = math.sqrt((x - ex) ** 2 + (y - ey) ** 2 + z * z)
    centre = max(math.sqrt((x - lean) ** 2 + y * y + z * z), 1e-6)
    axis = pan + side * EAR_AXIS_DEG * math.pi / 180.0
    facing = ((x - lean) * math.cos(axis) + y * math.sin(axis)) / centre
    gain = REFERENCE / max(distance, NEAREST_M) * (1.0 + SHADOW * facing)
    dull = 0.45 * (1.0 - facing)
    return distance / SOUND_M_S, gain * (1.0 - dull), gain * dull


@njit(error_model="numpy")
def _add(out, table, phase, phase_step, bright, bright_step, dull, dull_step, start, env, decay):
    size = np.float32(table.shape[0] - 1)
    wrap = np.int32(table.shape[0] - 2)
    for k in range(start, out.shape[0]):
        s = np.float32(np.int32(k))
        at = (phase + phase_step * s) * size
        whole = np.int32(at)
        part = at - np.float32(whole)
        i = whole & wrap
        b = table[i, 0] + part * (table[i + 1, 0] - table[i, 0])
        d = table[i, 1] + part * (table[i + 1, 1] - table[i, 1])
        out[k] += env * ((bright + bright_step * s) * b + (dull + dull_step * s) * d)
        env *= decay


@njit(error_model="numpy")
def _background(out, key, level):
    """White noise as a hash of the sample's number, so it needs no state."""
    for k in range(out.shape[0]):
        h = np.uint32(key + np.uint32(k) * np.uint32(2654435761))
        h = np.uint32((h ^ (h >> np.uint32(15))) * np.uint32(2246822519))
        h = np.uint32((h ^ (h >> np.uint32(13))) * np.uint32(3266489917))
        h = np.uint32(h ^ (h >> np.uint32(16)))
        out[k] = level * (np.float32(np.int32(h >> np.uint32(8))) * np.float32(2.0**-23) - _ONE)


@njit(parallel=True, nogil=True, cache=True, error_model="numpy")
def mix(tables, which, where, hertz, phase, level, onset, tau, pan, lean, noise, key, rate, out):
    """Mix N children's tick.

    Args:
        tables: float32 [K, L + 1, 2]; L a power of two.
        which: int64 [N, V] table of each source; -1: silent.
        where: [N, V, 2, 3] source positions, room frame, at the tick's start and end.
        hertz: [N, V] cycles a second. phase: [N, V, 2] cycles at start and end. level: [N, V, 2] loudness there.
        onset: [N, V] s after the tick's start, negative: before. tau: [N, V] decay time in s, 0: steady.
        pan: [N, 2] radians and lean [N, 2] at start and end. noise: [N] amplitude. key: uint32 [N].
        rate: samples a second. out: float32 [N, 2, S], written: left, right, within -1..1.
    """
    samples = out.shape[2]
    for n in prange(out.shape[0]):
        for ear in range(2):
            side = 1.0 - 2.0 * ear
            row = out[n, ear]
            _background(row, np.uint32(key[n] + np.uint32(ear * 7919)), np.float32(noise[n]))
            for s in range(which.shape[1]):
                if which[n, s] < 0:
                    continue
                a, b = where[n, s, 0], where[n, s, 1]
                delay0, bright0, dull0 = _at_ear(a[0], a[1], a[2], pan[n, 0], lean[n, 0], side)
                delay1, bright1, dull1 = _at_ear(b[0], b[1], b[2], pan[n, 1], lean[n, 1], side)
                first, last = phase[n, s, 0] - hertz[n, s] * delay0, phase[n, s, 1] - hertz[n, s] * delay1
                begin, env, decay = 0, 1.0, 1.0
                if tau[n, s] > 0.0:
                    arrival = onset[n, s] + delay0
                    begin = min(max(0, math.ceil(arrival * rate)), samples)
                    env, decay = math.exp(-(begin / rate - arrival) / tau[n, s]), math.exp(-1.0 / (rate * tau[n, s]))
                loud0, loud1 = level[n, s, 0], level[n, s, 1]
                _add(
                    row,
                    tables[which[n, s]],
                    np.float32(first - math.floor(first)),
                    np.float32((last - first) / samples),
                    np.float32(loud0 * bright0),
                    np.float32((loud1 * bright1 - loud0 * bright0) / samples),
                    np.float32(loud0 * dull0),
                    np.float32((loud1 * dull1 - loud0 * dull0) / samples),
                    begin,
                    np.float32(env),
                    np.float32(decay),
                )
            for k in range(samples):
                row[k] = min(max(row[k], -_ONE), _ONE)
