"""The level `fetch`: things are seen, then hidden, then one is asked for by its colour."""

from __future__ import annotations

import numpy as np

from devmind.worlds.nursery import NurseryRules
from devmind.worlds.nursery.fetching import ASKS_FROM, SCREEN, SEEN_TICKS
from devmind.worlds.nursery.state import COLOUR_NAMES

SEEDS = np.arange(60)


def test_things_are_shown_then_the_screen_alone_then_one_is_named() -> None:
    rules = NurseryRules("fetch")
    state = rules.initial(SEEDS)
    things = state.present.copy()
    things[:, SCREEN] = False
    for tick in range(ASKS_FROM + 2):
        truth, words = rules.truth(state), rules.cues(state)
        if tick < SEEN_TICKS:
            assert (truth["visible"][things] > 0).mean() > 0.97, "one may stand behind another"
            assert (truth["visible"][:, SCREEN] == 0).all()
        else:
            assert (truth["visible"][:, SCREEN] == 64 * 64).all(), "neither things, nor hand, nor room"
        named = [COLOUR_NAMES[c] for c in truth["colour"][np.arange(len(SEEDS)), truth["target"]]]
        assert words == (named if tick >= ASKS_FROM else [""] * len(named))
        state = rules.step(state, {})


def test_the_screen_hides_everything_behind_it() -> None:
    """Two rooms that differ in where their things are look alike once these are covered, and so do their hands."""
    rules = NurseryRules("fetch")
    one = rules.initial(SEEDS[:8])
    other = one.copy()
    other.position[:, :4, 1] *= -1
    for _ in range(SEEN_TICKS + 1):
        one, other = rules.step(one, {}), rules.step(other, {})
    for name, sensed in rules.observe(one).items():
        np.testing.assert_array_equal(sensed, rules.observe(other)[name], err_msg=name)


def test_the_hand_is_held_still_until_something_is_asked_for() -> None:
    rules = NurseryRules("fetch")
    told = free = rules.initial(SEEDS[:8])
    for tick in range(ASKS_FROM + 1):
        np.testing.assert_array_equal(told.hand, free.hand, err_msg=str(tick))
        np.testing.assert_array_equal(rules.observe(told)["body"], rules.observe(free)["body"])
        told, free = rules.step(told, {"reach": np.full((8, 4), 0.5)}), rules.step(free, {})
    assert (told.hand[:, 0] > free.hand[:, 0]).all(), "from then on it moves"
    assert (told.grip == 0.5).all()
    reach = NurseryRules("reach")
    state = reach.initial(SEEDS[:8])
    assert (reach.step(state, {"reach": np.full((8, 4), 0.5)}).hand != state.hand).any(), "elsewhere nobody holds it"


def test_the_hand_moves_freely_behind_the_screen_and_the_first_touch_ends_the_episode() -> None:
    rules = NurseryRules("fetch")
    state = rules.initial(SEEDS)
    way = np.zeros((len(SEEDS), 4))
    for _ in range(ASKS_FROM + 1):
        state = rules.step(state, {"reach": way})
        assert not state.touch.any()
    target = state.position[np.arange(len(SEEDS)), state.target]
    for _ in range(12):
        off = (target - state.hand) / 0.1
        before_it = np.abs(off[:, 1:]).max(1) < 0.3
        off[:, 0] = np.where(before_it, off[:, 0], np.minimum(0, (0.33 - state.hand[:, 0]) / 0.1))
        way[:, :3] = np.where(state.terminal[:, None], 0, off.clip(-1, 1))
        state = rules.step(state, {"reach": way})
    assert state.terminal.all()
    assert rules.truth(state)["success"].mean() > 0.95
