"""Slots: K recurrent tokens that carry information beyond the window. Every H Moments they are written and enter again.

Number the Moments of an episode t = 0, 1, ...; H is half of the agent's first window. At t = jH the slots S_j enter the
trunk as the first tokens of that Moment. They stay visible as long as its other tokens, so the newest slots are at most
H - 1 Moments old.

    S_0 = S_1 = learned;    S_j = write(S_{j-1}, readouts of Moments (j-2)H .. (j-1)H - 1)    for j >= 2

What is written is the segment that begins to leave a window of 2 H Moments at that time. `write` is the cross-attention
from a recurrent state to a segment of block-recurrent transformers (Hutchins et al. 2022, arXiv 2203.07852, section 3),
with the gated unit of GTrXL (Parisotto et al. 2020, arXiv 1910.06764, section 3.2): one GRU-like gate for each slot, as
in Slot Attention (Locatello et al. 2020, arXiv 2006.15055, algorithm 1).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from devmind.agent import rows

KEEP = 2.0
"""Initial bias of the update gate (GTrXL's b_g): at first a write replaces sigmoid(-2) = 12 % of a slot."""


class Slots(nn.Module):
    """The learned initial slots, and the layer that writes a segment's readouts into slots.

    Attributes:
        every: H, the number of Moments from one write to the next.
        initial: S_0, float [K, D].
    """

    def __init__(self, count: int, width: int, heads: int, every: int) -> None:
        super().__init__()
        self.every, self.heads = every, heads
        self.initial = nn.Parameter(torch.randn(count, width) * 0.3)
        self.place = nn.Parameter(torch.randn(self.every, width) * 0.3)
        self.of_slots, self.of_readouts = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.keys_values = nn.Linear(width, width), nn.Linear(width, 2 * width)
        self.attended = nn.Linear(width, width)
        self.gate = GatedUnit(width)

    def __len__(self) -> int:
        return len(self.initial)

    def write(self, slots: Tensor, readouts: Tensor) -> Tensor:
        """The slots [B, K, D] with the readouts [B, H, D] of one segment written into them."""

        def by_head(x: Tensor) -> Tensor:
            return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        keys, values = self.keys_values(self.of_readouts(readouts) + self.place).chunk(2, -1)
        query = by_head(self.query(self.of_slots(slots)))
        found = F.scaled_dot_product_attention(query, by_head(keys), by_head(values))
        return self.gate(slots, self.attended(found.transpose(1, 2).flatten(2))).to(slots.dtype)

    def advance(self, slots: Tensor, tick: Tensor, readouts: Tensor) -> Tensor:
        """S_j [B, K, D] of rows at episode tick jH >= 2H, from S_{j-1} and the leaving segment's readouts [B, H, D].

        Args:
            tick: int64 [B]; the first write of a row's episode starts from the learned slots, and ignores `slots`.
        """
        fresh = (tick == 2 * self.every)[:, None, None]
        return self.write(torch.where(fresh, self.initial.to(slots.dtype), slots), readouts)


class GatedUnit(nn.Module):
    """GTrXL's gated recurrent unit, biased to keep: g(x, y) for a state x and an input y, both [..., D]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.news = nn.Linear(width, 3 * width)
        self.state = nn.Linear(width, 2 * width, bias=False)
        self.candidate = nn.Linear(width, width, bias=False)
        with torch.no_grad():
            self.news.bias.zero_()
            self.news.bias[width : 2 * width] = -KEEP

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """(1 - z) x + z tanh(W y + U (r x)), in the shape of x."""
        reset, update, fresh = self.news(y).chunk(3, -1)
        of_reset, of_update = self.state(x).chunk(2, -1)
        z = torch.sigmoid(update + of_update)
        return (1 - z) * x + z * torch.tanh(fresh + self.candidate(torch.sigmoid(reset + of_reset) * x))


@dataclass
class SlotState:
    """The slots of B agents that step together.

    Attributes:
        slots: the slots after the last write, [B, K, D].
        readouts: those of the last 2H Moments, [B, 2H, D], each at its episode tick modulo 2H.
        tick: number of the next Moment within its episode, int64 [B].
    """

    slots: Tensor
    readouts: Tensor
    tick: Tensor

    @classmethod
    def empty(cls, n: int, slots: Slots) -> SlotState:
        """The state of `n` agents before their first Moment."""
        # Buffers that are made under inference_mode could not be written outside of it.
        with torch.inference_mode(False):
            like = slots.initial.detach()
            width = like.shape[1]
            return cls(
                like.new_zeros(n, len(slots), width),
                like.new_zeros(n, 2 * slots.every, width),
                torch.zeros(n, dtype=torch.int64, device=like.device),
            )

    def enter(self, slots: Slots, first: Tensor) -> tuple[Tensor, Tensor] | None:
        """The tokens [B, K, D] that enter with this tick and the rows that get them, bool [B]; None if no row does.

        Args:
            first: bool [B], rows whose episode starts with this Moment.
        """
        every = slots.every
        self.tick.masked_fill_(first, 0)
        entering = self.tick % every == 0
        if not bool(entering.any()):
            return None
        late = entering & (self.tick >= 2 * every)
        written = late.nonzero().squeeze(-1)
        if len(written):
            tick = self.tick[written]
            # The older half of the ring, which is overwritten from this Moment on.
            at = (tick % (2 * every))[:, None] + torch.arange(every, device=tick.device)
            self.slots[written] = slots.advance(self.slots[written], tick, self.readouts[written[:, None], at])
        return torch.where(late[:, None, None], self.slots, slots.initial), entering

    def keep(self, readout: Tensor) -> None:
        """Store the readout [B, D] of the Moment that has ended."""
        at = self.tick % self.readouts.shape[1]
        self.readouts[torch.arange(len(at), device=at.device), at] = readout.to(self.readouts.dtype)
        self.tick += 1

    def take(self, index: Tensor) -> SlotState:
        """The rows `index` int64 [k], as copies."""
        with torch.inference_mode(False):
            return SlotState(**rows.take(vars(self), index))

    def put(self, index: Tensor, other: SlotState) -> None:
        """Replace the rows `index` int64 [k] by those of `other`."""
        for name, value in vars(other).items():
            getattr(self, name)[index] = value
