"""Imagining plans of arranging in four ways, by the same code: the hybrid, and the paper's three baselines.

Hoeg, Vaaler, Liu, Egeland, Du (arXiv 2509.21983). `masked`: points (Gaussian) and symbols (masked) by one network;
`trajectory`: points only; `numbers`: symbols as numbers beside the points, noised as these; `separate`: one network
draws the symbols, and another one the points, which knows the symbols that were drawn.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from devmind.agent.output import masked_mean
from devmind.algorithms.diffusion import SPREAD_OUT, HybridPipeline, MaskedTokens, make_scheduler, spread_out
from devmind.algorithms.diffusion.pipeline import Watch
from devmind.algorithms.diffusion.schedules import noised
from devmind.algorithms.diffusion.tokens import TokenDenoiser
from devmind.errors import ConfigError, nearest
from devmind.worlds.tabletop import PLACES, THINGS, Table
from stages.planning.arrange.demonstrations import CHANNELS, HORIZON, LENGTH, WORDS

VARIANTS = ("masked", "trajectory", "numbers", "separate")
FEATURES, TOLD_BY = 2 * SPREAD_OUT + 5, 1 + THINGS + PLACES
"""Numbers of a thing in the condition, and how many of them: the hand, things, places."""
WORDS_FIRST, WORDS_KNOWN = 0.35, 0.35
"""Shares of what is taught: symbols of a trajectory that is noise, and trajectories whose symbols are known."""


def scene(table: Table) -> Tensor:
    """What a table is to the denoiser, [N, TOLD_BY, FEATURES]; a thing that is not there is zeros."""
    n = len(table)
    spots = np.concatenate((table.hand[:, None], table.things, table.places), 1)
    none = np.zeros((n, 1))
    kinds = np.concatenate((none, 2.0 * table.kinds - 1, 2.0 * table.place_kinds - 1), 1)
    there = np.concatenate((none + 1, table.kinds >= 0, table.place_kinds >= 0), 1)
    roles = np.broadcast_to(np.eye(3)[[0, *[1] * THINGS, *[2] * PLACES]], (n, TOLD_BY, 3))
    marks = np.concatenate((kinds[..., None], there[..., None], roles), -1)
    told = torch.cat((spread_out(torch.from_numpy(spots).float()), torch.from_numpy(marks).float()), -1)
    return told * torch.from_numpy(there)[..., None].float()


class Imaginer(nn.Module):
    """Draws plans of one of the four ways, and learns from plans that were shown.

    Args:
        variant: one of `VARIANTS`.
        width, layers, attention_heads: of each denoiser; levels: of noise; steps: of denoising points; word_steps: in
            which symbols are drawn before the points.

    Raises:
        ConfigError: there is no such variant.
    """

    def __init__(
        self,
        variant: str = "masked",
        width: int = 64,
        layers: int = 3,
        attention_heads: int = 4,
        levels: int = 100,
        steps: int = 10,
        word_steps: int = 6,
    ) -> None:
        super().__init__()
        if variant not in VARIANTS:
            raise ConfigError(f"There is no way of imagining '{variant}'{nearest(variant, VARIANTS)}")
        self.variant, self.steps, self.word_steps = variant, steps, word_steps
        self.channels = CHANNELS + WORDS if variant == "numbers" else CHANNELS
        length = LENGTH if variant in ("masked", "separate") else 0
        sizes = FEATURES, TOLD_BY, width, layers, attention_heads
        separate = variant == "separate"
        only = "points" if separate else ""
        numbers = variant == "numbers"
        self.denoiser = TokenDenoiser(self.channels, HORIZON, WORDS, length, *sizes, only=only, numbers=numbers)
        self.namer = TokenDenoiser(CHANNELS, HORIZON, WORDS, LENGTH, *sizes, only="symbols") if separate else None
        self.scheduler = make_scheduler("ddim", levels)

    def losses(
        self, condition: Tensor, points: Tensor, words: Tensor, generator: torch.Generator | None = None
    ) -> dict[str, Tensor]:
        """What is learned, by name, from points [B, H, 3] and words int64 [B, L] of scenes [B, K, D]."""
        n, device = len(points), points.device
        clean = points if self.variant != "numbers" else torch.cat((points, 2 * F.one_hot(words, WORDS) - 1.0), -1)

        def uniform(*shape: int) -> Tensor:
            return torch.rand(*shape, generator=generator, device=device)

        phase = uniform(n)
        depth = uniform(n).sqrt()
        if self.variant == "masked":
            depth = torch.where(phase < WORDS_FIRST, 1.0, depth)
        top = self.scheduler.config.num_train_timesteps
        index = (depth * top).long().clamp_max(top - 1)
        noise = torch.randn(clean.shape, generator=generator, device=device)
        x, level = noised(self.scheduler, clean, noise, index)
        given = torch.zeros(points.shape[:2], dtype=torch.bool, device=device)
        present = condition.any(-1)
        share = torch.where(phase > 1 - WORDS_KNOWN, 0.0, uniform(n))
        hidden = uniform(*words.shape) < share[:, None]
        shown = torch.zeros_like(hidden) if self.namer is not None else hidden
        asked = words.masked_fill(shown, WORDS)
        told, logits = self.denoiser(x, given, level, asked, shown.float().mean(-1), condition, present)
        found = {"trajectory": 10 * (told - clean).square().mean()}
        if self.namer is not None:
            hidden = uniform(*words.shape) < uniform(n, 1)
            masked = words.masked_fill(hidden, WORDS)
            _, logits = self.namer(x, given, level, masked, hidden.float().mean(-1), condition, present)
        if logits.shape[1]:
            nats = F.cross_entropy(logits.transpose(1, 2), words, reduction="none")
            found["symbols"] = masked_mean(nats, hidden)
        return found

    @torch.no_grad()
    def draw(
        self,
        condition: Tensor,
        generator: torch.Generator | None = None,
        given: Mapping[int, Tensor] | None = None,
        words: Mapping[int, Tensor] | None = None,
        steps: int | None = None,
        watch: Watch | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Points [B, H, 3] and symbols int64 [B, L] of scenes; points {number: [B, C]} and symbols {number: int64 [B]}
        may be given. `trajectory` tells no symbols: [B, 0]. `watch` sees the points denoised, in `steps`."""
        n, device = len(condition), condition.device
        present = condition.any(-1)
        noise = torch.randn(n, HORIZON, self.channels, generator=generator, device=device)
        luck = torch.rand(n, LENGTH, WORDS, generator=generator, device=device).clamp_min(1e-9).log().neg()
        luck = luck.clamp_min(1e-9).log().neg()
        held = dict(words or {})
        if self.namer is not None:
            told = self._pipeline(self.namer)(
                condition, present, noise, words=held, steps=1, luck=luck, words_first=self.word_steps
            )
            held = dict(enumerate(told.symbols.unbind(1)))
        first = self.word_steps if self.variant == "masked" else 0
        named = self.denoiser.config["length"] > 0
        drawn = self._pipeline(self.denoiser)(
            condition, present, noise, given, held if named else None, steps=steps or self.steps, watch=watch,
            luck=luck if named else None, words_first=first,
        )  # fmt: skip
        points, symbols = drawn.trajectory, drawn.symbols
        if self.variant == "numbers":
            points, symbols = points[..., :CHANNELS], points[..., CHANNELS:].argmax(-1)
        return points, symbols

    def _pipeline(self, denoiser: TokenDenoiser) -> HybridPipeline:
        return HybridPipeline(denoiser, self.scheduler, MaskedTokens(WORDS))
