"""Pointing at a memory: which of the recalled memories is of what is sensed now, or that none is.

The answer (a name) is copied out of that memory, so any word that was heard once can be said, as with the pointers of
Vinyals, Fortunato and Jaitly (2015, "Pointer networks"): no class of the head stands for a word.
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
    """One of R memories, or none: `Categorical` [..., R + 1], the last of which is none of them.

    Taps ("trunk:recalled", "trunk"): the readout asks, by a scaled dot product, each memory as the trunk has it. What
    is absent cannot be pointed at.
    """

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
    """The memory that each row of a tick points at, by its place among those brought back; None: none of them."""
    logits: Tensor = output.logits
    none = logits.shape[-1] - 1
    return [None if at == none else at for at in logits.argmax(-1).tolist()]


@dataclass(frozen=True)
class Pointed:
    """What is pointed at: the place of a memory among those brought back, or None for none of them; and the
    probability that the head gives it."""

    at: int | None
    share: float


def pointer_of(agent: Agent) -> str | None:
    """The agent's head that points at memories; None where it has none."""
    return next((name for name, head in agent.heads.items() if isinstance(head, PointerHead)), None)


@torch.no_grad()
def pointed(agent: Agent, head: str, seen: Perceived) -> Pointed:
    """What the head `head` points at, of a tick of one row that was stepped with memories."""
    output = agent.run_heads([head], seen)[head]
    assert isinstance(output, Categorical)
    share = output.logits[0].softmax(-1).max()
    return Pointed(pointed_at(output)[0], float(share))
