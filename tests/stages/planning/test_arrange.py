"""What arrange learns from, the two ways of imagining, and that plans are carried out unchanged."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from devmind.algorithms.diffusion import HybridPipeline, MaskedTokens, TokenDenoiser
from devmind.errors import ConfigError
from devmind.testing.laws import ATOL
from devmind.worlds.tabletop import SORTED, THINGS, Table, TabletopRules
from stages.planning.arrange.demonstrations import (
    CHANNELS,
    HORIZON,
    THERE,
    WORDS,
    arrange_tables,
    plans,
    shuffle_tables,
)
from stages.planning.imagining import Imaginer, scene

SEEDS = np.arange(300)
SMALL = {"width": 32, "layers": 1, "attention_heads": 2}


def tables(level: str = "three", seeds: np.ndarray = SEEDS) -> Table:
    return TabletopRules(level).initial(seeds)


@pytest.mark.parametrize("level", ["two", "three", "three" + SORTED])
def test_shown_plans_sort_everything_when_carried_out(level: str) -> None:
    rng = np.random.default_rng(0)
    done, share = arrange_tables(TabletopRules(level), tables(level), lambda table: plans(table, rng)[0])
    assert done.all()
    assert (share == 1).all()


def test_a_shuffled_table_is_the_same_table() -> None:
    rng = np.random.default_rng(0)
    state, other = tables(), shuffle_tables(tables(), np.random.default_rng(1))
    assert (other.things != state.things).any()
    assert ((other.kinds == 0).sum(1) == (state.kinds == 0).sum(1)).all()
    np.testing.assert_array_equal(np.sort(other.places[..., 0]), np.sort(state.places[..., 0]))
    assert arrange_tables(TabletopRules("three"), other, lambda table: plans(table, rng)[0])[0].all()


def test_points_match_their_symbols_and_every_order_occurs() -> None:
    state = tables()
    points, words = plans(state, np.random.default_rng(0))
    rows = np.arange(len(state))
    for number in range(3):
        np.testing.assert_allclose(points[:, 2 * number, :2], state.things[rows, words[:, 2 * number]], atol=ATOL)
        place = words[:, 2 * number + 1] - THINGS
        np.testing.assert_allclose(points[:, 2 * number + 1, :2], state.places[rows, place], atol=ATOL)
        assert (state.place_kinds[rows, place] == state.kinds[rows, words[:, 2 * number]]).all()
    assert (points[:, :, 2] == np.tile([1.0, -1.0], 3)).all()
    assert len(np.unique(words[:, [0, 2, 4]], axis=0)) == 6
    assert (plans(tables("two"), np.random.default_rng(0))[1][:, 4:] == THERE).all()


def test_plans_for_another_table_sort_nothing() -> None:
    rng = np.random.default_rng(0)
    _, share = arrange_tables(TabletopRules("three"), tables(), lambda table: np.roll(plans(table, rng)[0], 1, axis=0))
    assert share.mean() < 0.05


@pytest.mark.parametrize("with_symbols", [True, False])
def test_plans_with_symbols_and_without_are_learned_and_drawn_by_the_same_code(with_symbols: bool) -> None:
    torch.manual_seed(0)
    imaginer, state = Imaginer(with_symbols, **SMALL), tables(seeds=SEEDS[:64])
    points, words = (torch.from_numpy(part) for part in plans(state, np.random.default_rng(0)))
    seen = scene(state)
    optimizer = torch.optim.Adam(imaginer.parameters(), 3e-3)
    came = []
    for _ in range(60):
        loss = torch.stack(list(imaginer.losses(seen, points, words, torch.Generator().manual_seed(1)).values())).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        came.append(float(loss.detach()))
    assert came[-1] < 0.8 * came[0]
    assert all(parameter.grad is not None for parameter in imaginer.parameters())
    drawn, symbols = imaginer.draw(seen, torch.Generator().manual_seed(1))
    assert drawn.shape == (len(state), HORIZON, CHANNELS)
    assert symbols.shape == words.shape if with_symbols else symbols.shape == (len(state), 0)
    again, _ = imaginer.draw(seen, torch.Generator().manual_seed(1))
    assert torch.equal(drawn, again)


def test_points_and_symbols_may_be_given_in_part() -> None:
    imaginer, seen = Imaginer(**SMALL).eval(), scene(tables())
    point, word = torch.full((len(seen), CHANNELS), 0.25), torch.full((len(seen),), 2)
    points, words = imaginer.draw(seen, torch.Generator().manual_seed(1), {3: point}, {1: word})
    assert torch.equal(points[:, 3], point)
    assert (words[:, 1] == 2).all()
    assert (words < WORDS).all()


def test_things_are_seen_through_attention() -> None:
    """The place of a thing changes points and symbols, and an absent thing changes nothing."""
    torch.manual_seed(0)
    imaginer, state = Imaginer(**SMALL).eval(), tables()
    there, absent = state.copy(), state.copy()
    there.things[:, 0] += 0.1
    absent.things[:, 3] += 0.1
    points, _ = imaginer.draw(scene(state), torch.Generator().manual_seed(1))
    moved, _ = imaginer.draw(scene(there), torch.Generator().manual_seed(1))
    same, _ = imaginer.draw(scene(absent), torch.Generator().manual_seed(1))
    assert (moved != points).flatten(1).any(1).all()
    assert torch.equal(same, points)


def test_points_lie_at_things_and_the_order_of_things_does_not_matter() -> None:
    torch.manual_seed(0)
    denoiser, seen = Imaginer(**SMALL).eval().denoiser, scene(tables())
    present, n = seen.any(-1), len(seen)
    noise, none, words = torch.randn(n, HORIZON, CHANNELS), torch.zeros(n, HORIZON), torch.full((n, HORIZON), WORDS)
    plan = noise, none.bool(), torch.ones(n), words, torch.ones(n)
    with torch.no_grad():
        denoiser.told.weight.zero_()
        denoiser.told.bias.zero_()
        for asked in denoiser.aims.parameters():
            asked *= 1e6
        told, logits = denoiser(*plan, seen, present)
        order = torch.tensor([0, 2, 1, 4, 3, 6, 5, 8, 7])
        same, reordered = denoiser(*plan, seen[:, order], present[:, order])
    apart = (told[:, :, None, :2] - seen[:, None, :, :2]).norm(dim=-1).masked_fill(~present[:, None], torch.inf)
    assert (apart.amin(-1) < 1e-4).float().mean() > 0.95
    near = ((same - told).abs() < 1e-3).float().mean()
    assert near > 0.99
    torch.testing.assert_close(reordered[..., :THERE], logits[..., order[1:] - 1], atol=1e-4, rtol=1e-4)


def test_a_plan_with_fewer_symbols_than_steps_is_refused() -> None:
    with pytest.raises(ConfigError, match="6 symbols or none; got 4"):
        TokenDenoiser(horizon=6, length=4)


@pytest.mark.parametrize("with_symbols", [True, False])
def test_the_surest_candidates_drawn_alone_are_those_of_all_drawn(with_symbols: bool) -> None:
    torch.manual_seed(3)
    imaginer, of, n = Imaginer(with_symbols, **SMALL, steps=3, word_steps=2).eval(), 3, 5
    seen = scene(tables().take(np.arange(n))).repeat_interleave(of, 0)
    chance = imaginer.chance(n * of, torch.Generator().manual_seed(0))
    every = imaginer.drawn(seen, chance)
    best = every.log_prob.unflatten(0, (n, of)).argmax(-1)
    assert not with_symbols or len(set(best.tolist())) > 1
    asked: list[int] = []
    imaginer.denoiser.register_forward_hook(lambda _, given, __: asked.append(len(given[0])))
    surest = imaginer.drawn(seen, chance, of=of)
    chosen = every.rows(of * torch.arange(n) + best)
    torch.testing.assert_close(surest.trajectory, chosen.trajectory, atol=1e-5, rtol=1e-5)
    assert torch.equal(surest.symbols, chosen.symbols)
    torch.testing.assert_close(surest.log_prob, chosen.log_prob)
    assert asked == [n * of] * (2 if with_symbols else 0) + [n] * 3


def test_the_pipeline_of_tokens_loads_bit_equal(tmp_path) -> None:
    imaginer = Imaginer(**SMALL).eval()
    pipeline = HybridPipeline(imaginer.denoiser, imaginer.scheduler, MaskedTokens(WORDS))
    pipeline.save_pretrained(tmp_path)
    loaded = HybridPipeline.from_pretrained(tmp_path)
    seen = scene(tables())
    given = seen, torch.ones(seen.shape[:2], dtype=torch.bool), torch.randn(len(seen), HORIZON, CHANNELS)
    ours, theirs = (each(*given, steps=4, words_first=3) for each in (pipeline, loaded))
    assert torch.equal(ours.trajectory, theirs.trajectory)
    assert torch.equal(ours.symbols, theirs.symbols)
