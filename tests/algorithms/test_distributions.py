"""Our two distributions against torch.distributions, and draws against their own probabilities."""

import pytest
import torch
from torch import distributions

from devmind.algorithms.distributions import Categorical, DiagonalNormal


@pytest.fixture
def draw():
    return torch.Generator().manual_seed(3)


def test_categorical_equals_torch_distributions(draw):
    logits = torch.randn(5, 4, 6, generator=draw, dtype=torch.float64) * 3
    ours, theirs = Categorical(logits), distributions.Categorical(logits=logits)
    action = torch.randint(6, (5, 4), generator=draw)
    torch.testing.assert_close(ours.log_prob(action), theirs.log_prob(action))
    torch.testing.assert_close(ours.entropy(), theirs.entropy())
    assert torch.equal(ours.mode(), theirs.mode)


def test_categorical_draws_have_their_probabilities(draw):
    probs = torch.tensor([0.5, 0.3, 0.2, 0.0])
    sample = Categorical(probs.log().expand(40_000, 4)).sample(draw)
    shares = sample.bincount(minlength=4) / 40_000
    assert torch.allclose(shares, probs, atol=0.01)  # four standard errors
    assert shares[3] == 0


def test_barred_actions_leave_entropy_and_gradient_finite():
    logits = torch.tensor([[0.0, 0.0, float("-inf")]], requires_grad=True)
    choice = Categorical(logits)
    entropy = choice.entropy().sum()
    assert entropy.item() == pytest.approx(torch.log(torch.tensor(2.0)).item())
    (entropy + choice.log_prob(torch.tensor([0])).sum()).backward()
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize("log_std_shape", [(3,), (7, 3)])
def test_diagonal_normal_equals_torch_distributions(draw, log_std_shape):
    mean = torch.randn(7, 3, generator=draw, dtype=torch.float64)
    log_std = torch.randn(log_std_shape, generator=draw, dtype=torch.float64)
    ours = DiagonalNormal(mean, log_std)
    theirs = distributions.Independent(distributions.Normal(mean, log_std.exp()), 1)
    action = ours.sample(draw)
    torch.testing.assert_close(ours.log_prob(action), theirs.log_prob(action))
    torch.testing.assert_close(ours.entropy(), theirs.entropy())
    assert torch.equal(ours.mode(), mean)


def test_diagonal_normal_draws_have_their_moments(draw):
    mean, log_std = torch.tensor([1.0, -2.0]), torch.tensor([0.0, -1.0])
    sample = DiagonalNormal(mean.expand(40_000, 2), log_std).sample(draw)
    assert torch.allclose(sample.mean(0), mean, atol=0.02)
    assert torch.allclose(sample.std(0), log_std.exp(), atol=0.02)


def test_the_same_generator_gives_the_same_draw():
    logits = torch.zeros(100, 5)
    first, second = (Categorical(logits).sample(torch.Generator().manual_seed(1)) for _ in range(2))
    assert torch.equal(first, second)
