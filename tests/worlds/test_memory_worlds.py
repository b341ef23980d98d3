"""Worlds of the memory tests: the laws of Rules, a teacher that sees the state, and players that do not."""

import numpy as np
import pytest

from devmind.errors import WorldError
from devmind.testing import check_world
from devmind.worlds.memory_len import DISTRACTING, MemoryLenRules
from devmind.worlds.repeat_previous import RepeatPreviousRules
from devmind.worlds.tmaze import AHEAD, BACK, DOWN, UP, TMazeRules

WORLDS = [MemoryLenRules("1"), MemoryLenRules("7"), TMazeRules("1"), TMazeRules("6"), RepeatPreviousRules("easy")]


@pytest.mark.parametrize("rules", WORLDS, ids=lambda rules: f"{rules.name}/{rules.level}")
def test_memory_worlds_keep_the_laws_of_worlds(rules):
    check_world(rules, ticks=10)


def played(rules, n, choose):
    """Returns float64 [N] and the number of steps of whole episodes, played by `choose(senses, truth, tick)`."""
    state, total, tick, over = rules.initial(np.arange(n)), np.zeros(n), 0, False
    while not over:
        state = rules.step(state, {"choose": choose(rules.observe(state), rules.truth(state), tick)})
        outcome = rules.outcome(state)
        total, tick, over = total + outcome.reward, tick + 1, bool((outcome.terminal | outcome.truncated).all())
    later = rules.step(state, {"choose": np.zeros(n, np.int64)})
    assert (rules.outcome(later).reward == 0).all()
    return total, tick


@pytest.mark.parametrize(
    ("rules", "steps"),
    [(MemoryLenRules("5"), 6), (TMazeRules("9"), 10), (RepeatPreviousRules("easy"), 51)],
    ids=["memory_len", "tmaze", "repeat_previous"],
)
def test_the_teacher_earns_the_maximum(rules, steps):
    total, ticks = played(rules, 20, lambda senses, truth, tick: truth["choice"])
    np.testing.assert_allclose(total, 1.0, atol=1e-5)
    assert ticks == steps


def test_memory_len_shows_the_sign_once_and_asks_n_steps_later():
    rules = MemoryLenRules("5")
    state = rules.initial(np.arange(40))
    assert 8 < state.context.sum() < 32
    shown, asked = [], []
    for _ in range(6):
        shown.append(rules.observe(state)["signal"])
        asked.append(rules.truth(state)["asked"].all())
        assert not rules.outcome(state).terminal.any()
        state = rules.step(state, {"choose": 1 - state.context})
    np.testing.assert_array_equal(shown[0][:, 2], 2 * state.context - 1)
    unmeant = np.stack(shown[1:])[..., 2]
    assert 0.3 < np.abs(unmeant).max() <= DISTRACTING < 1
    assert abs(np.corrcoef(unmeant.mean(0), state.context)[0, 1]) < 0.5, "distractors tell nothing of the sign"
    assert len(np.unique(unmeant, axis=1).T) == 40
    np.testing.assert_allclose([signal[0, 0] for signal in shown], [1, 0.8, 0.6, 0.4, 0.2, 0], atol=1e-6)
    assert asked == [False] * 5 + [True]
    assert (rules.outcome(state).reward == -1).all()


def test_the_t_maze_shows_distractors_in_the_corridor_and_the_junction_at_its_end():
    rules = TMazeRules("4")
    state = rules.initial(np.array([3]))
    goal = 2 * int(rules.truth(state)["told"][0]) - 1
    views = []
    for choice in (AHEAD, AHEAD, AHEAD, AHEAD, UP):
        views.append(rules.observe(state)["signal"][0].tolist())
        state = rules.step(state, {"choose": np.array([choice])})
    assert [views[0], views[4]] == [[0, goal], [1, 0]]
    assert all(at_end == 0 and 0 < abs(unmeant) <= DISTRACTING for at_end, unmeant in views[1:4])
    assert len({unmeant for _, unmeant in views[1:4]}) == 3
    assert rules.observe(state)["signal"][0].tolist() == [1, 1]
    assert rules.outcome(state).reward[0] == (goal == 1)


def test_turning_back_in_the_t_maze_costs_and_does_not_show_the_sign_again():
    rules = TMazeRules("10")
    state = rules.initial(np.arange(4))
    state = rules.step(state, {"choose": np.full(4, BACK)})
    assert (np.abs(rules.observe(state)["signal"]) <= DISTRACTING).all()
    np.testing.assert_allclose(rules.outcome(state).reward, -0.01)
    total, ticks = played(rules, 4, lambda senses, truth, tick: np.full(4, DOWN))
    np.testing.assert_allclose(total, -0.1, atol=1e-6)
    assert ticks == 11


def test_corridors_of_a_range_have_every_length_and_their_own_junction():
    rules, seeds = TMazeRules("5-8"), np.arange(60)
    total, ticks = played(rules, 60, lambda senses, truth, tick: truth["choice"])
    np.testing.assert_allclose(total, 1.0, atol=1e-5)
    assert ticks == 9
    state = rules.initial(seeds)
    assert set(state.length.tolist()) == {5, 6, 7, 8}
    np.testing.assert_array_equal(state.goal, TMazeRules("5").initial(seeds).goal)
    for ahead in range(1, 9):
        state = rules.step(state, {"choose": np.full(60, AHEAD)})
        np.testing.assert_array_equal(rules.observe(state)["signal"][:, 0] == 1, state.length <= ahead)
    with pytest.raises(WorldError, match="'8-5' of the world 'tmaze' the first one is the longer"):
        TMazeRules("8-5")


def test_repeat_previous_asks_for_the_card_three_before():
    rules = RepeatPreviousRules("easy")
    state = rules.initial(np.array([5, 6]))
    assert (np.sort(state.suits[0]) == np.repeat(np.arange(4), 13)).all()
    suits = []

    def by_memory(senses, truth, tick):
        suits.append(senses["signal"].argmax(1))
        assert (truth["asked"] == (tick >= 3)).all()
        return suits[tick - 3] if tick >= 3 else np.zeros(2, np.int64)

    total, _ = played(rules, 2, by_memory)
    np.testing.assert_allclose(total, 1.0, atol=1e-5)
    worst, _ = played(rules, 2, lambda senses, truth, tick: (truth["choice"] + 1) % 4)
    np.testing.assert_allclose(worst, -1.0, atol=1e-5)


@pytest.mark.parametrize("rules", [MemoryLenRules, TMazeRules])
@pytest.mark.parametrize("level", ["", "0", "-3", "ten", "²"])
def test_an_invalid_length_is_refused(rules, level):
    with pytest.raises(WorldError, match="is a length such as"):
        rules(level)


def test_an_unknown_level_of_repeat_previous_is_refused():
    with pytest.raises(WorldError, match="did you mean 'easy'"):
        RepeatPreviousRules("eazy")
