"""PointMaze as Rules equals OGBench's environment and keeps the laws of worlds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from devmind import make_world
from devmind.acting import returns
from devmind.errors import WorldError
from devmind.testing import check_world
from devmind.worlds import pointmaze
from devmind.worlds.pointmaze import (
    BLOCKED,
    CELL,
    CLOSING,
    MAZES,
    MOVING,
    RADIUS,
    UNIT,
    PointMazeRules,
    Walk,
    maze,
    oracle_way,
)

pytest.importorskip("ogbench")


def test_pointmaze_keeps_the_laws_of_worlds() -> None:
    check_world(PointMazeRules("medium"))


def test_steps_equal_those_of_ogbench() -> None:
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
def test_walls_tasks_and_shortest_paths_equal_those_of_ogbench(name: str) -> None:
    from ogbench.locomaze.maze import make_maze_env

    env, where = make_maze_env("point", "maze", maze_type=name), maze(name)
    for cell in where.free[:: max(1, len(where.free) // 6)]:
        np.testing.assert_allclose(where.centres(cell), env.ij_to_xy(cell))
        assert tuple(where.cells(where.centres(cell) + 1.9)) == env.xy_to_ij(where.centres(cell) + 1.9)
        _, steps = env.get_oracle_subgoal(where.centres(where.free[0]), where.centres(cell))
        np.testing.assert_array_equal(where.steps_to(tuple(cell)), steps)


def test_making_a_maze_leaves_no_temporary_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    pointmaze.maze.__wrapped__("arena")
    assert not list(tmp_path.iterdir())


def test_the_oracle_arrives_and_a_straight_walker_does_not() -> None:
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
def test_an_unreachable_goal_is_refused(goal: tuple[float, float], says: str) -> None:
    rules = PointMazeRules("medium")
    where = np.array([goal])
    if says == "inside a wall" and goal[0] < 100:
        where = rules.maze.centres(np.argwhere(rules.maze.walls)[10:11])
    with pytest.raises(WorldError, match=says):
        rules.between(np.zeros((1, 2)), where)


def test_an_unknown_maze_and_a_missing_package_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WorldError, match="did you mean 'medium'"):
        PointMazeRules("mediun")
    monkeypatch.setattr(pointmaze, "ogbench_installed", lambda: False)
    maze.cache_clear()
    with pytest.raises(WorldError, match=r"devmind\[worlds\]"):
        maze("giant")


@pytest.mark.parametrize("what", [CLOSING, BLOCKED, MOVING])
def test_changing_mazes_keep_the_laws_of_worlds(what: str) -> None:
    check_world(PointMazeRules("medium" + what))


def led(level: str, seeds: np.ndarray, ticks: int, knows: bool) -> tuple[PointMazeRules, list[Walk], np.ndarray]:
    """The states on the path of an oracle that knows of shut doors or does not, and which rows arrived."""
    rules, came = PointMazeRules(level), np.zeros(len(seeds), bool)
    states = [rules.initial(seeds)]
    for _ in range(ticks):
        now = states[-1]
        doors = [
            tuple(map(int, cell)) if shut and knows else None for cell, shut in zip(now.door, now.shut, strict=True)
        ]
        states.append(rules.step(now, {"walk": oracle_way(rules.maze_name, now.at, now.goal, doors)}))
        came |= rules.outcome(states[-1]).reward > 0
    return rules, states, came


@pytest.mark.parametrize("name", ["medium", "large"])
def test_a_door_closes_before_the_fastest_walker_and_stays_a_wall(name: str) -> None:
    seeds = np.arange(30)
    rules, states, came = led(name + CLOSING, seeds, 450, knows=True)
    assert came.all(), "who knows of it goes round it"
    door = rules.maze.centres(states[0].door)
    for now in states:
        by = np.abs(now.at - door).max(1)
        assert (by[now.shut] > CELL / 2 + RADIUS - 0.05).all(), "nobody is inside"
    assert states[-1].shut.all()
    first = np.array([int(np.argmax([now.shut[row] for now in states])) for row in range(len(seeds))])
    np.testing.assert_array_equal(first, states[0].when)  # nobody stood in it
    assert (first > 5).all()
    _, _, unaware = led(name + CLOSING, seeds, 450, knows=False)
    assert not unaware.any(), "all shortest ways lead through it"


def test_a_blocked_maze_leaves_no_path() -> None:
    rules, states, came = led("large" + BLOCKED, np.arange(20), 10, knows=True)
    assert not came.any()
    start = states[0]
    for at, goal, door in zip(start.at, start.goal, start.door, strict=True):
        here, there, cell = (tuple(map(int, one)) for one in (rules.maze.cells(at), rules.maze.cells(goal), door))
        assert rules.maze.steps_to(there)[here] >= 4
        assert rules.maze.steps_to(there, without=cell)[here] == -1
        np.testing.assert_array_equal(oracle_way("large", at[None], goal[None], [cell]), np.zeros((1, 2)))


def test_a_goal_moves_once_and_is_observed_at_its_new_place() -> None:
    rules, states, came = led("medium" + MOVING, np.arange(20), 400, knows=True)
    assert came.all()
    first, last = states[0], states[-1]
    assert (np.linalg.norm(first.goal - last.goal, axis=1) > CELL).all()
    moved = np.array([[(now.goal[row] != first.goal[row]).any() for now in states] for row in range(20)])
    np.testing.assert_array_equal(moved.argmax(1), first.when)
    np.testing.assert_allclose(rules.observe(last)["goal"] * UNIT, first.next_goal, atol=1e-5)
    assert not last.shut.any()


def test_a_closed_cell_stops_a_point_as_a_wall_does() -> None:
    """A point that runs into a closed passage rests where it would at one of OGBench's walls."""
    rules = PointMazeRules("medium")
    state = rules.between(np.zeros((2, 2)), np.array([[4.0, 4.0]] * 2))
    state.door[:], state.shut[:] = (1, 2), (False, True)  # the cell around (4, 0)
    for _ in range(40):
        state = rules.step(state, {"walk": np.tile([1.0, 0.0], (2, 1))})
    at_a_wall = rules.between(np.array([[4.0, 0.0]]), np.array([[4.0, 4.0]]))
    for _ in range(40):
        at_a_wall = rules.step(at_a_wall, {"walk": np.array([[1.0, 0.0]])})
    assert state.at[0, 0] > 4.0
    assert state.at[1, 0] == pytest.approx(at_a_wall.at[0, 0] - CELL, abs=1e-6)
