"""The head that trades: a reflex arc with a memory of its own, which says between which shares of wealth to stay.

Who pays in proportion to what he trades does best by not trading inside a band, and by going to its nearer edge from
outside (Davis and Norman 1990, "Portfolio selection with transaction costs"). So the head says the band's edges, and
what is held already decides whether anything is traded at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from devmind.agent.heads import Head, Inlet
from devmind.agent.output import Output, masked_mean
from devmind.agent.taps import Tapped
from devmind.errors import ConfigError

HELD, LEFT = 0, 2
"""Where the share that is held stands in what is read of the account, and how much of the episode is left."""


@dataclass
class Trade(Output):
    """The band `low` to `high` [...] of shares of wealth, the share `held` [...], and the memory [..., M] behind it."""

    low: Tensor
    high: Tensor
    held: Tensor
    memory: Tensor

    def mode(self) -> Tensor:
        """The share of the cash to spend, or of the units to sell (negative), [..., 1]."""
        return command(self.low, self.high, self.held)[..., None]

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """The mode: nothing is gained by chance in a market that nobody moves."""
        return self.mode()

    def loss(self, target: Tensor, mask: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        """Squared error of what is traded against `target` [..., 1]; the lesson learns from growth instead."""
        return masked_mean((self.mode() - target).square(), mask)

    def numbers(self) -> Tensor:
        """The band's edges [..., 2]."""
        return torch.stack((self.low, self.high), -1)

    def kept(self) -> dict[str, Tensor]:
        """What has been seen of this market."""
        return {"memory": self.memory}


def command(low: Tensor, high: Tensor, held: Tensor) -> Tensor:
    """What to trade [...] to stay between the shares of wealth `low` and `high`."""
    held = held.clamp(0.0, 1.0)
    buys = (low - held).clamp_min(0.0) / (1 - held).clamp_min(1e-6)
    sells = (held - high).clamp_min(0.0) / held.clamp_min(1e-6)
    return (buys - sells).clamp(-1.0, 1.0)


class TradeHead(Head):
    """Taps (a sense of returns, the account as raw numbers); it carries a GRU's memory of what it saw before.

    Args:
        memory: of the GRU, in numbers; 0 leaves each Moment alone.
        hidden: of the network that tells the band.

    Raises:
        ConfigError: it taps anything but two tokens.
    """

    carries: ClassVar[bool] = True

    def __init__(self, inlet: Inlet, memory: int = 64, hidden: int = 64) -> None:
        super().__init__(inlet)
        if inlet.n_tokens != 2:
            raise ConfigError("A head that trades taps a sense of returns with one token, and a raw account behind it.")
        self.memory = nn.GRU(inlet.width, memory, batch_first=True) if memory else None
        self.size = memory
        self.read = nn.Sequential(nn.Linear(inlet.width + memory + 1, hidden), nn.GELU(), nn.Linear(hidden, 2))

    def forward(self, tapped: Tapped, kept: Mapping[str, Tensor] | None = None) -> Trade:
        tokens = (tapped.tokens * tapped.present[..., None]).float()
        lead, (seen, account) = tokens.shape[:-2], tokens.unbind(-2)
        before = None if kept is None else kept["memory"]
        flat = None if before is None else before.reshape(-1, self.size)
        low, high, memory = self.bands(
            seen.reshape(-1, 1, seen.shape[-1]), account[..., LEFT].reshape(-1, 1), flat
        )
        return Trade(low.reshape(lead), high.reshape(lead), account[..., HELD], memory.reshape(*lead, self.size))

    def bands(self, seen: Tensor, left: Tensor, before: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Edges of the band [B, T] at each of T ticks, and the memory [B, M] behind the last of them.

        Nothing of what is held goes into them, and nobody moves the prices: so a whole path is told at once.

        Args:
            seen: tokens of returns [B, T, D]; left: of the episode [B, T]; before: the memory [B, M].
        """
        known, last = [seen], seen.new_zeros(len(seen), 0)
        if self.memory is not None:
            told, ended = self.memory(seen, None if before is None else before[None])
            known, last = [seen, told], ended[0]
        low, more = self.read(torch.cat((*known, left[..., None]), -1)).sigmoid().unbind(-1)
        return low, low + (1 - low) * more, last
