"""Objects: explicit beliefs about what is where, kept up tick by tick from what an agent's heads tell.

Each belief has a kind, a place with its uncertainty, and three shares that add up to 1:

    there       it is where it was last seen,
    elsewhere   it was looked for there and found absent, so it is anywhere but there,
    anywhere    the rest: nothing is known.

A sighting raises `there` by Bayes' rule and corrects the place by Kalman's; out of view the place spreads and `there`
drains into `anywhere`; a place in view with nothing nearer before it, where nothing of that kind is seen, moves all but
a little into `elsewhere` (negative information: Koch 2004). Only numbers from heads and the sense `body` come in; no
agent is imported here, and nothing that is true of a world.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from devmind.errors import ConfigError
from devmind.memory.sightings import KINDS, Gaze, Habits, Sightings
from devmind.memory.tracking import (
    corrected,
    depth_around,
    direction,
    in_picture,
    nearest_first,
    point,
    polar_noise,
    spread_out,
    squared_distance,
)

RECALLED = 4
BELIEF_NUMBERS = KINDS + 7
"""One number a kind, azimuth and elevation (/30 deg), log of the distance (m), spread (m), there, elsewhere, and how
surely its kind is named just now."""


@dataclass(frozen=True)
class Beliefs:
    """Beliefs of N children about up to S things each; `update` gives new ones and leaves these as they are.

    used bool [N, S]; kind, hits int64 [N, S]; mean [N, S, 3] and covariance [N, S, 3, 3] in metres; there, elsewhere
    [N, S]; age_s [N, S] since it was last seen; in_sight bool [N, S]: seen in this very tick.
    """

    used: np.ndarray
    kind: np.ndarray
    hits: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray
    there: np.ndarray
    elsewhere: np.ndarray
    age_s: np.ndarray
    in_sight: np.ndarray

    def __len__(self) -> int:
        return len(self.used)

    @property
    def spread_m(self) -> np.ndarray:
        """Standard deviation of each place, mean over the axes, [N, S]."""
        return np.asarray(np.sqrt(np.trace(self.covariance, axis1=-2, axis2=-1) / 3))

    def take(self, rows: np.ndarray) -> Beliefs:
        """The children `rows` alone."""
        return replace(self, **{f.name: getattr(self, f.name)[rows] for f in fields(self)})


def no_beliefs(n: int, things: int = 8) -> Beliefs:
    """N children that believe nothing yet, with room for `things` each.

    Raises:
        ConfigError: no room for a single thing.
    """
    if things < 1:
        raise ConfigError(f"Beliefs need room for one thing at least; got {things}.")
    zero, none = np.zeros((n, things)), np.zeros((n, things), bool)
    return Beliefs(
        used=none,
        kind=np.zeros((n, things), np.int64),
        hits=np.zeros((n, things), np.int64),
        mean=np.zeros((n, things, 3)),
        covariance=np.tile(np.eye(3), (n, things, 1, 1)),
        there=zero,
        elsewhere=zero,
        age_s=zero,
        in_sight=none,
    )


def update(beliefs: Beliefs, seen: Sightings, gaze: Gaze, dt_s: float, habits: Habits = Habits()) -> Beliefs:  # noqa: B008
    """The beliefs one tick of `dt_s` seconds later: time passes, sightings correct, absences are noticed."""
    aged = _aged(beliefs, dt_s, habits)
    at = gaze.eye_m[:, None] + point(seen.azimuth_deg, seen.elevation_deg, seen.distance_m)
    noise = polar_noise(at - gaze.eye_m[:, None], habits.angle_deg, habits.log_distance)
    track, leaps = _paired(aged, seen, at, noise, habits)
    now = _seen(aged, seen, track, leaps, at, noise, habits)
    return _missed(now, seen, gaze, habits)


def _aged(old: Beliefs, dt_s: float, habits: Habits) -> Beliefs:
    """Time alone: places spread, trust drains, what was seen but once and not again is dropped."""
    walk = np.where(old.in_sight, habits.walk_seen_m, habits.walk_m) ** 2 * dt_s
    kept = np.exp(-dt_s / habits.drain_s)
    return replace(
        old,
        used=old.used & ((old.hits >= habits.confirm) | (old.age_s < 1.0)),
        covariance=spread_out(old.covariance, walk, habits.spread_m**2),
        there=old.there * kept,
        elsewhere=old.elsewhere * kept,
        age_s=old.age_s + dt_s,
        in_sight=np.zeros_like(old.in_sight),
    )


def _paired(
    old: Beliefs, seen: Sightings, at: np.ndarray, noise: np.ndarray, habits: Habits
) -> tuple[np.ndarray, np.ndarray]:
    """The belief of each sighting, int64 [N, M] (-1 none, 0 <= slot), and which of them lie beyond the gate [N, M].

    First by place within the gate. What is left goes to a belief of its kind that nothing else was seen of, the one
    seen last: a thing that turns up elsewhere is the same thing that has moved. Then to a free slot, or the stalest.
    """
    same = seen.here[..., None] & old.used[:, None] & (seen.kind[..., None] == old.kind[:, None])
    offset = at[:, :, None] - old.mean[:, None]
    distance = squared_distance(offset, noise[:, :, None] + old.covariance[:, None])
    track = nearest_first(np.where(same, distance, np.inf), habits.gate)
    open_ = seen.here & (track < 0) & (seen.sure >= habits.begin)
    taken = _taken(track, old.used.shape[1])
    alike = same & open_[..., None] & ~taken[:, None]
    moved = nearest_first(np.where(alike & (seen.sure >= habits.leap)[..., None], old.age_s[:, None], np.inf), np.inf)
    # What is not sure enough to move a belief begins none beside it either.
    track, open_ = np.where(moved >= 0, moved, track), open_ & (moved < 0) & ~alike.any(-1)
    taken = _taken(track, old.used.shape[1])
    # Free slots first, then what was never confirmed, then what was seen longest ago; surest sightings choose first.
    price = old.used * (1e6 * (old.hits >= habits.confirm) + 1e3 - np.minimum(old.age_s, 999.0)) + 1.0
    price = np.where(taken, np.inf, price)[:, None] * (2.0 - seen.sure[..., None])
    fresh = nearest_first(np.where(open_[..., None], price, np.inf), np.inf)
    return np.where(fresh >= 0, fresh, track), (moved >= 0) | (fresh >= 0)


def _taken(track: np.ndarray, slots: int) -> np.ndarray:
    return np.asarray((track[..., None] == np.arange(slots)).any(1))


def _seen(
    old: Beliefs,
    seen: Sightings,
    track: np.ndarray,
    leaps: np.ndarray,
    at: np.ndarray,
    noise: np.ndarray,
    habits: Habits,
) -> Beliefs:
    """Sightings taken in: places corrected, or set anew where they leapt; trust by Bayes' rule."""
    rows, which = np.nonzero(track >= 0)
    slots = track[rows, which]
    new = {f.name: getattr(old, f.name).copy() for f in fields(old)}
    leapt, place, slant = leaps[rows, which], at[rows, which], noise[rows, which]
    mean, covariance = corrected(old.mean[rows, slots], old.covariance[rows, slots], place, slant)
    new["mean"][rows, slots] = np.where(leapt[:, None], place, mean)
    new["covariance"][rows, slots] = np.where(leapt[:, None, None], slant, covariance)
    known = old.used[rows, slots] & (old.kind[rows, slots] == seen.kind[rows, which])
    before = np.where(leapt, 0.5, old.there[rows, slots])
    there = np.minimum(before * habits.hit / (before * habits.hit + (1 - before) * habits.false), habits.surest)
    new["there"][rows, slots], new["elsewhere"][rows, slots] = there, 0.0
    new["hits"][rows, slots] = np.where(known, old.hits[rows, slots], 0) + 1
    new["kind"][rows, slots] = seen.kind[rows, which]
    new["used"][rows, slots] = new["in_sight"][rows, slots] = True
    new["age_s"][rows, slots] = 0.0
    return Beliefs(**new)


def _missed(old: Beliefs, seen: Sightings, gaze: Gaze, habits: Habits) -> Beliefs:
    """Places looked at in which nothing of the kind is seen: the trust goes elsewhere."""
    offset = old.mean - gaze.eye_m[:, None]
    column, row, ahead = in_picture(offset, gaze.pan_deg, gaze.tilt_deg, gaze.half_deg)
    inside = (np.abs(column) < 0.9) & (np.abs(row) < 0.9) & gaze.known[:, None]
    ratio = depth_around(gaze.depth_m, column, row) / np.maximum(ahead, 0.05)
    azimuth, elevation, distance = direction(offset)
    aside = np.hypot(azimuth[:, None] - seen.azimuth_deg[..., None], elevation[:, None] - seen.elevation_deg[..., None])
    along = seen.distance_m[..., None] / np.maximum(distance[:, None], 0.05)
    other = seen.here[..., None] & (seen.kind[..., None] != old.kind[:, None]) & (aside < 2 * habits.angle_deg)
    hidden = (ratio < habits.nearer) | (other & (along < habits.before)).any(1)
    hinted = ((seen.kind[..., None] == old.kind[:, None]) & (seen.sure >= habits.hint)[..., None]).any(1)
    looked = old.used & ~old.in_sight & inside & ~hidden & ~hinted
    instead = (other & (along < habits.beyond)).any(1)
    chance = np.where((ratio > habits.beyond) | instead, habits.missed, habits.doubted)
    there = np.where(looked, old.there * chance, old.there)
    gone = np.where(looked, 1 - old.there, old.elsewhere)
    total = np.where(looked, there + gone, 1.0)
    return replace(old, there=there / total, elsewhere=gone / total)
