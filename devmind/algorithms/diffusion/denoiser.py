"""The denoisers: non-causal transformers over trajectory and symbols.

`HybridDenoiser` recalls from the condition what plans look like there: for places that stay. `TokenDenoiser` looks at
the things of a scene: for things that lie elsewhere each time. Both are called alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from diffusers import ConfigMixin, ModelMixin
from diffusers.configuration_utils import register_to_config
from torch import Tensor, nn
from torch.nn import functional as F

from devmind.errors import ConfigError

OCTAVES = 4
SPREAD_OUT = 1 + 2 * OCTAVES
"""Numbers that `spread_out` makes of one."""
OFFSET = 0.1
"""Distance of a point from the place that it points at, when the network outputs 1."""


class HybridDenoiser(ModelMixin, ConfigMixin):
    """Predicts the clean trajectory and the symbols from noised ones; each half has a noise level of its own.

    Each half is cut into `pieces` tokens. A wide network reads the condition and gives every token a hint of its own:
    it recalls what plans for such a condition look like, and the transformer makes one plan of it. Few wide tokens
    learn as much of a maze as one token for each point, at a tenth of the cost. Given points come in clean and marked;
    given symbols are not masked. So either half may be given in part.

    Args:
        channels: numbers of a point.
        horizon: points of a trajectory.
        words: number of symbols; the symbol `words` is the mask.
        length: symbols of a plan; 0: trajectory only, the paper's first baseline.
        condition: numbers of a token of the condition.
        told_by: tokens of the condition.
        width, layers, attention_heads: of the transformer.
        memory: width of the network that reads the condition.
        pieces: tokens of each half.
        lent: it has no layers of its own, but runs those that it is lent (`lend`), which are `width` wide.

    Raises:
        ConfigError: the horizon or the length is no multiple of the pieces.
    """

    @register_to_config
    def __init__(
        self,
        channels: int = 2,
        horizon: int = 32,
        words: int = 5,
        length: int = 24,
        condition: int = 128,
        told_by: int = 1,
        width: int = 192,
        layers: int = 2,
        attention_heads: int = 4,
        memory: int = 512,
        pieces: int = 1,
        lent: bool = False,
    ) -> None:
        super().__init__()
        self._lent: tuple[Callable[[Tensor], Tensor], ...] = ()
        if horizon % pieces or length % pieces:
            raise ConfigError(f"{horizon} points and {length} symbols cannot be cut into {pieces} equal pieces each.")
        tokens = pieces * (2 if length else 1)
        self.point = nn.Linear(horizon // pieces * (channels * (SPREAD_OUT + 1) + 1), width)
        self.level = nn.Sequential(nn.Linear(64, width), nn.SiLU(), nn.Linear(width, width))
        self.place = nn.Parameter(0.02 * torch.randn(tokens, width))
        self.remember = nn.Sequential(
            nn.Linear(condition * told_by, memory),
            nn.SiLU(),
            nn.Linear(memory, memory),
            nn.SiLU(),
            nn.Linear(memory, tokens * width),
        )
        self.blocks = nn.ModuleList(Block(width, attention_heads) for _ in range(0 if lent else layers))
        # A linear skip: given points, above all the goal, are copied to where plans stand still, and samples of little
        # noise need little change.
        self.copied = nn.Linear(2 * horizon * channels, horizon * channels)
        self.norm, self.told = nn.LayerNorm(width), nn.Linear(width, horizon // pieces * channels)
        if length:
            self.word = nn.Linear(length // pieces * (words + 1), width)
            self.masked = nn.Sequential(nn.Linear(64, width), nn.SiLU(), nn.Linear(width, width))
            self.named = nn.Linear(width, length // pieces * words)

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
        """The clean trajectory [B, H, C] and logits of the symbols [B, L, words].

        Args:
            trajectory: noised, [B, H, C]; clean where `given` bool [B, H].
            level: of its noise, in 0..1, [B].
            symbols: int64 [B, L], the mask where they are unknown.
            masked: share of masked symbols, in 0..1, [B].
            condition: [B, K, D].
            present: bool [B, K]; a row without any is denoised without condition.
            hint: the result of `hint` for this condition, if it is known already: it is the same in all steps of a
                drawing.
        """
        length, words, pieces = self.config["length"], self.config["words"], self.config["pieces"]
        mark = given[..., None].to(trajectory.dtype)
        points = torch.cat((spread_out(trajectory), mark, mark * trajectory), -1)
        tokens = [self.point(points.reshape(len(points), pieces, -1)) + self.level(waves(level))[:, None]]
        if length:
            words_known = F.one_hot(symbols, words + 1).to(points.dtype).reshape(len(points), pieces, -1)
            tokens.append(self.word(words_known) + self.masked(waves(masked))[:, None])
        x = torch.cat(tokens, 1) + self.place + (self.hint(condition, present) if hint is None else hint)
        x = self.norm(self._together(x))
        known = mark * trajectory, (1 - level)[:, None, None] * trajectory
        moved = self.told(x[:, :pieces]).reshape(trajectory.shape)
        moved = moved + self.copied(torch.cat(known, 1).flatten(1)).reshape(trajectory.shape)
        named = self.named(x[:, pieces:]) if length else moved.new_zeros(len(moved), 0)
        return moved, named.reshape(len(moved), length, words)

    def lend(self, layers: Callable[[Tensor], Tensor]) -> None:
        """Lend it layers, a function of [B, T, width] to the same. Their owner saves and trains them."""
        self._lent = (layers,)

    def _together(self, x: Tensor) -> Tensor:
        """Tokens [B, T, width] after the layers."""
        if not self.config["lent"]:
            for block in self.blocks:
                x = block(x)
            return x
        if not self._lent:
            raise ConfigError(
                "This denoiser has no layers of its own and was lent none: call `lend` with what it was taught with, "
                "such as `agent.trunk.both_ways`."
            )
        return self._lent[0](x)

    def hint(self, condition: Tensor, present: Tensor) -> Tensor:
        """What is recalled of plans for such a condition, [B, tokens, width]."""
        return self.remember((condition * present[..., None]).flatten(1)).unflatten(-1, (-1, self.config["width"]))


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
        only: "symbols" or "points": the half that is predicted, without looking at the other half. One model of each
            makes two separate models.
        numbers: symbols are the last `words` channels of a point, 1 for the meant symbol and -1 for all others.

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
        only: str = "",
        numbers: bool = False,
        pointed: int = 2,
        named: int = 1,
    ) -> None:
        super().__init__()
        if length not in (0, horizon):
            raise ConfigError(f"A plan of {horizon} steps has {horizon} symbols or none; got {length}.")
        self.thing, self.place = nn.Linear(condition, width), nn.Parameter(torch.randn(horizon, width))
        self.blocks = nn.ModuleList(Block(width, attention_heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        own = channels - (words if numbers else 0)
        if only != "symbols":
            self.point = nn.Linear(own * (SPREAD_OUT + 1) + 1, width)
            self.level = nn.Sequential(nn.Linear(64, width), nn.SiLU(), nn.Linear(width, width))
            self.told, self.aims, self.aimed = nn.Linear(width, own), nn.Linear(width, width), nn.Linear(width, width)
        if length or numbers:
            # Symbols that name no thing, and the mask.
            self.other = nn.Parameter(torch.randn(words + 1 - (told_by - named), width))
            if length:
                self.masked = nn.Sequential(nn.Linear(64, width), nn.SiLU(), nn.Linear(width, width))
            if only != "points":
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
        words, only, numbers = self.config["words"], self.config["only"], self.config["numbers"]
        things = self.hint(condition, present) if hint is None else hint
        steps = self.place.expand(len(things), -1, -1)
        points, said = trajectory.split((trajectory.shape[-1] - words, words), -1) if numbers else (trajectory, None)
        if self.config["length"]:
            said = F.one_hot(symbols, words + 1).to(things.dtype)
            steps = steps + self.masked(waves(masked))[:, None]
        elif said is not None:
            said = F.pad((said + 1) / 2, (0, 1))
        if said is not None:
            steps = steps + said @ self._nameable(things)
        if only != "symbols":
            mark = given[..., None].to(points.dtype)
            seen = torch.cat((spread_out(points), mark, mark * points), -1)
            steps = steps + self.point(seen) + self.level(waves(level))[:, None]
        x = torch.cat((things, steps), 1)
        for block in self.blocks:
            x = block(x)
        things, steps = self.norm(x).split((things.shape[1], steps.shape[1]), 1)
        drawn_trajectory, logits = trajectory, things.new_zeros(len(things), 0, words)
        if only != "symbols":
            drawn_trajectory = self._pointed(steps, things, condition, present)
        if said is not None and only != "points":
            logits = _score(self.means(steps), self.meant(self._nameable(things)[:, :-1]))
        elif said is not None:
            logits = things.new_zeros(len(things), steps.shape[1], words)
        if numbers:
            return torch.cat((drawn_trajectory, 2 * logits.softmax(-1) - 1), -1), logits[:, :0]
        return drawn_trajectory, logits

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


def spread_out(numbers: Tensor) -> Tensor:
    """Numbers [..., C] in about -1..1 with their sines and cosines of four octaves, [..., 9 C].

    With these a small network learns much sooner to tell a wall from a door beside it (Tancik et al. 2020, "Fourier
    features").
    """
    angles = [numbers * math.pi * 2**octave for octave in range(OCTAVES)]
    return torch.cat((numbers, *(angle.sin() for angle in angles), *(angle.cos() for angle in angles)), -1)


def waves(level: Tensor, size: int = 64) -> Tensor:
    """Levels in 0..1, [B], as sines and cosines [B, size] of frequencies from 1 to 1,000."""
    rates = torch.exp(torch.linspace(0.0, math.log(1000.0), size // 2, device=level.device))
    angles = level.float()[:, None] * rates
    return torch.cat((angles.sin(), angles.cos()), -1)


class Block(nn.Module):
    """Attention without a mask, and an MLP, each after a norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.net = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.before(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.net(self.between(x))


def _score(asks: Tensor, answers: Tensor) -> Tensor:
    """Scores [B, H, K] of each of `answers` [B, K, D] for each of `asks` [B, H, D]."""
    return asks @ answers.transpose(1, 2) / asks.shape[-1] ** 0.5
