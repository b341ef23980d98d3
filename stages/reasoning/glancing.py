"""Learners that teach encoders between the steps of the trunk, and that learn the costs of puzzle actions."""

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
from stages.reasoning import parts

GLANCES = 4
"""Steps of the encoder for each step of the trunk: at size nursery these take half the time of that step."""
PUZZLES_TRAIN = (
    f"encoders.{parts.PUZZLE}.",
    *(f"heads.{head}." for head in (parts.PRESSES, parts.PRESS_GLANCES, parts.SLIDES, parts.SLIDE_GLANCES)),
)
"""What the lessons of puzzles change, and no other lesson: the sense of puzzles, and heads on it."""
HAND_OVER_EVERY = 50
"""Updates between two handovers to the trunk's heads: a lesson that is cut has handed over most of what it learned."""
RIDGE = 0.1
"""Ridge penalty of the linear map of a handover."""
REHEARSAL_COST = 0.1
"""Cost of a rehearsal of a `CostLearner`: it has no steps of the sense of puzzles, and a quarter of the rows."""


class GlancingLearner(GradientLearner):
    """A GradientLearner whose update first takes some steps on glance heads, which read the encoder's tokens alone.

    A trunk learns nothing from tokens that do not yet say what stands where, and the encoder needs hundreds of steps to
    learn that. A step without the trunk costs a tenth.
    """

    @abstractmethod
    def views(self, batch: Any, step: int) -> Iterable[Batch]:
        """The batches of these steps: a function of batch, step and state."""

    @abstractmethod
    def view_loss(self, view: Batch) -> Tensor:
        """The loss of a head that taps the encoder."""

    def update(self, batch: Any, step: int) -> Scalars:
        """Take the encoder's steps, then one step of the lesson's loss. A rehearsal has no steps of the encoder."""
        if not isinstance(batch, Rehearsed):
            self.set_rates(step)
            for view in self.views(batch, step):
                self.descend(self.view_loss(view))
        return super().update(batch, step)


@dataclass(frozen=True)
class Costs:
    """The cost of each action of a puzzle and all that follows. The heads predict (cost - mean) / spread.

    Args:
        head: the head on the trunk's features of the puzzle.
        glance: the head on the puzzle's tokens alone.
    """

    head: str
    glance: str
    mean: float
    spread: float

    @property
    def heads(self) -> dict[str, str]:
        """The glance head by the name of the trunk's head, as `hand_over` takes them."""
        return {self.head: self.glance}

    def of(self, agent: Agent, board: np.ndarray, head: str = "") -> np.ndarray:
        """The agent's costs, float [N, actions], of boards int8 [N, C, H, W]; by `head`, by default the trunk's."""
        head = head or self.head
        normalised = agent.evaluate({parts.PUZZLE: torch.from_numpy(board)}, [head])[head].mode()
        return np.asarray(self.mean + self.spread * normalised.double().cpu().numpy())

    def batch(self, board: np.ndarray, cost: np.ndarray) -> Batch:
        """Boards int8 [N, C, H, W] with their targets `cost` [N, 1, actions]."""
        batch = collate_tick({parts.PUZZLE: board}, np.ones(len(board), bool))
        batch["cost"] = torch.from_numpy(cost).float()[:, None]
        return batch

    def loss(self, agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        """The squared error of the trunk's head, in its own units."""
        wrong = self.error(agent, batch, self.head)
        return wrong, {"cost": wrong.detach()}

    def error(self, agent: Agent, batch: Mapping[str, Any], head: str) -> Tensor:
        """The squared error of one of the heads, asked as by a search: about each board by itself, without slots."""
        normalised = (batch["cost"].to(agent.device) - self.mean) / self.spread
        return agent(batch, [head], short_term=False)[head].loss(normalised)


class CostLearner(GlancingLearner):
    """Learns costs by gradient with the glance head; the trunk's head takes them over.

    A step of the trunk costs as much as eight steps of the sense of puzzles, and the trunk's features of a puzzle are
    almost linear in its tokens. What a head on them would learn in hundreds of steps, least squares hands over at once.
    So the lesson does not change the trunk and makes it unlearn nothing. The gradient of rehearsals corrects later
    changes.

    Args:
        hindsight: share of the boards of `views` that come from the agent's own failed attempts.
    """

    costs: ClassVar[Costs]

    def __init__(self, *args: Any, hindsight: float = 0.0, **more: Any) -> None:
        super().__init__(*args, **more)
        self.hindsight = hindsight

    def view_loss(self, view: Batch) -> Tensor:
        """The squared error of the costs that the glance head predicts."""
        return self.costs.error(self.agent, view, self.costs.glance)

    def update(self, batch: Any, step: int) -> Scalars:
        """Take steps of the sense of puzzles; hand the costs over at the end and every HAND_OVER_EVERY updates."""
        if isinstance(batch, Rehearsed):
            return super().update(batch, step)
        self.set_rates(step)
        for view in (*self.views(batch, step), batch):
            loss = self.view_loss(view)
            self.descend(loss)
        if self.hands_over(step):
            hand_over(self.agent, parts.PUZZLE, self.costs.heads, self.handed(batch, step))
        return {"loss": loss.detach()}

    def hands_over(self, step: int) -> bool:
        """Whether costs are handed over after this update."""
        return (step + 1) % HAND_OVER_EVERY == 0 or step + 1 == self.steps

    def rehearse(self, batch: Any) -> tuple[Tensor, Scalars]:
        """The errors of both heads: the next handover copies the glance head, so it must not be unlearned."""
        loss, scalars = self.loss(self.agent, batch)
        return loss + self.view_loss(batch), scalars

    def handed(self, batch: Any, step: int) -> Iterable[Batch]:
        """The batches on which the trunk's features are fitted to the tokens."""
        return self.views(batch, step)


@torch.no_grad()
def hand_over(agent: Agent, sense: str, heads: Mapping[str, str], batches: Iterable[Batch]) -> None:
    """Make heads on the trunk answer like glance heads: a linear map from features to tokens, then the glance's reader.

    The map is fitted by least squares with a ridge of RIDGE, over the tokens of `sense` in `batches`, in float32.

    Args:
        heads: by the name of the trunk's head the name of the head that reads the tokens of `sense` alone.
    """
    width = agent.config.width
    squares, products = torch.zeros(width + 1, width + 1).double(), torch.zeros(width + 1, width).double()
    for batch in batches:
        batch = to_device(batch, agent.device)
        # On a card a lesson computes in a lower precision, which would blur the closed form.
        with torch.autocast(agent.device.type, enabled=False):
            perceived = agent.encode_batch(batch, {sense})
            tokens = perceived.encoded[sense].tokens
            # As searches ask (`Agent.evaluate`): slots would move the features away from those that are asked about.
            features = agent.think(perceived, batch["first"], short_term=False).of_senses[sense].tokens
        x = torch.cat((features, torch.ones_like(features[..., :1])), -1).flatten(0, -2).double().cpu()
        squares += x.T @ x
        products += x.T @ tokens.flatten(0, -2).double().cpu()
    linear = torch.linalg.solve(squares + RIDGE * torch.eye(width + 1).double(), products)
    for head, glance in heads.items():
        student, teacher = _reader(agent, head), _reader(agent, glance)
        into, out = student.squeeze, teacher.squeeze
        assert isinstance(into, nn.Linear)
        assert isinstance(out, nn.Linear)
        weight, bias = out.weight.double().cpu(), out.bias.double().cpu()
        into.weight.copy_(weight @ linear[:-1].T)
        into.bias.copy_(weight @ linear[-1] + bias)
        student.net.load_state_dict(teacher.net.state_dict())


def _reader(agent: Agent, name: str) -> Reader:
    head = agent.head(name)
    assert isinstance(head, ReaderHead)
    return head.read
