"""Review: the last lesson of a stage goes over all that the stage has taught, in turn, while rates fall to zero.

Every lesson bends the trunk to its own ends and rehearses what was before it too seldom to lose nothing; what is taught
last is kept best. Going over everything in small batches, with nothing new among it, takes a tenth of the time that
teaching took. Lessons of earlier stages come in between by the runner's rehearsal, as in any lesson.
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
"""One of so many updates is of an earlier stage."""


class Review(GradientLearner):
    """Learns batches `{"of": name, "batch": ...}` by what the learner of the lesson `name` rehearses.

    Args:
        lessons: by name.
    """

    def __init__(
        self, agent: Agent, context: Context, lessons: Mapping[str, Lesson], learning_rate: float, trains: Sequence[str]
    ) -> None:
        super().__init__(agent, self._loss, seed=context.seed, learning_rate=learning_rate, trains=trains)
        self.of = {name: lesson.make_learner(agent, context) for name, lesson in lessons.items()}

    def begin(self, step: int) -> None:
        """Those that note what the agent does now do so at the start."""
        if step == 0:
            for learner in self.of.values():
                learner.remember()
        super().begin(step)

    def _loss(self, agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, Any]:
        return self.of[batch["of"]].rehearse(batch["batch"])

    def state_dict(self) -> dict[str, Any]:
        """The optimizer's state, and what each lesson's learner has."""
        return super().state_dict() | {"of": {name: learner.state_dict() for name, learner in self.of.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on with those."""
        super().load_state_dict(state)
        for name, learner in self.of.items():
            learner.load_state_dict(state["of"][name])


def turn_of(turns: Sequence[str], update: int) -> tuple[str, int]:
    """Whose turn it is at an update, where `turns` come again and again, and how often it had one before."""
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
    control_trains: Callable[[Agent], Sequence[str]] | None = None,
) -> Lesson:
    """The lesson that goes over `lessons` of a stage.

    Args:
        turns: names of lessons, one for each step; one that is named twice comes twice as often.
        trains: gives the prefixes of the parameters that it changes; control_trains: those that its control changes
            (`Lesson.control`), which has none without.

    Raises:
        ConfigError: a turn is none of the lessons.
    """
    by_name = {lesson.name: lesson for lesson in lessons}
    if unknown := [name for name in turns if name not in by_name]:
        raise ConfigError(f"A review goes over lessons of its stage ({', '.join(by_name)}); '{unknown[0]}' is none.")
    reviewed = {name: by_name[name] for name in turns}

    def learner_of(trains: Callable[[Agent], Sequence[str]]) -> Callable[[Agent, Context], Review]:
        def make_learner(agent: Agent, context: Context) -> Review:
            return Review(agent, replace(context, rows_share=ROWS_SHARE), reviewed, learning_rate, trains(agent))

        return make_learner

    def make_batches(agent: Agent, context: Context, steps: int) -> Batches:
        fewer = replace(context, rows_share=ROWS_SHARE)
        of = {name: lesson.make_batches(agent, fewer, lesson.steps) for name, lesson in reviewed.items()}

        def make(update: int) -> dict[str, Any]:
            name, number = turn_of(turns, update)
            return {"of": name, "batch": of[name].rehearsal(number)}

        return Batches(make, steps)

    return Lesson(
        NAME,
        learner_of(trains),
        make_batches,
        steps,
        minutes,
        "It goes over other lessons, which are rehearsed.",
        rehearsal_every=EVERY,
        rehearsal_share=1.0,
        skills=tuple(dict.fromkeys(skill for lesson in reviewed.values() for skill in lesson.skills)),
        control=learner_of(control_trains) if control_trains else None,
    )
