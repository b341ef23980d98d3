"""The head that trades: a reflex arc with a memory of its own, which says between which shares of wealth to stay.

Who pays in proportion to what he trades does best by not trading inside a band, and by going to its nearer edge from
outside (Davis and Norman 1990, "Portfolio selection with transaction costs"). So the head says the band's edges, and
what is held already decides whether anything is traded at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import log

import torch
from torch import Tensor, nn

from devmind.agent.heads import Head, Inlet
from devmind.agent.output import Output, masked_mean
from devmind.agent.rows import Carry, Leaf
from devmind.agent.taps import Tapped
from devmind.errors import ConfigError

HELD, LEFT = 0, 2
"""Where the share that is held stands in what is read of the account, and how much of the episode is left."""
LEAST = 1e-3
"""Of wealth: below this a share of the cash, or of the units, is not told exactly, as gradients would be too steep."""
FADES = (4.0, 512.0)
"""Ticks in which the memory fades, the shortest and the longest, as it begins."""


@dataclass
class Trade(Output):
    """The band `low` to `high` [...] of shares of wealth, and the share `held` [...]."""

    low: Tensor
    high: Tensor
    held: Tensor

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


def command(low: Tensor, high: Tensor, held: Tensor) -> Tensor:
    """What to trade [...] to stay between the shares of wealth `low` and `high`."""
    held = held.clamp(0.0, 1.0)
    # `relu`, not `clamp`, which has a gradient at 0: of who holds all and wants all that of buying is very steep.
    buys = (low - held).relu() / (1 - held).clamp_min(LEAST)
    sells = (held - high).relu() / held.clamp_min(LEAST)
    return (buys - sells).clamp(-1.0, 1.0)


class TradeHead(Head):
    """Taps (a sense of returns, the account as raw numbers); it carries running sums of what it saw before.

    Each number of the memory fades at a rate of its own, which is learned: a diagonal linear recurrence, so a path is
    learned from at once (Orvieto et al. 2023, "Resurrecting recurrent neural networks for long sequences").

    Args:
        memory: in numbers; 0 leaves each Moment alone.
        hidden: of the network that tells the band.

    Raises:
        ConfigError: it taps anything but two tokens.
    """

    def __init__(self, inlet: Inlet, memory: int = 32, hidden: int = 64) -> None:
        super().__init__(inlet)
        if inlet.n_tokens != 2:
            raise ConfigError("A head that trades taps a sense of returns with one token, and a raw account behind it.")
        self.carry_spec = {"memory": Leaf((memory,))}
        self.remembered = nn.Linear(inlet.width, memory)
        self.lasting = nn.Parameter(torch.linspace(log(FADES[0]), log(FADES[1]), memory))
        """Logarithms of the ticks in which each number fades to 1/e."""
        sizes = (inlet.width + memory + 1, hidden, hidden)
        layers = [layer for pair in pairwise(sizes) for layer in (nn.Linear(*pair), nn.GELU())]
        self.read = nn.Sequential(*layers, nn.Linear(hidden, 2))

    def forward(self, tapped: Tapped, carry: Carry) -> tuple[Trade, Carry]:
        tokens = (tapped.tokens * tapped.present[..., None]).float()
        lead, (seen, account) = tokens.shape[:-2], tokens.unbind(-2)
        path = seen.reshape(lead[0], lead[1:].numel(), -1)
        low, high, memory = self.bands(path, account[..., LEFT].reshape(path.shape[:2]), carry["memory"])
        return Trade(low.reshape(lead), high.reshape(lead), account[..., HELD]), {"memory": memory}

    def bands(self, seen: Tensor, left: Tensor, before: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Edges of the band [B, T] at each of T ticks, and the memory [B, M] behind the last of them.

        Nothing of what is held goes into them, and nobody moves the prices: so a whole path is told at once.

        Args:
            seen: tokens of returns [B, T, D]; left: of the episode [B, T]; before: the memory [B, M].
        """
        ticks = torch.arange(seen.shape[1], device=seen.device)
        lag = ticks[:, None] - ticks
        fade = -torch.exp(-self.lasting)[:, None, None]
        # Sums of what is unrelated have the spread of one of its terms.
        scaled = self.remembered(seen) * (1 - torch.exp(2 * fade[:, 0, 0])).sqrt()
        weight = torch.where(lag < 0, 0.0, torch.exp(fade * lag.clamp_min(0)))
        memory = torch.einsum("mts,bsm->btm", weight, scaled)
        if before is not None:
            memory = memory + torch.exp(fade[:, 0, 0] * (ticks[:, None] + 1)) * before[:, None]
        low, more = self.read(torch.cat((seen, memory, left[..., None]), -1)).sigmoid().unbind(-1)
        return low, low + (1 - low) * more, memory[:, -1]
