"""An onlooker: beliefs about what is where, kept up for N children from what the agent's own heads tell each tick.

Read are the heads `things` (places of eight colours) and `scene` (depth), and the sense `body` (where the head points).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.agent.agent import Agent, Percepts
from devmind.memory.belief_entries import SENSE, entries, recall, sightings
from devmind.memory.objects import Beliefs, no_beliefs, update
from devmind.memory.sightings import KINDS, Gaze, Sightings
from devmind.worlds.nursery.state import MAX_LEAN_M, MAX_TILT_DEG, TICK_S

HEAD, NAMED = "things", "named"
_SIZE = 64


class Onlooker:
    """Beliefs of `n` children with one agent's weights; they begin with none."""

    def __init__(self, agent: Agent, n: int) -> None:
        self.agent = agent
        self.beliefs: Beliefs = no_beliefs(n)
        self._depth = np.ones((n, _SIZE, _SIZE), np.float32)
        self._shown: list[np.ndarray | None] = [None] * n

    @torch.no_grad()
    def watch(self, percepts: Percepts, sight: np.ndarray, body: np.ndarray) -> Beliefs:
        """Take in one tick: encoded senses, the picture uint8 [N, 64, 64, 3] and the body float32 [N, 12 or more]."""
        told = self.agent.run_heads([HEAD], percepts.seen)[HEAD].mode().float().cpu().numpy()[:, :KINDS]
        pan, tilt = np.rad2deg(np.arctan2(body[:, 0], body[:, 1])), body[:, 2] * MAX_TILT_DEG
        eye = np.zeros((len(body), 3))
        eye[:, 0] = body[:, 8] * MAX_LEAN_M
        seen = sightings(told, pan, tilt)
        known = self._look(percepts, sight, seen)
        self.beliefs = update(self.beliefs, seen, Gaze(pan, tilt, eye, self._depth, known), TICK_S)
        return self.beliefs

    def _look(self, percepts: Percepts, sight: np.ndarray, seen: Sightings) -> np.ndarray:
        """Ask for depth where something believed is not seen; in which children it is known, bool [N]."""
        told = (seen.here[:, None] & (seen.kind[:, None] == self.beliefs.kind[..., None])).any(-1)
        known = (self.beliefs.used & ~told).any(1)
        # The same picture has the same depth.
        new = [int(i) for i in np.flatnonzero(known) if not _equal(sight[i], self._shown[i])]
        if new:
            some = percepts.seen.map(lambda x: x[new])
            self._depth[new] = self.agent.run_heads(["scene"], some)["scene"].mode().float().cpu().numpy()
            for i in new:
                self._shown[i] = sight[i]
        return known


def _equal(picture: np.ndarray, before: np.ndarray | None) -> bool:
    return before is not None and np.array_equal(picture, before)


@torch.no_grad()
def as_recalled(agent: Agent, percepts: Percepts, beliefs: Beliefs) -> dict[str, Any]:
    """The beliefs as recalled entries for `Agent.encode_recalled`, tensors [N, 4, ...]; of what is named first."""
    heard = percepts.batch["present"].get("words")
    named = None
    if heard is not None and heard.any():
        told: Any = agent.run_heads([NAMED], percepts.seen)[NAMED]
        named = told.probabilities().float().cpu().numpy()[:, :KINDS] * heard.cpu().numpy()
    return recalled_batch(*(torch.from_numpy(value) for value in recall(entries(beliefs), named)))


def recalled_batch(values: Tensor, age_s: Tensor, valid: Tensor) -> dict[str, Any]:
    """Entries [..., R, 15], age_s and valid [..., R] as a Batch's `recalled`."""
    return {"senses": {SENSE: values}, "present": {SENSE: valid}, "age_s": age_s, "valid": valid}
