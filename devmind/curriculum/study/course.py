"""What one run of a study teaches: lessons of one stage, or of several in rounds, and the exams of its outcomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from devmind.agent.agent import Agent
from devmind.curriculum.runner import in_order
from devmind.curriculum.stage import Batches, Context, Learner, Lesson, Skill, Stage
from devmind.curriculum.start import load_stage


@dataclass(frozen=True)
class Leg:
    """One run of an arm: what is taught, and to whom.

    Attributes:
        name: says all that the run depends on besides its seed; legs of the same name are one run.
        stages: taught here, as one where there are several.
        steps: by stage, by lesson.
        before: the leg whose agent it goes on with; None: a newborn.
        fresh: parts that are a newborn's again.
        skills: those that are examined at its end.
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
    """A leg as a stage: it is run, stopped and gone on with as any other.

    Parts of what its stages require are there, as new where that was not taught.
    """

    requires: tuple[str, ...] = ()

    def __init__(self, leg: Leg, skills: Sequence[Skill]) -> None:
        self.leg, self.name = leg, leg.stages[-1]
        self.skills: Sequence[Skill] = tuple(skills)
        self.stages: list[Stage] = [load_stage(name) for name in leg.stages]

    def admit(self, agent: Agent) -> None:
        """Add the parts of its stages and of all that they require."""
        for name in in_order(self.leg.stages):
            if name not in agent.config.stages:
                load_stage(name).admit(agent)
        agent.config.stages = [*agent.config.stages, *self.leg.stages[:-1]]

    def lessons(self, context: Context) -> Sequence[Lesson]:
        """Those of the leg with their steps here; of several stages a share of each in every round."""
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
        """What trains the parts that the lesson's own stage may train, though the agent is in others as well."""

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
    """A stage that is rehearsed and not examined."""

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
    """The batches of one round of a lesson; they are those that it has in one go, in the same order.

    Its learner begins anew with each round, and so does what its learning rate follows.
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
