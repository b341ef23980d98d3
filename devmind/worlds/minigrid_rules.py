"""MiniGrid's and BabyAI's rooms as Rules for a life, with the instruction as a page in view."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from devmind.worlds.gym_world import GymRules, GymState, GymWorld
from devmind.worlds.minigrid import INSTRUCTION_WORDS, env_of, room
from devmind.worlds.spaces import page

CELL_PX = 48
"""Side of a cell in the picture."""


class MiniGridRules(GymRules):
    """Senses `board`, the view, and `text`, the room's instruction in every tick; the effector `choose`.

    Every step copies the room (some 2 ms), which suits one child in a life; lessons and exams step rooms in place
    (`minigrid.room`).

    Args:
        level: a name that MiniGrid knows, such as "BabyAI-GoToLocal-v0" or "MiniGrid-FourRooms-v0".

    Raises:
        WorldError: MiniGrid is not installed, or has no such room.
    """

    name = "minigrid"
    instruction_words = INSTRUCTION_WORDS

    def __init__(self, level: str = "BabyAI-GoToRedBallGrey-v0") -> None:
        super().__init__(level)
        self.observation_space = spaces.Dict({**self.observation_space.spaces, "text": page()})

    def _made(self, level: str) -> GymWorld:
        return room(level)

    def observe(self, state: GymState) -> dict[str, Any]:
        """The view and the instruction."""
        boards = np.stack([one.senses["board"] for one in state.env])
        return {"board": boards, "text": [str(env_of(one.env).mission) for one in state.env]}

    def picture(self, state: GymState) -> np.ndarray:
        """The whole room from above, with the child's view highlighted, uint8 [N, H, W, 3]."""
        return np.stack([env_of(one.env).get_frame(highlight=True, tile_size=CELL_PX) for one in state.env])
