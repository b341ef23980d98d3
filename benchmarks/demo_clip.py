"""The clip of `devmind demo`: a room as a webcam sees it, and a hand that holds up a mug, the mug again, and a ball.

Everything is rendered here: the room is painted and out of focus, hand and things are rays marched through distance
fields (Quilez 2008, "Rendering worlds with two triangles") under the light of the window, and a camera adds exposure,
grain and JPEG. Neither the agent nor `devmind demo` reads anything here but the clip. Notes of the clip say what is
held up from when to when, so that the demo can judge its answers; the life that plays it sees only the pictures.

    python benchmarks/demo_clip.py        # writes devmind/live/demo.mcap, 1.0 MB
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path

import cv2
import numba
import numpy as np

from devmind.moment import TICK_HZ, Moment
from devmind.sessions.recorder import Recorder

HEIGHT, WIDTH = 360, 480
FOCAL = 0.866
"""In widths of the picture: a webcam of 60 degrees."""
FILE = Path(__file__).parent.parent / "devmind" / "live" / "demo.mcap"
QUALITY, GRAIN = 54, 1.7
MUG, BALL = 0, 1
EMPTY, BETWEEN, RISE = 24, 12, 6
"""Ticks of the room at first and between two things, and in which a thing comes up or goes."""
WINDOW = np.array([-0.62, 0.52, -0.58]) / np.linalg.norm([-0.62, 0.52, -0.58])
"""Towards the light; x to the right, y up, z away from the camera."""


@dataclass(frozen=True)
class Showing:
    """One thing held up: where (decimetres from the camera), turned how (degrees), for how many ticks, the light."""

    what: int
    name: str
    place: tuple[float, float, float]
    roll_deg: float
    yaw_deg: float
    ticks: int
    light: float = 1.0


SHOWINGS = (
    Showing(MUG, "mug", (0.02, 0.03, 2.85), 2, 14, 30),
    Showing(MUG, "mug again", (-0.86, 0.16, 3.3), -11, 36, 20, 0.86),
    Showing(BALL, "ball", (0.60, -0.22, 2.85), 2, 0, 20),
)


@numba.njit(fastmath=True, cache=True)
def _capsule(x, y, z, a, b, radius):
    ux, uy, uz = b[0] - a[0], b[1] - a[1], b[2] - a[2]
    px, py, pz = x - a[0], y - a[1], z - a[2]
    along = min(1.0, max(0.0, (px * ux + py * uy + pz * uz) / (ux * ux + uy * uy + uz * uz)))
    return np.sqrt((px - along * ux) ** 2 + (py - along * uy) ** 2 + (pz - along * uz) ** 2) - radius


@numba.njit(fastmath=True, cache=True)
def _smooth(a, b, k):
    h = max(k - abs(a - b), 0.0) / k
    return min(a, b) - h * h * k * 0.25


@numba.njit(fastmath=True, cache=True)
def _thing(x, y, z, what, yaw):
    if what == 1:
        return np.sqrt(x * x + (y - 0.30) ** 2 + z * z) - 0.54
    c, s = np.cos(yaw), np.sin(yaw)
    mx, mz = c * x - s * z, s * x + c * z
    round_ = np.sqrt(mx * mx + mz * mz)
    outer = max(round_ - 0.40, abs(y) - 0.48)
    outside = np.sqrt(max(round_ - 0.40, 0.0) ** 2 + max(abs(y) - 0.48, 0.0) ** 2)
    cup = (outside if outside > 0 else outer) - 0.025
    cavity = max(round_ - 0.375, -(y + 0.40))
    cup = max(cup, -cavity)
    hx, hy = mx - 0.46, y * 0.82 - 0.02
    ring = np.sqrt(hx * hx + hy * hy) - 0.215
    handle = np.sqrt(ring * ring + mz * mz * 0.8) - 0.058
    handle = max(handle, 0.39 - round_)
    return _smooth(cup, handle, 0.06)


@numba.njit(fastmath=True, cache=True)
def _whole(x, y, z, what, yaw, bones, radii):
    """The distance to the nearest surface, and which it is: 0 thing, 1 skin, 2 cloth."""
    thing, skin, last = _thing(x, y, z, what, yaw), 9.0, len(radii) - 1
    for k in range(last):
        skin = _smooth(skin, _capsule(x, y, z, bones[k, 0], bones[k, 1], radii[k]), 0.034)
    cloth = _capsule(x, y, z, bones[last, 0], bones[last, 1], radii[last])
    if thing <= skin and thing <= cloth:
        return thing, 0
    return (skin, 1) if skin <= cloth else (cloth, 2)


@numba.njit(fastmath=True, cache=True)
def _hit(origin, ray, pixel, what, yaw, bones, radii):
    """The distance along a ray at which it meets a surface; 0 where it meets none."""
    far = 1.6
    for _ in range(70):
        x, y, z = origin[0] + far * ray[0], origin[1] + far * ray[1], origin[2] + far * ray[2]
        away = _whole(x, y, z, what, yaw, bones, radii)[0]
        if away < 0.5 * pixel * far:
            return far
        far += 0.9 * away
        if far > 5.5:
            break
    return 0.0


@numba.njit(fastmath=True, cache=True)
def _normal(x, y, z, what, yaw, bones, radii):
    e, here = 0.004, _whole(x, y, z, what, yaw, bones, radii)[0]
    nx = _whole(x + e, y, z, what, yaw, bones, radii)[0] - here
    ny = _whole(x, y + e, z, what, yaw, bones, radii)[0] - here
    nz = _whole(x, y, z + e, what, yaw, bones, radii)[0] - here
    norm = 1 / max(1e-9, np.sqrt(nx * nx + ny * ny + nz * nz))
    return nx * norm, ny * norm, nz * norm


@numba.njit(fastmath=True, cache=True)
def _shadow_and_open(x, y, z, normal, light, what, yaw, bones, radii):
    """How much of the window's light and of the room's light reaches a point, 0 to 1 each."""
    shadow, way, open_ = 1.0, 0.05, 1.0
    for _ in range(14):
        free = _whole(x + light[0] * way, y + light[1] * way, z + light[2] * way, what, yaw, bones, radii)[0]
        shadow = min(shadow, 7 * free / way)
        way += max(0.04, free)
        if shadow < 0 or way > 1.4:
            break
    for k in range(1, 5):
        reach = 0.055 * k
        free = _whole(x + normal[0] * reach, y + normal[1] * reach, z + normal[2] * reach, what, yaw, bones, radii)[0]
        open_ -= max(0.0, reach - free) * 1.6 / (1.4**k)
    return max(0.0, min(1.0, shadow)), max(0.25, open_)


@numba.njit(fastmath=True, cache=True)
def _paint(x, y, z, kind, what, yaw):
    """Colour, gloss, and how far light creeps round the surface `kind` of `_whole`: thing, skin, cloth."""
    if kind == 1:
        mottle = 1 + 0.07 * np.sin(23 * x + 11 * y) * np.sin(19 * y - 13 * z)
        return (0.60 * mottle, 0.335 * mottle, 0.225 * mottle), 0.09, 0.28
    if kind == 2:
        knit = 1 + 0.14 * np.sin(70 * (x + y)) * np.sin(70 * (x - y + z))
        return (0.10 * knit, 0.17 * knit, 0.29 * knit), 0.0, 0.1
    if what == 1:
        fuzz = 1 + 0.16 * np.sin(91 * x + 37 * y) * np.sin(83 * y - 29 * z) * np.sin(97 * z + 41 * x)
        if abs(np.sin(3.0 * np.arctan2(z, x)) * 0.22 - (y - 0.30)) < 0.028:
            return (0.84 * fuzz, 0.86 * fuzz, 0.80 * fuzz), 0.0, 0.25
        return (0.52 * fuzz, 0.66 * fuzz, 0.06 * fuzz), 0.0, 0.25
    c, s = np.cos(yaw), np.sin(yaw)
    mx, mz = c * x - s * z, s * x + c * z
    round_ = np.sqrt(mx * mx + mz * mz)
    if round_ < 0.385 or y > 0.488:
        return (0.80, 0.77, 0.70), 0.55, 0.0
    wave = abs(y - 0.12 - 0.045 * np.sin(9 * np.arctan2(mz, mx)))
    if round_ < 0.44 and (wave < 0.05 or abs(y + 0.24) < 0.028):
        return (0.86, 0.82, 0.74), 0.55, 0.0
    return (0.66, 0.07, 0.055), 0.55, 0.0


@numba.njit(fastmath=True, cache=True)
def _lit(ray, normal, light, shadow, open_, colour, gloss, wrap):
    """The colour of a point under the window's light, the room's, and what the wall reflects."""
    nx, ny, nz = normal
    facing = nx * light[0] + ny * light[1] + nz * light[2]
    direct = max(0.0, (facing + wrap) / (1 + wrap)) * (shadow if wrap < 0.2 else 0.2 + 0.8 * shadow) * 1.55
    warm, bounce = (0.30 + 0.22 * (0.5 + 0.5 * ny)) * open_, max(0.0, nx) * 0.10 * open_
    hx, hy, hz = light[0] - ray[0], light[1] - ray[1], light[2] - ray[2]
    shine = max(0.0, nx * hx + ny * hy + nz * hz) / np.sqrt(hx * hx + hy * hy + hz * hz)
    shine = gloss * shadow * shine ** (70 if gloss > 0.3 else 14)
    shine += gloss * 0.35 * open_ * (1 - max(0.0, -(nx * ray[0] + ny * ray[1] + nz * ray[2]))) ** 4
    return (
        colour[0] * (direct * 0.98 + warm * 0.98 + bounce * 1.2) + shine,
        colour[1] * (direct + warm + bounce) + shine,
        colour[2] * (direct * 1.04 + warm * 1.08 + bounce * 0.8) + shine,
    )


@numba.njit(fastmath=True, cache=True)
def _render(out, cover, rotation, place, what, yaw, bones, radii, light, level):
    height, width = cover.shape
    origin, towards, pixel = -(rotation.T @ place), rotation.T @ light, 1.0 / (width * 0.866)
    for row in range(height):
        for column in range(width):
            vx, vy = (column + 0.5 - width / 2) * pixel, (height / 2 - row - 0.5) * pixel
            norm = 1 / np.sqrt(vx * vx + vy * vy + 1)
            a, b, c = rotation[0], rotation[1], rotation[2]
            ray = (
                (a[0] * vx + b[0] * vy + c[0]) * norm,
                (a[1] * vx + b[1] * vy + c[1]) * norm,
                (a[2] * vx + b[2] * vy + c[2]) * norm,
            )
            far = _hit(origin, ray, pixel, what, yaw, bones, radii)
            if far == 0.0:
                continue
            x, y, z = origin[0] + far * ray[0], origin[1] + far * ray[1], origin[2] + far * ray[2]
            kind = _whole(x, y, z, what, yaw, bones, radii)[1]
            normal = _normal(x, y, z, what, yaw, bones, radii)
            shadow, open_ = _shadow_and_open(x, y, z, normal, towards, what, yaw, bones, radii)
            colour, gloss, wrap = _paint(x, y, z, kind, what, yaw)
            red, green, blue = _lit(ray, normal, towards, shadow, open_, colour, gloss, wrap)
            out[row, column, 0], out[row, column, 1], out[row, column, 2] = red * level, green * level, blue * level
            cover[row, column] = 1.0


def bones_of(elbow: np.ndarray, what: int) -> tuple[np.ndarray, np.ndarray]:
    """Ends [n, 2, 3] and radii [n] of the hand round a thing of radius 0.42, in its frame; the sleeve is last."""
    ends, radii = [], []
    for k, y in enumerate((-0.43, -0.29, -0.15, -0.02)):
        chain = np.array([(-0.16, y - 0.07, 0.50), (-0.46, y - 0.02, 0.22), (-0.52, y, -0.10), (-0.33, y, -0.40)])
        tip = np.array([(-0.22, y, -0.445), (-0.15, y, -0.47), (-0.12, y, -0.475), (-0.17, y + 0.02, -0.46)][k])
        for a, b in pairwise([*chain, tip]):
            ends.append((a, b))
            radii.append(0.076 - 0.008 * (k == 0))
    thumb = np.array([(0.16, -0.58, 0.30), (0.46, -0.46, 0.06), (0.42, -0.33, -0.27), (0.31, -0.22, -0.40)])
    if what == BALL:
        thumb = np.array([(0.16, -0.58, 0.30), (0.46, -0.40, 0.06), (0.44, -0.20, -0.22), (0.36, -0.08, -0.36)])
    for a, b in pairwise(thumb):
        ends.append((a, b))
        radii.append(0.09)
    palm, wrist = np.array([0.02, -0.52, 0.34]), np.array([0.10, -0.98, 0.36])
    ends += [(np.array([-0.06, -0.22, 0.53]), palm), (np.array([0.1, -0.4, 0.48]), palm), (palm, wrist)]
    radii += [0.19, 0.17, 0.19]
    ends += [(wrist, wrist + 0.3 * (elbow - wrist)), (wrist + 0.12 * (elbow - wrist), elbow)]
    radii += [0.17, 0.25]
    return np.array(ends), np.array(radii)


def turned(roll_deg: float, pitch_deg: float) -> np.ndarray:
    """Rotation from the thing's frame to the camera's."""
    roll, pitch = np.deg2rad([roll_deg, pitch_deg])
    about_z = np.array([[np.cos(roll), -np.sin(roll), 0], [np.sin(roll), np.cos(roll), 0], [0, 0, 1]])
    about_x = np.array([[1, 0, 0], [0, np.cos(pitch), -np.sin(pitch)], [0, np.sin(pitch), np.cos(pitch)]])
    return about_z @ about_x


def room() -> np.ndarray:
    """The wall behind, out of focus, linear RGB float32 [H, W, 3]."""
    scale = 2
    height, width = scale * HEIGHT, scale * WIDTH
    y, x = np.mgrid[:height, :width].astype(np.float32) / width
    glow = np.exp(-((x - 0.08) ** 2 / 0.16 + (y - 0.2) ** 2 / 0.12))
    wall = np.stack((0.30 + 0.30 * glow, 0.285 + 0.29 * glow, 0.25 + 0.30 * glow), 2) * (1.06 - 0.45 * y)[..., None]

    def box(left: float, top: float, right: float, bottom: float, colour: tuple[float, float, float]) -> None:
        corner = lambda a, b: (round(a * width), round(b * width))  # noqa: E731
        cv2.rectangle(wall, corner(left, top), corner(right, bottom), colour, -1)

    box(0.015, 0.035, 0.245, 0.395, (0.30, 0.235, 0.17))
    for left in (0.03, 0.137):
        box(left, 0.05, left + 0.093, 0.38, (0.80, 0.92, 1.0))
        box(left, 0.27, left + 0.093, 0.38, (0.34, 0.46, 0.26))
        box(left, 0.24, left + 0.093, 0.285, (0.46, 0.58, 0.42))
    box(0.0, 0.395, 0.262, 0.412, (0.46, 0.38, 0.29))
    box(0.36, 0.07, 0.55, 0.225, (0.10, 0.075, 0.055))
    box(0.372, 0.082, 0.538, 0.213, (0.62, 0.58, 0.50))
    cv2.circle(wall, (round(0.49 * width), round(0.125 * width)), round(0.021 * width), (0.75, 0.42, 0.12), -1)
    hills = np.array(
        [(0.372, 0.213), (0.372, 0.172), (0.42, 0.148), (0.468, 0.176), (0.505, 0.156), (0.538, 0.18), (0.538, 0.213)]
    )
    cv2.fillPoly(wall, [np.round(hills * width).astype(np.int32)], (0.16, 0.24, 0.25))
    box(0.655, 0.205, 0.985, 0.219, (0.23, 0.145, 0.08))
    rng, left = np.random.default_rng(7), 0.668
    colours = np.array([[10, 16, 30], [42, 9, 7], [12, 25, 15], [48, 38, 16], [22, 13, 26], [50, 46, 40]]) / 100
    while left < 0.86:
        wide, tall = rng.uniform(0.014, 0.027), rng.uniform(0.085, 0.125)
        box(left, 0.205 - tall, left + wide, 0.204, colours[rng.integers(len(colours))].tolist())
        box(left, 0.205 - 0.8 * tall, left + wide, 0.205 - 0.74 * tall, (0.55, 0.47, 0.30))
        left += wide + 0.002
    box(0.893, 0.165, 0.945, 0.204, (0.40, 0.20, 0.11))
    for angle in np.linspace(-1.25, 1.25, 13):
        end = (0.919 + 0.062 * np.sin(angle), 0.162 - 0.075 * np.cos(angle) + 0.02 * abs(angle))
        middle, far = np.array((0.919, 0.163)) * width, np.array(end) * width
        green = (0.09, 0.22 + 0.05 * np.cos(7 * angle), 0.07)
        cv2.line(wall, middle.astype(int).tolist(), far.astype(int).tolist(), green, 7)
    box(0.0, 0.645, 1.0, 0.75, (0.31, 0.20, 0.115))
    grain = np.random.default_rng(1).normal(0, 0.02, (height, width // 40 + 1)).astype(np.float32)
    grain = cv2.resize(grain, (width, height))[..., None]
    desk = (y > 0.645)[..., None]
    wall = np.where(desk, wall * (1 + 2.5 * cv2.GaussianBlur(grain, (0, 0), 1)[..., None]), wall).astype(np.float32)
    wall = cv2.GaussianBlur(wall, (0, 0), 4.2)
    plaster = cv2.GaussianBlur(np.random.default_rng(2).normal(0, 1, (height, width)).astype(np.float32), (0, 0), 3)
    wall = wall * (1 + 0.05 * plaster)[..., None]
    return cv2.resize(wall.astype(np.float32), (WIDTH, HEIGHT), interpolation=cv2.INTER_AREA)


def held(wall: np.ndarray, showing: Showing, tick: int, rng: np.random.Generator) -> np.ndarray:
    """The room with the thing held up, linear RGB [H, W, 3], `tick` ticks after it began to come up."""
    down = max(0.0, (RISE - tick) / RISE, (tick - RISE - showing.ticks + 1) / RISE)
    down = (1 - np.cos(np.pi * min(1.0, down))) / 2
    sway = np.sin(tick * np.array([0.55, 0.8, 0.31, 0.42]) + np.array([0.3, 1.1, 2.0, 0.7]) + showing.what)
    place = np.array(showing.place) + np.array([0.022 * sway[0], 0.018 * sway[1] - 2.6 * down, 0.03 * sway[2]])
    rotation = turned(showing.roll_deg + 3 * sway[3] - 12 * down, -9 + 3 * sway[2])
    elbow = rotation.T @ (np.array([0.85 + 0.35 * showing.place[0], -3.6, 3.6]) - place)
    bones, radii = bones_of(elbow, showing.what)
    colour, cover = np.zeros_like(wall), np.zeros(wall.shape[:2], np.float32)
    yaw = np.deg2rad(showing.yaw_deg + 9 * sway[2])
    _render(colour, cover, rotation, place, showing.what, yaw, bones, radii, WINDOW, np.float32(0.78 * showing.light))
    soft = cv2.GaussianBlur(cover, (0, 0), 0.7)
    shade = cv2.GaussianBlur(np.roll(cover, (14, 22), (0, 1)), (0, 0), 22)
    spread = cv2.GaussianBlur(colour, (0, 0), 0.7) / np.maximum(soft, 1e-3)[..., None]
    return wall * (1 - 0.22 * shade[..., None]) * (1 - soft[..., None]) + spread * soft[..., None]


def camera(scene: np.ndarray, rng: np.random.Generator, light: float) -> np.ndarray:
    """Linear RGB as the picture of a webcam, uint8: exposure, a lens darker at its edge, softness, grain."""
    y, x = np.mgrid[:HEIGHT, :WIDTH].astype(np.float32) / WIDTH - np.array([0.375, 0.5], np.float32)[:, None, None]
    lens = 1 - 0.55 * (x * x + y * y)
    bright = scene * lens[..., None] * np.float32(light * rng.normal(1, 0.004))
    bright = 1.06 * bright / (1 + 0.08 * bright)
    picture = 255 * np.clip(bright, 0, 1) ** (1 / 1.9)
    picture = cv2.GaussianBlur(picture.astype(np.float32), (0, 0), 0.55)
    grain = cv2.GaussianBlur(rng.normal(0, GRAIN * 1.9, (HEIGHT, WIDTH, 3)).astype(np.float32), (0, 0), 0.75)
    return np.clip(picture + grain, 0, 255).astype(np.uint8)


def frames(seed: int = 5) -> Iterator[tuple[np.ndarray, Showing | None]]:
    """Every picture of the clip, uint8 [H, W, 3], with what is held up and in its place then."""
    rng, wall, level = np.random.default_rng(seed), room(), 1.0
    for number, showing in enumerate(SHOWINGS):
        for _ in range(BETWEEN if number else EMPTY):
            level += 0.12 * (showing.light - level)
            yield camera(wall, rng, level), None
        for tick in range(RISE + showing.ticks + RISE):
            still = RISE <= tick < RISE + showing.ticks
            level += 0.12 * (showing.light - level)
            yield camera(held(wall, showing, tick, rng), rng, level), showing if still else None
    for _ in range(BETWEEN):
        level += 0.12 * (1 - level)
        yield camera(wall, rng, level), None


def as_jpeg(picture: np.ndarray) -> bytes:
    """A picture RGB uint8 [H, W, 3] as a small JPEG."""
    options = [cv2.IMWRITE_JPEG_QUALITY, QUALITY, cv2.IMWRITE_JPEG_OPTIMIZE, 1, cv2.IMWRITE_JPEG_PROGRESSIVE, 1]
    return cv2.imencode(".jpg", picture[..., ::-1], options)[1].tobytes()


def write(path: Path, most: int | None = None) -> None:
    """Write the clip, at `most` so many ticks of it: a Moment without senses for every tick, its frame, and a note
    where a thing is held still."""
    details = {"world": "drawn by benchmarks/demo_clip.py", "device": "none"}
    with Recorder(path, source="drawn", details=details, overwrite=True) as recorder:
        before = None
        for tick, (picture, showing) in enumerate(islice(frames(), most)):
            if showing is not before and showing is not None:
                recorder.note("held_up", {"what": showing.name, "ticks": showing.ticks})
            before = showing
            recorder.write(Moment(tick / TICK_HZ, {}, first=tick == 0))
            recorder.frame(as_jpeg(picture), tick / TICK_HZ)


def main() -> None:
    """Write the clip, and say how large it is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=FILE)
    parser.add_argument("--tiny", action="store_true", help="only show that everything runs: until a thing is held up")
    asked = parser.parse_args()
    write(asked.out, EMPTY + RISE + 1 if asked.tiny else None)
    print(f"{asked.out}: {asked.out.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
