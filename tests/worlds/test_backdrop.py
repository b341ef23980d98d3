"""Backdrops: moving pictures behind things, in cluttered levels only, as a function of seed and tick."""

from __future__ import annotations

import numpy as np

from devmind.worlds.nursery import NurseryRules
from devmind.worlds.nursery.backdrop import SHARE, hang, layers
from devmind.worlds.nursery.pictures import COUNT, SIDE, bank
from devmind.worlds.nursery.spawning import empty_room
from devmind.worlds.nursery.views import views

SEEDS = np.arange(60)


def test_the_bank_is_full_of_different_pictures() -> None:
    pictures = bank()
    assert pictures.shape == (COUNT, SIDE, SIDE, 3)
    assert len({picture.tobytes() for picture in pictures}) == COUNT
    flat = pictures.reshape(COUNT, -1).std(1)
    assert np.median(flat) > 20


def test_backdrops_cover_walls_and_not_things() -> None:
    rules = NurseryRules("clutter/track")
    hung = rules.initial(SEEDS)
    bare = hung.copy()
    bare.backdrop[:] = False
    assert abs(hung.backdrop.mean() - SHARE) < 0.15
    seen, plain = views(hung), views(bare)
    same = (seen["sight"] == plain["sight"]).all(-1)
    assert np.array_equal(seen["mask"], plain["mask"])
    assert np.array_equal(seen["depth"], plain["depth"])
    assert same[seen["mask"] > 0].all()
    assert same[~hung.backdrop].all()
    assert same[hung.backdrop][seen["mask"][hung.backdrop] == 0].mean() < 0.05


def test_a_turned_head_sees_the_same_picture_shifted() -> None:
    state = empty_room(np.arange(200))
    state = state.take(layers(state, state.tick)[:, 1, 6] == 0)  # one layer only, whose edges nothing covers
    state.backdrop[:] = True
    level = np.zeros(len(state))
    state.hand[:, 2] = -5.0
    ahead = views(state)["sight"]
    turned = state.copy()
    # The middle columns are 60 / 64 degrees apart or a little more, so 15 degrees to the left are about 14 columns.
    turned.pan = level + 15.0
    moved = views(turned)["sight"]
    left_of_ahead = np.abs(moved[:, 20:44, 32].astype(int) - ahead[:, 20:44, 17].astype(int)).mean((1, 2))
    unmoved = np.abs(moved[:, 20:44, 32].astype(int) - ahead[:, 20:44, 32].astype(int)).mean((1, 2))
    assert np.median(left_of_ahead) < 0.5 * np.median(unmoved)


def test_backdrops_move_by_seed_and_tick_alone() -> None:
    state = hang(empty_room(SEEDS))
    later = state.copy()
    later.tick = later.tick + 9
    one, other = layers(state, state.tick), layers(later, later.tick)
    assert np.array_equal(one, layers(state.copy(), state.tick))
    moved = np.abs(other - one)
    assert 0.3 < (moved[:, 0, 1] > 1.0).mean() < 0.9
    assert 0.05 < (moved[:, 0, 0] > 0).mean() < 0.35
    few = np.array([7, 3])
    assert np.array_equal(layers(state.take(few), state.tick[few]), one[few])


def test_other_levels_have_no_backdrops() -> None:
    for level in ("room", "orient/sight", "reach", "startle"):
        assert not NurseryRules(level).initial(SEEDS).backdrop.any()
