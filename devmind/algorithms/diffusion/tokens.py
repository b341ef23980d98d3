"""A denoiser of plans about things: a token for each step of a plan, and for each thing of the condition."""

from __future__ import annotations

import torch
from diffusers import ConfigMixin, ModelMixin
from diffusers.configuration_utils import register_to_config
from torch import Tensor, nn
from torch.nn import functional as F

from devmind.algorithms.diffusion.denoiser import SPREAD_OUT, Block, spread_out, waves
from devmind.errors import ConfigError

OFFSET = 0.1
"""Distance of a point from the place that it points at, when the network outputs 1."""


class TokenDenoiser(ModelMixin, ConfigMixin):
    """Predicts the clean trajectory and the symbols from noised ones, as `HybridDenoiser` does, in a scene of things.

    Things lie elsewhere each time, so nothing can be remembered about places: a plan has to look at the things. Each
    step of a plan (its point and its symbol) is a token, and so is each thing; all attend to all. Outputs point at
    things (Vinyals, Fortunato, Jaitly 2015, "Pointer networks"). A point is the attention-weighted mean of the things'
    places plus a small offset. A symbol that names a thing is as likely as the attention to it. Things have no position
    encoding, so their order means nothing.

    Args:
        channels: numbers of a point.
        horizon: steps of a plan.
        words: number of symbols. The first name the condition's things from number `named` on, in order; the symbol
            `words` is the mask.
        length: symbols of a plan: the horizon or, for trajectories alone, 0.
        condition: numbers of a thing; the first `pointed` are its place, like those of a point.
        told_by: number of things.
        width, layers, attention_heads: of the transformer.

    Raises:
        ConfigError: a plan has symbols, but not one for each step.
    """

    @register_to_config
    def __init__(
        self,
        channels: int = 3,
        horizon: int = 6,
        words: int = 9,
        length: int = 6,
        condition: int = 23,
        told_by: int = 9,
        width: int = 96,
        layers: int = 3,
        attention_heads: int = 4,
        pointed: int = 2,
        named: int = 1,
    ) -> None:
        super().__init__()
        if length not in (0, horizon):
            raise ConfigError(f"A plan of {horizon} steps has {horizon} symbols or none; got {length}.")
        self.thing, self.place = nn.Linear(condition, width), nn.Parameter(torch.randn(horizon, width))
        self.blocks = nn.ModuleList(Block(width, attention_heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.point = nn.Linear(channels * (SPREAD_OUT + 1) + 1, width)
        self.level = nn.Sequential(nn.Linear(64, width), nn.SiLU(), nn.Linear(width, width))
        self.told, self.aims, self.aimed = nn.Linear(width, channels), nn.Linear(width, width), nn.Linear(width, width)
        if length:
            # Symbols that name no thing, and the mask.
            self.other = nn.Parameter(torch.randn(words + 1 - (told_by - named), width))
            self.masked = nn.Sequential(nn.Linear(64, width), nn.SiLU(), nn.Linear(width, width))
            self.means, self.meant = nn.Linear(width, width), nn.Linear(width, width)

    def forward(
        self,
        trajectory: Tensor,
        given: Tensor,
        level: Tensor,
        symbols: Tensor,
        masked: Tensor,
        condition: Tensor,
        present: Tensor,
        hint: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The clean trajectory [B, H, C] and logits of the symbols [B, L, words]; see `HybridDenoiser.forward`."""
        words, length = self.config["words"], self.config["length"]
        things = self.hint(condition, present) if hint is None else hint
        steps = self.place.expand(len(things), -1, -1)
        if length:
            said = F.one_hot(symbols, words + 1).to(things.dtype)
            steps = steps + self.masked(waves(masked))[:, None] + said @ self._nameable(things)
        mark = given[..., None].to(trajectory.dtype)
        seen = torch.cat((spread_out(trajectory), mark, mark * trajectory), -1)
        steps = steps + self.point(seen) + self.level(waves(level))[:, None]
        x = torch.cat((things, steps), 1)
        for block in self.blocks:
            x = block(x)
        things, steps = self.norm(x).split((things.shape[1], steps.shape[1]), 1)
        points = self._pointed(steps, things, condition, present)
        if not length:
            return points, things.new_zeros(len(things), 0, words)
        return points, _score(self.means(steps), self.meant(self._nameable(things)[:, :-1]))

    def hint(self, condition: Tensor, present: Tensor) -> Tensor:
        """The things' tokens before all layers, [B, K, width]: the same in all steps of a drawing."""
        things: Tensor = self.thing(condition)
        return things * present[..., None]

    def _nameable(self, things: Tensor) -> Tensor:
        """The embedding of each symbol and of the mask, [B, words + 1, D]."""
        return torch.cat((things[:, self.config["named"] :], self.other.expand(len(things), -1, -1)), 1)

    def _pointed(self, steps: Tensor, things: Tensor, condition: Tensor, present: Tensor) -> Tensor:
        """Points [B, H, C] near the places of things."""
        pointed, told = self.config["pointed"], self.told(steps)
        score = _score(self.aims(steps), self.aimed(things)).masked_fill(~present[:, None], -torch.inf)
        places = score.softmax(-1) @ condition[..., :pointed]
        return torch.cat((places + OFFSET * told[..., :pointed], told[..., pointed:]), -1)


def _score(asks: Tensor, answers: Tensor) -> Tensor:
    """Scores [B, H, K] of each of `answers` [B, K, D] for each of `asks` [B, H, D]."""
    return asks @ answers.transpose(1, 2) / asks.shape[-1] ** 0.5
