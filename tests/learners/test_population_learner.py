"""Populations in the place of a head: laws, what is learned, ensembles, members set aside, what does not fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from devmind.acting import Actor
from devmind.acting.rollout import returns
from devmind.agent import Agent
from devmind.agent.batch import collate_tick
from devmind.config import load
from devmind.curriculum.stage import Context, Lesson, check_lessons
from devmind.errors import ConfigError
from devmind.learners.population import (
    EvolutionLearner,
    HeadNet,
    Niche,
    PopulationLearner,
    fitness,
    population_lesson,
)
from devmind.seeding import lesson_seeds
from devmind.testing import LampRules, check_learner, tiny_agent, tiny_context
from devmind.worlds import make as make_world
from stages.planning.stage import PlanningStage
from stages.reflex.stage import ReflexStage

HEAD = "lit"


def shown(context: Context, update: int, rows: int) -> dict[str, Any]:
    rules = LampRules()
    state = rules.initial(lesson_seeds(rows, context.seed, "lamps", update))
    batch = collate_tick({"warmth": rules.observe(state)["warmth"]}, np.ones(rows, bool))
    return batch | {"lit": torch.from_numpy(rules.truth(state)["lit"])[:, None]}


def make_agent(**options: object) -> Agent:
    agent = tiny_agent()
    agent.add_encoder("warmth", space=LampRules().observation_space["warmth"])
    agent.add_head(HEAD, "head.categorical", tap="warmth", options={"classes": 3, "activation": "relu", **options})
    return agent


def lesson_in(context: Context, **more: Any) -> Lesson:
    return population_lesson(
        context, "lamps", HEAD, "lit", shown, **{"steps": 30, "rows": 64, "minutes": 0.1, "members": 20, **more}
    )


def balancing(tmp_path: Path, **options: object) -> tuple[Lesson, Agent, Context]:
    said = {"learner": "population", "options": {"members": 12, "episodes": 2, **options}}
    context = replace(tiny_context(tmp_path), config=load("tiny", {"lessons.balance": said}))
    stage, agent = ReflexStage(), tiny_agent()
    stage.admit(agent)
    return next(lesson for lesson in stage.lessons(context) if lesson.name == "balance"), agent, context


@pytest.mark.parametrize("more", [{}, {"ensemble": 4, "exploit_every": 1}])
def test_the_population_keeps_a_learners_laws(tmp_path: Path, more: dict[str, Any]) -> None:
    context = tiny_context(tmp_path)
    check_learner(lesson_in(context, **more), make_agent(), context)


@pytest.mark.parametrize("rule", ["genetic", "strategy"])
def test_evolution_keeps_a_learners_laws(tmp_path: Path, rule: str) -> None:
    check_learner(*balancing(tmp_path, rule=rule))


def taught(learner: PopulationLearner, context: Context, steps: int) -> float:
    learner.steps = steps
    learner.begin(0)
    for step in range(steps):
        learner.update(shown(context, step, 64), step)
    batch = shown(replace(context, seed=991), 0, 300)
    with torch.no_grad():
        answer = learner.agent(batch, [HEAD])[HEAD].mode()
    return float((answer == batch["lit"]).float().mean())


@pytest.mark.parametrize("more", [{}, {"ensemble": 8}, {"exploit_every": 5}])
def test_the_best_members_answer_in_the_ordinary_head(tmp_path: Path, more: dict[str, Any]) -> None:
    context, agent = tiny_context(tmp_path), make_agent()
    learner = PopulationLearner(agent, seed=0, head=HEAD, target="lit", members=40, **more)
    before = taught(PopulationLearner(make_agent(), seed=0, head=HEAD, target="lit", members=2, rates=(1e-9, 1e-8)),
                    context, 1)  # fmt: skip
    assert taught(learner, context, 40) > max(0.85, before + 0.3)
    if more.get("exploit_every"):
        assert learner.replaced > 0
        assert 3 < len(learner.population.rates.unique()) < 40


def test_members_that_diverge_are_counted_and_never_stand_in_the_head(tmp_path: Path) -> None:
    agent, context = make_agent(), tiny_context(tmp_path)
    learner = PopulationLearner(agent, seed=0, head=HEAD, target="lit", members=10, rates=(0.1, 1e38))
    for step in range(5):
        scalars = learner.update(shown(context, step, 64), step)
    assert 0 < scalars["set aside"] < 10
    assert all(bool(x.isfinite().all()) for x in agent.head(HEAD).state_dict().values())
    ill = PopulationLearner(agent, seed=0, head=HEAD, target="lit", members=3, rates=(1e37, 1e38))
    batch = shown(context, 0, 64)
    with pytest.raises(ConfigError, match="All 3 members have a loss that is NaN"):
        ill.update(batch, 0)


def test_policies_that_live_at_once_have_the_returns_of_living_alone(tmp_path: Path) -> None:
    lesson, agent, context = balancing(tmp_path)
    learner = lesson.make_learner(agent, context)
    assert isinstance(learner, EvolutionLearner)
    seeds = np.array([3, 9, 27])
    world = make_world("cartpole", "", seeds)
    together = fitness(learner.niche, learner.of, learner.members, world)
    assert np.array_equal(together, fitness(learner.niche, learner.of, learner.members, world, most=5))
    assert learner.of.template is not None
    learner.of.template = None
    assert np.array_equal(together, fitness(learner.niche, learner.of, learner.members, world)), "by vmap"
    for member in (0, 3, 5):
        learner.of.write(learner.members[member])
        alone = returns(Actor(agent, effectors=["push"], trunk=False), make_world("cartpole", "", seeds))
        assert np.array_equal(together[member], alone)
    assert len(set(together.mean(1))) >= 3


def test_a_generation_that_lost_some_to_nan_goes_on(tmp_path: Path) -> None:
    lesson, agent, context = balancing(tmp_path)
    learner = lesson.make_learner(agent, context)

    class Ill:
        def __call__(self, name: str, level: str, seeds: np.ndarray) -> Any:
            world = make_world(name, level, seeds)
            whole = world.rules.outcome

            def outcome(state: Any) -> Any:
                found = whole(state)
                return replace(found, reward=np.where(np.arange(len(found.reward)) < 6, np.nan, found.reward))

            world.rules.outcome = outcome  # type: ignore[method-assign]
            return world

    learner.context = replace(context, make_world=Ill())  # type: ignore[attr-defined]
    assert learner.update({}, 0)["set aside"] == 3.0
    learner.context = context  # type: ignore[attr-defined]
    assert learner.update({}, 1)["set aside"] == 3.0


def test_policies_learn_to_keep_what_a_market_would_take(tmp_path: Path) -> None:
    """In a market without a trend, fees and tax are all that trading brings, so the fittest trade less."""
    agent, context = tiny_agent(), tiny_context(tmp_path)
    PlanningStage().admit(agent)
    agent.add_head("account_arc", "head.normal", tap=("raw:returns", "raw:account"), effector="trade",
                   options={"size": 1, "hidden": 8, "activation": "tanh"})  # fmt: skip
    niche = Niche("trade", "market", ("random",), head="account_arc", members=50, episodes=8, spread=0.3)
    learner = EvolutionLearner(agent, context, niche)
    paths = make_world("market", "random", np.arange(10**6, 10**6 + 40))

    def median() -> float:
        return float(np.median(fitness(niche, learner.of, learner.members, paths).mean(1)))

    before = median()
    for step in range(7):
        learner.update({}, step)
    assert median() > before + 0.05


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda a, c: HeadNet(a, "scene"), "of several"),
        (lambda a, c: PopulationLearner(a, seed=0, head="push_arc", target="x", ensemble=3), "hidden units"),
        (lambda a, c: PopulationLearner(a, seed=0, head="look_arc", target="x"), "of several"),
        (lambda a, c: EvolutionLearner(a, c, Niche("push", "cartpole", rule="genetics")), "did you mean 'genetic'"),
        (lambda a, c: EvolutionLearner(a, c, Niche("push", "cartpole", members=1)), "two members"),
        (lambda a, c: EvolutionLearner(a, c, Niche("push", "cartpole", members=10**9)), r"need [\d,]+ bytes"),
    ],
)
def test_what_a_population_cannot_do_is_said(
    make: Callable[[Agent, Context], object], said: str, tmp_path: Path
) -> None:
    agent = tiny_agent()
    ReflexStage().admit(agent)
    with pytest.raises(ConfigError, match=said):
        make(agent, tiny_context(tmp_path))


def test_a_lesson_says_which_learners_it_has(tmp_path: Path) -> None:
    context = tiny_context(tmp_path)

    def named(lesson: str, **said: object) -> Context:
        return replace(context, config=load("tiny", {f"lessons.{lesson}": said}))

    with pytest.raises(ConfigError, match="'perceive' has no learner 'population'; it has its own alone"):
        check_lessons([ReflexStage()], named("perceive", learner="population"))
    with pytest.raises(ConfigError, match=r"lessons\.balance\.learner.*'population'"):
        named("balance", learner="populations")
    check_lessons([ReflexStage()], named("balance", learner="population", options={"members": 9}))
    with pytest.raises(ConfigError, match="no option 'members'"):
        check_lessons([ReflexStage()], named("balance", options={"members": 9}))
    usual = [lesson.name for lesson in ReflexStage().lessons(context)]
    own = {lesson.name: lesson for lesson in ReflexStage().lessons(named("balance", steps=1))}
    assert [*usual[:-1], "balance", usual[-1]] == list(own)
    assert own["motor"].steps == 13
