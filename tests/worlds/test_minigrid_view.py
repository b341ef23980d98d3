"""The view in MiniGrid's rooms against MiniGrid's own."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

pytest.importorskip("minigrid")

from minigrid.minigrid_env import MiniGridEnv

from devmind.worlds.minigrid import PICKUP, env_of, image, room

ROOMS = (
    "BabyAI-PickupLoc-v0",
    "BabyAI-BossLevel-v0",
    "MiniGrid-MemoryS7-v0",
    "MiniGrid-DoorKey-8x8-v0",
    "MiniGrid-Dynamic-Obstacles-6x6-v0",
)
"""Things that lie about, doors open and closed, a small view, a key, what moves by itself."""
ACTIONS = 7


def as_minigrid_sees(env: Any) -> np.ndarray:
    return MiniGridEnv.gen_obs(env)["image"]


@pytest.mark.parametrize("name", ROOMS)
def test_each_view_equals_minigrids(name) -> None:
    world, rng, carried = room(name), np.random.default_rng(0), 0
    for seed in range(4):
        world.reset(seed=seed)
        for _ in range(60):
            env = env_of(world)
            expected = as_minigrid_sees(env)
            seen = image(env)
            assert (seen.shape, seen.dtype) == (expected.shape, expected.dtype)
            np.testing.assert_array_equal(seen, expected)
            carried += env.carrying is not None
            *_, terminated, truncated, _ = world.step({"choose": np.array(rng.integers(ACTIONS))})
            if terminated or truncated:
                break
    assert carried or name not in ROOMS[:2]  # a carried thing was seen too


def test_seeing_through_walls_shows_the_whole_view() -> None:
    world = room("BabyAI-GoTo-v0")
    world.reset(seed=1)
    env = env_of(world)
    hidden = int((image(env)[..., 0] == 0).sum())
    env.see_through_walls = True
    np.testing.assert_array_equal(image(env), as_minigrid_sees(env))
    assert hidden > int((image(env)[..., 0] == 0).sum()) == 0


def test_a_patched_room_observes_as_minigrid_does() -> None:
    world = room("BabyAI-GoToLocal-v0")
    world.reset(seed=3)
    env = env_of(world)
    expected, told = MiniGridEnv.gen_obs(env), env.gen_obs()
    assert told.keys() == expected.keys()
    assert (told["direction"], told["mission"]) == (expected["direction"], expected["mission"])
    np.testing.assert_array_equal(told["image"], expected["image"])


def test_a_copied_room_shows_its_own_state() -> None:
    world = room("BabyAI-PickupLoc-v0")
    world.reset(seed=0)
    twin = copy.deepcopy(world)
    before = env_of(world).gen_obs()["image"]
    env_of(twin).agent_dir = (env_of(twin).agent_dir + 2) % 4
    twin.step({"choose": np.array(PICKUP)})
    np.testing.assert_array_equal(env_of(world).gen_obs()["image"], before)
    np.testing.assert_array_equal(env_of(twin).gen_obs()["image"], as_minigrid_sees(env_of(twin)))
    assert (env_of(twin).gen_obs()["image"] != before).any()
