"""Review: the last lesson of a stage repeats all that the stage has taught, in turn, while rates fall to zero.

Every lesson changes the trunk for its own task, and rehearses earlier ones too seldom to prevent all forgetting. A
review repeats all lessons in small batches and teaches nothing new; it takes a tenth of the time of teaching. The
runner's rehearsal adds lessons of earlier stages, as in any lesson.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from devmind.agent.agent import Agent
from devmind.curriculum.stage import ROWS_SHARE, Batches, Context, Lesson
from devmind.errors import ConfigError
from devmind.learners.gradient import GradientLearner, trainable

NAME = "review"
EVERY = 2
"""One in this many updates rehearses an earlier stage."""


class Review(GradientLearner):
    """Learns batches `{"of": name, "batch": ...}` by the rehearsal loss of the lesson `name`.

    Args:
        lessons: by name.
    """

    def __init__(
        self, agent: Agent, context: Context, lessons: Mapping[str, Lesson], learning_rate: float, trains: Sequence[str]
    ) -> None:
        super().__init__(agent, self._loss, seed=context.seed, learning_rate=learning_rate, trains=trains)
        self.of = {name: lesson.make_learner(agent, context) for name, lesson in lessons.items()}

    def begin(self, step: int) -> None:
        """At the start, let the lessons' learners store what they rehearse from."""
        if step == 0:
            for learner in self.of.values():
                learner.remember()
        super().begin(step)

    def _loss(self, agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, Any]:
        return self.of[batch["of"]].rehearse(batch["batch"])

    def state_dict(self) -> dict[str, Any]:
        """The optimizer's state, and those of the lessons' learners."""
        return super().state_dict() | {"of": {name: learner.state_dict() for name, learner in self.of.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore them."""
        super().load_state_dict(state)
        for name, learner in self.of.items():
            learner.load_state_dict(state["of"][name])


def turn_of(turns: Sequence[str], update: int) -> tuple[str, int]:
    """The lesson at an update, if `turns` repeat, and how often it has had a turn before."""
    again, at = divmod(update, len(turns))
    return turns[at], again * turns.count(turns[at]) + turns[:at].count(turns[at])


def review(
    lessons: Sequence[Lesson],
    turns: Sequence[str],
    *,
    steps: int,
    minutes: float,
    learning_rate: float,
    trains: Callable[[Agent], Sequence[str]] = trainable,
    control: tuple[str, ...] | None = None,
) -> Lesson:
    """The lesson that repeats `lessons` of a stage; the configuration may change its learning rate.

    Args:
        turns: names of lessons, one for each step; a name that is listed twice comes twice as often.
        trains: gives the prefixes of the parameters that the lesson changes.
        control: as that of Lesson.

    Raises:
        ConfigError: a turn names none of the lessons.
    """
    by_name = {lesson.name: lesson for lesson in lessons}
    if unknown := [name for name in turns if name not in by_name]:
        raise ConfigError(f"A review goes over lessons of its stage ({', '.join(by_name)}); '{unknown[0]}' is none.")
    reviewed = {name: by_name[name] for name in turns}

    def make_learner(agent: Agent, context: Context) -> Review:
        _, rate = context.changed(NAME, 0, learning_rate)
        return Review(agent, replace(context, rows_share=ROWS_SHARE), reviewed, rate, trains(agent))

    def make_batches(agent: Agent, context: Context, steps: int) -> Batches:
        fewer = replace(context, rows_share=ROWS_SHARE)
        of = {name: lesson.make_batches(agent, fewer, lesson.steps) for name, lesson in reviewed.items()}

        def make(update: int) -> dict[str, Any]:
            name, number = turn_of(turns, update)
            # Behind those that other lessons of the stage rehearse, which are fewer than the lesson's own steps.
            return {"of": name, "batch": of[name].rehearsal(reviewed[name].steps + number)}

        return Batches(make, steps)

    return Lesson(
        NAME,
        make_learner,
        make_batches,
        steps,
        minutes,
        rehearsed=False,
        rehearsal_every=EVERY,
        rehearsal_share=1.0,
        settings=("learning_rate",),
        skills=tuple(dict.fromkeys(skill for lesson in reviewed.values() for skill in lesson.skills)),
        control=control,
    )
