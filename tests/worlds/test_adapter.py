"""Worlds made from Rules, and any Gymnasium environment as a world."""

from __future__ import annotations

import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env

from devmind import plugins, worlds
from devmind.errors import WorldError
from devmind.moment import Moment
from devmind.seeding import EXAM_SEEDS_FROM
from devmind.testing import LampRules
from devmind.worlds import register_gymnasium
from devmind.worlds.adapter import FlatWorld, RulesWorld, VectorWorld, moment
from devmind.worlds.gym_world import GymWorld
from devmind.worlds.nursery import NurseryRules
from devmind.worlds.restarting import Restarting


def test_a_single_world_equals_its_row_in_a_vector_world() -> None:
    one, many = RulesWorld(NurseryRules("reach")), VectorWorld(NurseryRules("reach"), 3)
    senses, _ = one.reset(seed=7)
    batch, _ = many.reset([5, 7, 9])
    for tick in range(3):
        assert all(np.array_equal(senses[name], batch[name][1]) for name in senses)
        assert one.observation_space.contains(senses)
        many.action_space.seed(tick)
        actions = many.action_space.sample()
        batch, reward, terminal, truncated, _ = many.step(actions)
        senses, r, t, u, _ = one.step({name: value[1] for name, value in actions.items()})
        assert (r, t, u) == (reward[1], terminal[1], truncated[1])
    assert one.truth()["mask"].shape == (64, 64)
    assert many.truth()["mask"].shape == (3, 64, 64)


def test_a_restored_state_repeats_what_followed() -> None:
    world = VectorWorld(NurseryRules("room"), 2)
    world.reset([1, 2])
    state = world.state()
    actions = {"look": np.array([[1.0, 0.0], [0.0, 1.0]])}
    first = world.step(actions)[0]
    world.restore(state)
    again = world.step(actions)[0]
    assert all(np.array_equal(first[name], again[name]) for name in first)
    one = RulesWorld(NurseryRules("room"))
    one.reset(seed=2)
    kept = one.state()
    after = one.step({})[0]["sound"]
    one.restore(kept)
    assert np.array_equal(one.step({})[0]["sound"], after)


def test_seeds_are_checked_and_a_single_seed_counts_up() -> None:
    world = VectorWorld(NurseryRules("bind"), 3)
    with pytest.raises(WorldError, match="call reset first"):
        world.step({})
    with pytest.raises(WorldError, match="one seed for each of 3"):
        world.reset([1, 2])
    by_seed = world.reset(seed=4)[0]["sight"]
    assert np.array_equal(world.reset([4, 5, 6])[0]["sight"], by_seed)
    with pytest.raises(WorldError, match="state of 3 children; got 1"):
        world.restore(world.state().take([0]))


def test_the_nursery_passes_gymnasiums_checker() -> None:
    check_env(RulesWorld(NurseryRules("orient/sight")), skip_render_check=True)


def test_moments_carry_time_and_flags() -> None:
    world = RulesWorld(NurseryRules("reach"))
    senses, _ = world.reset(seed=1)
    first = moment(senses, 0)
    assert isinstance(first, Moment)
    assert first.first
    assert not first.last
    assert isinstance(first.senses["words"], str)
    last = moment(senses, 30, 0.5, truncated=True)
    assert (last.time_s, last.reward, last.last, last.terminal) == (3.0, 0.5, True, False)


def test_make_finds_worlds_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = plugins.Plugin("worlds", "nursery", "devmind.worlds.nursery:NurseryRules", "devmind", "0")
    monkeypatch.setattr(plugins, "available", lambda group: {"nursery": entry})
    world = worlds.make("nursery", "bind", [3, 4], 2)
    assert world.num_envs == 2
    assert np.array_equal(world.observe()["sight"], VectorWorld(NurseryRules("bind"), 2).reset([3, 4])[0]["sight"])
    with pytest.raises(WorldError, match="did you mean 'nursery'"):
        worlds.make("nursry", "bind", [1])
    with pytest.raises(WorldError, match="did you mean 'bind'"):
        worlds.make("nursery", "bnd", [1])
    with pytest.raises(WorldError, match="each of 3 children; got 1"):
        worlds.make("nursery", "bind", [1], 3)


def test_cartpole_becomes_a_world_of_body_and_push() -> None:
    inner, world = gymnasium.make("CartPole-v1"), GymWorld(gymnasium.make("CartPole-v1"))
    check_env(world, skip_render_check=True)
    expected, _ = inner.reset(seed=3)
    senses, _ = world.reset(seed=3)
    assert np.array_equal(senses["body"], expected)
    for action in (0, 1, 1):
        expected, reward, *_ = inner.step(action)
        senses, got, terminal, truncated, _ = world.step({"push": np.array(action)})
        assert np.array_equal(senses["body"], expected)
        assert (got, terminal, truncated) == (reward, False, False)
    with pytest.raises(WorldError, match="Expected the effector 'push'; got none"):
        world.step({})
    world.close()


def test_box_actions_keep_their_space() -> None:
    world = GymWorld(gymnasium.make("Pendulum-v1"), effector="torque")
    world.reset(seed=0)
    assert world.action_space["torque"].shape == (1,)
    assert world.observation_space.contains(world.step({"torque": np.array([0.5])})[0])


def test_a_batch_counts_its_seeds_up_when_none_are_given() -> None:
    world, one = VectorWorld(LampRules(), 3), RulesWorld(LampRules())
    for first in (0, 3):
        world.reset()
        assert world.state().seed.tolist() == [first, first + 1, first + 2]
    world.reset([40, 7, 9])
    world.reset()
    assert world.state().seed.tolist() == [41, 42, 43]
    one.reset(seed=40)
    assert one.reset()[1]["seed"] == 41


def test_rooms_of_the_nursery_start_their_next_episodes() -> None:
    world = VectorWorld(NurseryRules("orient/empty"), 2)
    world.reset([1, 2])
    lasting = Restarting(world, np.random.default_rng(0))
    for _ in range(world.rules.horizon or 0):
        senses, _, _, truncated, info = lasting.step({})
    assert truncated.all()
    assert lasting.finished == [10, 10]
    begun = lasting.rules.initial(lasting.state().seed)
    assert begun.seed.tolist() != [1, 2]
    assert np.array_equal(senses["sight"], lasting.rules.observe(begun)["sight"])
    assert not np.array_equal(info["final_obs"]["sight"], senses["sight"])


@pytest.mark.parametrize("level", ["orient/sight", "handle/push"])
def test_the_nursery_is_made_by_its_gymnasium_id(level: str) -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]
    module, _, function = project["entry-points"]["gymnasium.envs"]["devmind"].partition(":")
    getattr(import_module(module), function)()  # as gymnasium does with an entry point when it is imported
    env: Any = gymnasium.make("devmind/Nursery-v0", level=level, render_mode="rgb_array", max_ticks=3)
    check_env(env.unwrapped)
    senses, info = env.reset(seed=7)
    same, _ = RulesWorld(NurseryRules(level)).reset(seed=7)
    assert info["seed"] == 7
    assert set(senses) == {"sight", "sound", "body", "periphery"}
    assert all(np.array_equal(senses[name], same[name]) for name in senses)
    assert env.render().dtype == np.uint8
    ends = [env.step(env.action_space.low)[2:4] for _ in range(3)]
    assert ends == [(False, False), (False, False), (False, True)]
    again = env.reset()[1]["seed"]
    env.reset(seed=7)
    assert env.reset()[1]["seed"] == again < EXAM_SEEDS_FROM, (
        "later episodes follow from the seed, and no exam shows them"
    )


def test_flat_world_joins_effectors_in_their_order() -> None:
    world = FlatWorld("orient/sight", senses=["body"], effectors=["move", "look"])
    other: RulesWorld[Any] = RulesWorld(NurseryRules("orient/sight"))
    world.reset(seed=3)
    other.reset(seed=3)
    seen, reward, *_ = world.step(np.array([0.5, -1.0, 0.25], np.float32))
    same, expected, *_ = other.step({"move": np.float32([0.5]), "look": np.float32([-1.0, 0.25])})
    assert set(seen) == {"body"}
    assert np.array_equal(seen["body"], same["body"])
    assert reward == expected
    with pytest.raises(WorldError, match="did you mean 'sight'"):
        FlatWorld("orient/sight", senses=["sigth"])
    with pytest.raises(WorldError, match="'words' is a Text, and a Box was expected"):
        FlatWorld("handle/push", senses=["words"])
    with pytest.raises(WorldError, match="did you mean 'reach'"):
        FlatWorld("raech")


@pytest.mark.slow
def test_stable_baselines_trains_on_the_nursery() -> None:
    from stable_baselines3 import PPO

    register_gymnasium()
    env = gymnasium.make("devmind/Nursery-v0", level="orient/sight", effectors=["look"], max_ticks=8)
    learner = PPO("MultiInputPolicy", env, n_steps=16, batch_size=8, n_epochs=1, seed=1, device="cpu")
    before = [weights.detach().clone() for weights in learner.policy.parameters()]
    learner.learn(32)
    assert learner.num_timesteps == 32
    assert not all(torch.equal(a, b) for a, b in zip(before, learner.policy.parameters(), strict=True))
    assert all(torch.isfinite(weights).all() for weights in learner.policy.parameters())
    action, _ = learner.predict(env.reset(seed=5)[0])
    assert env.action_space.contains(action)
