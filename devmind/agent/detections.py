"""What beliefs are made of: the detections that a head gives, the gaze with its depth, and the filter's parameters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Detections:
    """What a head detects in one tick of N rows, up to M things each; the order of the M means nothing.

    Directions are relative to the gaze as a head gives them (`Output.detections`), and in the torso's frame after
    `seen_from`. What a head does not tell is left out: without embeddings only the class tells things apart.

    Args:
        here: which rows hold something, bool [N, M].
        kind: its class, int64 [N, M]; the head's `labels` are the names of the classes.
        azimuth_deg, elevation_deg, distance_m: from the eye, left and up positive, float [N, M].
        sure: the head's probability that it is there, [N, M].
        size_m: its width, [N, M]; None where the head does not tell it.
        embedding: what it looks like, L2-normalised [N, M, E]; None where the head gives none.
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
        """In the torso's directions, for a gaze [N]; nothing in the rows that are not `where`, bool [N]."""
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
    """Nothing seen by N rows."""
    zero = np.zeros((n, 0))
    return Detections(zero.astype(bool), zero.astype(np.int64), zero, zero, zero, zero)


@dataclass(frozen=True)
class Gaze:
    """Where N rows look, and how far it is to what they see.

    Args:
        pan_deg, tilt_deg: of the head against the torso, float [N].
        eye_m: the eye's place in the frame of beliefs, [N, 3]; it moves when the body leans.
        depth_m: metres along the axis, float [N, H, W].
        known: in which rows `depth_m` is of this tick, bool [N]; where it is not, nothing is found absent.
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
        angle_deg, log_distance: errors of a detection (one standard deviation).
        walk_m, walk_seen_m: random walk of a thing out of sight and in sight, metres after one second.
        spread_m: how uncertain a place can become.
        drain_s: after that time 1/e of the trust in a place is left.
        hit, false: chance that a thing in view is detected, and that one is detected where there is none.
        surest: no belief is surer than that, since heads go on being wrong in the same way.
        missed, doubted: chance of no detection though it is there: where the eye sees past the place or a thing of
            another class stands there, and where it sees something at that distance.
        hint: how sure a head may be of a class, short of a detection, for nothing of that class to be found absent.
        gate: largest squared distance at which a detection belongs to a belief (chi-square with 3 degrees: 0.99).
        alike: least cosine of two embeddings of one thing.
        begin, leap: how sure a detection must be to begin a belief, and to move one beyond the gate.
        nearer, beyond: depth over the expected distance below which something hides the place, and above which the eye
            sees past it.
        before: distance of another thing in that direction over the expected one, below which it hides the place.
        confirm: detections before a belief is told to anyone.
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
