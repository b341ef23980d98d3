"""The denoiser: one transformer without causality over condition, trajectory and symbols."""

from __future__ import annotations

import math

import torch
from diffusers import ConfigMixin, ModelMixin
from diffusers.configuration_utils import register_to_config
from torch import Tensor, nn
from torch.nn import functional as F

OCTAVES = 4
SPREAD_OUT = 1 + 2 * OCTAVES
"""How many numbers `spread_out` makes of one."""


class HybridDenoiser(ModelMixin, ConfigMixin):
    """Tells the clean trajectory and the symbols behind noised ones; each half has a noise level of its own.

    A token is one point of the trajectory, one symbol, or one of the condition. What is given of a trajectory comes in
    clean and marked; what is given of the symbols is simply not masked. So either half may be given in part.

    Args:
        channels: numbers of a point; horizon: points of a trajectory.
        words: symbols there are; the symbol `words` is the mask. length: of a plan in symbols; 0: trajectory only, the
            paper's first baseline.
        condition: numbers of a token of the condition.
        width, layers, attention_heads: of the transformer.
    """

    @register_to_config
    def __init__(
        self,
        channels: int = 2,
        horizon: int = 32,
        words: int = 5,
        length: int = 24,
        condition: int = 128,
        width: int = 128,
        layers: int = 3,
        attention_heads: int = 4,
    ) -> None:
        super().__init__()
        self.point, self.seen = nn.Linear(channels * SPREAD_OUT + 1, width), nn.Linear(condition, width)
        self.level = nn.Sequential(nn.Linear(64, width), nn.SiLU(), nn.Linear(width, width))
        self.place = nn.Parameter(0.02 * torch.randn(horizon, width))
        self.blocks = nn.ModuleList(_Block(width, attention_heads) for _ in range(layers))
        self.norm, self.told = nn.LayerNorm(width), nn.Linear(width, channels)
        if length:
            self.word = nn.Embedding(words + 1, width)
            self.masked = nn.Sequential(nn.Linear(64, width), nn.SiLU(), nn.Linear(width, width))
            self.rank = nn.Parameter(0.02 * torch.randn(length, width))
            self.named = nn.Linear(width, words)

    def forward(
        self,
        trajectory: Tensor,
        given: Tensor,
        level: Tensor,
        symbols: Tensor,
        masked: Tensor,
        condition: Tensor,
        present: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """The clean trajectory [B, H, C] and logits of the symbols [B, L, words].

        Args:
            trajectory: noised, [B, H, C], clean where `given` bool [B, H].
            level: of its noise, in 0..1, [B].
            symbols: int64 [B, L], the mask where they are not known; masked: which share of them, in 0..1, [B].
            condition: [B, K, D]; present: bool [B, K]; a row that has none is denoised without condition.
        """
        horizon, length = self.config["horizon"], self.config["length"]
        mark = given[..., None].to(trajectory.dtype)
        points = (
            self.point(torch.cat((spread_out(trajectory), mark), -1)) + self.place + self.level(waves(level))[:, None]
        )
        tokens = [points]
        if length:
            tokens.append(self.word(symbols) + self.rank + self.masked(waves(masked))[:, None])
        tokens.append(self.seen(condition * present[..., None]))
        ours = torch.ones(len(points), horizon + length, dtype=torch.bool, device=points.device)
        mask = torch.cat((ours, present), 1)[:, None, None]
        x = torch.cat(tokens, 1)
        for block in self.blocks:
            x = block(x, mask)
        x = self.norm(x[:, : horizon + length])
        told = self.told(x[:, :horizon])
        return told, self.named(x[:, horizon:]) if length else told.new_zeros(len(told), 0, self.config["words"])


def spread_out(numbers: Tensor) -> Tensor:
    """Numbers [..., C] in about -1..1 with their sines and cosines of four octaves, [..., 9 C].

    A small network tells a wall from a door beside it much sooner by these (Tancik et al. 2020, "Fourier features").
    """
    angles = [numbers * math.pi * 2**octave for octave in range(OCTAVES)]
    return torch.cat((numbers, *(angle.sin() for angle in angles), *(angle.cos() for angle in angles)), -1)


def waves(level: Tensor, size: int = 64) -> Tensor:
    """Levels in 0..1, [B], as sines and cosines [B, size] of frequencies from 1 to 1,000."""
    rates = torch.exp(torch.linspace(0.0, math.log(1000.0), size // 2, device=level.device))
    angles = level.float()[:, None] * rates
    return torch.cat((angles.sin(), angles.cos()), -1)


class _Block(nn.Module):
    """Attention of all to all, and an MLP, each behind a norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.net = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        q, k, v = self.qkv(self.before(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.net(self.between(x))
