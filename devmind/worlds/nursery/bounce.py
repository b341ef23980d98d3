"""The compiled part of the dynamics: free objects roll, lose speed slowly, and bounce off each other and the walls."""

from __future__ import annotations

import math

from numba import njit

FRICTION = 0.985  # of the speed that is left after a tick
CHILD_M, CAREGIVER_M = 0.4, 0.25  # upright posts that objects bounce off


@njit(error_model="numpy")
def _post(position, velocity, x, y, radius):
    """Bounce off an upright post; returns the speed of the hit."""
    dx, dy = position[0] - x, position[1] - y
    distance = math.sqrt(dx * dx + dy * dy)
    if distance >= radius or distance < 1e-9:
        return 0.0
    dx, dy = dx / distance, dy / distance
    position[0], position[1] = x + radius * dx, y + radius * dy
    along = velocity[0] * dx + velocity[1] * dy
    if along >= 0.0:
        return 0.0
    velocity[0] -= 2.0 * along * dx
    velocity[1] -= 2.0 * along * dy
    return -along


@njit(error_model="numpy")
def _walls(position, velocity, size, low, high):
    hit = 0.0
    for axis in range(2):
        if position[axis] < low[axis] + size and velocity[axis] < 0.0:
            position[axis] = low[axis] + size
            hit, velocity[axis] = max(hit, -velocity[axis]), -velocity[axis]
        elif position[axis] > high[axis] - size and velocity[axis] > 0.0:
            position[axis] = high[axis] - size
            hit, velocity[axis] = max(hit, velocity[axis]), -velocity[axis]
    return hit


@njit(error_model="numpy")
def _pair(p, q, v, w, radius, p_free, q_free):
    """Two bodies of equal mass; one that is not free stands like a wall. Returns the speed of the hit."""
    dx, dy, dz = q[0] - p[0], q[1] - p[1], q[2] - p[2]
    flat = math.sqrt(dx * dx + dy * dy)
    if math.sqrt(flat * flat + dz * dz) >= radius or flat < 1e-9:
        return 0.0
    apart = math.sqrt(max(radius * radius - dz * dz, 0.0)) - flat
    dx, dy = dx / flat, dy / flat
    along = (w[0] - v[0]) * dx + (w[1] - v[1]) * dy
    share = 0.5 if p_free and q_free else 1.0
    kick = min(along, 0.0) * 2.0 * share
    if p_free:
        p[0] -= apart * share * dx
        p[1] -= apart * share * dy
        v[0] += kick * dx
        v[1] += kick * dy
    if q_free:
        q[0] += apart * share * dx
        q[1] += apart * share * dy
        w[0] -= kick * dx
        w[1] -= kick * dy
    return max(-along, 0.0)


@njit(cache=True, error_model="numpy")
def roll(position, velocity, size, present, free, lean, caregiver, caregiver_position, low, high, tick_s, contact):
    """Move the free objects of N children by one tick, in place.

    Args:
        position, velocity: float64 [N, O, 3]. size: [N, O]. present, free: bool [N, O].
        lean: [N]. caregiver: bool [N]. caregiver_position: [N, 3]. low, high: the room's corners [3].
        contact: [N, O], raised to the speed (m/s) of the hardest hit of each object.
    """
    for n in range(position.shape[0]):
        p, v, hits = position[n], velocity[n], contact[n]
        for i in range(p.shape[0]):
            if not free[n, i] or not present[n, i]:
                continue
            for axis in range(2):
                v[i, axis] *= FRICTION
                p[i, axis] += v[i, axis] * tick_s
            hit = _post(p[i], v[i], lean[n], 0.0, CHILD_M + size[n, i])
            if caregiver[n]:
                x, y = caregiver_position[n, 0], caregiver_position[n, 1]
                hit = max(hit, _post(p[i], v[i], x, y, CAREGIVER_M + size[n, i]))
            hits[i] = max(hits[i], hit)
        for i in range(p.shape[0]):
            for j in range(i + 1, p.shape[0]):
                if present[n, i] and present[n, j] and (free[n, i] or free[n, j]):
                    radius = size[n, i] + size[n, j]
                    hit = _pair(p[i], p[j], v[i], v[j], radius, free[n, i], free[n, j])
                    hits[i], hits[j] = max(hits[i], hit), max(hits[j], hit)
        for i in range(p.shape[0]):
            if free[n, i] and present[n, i]:
                hits[i] = max(hits[i], _walls(p[i], v[i], size[n, i], low, high))
