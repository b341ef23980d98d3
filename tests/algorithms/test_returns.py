"""Advantages and returns: known answers, plain loops as the second implementation, and masks."""

import pytest
import torch

from devmind.algorithms.returns import generalized_advantages


def column(*values, dtype=torch.float64):
    return torch.tensor(values, dtype=dtype).unsqueeze(1)


def random_rollout(seed, length=23, n=7):
    draw = torch.Generator().manual_seed(seed)
    reward, value, next_value = torch.randn(3, length, n, generator=draw, dtype=torch.float64)
    terminal = torch.rand(length, n, generator=draw) < 0.1
    last = terminal | (torch.rand(length, n, generator=draw) < 0.1)
    return reward, value, next_value, terminal, last


def test_two_steps_to_a_terminal_have_the_advantage_computed_by_hand():
    terminal = column(False, True, dtype=torch.bool)
    advantage, target = generalized_advantages(
        column(1, 1), column(0.5, 0.25), column(0.25, 99), terminal, terminal, discount=0.5, gae_lambda=0.5
    )
    # errors: 1 + 0.5 * 0.25 - 0.5 = 0.625 and 1 - 0.25 = 0.75; first advantage 0.625 + 0.25 * 0.75
    assert advantage.squeeze(1).tolist() == [0.8125, 0.75]
    assert target.squeeze(1).tolist() == [1.3125, 1.0]


def test_truncated_step_bootstraps_and_cuts_the_trace():
    no, last = column(False, False, dtype=torch.bool), column(True, False, dtype=torch.bool)
    advantage, _ = generalized_advantages(
        column(1, 5), column(0, 0), column(10, 0), no, last, discount=0.9, gae_lambda=0.95
    )
    assert advantage.squeeze(1).tolist() == [10.0, 5.0]


@pytest.mark.parametrize(("seed", "gae_lambda"), [(0, 0.8), (1, 0.8), (2, 1.0)])
def test_advantages_equal_plain_loops(seed, gae_lambda):
    reward, value, next_value, terminal, last = random_rollout(seed)
    advantage, target = generalized_advantages(
        reward, value, next_value, terminal, last, discount=0.97, gae_lambda=gae_lambda
    )
    length, n = reward.shape
    for row in range(n):
        for start in range(length):
            total, weight = 0.0, 1.0
            for t in range(start, length):
                after = 0.0 if terminal[t, row] else float(next_value[t, row])
                total += weight * (float(reward[t, row]) + 0.97 * after - float(value[t, row]))
                weight *= 0.97 * gae_lambda
                if last[t, row]:
                    break
            assert advantage[start, row].item() == pytest.approx(total, abs=1e-12)
    assert torch.equal(target, advantage + value)


def test_masked_steps_are_zero_and_change_no_others_even_if_nan():
    reward, value, next_value, terminal, last = random_rollout(0)
    last[10] = True
    mask = torch.ones_like(last)
    mask[11:] = False
    for tensor in (reward, value, next_value):
        tensor[11:] = float("nan")
    advantage, target = generalized_advantages(
        reward, value, next_value, terminal, last, discount=0.9, gae_lambda=0.9, mask=mask
    )
    short, _ = generalized_advantages(
        reward[:11], value[:11], next_value[:11], terminal[:11], last[:11], discount=0.9, gae_lambda=0.9
    )
    assert torch.equal(advantage[:11], short)
    assert not advantage[11:].any()
    assert not target[11:].any()
    assert advantage.isfinite().all()
