"""Descriptions: the same payload is described alike, keys have length 1, and the hash knows when weights change."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from devmind.agent.agent import Agent
from devmind.agent.describing import describe, encoder_hashes
from devmind.moment import Moment, Sense

MakeAgent = Callable[..., Agent]


def shown(seed: int = 0, ticks: int = 3) -> dict[str, Sense]:
    rng = np.random.default_rng(seed)
    return {
        "sight": rng.integers(0, 256, (64, 64, 3), dtype=np.uint8),
        "sound": rng.normal(0, 0.1, (1, 1600 * ticks)).astype(np.float32),
    }


def test_a_single_tick_has_the_key_that_encode_gives(small_agent: MakeAgent) -> None:
    agent = small_agent()
    senses = shown(ticks=1)
    keys = agent.encode(agent.new_state(), Moment(0.0, senses, first=True)).keys
    for sense, described in describe(agent, senses).items():
        np.testing.assert_allclose(described.vector, keys[sense][0].numpy(), atol=1e-6)


def test_a_picture_is_all_its_tokens_and_a_sound_what_its_ticks_are_like(small_agent: MakeAgent) -> None:
    agent = small_agent()
    described = describe(agent, shown() | {"words": ""})
    assert described.keys() == {"sight", "sound"}
    width = agent.config.width
    assert described["sight"].features.shape == (16 * width,)
    assert described["sound"].features.shape == (3 * 2 * width,)
    for what in described.values():
        assert what.vector.dtype == what.features.dtype == np.float32
        assert np.linalg.norm(what.vector) == pytest.approx(1, abs=1e-5)


def test_sound_is_heard_whole_and_a_part_of_a_tick_is_left_out(small_agent: MakeAgent) -> None:
    agent, sound = small_agent(), np.asarray(shown(ticks=4)["sound"])

    def features(samples: np.ndarray) -> np.ndarray:
        return describe(agent, {"sound": samples})["sound"].features

    assert np.array_equal(features(sound), features(np.concatenate((sound, sound[:, :900]), 1)))
    assert not np.allclose(features(sound), features(sound[:, :4800]))
    order = np.concatenate((sound[:, 1600:], sound[:, :1600]), 1)
    mean = slice(0, 2 * agent.config.width)
    np.testing.assert_allclose(features(sound)[mean], features(order)[mean], atol=1e-5)


def test_the_hash_changes_with_the_weights_of_its_own_sense_only(small_agent: MakeAgent) -> None:
    agent = small_agent()
    before = encoder_hashes(agent)
    assert before == encoder_hashes(small_agent())
    with torch.no_grad():
        next(agent.encoder("sight").parameters()).add_(0.01)
    after = encoder_hashes(agent)
    assert {sense for sense in before if before[sense] != after[sense]} == {"sight"}


def test_the_ears_hidden_layer_is_what_its_tokens_are_read_from(small_agent: MakeAgent) -> None:
    agent = small_agent()
    encoded = agent.encode_senses({"sound": torch.from_numpy(np.asarray(shown(ticks=1)["sound"]))[None]})["sound"]
    encoder = agent.encoder("sound")
    tokens = encoder.norm(encoder.net[2](encoded.maps["hidden"][:, :, 0].transpose(1, 2)))
    assert torch.equal(tokens, encoded.tokens)
