"""Teaching the sense of boards by itself, between the steps that teach the trunk."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

from torch import Tensor

from devmind.agent.batch import Batch
from devmind.curriculum.stage import Rehearsed, Scalars
from devmind.learners.gradient import GradientLearner, schedule

GLANCES = 4
"""Steps of the encoder a step of the trunk: at size nursery they cost half of it."""


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
            for group in self.optimizer.param_groups:
                group["lr"] = self.learning_rate * schedule(step, self.steps)
            for view in self.views(batch, step):
                self.descend(self.view_loss(view))
        return super().update(batch, step)
