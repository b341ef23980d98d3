"""Descriptions: equal payloads are described equally, keys have length 1, and the hash follows the weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from devmind.agent.agent import Agent
from devmind.agent.describing import COLOURS, Describer, describe, describe_many, encoder_hashes
from devmind.errors import CheckpointError
from devmind.moment import Moment, Sense
from devmind.testing.laws import ATOL

MakeAgent = Callable[..., Agent]


def shown(seed: int = 0, ticks: int = 3) -> dict[str, Sense]:
    rng = np.random.default_rng(seed)
    return {
        "sight": rng.integers(0, 256, (64, 64, 3), dtype=np.uint8),
        "sound": rng.normal(0, 0.1, (1, 1600 * ticks)).astype(np.float32),
    }


def test_description_of_one_tick_has_the_key_of_encode(small_agent: MakeAgent) -> None:
    agent = small_agent()
    senses = shown(ticks=1)
    keys = agent.encode(agent.new_state(), Moment(0.0, senses, first=True)).keys
    for sense, described in describe(agent, senses).items():
        np.testing.assert_allclose(described.vector, keys[sense][0].numpy(), atol=ATOL)


def test_describer_equals_the_agent_bit_for_bit(small_agent: MakeAgent, tmp_path: Path) -> None:
    agent = small_agent().eval()
    agent.save_pretrained(tmp_path)
    alone = Describer.from_pretrained(tmp_path)
    assert encoder_hashes(alone) == encoder_hashes(agent)
    mine, theirs = describe(alone, shown()), describe(agent, shown())
    assert mine.keys() == theirs.keys() == {"sight", "sound"}
    for sense, one in mine.items():
        np.testing.assert_array_equal(one.vector, theirs[sense].vector)
        np.testing.assert_array_equal(one.features, theirs[sense].features)
    (tmp_path / "model.safetensors").write_bytes(b"half")
    with pytest.raises(CheckpointError, match="damaged"):
        Describer.from_pretrained(tmp_path)


def test_features_of_picture_and_sound_have_their_sizes(small_agent: MakeAgent) -> None:
    agent = small_agent()
    described = describe(agent, shown() | {"words": ""})
    assert described.keys() == {"sight", "sound"}
    width = agent.config.width
    assert described["sight"].features.shape == (16 * width + COLOURS,)
    assert described["sound"].features.shape == (3 * 2 * width + 161,)
    for what in described.values():
        assert what.vector.dtype == what.features.dtype == np.float32
        assert np.linalg.norm(what.vector) == pytest.approx(1, abs=1e-5)


def test_sound_features_use_all_whole_ticks_and_their_order(small_agent: MakeAgent) -> None:
    agent, sound = small_agent(), np.asarray(shown(ticks=4)["sound"])

    def features(samples: np.ndarray) -> np.ndarray:
        return describe(agent, {"sound": samples})["sound"].features

    assert np.array_equal(features(sound), features(np.concatenate((sound, sound[:, :900]), 1)))
    assert not np.allclose(features(sound), features(sound[:, :4800]))
    order = np.concatenate((sound[:, 1600:], sound[:, :1600]), 1)
    mean = slice(0, 2 * agent.config.width)
    np.testing.assert_allclose(features(sound)[mean], features(order)[mean], atol=1e-5)
    course = slice(6 * agent.config.width, None)
    assert not np.allclose(features(sound)[course], features(order)[course], atol=0.05), "order is part of a sound"


def test_silence_around_a_sound_is_ignored(small_agent: MakeAgent) -> None:
    agent, sound = small_agent(), np.asarray(shown(ticks=3)["sound"])
    silence, faint = np.zeros((1, 3200), np.float32), sound[:, :1600] / 1000
    alone, within = (
        describe(agent, {"sound": s})["sound"] for s in (sound, np.concatenate((silence, sound, faint), 1))
    )
    assert np.array_equal(alone.features, within.features)
    assert np.array_equal(alone.vector, within.vector)
    pause = np.concatenate((sound, silence, sound), 1)
    assert not np.allclose(describe(agent, {"sound": pause})["sound"].features, alone.features), "a pause is part of it"
    assert np.isfinite(describe(agent, {"sound": silence})["sound"].features).all()


def test_describe_many_equals_single_descriptions(small_agent: MakeAgent) -> None:
    agent = small_agent()
    for sense in ("sight", "sound"):
        values = [shown(seed, ticks=2 + seed)[sense] for seed in range(3)]  # sounds of several lengths
        values += [shown(3)["sound"][:, :samples] for samples in (1, 700, 2000)] if sense == "sound" else []  # type: ignore[index]
        for value, many in zip(values, describe_many(agent, sense, values), strict=True):
            alone = describe(agent, {sense: value})[sense]
            np.testing.assert_allclose(many.vector, alone.vector, atol=1e-5)
            np.testing.assert_allclose(many.features, alone.features, atol=1e-4)


def test_encoder_hash_changes_only_with_its_own_weights(small_agent: MakeAgent) -> None:
    agent = small_agent()
    before = encoder_hashes(agent)
    assert before == encoder_hashes(small_agent())
    with torch.no_grad():
        next(agent.encoder("sight").parameters()).add_(0.01)
    after = encoder_hashes(agent)
    assert {sense for sense in before if before[sense] != after[sense]} == {"sight"}


def test_sound_tokens_are_read_from_the_hidden_layer(small_agent: MakeAgent) -> None:
    agent = small_agent()
    encoded = agent.encode_senses({"sound": torch.from_numpy(np.asarray(shown(ticks=1)["sound"]))[None]})["sound"]
    encoder = agent.encoder("sound")
    tokens = encoder.norm(encoder.net[2](encoded.maps["hidden"][:, :, 0].transpose(1, 2)))
    assert torch.equal(tokens, encoded.tokens)


def test_colour_features_ignore_rotation_and_corners(
    small_agent: MakeAgent,
) -> None:
    agent = small_agent()
    picture = np.zeros((64, 64, 3), np.uint8)
    picture[:, :32], picture[:, 32:] = (220, 30, 30), (30, 60, 200)
    colours = lambda seen: describe(agent, {"sight": seen})["sight"].features[-COLOURS:]  # noqa: E731
    own = colours(picture)
    assert np.linalg.norm(own) == pytest.approx(1, abs=1e-5)
    assert own @ colours(np.rot90(picture).copy()) == pytest.approx(1, abs=0.01)
    assert own @ colours(255 - picture) < 0.1
    framed = picture.copy()
    framed[:4, :4] = framed[-4:, -4:] = 255
    assert own @ colours(framed) == pytest.approx(1, abs=1e-5)
