"""CartPole's Rules against Gymnasium's CartPole-v1, and the laws of Rules."""

import gymnasium
import numpy as np
import pytest

from devmind.errors import WorldError
from devmind.worlds.cartpole import CartPoleRules

RULES = CartPoleRules()


def balance(body):
    return int(body[2] + 0.3 * body[3] + 0.02 * body[0] + 0.05 * body[1] > 0)


def at_random(body):
    return int(np.abs(body).sum() * 1e6) % 2


@pytest.mark.parametrize("policy", [balance, at_random])
@pytest.mark.parametrize("seed", [0, 7, 123_456])
def test_trajectories_and_endings_equal_gymnasiums(policy, seed):
    theirs = gymnasium.make("CartPole-v1")
    body, _ = theirs.reset(seed=seed)
    state = RULES.initial(np.array([seed]))
    np.testing.assert_allclose(RULES.observe(state)["body"][0], body, atol=1e-7)
    steps, terminal, truncated = 0, False, False
    while not (terminal or truncated):
        push = policy(body)
        body, reward, terminal, truncated, _ = theirs.step(push)
        state = RULES.step(state, {"push": np.array([push])})
        outcome, steps = RULES.outcome(state), steps + 1
        np.testing.assert_allclose(RULES.observe(state)["body"][0], body, atol=1e-6)
        assert (outcome.reward[0], outcome.terminal[0], outcome.truncated[0]) == (reward, terminal, truncated)
    assert steps == 500 if policy is balance else steps < 200
    assert truncated == (policy is balance)


def test_children_stepped_together_equal_single_ones_and_the_input_state_is_unchanged():
    seeds, pushes = np.arange(6), np.random.default_rng(0).integers(0, 2, (60, 6))
    together = RULES.initial(seeds)
    singles = [RULES.initial(seeds[i : i + 1]) for i in range(6)]
    for push in pushes:
        before = together.copy()
        following = RULES.step(together, {"push": push})
        assert all(np.array_equal(a, b) for a, b in zip(vars(together).values(), vars(before).values(), strict=True))
        together = following
        singles = [RULES.step(s, {"push": push[i : i + 1]}) for i, s in enumerate(singles)]
    for name, values in vars(together).items():
        np.testing.assert_array_equal(values, np.concatenate([getattr(s, name) for s in singles]))


def test_an_ended_child_stays_and_earns_nothing():
    state = RULES.initial(np.array([0]))
    assert RULES.outcome(state).reward[0] == 0
    earned = 0.0
    for _ in range(100):
        state = RULES.step(state, {"push": np.array([1])})
        earned += RULES.outcome(state).reward[0]
    assert RULES.outcome(state).terminal[0]
    assert earned == RULES.truth(state)["survived"][0] < 15
    later = RULES.step(state, {"push": np.array([0])})
    assert np.array_equal(RULES.truth(later)["motion"], RULES.truth(state)["motion"])


def test_observations_and_actions_fit_their_spaces():
    body = RULES.observe(RULES.initial(np.arange(3)))["body"]
    assert RULES.observation_space["body"].contains(body[0])
    assert RULES.action_space["push"].n == 2
    assert RULES.legal(RULES.initial(np.arange(3))) == {}


def test_the_pole_leans_further_without_a_push():
    state = RULES.initial(np.array([1]))
    state.angle_rad[:], state.turn_rad_s[:], state.speed[:] = 0.05, 0.0, 0.0
    after = RULES.step(RULES.step(state, {}), {})
    assert after.angle_rad[0] > 0.05


def test_another_level_is_refused():
    with pytest.raises(WorldError, match="one level"):
        CartPoleRules("hard")
