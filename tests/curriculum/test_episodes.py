"""Identities of episodes: equal for copies and different for other content, whatever the seed."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from devmind import worlds
from devmind.curriculum.episodes import identities, of_worlds, per_episode
from devmind.errors import ExamError


def test_rows_of_equal_content_have_one_identity() -> None:
    board = np.arange(24, dtype=np.int8).reshape(4, 6)
    board[3] = board[1]
    words = ["red", "green", "blue", "green"]
    of = identities({"board": board, "words": words})
    assert of.dtype == np.int64
    assert of[1] == of[3]
    assert len(set(of)) == 3
    assert identities({"words": words[::-1], "board": torch.from_numpy(board[::-1].copy())})[0] == of[3]
    assert identities({"board": board, "words": ["red", "green", "blue", "black"]})[3] != of[3]
    assert identities({"bird": board, "words": words})[0] != of[0]
    assert identities({"board": board.astype(np.int64), "words": words})[0] != of[0]


def test_two_seeds_of_an_equal_world_are_one_episode() -> None:
    decks = of_worlds(worlds.make, "repeat_previous", "easy", np.arange(200))
    assert len(set(decks)) == 200
    rooms = of_worlds(worlds.make, "nursery", "orient/sight", np.array([3, 4, 3]))
    assert rooms[0] == rooms[2] != rooms[1]
    assert of_worlds(worlds.make, "nursery", "orient/sound", np.array([3]))[0] != rooms[0]


def test_episodes_of_environments_that_are_objects_are_told_apart_by_what_is_sensed() -> None:
    """By where the objects lie in memory, no episode would ever be a copy of another."""
    poles = of_worlds(worlds.make, "gymnasium", "CartPole-v1", np.array([5, 6, 5]))
    assert poles[0] == poles[2] != poles[1]
    lakes = of_worlds(worlds.make, "gymnasium", "FrozenLake-v1", np.arange(3))
    assert len(set(lakes)) == 1, "all begin in one corner"
    state = worlds.make("gymnasium", "CartPole-v1", [5, 5]).state()
    with pytest.raises(ExamError, match="'env' holds Python objects"):
        identities({"env": state.env})


def test_means_per_episode_keep_the_order_of_first_occurrence() -> None:
    values, episodes = np.array([1.0, 0.0, 0.5, 0.0, 1.0]), np.array([9, -4, 9, 2, 9])
    np.testing.assert_allclose(per_episode(values, episodes), [2.5 / 3, 0.0, 0.0])
    assert per_episode(values, None) is values
