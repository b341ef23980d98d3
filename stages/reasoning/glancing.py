"""Teaching senses by themselves, between the steps that teach the trunk; and what actions of a puzzle cost."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from devmind.agent.agent import Agent
from devmind.agent.batch import Batch, collate_tick, to_device
from devmind.agent.heads import Reader, ReaderHead
from devmind.curriculum.stage import Rehearsed, Scalars
from devmind.learners.gradient import GradientLearner
from stages.reasoning.parts import PUZZLE

GLANCES = 4
"""Steps of the encoder a step of the trunk: at size nursery they cost half of it."""
PUZZLES_STAY = "It teaches the sense of puzzles and heads on it, which no lesson behind those of puzzles changes."
HAND_OVER_EVERY = 50
"""Updates of a lesson whose heads are handed over: one that is cut has handed over most of what it learned."""
RIDGE = 0.1
"""Of the linear map by which they are."""
REHEARSAL_COST = 0.1
"""Of a `CostLearner`: a rehearsal is without the steps of the sense of puzzles, and has a quarter of the rows."""


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
        head, glance: on the trunk's features of the puzzle, and on the puzzle's tokens alone.
    """

    head: str
    glance: str
    mean: float
    spread: float

    @property
    def heads(self) -> dict[str, str]:
        """By the trunk's head the one that reads the tokens alone, as `hand_over` takes them."""
        return {self.head: self.glance}

    def of(self, agent: Agent, board: np.ndarray, head: str = "") -> np.ndarray:
        """The agent's answer, float [N, actions], for boards int8 [N, C, H, W]; by `head`, or by the trunk's."""
        head = head or self.head
        found = agent.evaluate({PUZZLE: torch.from_numpy(board)}, [head])[head].mode()
        return np.asarray(self.mean + self.spread * found.double().cpu().numpy())

    def batch(self, board: np.ndarray, cost: np.ndarray) -> Batch:
        """Boards int8 [N, C, H, W] with their targets `cost` [N, 1, actions]."""
        batch = collate_tick({PUZZLE: board}, np.ones(len(board), bool))
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
    """Costs by gradient, learned by the head that reads the puzzle's tokens alone; the trunk's head takes them over.

    A step of the trunk costs as much as eight of the sense of puzzles, and its features of a puzzle are nearly its
    tokens, linearly: a head on them learns in hundreds of steps what least squares hands over at once. So the lesson
    leaves the trunk alone, and unlearns nothing there; what rehearsals later change is kept right by their gradient.

    Args:
        hindsight: the share of the boards of `views` that attempts by the agent take the place of, where they failed.
    """

    costs: ClassVar[Costs]

    def __init__(self, *args: Any, hindsight: float = 0.0, **more: Any) -> None:
        super().__init__(*args, **more)
        self.hindsight = hindsight

    def view_loss(self, view: Batch) -> Tensor:
        """Squared error of the costs as the puzzle's tokens tell them."""
        return self.costs.error(self.agent, view, self.costs.glance)

    def update(self, batch: Any, step: int) -> Scalars:
        """Steps of the sense of puzzles; at the end, and now and then before, its costs are handed over."""
        if isinstance(batch, Rehearsed):
            return super().update(batch, step)
        self.set_rates(step)
        for view in (*self.views(batch, step), batch):
            loss = self.view_loss(view)
            self.descend(loss)
        if self.hands_over(step):
            hand_over(self.agent, PUZZLE, self.costs.heads, self.handed(batch, step))
        return {"loss": loss.detach()}

    def hands_over(self, step: int) -> bool:
        """Whether this update is one after which costs are handed over."""
        return (step + 1) % HAND_OVER_EVERY == 0 or step + 1 == self.steps

    def rehearse(self, batch: Any) -> tuple[Tensor, Scalars]:
        """The errors of both heads: what the sense of puzzles unlearns of the glance is what is handed over again."""
        loss, told = self.loss(self.agent, batch)
        return loss + self.view_loss(batch), told

    def handed(self, batch: Any, step: int) -> Iterable[Batch]:
        """Boards on which the trunk's features are held against the tokens."""
        return self.views(batch, step)


@torch.no_grad()
def hand_over(agent: Agent, sense: str, heads: Mapping[str, str], batches: Iterable[Batch]) -> None:
    """Make heads on the trunk answer as glances do: tokens as a linear map of features, then the glance's reader.

    The map is by least squares, with a ridge of RIDGE, over the tokens of `sense` in `batches`, all in float32.

    Args:
        heads: by the name of the trunk's head that of the one which reads the tokens of `sense` alone.
    """
    width = agent.config.width
    squares, products = torch.zeros(width + 1, width + 1).double(), torch.zeros(width + 1, width).double()
    for batch in batches:
        batch = to_device(batch, agent.device)
        # A map in closed form is blurred by what a lesson on a card is computed in.
        with torch.autocast(agent.device.type, enabled=False):
            seen = agent.encode_batch(batch, {sense})
            tokens = seen.encoded[sense].tokens
            features = agent.think(seen, batch["first"]).of_senses[sense].tokens
        x = torch.cat((features, torch.ones_like(features[..., :1])), -1).flatten(0, -2).double().cpu()
        squares += x.T @ x
        products += x.T @ tokens.flatten(0, -2).double().cpu()
    linear = torch.linalg.solve(squares + RIDGE * torch.eye(width + 1).double(), products)
    for head, glance in heads.items():
        told, read = _reader(agent, head), _reader(agent, glance)
        into, out = told.squeeze, read.squeeze
        assert isinstance(into, nn.Linear)
        assert isinstance(out, nn.Linear)
        weight, bias = out.weight.double().cpu(), out.bias.double().cpu()
        into.weight.copy_(weight @ linear[:-1].T)
        into.bias.copy_(weight @ linear[-1] + bias)
        told.net.load_state_dict(read.net.state_dict())


def _reader(agent: Agent, name: str) -> Reader:
    head = agent.head(name)
    assert isinstance(head, ReaderHead)
    return head.read
