"""Q-learning's functions against known answers: targets computed by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from devmind.algorithms.q_learning import (
    among,
    epsilon_greedy,
    n_step_returns,
    quantile_huber,
    target,
    td_loss,
)

DISCOUNT = 0.9


def test_n_step_returns_end_with_the_episode_and_the_rollout() -> None:
    reward = torch.tensor([[1.0, 2.0, 4.0, 8.0, 16.0]]).T.repeat(1, 3)
    terminal, last = torch.zeros(5, 3, dtype=torch.bool), torch.zeros(5, 3, dtype=torch.bool)
    last[2, 1] = last[2, 2] = terminal[2, 1] = True  # row 1 terminates after step 2, row 2 is truncated there
    total, factor, until = n_step_returns(reward, terminal, last, discount=0.5, n=3)
    assert total[:, 0].tolist() == [1 + 1 + 1, 2 + 2 + 2, 4 + 4 + 4, 8 + 8, 16]
    assert factor[:, 0].tolist() == [0.125, 0.125, 0.125, 0.25, 0.5]
    assert until[:, 0].tolist() == [2, 3, 4, 4, 4]
    for row in (1, 2):
        assert total[:, row].tolist() == [3, 2 + 2, 4, 8 + 8, 16]
        assert until[:, row].tolist() == [2, 2, 2, 4, 4]
    assert factor[:, 1].tolist() == [0, 0, 0, 0.25, 0.5]
    assert factor[:, 2].tolist() == [0.125, 0.25, 0.5, 0.25, 0.5], "what was cut is worth something still"


@pytest.mark.parametrize("n", [1, 2, 4, 9])
def test_n_step_returns_equal_a_loop(n: int) -> None:
    generator = torch.Generator().manual_seed(n)
    reward = torch.randn(7, 20, generator=generator, dtype=torch.float64)
    terminal = torch.rand(7, 20, generator=generator) < 0.15
    last = terminal | (torch.rand(7, 20, generator=generator) < 0.15)
    total, factor, until = n_step_returns(reward, terminal, last, discount=0.8, n=n)
    for t in range(7):
        for row in range(20):
            earned, k = 0.0, t
            while True:
                earned += 0.8 ** (k - t) * float(reward[k, row])
                if last[k, row] or k == 6 or k - t + 1 == n:
                    break
                k += 1
            assert float(total[t, row]) == pytest.approx(earned)
            assert int(until[t, row]) == k
            assert float(factor[t, row]) == pytest.approx(0.0 if terminal[k, row] else 0.8 ** (k - t + 1))


def test_n_step_returns_of_zero_steps_are_refused() -> None:
    zeros = torch.zeros(2, 1)
    with pytest.raises(ValueError, match="1 step or more; got 0"):
        n_step_returns(zeros, zeros.bool(), zeros.bool(), discount=0.9, n=0)


REWARD, FACTOR = torch.tensor([1.0, 1.0]), torch.tensor([0.5, 0.0])
FIXED = torch.tensor([[[3.0], [7.0], [5.0]], [[torch.inf], [1.0], [2.0]]])
ONLINE = torch.tensor([[9.0, 4.0, 6.0], [0.0, 0.0, 1.0]])


def test_target_is_the_reward_and_the_best_following_value() -> None:
    assert target(REWARD, FACTOR, FIXED).tolist() == [[1 + 0.5 * 7], [1.0]]


def test_double_target_takes_the_action_of_one_network_and_the_value_of_the_other() -> None:
    assert target(REWARD, FACTOR, FIXED, ONLINE).tolist() == [[1 + 0.5 * 3], [1.0]]


def test_target_uses_only_legal_actions() -> None:
    legal = torch.tensor([[True, False, True], [False, False, False]])  # no action is legal after an end
    assert target(REWARD, FACTOR, FIXED, None, legal).tolist() == [[1 + 0.5 * 5], [1.0]]
    assert target(REWARD, FACTOR, FIXED, ONLINE, legal & ~torch.eye(2, 3, dtype=torch.bool)).tolist()[0] == [
        1 + 0.5 * 5
    ]
    assert among(ONLINE, legal).argmax(-1).tolist()[0] == 0


def test_target_quantiles_are_those_of_the_action_with_the_best_mean() -> None:
    value = torch.tensor([[[0.0, 10.0], [4.0, 5.0]]])
    assert target(torch.tensor([1.0]), torch.tensor([0.5]), value).tolist() == [[1.0, 6.0]]


def test_quantile_loss_equals_that_of_the_paper() -> None:
    """Dabney et al. 2018, eq. 10: computed by hand for two quantiles, at 1/4 and 3/4, and one sample at 1.

    Errors are 1 (below, weight 1/4, half a square) and -2 (above, weight |3/4 - 1|, 2 - 1/2 beyond kappa).
    """
    loss = quantile_huber(torch.tensor([[0.0, 3.0]]), torch.tensor([[1.0]]))
    assert float(loss) == pytest.approx(0.25 * 0.5 + 0.25 * 1.5)


def test_quantile_loss_has_its_minimum_at_the_quantiles() -> None:
    wanted = torch.linspace(0, 10, 1001, dtype=torch.float64)[None]
    found = torch.zeros(1, 4, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([found], max_iter=100)

    def again() -> torch.Tensor:
        optimizer.zero_grad()
        loss = quantile_huber(found, wanted, kappa=1e-3).sum()
        loss.backward()
        return loss

    for _ in range(5):
        optimizer.step(again)
    np.testing.assert_allclose(found.detach().numpy()[0], [1.25, 3.75, 6.25, 8.75], atol=0.05)


def test_td_loss_of_one_value_is_the_huber_loss() -> None:
    loss = td_loss(torch.tensor([[0.0], [0.0]]), torch.tensor([[0.5], [3.0]]))
    assert loss.tolist() == [0.125, 2.5]


def test_epsilon_greedy_explores_legal_actions_evenly_and_else_takes_the_best() -> None:
    values = torch.tensor([[1.0, 5.0, 2.0, 9.0]]).repeat(4000, 1)
    legal = torch.tensor([True, True, True, False]).expand(4000, 4)
    done = epsilon_greedy(values, 0.3, torch.Generator().manual_seed(0), legal)
    share = torch.bincount(done, minlength=4) / 4000
    np.testing.assert_allclose(share.numpy(), [0.1, 0.8, 0.1, 0.0], atol=0.03)
    assert (epsilon_greedy(values, 0.0, torch.Generator().manual_seed(0)) == 3).all()
