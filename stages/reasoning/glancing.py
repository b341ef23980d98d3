"""Teaching the sense of boards by itself, between the steps that teach the trunk; and what actions of a puzzle cost."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.agent.batch import Batch, collate_tick
from devmind.curriculum.stage import Rehearsed, Scalars
from devmind.learners.gradient import GradientLearner

GLANCES = 4
"""Steps of the encoder a step of the trunk: at size nursery they cost half of it."""

REHEARSAL_COST = 0.1
"""Of a `CostLearner`: a rehearsal is without the steps of the sense of boards, and has a quarter of the rows."""


class GlancingLearner(GradientLearner):
    """A GradientLearner that first takes some steps on heads which read the encoder's tokens alone.

    A trunk learns nothing from tokens that do not say yet what stands where, and the encoder takes hundreds of steps to
    say it. Without the trunk such a step is ten times as cheap.
    """

    @abstractmethod
    def views(self, batch: Any, step: int) -> Iterable[Batch]:
        """The batches of these steps, a function of batch, step and state."""

    @abstractmethod
    def view_loss(self, view: Batch) -> Tensor:
        """The loss of a head that taps the encoder."""

    def update(self, batch: Any, step: int) -> Scalars:
        """The encoder's steps, then one down the lesson's loss; a rehearsal is a rehearsal."""
        if not isinstance(batch, Rehearsed):
            self.set_rates(step)
            for view in self.views(batch, step):
                self.descend(self.view_loss(view))
        return super().update(batch, step)


@dataclass(frozen=True)
class Costs:
    """What each action of a puzzle costs with all that follows; the heads say (cost - mean) / spread.

    Args:
        head, glance: on the trunk's features of the board, and on the board's tokens alone.
    """

    head: str
    glance: str
    mean: float
    spread: float

    def of(self, agent: Agent, board: np.ndarray, head: str = "") -> np.ndarray:
        """The agent's answer, float [N, actions], for boards int8 [N, C, H, W]; by `head`, or by the trunk's."""
        head = head or self.head
        found = agent.evaluate({"board": torch.from_numpy(board)}, [head])[head].mode()
        return np.asarray(self.mean + self.spread * found.double().cpu().numpy())

    def batch(self, board: np.ndarray, cost: np.ndarray) -> Batch:
        """Boards int8 [N, C, H, W] with their targets `cost` [N, 1, actions]."""
        batch = collate_tick({"board": board}, np.ones(len(board), bool))
        batch["cost"] = torch.from_numpy(cost).float()[:, None]
        return batch

    def loss(self, agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        """Squared error of the head, in its units."""
        wrong = self.error(agent, batch, self.head)
        return wrong, {"cost": wrong.detach()}

    def error(self, agent: Agent, batch: Mapping[str, Any], head: str) -> Tensor:
        """Squared error of one of the heads."""
        return agent(batch, [head])[head].loss((batch["cost"].to(agent.device) - self.mean) / self.spread)


class CostLearner(GlancingLearner):
    """Costs by gradient; the sense of boards learns them from many more boards than the trunk is shown."""

    costs: ClassVar[Costs]

    def view_loss(self, view: Batch) -> Tensor:
        """Squared error of the costs as the board's tokens tell them."""
        return self.costs.error(self.agent, view, self.costs.glance)
