"""PointMaze as Rules goes as OGBench's environment does, and keeps the laws of worlds."""

from __future__ import annotations

import numpy as np
import pytest

from devmind import make_world
from devmind.acting import returns
from devmind.errors import WorldError
from devmind.testing import check_world
from devmind.worlds import pointmaze
from devmind.worlds.pointmaze import MAZES, UNIT, PointMazeRules, maze, oracle_way

pytest.importorskip("ogbench")


def test_it_keeps_the_laws_of_worlds() -> None:
    check_world(PointMazeRules("medium"))


def test_steps_are_those_of_ogbench() -> None:
    import gymnasium
    import ogbench  # noqa: F401 - it registers its environments

    env, rules, rng = (
        gymnasium.make("pointmaze-medium-v0").unwrapped,
        PointMazeRules("medium"),
        np.random.default_rng(0),
    )
    env.reset(seed=0)
    env.set_xy((0.0, 0.0))
    state = rules.between(np.zeros((1, 2)), np.array([[20.0, 20.0]]))
    bumped = 0
    for way in np.clip(np.repeat(rng.uniform(-2, 2, (30, 2)), 20, 0), -1, 1):
        before, state = state.at[0], rules.step(state, {"walk": way[None]})
        env.step(way)
        np.testing.assert_allclose(state.at[0], env.get_xy(), atol=1e-9)
        bumped += bool(np.abs(state.at[0] - before - 0.2 * way).max() > 1e-6)
    assert bumped > 50  # walls were met, not only open floor


@pytest.mark.parametrize("name", MAZES)
def test_walls_tasks_and_shortest_ways_are_those_of_ogbench(name: str) -> None:
    from ogbench.locomaze.maze import make_maze_env

    env, where = make_maze_env("point", "maze", maze_type=name), maze(name)
    for cell in where.free[:: max(1, len(where.free) // 6)]:
        np.testing.assert_allclose(where.centres(cell), env.ij_to_xy(cell))
        assert tuple(where.cells(where.centres(cell) + 1.9)) == env.xy_to_ij(where.centres(cell) + 1.9)
        _, steps = env.get_oracle_subgoal(where.centres(where.free[0]), where.centres(cell))
        np.testing.assert_array_equal(where.steps_to(tuple(cell)), steps)


def test_the_oracle_arrives_and_who_walks_straight_does_not() -> None:
    seeds = np.arange(20)

    def oracle(senses, first):
        return {"walk": oracle_way("medium", senses["body"] * UNIT, senses["goal"] * UNIT)}

    assert returns(oracle, make_world("pointmaze", "medium-tasks", seeds)).mean() == 1.0
    straight = returns(lambda s, first: {"walk": s["goal"] - s["body"]}, make_world("pointmaze", "medium-tasks", seeds))
    assert straight.mean() < 0.5


def test_the_tasks_come_in_turn() -> None:
    rules = PointMazeRules("large-tasks")
    state = rules.initial(np.arange(10))
    cells = rules.maze.cells(state.goal)
    np.testing.assert_array_equal(cells, [task[1] for task in rules.maze.tasks] * 2)
    assert len(np.unique(state.goal, axis=0)) == 10  # of one task, each goal is drawn anew


@pytest.mark.parametrize(
    ("goal", "says"), [((4.0, 8.2), "inside a wall"), ((400.0, 0.0), "inside a wall"), ((np.nan, 0.0), "finite")]
)
def test_a_goal_that_is_no_place_is_refused(goal: tuple[float, float], says: str) -> None:
    rules = PointMazeRules("medium")
    where = np.array([goal])
    if says == "inside a wall" and goal[0] < 100:
        where = rules.maze.centres(np.argwhere(rules.maze.walls)[10:11])
    with pytest.raises(WorldError, match=says):
        rules.between(np.zeros((1, 2)), where)


def test_what_is_missing_or_unknown_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WorldError, match="did you mean 'medium'"):
        PointMazeRules("mediun")
    monkeypatch.setattr(pointmaze, "installed", lambda: False)
    maze.cache_clear()
    with pytest.raises(WorldError, match=r"devmind\[worlds\]"):
        maze("giant")
