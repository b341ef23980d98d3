"""The sense `lookahead`: the agent's own search tree behind a move, two moves deep.

It shows every answer with every move behind it, and picks no line. Each searched answer is a token; an unsearched one
has no token.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from devmind.agent.encoders import Encoded, Encoder, mlp
from devmind.algorithms.tree_search import Tree
from devmind.errors import MomentError
from devmind.worlds.boards import Board

PLANES = 3
"""Whether a move was searched; its share of the visits at its node; its value to the player who makes it, -1 to 1."""
GAIN = 4.0
"""Gain of the first weights: at 1 the search is faint beside the number of the cell."""


def looked_at(tree: Tree[Board], row: np.ndarray, node: np.ndarray) -> np.ndarray:
    """The searched moves behind nodes int64 [N] of trees `row` int64 [N]: float32 [N, PLANES, A, A] for A choices.

    [..., a, b] is the move b after the answer a. [..., a, a] is the answer a itself, since no cell is taken twice. A
    node of -1 has no searched moves.
    """
    nodes = tree.nodes
    answers = np.where(node[:, None] >= 0, nodes.child[row, node], -1)
    diagonal = np.arange(answers.shape[-1])
    below = row[:, None], answers.clip(0)
    visited, visits, q = (each[below] for each in (nodes.child >= 0, nodes.child_visits, nodes.child_q))
    visited &= (answers >= 0)[..., None]
    own = row, node
    for all_of, here in ((visited, answers >= 0), (visits, nodes.child_visits[own]), (q, nodes.child_q[own])):
        all_of[:, diagonal, diagonal] = here
    visits = np.where(visited, visits, 0)
    first = visits[:, diagonal, diagonal]
    second = visits.sum(-1) - first
    share = visits / np.maximum(second, 1)[..., None]
    share[:, diagonal, diagonal] = first / np.maximum(first.sum(-1), 1)[:, None]
    return np.stack([visited, share, np.where(visited, q, 0)], 1).astype(np.float32)


class LookaheadEncoder(Encoder):
    """Encodes the output of `looked_at`, float32 [PLANES, A, A], as one token for each answer.

    A token has the numbers of the answer and of all moves behind it, and which cell the answer is.

    Args:
        choices: A.
    """

    sense_dims = 3

    def __init__(self, width: int, choices: int) -> None:
        super().__init__(width, n_tokens=choices)
        self.net = mlp(PLANES * (choices + 1), width, width)
        self.answers = nn.Parameter(torch.randn(choices, width) * 0.5)
        with torch.no_grad():
            self.net.get_parameter("0.weight").mul_(GAIN)

    def encode(self, x: Tensor, previous: Tensor | None, previous_present: Tensor | None) -> Encoded:
        if x.shape[1:] != (PLANES, self.n_tokens, self.n_tokens):
            raise MomentError(
                f"A lookahead is {PLANES} planes of {self.n_tokens} answers and as many moves behind each; "
                f"got {list(x.shape[1:])}."
            )
        own = x.diagonal(dim1=-2, dim2=-1)
        # The answer is kept apart from the moves behind it: its share would be the largest among theirs.
        behind = x - torch.diag_embed(own)
        rows = torch.cat((own[..., None], behind), -1).transpose(1, 2).flatten(2).to(self.answers.dtype)
        return Encoded(self.net(rows) + self.answers, own[:, 0] > 0)
