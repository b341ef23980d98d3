"""The PPO loss by hand and by plain loops, the order of minibatches, and a bandit to solve."""

import math

import pytest
import torch

from devmind.agent.output import Categorical
from devmind.algorithms.ppo import minibatches, normalize, policy_change, ppo_loss


def test_loss_of_two_steps_worked_out_by_hand():
    # Ratios 1.5 (advantage 2, clipped to 1.2) and 0.5 (advantage -1, clipped to 0.8): surrogates 2.4 and -0.8.
    loss = ppo_loss(
        torch.tensor([1.5, 0.5]).log(), torch.zeros(2), torch.tensor([2.0, -1.0]),
        torch.tensor([1.0, 3.0]), torch.tensor([0.0, 1.0]), torch.tensor([0.25, 0.75]),
        clip=0.2, value_weight=0.5, entropy_weight=0.1,
    )  # fmt: skip
    assert loss.policy.item() == pytest.approx(-0.8)
    assert loss.value.item() == pytest.approx(2.5)
    assert loss.entropy.item() == pytest.approx(0.5)
    assert loss.total.item() == pytest.approx(-0.8 + 0.5 * 2.5 - 0.1 * 0.5)


def test_policy_loss_equals_plain_loops():
    draw = torch.Generator().manual_seed(0)
    new, old, advantage = torch.randn(3, 50, generator=draw, dtype=torch.float64)
    zeros = torch.zeros(50, dtype=torch.float64)
    loss = ppo_loss(new, old, advantage, zeros, zeros, zeros, clip=0.3)
    total = 0.0
    for n, o, a in zip(new.tolist(), old.tolist(), advantage.tolist(), strict=True):
        ratio = math.exp(n - o)
        total += min(ratio * a, min(max(ratio, 0.7), 1.3) * a)
    assert loss.policy.item() == pytest.approx(-total / 50)


def test_gradient_vanishes_where_the_clip_binds_and_is_the_policy_gradient_at_the_old_policy():
    advantage, zeros = torch.tensor([1.0, -1.0, 2.0]), torch.zeros(3)
    new = torch.tensor([0.5, -0.5, 0.0], requires_grad=True)
    ppo_loss(new, zeros, advantage, zeros, zeros, zeros, clip=0.2).total.backward()
    torch.testing.assert_close(new.grad, torch.tensor([0.0, 0.0, -2 / 3]))


def test_policy_change_approaches_the_true_divergence():
    old, new = torch.tensor([0.5, 0.5]), torch.tensor([0.6, 0.4])
    action = (torch.arange(100_000) % 2).long()  # exactly half each, as the old policy draws them
    kl, clipped = policy_change(new.log()[action], old.log()[action], clip=0.15)
    assert kl.item() == pytest.approx((old * (old / new).log()).sum().item(), rel=1e-3)
    assert clipped.item() == 1.0
    assert policy_change(old.log(), old.log(), clip=0.15)[0].item() == 0.0


def test_normalize_counts_only_the_steps_in_the_mask():
    draw = torch.Generator().manual_seed(0)
    advantage = torch.randn(6, 4, generator=draw) * 5 + 3
    mask = torch.rand(6, 4, generator=draw) < 0.6
    advantage[~mask] = 1e6
    scaled = normalize(advantage, mask)
    assert scaled[mask].mean().abs() < 1e-6
    assert scaled[mask].std(correction=0).item() == pytest.approx(1.0, abs=1e-5)
    assert not scaled[~mask].any()
    torch.testing.assert_close(scaled[mask], normalize(advantage[mask]))
    assert not normalize(torch.full((4,), 7.0)).any()


def test_each_epoch_draws_every_valid_step_once():
    mask = torch.rand(9, 5, generator=torch.Generator().manual_seed(2)) < 0.7
    valid = mask.flatten().nonzero().squeeze(1)
    chunks = list(minibatches(mask, 3, 4, torch.Generator().manual_seed(0)))
    assert len(chunks) == 12
    assert max(map(len, chunks)) - min(map(len, chunks)) <= 1
    epochs = [torch.cat(chunks[4 * e : 4 * e + 4]) for e in range(3)]
    assert all(torch.equal(epoch.sort().values, valid) for epoch in epochs)
    assert not torch.equal(epochs[0], epochs[1])


def test_equal_seeds_give_equal_minibatches_and_few_steps_give_fewer():
    mask = torch.ones(4, 3, dtype=torch.bool)
    first, second = (list(minibatches(mask, 2, 3, torch.Generator().manual_seed(5))) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert [len(c) for c in minibatches(mask[:1, :2], 1, 4, torch.Generator())] == [1, 1]


def test_ppo_solves_a_bandit():
    draw = torch.Generator().manual_seed(0)
    logits = torch.zeros(4, requires_grad=True)
    optimizer = torch.optim.Adam([logits], lr=0.1)
    worth, zeros = torch.tensor([0.0, 1.0, 0.2, 0.5]), torch.zeros(64)
    for _ in range(30):
        with torch.no_grad():
            old = Categorical(logits.expand(64, 4))
            action = old.sample(draw)
            old_log_prob = old.log_prob(action)
        for index in minibatches(torch.ones(64, 1, dtype=torch.bool), 4, 1, draw):
            new = Categorical(logits.expand(64, 4))
            advantage = normalize(worth[action])[index]
            loss = ppo_loss(
                new.log_prob(action)[index], old_log_prob[index], advantage, zeros, zeros, new.entropy(), clip=0.2
            )
            optimizer.zero_grad()
            loss.total.backward()
            optimizer.step()
    assert logits.softmax(0)[1] > 0.95
