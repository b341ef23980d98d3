"""The laws of every Rules world, checked on all levels of the nursery."""

from __future__ import annotations

from dataclasses import fields

import numba
import numpy as np
import pytest

from devmind.errors import WorldError
from devmind.worlds.nursery import LEVELS, NurseryRules
from devmind.worlds.nursery.rules import EFFECTORS

SEEDS = np.array([3, 1_000_007, 42, 11, 2_000_003], np.int64)


def commands(tick: int, rows: slice | np.ndarray = slice(None)) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(tick)
    return {name: rng.uniform(-1, 1, (len(SEEDS), size))[rows] for name, size in EFFECTORS.items()}


@pytest.mark.parametrize("level", LEVELS)
def test_many_children_equal_single_ones(level: str) -> None:
    rules = NurseryRules(level)
    states = [rules.initial(SEEDS[i : i + 1]) for i in range(len(SEEDS))]
    together = rules.initial(SEEDS)
    for tick in range(6):
        senses, truth = rules.observe(together), rules.truth(together)
        for i, alone in enumerate(states):
            for field in fields(alone):
                whole, single = getattr(together, field.name)[i], getattr(alone, field.name)[0]
                assert whole.tobytes() == single.tobytes(), (tick, field.name)
            mine, facts = rules.observe(alone), rules.truth(alone)
            for name in ("sight", "periphery", "body"):
                assert senses[name][i].tobytes() == mine[name][0].tobytes(), (tick, name)
            assert np.abs(senses["sound"][i] - mine["sound"][0]).max() <= 1e-6
            for name, value in facts.items():
                assert truth[name][i].tobytes() == value[0].tobytes(), (tick, name)
        together = rules.step(together, commands(tick))
        states = [rules.step(s, commands(tick, slice(i, i + 1))) for i, s in enumerate(states)]


@pytest.mark.parametrize("level", LEVELS)
def test_observations_lie_in_their_spaces(level: str) -> None:
    rules = NurseryRules(level)
    state = rules.initial(SEEDS)
    for tick in range(3):
        senses = rules.observe(state)
        for i in range(len(SEEDS)):
            assert rules.observation_space.contains({name: value[i] for name, value in senses.items()})
        state = rules.step(state, commands(tick))


def test_step_does_not_change_its_input_state() -> None:
    rules = NurseryRules("room")
    state = rules.step(rules.initial(SEEDS), commands(0))
    kept = state.copy()
    rules.observe(state)
    rules.step(rules.step(state, commands(1)), commands(2))
    for field in fields(state):
        assert np.array_equal(getattr(state, field.name), getattr(kept, field.name)), field.name


def test_a_restored_state_continues_equally() -> None:
    rules = NurseryRules("room")
    state = rules.step(rules.initial(SEEDS), commands(0))
    first = rules.observe(rules.step(state, commands(1)))
    again = rules.observe(rules.step(state.copy(), commands(1)))
    rows = rules.observe(rules.step(state.take([4, 1]), commands(1, np.array([4, 1]))))
    for name in first:
        assert np.array_equal(first[name], again[name])
        assert np.array_equal(first[name][[4, 1]], rows[name])


def test_the_number_of_threads_changes_nothing() -> None:
    rules = NurseryRules("room")
    used = numba.get_num_threads()
    try:
        seen = []
        for threads in (1, min(2, numba.config.NUMBA_NUM_THREADS)):
            numba.set_num_threads(threads)
            seen.append(rules.observe(rules.step(rules.initial(SEEDS), commands(0))))
    finally:
        numba.set_num_threads(used)
    assert all(np.array_equal(seen[0][name], seen[1][name]) for name in seen[0])


def test_the_renderer_compiles_one_signature_and_renders_once_per_state(monkeypatch: pytest.MonkeyPatch) -> None:
    from devmind.worlds.nursery import raster, views

    rules = NurseryRules("room")
    state = rules.initial(SEEDS)
    calls = []
    draw = views._raster()
    monkeypatch.setattr(views, "_raster", lambda: lambda *a: (calls.append(1), draw(*a)))
    rules.observe(state)
    rules.truth(state)
    rules.step(state, {})
    assert len(calls) == 2  # the fovea and the wide view
    assert len(raster.draw.signatures) == 1


def test_an_ended_child_earns_nothing_more() -> None:
    rules = NurseryRules("orient/sight")
    state = rules.initial(SEEDS)
    for tick in range(rules.horizon):
        assert not rules.outcome(state).truncated.any()
        state = rules.step(state, commands(tick))
    assert rules.outcome(state).truncated.all()
    after = rules.outcome(rules.step(state, commands(99)))
    assert after.truncated.all()
    assert not after.reward.any()


def test_errors_name_the_wrong_input() -> None:
    with pytest.raises(WorldError, match="did you mean 'orient/sight'"):
        NurseryRules("orient/sigt")
    rules = NurseryRules("room")
    state = rules.initial(SEEDS)
    with pytest.raises(WorldError, match="no effector 'lok'"):
        rules.step(state, {"lok": np.zeros((5, 2))})
    with pytest.raises(WorldError, match=r"5 rows of 2.*\[5, 3\]"):
        rules.step(state, {"look": np.zeros((5, 3))})
    with pytest.raises(WorldError, match="not finite"):
        rules.step(state, {"look": np.full((5, 2), np.nan)})


def test_rows_put_into_an_observed_state_are_seen() -> None:
    rules = NurseryRules("room")
    state, other = rules.initial(SEEDS[:2]), rules.initial(SEEDS[2:3])
    rules.observe(state)
    state.put([0], other)
    for name, value in rules.observe(state).items():
        assert np.array_equal(value[0], rules.observe(other)[name][0]), name
