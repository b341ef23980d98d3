"""What beliefs are made of: sightings, the gaze with its depth, and how fast beliefs change."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

KINDS = 8


@dataclass(frozen=True)
class Sightings:
    """What heads told of one tick of N children, up to M things each; the order of the M means nothing.

    Args:
        here: which rows hold something, bool [N, M].
        kind: 0 <= kind < 8, int64 [N, M].
        azimuth_deg, elevation_deg, distance_m: from the eye, in the torso's directions, float [N, M].
        sure: the head's probability that it is there, [N, M].
    """

    here: np.ndarray
    kind: np.ndarray
    azimuth_deg: np.ndarray
    elevation_deg: np.ndarray
    distance_m: np.ndarray
    sure: np.ndarray


@dataclass(frozen=True)
class Gaze:
    """Where N children look, and how far it is to what they see.

    Args:
        pan_deg, tilt_deg: of the head against the torso, float [N].
        eye_m: the eye's place in the frame of beliefs, [N, 3]; it moves when the body leans.
        depth_m: metres along the axis, float [N, H, W].
        known: in which children `depth_m` was told in this tick, bool [N]; where it was not, nothing is found absent.
        half_deg: half the field of view.
    """

    pan_deg: np.ndarray
    tilt_deg: np.ndarray
    eye_m: np.ndarray
    depth_m: np.ndarray
    known: np.ndarray
    half_deg: float = 30.0


@dataclass(frozen=True)
class Habits:
    """How fast beliefs change.

    Args:
        angle_deg, log_distance: errors of a sighting (one standard deviation).
        walk_m, walk_seen_m: random walk of a thing out of sight and in sight, metres after one second.
        spread_m: how uncertain a place can become.
        drain_s: after that time 1/e of the trust in a place is left.
        hit, false: chance that a thing in view is told, and that one is told where there is none.
        surest: no belief is surer than that, since heads go on being wrong in the same way.
        missed, doubted: chance of no sighting though it is there: where the eye sees past the place or another kind of
            thing stands there, and where it sees something at that distance.
        hint: how sure a head may be of a kind, short of a sighting, for nothing of that kind to be found absent.
        gate: largest squared distance at which a sighting belongs to a belief (chi-square with 3 degrees: 0.99).
        begin, leap: how sure a sighting must be to begin a belief, and to move one beyond the gate.
        nearer, beyond: depth over the expected distance below which something hides the place, and above which the eye
            sees past it.
        before: distance of another thing in that direction over the expected one, below which it hides the place.
        confirm: sightings before a belief is told to anyone.
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
    begin: float = 0.5
    leap: float = 0.85
    nearer: float = 0.8
    before: float = 0.8
    beyond: float = 1.4
    confirm: int = 2
