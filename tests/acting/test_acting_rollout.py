"""Rollouts of a policy in a world of rows: inputs, ends of episodes, returns, and `is_rolling`."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from devmind.acting import Actor, constant_policy, is_rolling, observations, returns, rollout, still
from devmind.acting.rollout import watching
from devmind.agent.batch import collate_tick
from devmind.testing import LampRules, tiny_agent
from devmind.testing.laws import ATOL
from devmind.worlds.adapter import VectorWorld
from devmind.worlds.gym_world import GymWorld
from devmind.worlds.side_by_side import SideBySide


def lamps(n: int = 3) -> VectorWorld:
    world = VectorWorld(LampRules(), n)
    world.reset(np.arange(n))
    return world


def pressing(senses: Any, first: np.ndarray) -> dict[str, np.ndarray]:
    return {"press": senses["board"][:, 0, 0].argmax(1)}


def test_each_tick_holds_senses_reward_and_following_senses() -> None:
    world, wanted = lamps(), lamps()
    for tick in rollout(pressing, world, 5):
        assert tick.first.tolist() == [tick.tick == 0] * 3
        senses = wanted.observe()
        assert np.array_equal(tick.senses["board"], senses["board"])
        following, reward, *_ = wanted.step({"press": senses["board"][:, 0, 0].argmax(1)})
        assert np.array_equal(tick.following["board"], following["board"])
        assert tick.reward.tolist() == reward.tolist() == [1, 1, 1]
        assert np.array_equal(world.truth()["lit"], wanted.truth()["lit"])  # the truth belongs to the following senses
    assert tick.tick == 4


def test_rollout_without_a_tick_limit_runs_until_all_episodes_end() -> None:
    ticks = list(rollout(pressing, lamps()))
    assert len(ticks) == 8
    assert ticks[-1].ended.all()
    assert not ticks[-2].ended.any()
    assert returns(pressing, lamps()).tolist() == [8.0, 8.0, 8.0]
    assert returns(still, lamps()).tolist() == [0.0, 0.0, 0.0]


def test_whoever_watches_is_told_episodes_and_share_after_each_tick() -> None:
    told: list[tuple[int, int, float]] = []
    with watching(lambda *now: told.append(now)):
        list(rollout(pressing, lamps()))
        list(rollout(pressing, lamps(2), 4))
    list(rollout(pressing, lamps(), 1))
    assert told[:8] == [(0, 3, k / 8) for k in range(1, 8)] + [(3, 3, 1.0)]
    assert told[8:] == [(0, 2, k / 4) for k in range(1, 5)]


def test_rollout_continues_from_the_middle_of_an_episode() -> None:
    world = lamps()
    list(rollout(still, world, 2))
    (tick,) = rollout(still, world, 1, first=np.zeros(3, bool))
    assert not tick.first.any()
    assert tick.senses["words"] == ["", "", ""]


def test_observations_takes_no_step_after_the_last_one() -> None:
    world = lamps()
    shown = list(observations(world, 3))
    assert len(shown) == 3
    assert world.state().tick.tolist() == [2, 2, 2]
    assert np.array_equal(shown[-1]["board"], world.observe()["board"])
    assert [len(list(observations(lamps(), n))) for n in (1, 2)] == [1, 2]
    command = np.full((3, 2), 0.5, np.float32)
    assert np.array_equal(constant_policy(command, "lean")({}, np.ones(3, bool))["lean"], command)


def test_is_rolling_is_true_only_while_a_rollout_steps_the_world() -> None:
    seen = []

    class Told(VectorWorld):
        def step(self, actions: Any) -> Any:
            seen.append(is_rolling())
            return super().step(actions)

    world = Told(LampRules(), 2)
    world.reset([0, 1])
    asked_in_policy = []

    def policy(senses: Any, first: np.ndarray) -> dict[str, np.ndarray]:
        asked_in_policy.append(is_rolling())
        return {}

    for _ in rollout(policy, world, 2):
        world.step({})  # outside the rollout's own step
    assert seen == [True, False, True, False]
    assert asked_in_policy == [False, False]


def test_side_by_side_worlds_equal_single_worlds() -> None:
    seeds = [5, 6, 7]
    world = SideBySide([GymWorld(gymnasium.make("CartPole-v1")) for _ in seeds], seeds)
    alone = []
    for seed in seeds:
        env = gymnasium.make("CartPole-v1")
        env.reset(seed=seed)
        total = 0.0
        while True:
            _, reward, terminated, truncated, _ = env.step(1)
            total += float(reward)
            if terminated or truncated:
                break
        alone.append(total)
    ticks = list(rollout(lambda senses, first: {"push": np.ones(3, np.int64)}, world))
    assert sum(tick.reward for tick in ticks).tolist() == alone
    assert len(set(alone)) > 1  # some episodes end before others
    early = int(np.argmin(alone))
    after = ticks[int(alone[early]) :]
    assert all(np.array_equal(tick.senses["body"][early], after[0].senses["body"][early]) for tick in after)
    assert all(tick.terminated[early] for tick in after)
    assert returns(lambda senses, first: {"push": np.ones(3, np.int64)}, _again(seeds)).tolist() == alone
    world.close()


def _again(seeds: list[int]) -> SideBySide:
    return SideBySide([GymWorld(gymnasium.make("CartPole-v1")) for _ in seeds], seeds)


def test_returns_ignore_rewards_after_the_end_of_an_episode() -> None:
    class Generous(VectorWorld):
        """Gives rewards after the end of an episode; rows end one after the other."""

        tick = 0

        def step(self, actions: Any) -> Any:
            senses, *_ = super().step(actions)
            self.tick += 1
            ended = np.arange(self.num_envs) < self.tick
            return senses, np.ones(self.num_envs), ended, np.zeros_like(ended), {}

    world = Generous(LampRules(), 3)
    world.reset([0, 1, 2])
    assert returns(still, world).tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("ticks", [0, 1])
def test_rollout_runs_zero_ticks_or_one(ticks: int) -> None:
    assert len(list(rollout(still, lamps(), ticks))) == ticks


class Staggered:
    """Rows whose episodes last 1, 2, 3, ... ticks; `place` is the row's number and the tick."""

    def __init__(self, n: int) -> None:
        self.num_envs, self.tick, self.told = n, 0, list[np.ndarray]()

    def observe(self) -> dict[str, Any]:
        place = np.stack([np.arange(self.num_envs), np.full(self.num_envs, self.tick)], 1)
        return {"place": place.astype(np.float32), "text": [f"row {row}" for row in range(self.num_envs)]}

    def step(self, actions: Any) -> tuple[dict[str, Any], np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        self.told.append(actions["press"])
        going = np.arange(self.num_envs) >= self.tick
        self.tick += 1
        ended = np.arange(self.num_envs) < self.tick
        return self.observe(), going * 1.0, ended, np.zeros(self.num_envs, bool), {}


class Sparing:
    """Policy that presses its row's number and can drop rows."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def keep(self, index: np.ndarray) -> None:
        self.rows = self.rows[index]

    def __call__(self, senses: Any, first: np.ndarray) -> dict[str, np.ndarray]:
        if first.all():
            self.rows = np.arange(len(first))
        assert senses["place"][:, 0].tolist() == self.rows.tolist(), "it is told of the rows that it went on with"
        self.asked.append(senses["text"])
        return {"press": self.rows + 1}


def test_sparing_rollout_drops_ended_rows_from_the_policy() -> None:
    policy, world = Sparing(), Staggered(8)
    ticks = list(rollout(policy, world, sparing=True))
    assert len(ticks) == 8
    assert sum(tick.reward for tick in ticks).tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [len(rows) for rows in policy.asked] == [8, 8, 6, 6, 4, 3, 2, 1]
    for tick, told in enumerate(world.told):
        assert told[tick:].tolist() == list(range(tick + 1, 9)), "who goes on is answered"
    assert world.told[3].tolist() == [0, 0, 3, 4, 5, 6, 7, 8], "who is left out does nothing"
    assert len(list(rollout(lambda senses, first: {"press": np.zeros(8)}, Staggered(8), sparing=True))) == 8


def test_sparing_rollout_drops_rows_marked_done_and_lists_the_asked_rows() -> None:
    policy, done = Sparing(), np.zeros(8, bool)
    for tick in rollout(policy, Staggered(8), sparing=True, done=done):
        assert [f"row {row}" for row in tick.asked] == policy.asked[-1]
        done[4:] |= tick.tick == 1
    assert [len(rows) for rows in policy.asked] == [8, 8, 2, 1, 1, 1, 1, 1], "the last ones are asked until all is over"


def test_actor_gives_equal_features_after_dropping_rows() -> None:
    agent = tiny_agent()
    agent.add_encoder("body")
    whole, fewer = (Actor(agent, 4) for _ in range(2))
    batch = [collate_tick({"body": np.full((4, 12), 0.1 * t, np.float32)}, np.full(4, t == 0)) for t in range(4)]
    for t in range(2):
        whole.act(batch[t])
        fewer.act(batch[t])
    fewer.keep(np.array([1, 3]))
    for t in (2, 3):
        every = whole.act(batch[t]).features
        some = fewer.act(collate_tick({"body": np.full((2, 12), 0.1 * t, np.float32)}, np.zeros(2, bool))).features
        torch.testing.assert_close(some, every[[1, 3]], atol=ATOL, rtol=0)
    assert fewer.n == 2
