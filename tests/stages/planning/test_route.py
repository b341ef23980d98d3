"""What route learns from, how it is judged, and the laws of the stage."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from devmind.acting import Policy
from devmind.testing import tiny_agent, tiny_context
from devmind.worlds.pointmaze import UNIT, maze
from stages.planning.parts import HORIZON, ROUTE, STRIDE
from stages.planning.planner import Candidates, Route
from stages.planning.route import exam, trips
from stages.planning.route.shortest import shortest
from stages.planning.stage import PlanningStage

pytest.importorskip("ogbench")
TICKS = 4_000


@pytest.fixture(scope="module")
def data() -> trips.Trips:
    return trips.make_trips("medium", 0, TICKS)


def test_trips_reach_their_goals_within_the_given_ticks(data: trips.Trips) -> None:
    assert data.made <= TICKS * 2  # the first round is always made
    assert len(trips.make_trips("medium", 1, 12_000)) > len(data)
    assert trips.make_trips("medium", 1, 12_000).made <= 12_000
    last = data.at[data.begin[1:] - 1]
    assert np.linalg.norm((last - data.goal) * UNIT, axis=1).max() <= 1.0 + 1e-4
    assert data.made == len(data.at) - len(data)
    step = np.linalg.norm(np.diff(data.at[: data.begin[1]], axis=0) * UNIT, axis=1)
    assert step.max() <= 0.2 * np.sqrt(2) + 1e-4


def test_joined_trips_lead_where_no_single_trip_went_without_the_walls(data: trips.Trips) -> None:
    ways = trips.join_trips(data, 64, np.random.default_rng(1))
    where, at = maze("medium"), ways.at * UNIT
    begins, ends = at[ways.begin[:-1]], ways.goal * UNIT
    step = np.linalg.norm(np.diff(at, axis=0), axis=1)
    assert np.delete(step, ways.begin[1:-1] - 1).max() <= 10 * trips.NEAR + 1e-4
    assert where.inside(at).all()
    gone = {tuple(np.concatenate(one)) for one in where.cells(np.stack((at_ends(data), data.goal * UNIT), 1)).tolist()}
    new = [tuple(np.concatenate(one)) not in gone for one in where.cells(np.stack((begins, ends), 1)).tolist()]
    assert np.mean(new) > 0.5
    walked = np.array([step[a : b - 1].sum() for a, b in pairwise(ways.begin)])
    assert np.median(walked / np.maximum(shortest("medium", begins, ends), 1e-6)) < 1.6


def test_moves_omit_loops_and_cut_corners() -> None:
    east, south, west = 1, 2, 3

    def made(*cells: tuple[int, int]) -> list[int]:
        return [int(word) for word in trips.moves(np.array(cells), 5) if word]

    assert made((1, 1), (1, 2), (2, 2)) == [east, south]
    assert made((1, 1), (1, 2), (1, 1), (1, 2), (1, 3)) == [east, east]
    assert made((1, 2), (2, 1)) == [west, south]
    assert made((1, 1)) == []


def test_moves_stand_at_the_stride_that_makes_them() -> None:
    east, south = 1, 2
    ticks = [(1, 1)] * 3 + [(1, 2)] * 2 * STRIDE + [(2, 2)] * STRIDE
    assert trips.moves(np.array(ticks), 4).tolist() == [east, 0, south, 0]
    # Two borders in one stride: the second is named with the next stride, and moves after the plan's end are dropped.
    ticks = [(1, 1), (1, 2), (2, 2), *[(2, 2)] * 2 * STRIDE, (2, 3)]
    assert trips.moves(np.array(ticks), 4).tolist() == [east, south, east, 0]
    assert trips.moves(np.array(ticks), 2).tolist() == [east, south]


def test_a_batch_asks_for_plans_from_the_place_to_the_goal(data: trips.Trips) -> None:
    batch = trips.batch([data], 16, 6, 5, np.random.default_rng(3))
    body, goal = batch["senses"]["body"], batch["senses"]["goal"]
    assert batch["plan"].shape == (6, 16, HORIZON, 2)
    learned = batch["learned"]
    assert (learned | ~batch["first"]).all()
    assert 0.2 < learned.float().mean() < 0.9
    np.testing.assert_allclose(batch["plan"][learned][:, 0], body[learned])
    np.testing.assert_allclose(batch["plan"][..., -1, :], goal)
    assert batch["first"][:, 0].all()
    assert 0 < batch["first"].float().mean() < 1
    # The goal stays while a life continues, and the moves lead from its cell to the goal's.
    on = ~batch["first"][:, 1:]
    assert (goal[:, 1:] == goal[:, :-1]).all(-1)[on].all()
    where = maze("medium")
    for place, words, end in zip(body[learned], batch["symbols"][learned].tolist(), goal[learned], strict=True):
        cell = where.cells(place.numpy() * UNIT)
        for word in words:
            cell = cell + np.array([step for step, w in trips.MOVES.items() if w == word] or [(0, 0)])[0]
        np.testing.assert_array_equal(cell, where.cells(end.numpy() * UNIT))
    strides = np.linalg.norm(np.diff(batch["plan"].numpy(), axis=2), axis=-1) * UNIT
    assert strides.max() <= STRIDE * 0.2 * np.sqrt(2) + 1.5  # the last one may jump onto the goal


def test_shortest_paths_equal_known_lengths() -> None:
    start, goal = np.array([[0.0, 0.0], [0.0, 0.0]]), np.array([[4.0, 0.0], [4.0, 8.0]])
    # Straight in a corridor; and around one corner at (2 + 0.7 - 4 + 4, ...): by hand below.
    straight, around = shortest("medium", start, goal)
    assert straight == pytest.approx(4.0)
    assert np.hypot(4, 8) < around < 4 + 8


def test_no_path_is_shorter_than_the_shortest_and_the_oracle_arrives(tmp_path) -> None:
    context = tiny_context(tmp_path)
    walked = exam.walk(trips.oracle("medium"), context, "medium", np.arange(20))
    assert walked.arrived.all()
    assert 0.85 < walked.spl.mean() <= 1.0
    assert walked.spl.max() <= 1.0


def at_ends(data: trips.Trips) -> np.ndarray:
    """The starts of trips, in OGBench's units."""
    return data.at[data.begin[:-1]] * UNIT


def test_an_oracle_led_to_shuffled_goals_does_not_arrive(tmp_path) -> None:
    lead, context, seeds = trips.oracle("medium"), tiny_context(tmp_path), np.arange(20)

    def shuffled(senses, first):
        return lead({**senses, "goal": np.roll(senses["goal"], 1, axis=0)}, first)

    assert exam.walk(shuffled, context, "medium", seeds).arrived.mean() < 0.3


def test_floors_are_measured_and_a_rule_that_stands_still_is_cut(tmp_path, data: trips.Trips) -> None:
    context, seeds = tiny_context(tmp_path), np.arange(10)
    ticks = 0

    def straight(senses, first):
        nonlocal ticks
        ticks += 1
        return exam.straight_on(senses, first)

    policies: dict[str, Policy] = {
        "straight": straight,
        "cloned": exam.cloning_policy(data),
        "random": exam.at_random("medium"),
    }
    came = {
        name: exam.walk(policy, context, "medium", seeds, rule=name != "random").arrived.mean()
        for name, policy in policies.items()
    }
    assert came["straight"] < 0.5
    assert came["random"] < 0.5
    assert ticks < 900


def test_the_learned_command_is_the_mean_of_the_next_ones_of_the_same_trip() -> None:
    """Trips of which the n-th has the command n throughout."""
    shown = trips.make_trips("medium", 0, 4_000)
    number = np.repeat(np.arange(len(shown)), np.diff(shown.begin)).astype(np.float32)
    marked = replace(shown, walk=np.stack((number, np.arange(len(number), dtype=np.float32)), 1))
    told = trips.batch([marked], 8, 16, 4, np.random.default_rng(0))
    which, tick = told["walk"].flatten(0, 1).numpy().T
    assert (which == which.round()).all()
    at = told["senses"]["body"]
    begun = np.array([int(np.flatnonzero((shown.at == one).all(1))[0]) for one in at.flatten(0, 1).numpy()])
    assert ((tick - begun >= 0) & (tick - begun <= (trips.COMMANDS - 1) / 2)).all()
    assert (tick - begun == (trips.COMMANDS - 1) / 2).mean() > 0.7


def test_first_plans_are_sound_where_they_cross_no_wall(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent, context, seeds = tiny_agent(), tiny_context(tmp_path), np.arange(10)
    PlanningStage().admit(agent)

    def planning(reach: float) -> None:
        def search(read: Route) -> Candidates:
            share = torch.linspace(0, reach, HORIZON)[:, None]
            straight = read.place[:, None] + share * (read.goal - read.place)[:, None]
            elsewhere = torch.full_like(straight, 99.0)
            both = torch.stack((elsewhere, straight), 1)
            none = torch.zeros(len(both), 2)
            return Candidates(both, none[..., None].long(), none, torch.ones(len(both), dtype=torch.int64))

        monkeypatch.setattr(agent.head(ROUTE), "search", search)

    planning(0.0)
    found = exam.sound_plans(agent, context, "large", seeds)
    assert found[exam.SOUND].tolist() == [1.0] * 10, "who stays runs into nothing"
    assert found[exam.SOUND_BY_CRITIC].tolist() in ([0.0] * 10, [1.0] * 10), "the critic chooses by its own marks"
    monkeypatch.setattr(agent.head(ROUTE), "marks", lambda plans, maze: torch.tensor([[1.0, 0.0]]).expand(10, 2))
    assert exam.sound_plans(agent, context, "large", seeds)[exam.SOUND_BY_CRITIC].sum() == 0
    planning(1.0)
    assert exam.sound_plans(agent, context, "large", seeds)[exam.SOUND].sum() == 0, "all five tasks have walls between"
