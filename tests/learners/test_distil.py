"""Distances of answers: what belongs to each Moment is compared, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from devmind.agent.output import Output
from devmind.learners.distil import answer_tensors, distance


@dataclass
class Found(Output):
    """What a head found: whether something is there [B, T], where [B, T, 3, 2], and the grid of all places [9, 2]."""

    there: Tensor
    where: Tensor
    grid: Tensor


def test_numbers_of_each_moment_are_compared_and_a_grid_of_places_is_not() -> None:
    """Regression: a night of size nursery ended in an IndexError, since such a grid has no Moments."""
    grid = torch.rand(9, 2)
    one, other = (Found(torch.full((2, 5), x), torch.full((2, 5, 3, 2), x), grid) for x in (0.0, 1.0))
    wanted = answer_tensors(one, torch.Size((2, 5)))
    assert set(wanted) == {"there", "where"}
    assert torch.equal(distance(other, wanted), torch.ones(2, 5))
    assert torch.equal(distance(one, wanted), torch.zeros(2, 5))
    one.there.add_(1)
    assert not wanted["there"].any(), "a copy"
