"""Features that a lesson holds: what the trunk made of the games' positions when it began, which their heads read.

Holding them is learning without forgetting by features (Li and Hoiem 2016 hold outputs): it asks for no targets, and
says of all that a position is to the games where a rehearsal says what one head answers.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.agent.batch import Batch, collate_tick
from devmind.curriculum.examining import examination
from devmind.seeding import numpy_rng
from stages.reasoning.games import GAMES, Game
from stages.reasoning.judged import by_chance
from stages.reasoning.parts import POSITION

LENGTHS = 8
"""Of how many lengths the games are that positions are of, up to MOST of the cells."""
MOST = 0.7


class HeldFeatures:
    """The trunk's features of positions of every game, after moves by chance.

    Args:
        positions: of each game and length.
        seed: of the positions.

    Attributes:
        marks: by game, int8 [N, cells]; features: by game, float16 [N, tokens, width], once they are noted; spread: by
            game, their variance.
    """

    def __init__(self, positions: int, seed: int) -> None:
        self.positions, self.seed = positions, seed
        self.features: dict[str, Tensor] = {}
        self.spread: dict[str, float] = {}

    @cached_property
    def marks(self) -> dict[str, np.ndarray]:
        """Made when they are first asked for: many learners are made that never look at one."""
        return {game.name: _positions(game, self.positions, self.seed) for game in GAMES.values()}

    def note(self, agent: Agent) -> None:
        """Take what the agent makes of them now as what is held."""
        with examination(agent), torch.no_grad():
            for game in GAMES.values():
                found = self._features(agent, game, self.marks[game.name])
                self.features[game.name], self.spread[game.name] = found.half(), float(found.var())

    def moved(self, agent: Agent, rows: int, *why: str | int) -> Tensor:
        """How far features of `rows` positions have moved, a third of each game's: in shares of their variance."""
        rng, found = numpy_rng("held", *why), []
        for game in GAMES.values():
            at = rng.integers(0, len(self.marks[game.name]), max(1, rows // len(GAMES)))
            were = self.features[game.name][torch.from_numpy(at)].to(agent.device).float()
            now = self._features(agent, game, self.marks[game.name][at])
            found.append((now - were).square().mean() / self.spread[game.name])
        return torch.stack(found).mean()

    @staticmethod
    def _features(agent: Agent, game: Game, marks: np.ndarray) -> Tensor:
        """Of the position's tokens, [N, tokens, width]."""
        batch: Batch = collate_tick(game.rules.observe(game.rules.of(marks)), np.ones(len(marks), bool))
        seen = agent.encode_batch(batch, {POSITION})
        return agent.think(seen, batch["first"]).of_senses[POSITION].tokens[:, 0]

    def state_dict(self) -> dict[str, Any]:
        """What was noted."""
        return {"features": dict(self.features), "spread": dict(self.spread)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Hold that."""
        self.features, self.spread = dict(state["features"]), dict(state["spread"])


def _positions(game: Game, n: int, seed: int) -> np.ndarray:
    lengths = np.unique(np.linspace(1, MOST * game.rules.cells, LENGTHS).astype(int))
    rng = numpy_rng("held", game.name, seed)
    return np.concatenate([by_chance(game, n, int(made), rng) for made in lengths])
