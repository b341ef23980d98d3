"""Rehearsal: a lesson mixes batches of lessons before it into its own, so that what those taught stays.

What is rehearsed comes from behind a lesson's end: batches that were not met yet, and as hard as its last ones.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from devmind import plugins
from devmind.agent.agent import Agent
from devmind.curriculum.stage import Batches, Context, Lesson, Stage
from devmind.errors import ConfigError, PluginError
from devmind.learners.gradient import GradientLearner, Learner, Loss, Rehearsed


@dataclass(frozen=True)
class Rehearsal:
    """A lesson to rehearse: its loss, and the batches it was taught with."""

    loss: Loss
    batches: Batches


class Mixed(Batches):
    """The batches of a lesson, and each `every`th time one of another lesson instead, of each of them in turn.

    Each lesson goes on from batch to batch; none is left out for another's.
    """

    def __init__(self, own: Batches, others: Sequence[Batches], every: int, steps: int) -> None:
        super().__init__(self._make, steps, ahead=own.ahead and all(other.ahead for other in others))
        self.own, self.others, self.every = own, others, every

    def _make(self, update: int) -> object:
        turn, at = divmod(update, self.every)
        if at < self.every - 1:
            return self.own.make(update - turn)
        number, which = divmod(turn, len(self.others))
        other = self.others[which]
        return Rehearsed(which, other.make(other.steps + number))


def mixed(
    lesson: Lesson, learner: Learner, agent: Agent, context: Context, steps: int, rehearsal: Sequence[Rehearsal]
) -> Batches:
    """The batches of `steps` steps of a lesson with `rehearsal` among them, whose losses `learner` is told.

    Only learners by gradient rehearse: other lessons' losses can stand beside their own.
    """
    if not (rehearsal and lesson.rehearsal_every and isinstance(learner, GradientLearner)):
        return lesson.make_batches(agent, context, steps)
    learner.rehearsal = tuple(one.loss for one in rehearsal)
    own = lesson.make_batches(agent, context, steps - steps // lesson.rehearsal_every)
    return Mixed(own, [one.batches for one in rehearsal], lesson.rehearsal_every, steps)


def rehearsals(
    lesson: Lesson, before: Sequence[Lesson], earlier: Sequence[Stage], agent: Agent, context: Context
) -> list[Rehearsal]:
    """What `lesson` rehearses: what earlier stages say can be, then what it names of the lessons of its own stage.

    Args:
        before: lessons of its own stage.

    Raises:
        ConfigError: it names a lesson that is not among those.
    """
    own = {other.name: other for other in before}
    if missing := [name for name in lesson.rehearses if name not in own]:
        raise ConfigError(
            f"The lesson '{lesson.name}' rehearses '{missing[0]}', which is not taught before it; "
            f"{', '.join(own) or 'none'} is."
        )
    every = [other for stage in earlier for other in stage.lessons(context) if other.rehearse]
    every += [own[name] for name in lesson.rehearses]
    found = []
    for other in every:
        learner = other.make_learner(agent, context)
        if isinstance(learner, GradientLearner):
            found.append(Rehearsal(learner.loss, other.make_batches(agent, context, other.steps)))
    return found


def stages_of(agent: Agent) -> list[Stage]:
    """The stages this agent has been through, as far as they are installed."""
    found: list[Stage] = []
    for name in agent.config.stages:
        try:
            loaded = plugins.load("stages", name)
        except PluginError as error:
            warnings.warn(f"The stage '{name}' is not rehearsed: {error}", stacklevel=2)
            continue
        found.append(loaded() if isinstance(loaded, type) else loaded)
    return found
