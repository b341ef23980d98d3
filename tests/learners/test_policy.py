"""Learning by reward: what is collected of a countable toy, that updates learn, and how an arc reads its senses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode
from torch import Tensor, nn

from devmind import worlds
from devmind.agent.batch import collate_tick
from devmind.agent.output import Categorical
from devmind.errors import ConfigError
from devmind.learners.actor_critics import actor_critic
from devmind.learners.policy import PolicyLearner, restore_worlds, saved_worlds
from devmind.learners.ppo import PPO, collect, improve
from devmind.seeding import numpy_rng
from devmind.testing import LampRules, tiny_agent, tiny_context
from devmind.worlds.adapter import VectorWorld
from devmind.worlds.restarting import Restarting
from devmind.worlds.side_by_side import Joined
from stages.reflex import parts
from stages.reflex.lessons import DRILLS

ENDS_AT = np.array([3, 5, 100])


class Counter:
    """Three rows that count up; `body` is the count. Row 0 terminates at 3, row 1 is truncated at 5, row 2 goes on."""

    num_envs = 3

    def __init__(self, anew: bool) -> None:
        self.count, self.anew = np.zeros(3, np.int64), anew
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP if anew else AutoresetMode.DISABLED}

    def observe(self) -> dict[str, np.ndarray]:
        return {"body": self.count[:, None].astype(np.float32)}

    def step(self, actions: Any) -> Any:
        assert actions["push"].shape == (3,)
        self.count = self.count + 1
        led_to, ended = self.observe(), self.count == ENDS_AT
        terminal = ended & np.array([True, False, False])
        self.count = np.where(ended, 0, self.count) if self.anew else self.count
        info = {"final_obs": led_to} if self.anew and ended.any() else {}
        return self.observe(), led_to["body"][:, 0].copy(), terminal, ended & ~terminal, info


class Telling:
    """Its value is ten times the count; it notes every call of `read`."""

    effector = "push"

    def __init__(self) -> None:
        self.weight = torch.ones(1, requires_grad=True)
        self.firsts: list[list[bool]] = []

    def read(self, senses: Any, first: np.ndarray) -> Tensor:
        self.firsts.append(first.tolist())
        return torch.from_numpy(senses["body"])

    def peek(self, senses: Any) -> Tensor:
        return torch.from_numpy(senses["body"])

    def __call__(self, observation: Tensor) -> tuple[Categorical, Tensor]:
        return Categorical(self.weight * torch.zeros(len(observation), 2)), 10 * self.weight * observation[:, 0]

    def as_command(self, action: Tensor) -> np.ndarray:
        return action.numpy()


def collected(anew: bool) -> Any:
    network = Telling()
    return collect(network, Counter(anew), 7, torch.Generator()), network


def test_truncated_steps_bootstrap_from_before_the_reset() -> None:
    rollout, network = collected(anew=True)
    assert rollout.observation.squeeze(2).T.tolist() == [
        [0, 1, 2, 0, 1, 2, 0], [0, 1, 2, 3, 4, 0, 1], [0, 1, 2, 3, 4, 5, 6],
    ]  # fmt: skip
    alive = ~rollout.terminal
    assert torch.equal(rollout.next_value[alive], 10 * rollout.reward[alive])  # the reward is the next count
    assert rollout.next_value[4, 1] == 50
    assert rollout.last.nonzero().tolist() == [[2, 0], [4, 1], [5, 0]]
    assert rollout.mask.all()
    assert network.firsts[0] == [True] * 3
    assert network.firsts[3] == [True, False, False]
    assert network.firsts[5] == [False, True, False]


def test_without_reset_the_steps_after_the_end_are_masked() -> None:
    rollout, network = collected(anew=False)
    assert rollout.mask.sum(0).tolist() == [3, 5, 7]
    assert rollout.mask[:3].all()
    assert rollout.next_value[4, 1] == 50
    assert not any(any(first) for first in network.firsts[1:])


def test_collected_tensors_carry_no_gradient() -> None:
    rollout, _ = collected(anew=True)
    assert not any(tensor.requires_grad for tensor in (rollout.log_prob, rollout.value, rollout.next_value))


class Small(nn.Module):
    """A linear policy and value on CartPole's body."""

    effector = "push"

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.policy, self.value = nn.Linear(4, 2), nn.Linear(4, 1)

    def read(self, senses: Any, first: np.ndarray) -> Tensor:
        return torch.from_numpy(senses["body"])

    def peek(self, senses: Any) -> Tensor:
        return torch.from_numpy(senses["body"])

    def forward(self, body: Tensor) -> tuple[Categorical, Tensor]:
        return Categorical(self.policy(body)), self.value(body)[:, 0]

    def as_command(self, action: Tensor) -> np.ndarray:
        return action.numpy()


def test_updates_keep_the_pole_up_longer() -> None:
    network = Small()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    world = Restarting(worlds.make("cartpole", "", np.arange(16)), numpy_rng("starts"))
    order = torch.Generator().manual_seed(0)
    for _ in range(25):
        rollout = collect(network, world, 64, order)
        settings = PPO(discount=0.98, epochs=6, batches=2)
        scalars = improve(network, optimizer, rollout, settings, order, [list(network.parameters())])
    assert set(scalars) == {"value loss", "kl", "clipped"}
    early, late = world.finished[:40], world.finished[-20:]
    assert np.mean(late) > 2 * np.mean(early)


def test_restarting_resets_only_rows_that_ended() -> None:
    plain, world = (worlds.make("cartpole", "", np.arange(4)) for _ in range(2))
    world = Restarting(world, numpy_rng("starts"))
    push = {"push": np.ones(4, np.int64)}
    while True:
        wanted, *_ = plain.step(push)
        senses, _, terminated, _, info = world.step(push)
        if terminated.any():
            break
        assert np.array_equal(senses["body"], wanted["body"])
        assert "final_obs" not in info
    assert np.array_equal(info["final_obs"]["body"], wanted["body"])
    assert np.array_equal(senses["body"][~terminated], wanted["body"][~terminated])
    assert (world.state().tick[terminated] == 0).all()
    assert world.finished == [int(plain.state().tick[0])] * int(terminated.sum())


def test_arc_reads_the_tokens_of_a_step_and_peek_changes_nothing() -> None:
    agent = tiny_agent()
    parts.admit(agent)
    agent.eval()
    arc, state, world = actor_critic(agent, "reach"), agent.new_state(3), worlds.make("nursery", "reach", np.arange(3))
    for tick in range(2):
        senses, first = world.observe(), np.full(3, tick == 0)
        read = arc.read(senses, first)
        percepts = agent.encode(state, collate_tick(senses, first))
        wanted = torch.cat([percepts.encoded[sense].tokens for sense in parts.REACH_SENSES], 1)
        torch.testing.assert_close(read["tokens"], wanted)
        state, _ = agent.step(state, percepts, effectors=["reach"], trunk=False)
        world.step({"look": np.full((3, 2), 0.2, np.float32)})
        arc.peek(world.observe())


def test_joined_places_levels_side_by_side() -> None:
    levels = ("orient/sight", "orient/sound")
    both = Joined([worlds.make("nursery", level, np.arange(2)) for level in levels])
    alone = [worlds.make("nursery", level, np.arange(2)) for level in levels]
    assert both.num_envs == 4
    action = np.linspace(-1, 1, 8, dtype=np.float32).reshape(4, 2)
    senses, reward, *_ = both.step({"look": action})
    steps = [one.step({"look": part}) for one, part in zip(alone, np.split(action, 2), strict=True)]
    assert np.array_equal(reward, np.concatenate([step[1] for step in steps]))
    assert np.array_equal(senses["sight"], np.concatenate([step[0]["sight"] for step in steps]))


def test_joined_concatenates_words() -> None:
    lamps = [VectorWorld(LampRules(), n) for n in (2, 1)]
    for world in lamps:
        world.reset(np.arange(world.num_envs))
    assert Joined(lamps).observe()["words"] == ["press"] * 3


@pytest.mark.parametrize("n", [1, 2])
def test_joined_of_one_world_equals_that_world(n: int) -> None:
    world, alone = (
        Joined([worlds.make("nursery", "track", np.arange(n))]),
        worlds.make("nursery", "track", np.arange(n)),
    )
    assert np.array_equal(world.observe()["sight"], alone.observe()["sight"])


def test_lasting_rooms_of_the_nursery_go_on_from_a_checkpoint() -> None:
    world, other = (worlds.make("nursery", "orient/empty", seeds) for seeds in ([3, 4], [8, 9]))
    for _ in range(2):
        world.step({"look": np.ones((2, 2))})
    restore_worlds(other, saved_worlds({"look": world})["look"])
    assert other.state().seed.tolist() == [3, 4]
    assert other.state().tick.tolist() == [2, 2]
    here, there = (one.step({"look": np.full((2, 2), -0.5)})[0] for one in (world, other))
    assert all(np.array_equal(here[name], there[name]) for name in here)


def test_a_lasting_drill_of_several_levels_is_refused(tmp_path: Path) -> None:
    agent = tiny_agent()
    parts.admit(agent)
    several = replace(DRILLS["balance"], levels=("", ""))
    with pytest.raises(ConfigError, match="'balance' is lasting, so it practises in one level"):
        PolicyLearner(agent, tiny_context(tmp_path), {"balance": several})
