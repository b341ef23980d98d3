"""Failed attempts in hindsight: the same actions lead from the renamed state to the goal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from devmind.agent.agent import Agent
from devmind.config import validate
from devmind.curriculum.stage import Context
from devmind.errors import ConfigError
from devmind.testing import tiny_context
from stages.reasoning.hindsight import Attempts, attempt, lights_renamed, pieces, put_among, tiles_renamed
from stages.reasoning.puzzles import lesson as lights
from stages.reasoning.puzzles.algebra import Algebra
from stages.reasoning.sliding import lesson as sliding
from stages.reasoning.sliding.lesson import perimeter, rules


def by_chance(rng: np.random.Generator, side: int, n: int = 40, most: int = 12) -> Attempts:
    """Random walks over tiles."""
    tiles, _ = rules(side).mixed(np.full(n, 25), rng)
    guide = lambda states: rng.random((len(states), 4))  # noqa: E731
    return attempt(tiles, rules(side).slid, rules(side).solved, guide, most, rng)


def led(states: np.ndarray, actions: list[np.ndarray], step) -> np.ndarray:
    """The end of each state [M, cells] after its own actions."""
    ends = []
    for state, own in zip(states, actions, strict=True):
        for action in own:
            state = step(state[None], np.array([action]))[0]
        ends.append(state)
    return np.array(ends)


@pytest.mark.parametrize("side", [3, 4])
def test_a_renamed_board_reaches_the_goal_by_the_same_moves(side: int) -> None:
    tried = by_chance(np.random.default_rng(side), side)
    tiles, which, first, last = pieces(tried, tiles_renamed)
    own = [tried.actions[a:b, n] for n, a, b in zip(which, first, last, strict=True)]
    assert len(tiles) > 50
    assert rules(side).solved(led(tiles, own, rules(side).slid)).all()
    assert {len(moves) for moves in own} >= {2, 4, 6}
    assert (np.sort(tiles, axis=1) == np.arange(side**2)).all()
    assert tried.failed[which].all()


def test_a_board_that_ends_with_the_free_place_elsewhere_is_omitted() -> None:
    end = np.array([[1, 2, 3, 4, 5, 6, 7, 0, 8], [2, 1, 3, 4, 5, 6, 8, 7, 0]], np.int8)
    renamed, able = tiles_renamed(end, end)
    assert able.tolist() == [False, True]
    assert renamed[1].tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 0]
    tried = by_chance(np.random.default_rng(0), 3)
    _, which, _, last = pieces(tried, tiles_renamed)
    assert (tried.states[last, which, -1] == 0).all()


def test_the_difference_of_two_light_patterns_goes_out_by_the_same_presses() -> None:
    rng = np.random.default_rng(0)
    lit = rng.integers(0, 2, (20, 25)).astype(np.int8)
    tried = attempt(lit, lights.press_lights, lights.out, lambda states: rng.random(states.shape), 6, rng)
    renamed, which, first, last = pieces(tried, lights_renamed)
    assert len(renamed) == 20 * 21, "every piece of every attempt, from patterns too that have no way out"
    own = [tried.actions[a:b, n] for n, a, b in zip(which, first, last, strict=True)]
    assert not led(renamed, own, lights.press_lights).any()
    assert Algebra.of(5).solvable(renamed).all()
    assert not Algebra.of(5).solvable(lit).all()


def test_an_attempt_follows_the_guide_and_never_returns() -> None:
    tiles, fewest = perimeter(3).tiles[1:200], perimeter(3).fewest[1:200]

    def exact(states: np.ndarray) -> np.ndarray:
        reached = rules(3).slid(np.repeat(states, 4, 0), np.tile(np.arange(4), len(states)))
        return 1.0 + perimeter(3).distance(reached).reshape(-1, 4)

    most = int(fewest.max())
    step, solved = rules(3).slid, rules(3).solved
    right = attempt(tiles, step, solved, exact, most, np.random.default_rng(0), stray=0.0)
    assert not right.failed.any()
    assert all(solved(right.states[k, n][None])[0] for n, k in enumerate(fewest))
    assert len(pieces(right, tiles_renamed)[0]) == 0, "who comes to the goal has nothing to be told again"
    astray = attempt(tiles[50:], step, solved, lambda states: -exact(states), most, np.random.default_rng(0), stray=0.0)
    assert astray.failed.all()
    for n in range(astray.states.shape[1]):
        assert len(np.unique(astray.states[:, n], axis=0)) == most + 1


def test_bounds_in_hindsight_are_never_too_low(agent: Agent) -> None:
    rng = np.random.default_rng(3)
    tiles, bound = sliding.in_hindsight(agent, 3, 200, 60, rng)
    reached = rules(3).slid(np.repeat(tiles, 4, 0), np.tile(np.arange(4), len(tiles)))
    exact = 1 + perimeter(3).distance(reached).reshape(-1, 4)
    assert len(tiles) > 100
    assert (bound >= exact).all()
    assert (bound == exact).any(1).mean() > 0.1
    lit, presses = lights.in_hindsight(agent, 100, rng)
    assert len(lit) == 100
    assert not lights.RULES.pressed(lit, presses).any()
    assert 1 <= presses.sum(1).min() <= presses.sum(1).max() <= lights.MOST
    assert not lights.for_exams(lit).any()
    assert not lights.for_exams(tiles).any()


def test_the_configured_share_of_boards_is_used_and_none_by_default(agent: Agent, tmp_path: Path) -> None:
    context = tiny_context(tmp_path)
    for name, module, batch in (
        ("sliding", sliding, sliding.make(agent, context, 0, 8, 40)),
        ("puzzles", lights, lights.make(agent, context, 0, 8)),
    ):
        views = {}
        for share in (0.0, 0.25):
            learner = module.lesson(told(context, name, share)).make_learner(agent, context)
            learner.steps = 40
            views[share] = np.concatenate([one["senses"]["puzzle"].numpy() for one in learner.views(batch, 0)])
            again = np.concatenate([one["senses"]["puzzle"].numpy() for one in learner.views(batch, 0)])
            assert (views[share] == again).all(), "the batches of a step are the same when it begins anew"
        same = (views[0.0] == views[0.25]).reshape(len(views[0.0]), -1).all(1)
        assert 0.7 < same.mean() < 0.8
        by_default = module.lesson(context).make_learner(agent, context)
        assert by_default.hindsight == 0.0
    with pytest.raises(ConfigError, match="is from 0 to 1; got"):
        sliding.lesson(told(context, "sliding", 1.5))


def told(context: Context, lesson: str, share: float) -> Context:
    """The context of a run with this configuration."""
    config = validate({"size": "tiny", "lessons": {lesson: {"options": {"hindsight": share}}}})
    return replace(context, config=config)


def test_rows_are_mixed_in_evenly() -> None:
    told = np.arange(8)
    assert put_among(told, np.array([-1, -2])).tolist() == [-1, 1, 2, 3, -2, 5, 6, 7]
    assert put_among(told, np.zeros(0, int)).tolist() == told.tolist() == list(range(8))
    assert put_among(told, -told).tolist() == (-told).tolist()
