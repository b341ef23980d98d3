"""Objects: explicit beliefs about what is where, updated every tick from the outputs of an agent's heads.

Each belief has a kind (a class of a head), a place with its covariance, and three probabilities that sum to 1:

    there       the thing is where it was last seen,
    elsewhere   the agent looked there and did not find it, so it is anywhere but there,
    anywhere    the rest: nothing is known.

A detection raises `there` by Bayes' rule and corrects the place by a Kalman filter. With time the covariance grows, and
`there` and `elsewhere` decay into `anywhere`. If a place is in view, nothing nearer hides it, and nothing of that kind
is seen, nearly all of `there` moves into `elsewhere` (negative information: Koch 2004). The only inputs are numbers
from heads and the sense `body`, never a world's true state. `tracker.py` keeps the beliefs in an agent's state.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from devmind.agent.detections import Detections, FilterParams, Gaze
from devmind.agent.tracking import (
    depth_around,
    direction,
    greedy_assignment,
    kalman_update,
    point,
    polar_noise,
    process_noise,
    project,
    squared_distance,
)
from devmind.errors import ConfigError

FILTER = FilterParams()


@dataclass(frozen=True)
class Beliefs:
    """Beliefs of N rows about up to S things each; `update` gives new ones and does not change these.

    used bool [N, S]; kind and hits (number of detections) int64 [N, S]; mean [N, S, 3] and covariance [N, S, 3, 3] in
    metres; there, elsewhere [N, S]; age_s [N, S] since the thing was last seen; in_sight bool [N, S]: it is seen in
    this tick; size_m [N, S], 0 if unknown; embedding [N, S, E], zeros if none was given.
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
    size_m: np.ndarray
    embedding: np.ndarray

    def __len__(self) -> int:
        return len(self.used)

    @property
    def spread_m(self) -> np.ndarray:
        """Standard deviation of each place [N, S] in metres, root mean square over the axes."""
        return np.asarray(np.sqrt(np.trace(self.covariance, axis1=-2, axis2=-1) / 3))

    @property
    def confirmed(self) -> np.ndarray:
        """Beliefs in things that were detected more than once, bool [N, S]: those that the trunk is given."""
        return np.asarray(self.used & (self.hits > 1))

    def take(self, rows: np.ndarray) -> Beliefs:
        """Only the rows `rows`."""
        return replace(self, **{f.name: getattr(self, f.name)[rows] for f in fields(self)})


def no_beliefs(n: int, things: int = 8, embedding: int = 0) -> Beliefs:
    """Empty beliefs of N rows, with room for `things` each and embeddings of `embedding` numbers.

    Raises:
        ConfigError: `things` is below 1.
    """
    if things < 1:
        raise ConfigError(f"Beliefs need room for one thing at least; got {things}.")
    zero, none = np.zeros((n, things)), np.zeros((n, things), bool)
    return Beliefs(
        used=none,
        kind=np.zeros((n, things), np.int64),
        hits=np.zeros((n, things), np.int64),
        mean=np.zeros((n, things, 3)),
        covariance=np.zeros((n, things, 3, 3)),
        there=zero,
        elsewhere=zero,
        age_s=zero,
        in_sight=none,
        size_m=zero,
        embedding=np.zeros((n, things, embedding)),
    )


def update(beliefs: Beliefs, seen: Detections, gaze: Gaze, dt_s: float) -> Beliefs:
    """The beliefs after a tick of `dt_s` seconds: they age, are corrected by detections, and absences are noted."""
    aged = _aged(beliefs, dt_s)
    if not (aged.used.any() or seen.here.any()):
        return aged  # nothing to correct, as in tests that show no picture
    at = gaze.eye_m[:, None] + point(seen.azimuth_deg, seen.elevation_deg, seen.distance_m)
    noise = polar_noise(at - gaze.eye_m[:, None], FILTER.angle_deg, FILTER.log_distance)
    track, leaps = _paired(aged, seen, at, noise)
    now = _detected(aged, seen, track, leaps, at, noise)
    return _absent(now, seen, gaze)


def _aged(old: Beliefs, dt_s: float) -> Beliefs:
    """Time alone: covariances grow, shares decay, and unconfirmed beliefs that were unseen for a second are dropped."""
    walk = np.where(old.in_sight, FILTER.walk_seen_m, FILTER.walk_m) ** 2 * dt_s
    kept = np.exp(-dt_s / FILTER.drain_s)
    return replace(
        old,
        used=old.used & ((old.hits >= FILTER.confirm) | (old.age_s < 1.0)),
        covariance=process_noise(old.covariance, walk, FILTER.spread_m**2),
        there=old.there * kept,
        elsewhere=old.elsewhere * kept,
        age_s=old.age_s + dt_s,
        in_sight=np.zeros_like(old.in_sight),
    )


def _paired(old: Beliefs, seen: Detections, at: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The slot of each detection's belief, int64 [N, M] (-1: none), and which detections set a place anew, bool [N, M].

    Detections are first matched by place, within the gate. The rest are matched to beliefs of their kind without a
    detection, the last seen first: a thing that appears elsewhere is taken for the same thing, moved. What is still
    left begins a belief, in a free slot or in place of the stalest one.
    """
    same = seen.here[..., None] & old.used[:, None] & (seen.kind[..., None] == old.kind[:, None])
    if seen.embedding is not None:
        same &= np.einsum("nme,nse->nms", seen.embedding, old.embedding) >= FILTER.alike
    offset = at[:, :, None] - old.mean[:, None]
    distance = squared_distance(offset, noise[:, :, None] + old.covariance[:, None])
    track = greedy_assignment(np.where(same, distance, np.inf), FILTER.gate)
    open_ = seen.here & (track < 0) & (seen.sure >= FILTER.begin)
    taken = _taken(track, old.used.shape[1])
    alike = same & open_[..., None] & ~taken[:, None]
    moved = greedy_assignment(
        np.where(alike & (seen.sure >= FILTER.leap)[..., None], old.age_s[:, None], np.inf), np.inf
    )
    # A detection that is not sure enough to move a belief does not begin a second one either.
    track, open_ = np.where(moved >= 0, moved, track), open_ & (moved < 0) & ~alike.any(-1)
    taken = _taken(track, old.used.shape[1])
    # Free slots go first, then unconfirmed beliefs, then those seen longest ago; the surest detections choose first.
    price = old.used * (1e6 * (old.hits >= FILTER.confirm) + 1e3 - np.minimum(old.age_s, 999.0)) + 1.0
    price = np.where(taken, np.inf, price)[:, None] * (2.0 - seen.sure[..., None])
    fresh = greedy_assignment(np.where(open_[..., None], price, np.inf), np.inf)
    return np.where(fresh >= 0, fresh, track), (moved >= 0) | (fresh >= 0)


def _taken(track: np.ndarray, slots: int) -> np.ndarray:
    return np.asarray((track[..., None] == np.arange(slots)).any(1))


def _detected(
    old: Beliefs,
    seen: Detections,
    track: np.ndarray,
    leaps: np.ndarray,
    at: np.ndarray,
    noise: np.ndarray,
) -> Beliefs:
    """Apply detections: places by `kalman_update`, or set anew where `leaps`; `there` by Bayes' rule."""
    rows, which = np.nonzero(track >= 0)
    slots = track[rows, which]
    new = {f.name: getattr(old, f.name).copy() for f in fields(old)}
    leapt, place, slant = leaps[rows, which], at[rows, which], noise[rows, which]
    mean, covariance = kalman_update(old.mean[rows, slots], old.covariance[rows, slots], place, slant)
    new["mean"][rows, slots] = np.where(leapt[:, None], place, mean)
    new["covariance"][rows, slots] = np.where(leapt[:, None, None], slant, covariance)
    known = old.used[rows, slots] & (old.kind[rows, slots] == seen.kind[rows, which])
    before = np.where(leapt, 0.5, old.there[rows, slots])
    there = np.minimum(before * FILTER.hit / (before * FILTER.hit + (1 - before) * FILTER.false), FILTER.surest)
    new["there"][rows, slots], new["elsewhere"][rows, slots] = there, 0.0
    new["hits"][rows, slots] = np.where(known, old.hits[rows, slots], 0) + 1
    new["kind"][rows, slots] = seen.kind[rows, which]
    new["used"][rows, slots] = new["in_sight"][rows, slots] = True
    new["age_s"][rows, slots] = 0.0
    if seen.size_m is not None:
        new["size_m"][rows, slots] = seen.size_m[rows, which]
    if seen.embedding is not None:
        new["embedding"][rows, slots] = seen.embedding[rows, which]
    return Beliefs(**new)


def _absent(old: Beliefs, seen: Detections, gaze: Gaze) -> Beliefs:
    """Move `there` to `elsewhere` for places in view where nothing of that kind is seen."""
    offset = old.mean - gaze.eye_m[:, None]
    column, row, ahead = project(offset, gaze.pan_deg, gaze.tilt_deg, gaze.half_deg)
    inside = (np.abs(column) < 0.9) & (np.abs(row) < 0.9) & gaze.known[:, None]
    ratio = depth_around(gaze.depth_m, column, row) / np.maximum(ahead, 0.05)
    azimuth, elevation, distance = direction(offset)
    aside = np.hypot(azimuth[:, None] - seen.azimuth_deg[..., None], elevation[:, None] - seen.elevation_deg[..., None])
    along = seen.distance_m[..., None] / np.maximum(distance[:, None], 0.05)
    other = seen.here[..., None] & (seen.kind[..., None] != old.kind[:, None]) & (aside < 2 * FILTER.angle_deg)
    hidden = (ratio < FILTER.nearer) | (other & (along < FILTER.before)).any(1)
    hinted = ((seen.kind[..., None] == old.kind[:, None]) & (seen.sure >= FILTER.hint)[..., None]).any(1)
    looked = old.used & ~old.in_sight & inside & ~hidden & ~hinted
    instead = (other & (along < FILTER.beyond)).any(1)
    chance = np.where((ratio > FILTER.beyond) | instead, FILTER.missed, FILTER.doubted)
    there = np.where(looked, old.there * chance, old.there)
    gone = np.where(looked, 1 - old.there, old.elsewhere)
    total = np.where(looked, there + gone, 1.0)
    return replace(old, there=there / total, elsewhere=gone / total)
