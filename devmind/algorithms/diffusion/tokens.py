"""A denoiser of scenes: a token for each point, each symbol and each thing that the condition tells of."""

from __future__ import annotations

import torch
from diffusers import ConfigMixin, ModelMixin
from diffusers.configuration_utils import register_to_config
from torch import Tensor, nn

from devmind.algorithms.diffusion.denoiser import SPREAD_OUT, Block, spread_out, waves


class TokenDenoiser(ModelMixin, ConfigMixin):
    """Tells the clean trajectory and the symbols behind noised ones, as `HybridDenoiser` does, of a scene of things.

    Where plans are about things, which lie elsewhere each time, nothing can be remembered about places: points and
    symbols have to look at the things. So each of them is a token, and all attend to all.

    Args:
        channels: numbers of a point; horizon: points of a trajectory; 0: symbols only.
        words: symbols there are; the symbol `words` is the mask. length: of a plan in symbols; 0: trajectory only.
        condition: numbers of a thing; told_by: how many things there are.
        width, layers, attention_heads: of the transformer.
        only: "symbols" or "points": what is told; for symbols alone the trajectory is not looked at, for points alone
            the symbols are. Two separate models are one of each.
    """

    @register_to_config
    def __init__(
        self,
        channels: int = 3,
        horizon: int = 6,
        words: int = 9,
        length: int = 6,
        condition: int = 20,
        told_by: int = 9,
        width: int = 128,
        layers: int = 4,
        attention_heads: int = 4,
        only: str = "",
    ) -> None:
        super().__init__()
        self.points = 0 if only == "symbols" else horizon
        self.thing = nn.Linear(condition, width)
        self.place = nn.Parameter(0.02 * torch.randn(told_by + self.points + length, width))
        self.blocks = nn.ModuleList(Block(width, attention_heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        if self.points:
            self.point = nn.Linear(channels * (SPREAD_OUT + 1) + 1, width)
            self.level = nn.Sequential(nn.Linear(64, width), nn.SiLU(), nn.Linear(width, width))
            self.told = nn.Linear(width, channels)
        if length:
            self.word = nn.Embedding(words + 1, width)
            self.masked = nn.Sequential(nn.Linear(64, width), nn.SiLU(), nn.Linear(width, width))
            self.named = nn.Linear(width, words) if only != "points" else None

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
        """The clean trajectory [B, H, C] and logits of the symbols [B, L, words]; see `HybridDenoiser.forward`."""
        length, words = self.config["length"], self.config["words"]
        tokens = [self.thing(condition) * present[..., None]]
        if self.points:
            mark = given[..., None].to(trajectory.dtype)
            points = torch.cat((spread_out(trajectory), mark, mark * trajectory), -1)
            tokens.append(self.point(points) + self.level(waves(level))[:, None])
        if length:
            tokens.append(self.word(symbols) + self.masked(waves(masked))[:, None])
        x = torch.cat(tokens, 1) + self.place
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        ends = x[:, condition.shape[1] :]
        told = self.told(ends[:, : self.points]) if self.points else torch.zeros_like(trajectory)
        named = told.new_zeros(len(told), length, words)
        if length and self.named is not None:
            named = self.named(ends[:, self.points :])
        return told, named
