"""A drawn room with a drawn hand that holds drawn things up, as a webcam would see it.

A thing is a function of its number: an outline, a texture of two colours, and a height that gives light and gloss.
Neither the agent nor devmind reads anything here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import cv2
import numpy as np

HEIGHT, WIDTH = 240, 320
SPRITE = 192
OUTLINES = ("disc", "tall", "wide", "mug", "bottle", "star", "triangle", "cross", "ring", "blob")
TEXTURES = ("stripes", "checks", "dots", "band", "blotches", "letter", "plain", "rings")
SKINS = ((224, 178, 150), (198, 144, 112), (141, 96, 70), (92, 62, 46))
RISE = 6
"""Ticks in which a thing comes up from below, and goes again."""

GRAIN = np.random.default_rng(0).normal(0, 3, (16, HEIGHT, WIDTH, 3)).astype(np.float32)

MUG, BALL = 3, 30
EMPTY, LONG, GONE = 30, 45, 12
"""Ticks of the empty room first, of a thing held, and of the room between two things."""


@dataclass(frozen=True)
class Pose:
    """The middle of a thing (fractions of the frame), its height (of the frame's height), its rotation (degrees), its
    narrowing by a turn away, and its brightness.
    """

    x: float = 0.5
    y: float = 0.5
    size: float = 0.42
    turn_deg: float = 0.0
    squeeze: float = 1.0
    light: float = 1.0


def thing(number: int) -> np.ndarray:
    """A thing from the front, float32 [192, 192, 4], with colours in 0..255 and coverage in 0..1."""
    rng = np.random.default_rng([11, number])
    cover = _outline(OUTLINES[number % len(OUTLINES)], rng)
    hue = rng.uniform(0, 180)
    first = _colour(hue, rng.uniform(90, 255), rng.uniform(70, 240))
    second = _colour((hue + rng.uniform(40, 140)) % 180, rng.uniform(20, 255), rng.uniform(40, 255))
    share = _texture(TEXTURES[int(rng.integers(len(TEXTURES)))], rng)[..., None]
    colour = first * (1 - share) + second * share
    height = cv2.GaussianBlur(
        np.minimum(cv2.distanceTransform((cover > 0.5).astype(np.uint8), cv2.DIST_L2, 5), 36), (0, 0), 5
    )
    slope_y, slope_x = np.gradient(height)
    light = np.clip(0.78 - 0.35 * slope_x - 0.35 * slope_y, 0.35, 1.25)[..., None]
    gloss = 70 * np.exp(-((slope_x - 0.45) ** 2 + (slope_y - 0.45) ** 2) / 0.02)[..., None] * rng.uniform(0, 1)
    return np.dstack((np.clip(colour * light + gloss, 0, 255), cover)).astype(np.float32)


def _colour(hue: float, saturation: float, value: float) -> np.ndarray:
    return cv2.cvtColor(np.uint8([[[hue, saturation, value]]]), cv2.COLOR_HSV2RGB)[0, 0].astype(np.float32)


def _outline(kind: str, rng: np.random.Generator) -> np.ndarray:
    """Coverage float32 [192, 192]."""
    picture, middle, r = np.zeros((SPRITE, SPRITE), np.uint8), SPRITE // 2, 84
    if kind in ("disc", "ring"):
        cv2.circle(picture, (middle, middle), r, 255, -1)
        if kind == "ring":
            cv2.circle(picture, (middle, middle), round(rng.uniform(24, 44)), 0, -1)
    elif kind in ("tall", "wide", "mug"):
        short = round(rng.uniform(38, 60))
        x, y = (short, r) if kind == "tall" else (r, short) if kind == "wide" else (58, 66)
        cv2.rectangle(picture, (middle - x, middle - y), (middle + x, middle + y), 255, -1)
        if kind == "mug":
            cv2.ellipse(picture, (middle + x, middle), (28, 40), 0, -90, 90, 255, 13)
    elif kind == "bottle":
        cv2.rectangle(picture, (middle - 40, middle - 20), (middle + 40, middle + r), 255, -1)
        cv2.ellipse(picture, (middle, middle - 20), (40, 30), 0, 180, 360, 255, -1)
        cv2.rectangle(picture, (middle - 15, middle - r), (middle + 15, middle - 30), 255, -1)
    elif kind == "cross":
        arm = round(rng.uniform(20, 34))
        cv2.rectangle(picture, (middle - arm, middle - r), (middle + arm, middle + r), 255, -1)
        cv2.rectangle(picture, (middle - r, middle - arm), (middle + r, middle + arm), 255, -1)
    else:
        angles = np.linspace(0, 2 * np.pi, 120, endpoint=False)
        if kind == "triangle":
            points = np.stack((middle + r * np.sin(angles[::40]), middle - r * np.cos(angles[::40])), 1)
        else:
            waves = [(k, *rng.normal(0, 0.22 / k, 2)) for k in range(2, 6)]
            star = 0.35 * np.cos(int(rng.integers(5, 8)) * angles) if kind == "star" else 0
            radius = (
                0.72
                + star
                + sum(a * np.cos(k * angles) + b * np.sin(k * angles) for k, a, b in waves) * (kind == "blob")
            )
            radius = np.clip(radius, 0.3, 1.05)
            points = np.stack((middle + r * radius * np.cos(angles), middle + r * radius * np.sin(angles)), 1)
        cv2.fillPoly(picture, [np.round(points).astype(np.int32)], 255)
    return cv2.GaussianBlur(picture, (0, 0), 1.2).astype(np.float32) / 255


def _texture(kind: str, rng: np.random.Generator) -> np.ndarray:
    """Share of the second colour, float32 [192, 192] in 0..1."""
    angle, period = rng.uniform(0, np.pi), rng.uniform(20, 52)
    y, x = np.mgrid[:SPRITE, :SPRITE] - SPRITE / 2
    along, across = x * np.cos(angle) + y * np.sin(angle), y * np.cos(angle) - x * np.sin(angle)
    wave, other = np.sin(2 * np.pi * along / period), np.sin(2 * np.pi * across / period)
    if kind == "stripes":
        share = wave > 0
    elif kind == "checks":
        share = wave * other > 0
    elif kind == "dots":
        share = wave + other > 0.9
    elif kind == "rings":
        share = np.sin(2 * np.pi * np.hypot(x, y) / period) > 0
    elif kind == "band":
        share = np.abs(along) < 0.6 * period
    elif kind == "blotches":
        share = cv2.GaussianBlur(rng.normal(size=(SPRITE, SPRITE)), (0, 0), period / 4) > 0
    elif kind == "letter":
        picture = np.zeros((SPRITE, SPRITE), np.uint8)
        cv2.putText(picture, chr(65 + int(rng.integers(26))), (48, 142), cv2.FONT_HERSHEY_DUPLEX, 4.4, 255, 12)
        share = picture > 0
    else:
        share = np.zeros((SPRITE, SPRITE), bool)
    return cv2.GaussianBlur(share.astype(np.float32), (0, 0), 1)


def held(frame: np.ndarray, sprite: np.ndarray | None, pose: Pose, hand: int) -> np.ndarray:
    """A frame in which hand `hand` holds a thing up; None: an empty hand."""
    picture = frame.astype(np.float32)
    tall = pose.size * HEIGHT
    x, y = pose.x * WIDTH, pose.y * HEIGHT
    skin = np.array(SKINS[hand % len(SKINS)], np.float32) * pose.light
    grip = (x, y + 0.36 * tall)
    arm = np.zeros((HEIGHT, WIDTH), np.float32)
    elbow = (round(x + (x - WIDTH / 2) * 0.3 + 20), HEIGHT + 60)
    wrist = 0.13 * HEIGHT
    cv2.line(arm, (round(grip[0]), round(grip[1] + 0.5 * wrist)), elbow, 1.0, round(wrist))
    cv2.ellipse(
        arm,
        (round(grip[0]), round(grip[1] + 0.1 * wrist)),
        (round(0.75 * wrist), round(0.65 * wrist)),
        0,
        0,
        360,
        1.0,
        -1,
    )
    arm = cv2.GaussianBlur(arm, (0, 0), 1.2)[..., None]
    shade = np.linspace(0.75, 1.1, WIDTH, dtype=np.float32)[None, :, None]
    picture = picture * (1 - arm) + skin * shade * arm
    if sprite is not None:
        scale = tall / (0.92 * SPRITE)
        turn = np.deg2rad(pose.turn_deg)
        linear = (
            scale * np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]]) @ np.diag([pose.squeeze, 1])
        )
        shift = np.array([x, y]) - linear @ np.array([SPRITE / 2, SPRITE / 2])
        drawn = cv2.warpAffine(sprite, np.column_stack((linear, shift)), (WIDTH, HEIGHT), flags=cv2.INTER_AREA)
        cover = drawn[..., 3:]
        picture = picture * (1 - cover) + drawn[..., :3] * pose.light * cover
    fingers = np.zeros((HEIGHT, WIDTH), np.float32)
    for at in (-0.42, 0.0, 0.42):
        cv2.ellipse(
            fingers,
            (round(grip[0] + at * wrist), round(grip[1] - 0.05 * wrist)),
            (round(0.17 * wrist), round(0.42 * wrist)),
            0,
            0,
            360,
            1.0,
            -1,
        )
    fingers = cv2.GaussianBlur(fingers, (0, 0), 1.0)[..., None]
    return np.clip(picture * (1 - fingers) + 0.95 * skin * shade * fingers, 0, 255)


def shown(
    sprite: np.ndarray | None, pose: Pose, ticks: int, rng: np.random.Generator, hand: int
) -> Iterator[tuple[Pose | None, int]]:
    """Poses and hand of a thing that comes up, is held with a tremor and slowly turned for `ticks`, and leaves."""
    turn, phase = rng.uniform(-8, 8), rng.uniform(0, 2 * np.pi, 3)
    for tick in range(RISE + ticks + RISE):
        down = max(0.0, (RISE - tick) / RISE, (tick - RISE - ticks + 1) / RISE) * (1.25 - pose.y + pose.size / 2)
        swing = np.sin(phase + tick * np.array([0.9, 1.3, 0.35]))
        yield (
            replace(
                pose,
                x=pose.x + 0.008 * swing[0],
                y=pose.y + down + 0.008 * swing[1],
                turn_deg=pose.turn_deg + turn * swing[2],
            ),
            hand,
        )


def camera(frame: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The frame with a camera's grain and slightly flickering light, uint8."""
    grain = GRAIN[int(rng.integers(len(GRAIN)))]
    return np.clip(frame * np.float32(rng.normal(1, 0.008)) + grain, 0, 255).astype(np.uint8)


def room() -> np.ndarray:
    """A wall with a window and a shelf, RGB float32 [240, 320, 3]."""
    y, x = np.mgrid[:HEIGHT, :WIDTH].astype(np.float32)
    picture = np.stack((168 - 0.16 * y + 0.05 * x, 160 - 0.2 * y + 0.03 * x, 146 - 0.22 * y), 2)
    cv2.rectangle(picture, (18, 20), (104, 112), (205, 222, 236), -1)
    cv2.rectangle(picture, (18, 20), (104, 112), (112, 92, 72), 4)
    cv2.line(picture, (61, 20), (61, 112), (112, 92, 72), 3)
    cv2.rectangle(picture, (206, 66), (318, 73), (104, 78, 58), -1)
    for at, (height, colour) in enumerate(
        ((34, (72, 92, 128)), (42, (134, 62, 58)), (29, (80, 112, 86)), (38, (152, 128, 70)), (32, (92, 76, 110)))
    ):
        cv2.rectangle(picture, (214 + 17 * at, 66 - height), (228 + 17 * at, 65), colour, -1)
    return cv2.GaussianBlur(picture, (0, 0), 0.8)


def scene(seed: int = 3) -> Iterator[np.ndarray]:
    """The camera's view: an empty room, a mug in the middle, the room, the mug elsewhere, the room, a stranger."""
    rng, wall = np.random.default_rng(seed), room()
    held_up = (
        (MUG, Pose(0.5, 0.5, 0.46, 3)), (MUG, Pose(0.3, 0.42, 0.42, -12)), (BALL, Pose(0.66, 0.45, 0.42, 5)),
    )  # fmt: skip
    for number, (what, pose) in enumerate(held_up):
        for _ in range(GONE if number else EMPTY):
            yield camera(wall, rng)
        sprite = thing(what)
        for at, hand in shown(sprite, pose, LONG if not number else LONG // 2, rng, 1):
            yield camera(held(wall, sprite, at, hand) if at else wall, rng)
    while True:
        yield camera(wall, rng)
