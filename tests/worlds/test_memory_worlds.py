"""The worlds of the memory tests: the laws of Rules, the teacher who sees the state, and players who do not."""

import numpy as np
import pytest

from devmind.errors import WorldError
from devmind.testing import check_world
from devmind.worlds.memory_len import MemoryLenRules


@pytest.mark.parametrize("rules", [MemoryLenRules("1"), MemoryLenRules("7")], ids=lambda r: f"{r.name}/{r.level}")
def test_laws(rules):
    check_world(rules, ticks=10)


def test_memory_len_shows_the_sign_once_and_asks_n_steps_later():
    rules, seeds = MemoryLenRules("5"), np.arange(40)
    state = rules.initial(seeds)
    assert 8 < state.context.sum() < 32
    shown, asked, earned = [], [], np.zeros(40)
    for tick in range(6):
        shown.append(rules.observe(state)["signal"])
        asked.append(rules.truth(state)["asked"].all())
        assert not rules.outcome(state).terminal.any()
        state = rules.step(state, {"choose": state.context if tick == 5 else 1 - state.context})
        earned += rules.outcome(state).reward
    np.testing.assert_array_equal(shown[0][:, 2], 2 * state.context - 1)
    assert all((signal[:, 2] == 0).all() for signal in shown[1:])
    np.testing.assert_allclose([signal[0, 0] for signal in shown], [1, 0.8, 0.6, 0.4, 0.2, 0], atol=1e-6)
    assert asked == [False] * 5 + [True]
    assert (earned == 1).all()
    assert rules.outcome(state).terminal.all()
    later = rules.step(state, {"choose": state.context})
    assert (rules.outcome(later).reward == 0).all()


@pytest.mark.parametrize("level", ["", "0", "-3", "ten"])
def test_a_length_is_a_positive_whole_number(level):
    with pytest.raises(WorldError, match="is a length such as"):
        MemoryLenRules(level)
