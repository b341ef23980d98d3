"""A head that points at the recalled memory of the thing that is sensed now, or at none.

The answer (a name) is copied from that memory. So the agent can say any word that it has heard once: as in pointer
networks (Vinyals, Fortunato and Jaitly 2015), the head has no class for each word.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from devmind.agent.heads import Head, Inlet
from devmind.agent.output import Categorical
from devmind.agent.taps import Perceived, Tapped

if TYPE_CHECKING:
    from devmind.agent.agent import Agent


class PointerHead(Head):
    """One of R memories, or none: `Categorical` [..., R + 1], whose last class is none.

    It taps ("trunk:recalled", "trunk") and scores each memory by a scaled dot product of the readout with the trunk's
    feature of the memory. An absent memory has probability 0.
    """

    lighter = ()

    def __init__(self, inlet: Inlet) -> None:
        super().__init__(inlet)
        self.asks, self.answers = nn.Linear(inlet.width, inlet.width), nn.Linear(inlet.width, inlet.width)
        self.none = nn.Linear(inlet.width, 1)

    def forward(self, tapped: Tapped) -> Categorical:
        memories, readout = tapped.tokens[..., :-1, :], tapped.tokens[..., -1:, :]
        fits = (self.asks(readout) * self.answers(memories)).sum(-1) * self.inlet.width**-0.5
        fits = fits.masked_fill(~tapped.present[..., :-1], torch.finfo(fits.dtype).min)
        return Categorical(torch.cat((fits, self.none(readout)[..., 0]), -1))


def pointed_at(output: Categorical) -> list[int | None]:
    """For each row of a tick, the index of the recalled memory that it points at; None: none of them."""
    logits: Tensor = output.logits
    none = logits.shape[-1] - 1
    return [None if at == none else at for at in logits.argmax(-1).tolist()]


@dataclass(frozen=True)
class Pointed:
    """The index of a recalled memory, or None for none of them, and the head's probability of it."""

    at: int | None
    share: float


def pointer_of(agent: Agent) -> str | None:
    """The name of the agent's head that points at memories; None if it has none."""
    return next((name for name, head in agent.heads.items() if isinstance(head, PointerHead)), None)


@torch.no_grad()
def point_at(agent: Agent, head: str, seen: Perceived) -> Pointed:
    """What the head `head` points at in a tick of one row that was stepped with memories."""
    output = agent.run_heads([head], seen)[head]
    assert isinstance(output, Categorical)
    share = output.logits[0].softmax(-1).max()
    return Pointed(pointed_at(output)[0], float(share))
