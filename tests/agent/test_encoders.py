"""Batches and encoders: token budgets, absence, change, and odd inputs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box

from devmind.agent.agent import Agent
from devmind.agent.batch import collate, collate_recalled, collate_tick, encode_words
from devmind.agent.encoders import default_part
from devmind.agent.prediction import targets
from devmind.errors import MomentError, PluginError
from devmind.moment import Moment
from devmind.testing.laws import ATOL
from tests.agent.conftest import SENSES, make_reading, make_rows

BUDGET = {"sight": 16, "periphery": 1, "sound": 4, "body": 1, "words": 8, "board": 8}


def test_every_sense_keeps_its_token_budget(small_agent: Callable[..., Agent]) -> None:
    encoded = small_agent().encode_batch(collate(make_rows(2, 3, seed=0, absent=0.0))).encoded
    assert {name: value.tokens.shape[-2] for name, value in encoded.items()} == BUDGET
    for value in encoded.values():
        assert value.tokens.shape[:2] == (2, 3)
        assert value.present.shape == value.tokens.shape[:-1]
        assert torch.isfinite(value.tokens).all()


def test_absent_senses_give_no_tokens_and_change_no_other_moment(small_agent: Callable[..., Agent]) -> None:
    agent = small_agent()
    full = make_rows(2, 4, seed=1, absent=0.0)
    holes = [[Moment(m.time_s, {} if t == 2 else m.senses, first=True) for t, m in enumerate(row)] for row in full]
    full = [[Moment(m.time_s, m.senses, first=True) for m in row] for row in full]
    with_all = agent.encode_batch(collate(full)).encoded
    with_holes = agent.encode_batch(collate(holes)).encoded
    others = torch.tensor([0, 1, 3])
    for name in SENSES:
        assert not with_holes[name].present[:, 2].any()
        assert (with_holes[name].tokens[:, 2] == 0).all()
        torch.testing.assert_close(with_holes[name].tokens[:, others], with_all[name].tokens[:, others])


def test_sense_absent_from_the_batch_gives_no_tokens(small_agent: Callable[..., Agent]) -> None:
    agent = small_agent()
    batch = collate([[Moment(0.0, {"body": np.zeros(3, np.float32)}, first=True)]])
    assert set(agent.encode_batch(batch).encoded) == {"body"}
    assert agent.forward(batch, ["guess"])["guess"].mode().shape == (1, 1)


def test_sight_sees_change_only_after_a_picture(small_agent: Callable[..., Agent]) -> None:
    agent, rng = small_agent(), np.random.default_rng(0)
    picture = make_reading("sight", rng)
    other = make_reading("sight", rng)
    moments = [Moment(t / 10, {"sight": p}, first=t == 3) for t, p in enumerate([picture, picture, other, picture])]
    moments += [Moment(0.4, {}), Moment(0.5, {"sight": picture})]
    change = agent.encode_batch(collate([moments])).encoded["sight"].maps["stride1"][0, :, 3:].abs().amax((1, 2, 3))
    # The first picture; the same again; another; an episode's first; (absent); none just before.
    assert [bool(value) for value in change > 0] == [False, False, True, False, False, False]


def test_change_in_stepping_equals_all_at_once_with_absent_sight(small_agent: Callable[..., Agent]) -> None:
    agent = small_agent()
    row = make_rows(1, 12, seed=8, senses=("sight", "body"), absent=0.5)[0]
    at_once = agent.encode_batch(collate([row])).encoded["sight"].tokens
    state = agent.new_state()
    for t, moment in enumerate(row):
        percepts = agent.encode(state, moment)
        if "sight" in moment.senses:
            torch.testing.assert_close(percepts.encoded["sight"].tokens[0], at_once[0, t], atol=ATOL, rtol=0)
        state, _ = agent.step(state, percepts)


def test_pictures_of_another_size_are_area_resized(small_agent: Callable[..., Agent]) -> None:
    agent = small_agent(senses=("sight",))
    small = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    large = small.repeat(2, 0).repeat(2, 1)
    a, b = (agent.encode_batch(collate([[Moment(0.0, {"sight": x})]])).encoded["sight"].tokens for x in (small, large))
    torch.testing.assert_close(a, b, atol=1e-4, rtol=0)


def test_mono_sound_shares_a_batch_with_stereo(small_agent: Callable[..., Agent]) -> None:
    agent = small_agent(senses=("sound",))
    mono = make_reading("sound", np.random.default_rng(0))[:1]
    batch = collate([[Moment(0.0, {"sound": mono})], [Moment(0.0, {"sound": mono.repeat(2, 0)})]])
    assert batch["senses"]["sound"].shape == (2, 1, 2, 1600)
    alone = agent.encode_batch(collate([[Moment(0.0, {"sound": mono})]])).encoded["sound"].tokens
    assert alone.shape == (1, 1, 4, 16)
    assert torch.isfinite(alone).all()
    together = agent.encode_batch(batch).encoded["sound"].tokens
    torch.testing.assert_close(together[:1], alone)
    assert not torch.allclose(together[0], together[1], atol=1e-3), "two ears that hear the same are still two"


def test_sound_of_one_ear_is_recalled_and_predicted_the_same_beside_sound_of_two(
    small_agent: Callable[..., Agent],
) -> None:
    agent, rng = small_agent(senses=("sound",)), np.random.default_rng(1)
    one, two = make_reading("sound", rng)[:1], make_reading("sound", rng)
    alone = agent.encode_recalled(collate_recalled([[({"sound": one}, 1.0)]])).tokens
    beside = agent.encode_recalled(collate_recalled([[({"sound": one}, 1.0), ({"sound": two}, 1.0)]])).tokens
    torch.testing.assert_close(beside[:, :1], alone)
    batch = collate([[Moment(0.0, {"sound": one})], [Moment(0.0, {"sound": two})]])
    torch.testing.assert_close(
        targets(batch["senses"])["next_sound"][:1],
        targets(collate([[Moment(0.0, {"sound": one})]])["senses"])["next_sound"],
    )


def test_encoder_that_does_not_count_ears_gets_the_one_ear_twice(small_agent: Callable[..., Agent]) -> None:
    agent, rng = small_agent(senses=()), np.random.default_rng(2)
    agent.add_encoder("sound", "encoder.series", options={"channels": 2})
    one, two = make_reading("sound", rng)[:1], make_reading("sound", rng)
    beside = agent.encode_batch(collate([[Moment(0.0, {"sound": one})], [Moment(0.0, {"sound": two})]]))
    twice = agent.encode_batch(collate([[Moment(0.0, {"sound": one.repeat(2, 0)})]]))
    torch.testing.assert_close(beside.encoded["sound"].tokens[:1], twice.encoded["sound"].tokens)


def test_missing_body_dimension_differs_from_zero(small_agent: Callable[..., Agent]) -> None:
    agent = small_agent(senses=("body",))
    short, zeros = np.ones(3, np.float32), np.array([1, 1, 1, 0], np.float32)
    batch = collate([[Moment(0.0, {"body": short})], [Moment(0.0, {"body": zeros})]])
    tokens = agent.encode_batch(batch).encoded["body"].tokens
    assert torch.isfinite(tokens).all()
    assert not torch.allclose(tokens[0], tokens[1])
    with pytest.raises(MomentError, match="up to 16 dimensions; got 17"):
        collate([[Moment(0.0, {"body": np.zeros(17, np.float32)})]])


def test_infinite_number_is_absent_and_leaves_later_moments_as_they_are(small_agent: Callable[..., Agent]) -> None:
    agent = small_agent(senses=("body",))
    rows = [[np.array([1, broken], np.float32), np.ones(2, np.float32)] for broken in (np.nan, np.inf, -np.inf)]
    batch = collate([[Moment(t / 10, {"body": body}, first=not t) for t, body in enumerate(row)] for row in rows])
    logits = agent(batch)["guess"].logits
    assert torch.isfinite(logits).all()
    for row in (1, 2):  # rows of a batch may go through kernels that add in another order
        assert torch.allclose(logits[0], logits[row], rtol=0, atol=ATOL)


def test_half_a_character_is_read_as_a_question_mark() -> None:
    for sense in ("words", "text"):
        batch, other = (collate([[Moment(0.0, {sense: text})]]) for text in ("a\ud800b", "a?b"))
        assert torch.equal(batch["senses"][sense], other["senses"][sense])


def test_words_are_never_cut_and_empty_chunks_are_absent(small_agent: Callable[..., Agent]) -> None:
    assert bytes(encode_words("é" * 32)).decode() == "é" * 32
    with pytest.raises(MomentError, match="'words' may have up to 64 bytes in a tick; got 65"):
        encode_words("a" + "é" * 32)
    encoded = small_agent(senses=("words",)).encode_batch(collate([[Moment(0.0, {"words": "ten bytes."})]])).encoded
    assert encoded["words"].present[0, 0].tolist() == [True, True] + [False] * 6
    silent = collate([[Moment(0.0, {"words": ""})]])
    assert not silent["present"]["words"].any()


def test_collate_tick_equals_collate_of_moments(small_agent: Callable[..., Agent]) -> None:
    rng = np.random.default_rng(3)
    readings = [{name: make_reading(name, rng) for name in SENSES} for _ in range(3)]
    readings[1]["words"] = ""
    observation = {
        name: [r[name] for r in readings] if name == "words" else np.stack([r[name] for r in readings])
        for name in SENSES
    }
    tick = collate_tick(observation, np.array([True, False, True]))
    moments = collate([[Moment(0.0, r, first=i != 1)] for i, r in enumerate(readings)])
    for name in SENSES:
        assert torch.equal(tick["present"][name], moments["present"][name])
        same = torch.isclose(tick["senses"][name], moments["senses"][name], equal_nan=True)
        assert same.all()
    assert torch.equal(tick["first"], moments["first"])


def test_collate_names_the_sense_of_unequal_shapes() -> None:
    moments = [[Moment(0.0, {"board": np.zeros((1, n, n), np.int8)})] for n in (3, 9)]
    with pytest.raises(MomentError, match="Sense 'board' must have one shape in a batch"):
        collate(moments)


def test_recalled_entries_are_cut_to_the_budget() -> None:
    entry = ({"body": np.ones(2, np.float32)}, 5.0)
    batch = collate_recalled([[entry] * 6, [entry]])
    assert batch["valid"].tolist() == [[True] * 4, [True, False, False, False]]
    assert batch["age_s"][0].tolist() == [5.0] * 4


def test_custom_senses_get_an_encoder_by_their_space(small_agent: Callable[..., Agent]) -> None:
    agent = small_agent(senses=("body",))
    agent.add_encoder("force", space=Box(-1, 1, (6,)))
    agent.add_encoder("imu", space=Box(-1, 1, (3, 100)))
    agent.add_encoder("thermal", space=Box(0, 255, (32, 32, 1), np.uint8))
    moment = Moment(
        0.0,
        {
            "force": np.ones(6, np.float32),
            "imu": np.ones((3, 100), np.float32),
            "thermal": np.ones((32, 32, 1), np.uint8),
        },
    )
    encoded = agent.encode(agent.new_state(), moment).encoded
    assert {name: value.tokens.shape[-2] for name, value in encoded.items()} == {"force": 1, "imu": 4, "thermal": 16}
    assert agent.sense_order == ["body", "force", "imu", "thermal"]
    with pytest.raises(PluginError, match="No default encoder fits"):
        default_part(Box(0, 1, (2, 2, 2, 2)))
    with pytest.raises(PluginError, match="name its part or give its space"):
        agent.add_encoder("smell")


def test_board_tokens_distinguish_every_cell_at_any_size(small_agent: Callable[..., Agent]) -> None:
    agent = small_agent(senses=("board",))
    for size in (3, 6, 9):
        boards = torch.zeros(size * size, 2, size, size, dtype=torch.int8)
        boards[torch.arange(size * size), 0, torch.arange(size * size) // size, torch.arange(size * size) % size] = 1
        tokens = agent.encode_senses({"board": boards})["board"].tokens.flatten(1)
        distance = torch.cdist(tokens, tokens) + torch.eye(size * size)
        assert distance.min() > 1e-3
        # An untrained encoder distinguishes cells, not only board sizes; otherwise learning starts slowly.
        assert distance.min() > 0.2 / size**2 * tokens.norm(dim=1).mean()
