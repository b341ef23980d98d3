"""The network that reads an instruction: from the tokens of a page of text to subgoals, one after another."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

POOL = 3
"""Tokens that are merged before the recurrent networks read them."""


class Layer(nn.Module):
    """A convolution over the tokens of a page that keeps absent tokens at zero."""

    def __init__(self, width: int, dilation: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.net = nn.Conv1d(width, width, 5, padding=2 * dilation, dilation=dilation)

    def forward(self, x: Tensor, here: Tensor) -> Tensor:
        return x + F.gelu(self.net((self.norm(x) * here).mT).mT) * here


class Reader(nn.Module):
    """From pages [N, K, D] to `slots` answers [N, slots, numbers], and for each token whether its word is unknown.

    Padding behind a page's last token changes nothing, so a page is read alike alone and among longer ones.

    Args:
        width: D; slots: answers; numbers: numbers of an answer; hidden: width of the network.
    """

    def __init__(self, width: int, slots: int, numbers: int, hidden: int) -> None:
        super().__init__()
        self.slots = slots
        self.enter = nn.Linear(width, hidden)
        self.layers = nn.ModuleList(Layer(hidden, dilation) for dilation in (1, 2, 4))
        self.unknown = nn.Linear(hidden, 1)
        self.squeeze = nn.Linear(POOL * hidden, hidden)
        self.forth, self.back = (nn.GRU(hidden, hidden, batch_first=True) for _ in range(2))
        self.begin = nn.Parameter(torch.zeros(hidden))
        self.cell, self.ask = nn.GRUCell(2 * hidden, hidden), nn.Linear(hidden, 2 * hidden)
        self.tell = nn.Sequential(nn.Linear(3 * hidden, hidden), nn.GELU(), nn.Linear(hidden, numbers))

    def forward(self, tokens: Tensor, present: Tensor) -> tuple[Tensor, Tensor]:
        """Answers [N, slots, numbers] and log odds [N, K] that a token belongs to an unknown word."""
        here = present[..., None].to(tokens.dtype)
        x = self.enter(tokens) * here
        for layer in self.layers:
            x = layer(x, here)
        unknown = self.unknown(x).squeeze(-1)
        more = -x.shape[1] % POOL
        pooled = self.squeeze(F.pad(x, (0, 0, 0, more)).unflatten(1, (-1, POOL)).flatten(2))
        read = F.pad(present, (0, more)).unflatten(1, (-1, POOL)).any(-1)
        ends = read.long() * torch.arange(1, read.shape[1] + 1, device=read.device)
        pooled = pooled * read[..., None]
        order = _turned(ends.amax(1), read.shape[1])
        back = _at(self.back(_at(pooled, order))[0], order)
        memory = torch.cat((self.forth(pooled)[0], back), -1)
        return self._answers(memory, read), unknown

    def _answers(self, memory: Tensor, read: Tensor) -> Tensor:
        state, answers = self.begin.expand(len(memory), -1), []
        hidden = ~read & read.any(1, keepdim=True)
        for _ in range(self.slots):
            likeness = (memory @ self.ask(state)[..., None]).squeeze(-1) / memory.shape[-1] ** 0.5
            shares = likeness.masked_fill(hidden, torch.finfo(likeness.dtype).min).softmax(-1)
            seen = (shares[..., None] * memory).sum(1)
            state = self.cell(seen, state)
            answers.append(self.tell(torch.cat((seen, state), -1)))
        return torch.stack(answers, 1)


def _turned(lengths: Tensor, n: int) -> Tensor:
    """Indices int64 [N, n] that reverse the first `lengths` int64 [N] of n places."""
    at = torch.arange(n, device=lengths.device).expand(len(lengths), n)
    return torch.where(at < lengths[:, None], lengths[:, None] - 1 - at, at)


def _at(x: Tensor, order: Tensor) -> Tensor:
    return x.gather(1, order[..., None].expand(-1, -1, x.shape[-1]))
