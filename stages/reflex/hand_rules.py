"""What a few lines by hand reach at the motor exams: rules that read the senses only, and one that reads the truth.

They are the floors and the ceiling that are printed beside the arcs; nothing of them is ever inside a head.
Each rule is a policy: it is called once a tick with what N rows sense, and which of them begin an episode.
"""

from __future__ import annotations

import numpy as np

from devmind.acting import Senses
from devmind.moment import TICK_SAMPLES

SIGHT_HALF = np.tan(np.deg2rad(30.0))
WIDE_HALF = np.tan(np.deg2rad(60.0))
MAX_TURN_DEG = 25.0
MAX_TILT_DEG = 60.0
MAX_REACH_M = 0.1
CLEAR_M = 0.33
IN_FRONT_M = 0.03
LARGEST_LAG = 12
EAR_DELAY_SAMPLES = 10.0
"""The delay between the ears of a sound from the side, about 0.6 ms."""

Actions = dict[str, np.ndarray]


class HoldStill:
    """Does nothing."""

    def __call__(self, senses: Senses, first: np.ndarray) -> Actions:
        """No command at all."""
        return {}


class Random:
    """Commands uniform in -1..1, redrawn each tick."""

    def __init__(self, effector: str, size: int, rng: np.random.Generator) -> None:
        self.effector, self.size, self.rng = effector, size, rng

    def __call__(self, senses: Senses, first: np.ndarray) -> Actions:
        """Any command."""
        n = len(senses["body"])
        return {self.effector: self.rng.uniform(-1.0, 1.0, (n, self.size)).astype(np.float32)}


def oddest_blob(sight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the pixels lie that differ most from the picture's own median colour.

    Returns:
        (left_deg, up_deg) float64 [N, 2] from the axis, and the blob's share of the picture [N]; sight uint8
        [N, H, W, 3].
    """
    n, height, width, _ = sight.shape
    colour = sight.astype(np.float32)
    chroma = colour - colour.mean(-1, keepdims=True)
    odd = np.abs(chroma - np.median(chroma, axis=(1, 2), keepdims=True)).sum(-1)
    odd = odd * (odd > np.maximum(60.0, 0.6 * odd.max(axis=(1, 2), keepdims=True)))
    total = np.maximum(odd.sum((1, 2)), 1e-6)
    across, down = (np.arange(width) + 0.5) / width * 2 - 1, (np.arange(height) + 0.5) / height * 2 - 1
    x, y = (odd.sum(1) * across).sum(1) / total, (odd.sum(2) * down).sum(1) / total
    angles = np.rad2deg(np.arctan(np.stack([-x, -y], 1) * SIGHT_HALF))
    return angles, (odd > 0).reshape(n, -1).mean(1)


class LookAtBlob:
    """Turns to the oddest blob in the fovea."""

    def __call__(self, senses: Senses, first: np.ndarray) -> Actions:
        """Turn by the blob's angle; stay where there is none."""
        angle, share = oddest_blob(senses["sight"])
        return {"look": _turn(np.where(share[:, None] > 0.001, angle, 0.0))}


class LookAtSound:
    """Turns by the delay between the ears (cross-correlation), as if every sound came from the front half."""

    def __call__(self, senses: Senses, first: np.ndarray) -> Actions:
        """Turn by the azimuth that the lag of the best correlation means."""
        left, right = senses["sound"][:, 0].astype(np.float64), senses["sound"][:, 1].astype(np.float64)
        size = 2 * TICK_SAMPLES
        product = np.fft.rfft(right, size) * np.conj(np.fft.rfft(left, size))
        correlation = np.fft.irfft(product, size)
        lags = np.concatenate([correlation[:, -LARGEST_LAG:], correlation[:, : LARGEST_LAG + 1]], axis=1)
        lag = np.argmax(lags, axis=1) - LARGEST_LAG
        azimuth = np.rad2deg(np.arcsin(np.clip(lag / EAR_DELAY_SAMPLES, -1, 1)))
        return {"look": _turn(np.stack([azimuth, np.zeros_like(azimuth)], 1))}


class LookAtChange:
    """Turns to where the wide view changes; remembers the place while nothing does."""

    def __init__(self) -> None:
        self.place: np.ndarray | None = None

    def __call__(self, senses: Senses, first: np.ndarray) -> Actions:
        """Turn to the middle of the change, counted from the torso."""
        change = senses["periphery"][:, 0].astype(np.float64)
        gaze = gaze_deg(senses["body"])
        if self.place is None or first.all():
            self.place = gaze.copy()
        change = np.where(change > 0.3 * change.max((1, 2), keepdims=True), change, 0.0)
        total = change.sum((1, 2))
        middle = ((np.arange(change.shape[1]) + 0.5) / change.shape[1] * 2 - 1) * WIDE_HALF
        x = -(change.sum(1) * middle).sum(1) / np.maximum(total, 1e-9)
        y = -(change.sum(2) * middle).sum(1) / np.maximum(total, 1e-9)
        azimuth = np.arctan(x)
        seen = np.rad2deg(np.stack([azimuth, np.arctan(y * np.cos(azimuth))], 1))
        self.place = np.where(total[:, None] > 0.02, seen, self.place)
        return {"look": _turn((self.place - gaze + 180) % 360 - 180)}


class KeepVelocity:
    """Turns as fast as the blob was last seen to move, wherever it stands."""

    def __init__(self) -> None:
        self.before: np.ndarray | None = None

    def __call__(self, senses: Senses, first: np.ndarray) -> Actions:
        """Turn by the blob's change of direction, the head's own turn included."""
        place = oddest_blob(senses["sight"])[0] + gaze_deg(senses["body"])
        moved = np.zeros_like(place) if self.before is None or first.all() else (place - self.before + 180) % 360 - 180
        self.before = place
        return {"look": _turn(moved)}


class LoudOrGrowing:
    """Withdraws when a tick is far louder than the one before, or when the oddest blob grows fast.

    Args:
        louder: ratio of mean powers between ticks.
        larger: ratio of the blob's areas between ticks.
    """

    def __init__(self, louder: float = 6.0, larger: float = 1.25) -> None:
        self.louder, self.larger = louder, larger
        self.power = self.area = np.zeros(0)

    def __call__(self, senses: Senses, first: np.ndarray) -> Actions:
        """`move` -1 or 0, float32 [N, 1]."""
        power = np.square(senses["sound"], dtype=np.float64).mean((1, 2)) + 1e-6
        area = oddest_blob(senses["sight"])[1] + 1e-3
        if first.all():
            self.power, self.area = power, area
        alarm = (power > self.louder * self.power) | (area > self.larger * self.area)
        self.power, self.area = power, area
        return {"move": np.where(alarm, -1.0, 0.0).astype(np.float32)[:, None]}


class ReachByTruth:
    """Reaches for the target, which it is told: the ceiling, not a floor.

    The straight way runs into other things in one episode of thirteen, so the hand first moves sideways, nearer to the
    body than anything lies, and then forwards.
    """

    def __call__(self, truth: Senses, first: np.ndarray) -> Actions:
        """`reach` float32 [N, 4], at full speed until near."""
        target = truth["position"][np.arange(len(truth["target"])), truth["target"]]
        off = target - truth["hand"]
        in_front = np.abs(off[:, 1:]).max(1) < IN_FRONT_M
        off[:, 0] = np.where(in_front, off[:, 0], np.minimum(0.0, CLEAR_M - truth["hand"][:, 0]))
        way = off / MAX_REACH_M
        way /= np.maximum(1.0, np.abs(way).max(1, keepdims=True))
        return {"reach": np.concatenate([way, -np.ones((len(way), 1))], 1).astype(np.float32)}


def gaze_deg(body: np.ndarray) -> np.ndarray:
    """Pan and tilt [N, 2] as proprioception tells them."""
    pan = np.rad2deg(np.arctan2(body[:, 0], body[:, 1]))
    return np.stack([pan, body[:, 2] * MAX_TILT_DEG], 1).astype(np.float64)


def _turn(angle_deg: np.ndarray) -> np.ndarray:
    return np.clip(angle_deg / MAX_TURN_DEG, -1.0, 1.0).astype(np.float32)
