"""The table: its laws, grasping, carrying, pushing and putting by hand, and what counts as sorted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from devmind.errors import WorldError
from devmind.testing import check_world
from devmind.worlds.tabletop import (
    APART,
    LEVELS,
    MOVED,
    MOVES_BEFORE,
    MOVES_FROM,
    PACE,
    RADIUS,
    SORTED,
    Table,
    TabletopRules,
)

SEEDS = np.arange(200)


def go(rules: TabletopRules, state: Table, aim: np.ndarray, grip: float, ticks: int = 30) -> Table:
    """Move the hand straight to `aim` [N, 2] with the given grip."""
    for _ in range(ticks):
        arm = np.column_stack(((aim - state.hand) / PACE, np.full(len(state), grip)))
        state = rules.step(state, {"arm": arm})
    return state


@pytest.mark.parametrize("level", [*LEVELS, *(level + what for what in (SORTED, MOVED) for level in LEVELS)])
def test_every_level_keeps_the_laws_of_worlds(level: str) -> None:
    check_world(TabletopRules(level))


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(WorldError, match=r"no level 'thre'.*three"):
        TabletopRules("thre")


def test_a_command_that_is_not_finite_is_refused() -> None:
    rules = TabletopRules("two")
    with pytest.raises(WorldError, match="finite"):
        rules.step(rules.initial(SEEDS[:1]), {"arm": np.full((1, 3), np.nan)})


@pytest.mark.parametrize("level", LEVELS)
def test_a_table_begins_with_everything_apart_and_nothing_sorted(level: str) -> None:
    state = TabletopRules(level).initial(SEEDS)
    assert ((state.kinds >= 0).sum(1) == LEVELS[level]).all()
    assert not state.sorted.any()
    for row in range(20):
        spots = np.concatenate((state.hand[row, None], state.things[row, : LEVELS[level]], state.places[row]))
        far = np.linalg.norm(spots[:, None] - spots, axis=-1) + 9 * np.eye(len(spots))
        assert far.min() >= APART
    # There is a place for each thing.
    for kind in (0, 1):
        assert ((state.kinds == kind).sum(1) <= (state.place_kinds == kind).sum(1)).all()


def test_a_begun_table_has_sorted_and_unsorted_things() -> None:
    state = TabletopRules("three" + SORTED).initial(SEEDS)
    done = state.sorted.sum(1)
    assert set(done.tolist()) == {1, 2}
    assert not state.sorted[state.kinds < 0].any()


def test_a_thing_is_grasped_carried_over_others_and_put_down() -> None:
    rules = TabletopRules("two")
    state = rules.initial(SEEDS)
    before = state.things.copy()
    state = go(rules, state, before[:, 0], -1.0)
    np.testing.assert_array_equal(state.things, before)  # an open hand passes over everything
    state = go(rules, state, before[:, 0], 1.0, 1)
    assert (state.held == 0).all()
    state = go(rules, state, before[:, 1], 1.0)
    np.testing.assert_allclose(state.things[:, 0], before[:, 1])
    np.testing.assert_array_equal(state.things[:, 1], before[:, 1])  # what is carried is lifted
    state = go(rules, state, before[:, 1], -1.0, 1)  # put onto the other: both give way
    assert (state.held == -1).all()
    apart = np.linalg.norm(state.things[:, 0] - state.things[:, 1], axis=1)
    assert apart.min() >= 2 * RADIUS - 1e-6


def test_a_closed_hand_grasps_nothing_and_pushes() -> None:
    rules = TabletopRules("two")
    state = rules.initial(SEEDS)
    before = state.things[:, 0].copy()
    state = go(rules, state, state.hand, 1.0, 1)
    state = go(rules, state, before, 1.0)
    assert (state.held == -1).all()
    far = np.linalg.norm(state.things[:, 0] - state.hand, axis=1)
    assert np.quantile(far, 0.1) >= 2 * RADIUS - 1e-3
    assert np.linalg.norm(state.things[:, 0] - before, axis=1).min() > RADIUS


def test_sorted_counts_one_thing_in_each_place_of_its_kind() -> None:
    rules = TabletopRules("two")
    state = rules.initial(SEEDS[:50])
    rows = np.arange(50)
    own = (state.place_kinds == state.kinds[:, [0]]).argmax(1)
    other = (state.place_kinds != state.kinds[:, [0]]).argmax(1)
    right, wrong, both = state.copy(), state.copy(), state.copy()
    right.things[rows, 0] = state.places[rows, own]
    wrong.things[rows, 0] = state.places[rows, other]
    assert right.sorted[:, 0].all()
    assert not wrong.sorted[:, 0].any()
    held = replace(right, held=np.zeros(50, int))
    assert not held.sorted[:, 0].any()  # it must be let go of
    both.kinds[:, 1] = both.kinds[:, 0]
    both.things[rows, 0] = both.things[rows, 1] = state.places[rows, own]
    assert not both.sorted.any()


def test_sorting_the_last_thing_is_rewarded_once_and_ends_the_episode() -> None:
    rules = TabletopRules("two")
    state, reward = rules.initial(SEEDS), np.zeros(len(SEEDS))
    for thing in range(2):
        kind = state.kinds[:, [thing]]
        number = (state.place_kinds[:, :, None] == kind[..., None]).any(-1)
        taken = np.linalg.norm(state.places - state.things[:, [0]], axis=-1) < RADIUS
        place = state.places[np.arange(len(SEEDS)), (number & ~taken).argmax(1)]
        state = go(rules, state, state.things[:, thing].copy(), -1.0, 20)
        state = go(rules, state, state.things[:, thing].copy(), 1.0, 1)
        state = go(rules, state, place, 1.0, 20)
        for _ in range(3):
            state = rules.step(state, {"arm": np.tile([0.0, 0.0, -1.0], (len(SEEDS), 1))})
            reward += rules.outcome(state).reward
    assert (reward == 1).all()
    assert rules.outcome(state).terminal.all()


def test_one_thing_moves_once_to_a_free_spot_and_never_a_held_one() -> None:
    rules = TabletopRules("three" + MOVED)
    state = rules.initial(SEEDS)
    begun, changes = state.things.copy(), np.zeros(len(SEEDS), int)
    still = np.tile([0.0, 0.0, -1.0], (len(SEEDS), 1))
    for tick in range(MOVES_BEFORE):
        before, state = state, rules.step(state, {"arm": still})
        moved = (state.things != before.things).any(-1).sum(1)
        assert ((moved == 1) == (before.moves == tick)).all()
        changes += moved
    assert (changes == 1).all()
    assert MOVES_FROM <= state.moves.min() <= state.moves.max() < MOVES_BEFORE
    far = np.linalg.norm(state.things[:, :3] - begun[:, :3], axis=-1).max(1)
    assert far.min() >= APART
    # What the hand holds stays in it; then another thing moves.
    held = rules.initial(SEEDS)
    held = go(rules, held, held.things[:, 0].copy(), -1.0, 9)
    assert (held.tick < held.moves).all()
    near = np.linalg.norm(held.hand - held.things[:, 0], axis=1) < 0.05
    held = go(rules, held, held.hand, 1.0, MOVES_BEFORE)
    assert near.sum() > 20
    np.testing.assert_allclose(held.things[near, 0], held.hand[near])
