"""Tokens of recalled entries depend on their rank."""

from collections.abc import Callable

import torch

from devmind.agent import Agent
from devmind.agent.batch import collate_recalled


def entries(order: tuple[int, ...]) -> dict:
    return collate_recalled([[({"words": f"thing {number}"}, 60.0) for number in order]])


def test_recalled_tokens_carry_the_rank_of_their_entry(small_agent: Callable[..., Agent]) -> None:
    agent = small_agent(senses=("words",))
    one, other = (agent.encode_recalled(entries(order)).tokens[0] for order in ((0, 1, 2), (2, 1, 0)))
    ranks = agent.recalled_rank[:3]
    torch.testing.assert_close(one - ranks, (other - ranks).flip(0))
    assert not torch.allclose(one, other.flip(0))
