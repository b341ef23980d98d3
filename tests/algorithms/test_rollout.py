"""Rollouts as tensors: rows count time first, and the next step's value replaces a missing one."""

import pytest
import torch

from devmind.algorithms.rollout import next_values, rows, stack


@pytest.mark.parametrize("shape", [(4, 3), (4, 3, 2)])
def test_rows_count_time_first(shape):
    tensor = torch.arange(torch.tensor(shape).prod().item()).reshape(shape)
    assert torch.equal(rows(tensor, torch.tensor([5])), tensor[1, 2].unsqueeze(0))


def test_senses_and_effectors_may_be_dicts():
    trees = [{"body": torch.full((2, 4), float(t))} for t in range(3)]
    stacked = stack(trees)
    assert stacked["body"].shape == (3, 2, 4)
    assert rows(stacked, torch.tensor([3, 0]))["body"][:, 0].tolist() == [1, 0]


def test_next_values_takes_the_value_of_the_next_step_if_none_is_given():
    values = [torch.tensor([float(t)]) for t in range(3)]
    assert next_values(values, [None, torch.tensor([7.0]), torch.tensor([9.0])]).T.tolist() == [[1, 7, 9]]
    with pytest.raises(ValueError, match="last step"):
        next_values(values, [None, None, None])
