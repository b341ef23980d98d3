"""Search rules: known optima, elites, members set aside, the same generation twice."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from devmind.algorithms.evolution import RULES, around, genetic, ranked, strategy
from devmind.errors import ConfigError

GOAL = torch.tensor([1.5, -2.0, 0.5, 3.0, 0.0, -1.0])


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def distance(members: Tensor) -> Tensor:
    return (members - GOAL).square().sum(1)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("ill", [False, True])
def test_a_search_comes_to_the_goal_also_where_members_are_set_aside(rule: str, ill: bool) -> None:
    members, spreads = around(torch.zeros(6), 0.5, 61, generator())
    for step in range(120):
        fitness = -distance(members)
        if ill:
            fitness[step % 7 :: 9] = torch.nan
        members, spreads = RULES[rule](members, spreads, fitness, generator(step))
    assert distance(members).min() < 0.01
    assert members.shape == (61, 6)
    assert (spreads > 0).all()


def test_elites_stand_first_and_unchanged_and_equal_ones_keep_their_order() -> None:
    members, spreads = around(torch.zeros(3), 1.0, 100, generator())
    fitness = torch.zeros(100)
    fitness[[40, 7]] = torch.tensor([2.0, 1.0])
    after, _ = genetic(members, spreads, fitness, generator(1))
    assert torch.equal(after[:2], members[[40, 7]])
    assert not any(bool((row == members).all(1).any()) for row in after[2:])
    assert ranked(torch.tensor([1.0, 2.0, 2.0, torch.nan, -torch.inf, 0.0])).tolist() == [1, 2, 0, 5, 3, 4]


def test_a_member_without_a_fitness_has_no_children() -> None:
    members = torch.arange(10.0)[:, None] * 100
    fitness = torch.full((10,), torch.nan)
    fitness[3] = -5.0
    after, _ = genetic(members, torch.full((10,), 0.1), fitness, generator())
    assert ((after - 300.0).abs() < 2.0).all()


def test_mirrored_members_have_their_centre_as_mean() -> None:
    for count in (8, 9):
        members, _ = around(GOAL, 0.3, count, generator())
        torch.testing.assert_close(members.mean(0), GOAL)
    a, b = (strategy(members, torch.full((9,), 0.3), -distance(members), generator(4))[0] for _ in range(2))
    assert torch.equal(a, b)


def test_a_generation_without_a_finite_fitness_is_refused() -> None:
    with pytest.raises(ConfigError, match="None of the 4 members has a finite fitness"):
        ranked(torch.full((4,), torch.nan))
