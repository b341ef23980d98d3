"""The content of one run of a study: lessons of one stage, or of several in rounds, and the exams of outcomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from devmind.agent.agent import Agent
from devmind.curriculum.runner import in_order
from devmind.curriculum.stage import Batches, Context, Learner, Lesson, Skill, Stage
from devmind.curriculum.start import load_stage


@dataclass(frozen=True)
class Leg:
    """One run of an arm: what it teaches, and which agent.

    Attributes:
        name: everything on which the run depends besides its seed; legs with equal names are one run.
        stages: the stages that it teaches; several are taught as one.
        steps: by stage, by lesson.
        before: the leg whose agent it continues with; None: a newborn.
        fresh: parts that are replaced by a newborn's.
        skills: skills that are examined at its end.
    """

    name: str
    stages: tuple[str, ...]
    steps: Mapping[str, Mapping[str, int]]
    before: str | None = None
    fresh: tuple[str, ...] = ()
    rounds: int = 1
    rehearse: bool = True
    skills: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """Steps of all its lessons."""
        return sum(sum(lessons.values()) for lessons in self.steps.values())


class Course:
    """A leg as a stage, which can be run, stopped and continued like any other.

    The agent has the parts of all required stages; those that were not taught are new.
    """

    requires: tuple[str, ...] = ()

    def __init__(self, leg: Leg, skills: Sequence[Skill]) -> None:
        self.leg, self.name = leg, leg.stages[-1]
        self.skills: Sequence[Skill] = tuple(skills)
        self.stages: list[Stage] = [load_stage(name) for name in leg.stages]

    def admit(self, agent: Agent) -> None:
        """Add the parts of its stages and of all stages that these require."""
        for name in in_order(self.leg.stages):
            if name not in agent.config.stages:
                load_stage(name).admit(agent)
        agent.config.stages = [*agent.config.stages, *self.leg.stages[:-1]]

    def lessons(self, context: Context) -> Sequence[Lesson]:
        """The leg's lessons with their steps in this study; of several stages a share of each lesson in every round."""
        if len(self.stages) == 1:
            return self._of(self.stages[0], context)
        every = [
            (stage.name, replace(lesson, make_learner=self._learner(number, lesson)))
            for number, stage in enumerate(self.stages)
            for lesson in self._of(stage, context)
        ]
        rounds = self.leg.rounds
        parts = [_part(name, lesson, number, rounds) for number in range(rounds) for name, lesson in every]
        return [part for part in parts if part.steps]

    def _learner(self, number: int, lesson: Lesson) -> Callable[[Agent, Context], Learner]:
        """A learner of the parts that the lesson's own stage may train, although the agent is in other stages too."""

        def make(agent: Agent, context: Context) -> Learner:
            known = agent.config.stages
            before = [name for name in known if name not in self.leg.stages]
            agent.config.stages = [*before, *self.leg.stages[: number + 1]]
            try:
                return lesson.make_learner(agent, context)
            finally:
                agent.config.stages = known

        return make

    def _of(self, stage: Stage, context: Context) -> list[Lesson]:
        steps = self.leg.steps[stage.name]
        return [
            replace(
                lesson,
                steps=steps[lesson.name],
                minutes=lesson.minutes * steps[lesson.name] / lesson.steps,
                rehearses=tuple(name for name in lesson.rehearses if name in steps),
                skills=(),
            )
            for lesson in stage.lessons(context)
            if lesson.name in steps
        ]


class Unexamined:
    """A stage that is rehearsed but not examined."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.name, self.requires = stage, stage.name, stage.requires
        self.skills: Sequence[Skill] = ()

    def admit(self, agent: Agent) -> None:
        """As the stage does."""
        self.stage.admit(agent)

    def lessons(self, context: Context) -> Sequence[Lesson]:
        """The stage's."""
        return self.stage.lessons(context)


def _part(stage: str, lesson: Lesson, number: int, rounds: int) -> Lesson:
    """The batches of one round of a lesson; the rounds together have the lesson's batches, in the same order.

    The learner and the schedule of its learning rate begin anew in each round.
    """
    begin, end = (lesson.steps * at // rounds for at in (number, number + 1))
    whole = lesson.steps

    def batches(agent: Agent, context: Context, steps: int) -> Batches:
        own = lesson.make_batches(agent, context, whole)
        return Batches(lambda update: own.make(begin + update), steps, own.prefetch)

    def learner(agent: Agent, context: Context) -> Learner:
        made = lesson.make_learner(agent, context)
        made.again = number > 0
        return made

    return replace(
        lesson,
        make_learner=learner,
        name=f"{stage} {lesson.name} {number + 1}",
        make_batches=batches,
        steps=end - begin,
        minutes=lesson.minutes * (end - begin) / whole,
        rehearses=(),
        rehearsal_every=0,
    )
