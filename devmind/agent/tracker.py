"""Beliefs about what is where, updated every tick from the outputs of an agent's heads, in and out of sight.

Each belief has a kind (a class of a head), a place with its covariance, and three probabilities that sum to 1:

    there       the thing is where it was last seen,
    elsewhere   the agent looked there and did not find it, so it is anywhere but there,
    anywhere    the rest: nothing is known.

A detection raises `there` by Bayes' rule and corrects the place by a Kalman filter. With time the covariance grows, and
`there` and `elsewhere` decay into `anywhere`. If a place is in view, nothing nearer hides it, and nothing of that kind
is seen, nearly all of `there` moves into `elsewhere` (negative information: Koch 2004). The only inputs are numbers
from heads and the sense `body`, never a world's true state.

The `Tracker` has no weights. Detections come from one head of the agent (`Output.detections`; the head's `labels` name
the classes), depth from another, and the gaze from the sense `body`. Its state is `State.carry["tracker"]`, whose rows
are handled like all that an agent carries. `Agent.step` runs it if beliefs are wanted: in lessons, exams and live.

The mathematics is plain NumPy over N rows at once. Positions are metres in the frame of a torso that does not lean:
x forward, y left, z up from the upright head. Sources: Kalman 1960 ("A new approach to linear filtering and prediction
problems"); Lerro and Bar-Shalom 1993 (converted measurements: a direction and a distance become a point with a
covariance); Blackman and Popoli 1999 ("Design and analysis of modern tracking systems", ch. 6: gates and greedy
assignment).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.agent.batch import Batch
from devmind.agent.output import Detections, Output
from devmind.agent.rows import Carry, CarrySpec, Leaf
from devmind.agent.taps import Perceived, Percepts
from devmind.errors import ConfigError
from devmind.moment import SIGHT_SIZE, TICK_HZ

TRACKER = "tracker"
SENSE = "belief"
"""The sense under which an agent encodes a belief: a vector of `numbers_of(classes)` numbers."""
BESIDE_CLASS = 7
"""Numbers of a belief after its one-hot class: azimuth and elevation (/30 deg), log of the distance (m), standard
deviation (m), there, elsewhere, and the probability that its class is named now."""
RECALLED = 4
"""The most beliefs that the trunk gets in one Moment."""
SCALE_DEG = 30.0
PLACE_M = 0.15
PAN_SIN, PAN_COS, TILT, LEAN = 0, 1, 2, 8
"""Columns of the sense `body`."""

Run = Callable[[str, Perceived], Output]
"""Runs a head of the agent, by its name."""


# -- geometry and the filter ------------------------------------------------------------------------------------------


def point(azimuth_deg: np.ndarray, elevation_deg: np.ndarray, distance_m: np.ndarray) -> np.ndarray:
    """Points [..., 3] by azimuth (positive left), elevation (positive up) and distance."""
    a, e = np.deg2rad(azimuth_deg), np.deg2rad(elevation_deg)
    flat = np.cos(e)
    return distance_m[..., None] * np.stack([flat * np.cos(a), flat * np.sin(a), np.sin(e)], -1)


def direction(vector: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Azimuth and elevation in degrees, and distance, of vectors [..., 3]."""
    x, y, z = vector[..., 0], vector[..., 1], vector[..., 2]
    return np.rad2deg(np.arctan2(y, x)), np.rad2deg(np.arctan2(z, np.hypot(x, y))), np.linalg.norm(vector, axis=-1)


def polar_noise(vector: np.ndarray, angle_deg: float, log_distance: float) -> np.ndarray:
    """Covariances [..., 3, 3] of points seen at `vector` [..., 3], from the errors of angle and log distance."""
    far = np.maximum(np.linalg.norm(vector, axis=-1), 0.05)[..., None, None]
    along = vector[..., None] * vector[..., None, :] / far**2
    aside, radial = (np.deg2rad(angle_deg) * far) ** 2, (log_distance * far) ** 2
    return aside * (np.eye(3) - along) + radial * along


def process_noise(covariance: np.ndarray, step: np.ndarray, most: float) -> np.ndarray:
    """Covariances [..., 3, 3] after a random walk of variance `step` [...] (m^2), limited to a mean variance `most`."""
    full = np.trace(covariance, axis1=-2, axis2=-1) / (3 * most)
    return covariance + (step * np.clip(1 - full, 0, 1))[..., None, None] * np.eye(3)


def kalman_update(
    mean: np.ndarray, covariance: np.ndarray, seen: np.ndarray, noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Kalman's update of means [..., 3] and covariances [..., 3, 3] by points `seen` of covariance `noise`."""
    gain = covariance @ np.linalg.inv(covariance + noise)
    mean = mean + np.einsum("...ij,...j->...i", gain, seen - mean)
    covariance = covariance - gain @ covariance
    return mean, (covariance + covariance.swapaxes(-1, -2)) / 2


def squared_distance(offset: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Mahalanobis' squared distance of offsets [..., 3]."""
    solved = np.linalg.solve(covariance, offset[..., None])[..., 0]
    return (offset * solved).sum(-1)


def greedy_assignment(cost: np.ndarray, most: float) -> np.ndarray:
    """The track of each of M detections by cost [N, M, S], the cheapest pairs first; int64 [N, M], -1 for none.

    The cheapest remaining pair is taken until all cost more than `most`; each detection and each track is used once. It
    differs from the optimal assignment (Kuhn 1955) only where gates overlap, and runs for all rows at once.
    """
    n, m, s = cost.shape
    left, every = np.where(cost <= most, cost, np.inf), np.arange(n)
    track = np.full((n, m), -1)
    for _ in range(min(m, s)):
        best = left.reshape(n, -1).argmin(1)
        row, column = best // s, best % s
        found = np.isfinite(left[every, row, column])
        if not found.any():
            break
        track[every[found], row[found]] = column[found]
        left[every[found], row[found]] = np.inf
        left[every[found], :, column[found]] = np.inf
    return track


def project(
    offset: np.ndarray, pan_deg: np.ndarray, tilt_deg: np.ndarray, half_deg: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Project points [N, S, 3], relative to the eye, into the picture of a gaze [N].

    Returns:
        column and row in -1..1 (left to right, top to bottom; out of view beyond that) and metres along the axis,
        each [N, S]. Points behind the eye have an infinite column and row.
    """
    pan, tilt = np.deg2rad(pan_deg)[:, None], np.deg2rad(tilt_deg)[:, None]
    x, y, z = offset[..., 0], offset[..., 1], offset[..., 2]
    level = np.cos(pan) * x + np.sin(pan) * y
    left = np.cos(pan) * y - np.sin(pan) * x
    ahead, up = np.cos(tilt) * level + np.sin(tilt) * z, np.cos(tilt) * z - np.sin(tilt) * level
    scale = np.maximum(ahead, 1e-6) * np.tan(np.deg2rad(half_deg))
    behind = ahead <= 0.05
    return np.where(behind, np.inf, -left / scale), np.where(behind, np.inf, -up / scale), ahead


def depth_around(depth_m: np.ndarray, column: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Median depth of the 3 x 3 pixels around points [N, S] (-1..1) of depth maps [N, H, W]."""
    n, height, width = depth_m.shape
    x = np.clip(((np.nan_to_num(column, posinf=0) + 1) / 2 * width).astype(int), 1, width - 2)
    y = np.clip(((np.nan_to_num(row, posinf=0) + 1) / 2 * height).astype(int), 1, height - 2)
    every = np.arange(n)[:, None]
    around = [depth_m[every, y + i, x + j] for i in (-1, 0, 1) for j in (-1, 0, 1)]
    return np.asarray(np.median(np.stack(around, -1), -1))


# -- beliefs ----------------------------------------------------------------------------------------------------------


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


# -- the tracker of an agent ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tracker:
    """The heads that feed the beliefs, and the scale of the body; its fields are saved in the agent's config.

    Args:
        detects: the head whose output gives detections.
        depth: the head whose answer is metres [..., 64, 64]; without it nothing is ever judged absent.
        names: the head that says which class the words of this Moment name.
        stage: the stage that added the tracker.
        things: the most beliefs of one row.
        embedding: length of the detections' embeddings; 0 if the head gives none.
        max_tilt_deg, max_lean_m: the tilt and the lean that the number 1 in the sense `body` stands for.
    """

    detects: str
    depth: str | None = None
    names: str | None = None
    stage: str = "newborn"
    things: int = 8
    embedding: int = 0
    max_tilt_deg: float = 60.0
    max_lean_m: float = 0.3

    @property
    def carry_spec(self) -> CarrySpec:
        """The beliefs, and the last picture whose depth was computed."""
        row = _tensors(no_beliefs(1, self.things, self.embedding), _Looked.none(1))
        return {name: Leaf(tuple(value.shape[1:]), value.dtype) for name, value in row.items()}

    def track(self, percepts: Percepts, carry: Carry, run: Run) -> tuple[Beliefs, Carry]:
        """The beliefs after one more tick; in a row without picture or body they only grow older.

        The given `carry` itself comes back as long as nothing was ever seen.
        """
        before, (gaze, here) = _beliefs(carry), self._gaze(percepts)
        if not here.any() and not bool(carry["age_s"].any() or carry["used"].any()):
            return before, carry
        (pan, tilt, eye), looked = gaze, _Looked.of(carry)
        seen = self._detected(percepts, here, run)
        known = looked.look(self.depth, percepts, here, before, seen, run)
        there = seen.seen_from(pan, tilt, here)
        after = update(before, there, Gaze(pan, tilt, eye, looked.depth_m, known), 1 / TICK_HZ)
        return after, _tensors(after, looked)

    def _gaze(self, percepts: Percepts) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray], np.ndarray]:
        """Pan and tilt [N], the eye's place [N, 3], and which rows have both picture and body, bool [N]."""
        batch, n = percepts.batch, len(percepts.batch["first"])
        if not {"sight", "body"} <= batch["present"].keys():
            return (np.zeros(n), np.zeros(n), np.zeros((n, 3))), np.zeros(n, bool)
        here = (batch["present"]["sight"] & batch["present"]["body"])[:, 0].cpu().numpy()
        # A camera has no lean: that number is absent (NaN).
        body = batch["senses"]["body"][:, 0].float().nan_to_num(0.0).cpu().numpy()
        eye = np.zeros((n, 3))
        eye[:, 0] = body[:, LEAN] * self.max_lean_m
        pan = np.rad2deg(np.arctan2(body[:, PAN_SIN], body[:, PAN_COS]))
        return (pan, body[:, TILT] * self.max_tilt_deg, eye), here

    def _detected(self, percepts: Percepts, here: np.ndarray, run: Run) -> Detections:
        if not here.any():
            return no_detections(len(here))
        detected = run(self.detects, percepts.seen).detections()
        assert detected is not None  # `Agent.add_tracker` has checked it
        return Detections(detected.here & here[:, None], *(getattr(detected, f.name) for f in fields(detected)[1:]))

    @torch.no_grad()
    def entries(self, beliefs: Beliefs, percepts: Percepts, classes: int, run: Run) -> Batch:
        """The beliefs for the trunk, as `Agent.encode_recalled` takes them: tensors [N, 4, ...], named things first.

        Without a head for names, or without words, the order is that of the function `entries`.
        """
        heard, named = percepts.batch["present"].get("words"), None
        if self.names is not None and heard is not None and heard.any():
            name_output: Any = run(self.names, percepts.seen)
            named = name_output.probabilities().float().cpu().numpy() * heard.cpu().numpy()
        every = recall(entries(beliefs, classes), named)
        return recalled_batch(*(torch.from_numpy(value) for value in every))


@dataclass
class _Looked:
    """The last picture whose depth was computed: depth_m float32 [N, 64, 64], picture uint8 [N, 64, 64, 3], and `some`
    bool [N], whether there is one."""

    depth_m: np.ndarray
    picture: np.ndarray
    some: np.ndarray

    @classmethod
    def none(cls, n: int) -> _Looked:
        side = SIGHT_SIZE
        return cls(np.zeros((n, side, side), np.float32), np.zeros((n, side, side, 3), np.uint8), np.zeros(n, bool))

    @classmethod
    def of(cls, carried: Mapping[str, Tensor]) -> _Looked:
        return cls(*(carried[name].numpy().copy() for name in ("depth_m", "picture", "some")))

    def look(
        self, head: str | None, percepts: Percepts, here: np.ndarray, held: Beliefs, seen: Detections, run: Run
    ) -> np.ndarray:
        """Compute depth in rows where a thing that is believed in is not seen; gives the rows with depth, bool [N].

        The depth of an unchanged picture is not computed again.
        """
        observed = (seen.here[:, None] & (seen.kind[:, None] == held.kind[..., None])).any(-1)
        known = (held.used & ~observed).any(1) & here & (head is not None)
        if head is None or not known.any():
            return np.asarray(known)
        sight = percepts.batch["senses"]["sight"][:, 0].cpu().numpy()
        same = self.some & (self.picture == sight).all((1, 2, 3))
        new = np.flatnonzero(known & ~same)
        if len(new):
            some = percepts.seen.map(lambda x: x[torch.from_numpy(new).to(x.device)])
            self.depth_m[new] = run(head, some).mode().float().cpu().numpy()
            self.picture[new], self.some[new] = sight[new], True
        return np.asarray(known)


def _beliefs(carried: Mapping[str, Tensor]) -> Beliefs:
    return Beliefs(**{f.name: carried[f.name].numpy() for f in fields(Beliefs)})


def _tensors(beliefs: Beliefs, looked: _Looked) -> dict[str, Tensor]:
    """On the CPU, where they are computed; some accelerators (MPS) have no float64."""
    arrays = {f.name: getattr(beliefs, f.name) for f in fields(beliefs)}
    arrays |= {f.name: getattr(looked, f.name) for f in fields(looked)}
    return {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in arrays.items()}


Entries = tuple[np.ndarray, np.ndarray, np.ndarray]
"""values float32 [..., k, numbers], age_s float32 [..., k] since the thing was seen, valid bool [..., k]."""


def numbers_of(classes: int) -> int:
    """The number of numbers in an encoded belief, for this number of classes."""
    return classes + BESIDE_CLASS


def entries(beliefs: Beliefs, classes: int) -> Entries:
    """All confirmed beliefs of each row as entries; none is marked as named yet.

    Things out of sight come first, the last seen ones before others. Things in sight come last, since the trunk sees
    them anyway.
    """
    confirmed = beliefs.confirmed
    price = np.where(confirmed, beliefs.age_s + 1e6 * beliefs.in_sight, np.inf)
    order = np.argsort(price, 1, kind="stable")
    rows = np.arange(len(beliefs))[:, None]
    valid = confirmed[rows, order]
    azimuth, elevation, distance = direction(beliefs.mean[rows, order])
    columns = [
        *(beliefs.kind[rows, order] == kind for kind in range(classes)),
        azimuth / SCALE_DEG,
        elevation / SCALE_DEG,
        np.log(np.maximum(distance, 0.05)),
        beliefs.spread_m[rows, order],
        beliefs.there[rows, order],
        beliefs.elsewhere[rows, order],
        np.zeros_like(distance),
    ]
    values = np.stack(columns, -1).astype(np.float32)
    return values * valid[..., None], (beliefs.age_s[rows, order] * valid).astype(np.float32), valid


def recall(every: Entries, named: np.ndarray | None = None, k: int = RECALLED) -> Entries:
    """At most k entries for the trunk: first those of named classes, then the others in the given order.

    Args:
        named: a head's probability that each class is named in this tick, [..., classes]; None: no words.
    """
    values, age_s, valid = every
    if named is not None:
        classes = values.shape[-1] - BESIDE_CLASS
        values = values.copy()
        values[..., -1] = np.einsum("...sk,...k->...s", values[..., :classes], named[..., :classes]) * valid
    order = np.argsort(-(2.0 * (values[..., -1] > 0.5) + valid), -1, kind="stable")[..., :k]
    chosen = np.take_along_axis(values, order[..., None], -2)
    return chosen, np.take_along_axis(age_s, order, -1), np.take_along_axis(valid, order, -1)


def recalled_batch(values: Tensor, age_s: Tensor, valid: Tensor) -> Batch:
    """Entries [..., R, numbers], age_s and valid [..., R] in the form of a Batch's `recalled`."""
    return {"senses": {SENSE: values}, "present": {SENSE: valid}, "age_s": age_s, "valid": valid}


def shares(beliefs: Beliefs, kind: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Probabilities [N, K] that the thing of `kind` [N] is at each of K places [N, K, 3]; rows sum to 1.

    In a row without a belief of that kind, all places are equally likely.
    """
    n, k, _ = places.shape
    of_kind = beliefs.used & (beliefs.kind == kind[:, None])
    slot, rows = np.where(of_kind, -beliefs.age_s, -np.inf).argmax(1), np.arange(n)
    mean, covariance = beliefs.mean[rows, slot], beliefs.covariance[rows, slot] + PLACE_M**2 * np.eye(3)
    apart = squared_distance(places - mean[:, None], np.broadcast_to(covariance[:, None], (n, k, 3, 3)))
    near = np.exp(-0.5 * (apart - apart.min(1, keepdims=True)))
    near /= near.sum(1, keepdims=True)
    there, elsewhere = beliefs.there[rows, slot, None], beliefs.elsewhere[rows, slot, None]
    probability = there * near + elsewhere * (1 - near) / max(1, k - 1) + (1 - there - elsewhere) / k
    return np.where(of_kind.any(1)[:, None], probability, 1.0 / k)
