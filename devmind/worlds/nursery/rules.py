"""NurseryRules: the simulated nursery as Rules (see devmind.worlds.rules for the laws)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces as gym_spaces

from devmind.errors import WorldError, nearest
from devmind.worlds import spaces
from devmind.worlds.nursery import truth as truths
from devmind.worlds.nursery.dynamics import advance
from devmind.worlds.nursery.geometry import cos_deg, sin_deg
from devmind.worlds.nursery.hearing import sound
from devmind.worlds.nursery.levels import LEVELS
from devmind.worlds.nursery.state import COLOUR_NAMES, MAX_LEAN_M, MAX_TILT_DEG, NurseryState
from devmind.worlds.nursery.views import frames, periphery, views, wide_view
from devmind.worlds.rules import Outcome

EFFECTORS = {"look": 2, "reach": 4, "move": 1}
_HAND_SCALE_M = 0.75
PICTURE_PX = 640, 560
"""Width and height of the picture for people who watch: down to a hand before the body."""


class NurseryRules:
    """A furnished room with a caregiver, and a child that sees, hears, turns its head, reaches and withdraws.

    Effectors, each within -1..1 (more is clipped):
        look [2]: turn rates of pan (positive left) and tilt (positive up); 1 is 25 degrees a tick.
        reach [4]: the hand's velocity forward, left, up (1 is 0.1 m a tick), and the grip (> 0 closes); in `fetch` the
            hand is held until the question.
        move [1]: body forward or back, 1 is 0.1 m a tick within +-0.3 m; <= -0.5 counts as withdrawing.

    Args:
        level: one of LEVELS.

    Raises:
        WorldError: there is no such level.
    """

    name = "nursery"

    def __init__(self, level: str = "room") -> None:
        if level not in LEVELS:
            raise WorldError(f"The nursery has no level '{level}'{nearest(level, LEVELS)}")
        self.level = level
        self.spec = LEVELS[level]
        self.horizon = self.spec.horizon
        senses: dict[str, gym_spaces.Space] = {
            "sight": spaces.sight(),
            "periphery": spaces.periphery(),
            "sound": spaces.sound(2),
            "body": spaces.body(len(spaces.BODY)),
        }
        if self.spec.cued:
            senses["words"] = spaces.words()
        self.observation_space = gym_spaces.Dict(senses)
        self.action_space = gym_spaces.Dict({name: spaces.effector(size) for name, size in EFFECTORS.items()})

    def initial(self, seeds: np.ndarray) -> NurseryState:
        """First states of len(seeds) children; int64 [N], with the wide view of a tick earlier."""
        state = self.spec.spawn(np.asarray(seeds, np.int64))
        state.wide_before = wide_view(state, state.position_before, state.tick - 1)
        return state

    def legal(self, state: NurseryState) -> Mapping[str, np.ndarray]:
        """Empty: every command is always legal."""
        return {}

    def step(self, state: NurseryState, actions: Mapping[str, np.ndarray]) -> NurseryState:
        """The states one tick (0.1 s) later; a child whose episode has ended moves on without reward."""
        commands = _checked(actions, len(state))
        if self.spec.holds is not None:
            commands["reach"][self.spec.holds(state)] = 0.0
        new = advance(state, commands, views(state)["wide"], self.spec.script)
        over = state.terminal | (state.tick >= self.horizon)
        reward = np.zeros(len(new))
        for closing in (False, True):
            now = (new.tick == self.horizon) == closing
            if now.any():
                reward = np.where(now, self.spec.reward(state, new, closing), reward)
        new.reward = np.where(over, 0.0, reward).astype(np.float32)
        ends = new.touch.any(axis=1) if self.spec.touch_ends else np.zeros(len(new), bool)
        if self.spec.success_ends:
            ends = self.spec.succeeded(new)
        new.terminal = state.terminal | (~over & ends)
        return new

    def outcome(self, state: NurseryState) -> Outcome:
        """Reward, terminal (only in `reach`, `fetch` and `handle/*`) and truncation at the horizon."""
        return Outcome(state.reward, state.terminal, ~state.terminal & (state.tick >= self.horizon))

    def observe(self, state: NurseryState) -> dict[str, Any]:
        """Senses: sight, periphery, sound, body (numbers named by spaces.BODY), and words if the level cues."""
        senses: dict[str, Any] = {
            "sight": views(state)["sight"],
            "periphery": periphery(state),
            "sound": sound(state),
            "body": body(state),
        }
        if self.spec.cued:
            senses["words"] = self.cues(state)
        return senses

    def cues(self, state: NurseryState) -> list[str]:
        """The named colour, by child; "" if the level names none, or not at this tick."""
        if not self.spec.cued:
            return [""] * len(state)
        asked = np.ones(len(state), bool) if self.spec.asks is None else self.spec.asks(state)
        colour = state.colour[np.arange(len(state)), state.target]
        return [COLOUR_NAMES[c] if now else "" for c, now in zip(colour, asked, strict=True)]

    def picture(self, state: NurseryState) -> np.ndarray:
        """The wide view straight ahead, for people who watch, uint8 [N, H, W, 3]; 120 degrees wide."""
        ahead = np.zeros(len(state))
        return frames(state, ahead, ahead, *PICTURE_PX)

    def truth(self, state: NurseryState) -> dict[str, np.ndarray]:
        """The truth for lessons and exams; see truth.truth."""
        return truths.truth(state, self.spec)


def body(state: NurseryState) -> np.ndarray:
    """Proprioception, float32 [N, 12]; spaces.BODY names the columns."""
    columns: list[np.ndarray] = [sin_deg(state.pan), cos_deg(state.pan), state.tilt / MAX_TILT_DEG]
    columns += [state.hand[:, axis] / _HAND_SCALE_M for axis in range(3)]
    columns += [np.any(state.touch, axis=1), state.held >= 0, state.lean / MAX_LEAN_M]
    columns += [state.look[:, 0], state.look[:, 1], state.grip]
    return np.stack(columns, axis=1).astype(np.float32)


def _checked(actions: Mapping[str, np.ndarray], n: int) -> dict[str, np.ndarray]:
    """All effectors as float64 [N, k] within -1..1; a missing one does nothing."""
    for name in actions:
        if name not in EFFECTORS:
            raise WorldError(f"The nursery has no effector '{name}'{nearest(name, EFFECTORS)}")
    checked = {}
    for name, size in EFFECTORS.items():
        command = np.asarray(actions.get(name, np.zeros((n, size))), np.float64)
        if command.shape != (n, size) or not np.isfinite(command).all():
            raise WorldError(
                f"The nursery expected {n} rows of {size} finite numbers for '{name}'; got shape {list(command.shape)}"
                f"{'' if np.isfinite(command).all() else ' with numbers that are not finite'}."
            )
        checked[name] = np.clip(command, -1.0, 1.0)
    return checked
