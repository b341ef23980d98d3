"""The tracker updates an agent's beliefs about things, in and out of sight, and gives them to the trunk.

It has no weights. Detections come from one head of the agent (`Output.detections`; the head's `labels` name the
classes), depth from another, and the gaze from the sense `body`. Its state is `State.carry["tracker"]`, whose rows are
handled like all that an agent carries. `Agent.step` runs it if beliefs are wanted: in lessons, exams and live.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from devmind.agent.batch import Batch
from devmind.agent.beliefs import Beliefs, no_beliefs, update
from devmind.agent.detections import Detections, Gaze, no_detections
from devmind.agent.tracking import direction, squared_distance
from devmind.moment import SIGHT_SIZE, TICK_HZ

if TYPE_CHECKING:
    from devmind.agent.agent import Agent
    from devmind.agent.state import State
    from devmind.agent.taps import Percepts

CARRY = "tracker"
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

    def track(self, agent: Agent, state: State, percepts: Percepts) -> Beliefs:
        """Update the beliefs in `state` by one tick; in a row without picture or body they only grow older.

        The state must have been opened for this tick, so that rows that begin an episode have no beliefs.
        """
        n = len(state)
        carried = state.carry.get(CARRY)
        before = no_beliefs(n, self.things, self.embedding) if carried is None else _beliefs(carried)
        looked = _Looked.none(n) if carried is None else _Looked.of(carried)
        (pan, tilt, eye), here = self._gaze(percepts)
        seen = self._detected(agent, percepts, here)
        known = looked.look(agent, self.depth, percepts, here, before, seen)
        there = seen.seen_from(pan, tilt, here)
        after = update(before, there, Gaze(pan, tilt, eye, looked.depth_m, known), 1 / TICK_HZ)
        state.carry[CARRY] = _tensors(after, looked)
        return after

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

    def _detected(self, agent: Agent, percepts: Percepts, here: np.ndarray) -> Detections:
        if not here.any():
            return no_detections(len(here))
        detected = agent.run_heads([self.detects], percepts.seen)[self.detects].detections()
        assert detected is not None  # `Agent.add_tracker` has checked it
        return Detections(detected.here & here[:, None], *(getattr(detected, f.name) for f in fields(detected)[1:]))

    @torch.no_grad()
    def entries(self, agent: Agent, beliefs: Beliefs, percepts: Percepts) -> Batch:
        """The beliefs for the trunk, as `Agent.encode_recalled` takes them: tensors [N, 4, ...], named things first.

        Without a head for names, or without words, the order is that of the function `entries`.
        """
        heard, named = percepts.batch["present"].get("words"), None
        if self.names is not None and heard is not None and heard.any():
            name_output: Any = agent.run_heads([self.names], percepts.seen)[self.names]
            named = name_output.probabilities().float().cpu().numpy() * heard.cpu().numpy()
        every = entries(beliefs, len(agent.labels_of(self.detects)))
        return recalled_batch(*(torch.from_numpy(value) for value in recall(every, named)))


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
        self, agent: Agent, head: str | None, percepts: Percepts, here: np.ndarray, held: Beliefs, seen: Detections
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
            rows = torch.from_numpy(new).to(agent.device)
            some = percepts.seen.map(lambda x: x[rows])
            self.depth_m[new] = agent.run_heads([head], some)[head].mode().float().cpu().numpy()
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
