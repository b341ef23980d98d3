"""Replanning: what is felt and believed, detours, "there is no plan", its lesson and its exam."""

from __future__ import annotations

from collections.abc import Mapping
from types import MethodType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from devmind import make_world
from devmind.acting import Actor
from devmind.agent.agent import Agent
from devmind.agent.rows import initial_carry
from devmind.config import RunConfig
from devmind.curriculum.examining import examination
from devmind.curriculum.stage import Context
from devmind.learners.gradient import GradientLearner
from devmind.testing import tiny_agent, tiny_context
from devmind.worlds import pointmaze
from devmind.worlds.pointmaze import BLOCKED, CELL, CLOSING, MAZES, MOVING, UNIT, PointMazeRules, maze, oracle_way
from stages.planning import parts
from stages.planning.parts import HORIZON, ROUTE, STRIDE, WALK
from stages.planning.places import CELL_SIDE, CELLS, WALKED, middles, square
from stages.planning.planner import (
    BELIEF,
    FADES,
    REPLANNING,
    SCALE,
    SIDES,
    Candidates,
    PlannerHead,
    Route,
    detour,
    interpolate_plan,
)
from stages.planning.replan import exam, lesson
from stages.planning.route import trips

pytest.importorskip("ogbench")
SEEDS = np.arange(1_000_000, 1_000_005)


@pytest.fixture(autouse=True)
def short_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long enough for any detour here, without much standing at a wall."""
    monkeypatch.setattr(pointmaze, "MAX_TICKS", 500)
    monkeypatch.setattr(exam, "TICKS", {"tiny": None})  # players walk to the end here, at size tiny too


@pytest.fixture
def agent() -> Agent:
    agent = tiny_agent()
    parts.admit(agent)
    return agent.eval()


def head_of(agent: Agent) -> PlannerHead:
    head: Any = agent.head(ROUTE)
    return head


def shortest(head: PlannerHead, read: Route, *args: Any, **options: Any) -> Candidates:
    """Plans of an agent that knows the maze as it was and nothing of what closed: a shortest path, cell by cell."""
    plans = []
    for place, goal, which in zip(read.place, read.goal, read.maze, strict=True):
        where = maze(MAZES[int(which.argmax())])
        cell, last = (where.cells(one.numpy() * UNIT) for one in (place, goal))
        steps, way = where.steps_to((int(last[0]), int(last[1]))), [place.numpy() * UNIT]
        while steps[tuple(cell)] > 0:
            around = [tuple(cell + step) for step in ((-1, 0), (0, -1), (1, 0), (0, 1))]
            cell = np.array(next(one for one in around if steps[one] == steps[tuple(cell)] - 1))
            way.append(where.centres(cell))
        points = np.stack([*way[:-1], goal.numpy() * UNIT]) if len(way) > 1 else np.stack([way[0], goal.numpy() * UNIT])
        far = np.concatenate(([0], np.cumsum(np.linalg.norm(np.diff(points, axis=0), axis=1))))
        at = np.minimum(0.19 * STRIDE * np.arange(HORIZON), far[-1])
        plans.append(np.stack([np.interp(at, far, points[:, k]) for k in (0, 1)], 1) / UNIT)
    plan = torch.from_numpy(np.stack(plans).astype(np.float32))[:, None]
    length = (plan[:, :, 1:] - plan[:, :, :-1]).norm(dim=-1).sum(-1)
    return Candidates(
        plan, torch.zeros(len(plan), 1, HORIZON, dtype=torch.int64), -length, torch.zeros(len(plan)).long()
    )


def straight(head: PlannerHead, here: Tensor, there: Tensor, maze: Tensor) -> Tensor:
    """The command of an agent that knows its own dynamics."""
    way = (there - here) / (STRIDE * WALKED)
    return way / way.norm(dim=-1, keepdim=True).clamp_min(1.0)


@pytest.fixture
def planner(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> Agent:
    """An agent with plans for the maze as it was, which knows where it can be and feels walls."""
    head = head_of(agent)
    for number, name in enumerate(MAZES[:3]):
        walls = maze(name).walls
        grid = torch.full((CELLS, CELLS), -1.0)
        grid[: walls.shape[0], : walls.shape[1]] = torch.from_numpy(np.where(walls, -1.0, 1.0)).float()
        head.space.weight.data.view(len(MAZES), -1)[number] = grid.flatten() / SCALE

    def stops(head: PlannerHead, pushed: Tensor, moved: Tensor, place: Tensor) -> Tensor:
        side = torch.tensor(SIDES, dtype=torch.float32)
        inside = place / CELL_SIDE - (place / CELL_SIDE).round()
        # It is pushed back, and stands before the middle of that side instead of its corner.
        against = (
            ((pushed - moved) @ side.T > 0.4) & ((inside @ side.T) > 0.2) & ((inside @ side.T.flip(1)).abs() < 0.3)
        )
        return torch.where(against, 9.0, 0.0)  # an agent that is not stopped learns nothing

    for name, own in (("search", shortest), ("inverse", straight), ("stops", stops)):
        monkeypatch.setattr(head, name, MethodType(own, head))
    return agent


def gone(agent: Agent, tmp_path, level: str, seeds: np.ndarray = SEEDS) -> exam.Outcome:
    actor = Actor(agent, len(seeds), effectors=[WALK])
    return exam.walk(actor, tiny_context(tmp_path), {level: seeds}, lambda: exam.says_no_plan(actor))[level]


@pytest.mark.slow
def test_the_planner_takes_a_detour_around_a_closed_door(planner: Agent, tmp_path) -> None:
    name = "medium"
    came = gone(planner, tmp_path, name + CLOSING)
    assert came.arrived.mean() >= 0.9
    assert not came.none[came.arrived].any()
    head = head_of(planner)
    for what in (BELIEF, REPLANNING):
        head.silenced = frozenset({what})
        assert gone(planner, tmp_path, name + CLOSING).arrived.mean() < 0.2, f"without {what}"


@pytest.mark.slow
def test_the_planner_follows_a_goal_that_moves(planner: Agent, tmp_path) -> None:
    assert gone(planner, tmp_path, "medium" + MOVING).arrived.mean() >= 0.9
    head_of(planner).silenced = frozenset({REPLANNING})
    assert gone(planner, tmp_path, "medium" + MOVING).arrived.mean() < 0.2


def test_the_planner_reports_a_blocked_maze_and_stays(planner: Agent, tmp_path) -> None:
    came = gone(planner, tmp_path, "medium" + BLOCKED)
    assert came.none.mean() >= 0.9
    assert not came.arrived.any()
    actor, context = Actor(planner, 4, effectors=[WALK]), tiny_context(tmp_path)
    exam.walk(actor, context, {"medium" + BLOCKED: SEEDS[:4]}, lambda: exam.says_no_plan(actor))
    kept = actor.state.carry[f"head.{ROUTE}"]
    assert (kept["told"][kept["none"]] == 0).all()
    assert (kept["failed"][kept["none"]] >= 2).all()


def test_the_ceiling_knows_what_changed(tmp_path) -> None:
    context = tiny_context(tmp_path)
    for what in (CLOSING, MOVING, BLOCKED):
        came = exam.knowing(context, "medium" + what, SEEDS)
        assert came.arrived.all() == (what != BLOCKED)
        assert came.none.all() == (what == BLOCKED)


def test_an_agent_led_to_shuffled_goals_does_not_arrive(tmp_path) -> None:
    def led(turn: int) -> exam.Outcome:
        def way(senses: Mapping[str, Any], first: np.ndarray) -> dict[str, np.ndarray]:
            goal = np.roll(senses["goal"], turn, axis=0)
            return {WALK: oracle_way("medium", senses["body"] * UNIT, goal * UNIT)}

        level = "medium" + MOVING
        return exam.walk(way, tiny_context(tmp_path), {level: SEEDS}, lambda: np.zeros(len(SEEDS), bool))[level]

    assert led(0).arrived.all()
    assert led(1).arrived.mean() < 0.5


@pytest.mark.slow
def test_an_agent_that_stands_still_is_cut_but_not_before_its_goal_moved(planner: Agent, tmp_path) -> None:
    head_of(planner).silenced, context = frozenset({REPLANNING}), tiny_context(tmp_path)
    rooms = {"medium" + what: SEEDS[:3] for what in (CLOSING, MOVING)}
    asked: list[list[np.ndarray]] = []

    def gone(fixed: bool) -> dict[str, exam.Outcome]:
        actor, ticks = Actor(planner, 6, effectors=[WALK]), []
        asked.append(ticks)

        def said() -> np.ndarray:
            ticks.append(actor.state.carry[f"head.{ROUTE}"]["last"].numpy())
            return exam.says_no_plan(actor)

        return exam.walk(actor, context, rooms, said, fixed=fixed)

    whole, cut = gone(False), gone(True)
    for name in rooms:
        np.testing.assert_array_equal(cut[name].arrived, whole[name].arrived)
    assert sum(map(len, asked[1])) < sum(map(len, asked[0]))
    tick = SimpleNamespace(
        tick=0, senses={"goal": np.zeros((2, 2))}, following={"goal": np.zeros((2, 2)), "body": np.eye(2)}
    )
    still = exam._still([True, False])
    assert still(tick).tolist() == [False, False], "nobody was seen to stand yet"
    tick.tick, tick.following = exam.STILL_TICKS, {"goal": np.zeros((2, 2)), "body": np.eye(2)}
    assert still(tick).tolist() == [False, True]
    tick.tick, tick.following = 2 * exam.STILL_TICKS, {"goal": np.ones((2, 2)), "body": np.eye(2)}
    assert still(tick).tolist() == [True, True]
    tick.tick, tick.following = 3 * exam.STILL_TICKS, {"goal": np.ones((2, 2)), "body": np.eye(2) + 1}
    assert not still(tick).any()


@pytest.mark.slow
def test_an_agent_that_reports_no_blocked_maze_is_cut_once_it_is_shut_off(planner: Agent, tmp_path) -> None:
    head_of(planner).silenced, context = frozenset({BELIEF}), tiny_context(tmp_path)
    rooms = {"medium" + what: SEEDS[:3] for what in (BLOCKED, MOVING)}

    def gone(believes: bool) -> tuple[dict[str, exam.Outcome], int]:
        actor, asked = Actor(planner, 6, effectors=[WALK]), list[int]()

        def said() -> np.ndarray:
            asked.append(actor.n)
            return exam.says_no_plan(actor)

        return exam.walk(actor, context, rooms, said, believes=believes), sum(asked)

    (whole, all_), (cut, fewer) = gone(True), gone(False)
    for name in rooms:
        np.testing.assert_array_equal(cut[name].arrived, whole[name].arrived)
        np.testing.assert_array_equal(cut[name].none, whole[name].none)
    assert whole["medium" + MOVING].arrived.any(), "who is not shut off walks on"
    assert fewer < 0.7 * all_
    world = context.make_world("pointmaze", "medium" + BLOCKED, SEEDS[:3])
    assert not exam._oracle_stays(world, "medium" + BLOCKED)[1].any(), "the door is open yet"


def test_floors_that_plan_anew_have_fewer_episodes_and_what_the_gate_decides_by_has_not(
    planner: Agent, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[bool, int, bool, bool]] = []

    def gone(agent: Agent, context: Any, n: int, *given: Any, fixed: bool = False, believes: bool = True) -> Any:
        asked.append((agent is planner, n, fixed, believes))
        sizes = {what: sum(map(len, exam._seeds(context, n, what).values())) for what in exam.HAPPENS}
        return {what: exam.Outcome(np.ones(size, bool), np.zeros(size, bool)) for what, size in sizes.items()}

    monkeypatch.setattr(exam, "_gone", gone)
    context = Context(RunConfig(size="nursery"), 0, "cpu", tmp_path, make_world)
    measures = exam.examine(planner, context).in_full()
    assert [len(one.values) for one in measures] == [200, 200, 400]
    assert asked == [
        (True, exam.EPISODES, False, True),
        (True, exam.FEW, True, True),
        (True, exam.FEWER, False, False),
        (False, exam.FEWER, False, True),
    ]
    assert exam.FEWER < exam.FEW < exam.EPISODES


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_exam_counts_reports_and_measures_the_floors(
    planner: Agent, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = tiny_context(tmp_path)
    monkeypatch.setattr(type(context), "episodes", lambda self, n: 6)
    with examination(planner):
        measures = {one.name: one for one in exam.examine(planner, context).in_full()}
    assert set(measures) == {exam.CLOSED, exam.MOVED, exam.NO_WAY}
    for one in measures.values():
        assert one.score >= 0.75
        assert one.score > one.floors[exam.OPEN_LOOP] + 0.3
    assert measures[exam.CLOSED].score > measures[exam.CLOSED].floors[exam.CLOCK] + 0.3
    assert measures[exam.NO_WAY].floors["always"] == 0.5
    assert measures[exam.CLOSED].floors[exam.UNTAUGHT] <= 0.5


def test_answers_are_right_only_for_their_own_maze() -> None:
    yes, no = np.ones(3, bool), np.zeros(3, bool)
    way, none = exam.Outcome(yes, no), exam.Outcome(no, yes)
    assert exam._right({CLOSING: way, BLOCKED: none}).all()
    assert exam._right({CLOSING: none, BLOCKED: none}).mean() == 0.5
    assert not exam._right({CLOSING: none, BLOCKED: way}).any()
    stands = exam.Outcome(no, no)
    assert exam._right({CLOSING: stands, BLOCKED: stands}).mean() == 0.5, "to stand still is no answer"


def test_a_plan_enters_cells_that_it_crosses_and_not_those_that_it_grazes(agent: Agent) -> None:
    head, side = head_of(agent), CELL_SIDE
    ends = torch.tensor([[[0.0, 0.0], [2 * side, 0.0]], [[0.0, 0.0], [0.52 * side, 0.0]], [[0.0, 0.0], [0.0, side]]])
    plans = interpolate_plan(ends, torch.linspace(0, 1, HORIZON).expand(3, -1))[None]
    cells = torch.zeros(1, CELLS**2, dtype=torch.bool)
    cells[0, square(torch.tensor([side, 0.0]))] = True
    which = torch.eye(len(MAZES))[:1]
    assert head.leads_into(plans, which, cells)[0].tolist() == [True, False, False]
    # A cell without any trip is no place for a plan either; of an unlearned maze nothing is known.
    head.space.weight.data[square(torch.tensor([0.0, side]))] = -1.0
    assert head.leads_into(plans, which, cells)[0].tolist() == [True, False, True]
    assert not head.leads_into(plans, torch.eye(len(MAZES))[1:2], torch.zeros_like(cells)).any()
    assert torch.equal(square(middles(torch.device("cpu"))), torch.arange(CELLS**2))


def test_in_the_goals_cell_it_goes_straight_when_all_plans_are_refused(agent: Agent, monkeypatch) -> None:
    head = head_of(agent)
    monkeypatch.setattr(head, "leads_into", lambda plans, *_: torch.ones(plans.shape[:2], dtype=torch.bool))
    at, goal = torch.tensor([[0.0, 0.0]]), torch.tensor([[0.1, -0.1]])
    read = head.thinking(at, goal, torch.eye(len(MAZES))[:1])
    read.advance(initial_carry(head.carry_spec, 1))
    plan = read.carry["plan"][0]
    torch.testing.assert_close(plan[[0, 1, -1]], torch.cat((at, goal, goal)))
    assert not read.carry["around"].any()


def test_a_stalled_agent_goes_to_the_middle_of_its_cell_or_in_the_goals_cell_to_the_goal(agent: Agent) -> None:
    head = head_of(agent)
    at, goal = torch.tensor([[0.1, 0.05]] * 2), torch.tensor([[-0.1, -0.15], [0.8, 0.0]])
    read = head.thinking(at, goal, torch.eye(len(MAZES))[[0, 0]])
    stalled = torch.full((2,), head.patience)
    plan = at[:, None].repeat(1, HORIZON, 1)
    kept = {"age": torch.ones(2, dtype=torch.int64), "stalled": stalled, "plan": plan, "goal": goal, "last": at}
    read.advance(initial_carry(head.carry_spec, 2) | kept)
    torch.testing.assert_close(read.carry["plan"][:, 1], torch.stack((goal[0], torch.zeros(2))))
    assert read.carry["around"].tolist() == [False, True]


def test_a_dead_end_with_few_trips_counts_as_a_place(agent: Agent) -> None:
    """`large` has one that trips visit 0.4 times as often as by chance."""
    head, n = head_of(agent), 5_000
    often, seldom = torch.zeros(2), torch.tensor([0.4, 0.0])
    few = (torch.arange(n) < 0.4 * n / CELLS**2)[:, None]
    of = {"been": torch.where(few, seldom, often), "maze": torch.eye(len(MAZES))[[1]].expand(n, -1)}
    of |= {name: torch.zeros(1, 2, 2) for name in ("pushed", "moved", "at")} | {"wall": torch.zeros(1, 2, 4)}
    learned = torch.optim.AdamW([head.space.weight], 1e-2)
    for _ in range(200):
        learned.zero_grad()
        head.belief_losses(of)["room"].backward()
        learned.step()
    room = head.room(of["maze"][:1])[0] > 0
    assert room.nonzero().flatten().tolist() == [int(square(one)) for one in (often, seldom)]


def test_no_plan_crosses_the_corner_between_two_shut_cells(agent: Agent) -> None:
    """From cell to cell over their common corner: free cells beside it, one of them closed, both."""
    head, side = head_of(agent), CELL_SIDE
    plan = interpolate_plan(torch.tensor([[[0.0, 0.0], [side, side]]]), torch.linspace(0, 1, HORIZON)[None])[None]
    cells, which = torch.zeros(1, CELLS**2, dtype=torch.bool), torch.eye(len(MAZES))[:1]
    assert not head.leads_into(plan, which, cells).any()
    cells[0, square(torch.tensor([side, 0.0]))] = True
    assert not head.leads_into(plan, which, cells).any(), "it only grazes that cell, and the other one is free"
    cells[0, square(torch.tensor([0.0, side]))] = True
    assert head.leads_into(plan, which, cells).all()
    # Slightly aside one of the two is grazed: the graze is ignored, but the corner is still detected.
    assert head.leads_into(plan + torch.tensor([0.04, -0.04]), which, cells).all()


def test_felt_evidence_fades_and_a_cell_found_closed_stays_closed(agent: Agent) -> None:
    head, place = head_of(agent), torch.tensor([[0.4, 0.4]])
    before = initial_carry(head.carry_spec, 1) | {"told": torch.tensor([[1.0, 0.0]]), "last": place}
    pushed, moved = head.felt(before, place + torch.tensor([[WALKED, 0.0]]), torch.ones(1, dtype=torch.bool))
    torch.testing.assert_close(pushed, torch.tensor([[1 - FADES, 0.0]]))
    torch.testing.assert_close(moved, pushed)
    none, _ = head.felt(before, place, torch.zeros(1, dtype=torch.bool))
    assert not none.any(), "in the first tick nothing was done yet"
    head.stops = lambda *felt: torch.tensor([[9.0, -9.0, -9.0, -9.0]])  # type: ignore[method-assign]
    which, evidence = torch.eye(len(MAZES))[:1], before["evidence"]
    ticks = 0
    while not head.closed(evidence, which).any():
        evidence, ticks = head.weighed(evidence, pushed, moved, place), ticks + 1
    assert ticks > 1, "one tick is no proof"
    found = int(square(torch.tensor([0.8, 0.4])))
    assert head.closed(evidence, which).nonzero().tolist() == [[0, found]]
    head.stops = lambda *felt: torch.zeros(1, 4)  # type: ignore[method-assign]
    assert head.closed(head.weighed(evidence, pushed, moved, torch.tensor([[2.0, 2.0]])), which)[0, found]
    assert not head.closed(head.weighed(evidence, pushed, moved, torch.tensor([[0.8, 0.4]])), which).any(), "one is in"
    for _ in range(100):
        evidence = head.weighed(evidence, pushed, moved, torch.tensor([[2.0, 2.0]]))
    assert not head.closed(evidence, which).any(), "what little was found is forgotten"
    evidence = torch.full_like(evidence, 99.0)
    head.space.weight.data.fill_(-1.0)
    assert not head.closed(evidence, which).any(), "that a wall is one is no news"


def test_walkers_feel_the_walls_of_the_maze(agent: Agent) -> None:
    data, rules = trips.make_trips("medium", 0, 4_000), PointMazeRules("medium")
    told = lesson.batch([data], rules, 32, np.random.default_rng(0))
    against = ((told["pushed"] - told["moved"]) @ torch.tensor(SIDES, dtype=torch.float32).T) > 0.5
    assert against.sum() > 20
    assert told["wall"][against].mean() > 0.85, "who is stopped stands before a wall, or at a corner"
    assert 0.2 < told["wall"].mean() < 0.8
    assert rules.maze.inside(told["been"].numpy() * UNIT).all()


@pytest.mark.slow
def test_a_short_lesson_tells_walls_by_feeling(agent: Agent) -> None:
    data, rules = [trips.make_trips("medium", 0, 4_000)], PointMazeRules("medium")
    trains = ("heads.route.space", "heads.route.stopped", "heads.route.counts")
    learner = GradientLearner(agent, lesson.loss, seed=0, learning_rate=1e-2, trains=trains)
    learner.steps = 120
    learner.begin(0)
    for update in range(120):
        learner.update(lesson.batch(data, rules, 24, np.random.default_rng(update)), update)
    learner.end()
    head, walls = head_of(agent), rules.maze.walls
    with torch.no_grad():
        new = lesson.batch(data, rules, 64, np.random.default_rng(10**6))
        told = head.stops(new["pushed"], new["moved"], new["at"])
        which = torch.eye(len(MAZES))[[MAZES.index("medium")]]
        room = head.room(which).view(CELLS, -1)[: walls.shape[0], : walls.shape[1]]
    stopped = ((new["pushed"] - new["moved"]) @ torch.tensor(SIDES, dtype=torch.float32).T) > 0.5
    assert told[stopped].mean() > told[~stopped].mean() + 1.0
    assert ((room > 0).numpy() == ~walls).mean() > 0.9


def test_plans_between_neighbouring_places_are_drawn_once_for_all_detours(
    planner: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    head, asked = head_of(planner), list[int]()
    monkeypatch.setattr(head, "search", lambda read, **_: asked.append(len(read.place)) or shortest(head, read))
    cells = torch.from_numpy(maze("medium").centres(maze("medium").free) / UNIT).float()
    places, which = cells[[0, 3, 9]], torch.eye(len(MAZES))[[MAZES.index("medium")]]
    closed = torch.zeros(CELLS**2, dtype=torch.bool)

    def ways(number: int) -> list[list[Any]]:
        found = [detour(head, head.thinking(one[None], cells[-1:], which), closed, number) for one in places]
        return [[part.tolist() for part in way] for way in found if way is not None]

    first = ways(5)
    assert len(first) == len(places)
    assert len(asked) == len(places) + 1
    assert ways(5) == first
    assert len(asked) == 2 * len(places) + 1, "neighbours' were known, each one's own are drawn anew"
    ways(6)
    assert len(asked) == 3 * len(places) + 2, "another number is other noise"
    with torch.no_grad():
        head.sound[-1].weight += 1.0
    ways(5)
    assert len(asked) == 4 * len(places) + 3, "who has learned draws other plans"


def test_a_goal_in_the_neighbouring_cell_is_planned_without_a_detour(planner: Agent, tmp_path) -> None:
    actor = Actor(planner, 2, effectors=[WALK])
    rules = PointMazeRules("medium")
    senses: Mapping[str, Any] = rules.observe(rules.between(np.zeros((2, 2)), np.array([[CELL, 0.0], [0.0, CELL]])))
    actor(senses, np.ones(2, bool))
    kept = actor.state.carry[f"head.{ROUTE}"]
    assert not kept["around"].any()
    assert not kept["none"].any()
