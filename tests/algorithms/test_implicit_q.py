"""Implicit Q-learning on a small world whose values are known by value iteration."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from devmind.algorithms.implicit_q import (
    advantage_weights,
    expectile_loss,
    follow,
    q_loss,
    q_target,
    value_loss,
)
from devmind.seeding import numpy_rng

STATES, ACTIONS, DISCOUNT = 6, 3, 0.8


def world() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Next state and reward of each action, [states, actions], deterministic; the last state ends the episode. And the
    policy that made the data, which never takes the last action in even states."""
    rng = numpy_rng("implicit q", 3)
    following, reward = rng.integers(STATES, size=(STATES, ACTIONS)), rng.normal(size=(STATES, ACTIONS))
    policy = 0.2 + rng.random((STATES, ACTIONS))
    policy[::2, -1] = 0.0
    return following, reward, policy / policy.sum(1, keepdims=True), np.arange(STATES) == STATES - 1


def iterated(best: bool) -> np.ndarray:
    """V [states] of the data's policy, or of the best policy among its actions, by value iteration."""
    following, reward, policy, over = world()
    value = np.zeros(STATES)
    for _ in range(500):
        q = reward + DISCOUNT * np.where(over, 0.0, value)[following]
        value = np.where(policy > 0, q, -np.inf).max(1) if best else (policy * q).sum(1)
    return value


def learned(expectile: float, steps: int = 1500) -> tuple[np.ndarray, np.ndarray]:
    """V [states] and Q [states, actions] in tables, learned from the actions of the policy."""
    following, reward, policy, over = world()
    at, did = (torch.from_numpy(x) for x in np.nonzero(policy))
    share = torch.from_numpy(policy)[at, did].float()
    to, earned = torch.from_numpy(following)[at, did], torch.from_numpy(reward)[at, did].float()
    goes_on = torch.where(torch.from_numpy(over)[to], 0.0, DISCOUNT)
    values, twins, slow = nn.Embedding(STATES, 1), *(nn.Embedding(STATES * ACTIONS, 2) for _ in range(2))
    slow.load_state_dict(twins.state_dict())
    optimizer = torch.optim.Adam([*values.parameters(), *twins.parameters()], lr=0.1)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.001, steps)
    of = at * ACTIONS + did
    for _ in range(steps):
        target = q_target(earned, goes_on, values(to).squeeze(-1))
        loss = value_loss(values(at).squeeze(-1), slow(of).T, expectile) + q_loss(twins(of).T, target)
        optimizer.zero_grad()
        (share * loss).sum().backward()
        optimizer.step()
        schedule.step()
        follow(slow, twins, 0.1)
    q = twins.weight.detach().amin(-1).unflatten(0, (STATES, ACTIONS)).numpy()
    return values.weight.detach().squeeze(-1).numpy(), q


def test_high_expectile_finds_the_best_value_of_the_actions_in_the_data() -> None:
    best, own = iterated(best=True), iterated(best=False)
    value, q = learned(0.99)
    assert np.abs(value - best).max() < 0.3
    assert np.abs(best - own).max() > 1.0  # the data's own value is far from it
    following, reward, policy, over = world()
    exact = reward + DISCOUNT * np.where(over, 0.0, best)[following]
    assert np.abs(q - exact)[policy > 0].max() < 0.3
    assert (np.where(policy > 0, q, -np.inf).argmax(1) == np.where(policy > 0, exact, -np.inf).argmax(1)).all()


def test_expectile_of_one_half_finds_the_value_of_the_data_policy() -> None:
    value, _ = learned(0.5)
    assert np.abs(value - iterated(best=False)).max() < 0.05


@pytest.mark.parametrize("expectile", [0.5, 0.9])
def test_expectile_loss_has_its_minimum_at_the_expectile(expectile: float) -> None:
    """For equally frequent 0 and 1, the expectile e is e: e (1 - m) = (1 - e) m."""
    m = torch.tensor(0.3, requires_grad=True)
    for _ in range(400):
        (gradient,) = torch.autograd.grad(expectile_loss(torch.tensor([0.0, 1.0]) - m, expectile).mean(), m)
        m = (m - 0.5 * gradient).detach().requires_grad_()
    assert m.item() == pytest.approx(expectile, abs=1e-4)


def test_targets_get_no_gradient_and_the_lower_twin_counts() -> None:
    value = torch.zeros(2, requires_grad=True)
    twins = torch.tensor([[1.0, -2.0], [3.0, -1.0]], requires_grad=True)
    value_loss(value, twins, 0.9).sum().backward()
    assert twins.grad is None
    torch.testing.assert_close(value.grad, torch.tensor([-2 * 0.9 * 1.0, -2 * 0.1 * -2.0]))
    assert q_target(torch.ones(2), torch.tensor([0.0, 0.5]), torch.tensor([7.0, 4.0])).tolist() == [1.0, 3.0]
    assert q_loss(torch.tensor([[1.0], [2.0]]), torch.tensor([4.0])).tolist() == [9.0 + 4.0]


def test_advantage_weights_are_exponential_and_limited() -> None:
    weights = advantage_weights(torch.tensor([0.0, 1.0, 100.0]), 0.5)
    torch.testing.assert_close(weights, torch.tensor([1.0, float(np.exp(2.0)), 100.0]))
    with pytest.raises(ValueError, match="above 0"):
        advantage_weights(torch.zeros(1), 0.0)
    with pytest.raises(ValueError, match="between 0 and 1"):
        expectile_loss(torch.zeros(1), 1.0)
