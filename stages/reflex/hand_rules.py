"""Hand-written rules for the exams: rules that read only the senses, and one that reads the truth.

They are the floors and the ceiling printed beside the arcs, and never part of a head. A rule of a motor exam is a
policy: it is called once a tick with the senses of N rows and which of them begin an episode.
"""

from __future__ import annotations

import cv2
import numpy as np

from devmind.acting import Senses
from devmind.moment import SIGHT_SIZE, TICK_SAMPLES
from devmind.worlds.nursery.along_a_ray import (
    CLEAR_M,
    IN_FRONT_M,
    LEAST_PX,
    SIGHT_HALF,
    UNLIKE_COLOUR,
    along,
    ray_to,
)
from devmind.worlds.nursery.state import MAX_REACH_M, MAX_TILT_DEG, MAX_TURN_DEG

WIDE_HALF = np.tan(np.deg2rad(60.0))
LARGEST_LAG = 12
EAR_DELAY_SAMPLES = 10.0
"""The delay between the ears of a sound from the side, about 0.6 ms."""
ODD_COLOUR = 50.0
"""Least distance of a thing's pixels from the picture's median colour, of 255. Chosen on 200 rooms of lesson seeds."""
LOUDER, LARGER = 1.25, 0.0015
"""Thresholds of withdrawing: the ratio of the loudest samples of two ticks, and the growth of a blob as a share of the
picture. Chosen on 1,600 rooms of lesson seeds by the same script, with at most 2 % false alarms: 0.899 of events at
0.014."""
NEIGHBOURS = 3
"""The best of 1, 3, 5 and 7 on scikit-learn's taught digits, each left out in turn: 0.988."""

Actions = dict[str, np.ndarray]


def nearest_labels(known: np.ndarray, labels: np.ndarray, queries: np.ndarray, at_once: int = 256) -> np.ndarray:
    """The most frequent label among the NEIGHBOURS nearest of `known` [N, D], with `labels` int64 [N], for each of
    `queries` [M, D]; int64 [M]. A tie goes to the nearest of the tied.
    """
    squares, predicted, places = (known**2).sum(1), [], NEIGHBOURS - np.arange(NEIGHBOURS)
    for part in np.split(queries, range(at_once, len(queries), at_once)):
        distance = squares - 2 * part @ known.T
        near = labels[np.argsort(distance, 1, kind="stable")[:, :NEIGHBOURS]]
        alike = near[:, :, None] == near[:, None]
        best = (alike.sum(2) * NEIGHBOURS + places).argmax(1)
        predicted.append(near[np.arange(len(part)), best])
    return np.concatenate(predicted)


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


def oddness(sight: np.ndarray) -> np.ndarray:
    """Distance of each pixel's colour, without brightness, from the picture's median: [N, H, W] of [N, H, W, 3]."""
    # Plane by plane, as sums and medians over three numbers at a time take twice as long.
    planes = np.moveaxis(sight, -1, 0).astype(np.float32)
    planes -= (planes[0] + planes[1] + planes[2]) / np.float32(3)
    off = np.abs(planes - np.median(planes.reshape(*planes.shape[:2], -1), axis=-1)[..., None, None])
    return np.asarray(off[0] + off[1] + off[2])


def odd_boxes(sight: np.ndarray, odd_colour: float = ODD_COLOUR) -> list[np.ndarray]:
    """Boxes [K, 4] (x0, y0, x1, y1, exclusive ends) around what differs in colour from each picture [N, H, W, 3]."""
    boxes = []
    for mask in oddness(sight) > odd_colour:
        *_, blobs, _ = cv2.connectedComponentsWithStats(mask.astype(np.uint8))
        blobs = blobs[1:][blobs[1:, cv2.CC_STAT_AREA] >= LEAST_PX].astype(np.float32)
        boxes.append(np.concatenate([blobs[:, :2], blobs[:, :2] + blobs[:, 2:4]], 1))
    return boxes


def sounding_box(sight: np.ndarray, sound: np.ndarray, odd_colour: float = ODD_COLOUR) -> np.ndarray:
    """The box that differs in colour and is nearest to where the delay between the ears points, [N, 4]; zeros for none.

    Args:
        sight: uint8 [N, H, W, 3]. sound: [N, T, 2, S], whose ticks count together.
    """
    lags = sum(ear_correlation(sound[:, tick]) for tick in range(sound.shape[1]))
    assert isinstance(lags, np.ndarray)
    # One sample of delay is six degrees; a parabola through the best lag and its neighbours is finer.
    lag, rows = lags.argmax(1).clip(1, 2 * LARGEST_LAG - 1), np.arange(len(lags))
    before, best, after = lags[rows, lag - 1], lags[rows, lag], lags[rows, lag + 1]
    finer = 0.5 * (before - after) / np.minimum(before - 2 * best + after, -1e-12)
    heard = _azimuth_deg(lag - LARGEST_LAG + finer)
    chosen = np.zeros((len(sight), 4), np.float32)
    for row, boxes in enumerate(odd_boxes(sight, odd_colour)):
        if len(boxes):
            x = (boxes[:, 0] + boxes[:, 2]) / SIGHT_SIZE - 1
            chosen[row] = boxes[np.abs(np.rad2deg(np.arctan(-x * SIGHT_HALF)) - heard[row]).argmin()]
    return chosen


def ear_correlation(sound: np.ndarray) -> np.ndarray:
    """Correlation of the ears of a tick [N, 2, S] by lag, [N, 2 * LARGEST_LAG + 1]: right ear early to late."""
    left, right = sound[:, 0].astype(np.float64), sound[:, 1].astype(np.float64)
    size = 2 * TICK_SAMPLES
    product = np.fft.rfft(right, size) * np.conj(np.fft.rfft(left, size))
    correlation = np.fft.irfft(product, size)
    return np.concatenate([correlation[:, -LARGEST_LAG:], correlation[:, : LARGEST_LAG + 1]], axis=1)


def _azimuth_deg(lag: np.ndarray) -> np.ndarray:
    return np.asarray(np.rad2deg(np.arcsin(np.clip(lag / EAR_DELAY_SAMPLES, -1, 1))))


def oddest_blob(sight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The place of the pixels that differ most from the picture's median colour.

    Returns:
        (left_deg, up_deg) float64 [N, 2] from the axis, and the blob's share of the picture [N]; sight uint8
        [N, H, W, 3].
    """
    n, height, width, _ = sight.shape
    odd = oddness(sight)
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
        azimuth = _azimuth_deg(np.argmax(ear_correlation(senses["sound"]), axis=1) - LARGEST_LAG)
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
    """Turns at the blob's last seen velocity, wherever the blob is."""

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
        louder: ratio of the loudest samples of two ticks.
        larger: by what share of the picture the blob grows in a tick.
    """

    def __init__(self, louder: float = LOUDER, larger: float = LARGER) -> None:
        self.louder, self.larger = louder, larger
        self.loudest = self.area = np.zeros(0)

    def __call__(self, senses: Senses, first: np.ndarray) -> Actions:
        """`move` -1 or 0, float32 [N, 1]."""
        louder, larger = self.grown(senses, first)
        alarm = (louder > self.louder) | (larger > self.larger)
        return {"move": np.where(alarm, -1.0, 0.0).astype(np.float32)[:, None]}

    def grown(self, senses: Senses, first: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """By how much a tick is louder, and its oddest blob larger (0 if that has no bound), than the one before,
        float64 [N] each."""
        loudest = np.abs(senses["sound"]).max((1, 2)).astype(np.float64) + 1e-3
        # Without a bound on growth nobody asks for it, and it takes most of the time.
        area = np.zeros(len(loudest)) if np.isinf(self.larger) else oddest_blob(senses["sight"])[1]
        if first.all():
            self.loudest, self.area = loudest, area
        ratios = loudest / self.loudest, area - self.area
        self.loudest, self.area = loudest, area
        return ratios


class ReachByColour:
    """Reaches along the ray to the largest blob whose pixels have the asked colour, as it is seen at the first tick.

    The hand first moves to the ray close to the body, where nothing lies, then follows it, so the distance need not be
    known. The hand hides its target, so the rule looks only once. Without a matching pixel the hand rests.

    Args:
        unlike: largest distance of a pixel's colour from the asked one, both at full brightness.
    """

    def __init__(self, unlike: float = UNLIKE_COLOUR) -> None:
        self.unlike = unlike
        self.ray: np.ndarray | None = None

    def __call__(self, senses: Senses, first: np.ndarray) -> Actions:
        """`reach` float32 [N, 4], at full speed until near; the grip stays open."""
        if self.ray is None or first.all():
            rows = zip(senses["sight"], senses["words"], senses["body"], strict=True)
            self.ray = np.stack([self._ray(*row) for row in rows])
        return {"reach": along(self.ray, senses["body"])}

    def _ray(self, picture: np.ndarray, word: str, body: np.ndarray) -> np.ndarray:
        """(1, left, up) of the way from the eye to the blob, [3]; not numbers where there is none."""
        pan, tilt = np.deg2rad(gaze_deg(body[None])[0])
        return ray_to(word, picture, pan, tilt, self.unlike)


class ReachByTruth:
    """Reaches for the target by the truth: the ceiling, not a floor.

    The straight way hits other things in one episode of thirteen, so the hand first moves sideways close to the body,
    where nothing lies, and then forwards.
    """

    def __call__(self, truth: Senses, first: np.ndarray) -> Actions:
        """`reach` float32 [N, 4], at full speed until near."""
        target = truth["position"][np.arange(len(truth["target"])), truth["target"]]
        off = target - truth["hand"]
        in_front = np.abs(off[:, 1:]).max(1) < IN_FRONT_M
        off[:, 0] = np.where(in_front, off[:, 0], np.minimum(0.0, CLEAR_M - truth["hand"][:, 0]))
        movement = off / MAX_REACH_M
        movement /= np.maximum(1.0, np.abs(movement).max(1, keepdims=True))
        return {"reach": np.concatenate([movement, -np.ones((len(movement), 1))], 1).astype(np.float32)}


def gaze_deg(body: np.ndarray) -> np.ndarray:
    """Pan and tilt from proprioception, degrees [N, 2]."""
    pan = np.rad2deg(np.arctan2(body[:, 0], body[:, 1]))
    return np.stack([pan, body[:, 2] * MAX_TILT_DEG], 1).astype(np.float64)


def _turn(angle_deg: np.ndarray) -> np.ndarray:
    return np.clip(angle_deg / MAX_TURN_DEG, -1.0, 1.0).astype(np.float32)
