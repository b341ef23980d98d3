"""What goes into beliefs and comes out of them: sightings by a head, entries for the trunk, shares of places."""

from __future__ import annotations

import numpy as np

from devmind.memory.objects import BELIEF_NUMBERS, RECALLED, Beliefs
from devmind.memory.sightings import KINDS, Sightings
from devmind.memory.tracking import direction, squared_distance

SENSE = "belief"
"""The sense under which an agent encodes a belief: a vector of BELIEF_NUMBERS."""
SCALE_DEG = 30.0
LEAST_SURE = 0.5
PLACE_M = 0.15


def sightings(places: np.ndarray, pan_deg: np.ndarray, tilt_deg: np.ndarray) -> Sightings:
    """Sightings from places told relative to the gaze, as the head `whereabouts` does.

    Args:
        places: float [N, M, 4], a row a kind: logit of being in view, left and up of the gaze (/30 deg), log of the
            distance (m).
        pan_deg, tilt_deg: of the head against the torso, [N].
    """
    sure = 1 / (1 + np.exp(-places[..., 0].astype(np.float64)))
    left, up = places[..., 1] * SCALE_DEG, places[..., 2] * SCALE_DEG
    return Sightings(
        here=sure >= LEAST_SURE,
        kind=np.broadcast_to(np.arange(places.shape[1]), sure.shape),
        azimuth_deg=left + pan_deg[:, None],
        elevation_deg=up + tilt_deg[:, None],
        distance_m=np.exp(np.clip(places[..., 3], -3.0, 3.0)),
        sure=sure,
    )


Entries = tuple[np.ndarray, np.ndarray, np.ndarray]
"""values float32 [..., k, BELIEF_NUMBERS], age_s float32 [..., k] since it was seen, valid bool [..., k]."""


def entries(beliefs: Beliefs) -> Entries:
    """All beliefs of each child as entries: those out of sight first, then those seen last; nothing is named yet.

    What is in sight the trunk sees for itself, so it comes last.
    """
    told = beliefs.used & (beliefs.hits > 1)
    price = np.where(told, beliefs.age_s + 1e6 * beliefs.in_sight, np.inf)
    order = np.argsort(price, 1, kind="stable")
    rows = np.arange(len(beliefs))[:, None]
    valid = told[rows, order]
    azimuth, elevation, distance = direction(beliefs.mean[rows, order])
    columns = [
        *(beliefs.kind[rows, order] == kind for kind in range(KINDS)),
        azimuth / SCALE_DEG,
        elevation / SCALE_DEG,
        np.log(np.maximum(distance, 0.05)),
        beliefs.spread_m[rows, order],
        beliefs.there[rows, order],
        beliefs.elsewhere[rows, order],
        np.zeros_like(distance),
    ]
    values = np.stack(columns, -1).astype(np.float32)
    assert values.shape[-1] == BELIEF_NUMBERS
    return values * valid[..., None], (beliefs.age_s[rows, order] * valid).astype(np.float32), valid


def recall(every: Entries, named: np.ndarray | None = None, k: int = RECALLED) -> Entries:
    """At most k entries for the trunk: of what is named first, then in the order in which they are given.

    Args:
        named: a head's probability that each kind is named in this tick, [..., KINDS]; None: no words.
    """
    values, age_s, valid = every
    if named is not None:
        values = values.copy()
        values[..., -1] = np.einsum("...sk,...k->...s", values[..., :KINDS], named) * valid
    order = np.argsort(-(2.0 * (values[..., -1] > 0.5) + valid), -1, kind="stable")[..., :k]
    chosen = np.take_along_axis(values, order[..., None], -2)
    return chosen, np.take_along_axis(age_s, order, -1), np.take_along_axis(valid, order, -1)


def shares(beliefs: Beliefs, kind: np.ndarray, places: np.ndarray) -> np.ndarray:
    """How the belief about the thing of `kind` [N] is shared among K places [N, K, 3] it may be at; rows add up to 1.

    Where a child believes nothing of that kind, all places are alike.
    """
    n, k, _ = places.shape
    mine = beliefs.used & (beliefs.kind == kind[:, None])
    slot, rows = np.where(mine, -beliefs.age_s, -np.inf).argmax(1), np.arange(n)
    mean, covariance = beliefs.mean[rows, slot], beliefs.covariance[rows, slot] + PLACE_M**2 * np.eye(3)
    apart = squared_distance(places - mean[:, None], np.broadcast_to(covariance[:, None], (n, k, 3, 3)))
    near = np.exp(-0.5 * (apart - apart.min(1, keepdims=True)))
    near /= near.sum(1, keepdims=True)
    there, elsewhere = beliefs.there[rows, slot, None], beliefs.elsewhere[rows, slot, None]
    told = there * near + elsewhere * (1 - near) / max(1, k - 1) + (1 - there - elsewhere) / k
    return np.where(mine.any(1)[:, None], told, 1.0 / k)
