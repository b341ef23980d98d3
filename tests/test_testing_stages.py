"""The check of stages passes a small correct one, and names the law that a broken one breaks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from devmind import plugins, worlds
from devmind.agent import Agent, collate_tick
from devmind.curriculum.episodes import identities
from devmind.curriculum.exam import Exam, Measure
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Batches, Context, Lesson, Skill
from devmind.errors import ConfigError
from devmind.learners.gradient import GradientLearner
from devmind.seeding import EXAM_SEEDS_FROM, exam_seeds, lesson_seeds
from devmind.testing import BrokenLawError, LampRules, check_stage
from devmind.worlds.adapter import RulesWorld, VectorWorld
from devmind.worlds.side_by_side import SideBySide
from tests.stages.floors import law_exam_stays_at_the_floors

OF_THE_UNTAUGHT = {
    "follow": "language.test_following",
    "instruct": "planning.test_instruct",
    "navigate": "reasoning.test_navigate",
    "sliding": "reasoning.test_sliding",
    "trade": "planning.test_trade",
}
"""Test files that say by `of_an_untaught_agent(measures)` what else holds of a skill's full exam."""


def make_lamps(name: str, level: str, seeds: np.ndarray) -> VectorWorld:
    if name != "lamps":
        return worlds.make(name, level, seeds)
    world = VectorWorld(LampRules(), len(seeds))
    world.reset(seeds)
    return world


def show(context: Context, seeds: np.ndarray) -> dict[str, Any]:
    world = context.make_world("lamps", "", seeds)
    warmth = world.observe()["warmth"]
    batch = collate_tick({"warmth": warmth}, np.ones(len(seeds), bool))
    return batch | {"lit": torch.from_numpy(world.truth()["lit"])[:, None]}


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    return agent(batch, ["lit"])["lit"].loss(batch["lit"]), {}


def right(agent: Agent, context: Context, seeds: np.ndarray) -> np.ndarray:
    batch = show(context, seeds)
    return (agent(batch, ["lit"])["lit"].mode() == batch["lit"]).numpy()[:, 0]


def measure(values: np.ndarray, **changes: Any) -> Measure:
    usual: dict[str, Any] = {
        "chance": 1 / 3, "ceiling": 1.0, "floors": {"always the first": 1 / 3}, "rate": True,
        "exhaustive": True,  # there are three lamps
    }  # fmt: skip
    return Measure("lamp", "told rightly", values, **(usual | changes))


def examine(agent: Agent, context: Context) -> Exam:
    return Exam([measure(right(agent, context, exam_seeds(context.episodes(80), "lamp")))])


def skill_of(exam: Any, threshold: str = "lamp") -> tuple[Skill, ...]:
    return (Skill("lamp", exam, Gate([Threshold(threshold, 0.9)])),)


class LampStage:
    """Names the lit lamp from its own sense."""

    name = "lamps"
    requires: tuple[str, ...] = ()
    skills = skill_of(examine)

    def admit(self, agent: Agent) -> None:
        if "warmth" not in agent.encoders:
            agent.add_encoder("warmth", space=LampRules().observation_space["warmth"], stage=self.name)
            agent.add_head("lit", "head.categorical", tap="warmth", options={"classes": 3}, stage=self.name)

    def lessons(self, context: Context) -> Sequence[Lesson]:
        def learner(agent: Agent, context: Context) -> GradientLearner:
            return GradientLearner(agent, loss, seed=context.seed, learning_rate=3e-3)

        def batches(agent: Agent, context: Context, steps: int) -> Batches:
            return Batches(lambda update: show(context, lesson_seeds(16, context.seed, update)), steps)

        return [Lesson("lamps", learner, batches, steps=100, minutes=0.2, skills=("lamp",))]


def test_stage_that_keeps_its_laws_passes() -> None:
    check_stage(LampStage(), make_world=make_lamps)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", [n for n, p in plugins.available("stages").items() if p.distribution == "devmind"])
def test_every_stage_of_devmind_keeps_its_laws(name: str, tmp_path: Path) -> None:
    """What an untaught agent reaches in the exams that are dear is looked at here, as they are held anyway."""
    stage, held = plugins.load("stages", name)(), list[str]()

    def looked_at(skill: Skill, measures: Mapping[str, Measure]) -> None:
        law_exam_stays_at_the_floors(stage, skill, measures, tmp_path)
        if file := OF_THE_UNTAUGHT.get(skill.name):
            import_module(f"tests.stages.{file}").of_an_untaught_agent(measures)
        held.append(skill.name)

    check_stage(stage, in_full=looked_at)
    assert held == [skill.name for skill in stage.skills]


class Hooked(LampStage):
    """Has no requirements."""

    requires = None  # type: ignore[assignment]


class Twice(LampStage):
    """Adds a head at each admission."""

    def admit(self, agent: Agent) -> None:
        super().admit(agent)
        name = f"lit{len(agent.heads)}"
        agent.add_head(name, "head.categorical", tap="warmth", options={"classes": 3}, stage=self.name)


class Meddling(LampStage):
    """Changes existing weights."""

    def admit(self, agent: Agent) -> None:
        super().admit(agent)
        with torch.no_grad():
            agent.readout += 1


class Anonymous(LampStage):
    """Adds parts under another stage's name."""

    name = "dusk"

    def admit(self, agent: Agent) -> None:
        stage = LampStage()
        stage.admit(agent)


class NoSuchSkill(LampStage):
    """Its lesson names a skill that the stage does not have."""

    def lessons(self, context: Context) -> Sequence[Lesson]:
        (lesson,) = super().lessons(context)
        return [Lesson("lamps", lesson.make_learner, lesson.make_batches, 10, 0.1, skills=("lanterns",))]


class Guessing(LampStage):
    """Draws its exam at random each time."""

    rng = np.random.default_rng(0)

    def guess(self, context: Context) -> np.ndarray:
        return self.rng.integers(0, 2, context.episodes(80)).astype(float)

    @property
    def skills(self) -> Any:
        return skill_of(lambda agent, context: Exam([measure(self.guess(context))]))


class Drawn(LampStage):
    """Its exam uses drawn rounds of eight Moments; lessons have other rounds."""

    first_seed, copies, shared, named = 2_000_000, 1, 0, True

    def rounds(self, context: Context, agent: Agent) -> Exam:
        seeds = np.repeat(np.arange(8) + self.first_seed, self.copies)
        met = self.met(context, seeds)
        met[: self.shared] = self.met(context, np.arange(self.shared))
        return Exam([measure(right(agent, context, seeds), exhaustive=False, episodes=met if self.named else None)])

    @staticmethod
    def met(context: Context, seeds: np.ndarray) -> np.ndarray:
        state = context.make_world("lamps", "", np.maximum(seeds, EXAM_SEEDS_FROM)).state()
        return identities({"seed": seeds, "lit": state.lit})

    @property
    def skills(self) -> Any:
        (skill,) = skill_of(lambda agent, context: self.rounds(context, agent))
        return (replace(skill, taught=lambda context, n: self.met(context, np.arange(n))),)


class LessonSeeds(Drawn):
    """Examines on the worlds of lessons."""

    first_seed = 999_990


class Copied(Drawn):
    """Counts each episode twice."""

    copies = 2


class Leaking(Drawn):
    """One of its eight episodes is from a lesson."""

    shared = 1


class Nameless(Drawn):
    """Does not give the identities of its episodes."""

    named = False


class Secretive(Drawn):
    """Does not give the episodes of its lessons."""

    @property
    def skills(self) -> Any:
        return tuple(replace(skill, taught=None) for skill in super().skills)


class Drifting(Drawn):
    """Asks other rounds in retention than in full, in which its agent is equally right."""

    def rounds(self, context: Context, agent: Agent) -> Exam:
        full, alone = (
            [measure(np.ones(8), exhaustive=False, episodes=self.met(context, np.arange(8) + self.first_seed + later))]
            for later in (0, 8)
        )
        return Exam(alone, lambda: full)


class Floorless(LampStage):
    """Gives no floor."""

    skills = skill_of(lambda agent, context: Exam([measure(np.ones(8), floors={})]))


class Unmeasured(LampStage):
    """Its gate needs a measure that its exam does not give."""

    skills = skill_of(examine, "lamp/brightness")


class Cramming(LampStage):
    """Learns in its exam."""

    skills = skill_of(lambda agent, context: agent.readout.add_(1) is None or Exam([measure(np.ones(8))]))


class UpsideDown(LampStage):
    """Its ceiling is below chance."""

    skills = skill_of(lambda agent, context: Exam([measure(np.ones(8), ceiling=0.0)]))


class Narrow(LampStage):
    """Trains a head of its own and an arc of another stage, and a rehearsal reads neither."""

    requires = ("reflex",)
    trains: tuple[str, ...] = ("heads.lit.", "heads.push_arc.")

    def lessons(self, context: Context) -> Sequence[Lesson]:
        (lesson,) = super().lessons(context)

        def learner(agent: Agent, context: Context) -> GradientLearner:
            return GradientLearner(agent, loss, seed=0, learning_rate=3e-3, trains=self.trains)

        return [Lesson("lamps", learner, lesson.make_batches, 10, 0.1)]


class Hasty(LampStage):
    """Rehearses a lesson that comes later."""

    def lessons(self, context: Context) -> Sequence[Lesson]:
        return [replace(lesson, rehearses=("writing",)) for lesson in super().lessons(context)]


class OfADay(GradientLearner):
    """Cannot be rehearsed, but its lesson does not declare it."""

    def rehearse(self, batch: Any) -> tuple[Tensor, Mapping[str, Tensor]]:
        raise ConfigError("What it was taught with is gone.")


class Frozen(GradientLearner):
    """Its rehearsal trains nothing."""

    def rehearse(self, batch: Any) -> tuple[Tensor, Mapping[str, Tensor]]:
        loss, scalars = super().rehearse(batch)
        return loss.detach(), scalars


class Fleeting(LampStage):
    """Has a lesson that cannot be rehearsed."""

    kind: type[GradientLearner] = OfADay

    def lessons(self, context: Context) -> Sequence[Lesson]:
        def learner(agent: Agent, context: Context) -> GradientLearner:
            return self.kind(agent, loss, seed=0, learning_rate=3e-3)

        return [replace(lesson, make_learner=learner) for lesson in super().lessons(context)]


class Lifeless(Fleeting):
    """Has a lesson whose rehearsal has no gradient."""

    kind = Frozen


class Apart(Narrow):
    """Trains a head of its own alone."""

    trains = ("heads.lit.",)


class ByHand(LampStage):
    """Its exam steps the world itself, so it does not test the program that runs in life."""

    @staticmethod
    def _examine(agent: Agent, context: Context) -> Exam:
        seeds = exam_seeds(8, "lamp")
        context.make_world("lamps", "", seeds).step({})
        return Exam([measure(right(agent, context, seeds))])

    skills = skill_of(_examine.__func__)


class AsideByHand(LampStage):
    """Steps its own world of single environments side by side."""

    @staticmethod
    def _examine(agent: Agent, context: Context) -> Exam:
        SideBySide([RulesWorld(LampRules())], [EXAM_SEEDS_FROM]).step({})
        return Exam([measure(right(agent, context, exam_seeds(8, "lamp")))])

    skills = skill_of(_examine.__func__)


class TaughtByHand(LampStage):
    """Its batches come from a world that the lesson makes and steps itself."""

    def lessons(self, context: Context) -> Sequence[Lesson]:
        (lesson,) = super().lessons(context)

        def batches(agent: Agent, context: Context, steps: int) -> Batches:
            world = VectorWorld(LampRules(), 2)
            world.reset([0, 1])
            world.step({})
            return lesson.make_batches(agent, context, steps)

        return [replace(lesson, make_batches=batches)]


def test_exam_of_drawn_episodes_passes_if_they_differ_and_are_new() -> None:
    check_stage(Drawn(), make_world=make_lamps)


def test_lesson_that_changes_no_earlier_part_needs_no_rehearsal() -> None:
    check_stage(Apart(), make_world=make_lamps)


@pytest.mark.parametrize(
    ("stage", "law"),
    [
        (Narrow, "can be taught among rehearsals"),
        (Hasty, "rehearses lessons that were taught before it"),
        (Fleeting, "a lesson that trains the trunk can be rehearsed"),
        (Lifeless, "a lesson that trains the trunk can be rehearsed"),
        (Hooked, "requires is a tuple"),
        (Twice, "admit is idempotent"),
        (Meddling, "admit changes no weight that was there"),
        (Anonymous, "the parts a stage adds carry its name"),
        (NoSuchSkill, "a lesson names skills of its stage"),
        (Guessing, "an exam's seeds are fixed"),
        (LessonSeeds, "an exam's worlds have seeds from 1,000,000 on"),
        (Copied, "as many different episodes as it claims"),
        (Leaking, "at most 1% are among 10,000 of its lessons"),
        (Nameless, "says which episodes its values are of"),
        (Secretive, "says which episodes lessons show"),
        (ByHand, "worlds are stepped by devmind.acting.rollout"),
        (AsideByHand, "worlds are stepped by devmind.acting.rollout"),
        (TaughtByHand, "worlds are stepped by devmind.acting.rollout"),
        (Drifting, "an exam of retention asks the full exam's episodes"),
        (Floorless, "a full exam prints a floor"),
        (Unmeasured, "a gate's thresholds are measured"),
        (Cramming, "nothing is learned in an exam"),
        (UpsideDown, "the ceiling is better than chance"),
    ],
)
def test_broken_law_of_a_stage_is_named(stage: type[LampStage], law: str) -> None:
    with pytest.raises(BrokenLawError) as told:
        check_stage(stage(), make_world=make_lamps)
    assert law in str(told.value)
