"""The input of beliefs: the detections of a head, the gaze with its depth map, and the filter's parameters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Detections:
    """A head's detections in one tick of N rows, up to M things each, in any order.

    A head gives directions relative to the gaze (`Output.detections`); `seen_from` turns them into the torso's frame.
    Without embeddings, only the class distinguishes things.

    Args:
        here: which entries hold a thing, bool [N, M].
        kind: its class, int64 [N, M]; the head's `labels` are the names of the classes.
        azimuth_deg, elevation_deg, distance_m: from the eye, left and up positive, float [N, M].
        sure: the head's probability that the thing is there, [N, M].
        size_m: its width, [N, M]; None if the head gives none.
        embedding: its appearance, L2-normalised [N, M, E]; None if the head gives none.
    """

    here: np.ndarray
    kind: np.ndarray
    azimuth_deg: np.ndarray
    elevation_deg: np.ndarray
    distance_m: np.ndarray
    sure: np.ndarray
    size_m: np.ndarray | None = None
    embedding: np.ndarray | None = None

    def seen_from(self, pan_deg: np.ndarray, tilt_deg: np.ndarray, where: np.ndarray) -> Detections:
        """These detections in the torso's frame, for a gaze [N]; rows where `where` bool [N] is false hold nothing."""
        return Detections(
            self.here & where[:, None],
            self.kind,
            self.azimuth_deg + pan_deg[:, None],
            self.elevation_deg + tilt_deg[:, None],
            self.distance_m,
            np.where(where[:, None], self.sure, 0.0),
            self.size_m,
            self.embedding,
        )


def no_detections(n: int) -> Detections:
    """N rows without detections."""
    zero = np.zeros((n, 0))
    return Detections(zero.astype(bool), zero.astype(np.int64), zero, zero, zero, zero)


@dataclass(frozen=True)
class Gaze:
    """The gaze of N rows and their depth maps.

    Args:
        pan_deg, tilt_deg: of the head relative to the torso, float [N].
        eye_m: the eye's place in the frame of beliefs, [N, 3]; it moves when the body leans.
        depth_m: metres along the axis, float [N, H, W].
        known: whether `depth_m` is of this tick, bool [N]; if not, nothing is judged absent in that row.
        half_deg: half the field of view.
    """

    pan_deg: np.ndarray
    tilt_deg: np.ndarray
    eye_m: np.ndarray
    depth_m: np.ndarray
    known: np.ndarray
    half_deg: float = 30.0


@dataclass(frozen=True)
class FilterParams:
    """How fast beliefs change.

    Args:
        angle_deg, log_distance: standard deviations of a detection's direction and of the log of its distance.
        walk_m, walk_seen_m: random walk of a thing out of sight and in sight, metres after one second.
        spread_m: the largest standard deviation of a place.
        drain_s: time after which 1/e of a belief's shares is left.
        hit, false: probability that a thing in view is detected, and that one is detected where there is none.
        surest: the highest value of `there`, since the errors of a head repeat.
        missed, doubted: probability of no detection although the thing is there. `missed` holds if the eye sees past
            the place or a thing of another class stands there, `doubted` if it sees something at that distance.
        hint: if a head gives a class at least this probability anywhere, nothing of that class is judged absent.
        gate: largest squared distance at which a detection belongs to a belief (chi-square, 3 degrees: 0.99).
        alike: smallest cosine between two embeddings of one thing.
        begin, leap: probability that a detection needs to begin a belief, and to move one beyond the gate.
        nearer, beyond: depth over expected distance: below `nearer` something hides the place, above `beyond` the eye
            sees past it.
        before: distance of another thing in that direction over the expected one; below this it hides the place.
        confirm: detections before a belief is reported.
    """

    angle_deg: float = 3.0
    log_distance: float = 0.15
    walk_m: float = 0.05
    walk_seen_m: float = 0.2
    spread_m: float = 2.0
    drain_s: float = 60.0
    hit: float = 0.95
    false: float = 0.02
    surest: float = 0.98
    missed: float = 0.01
    doubted: float = 0.5
    hint: float = 0.35
    gate: float = 11.3
    alike: float = 0.5
    begin: float = 0.5
    leap: float = 0.85
    nearer: float = 0.8
    before: float = 0.8
    beyond: float = 1.4
    confirm: int = 2
