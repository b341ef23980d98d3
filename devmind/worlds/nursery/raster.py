"""The renderer: a compiled ray caster of a textured room with spheres, boxes and cylinders.

Picture, depth and mask come from one kernel with one signature, parallel over children, each child on its own: the
result depends neither on the batch nor on the number of threads (no fastmath). What makes it fast: the background is
branch-free float32 along a row of planar buffers, which LLVM vectorises; a primitive is only tried inside its box on
the screen. Depth is planar: metres along the optical axis, as depth cameras give it.

A primitive is a row of PRIM float32: kind, mask id, centre (3), half sizes (3), cos and sin of yaw, colour (3), and
texture. Rays are taken into each primitive's own frame, where it is a unit sphere, cube or upright cylinder.

All in one file, because the compiler's disk cache watches only the file of the kernel that is called.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit, prange

PRIM = 14
KIND_NONE, KIND_SPHERE, KIND_BOX, KIND_CYLINDER = range(4)
_OWN = 16  # numbers a primitive has in the camera's frame: origin, forward, left, up, light (3 each), |origin|^2 - 1

_ZERO = np.float32(0.0)
_HALF = np.float32(0.5)
_ONE = np.float32(1.0)
_TWO = np.float32(2.0)
_SHIFT = np.float32(64.0)  # makes texture coordinates positive, so that truncation is floor
_NEAR = np.float32(0.02)
_FAR = np.float32(1e9)
_AMBIENT = np.float32(0.5)
_DARK = np.float32(0.62)
_PATCHES = np.float32(1.7)  # texture patches along a unit of the body
_TINY = np.float32(1e-7)
_LIGHT = (-0.45, 0.35, 0.82)  # towards the lamp: above, behind and left of the child, so that seen sides are lit


@njit(error_model="numpy")
def _background_row(eye, forward, left, up, slopes, v, room, planes, r, g, b, z):
    """One row of the room's six planes; the ceiling or floor, and each wall's side, are chosen without branches."""
    ox, oy, oz = eye[0], eye[1], eye[2]
    bx, by = forward[0] + v * up[0], forward[1] + v * up[1]
    dz = forward[2] + v * up[2]  # the left axis is level, so a whole row shares it
    upper = 5 if dz > _ZERO else 4
    zr, zg, zb, zp, zq, zc = planes[upper]
    tz = ((room[5] if dz > _ZERO else room[4]) - oz) / dz if abs(dz) > _TINY else _FAR
    r0, g0, b0, p0, q0, c0 = planes[0]
    r1, g1, b1, p1, q1, c1 = planes[1]
    r2, g2, b2, p2, q2, c2 = planes[2]
    r3, g3, b3, p3, q3, c3 = planes[3]
    lx, hx, ly, hy = room[0], room[1], room[2], room[3]
    for c in range(slopes.shape[0]):
        dx = bx + slopes[c] * left[0]
        dy = by + slopes[c] * left[1]
        px = dx > _ZERO
        py = dy > _ZERO
        tx = ((hx if px else lx) - ox) / dx
        ty = ((hy if py else ly) - oy) / dy
        side = tx < ty
        t = tx if side else ty
        level = tz < t
        t = tz if level else t
        x = ox + t * dx
        y = oy + t * dy
        first = x if level else (y if side else x)
        second = y if level else oz + t * dz
        freq_a = zp if level else ((p1 if px else p0) if side else (p3 if py else p2))
        freq_b = zq if level else ((q1 if px else q0) if side else (q3 if py else q2))
        contrast = zc if level else ((c1 if px else c0) if side else (c3 if py else c2))
        u = (first * freq_a + _SHIFT) * _HALF
        w = (second * freq_b + _SHIFT) * _HALF
        u = u - np.float32(np.int32(u))
        w = w - np.float32(np.int32(w))
        even = (_ONE if u < _HALF else -_ONE) * (_ONE if w < _HALF else -_ONE)
        shade = _ONE + contrast * even
        r[c] = shade * (zr if level else ((r1 if px else r0) if side else (r3 if py else r2)))
        g[c] = shade * (zg if level else ((g1 if px else g0) if side else (g3 if py else g2)))
        b[c] = shade * (zb if level else ((b1 if px else b0) if side else (b3 if py else b2)))
        z[c] = t


@njit(error_model="numpy")
def _texture(kind, x, y, z):
    """Brightness at a point of the unit body: plain, bands by height, stripes across, checks."""
    if kind == 0:
        return _ONE
    u = (x + y) * _PATCHES + _SHIFT
    w = z * _PATCHES + _SHIFT
    bands = np.int32(w) & np.int32(1)
    stripes = np.int32(u) & np.int32(1)
    dark = bands if kind == 1 else (stripes if kind == 2 else bands ^ stripes)
    return _DARK if dark else _ONE


@njit(error_model="numpy")
def _paint(c, t, own, prim, x, y, z, nx, ny, nz, r, g, b, depth, mask):
    """Write one hit: local point (x, y, z), local normal (nx, ny, nz)."""
    lambert = nx * own[12] + ny * own[13] + nz * own[14]
    shade = _AMBIENT + (_ONE - _AMBIENT) * max(lambert, _ZERO)
    shade *= _texture(np.int32(prim[13]), x, y, z)
    r[c], g[c], b[c] = prim[10] * shade, prim[11] * shade, prim[12] * shade
    depth[c] = t
    mask[c] = np.uint8(prim[1])


@njit(error_model="numpy")
def _sphere_row(c0, c1, slopes, v, own, prim, r, g, b, depth, mask):
    ax, ay, az = own[3] + v * own[9], own[4] + v * own[10], own[5] + v * own[11]
    for c in range(c0, c1):
        s = slopes[c]
        dx, dy, dz = ax + s * own[6], ay + s * own[7], az + s * own[8]
        qa = dx * dx + dy * dy + dz * dz
        qb = own[0] * dx + own[1] * dy + own[2] * dz
        disc = qb * qb - qa * own[15]
        if disc > _ZERO:
            t = (-qb - math.sqrt(disc)) / qa
            if _NEAR < t < depth[c]:
                x, y, z = own[0] + t * dx, own[1] + t * dy, own[2] + t * dz
                _paint(c, t, own, prim, x, y, z, x, y, z, r, g, b, depth, mask)


@njit(error_model="numpy")
def _box_row(c0, c1, slopes, v, own, prim, r, g, b, depth, mask):
    ax, ay, az = own[3] + v * own[9], own[4] + v * own[10], own[5] + v * own[11]
    for c in range(c0, c1):
        s = slopes[c]
        dx, dy, dz = ax + s * own[6], ay + s * own[7], az + s * own[8]
        sx, sy, sz = (_ONE if dx < _ZERO else -_ONE), (_ONE if dy < _ZERO else -_ONE), (_ONE if dz < _ZERO else -_ONE)
        tx, ty, tz = (sx - own[0]) / dx, (sy - own[1]) / dy, (sz - own[2]) / dz
        t = max(tx, ty, tz)
        leave = min((-sx - own[0]) / dx, (-sy - own[1]) / dy, (-sz - own[2]) / dz)
        if t < leave and _NEAR < t < depth[c]:
            x, y, z = own[0] + t * dx, own[1] + t * dy, own[2] + t * dz
            on_x = t == tx
            on_y = t == ty and not on_x
            nx = sx if on_x else _ZERO
            ny = sy if on_y else _ZERO
            nz = _ZERO if on_x or on_y else sz
            _paint(c, t, own, prim, x, y, z, nx, ny, nz, r, g, b, depth, mask)


@njit(error_model="numpy")
def _cylinder_row(c0, c1, slopes, v, own, prim, r, g, b, depth, mask):
    ax, ay, az = own[3] + v * own[9], own[4] + v * own[10], own[5] + v * own[11]
    around = own[0] * own[0] + own[1] * own[1] - _ONE
    for c in range(c0, c1):
        s = slopes[c]
        dx, dy, dz = ax + s * own[6], ay + s * own[7], az + s * own[8]
        qa = dx * dx + dy * dy
        qb = own[0] * dx + own[1] * dy
        disc = qb * qb - qa * around
        if disc <= _ZERO:
            continue
        t = (-qb - math.sqrt(disc)) / qa
        z = own[2] + t * dz
        cap = -_ONE if dz > _ZERO else _ONE
        on_cap = abs(z) > _ONE
        if on_cap:
            t = (cap - own[2]) / dz
            z = cap
        x, y = own[0] + t * dx, own[1] + t * dy
        if _NEAR < t < depth[c] and not (on_cap and x * x + y * y > _ONE):
            if on_cap:
                _paint(c, t, own, prim, x, y, z, _ZERO, _ZERO, cap, r, g, b, depth, mask)
            else:
                _paint(c, t, own, prim, x, y, z, x, y, _ZERO, r, g, b, depth, mask)


@njit(error_model="numpy")
def _into_own_frame(prim, eye, forward, left, up, own):
    """The camera and the lamp in the primitive's frame (see _OWN)."""
    cos, sin = prim[8], prim[9]
    for k in range(5):
        if k == 0:
            x, y, z = eye[0] - prim[2], eye[1] - prim[3], eye[2] - prim[4]
        elif k == 1:
            x, y, z = forward[0], forward[1], forward[2]
        elif k == 2:
            x, y, z = left[0], left[1], left[2]
        elif k == 3:
            x, y, z = up[0], up[1], up[2]
        else:
            x, y, z = np.float32(_LIGHT[0]), np.float32(_LIGHT[1]), np.float32(_LIGHT[2])
        own[3 * k] = cos * x + sin * y
        own[3 * k + 1] = cos * y - sin * x
        own[3 * k + 2] = z
        if k < 4:
            for axis in range(3):
                own[3 * k + axis] /= prim[5 + axis]
    own[15] = own[0] * own[0] + own[1] * own[1] + own[2] * own[2] - _ONE


@njit(error_model="numpy")
def _slope_range(prim, eye, forward, axis):
    """Least and greatest slope (sideways over forwards) of a primitive along one screen axis; (1, -1): not in front."""
    cx, cy, cz = prim[2] - eye[0], prim[3] - eye[1], prim[4] - eye[2]
    ahead = cx * forward[0] + cy * forward[1] + cz * forward[2]
    aside = cx * axis[0] + cy * axis[1] + cz * axis[2]
    if prim[0] == KIND_SPHERE:
        radius = prim[5]
        if ahead + radius <= _NEAR:
            return _ONE, -_ONE
        if ahead - radius <= _NEAR:
            return -_FAR, _FAR
        root = radius * math.sqrt(aside * aside + ahead * ahead - radius * radius)
        below = ahead * ahead - radius * radius
        return (aside * ahead - root) / below, (aside * ahead + root) / below
    low, high, front = _FAR, -_FAR, -_FAR
    for corner in range(8):
        x = prim[5] * np.float32((corner & 1) * 2 - 1)
        y = prim[6] * np.float32((corner & 2) - 1)
        dz = prim[7] * np.float32((corner & 4) // 2 - 1)
        dx, dy = prim[8] * x - prim[9] * y, prim[9] * x + prim[8] * y
        w = ahead + dx * forward[0] + dy * forward[1] + dz * forward[2]
        front = max(front, w)
        if w <= _NEAR:
            low, high = -_FAR, _FAR
        else:
            slope = (aside + dx * axis[0] + dy * axis[1] + dz * axis[2]) / w
            low, high = min(low, slope), max(high, slope)
    if front <= _NEAR:
        return _ONE, -_ONE
    return low, high


@njit(error_model="numpy")
def _pixel_range(low, high, half, size):
    """First and last + 1 pixel whose slopes can lie within [low, high]; slopes fall from +half to -half."""
    if low > high or low > half or high < -half:
        return 0, 0
    scale = np.float32(size) / (_TWO * half)
    first = max(0, math.floor((half - min(high, half)) * scale - _ONE))
    last = min(size, math.ceil((half - max(low, -half)) * scale + _ONE))
    return first, last


@njit(error_model="numpy")
def _to_bytes(values, out):
    for c in range(values.shape[0]):
        out[c] = np.uint8(np.int32(values[c]))


@njit(error_model="numpy")
def _interleave(planar, out):
    for c in range(planar.shape[1]):
        out[3 * c], out[3 * c + 1], out[3 * c + 2] = planar[0, c], planar[1, c], planar[2, c]


@njit(error_model="numpy")
def _draw_child(room, planes, prims, eye, half, rgb, depth, mask):
    size = rgb.shape[0]
    pan, tilt = eye[3], eye[4]
    cp, sp, ct, st = math.cos(pan), math.sin(pan), math.cos(tilt), math.sin(tilt)
    forward, left, up = np.empty(3, np.float32), np.empty(3, np.float32), np.empty(3, np.float32)
    forward[0], forward[1], forward[2] = ct * cp, ct * sp, st
    left[0], left[1], left[2] = -sp, cp, _ZERO
    up[0], up[1], up[2] = -st * cp, -st * sp, ct
    slopes = np.empty(size, np.float32)
    for c in range(size):
        slopes[c] = half * (_ONE - np.float32(2 * c + 1) / np.float32(size))
    own = np.empty((prims.shape[0], _OWN), np.float32)
    box = np.zeros((prims.shape[0], 4), np.int64)
    for p in range(prims.shape[0]):
        if prims[p, 0] != KIND_NONE:
            low, high = _slope_range(prims[p], eye, forward, left)
            box[p, 0], box[p, 1] = _pixel_range(low, high, half, size)
            low, high = _slope_range(prims[p], eye, forward, up)
            box[p, 2], box[p, 3] = _pixel_range(low, high, half, size)
            _into_own_frame(prims[p], eye, forward, left, up, own[p])
    r, g, b = np.empty(size, np.float32), np.empty(size, np.float32), np.empty(size, np.float32)
    planar = np.empty((3, size), np.uint8)
    for row in range(size):
        v = slopes[row]
        z, ids = depth[row], mask[row]
        ids[:] = np.uint8(0)
        _background_row(eye, forward, left, up, slopes, v, room, planes, r, g, b, z)
        for p in range(prims.shape[0]):
            if box[p, 2] <= row < box[p, 3]:
                kind = prims[p, 0]
                if kind == KIND_SPHERE:
                    _sphere_row(box[p, 0], box[p, 1], slopes, v, own[p], prims[p], r, g, b, z, ids)
                elif kind == KIND_BOX:
                    _box_row(box[p, 0], box[p, 1], slopes, v, own[p], prims[p], r, g, b, z, ids)
                else:
                    _cylinder_row(box[p, 0], box[p, 1], slopes, v, own[p], prims[p], r, g, b, z, ids)
        _to_bytes(r, planar[0])
        _to_bytes(g, planar[1])
        _to_bytes(b, planar[2])
        _interleave(planar, rgb[row].reshape(-1))


@njit(parallel=True, nogil=True, cache=True, error_model="numpy")
def draw(room, planes, prims, eyes, half, rgb, depth, mask):
    """Render N children.

    Args:
        room: float32 [6], x low, x high, y low, ...
        planes: float32 [N, 6, 6]; see NurseryState.planes.
        prims: float32 [N, P, PRIM].
        eyes: float32 [N, 5], camera x, y, z (m), pan and tilt (radians).
        half: float32, tangent of half the field of view (both ways).
        rgb: uint8 [N, S, S, 3], written. depth: float32 [N, S, S], written. mask: uint8 [N, S, S], written.
    """
    for n in prange(rgb.shape[0]):
        _draw_child(room, planes[n], prims[n], eyes[n], half, rgb[n], depth[n], mask[n])
