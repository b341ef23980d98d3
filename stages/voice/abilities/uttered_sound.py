"""The sound that the agent makes itself, played by the speaker; codes of sound are first gathered, a second at a time.

A head that answers UTTER by codes can turn a row of them into sound (`Audible`). This happens in the
thread that speaks. The ear is deaf meanwhile (`Speaking.is_heard`). So an agent that repeats what it hears repeats a
second, is deaf for as long, and does not hear itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch

from devmind.acting.abilities import Ability, Surroundings, Tick
from devmind.agent.agent import Agent
from devmind.agent.features import QUIET_DB, level_db
from stages.voice.parts import UTTER
from stages.voice.sound_heads import Audible, sound_by

GATHERED = 10
"""Moments of codes turned into sound at once: a second. Fewer make more seams, more take longer."""
NO_SPEAKER = "It utters sound, and nothing here plays it; start it with --set speaker=default to hear it."
NO_SOUND = "It utters by '{}', which cannot turn its answers into sound, so nothing is played."
NO_PLAYER = "It utters codes of sound, and this speaker plays only finished sound (it has no `play`)."


class Uttering(Ability):
    """The path of the agent's sound to the speaker of its life."""

    def __init__(self, life: Surroundings) -> None:
        super().__init__(life)
        self.speaker = life.speaker
        self._codes: list[np.ndarray] = []
        self._by: tuple[Agent, str] | None = None

    def wants(self, agent: Agent) -> bool:
        return UTTER in agent.effectors

    def begin(self) -> None:
        self._flush()
        self.fault = ""  # another age may utter nothing

    def see(self, tick: Tick) -> None:
        by = [head for effector, head in tick.output.decided() if effector == UTTER]
        self.take(self.life.agent, tick.action.effectors.get(UTTER), by)

    def take(self, agent: Agent, value: np.ndarray | None, by: Sequence[str]) -> None:
        """Take the sound of a tick; returns at once.

        Args:
            value: sound float32 [C, S], codes [...] of a Moment, or None for silence.
            by: the heads that answered.
        """
        if value is None:
            self._flush()
        elif self.speaker is None:
            self.fault = NO_SPEAKER
        elif value.dtype == np.float32:
            self.speaker.act(value)
        elif not by or not isinstance(agent.head(by[0]), Audible):
            self.fault = NO_SOUND.format(by[0] if by else UTTER)
        elif not hasattr(self.speaker, "play"):
            self.fault = NO_PLAYER
        else:
            self._gather(agent, value, by[0])

    def _gather(self, agent: Agent, codes: np.ndarray, by: str) -> None:
        if (agent, by) != self._by:
            self._flush()
        self._by = agent, by
        self._codes.append(codes)
        if len(self._codes) == GATHERED:
            self._flush()

    def _flush(self) -> None:
        """Play the gathered codes, by the agent that uttered them."""
        codes, self._codes = self._codes, []
        if codes and self._by:
            self.speaker.play(partial(_sound, *self._by, np.stack(codes)))


def _sound(agent: Agent, head: str, codes: np.ndarray) -> np.ndarray:
    """The sound of codes [T, ...], float32 [1, S]; no samples where it is next to silence."""
    sound = sound_by(agent, head, torch.from_numpy(codes))
    return sound if level_db(sound) >= QUIET_DB else sound[:, :0]
