"""The package keeps devmind's laws; run beside an installed devmind: `pip install -e . && pytest`."""

import numpy as np
import torch
from devmind_diffuser.head import PlanHead
from devmind_diffuser.stage import FOLLOW, HEAD, RULES, WalkStage, shown
from devmind_diffuser.world import guide

from devmind import make_world
from devmind.acting import Actor, returns, rollout
from devmind.seeding import numpy_rng, torch_generator
from devmind.testing import check_head, check_stage, check_world, tiny_agent


def test_the_world_keeps_its_laws() -> None:
    check_world(RULES)


def test_the_stage_keeps_its_laws() -> None:
    check_stage(WalkStage())


def test_the_head_keeps_its_laws() -> None:
    agent = tiny_agent()
    WalkStage().admit(agent)
    assert isinstance(agent.head(HEAD), PlanHead)
    check_head(agent.head(HEAD))


def test_the_guide_arrives_and_who_walks_straight_on_gets_wet() -> None:
    seeds = np.arange(100)
    for side in (1.0, -1.0):
        arrived = returns(lambda senses, first: {"move": guide(senses["body"], side * np.ones(100))}, walk(seeds))  # noqa: B023
        assert arrived.mean() > 0.95
    straight = returns(lambda senses, first: {"move": senses["body"][:, :2] / 0.01}, walk(seeds))
    assert straight.mean() < 0.5


def walk(seeds: np.ndarray):
    return make_world("pond", "", seeds)


def test_lessons_show_what_the_guide_does_next() -> None:
    batch = shown(32, numpy_rng("test"))
    assert batch["plan"].shape == (32, 1, 16, 2)
    body = batch["senses"]["body"][:, 0, :4].numpy()
    both = np.stack([guide(body, side * np.ones(32)) for side in (1.0, -1.0)])
    assert (np.abs(both - batch["plan"][:, 0, 0].numpy()).max(-1).min(0) == 0).all()


def test_a_plan_is_followed_before_a_new_one_is_made() -> None:
    agent = tiny_agent().eval()
    WalkStage().admit(agent)
    asked, denoise = [], agent.head(HEAD).forward
    agent.head(HEAD).forward = lambda *tapped: asked.append(1) or denoise(*tapped)
    moves = []
    for tick in rollout(Actor(agent, 3, generator=torch_generator("test")), walk(np.arange(3)), ticks=2 * FOLLOW):
        moves.append(torch.from_numpy(tick.actions["move"]))
    assert len(asked) == 2
    asked.clear()
    actor = Actor(agent, 3, generator=torch_generator("test"))
    state_plan = None
    for _, tick in zip(range(2), rollout(actor, walk(np.arange(3)), ticks=2), strict=False):
        state_plan = actor.state.carry[f"actions.{HEAD}"]
        assert torch.equal(torch.from_numpy(tick.actions["move"]), moves[tick.tick])
    assert torch.equal(state_plan["rest"][:, 0], moves[2])
    assert state_plan["left"].tolist() == [FOLLOW - 2] * 3
