"""Q-learning of a pole and of a room: what is known of the room, the heads as networks, the lesson and the exam."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from devmind.acting import Policy, Senses, returns
from devmind.agent.agent import Agent
from devmind.algorithms import grid
from devmind.curriculum.examining import examination
from devmind.curriculum.stage import check_lessons
from devmind.errors import ConfigError
from devmind.learners.population import Genome
from devmind.testing import check_learner, tiny_context
from devmind.worlds import minigrid
from devmind.worlds.minigrid import FORWARD, LEFT, RIGHT, env_of, pose_in, true_costs
from stages.reasoning import parts
from stages.reasoning.stage import ReasoningStage
from stages.reasoning.values import exam, lesson
from stages.reasoning.values.lesson import DRILLS, HeadValues, ValueLearner
from stages.reasoning.values.rooms import STARTS, all_starts, goal_in_view, rooms, shortest


def test_every_start_of_the_room_is_asked_once() -> None:
    seeds = all_starts(0)
    world = rooms(seeds[:1]).worlds[0]
    places = set()
    for seed in seeds.tolist():
        world.reset(seed=seed)
        places.add(pose_in(env_of(world)))
    cells = {(x, y) for x in range(1, 5) for y in range(1, 5)} - {(4, 4)}
    assert places == {(*cell, heading) for cell in cells for heading in range(4)}
    assert len(seeds) == len(places) == STARTS
    assert set(seeds.tolist()).isdisjoint(all_starts(1).tolist())


def next_pose(costs: np.ndarray, here: grid.Pose, move: int) -> grid.Pose:
    there = grid.move_pose(here, move)
    return there if costs[there[:2]] else here


def steps_to_goal(costs: np.ndarray, start: grid.Pose) -> int:
    moves = grid.shortest(costs, start, grid.on((4, 4)))
    assert moves is not None
    return len(moves)


def test_the_shortest_path_counts_cells_and_turns() -> None:
    costs = true_costs(env_of(rooms(all_starts(0)[:1]).worlds[0]))
    for row, column, heading, steps in (
        (3, 4, 1, 1),
        (3, 4, 3, 3),
        (4, 3, 0, 1),
        (1, 1, 0, 7),
        (1, 1, 1, 7),
        (1, 1, 2, 8),
    ):
        assert steps_to_goal(costs, (row, column, heading)) == steps, (row, column, heading)
    assert next_pose(costs, (1, 1, 2), FORWARD) == (1, 1, 2), "a wall"


def knowing(world: Any, turn: Callable[[int], np.ndarray]) -> Policy:
    """Takes the shortest path in each of the rooms of `world`; each row gets the action of row `turn(n)`."""
    known: dict[grid.Pose, int] = {}  # the rooms are all alike
    costs = true_costs(env_of(world.worlds[0]))

    def best(one: Any) -> int:
        here = pose_in(env_of(one))
        if here not in known:
            known[here] = min(
                (LEFT, RIGHT, FORWARD), key=lambda move: steps_to_goal(costs, next_pose(costs, here, move))
            )
        return known[here]

    def policy(senses: Senses, first: np.ndarray) -> dict[str, np.ndarray]:
        return {"choose": np.array([best(one) for one in world.worlds])[turn(len(first))]}

    return policy


def test_the_shortest_path_earns_the_declared_return() -> None:
    seeds = all_starts(0)
    world = rooms(seeds)
    np.testing.assert_allclose(returns(knowing(world, np.arange), world), shortest(seeds))
    by_rule = returns(goal_in_view, rooms(seeds))
    assert (by_rule <= shortest(seeds) + 1e-9).all()
    assert by_rule.mean() > 0.95


def balancing(turn: Callable[[int], np.ndarray]) -> Policy:
    def policy(senses: Senses, first: np.ndarray) -> dict[str, np.ndarray]:
        falling = senses["body"] @ np.array([0.1, 0.3, 3.0, 1.0]) > 0
        return {"push": falling.astype(np.int64)[turn(len(first))]}

    return policy


def test_known_answers_reach_the_ceiling_and_shuffled_answers_fall(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = tiny_context(tmp_path, "exam.episodes_scale=0.1")
    worlds: list[Any] = []

    def made(seeds: np.ndarray) -> Any:
        worlds.append(rooms(seeds))
        return worlds[-1]

    def examined(turn: Callable[[int], np.ndarray]) -> dict[str, Any]:
        def policy(agent: Agent, name: str, head: str = "") -> Policy:
            if name == exam.CARTPOLE:
                return balancing(turn)
            # The rooms it acts in are made later.
            acting = list[Policy]()

            def late(senses: Senses, first: np.ndarray) -> Any:
                acting[:] = acting or [knowing(worlds[-1], turn)]
                return acting[0](senses, first)

            return late

        monkeypatch.setattr(exam, "_policy", policy)
        monkeypatch.setattr(exam, "rooms", made)
        return {measure.name: measure for measure in exam.examine(agent, context).in_full()}

    best = examined(np.arange)
    for measure in best.values():
        assert measure.score == pytest.approx(measure.ceiling)
    passed = {decision.measure for decision in exam.GATE.judge(best).decisions if decision.passed}
    assert exam.ROOMS in passed  # 40 episodes of the pole prove too little, even at its ceiling
    rng = np.random.default_rng(5)
    shuffled = examined(rng.permutation)
    for name, measure in shuffled.items():
        assert measure.score < measure.floor, name
    assert not any(decision.passed for decision in exam.GATE.judge(shuffled).decisions)


def test_without_minigrid_only_the_pole_is_taught_and_examined(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = tiny_context(tmp_path, "exam.episodes_scale=0.02")
    both = lesson.lesson(context)
    monkeypatch.setattr(minigrid, "minigrid_installed", lambda: False)
    (measure,) = exam.examine(agent, context.glimpse()).alone()
    assert "MiniGrid is not installed" in measure.note
    alone = lesson.lesson(context)
    assert alone.steps == both.steps // 2
    assert {batch["drill"] for batch in alone.make_batches(agent, context, 4)} == {"cartpole"}


def test_cartpole_by_a_population_is_a_lesson_of_its_own(agent: Agent, tmp_path: Path) -> None:
    context = tiny_context(tmp_path, "lessons.cartpole.learner=population")
    found = {one.name: one for one in ReasoningStage().lessons(context)}
    assert {batch["drill"] for batch in found["values"].make_batches(agent, context, 4)} == {"rooms"}
    check_learner(found["cartpole"], agent, context)
    learner = found["cartpole"].make_learner(agent, context)
    body = torch.randn(7, 4)
    before = agent.evaluate({"body": body}, [parts.PUSHES])[parts.PUSHES].numbers()
    learner.update({}, 0)
    assert not torch.equal(agent.evaluate({"body": body}, [parts.PUSHES])[parts.PUSHES].numbers(), before)
    with pytest.raises(ConfigError, match="'values' has no learner 'population'"):
        check_lessons([ReasoningStage()], tiny_context(tmp_path, "lessons.values.learner=population"))
    with pytest.raises(ConfigError, match=f"'{parts.CHOICES}' .* reads 'trunk:board'"):
        Genome(agent, parts.CHOICES)


@pytest.mark.parametrize(("name", "sense"), [(parts.PUSHES, "body"), (parts.CHOICE_GLANCES, "board")])
def test_a_head_as_a_network_equals_the_agents_answer(agent: Agent, name: str, sense: str) -> None:
    body = torch.randn(5, 4)
    sensed = body if sense == "body" else torch.from_numpy(rooms(all_starts(0)[:5]).observe()["board"])
    network = HeadValues(agent, name, "act")
    told = agent.evaluate({sense: sensed}, [name])[name]
    torch.testing.assert_close(network(network.read({sense: sensed.numpy()})), told.numbers())


def test_q_learning_requires_a_head_with_one_tapped_sense(agent: Agent) -> None:
    with pytest.raises(ConfigError, match="acts by a head that taps one sense"):
        HeadValues(agent, parts.CHOICES, "choose")


@pytest.mark.parametrize(("sets", "rate"), [([], 2e-3), (["lessons.values.learning_rate=0.0004"], 4e-4)])
def test_the_configured_rate_is_that_of_the_fastest_drill_and_others_keep_their_share(
    agent: Agent, tmp_path: Path, sets: list[str], rate: float
) -> None:
    """It was cancelled out again before each step."""
    context = tiny_context(tmp_path, *sets)
    learner = lesson.lesson(context).make_learner(agent, context)
    assert isinstance(learner, ValueLearner)
    learner.steps = 1000
    learner.begin(0)
    for name, share in (("rooms", 1.0), ("cartpole", 0.5)):
        learner.update({"drill": name}, 30)
        assert {group["lr"] for group in learner.optimizer.param_groups} == {rate * share}, name


def test_only_its_heads_are_trained_and_nothing_rehearses_them(agent: Agent, tmp_path: Path) -> None:
    (one,) = [one for one in ReasoningStage().lessons(tiny_context(tmp_path)) if one.name == "values"]
    learner = one.make_learner(agent, tiny_context(tmp_path))
    heads = {name.split(".")[1] for name, _ in learner.trained_parameters() if name.startswith("heads.")}
    assert heads == {parts.PUSHES, parts.CHOICES, parts.CHOICE_GLANCES}
    assert all(name.startswith("heads.") for name, _ in learner.trained_parameters())
    with pytest.raises(ConfigError, match="later lessons change nothing of theirs"):
        learner.rehearse({"drill": "rooms"})


@pytest.mark.slow
def test_the_trunk_learns_the_room_too(agent: Agent, tmp_path: Path) -> None:
    """By heads alone on an untaught sense, so far from perfect; the trunk's head gets as far as the glance."""
    drill = DRILLS["rooms"]
    drill = replace(drill, learning=replace(drill.learning, batch=32), steps=30, student_steps=12)
    context = tiny_context(tmp_path)
    learner = ValueLearner(agent, context, {"rooms": drill}, learning_rate=drill.learning_rate)
    learner.steps = 200

    def returned() -> tuple[float, float]:
        with examination(agent):
            by = [exam._policy(agent, exam.ROOMS, head) for head in (parts.CHOICE_GLANCES, parts.CHOICES)]
            glance, told = (float(exam.found_way(all_starts(0), policy).mean()) for policy in by)
        return glance, told

    untaught = returned()
    learner.begin(0)
    agent.train()
    for step in range(learner.steps):
        learner.update({"drill": "rooms"}, step)
    glance, told = returned()
    assert max(untaught) < 0.2
    assert glance > 0.5
    assert told > 0.5
