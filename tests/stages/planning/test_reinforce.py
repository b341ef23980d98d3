"""Reinforcement of the planner: plans as numbers, values of strides, and plans learned by their advantage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from devmind.agent.agent import Agent
from devmind.seeding import numpy_rng
from devmind.testing import tiny_agent, tiny_context
from devmind.worlds.pointmaze import MAZES, UNIT, maze
from stages.planning import parts
from stages.planning.parts import HORIZON, STRIDE
from stages.planning.planner import PlannerHead, interpolate_plan
from stages.planning.reinforce import plans
from stages.planning.reinforce.finetune import advantages, reinforced, weights
from stages.planning.reinforce.values import StrideValues, strides_of, teach_values
from stages.planning.route import trips

pytest.importorskip("ogbench")


@pytest.fixture(scope="module")
def shown() -> trips.Trips:
    return trips.make_trips("medium", 0, 4_000)


@pytest.fixture
def agent() -> Agent:
    agent = tiny_agent()
    parts.admit(agent)
    return agent.eval()


def head_of(agent: Agent) -> PlannerHead:
    head: Any = agent.head(parts.ROUTE)
    return head


def test_plans_have_their_declared_ends_and_cross_no_wall(shown: trips.Trips) -> None:
    found = plans.draw_plans([shown], 40, numpy_rng("plans"))
    assert len(found) == 40
    torch.testing.assert_close(found.plan[:, 0], found.place)
    assert (found.plan[:, -1] - found.goal).norm(dim=-1).max() < 0.11 or (found.ticks > STRIDE * HORIZON).any()
    assert plans.holding("medium", found.plan.numpy()).mean() > 0.9  # corners are cut, as strides are straight
    assert torch.equal(found.rows(torch.tensor([3, 3])).plan[-1], found.plan[3])


def test_a_plan_through_a_wall_does_not_hold() -> None:
    where = maze("medium")
    free, wall = where.centres(np.array([1, 1])), where.centres(np.array([1, 3]))
    assert where.walls[1, 3]
    straight = torch.tensor(np.stack((free, wall)) / UNIT, dtype=torch.float32)[None]
    through = interpolate_plan(straight, torch.linspace(0, 1, HORIZON)[None]).numpy()
    still = np.repeat((free / UNIT)[None, None], HORIZON, 1)
    assert plans.holding("medium", np.concatenate((through, still))).tolist() == [False, True]


def test_a_hypothetical_route_is_read_as_with_a_silenced_trunk(agent: Agent) -> None:
    head, which = head_of(agent), torch.eye(len(MAZES))[[1, 2]]
    route = head.thinking(torch.tensor([[0.1, 0.2], [0.3, 0.4]]), torch.ones(2, 2), which)
    assert route.place.tolist() == torch.tensor([[0.1, 0.2], [0.3, 0.4]]).tolist()
    assert torch.equal(route.maze[:, : len(MAZES)], which)
    assert not route.present[:, 1:-3].any()
    assert route.present[:, [0, -3, -2, -1]].all()


def test_teaching_lowers_the_planners_loss_and_changes_only_its_parts(agent: Agent, shown: trips.Trips) -> None:
    data, head = plans.draw_plans([shown], 60, numpy_rng("taught")), head_of(agent)
    before = {name: value.clone() for name, value in agent.named_parameters()}

    def lost() -> float:
        torch.manual_seed(0)
        return float(plans.losses(head, data)["trajectory"])

    first = lost()
    plans.teach(agent, data, 40, 32, 3e-3, seed=0)
    assert lost() < 0.8 * first
    own = tuple(f"heads.{parts.ROUTE}.{part}." for part in plans.PARTS)
    for name, value in agent.named_parameters():
        assert name.startswith(own) or torch.equal(value, before[name]), name


def test_plans_are_learned_by_their_weights(agent: Agent, shown: trips.Trips) -> None:
    """A weight of zero excludes a plan, whatever it is."""
    data = plans.draw_plans([shown], 40, numpy_rng("weights"))
    data.plan[20:] = torch.nan
    plans.teach(agent, data, 3, 16, 1e-3, seed=0, weights=(torch.arange(40) < 20).float())
    assert all(value.isfinite().all() for value in agent.parameters())


def test_strides_have_the_ends_and_goals_of_their_own_trip(shown: trips.Trips) -> None:
    found = strides_of([shown], 500, numpy_rng("strides"))
    far = (found.there - found.here).norm(dim=-1)
    assert far.max() <= STRIDE * 0.021
    torch.testing.assert_close(found.there[found.ends], found.goal[found.ends])
    assert (found.share[~found.ends] <= 1).all()
    assert (found.share[found.ends] > 0).all()
    assert 0.02 < found.ends.float().mean() < 0.9


def test_values_learn_walking_distance(shown: trips.Trips) -> None:
    torch.manual_seed(0)
    values = StrideValues(hidden=64)
    told = teach_values(values, [shown], 250, numpy_rng("values"), rows=256)
    assert np.mean([one["q"] for one in told[-20:]]) < 0.5 * np.mean([one["q"] for one in told[:5]])
    where, which = maze("medium"), torch.eye(len(MAZES))[[1]]
    free = where.free
    steps = where.steps_to(tuple(free[0]))
    begin = torch.tensor(where.centres(free[0]) / UNIT, dtype=torch.float32)

    def cost(cells: np.ndarray) -> float:
        goal = torch.tensor(where.centres(cells) / UNIT, dtype=torch.float32)
        with torch.no_grad():
            return -float(values.value(begin.expand_as(goal), goal, which.expand(len(goal), -1)).mean())

    by_steps = [cost(np.argwhere(steps == n)) for n in (0, 1, 2)]
    assert by_steps == sorted(by_steps)


def test_shorter_paths_than_expected_have_higher_advantages(shown: trips.Trips) -> None:
    data = plans.draw_plans([shown], 30, numpy_rng("advantages"))
    values = StrideValues()
    quick = plans.Plans(**{**vars(data), "ticks": data.ticks / 2})
    assert (advantages(values, quick) > advantages(values, data)).all()
    assert (weights(values, quick) >= weights(values, data)).all()


def test_exam_reinforces_a_copy_of_the_planner(agent: Agent, shown: trips.Trips, tmp_path: Path) -> None:
    before = agent.sha256()
    with torch.inference_mode():
        one, other = (reinforced(agent, shown, tiny_context(tmp_path)) for _ in range(2))
    assert agent.sha256() == before
    assert one.sha256() == other.sha256() != before
