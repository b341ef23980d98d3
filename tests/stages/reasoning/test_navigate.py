"""Paths on grids, the kept map, missions, the reading of a view, and walks through whole rooms."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import networkx
import numpy as np
import pytest

from devmind.acting import Senses
from devmind.agent.agent import Agent
from devmind.algorithms.grid import (
    CLASSES,
    DONE,
    FLOOR,
    FORWARD,
    GOAL,
    LEFT,
    LOCKED,
    RIGHT,
    UNSEEN,
    WALL,
    Map,
    describe_cell,
    door,
    lit,
    move_pose,
    shortest,
    thing,
    truth,
    ways,
)
from devmind.curriculum.exam import Measure
from devmind.errors import DevmindError, WorldError
from devmind.seeding import exam_seeds, lesson_seeds, numpy_rng
from devmind.testing import tiny_context
from devmind.worlds.minigrid import glances
from stages.reasoning import parts
from stages.reasoning.navigate import exam, lesson
from stages.reasoning.navigate.cells import by_head, by_planes
from stages.reasoning.navigate.drawing import HEADINGS, draw_map
from stages.reasoning.navigate.missions import parse_mission
from stages.reasoning.navigate.navigator import REACHED, UNREACHABLE, Navigator, Traveller
from stages.reasoning.navigate.rooms import mission_rooms


def costs(rng: np.random.Generator) -> np.ndarray:
    found = rng.choice([0, 1, 1, 1, 2], (7, 8))
    found[3, 3] = 1
    return found


def as_graph(cost: np.ndarray) -> networkx.DiGraph:
    """The same grid for NetworkX, pose by pose."""
    graph = networkx.DiGraph()
    for row, column in np.ndindex(*cost.shape):
        for heading in range(4):
            for move in (LEFT, RIGHT, FORWARD):
                there = move_pose((row, column, heading), move)
                inside = 0 <= there[0] < cost.shape[0] and 0 <= there[1] < cost.shape[1]
                if move != FORWARD or (inside and cost[there[:2]]):
                    price = int(cost[there[:2]]) if move == FORWARD else 1
                    graph.add_edge((row, column, heading), there, weight=price)
    return graph


@pytest.mark.parametrize("seed", range(6))
def test_path_costs_equal_networkx(seed: int) -> None:
    cost, start = costs(numpy_rng("grid", seed)), (3, 3, seed % 4)
    known = networkx.single_source_dijkstra_path_length(as_graph(cost), start)
    found = ways(cost, start)
    assert {tuple(pose): price for pose, price in zip(found.poses.tolist(), found.costs.tolist(), strict=True)} == known
    for goal in [(0, 0, 1), (6, 7, 2), (3, 3, 0)]:
        moves = shortest(cost, start, [goal])
        assert (moves is None) == (goal not in known)
        if moves is not None:
            assert paid(cost, start, moves) == (goal, known[goal])
    which = len(found.poses) - 1
    assert paid(cost, start, found.to(which)) == (tuple(found.poses[which].tolist()), found.costs[which])


def paid(cost: np.ndarray, pose: tuple[int, int, int], moves: list[int]) -> tuple[tuple[int, int, int], int]:
    spent = 0
    for move in moves:
        pose = move_pose(pose, move)
        spent += int(cost[pose[:2]]) if move == FORWARD else 1
    return pose, spent


def test_a_start_off_the_grid_is_refused() -> None:
    with pytest.raises(ValueError, match="a start on them"):
        ways(np.ones((3, 3), int), (3, 0, 0))


def test_shadows_equal_minigrids() -> None:
    """MiniGrid shows exactly the lit part of a room."""
    boards = glances((lesson.FOUR_ROOMS, exam.KEY_CORRIDOR), lesson_seeds(6, 0, "shadows"), 8, numpy_rng("shadows"))
    cells = truth(boards)
    opaque = (cells == WALL) | np.isin(cells, [door(colour, state) for colour in range(6) for state in (1, 2)])
    seen = lit(np.where(opaque, 0.0, 1.0)) > 0
    known = cells != UNSEEN
    known[:, -1, 3] = True
    assert np.array_equal(seen & known, known), "all that is seen is lit"
    assert (seen & ~known).mean() < 0.25, "what is not seen is lit only through cells that are not seen either"


def test_every_class_occurs_and_has_words() -> None:
    boards = glances(lesson.ROOMS, lesson_seeds(60, 0, "classes"), 16, numpy_rng("classes"))
    assert set(np.unique(truth(boards)).tolist()) == set(range(CLASSES))
    assert len({describe_cell(one) for one in range(CLASSES)}) == CLASSES
    assert describe_cell(door(0, LOCKED)) == "locked red door"


@pytest.mark.parametrize(
    ("words", "wanted", "picked_up"),
    [
        ("reach the goal", {GOAL}, False),
        ("get the purple key from the grey room, unlock the purple door and go to the goal", {GOAL}, False),
        ("use the key to open the door and then get to the goal", {GOAL}, False),
        ("pick up the green ball", {thing("ball", 1)}, True),
        ("Pick up a box.", {thing("box", colour) for colour in range(6)}, True),
    ],
)
def test_missions_are_understood(words: str, wanted: set[int], picked_up: bool) -> None:
    found = parse_mission(words)
    assert (set(found.targets), found.picked_up) == (wanted, picked_up)


@pytest.mark.parametrize("words", ["", "put the red ball next to the blue box", "reach the pub"])
def test_an_unknown_mission_is_refused_with_an_example(words: str) -> None:
    with pytest.raises(WorldError, match="Expected a mission such as"):
        parse_mission(words)


def test_a_step_without_effect_is_noticed() -> None:
    """A wall was read as floor: the view stays the same, so the agent did not move."""
    here, view = Map(), np.full((7, 7), FLOOR)
    view[:, 0] = WALL
    view[2, 5] = GOAL
    here.take_in(view, None)
    pose = here.pose
    here.take_in(view, FORWARD)
    assert here.pose == pose
    assert here.slips == 1
    here.take_in(np.concatenate((np.full((1, 7), FLOOR), view[:-1])), FORWARD)
    assert here.pose == move_pose(pose, FORWARD)


def test_a_room_without_a_path_is_reported_as_unreachable() -> None:
    view = np.full((7, 7), WALL)
    view[-1, 3] = FLOOR
    walker, one = Navigator(lambda senses: view[None]), Traveller(mission=parse_mission("reach the goal"))
    walker.rows = [one]
    for _ in range(6):
        walker({"board": np.zeros((1, 13, 7, 7))}, np.array([False]))
    assert one.state == UNREACHABLE
    assert sum(line.count(sign) for line in draw_map(one.map) for sign in HEADINGS) == 1


def test_after_one_mission_another_is_taken_up() -> None:
    view, board = np.full((7, 7), FLOOR), np.zeros((1, 13, 7, 7))
    walker = Navigator(lambda senses: view[None])
    walker({"board": board, "words": ["reach the goal"]}, np.array([True]))
    walker.rows[0].state, walker.rows[0].action = REACHED, DONE
    assert walker({"board": board, "words": [""]}, np.array([False]))["choose"] == [DONE]
    assert walker({"board": board, "words": ["pick up the green ball"]}, np.array([False]))["choose"] != [DONE]


@pytest.mark.parametrize("kind", [lesson.FOUR_ROOMS, exam.KEY_CORRIDOR, "MiniGrid-LockedRoom-v0"])
def test_rooms_are_completed_with_perfect_perception(kind: str) -> None:
    done = exam.walk_rooms(kind, lesson_seeds(6, 0, "walks", kind), Navigator(by_planes))
    assert done.reached.all()
    blind = exam.walk_rooms(kind, lesson_seeds(2, 0, "walks", kind), Navigator(exam.blind))
    assert not blind.reached.any()


def test_readings_shuffled_among_rooms_lead_nowhere() -> None:
    def of_the_next(senses: Senses) -> np.ndarray:
        return np.roll(by_planes(senses), 1, axis=0)

    done = exam.walk_rooms(lesson.FOUR_ROOMS, lesson_seeds(8, 0, "shuffled"), Navigator(of_the_next))
    assert done.reached.mean() <= 0.25


def test_the_map_equals_the_room() -> None:
    """Everything on it stands in MiniGrid's own grid, rotated by the agent's first heading."""
    rooms = mission_rooms((exam.KEY_CORRIDOR,), lesson_seeds(1, 0, "map"))
    walker, env = Navigator(by_planes), rooms.worlds[0].env.unwrapped
    for tick in range(12):
        senses = rooms.observe()
        actions = walker(senses, np.array([tick == 0]))
        (one,) = walker.rows
        row, column, heading = one.map.pose
        turns = (env.agent_dir - heading) % 4
        for place in np.argwhere(one.map.cells != UNSEEN).tolist():
            down, along = place[0] - row, place[1] - column
            for _ in range(turns):
                down, along = along, -down
            cell = env.grid.get(env.agent_pos[0] + along, env.agent_pos[1] + down)
            kind = "floor" if cell is None else cell.type
            assert describe_cell(int(one.map.cells[tuple(place)])).endswith(kind)
        rooms.step(actions)
    assert (one.map.cells != UNSEEN).sum() > 20


def of_an_untaught_agent(found: Mapping[str, Measure]) -> None:
    measures = list(found.values())
    assert [measure.name for measure in measures] == [
        "navigate/four rooms", "navigate/four rooms steps", "navigate/key corridor", "navigate/key corridor steps",
    ]  # fmt: skip
    assert measures[0].values.mean() < 0.2, "an untaught agent"
    assert measures[0].floors[exam.TABLE] == 1.0
    assert measures[0].rows["board off"] == 0.0
    assert measures[0].episodes is not None
    shown = exam.lesson_episodes(tiny_context(Path("nothing is written")), 40)
    assert set(measures[0].episodes.tolist()).isdisjoint(shown.tolist())


def test_the_nearest_frontier_is_no_shorter() -> None:
    seeds = exam_seeds(12, 0, "steps")
    slow = exam.walk_rooms(exam.KEY_CORRIDOR, seeds, Navigator(by_planes))
    rule = exam.walk_rooms(exam.KEY_CORRIDOR, seeds, Navigator(by_planes, patience=exam.NEAREST))
    assert rule.steps.mean() >= slow.steps.mean() - 2


@pytest.mark.slow
def test_cells_are_learned_and_rooms_walked_by_them(agent: Agent, tmp_path: Path) -> None:
    context = tiny_context(tmp_path)
    learner = lesson.lesson(context).make_learner(agent, context)
    learner.steps = 400
    learner.begin(0)
    agent.train()
    for step in range(learner.steps):
        learner.update(lesson.make(agent, context, step, 96), step)
    agent.eval()
    board = glances(lesson.ROOMS, exam_seeds(6, 0, "views"), 16, numpy_rng("views"))
    assert (by_head(agent, parts.CELLS)({"board": board}) == truth(board)).mean() > 0.95
    assert exam.walk_rooms(lesson.FOUR_ROOMS, exam_seeds(12, 0, "taught"), exam.navigator(agent)).reached.mean() > 0.9


def test_an_unknown_room_is_refused_by_name() -> None:
    with pytest.raises(DevmindError, match="no environment 'MiniGrid-FourRoom-v0'"):
        mission_rooms(("MiniGrid-FourRoom-v0",), np.array([0]))


def test_a_walk_may_end_before_its_room() -> None:
    seeds = lesson_seeds(4, 0, "walks", exam.KEY_CORRIDOR)
    whole = exam.walk_rooms(exam.KEY_CORRIDOR, seeds, Navigator(by_planes))
    some = int(np.median(whole.steps))
    cut = exam.walk_rooms(exam.KEY_CORRIDOR, seeds, Navigator(by_planes), some)
    assert cut.reached.tolist() == (whole.steps <= some).tolist()
    assert 0 < cut.reached.mean() < 1
