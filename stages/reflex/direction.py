"""Where a sound comes from, for the page of a life: by the head `sound_direction`, if it can be told at all."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from devmind.acting.abilities import Ability, Tick
from devmind.agent.agent import Agent
from devmind.agent.features import QUIET_DB, interaural_lags, level_db

DIRECTION = "sound_direction"
LEAST_LIKENESS = 0.4
"""Least peak of the ears' cross-correlation: sound from everywhere has no direction."""
MOST_DIFFERENCE = 0.4
"""Largest difference between the sine of a sound's azimuth and the one with the ears exchanged, reversed."""


@torch.no_grad()
def direction_deg(agent: Agent, sound: np.ndarray) -> float | None:
    """Direction of sound [C, S], -90..90 degrees from straight ahead, positive to the left.

    The head answers with sine and cosine of the azimuth. Only the sine is used: two ears hardly tell front from back.
    None where it cannot be told at all: one ear, two that hear the same or nothing alike, a faint sound, no such head,
    or an answer that does not change sides when the ears are exchanged.
    """
    two_ears = len(sound) == 2 and not np.array_equal(sound[0], sound[1])
    if DIRECTION not in agent.heads or not two_ears or level_db(sound) < QUIET_DB:
        return None
    ears = torch.from_numpy(np.stack([sound, sound[::-1]]))
    if float(interaural_lags(ears[0, 0], ears[0, 1]).max()) < LEAST_LIKENESS:
        return None
    seen = agent.encode_senses({"sound": ears}, names=["sound"])
    sine, exchanged = agent.run_heads([DIRECTION], seen)[DIRECTION].mode()[:, 0].tolist()
    if abs(sine + exchanged) > MOST_DIFFERENCE:
        return None
    return round(math.degrees(math.asin(min(1.0, max(-1.0, (sine - exchanged) / 2)))), 1)


class SoundDirection(Ability):
    """Completes the view's `sound` by `direction_deg`; None where it cannot be told."""

    def wants(self, agent: Agent) -> bool:
        return DIRECTION in agent.heads

    def shown(self, tick: Tick) -> dict[str, Any]:
        sound = tick.moment.senses.get("sound")
        return {} if sound is None else {"sound": {"direction_deg": direction_deg(self.life.agent, np.asarray(sound))}}
