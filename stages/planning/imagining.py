"""Imagining plans of key points: points (Gaussian) and symbols (masked) by one network, or points alone.

Hoeg, Vaaler, Liu, Egeland, Du (arXiv 2509.21983): the hybrid, and their baseline without symbols.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from devmind.agent.output import masked_mean
from devmind.algorithms.diffusion import (
    SPREAD_OUT,
    HybridPipeline,
    MaskedTokens,
    TokenDenoiser,
    make_scheduler,
    spread_out,
)
from devmind.algorithms.diffusion.pipeline import SampledPlans, Watch
from devmind.algorithms.diffusion.schedules import gumbel, noised_to_teach
from devmind.worlds.tabletop import PLACES, THINGS, Table, observe_table
from stages.planning.arrange.demonstrations import CHANNELS, HORIZON, WORDS

FEATURES, TOLD_BY = 2 * SPREAD_OUT + 5, 1 + THINGS + PLACES
"""Numbers of a thing in the condition, and the number of things: the hand, things, places."""
LEVELS = 100
"""Levels of noise."""
HALF = 0.5
"""Above this a thing's last number says that the thing is there."""
FEW = 4
"""Plans fewer than these are drawn with all their candidates: that takes hardly longer, and BLAS rounds maps of fewer
than four rows otherwise than those of more, so a plan would depend on how many are drawn beside it."""
WORDS_FIRST, WORDS_KNOWN = 0.5, 0.35
"""Shares of taught plans: with a trajectory of pure noise, which teaches symbols, and with all symbols known."""


LEFT_OUT, ALL_LEFT_OUT = 0.25, 0.1
"""Shares left out in teaching: of the trunk's features, each by itself, and of rows, all features at once."""


def thin_tokens(present: Tensor, thoughts: int, generator: torch.Generator | None) -> Tensor:
    """Which tokens [N, K] a lesson shows. The first `thoughts` of them are the trunk's features; some of these are left
    out, so that plans do not depend on them."""

    def kept(width: int, share: float) -> Tensor:
        return torch.rand(len(present), width, generator=generator, device=present.device) >= share

    some = kept(thoughts, LEFT_OUT) & kept(1, ALL_LEFT_OUT)
    return present & F.pad(some, (0, present.shape[1] - thoughts), value=True)


@dataclass(frozen=True)
class Form:
    """Sizes of plans and scenes: numbers of a point, points (and symbols) of a plan, number of symbols, things in a
    scene, numbers of a place."""

    channels: int
    horizon: int
    words: int
    told_by: int
    pointed: int


ARRANGING = Form(CHANNELS, HORIZON, WORDS, TOLD_BY, 2)


def scene(table: Table) -> Tensor:
    """A table as tokens for the denoiser, [N, TOLD_BY, FEATURES]; a missing thing is zeros."""
    return scene_of(**{name: torch.from_numpy(value) for name, value in observe_table(table).items()})


def scene_of(hand: Tensor, things: Tensor, places: Tensor) -> Tensor:
    """The same from the senses, [..., 4], [..., 4 * THINGS] and [..., 4 * PLACES]: see `TabletopRules`."""
    lead = hand.shape[:-1]
    things, places = things.unflatten(-1, (THINGS, 4)), places.unflatten(-1, (PLACES, 4))
    own = torch.cat((hand[..., :2], torch.zeros_like(hand[..., :1]), torch.ones_like(hand[..., :1])), -1)
    rows = torch.cat((own[..., None, :], things, places), -2)
    spots, kinds, there = rows[..., :2], rows[..., 2:3], rows[..., 3:] > HALF
    roles = F.one_hot(torch.tensor([0, *[1] * THINGS, *[2] * PLACES], device=hand.device), 3).to(hand.dtype)
    marks = torch.cat((kinds, there.to(hand.dtype), roles.expand(*lead, TOLD_BY, 3)), -1)
    return torch.cat((spread_out(spots), marks), -1) * there


class Imaginer(nn.Module):
    """Draws plans, and learns from plans that are shown.

    Args:
        with_symbols: whether a plan has symbols, or is a trajectory alone.
        width, layers, attention_heads: of each denoiser; steps: denoising steps of the points; word_steps: steps in
            which symbols are drawn before the points.
        before: tokens of the condition before those of the scene, which are no things; features: numbers of each token
            of the condition, the scene's first.
        form: sizes of a plan and a scene.
    """

    def __init__(
        self,
        with_symbols: bool = True,
        width: int = 64,
        layers: int = 3,
        attention_heads: int = 4,
        steps: int = 10,
        word_steps: int = 6,
        before: int = 0,
        features: int = FEATURES,
        form: Form = ARRANGING,
    ) -> None:
        super().__init__()
        self.with_symbols, self.steps, self.word_steps, self.form = with_symbols, steps, word_steps, form
        self.denoiser = TokenDenoiser(
            form.channels,
            form.horizon,
            form.words,
            form.horizon if with_symbols else 0,
            features,
            before + form.told_by,
            width,
            layers,
            attention_heads,
            named=before + 1,
            pointed=form.pointed,
        )
        self.scheduler = make_scheduler("ddim", LEVELS)

    def losses(
        self,
        condition: Tensor,
        points: Tensor,
        words: Tensor,
        generator: torch.Generator | None = None,
        present: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """Losses by name, for points [B, H, C] and symbols int64 [B, L] of scenes [B, K, D].

        Args:
            present: bool [B, K]; by default tokens that are not all zeros.
        """
        n, device = len(points), points.device

        def uniform(*shape: int) -> Tensor:
            return torch.rand(*shape, generator=generator, device=device)

        phase = uniform(n)
        alone = (phase < WORDS_FIRST) & self.with_symbols
        x, level = noised_to_teach(self.scheduler, points, alone, generator)
        given = torch.zeros(points.shape[:2], dtype=torch.bool, device=device)
        present = condition.any(-1) if present is None else present
        share = torch.where(phase > 1 - WORDS_KNOWN, 0.0, uniform(n))
        hidden = uniform(*words.shape) < share[:, None]
        masked = words.masked_fill(hidden, self.form.words)
        denoised, logits = self.denoiser(x, given, level, masked, hidden.float().mean(-1), condition, present)
        losses = {"trajectory": 10 * (denoised - points).square().mean()}
        if self.with_symbols:
            nats = F.cross_entropy(logits.transpose(1, 2), words, reduction="none")
            losses["symbols"] = masked_mean(nats, hidden)
        return losses

    def draw(
        self,
        condition: Tensor,
        generator: torch.Generator | None = None,
        given: Mapping[int, Tensor] | None = None,
        words: Mapping[int, Tensor] | None = None,
        steps: int | None = None,
        watch: Watch | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Points [B, H, C] and symbols int64 [B, L] for scenes. Points {number: [B, C]} and symbols {number: int64 [B]}
        may be given. A trajectory alone has no symbols: [B, 0]. `watch` is called at each of the `steps` of points."""
        drawn = self.drawn(
            condition, self.chance(len(condition), generator, condition.device), given, words, steps, watch
        )
        return drawn.trajectory, drawn.symbols

    def chance(
        self, n: int, generator: torch.Generator | None, device: torch.device | None = None
    ) -> tuple[Tensor, Tensor]:
        """The chance of `n` plans: noise [n, H, C], and Gumbel luck [n, L, words], by which symbols are drawn."""
        there = device if generator is None else generator.device
        noise = torch.randn(n, self.form.horizon, self.form.channels, generator=generator, device=there)
        luck = gumbel(torch.rand(n, self.form.horizon, self.form.words, generator=generator, device=there))
        return noise.to(device), luck.to(device)

    @torch.no_grad()
    def drawn(
        self,
        condition: Tensor,
        chance: tuple[Tensor, Tensor],
        given: Mapping[int, Tensor] | None = None,
        words: Mapping[int, Tensor] | None = None,
        steps: int | None = None,
        watch: Watch | None = None,
        present: Tensor | None = None,
        of: int = 1,
    ) -> SampledPlans:
        """As `draw`, with a given chance; with the log probability of the drawn symbols.

        Args:
            of: candidates, which stand in a row in the condition and the chance. The result has only the surest of
                each `of`, and where its symbols are known first, the points of no other are drawn.
        """
        noise, luck = chance
        present = condition.any(-1) if present is None else present

        def surest(log_prob: Tensor) -> Tensor:
            best = log_prob.unflatten(0, (-1, of)).argmax(-1)
            return of * torch.arange(len(best), device=best.device) + best

        early = of > 1 and len(noise) >= of * FEW and bool(self.word_steps or not self.with_symbols)
        drawn = self.pipeline(
            condition,
            present,
            noise,
            given,
            words if self.with_symbols else None,
            steps=steps or self.steps,
            watch=watch,
            luck=luck if self.with_symbols else None,
            words_first=self.word_steps if self.with_symbols else 0,
            choose=surest if early else None,
        )
        return drawn if early or of == 1 else drawn.rows(surest(drawn.log_prob))

    @property
    def pipeline(self) -> HybridPipeline:
        """The denoiser with its schedulers, as diffusers saves it."""
        return HybridPipeline(self.denoiser, self.scheduler, MaskedTokens(self.form.words))


def confusion(
    imaginer: Imaginer, condition: Tensor, present: Tensor, chance: tuple[Tensor, Tensor], steps: int
) -> tuple[float, float]:
    """Mode changes, how often the thing nearest to a step of a plan changes while it is denoised, summed over the first
    `steps`; and the share of confused plans, which end with two steps at the same thing."""
    spots = condition[:, -THINGS - PLACES :, :2]
    # What is missing is put infinitely far away.
    spots = spots.masked_fill(~present[:, -THINGS - PLACES :, None], torch.inf)
    about: list[Tensor] = []

    def watch(number: int, noised: Tensor, trajectory: Tensor, symbols: Tensor) -> None:
        about.append((trajectory[:, :steps, None, :2] - spots[:, None]).norm(dim=-1).argmin(-1))

    imaginer.drawn(condition, chance, watch=watch, present=present)
    nearest_spots = torch.stack(about[-imaginer.steps :])
    changes = (nearest_spots[1:] != nearest_spots[:-1]).sum((0, 2)).float().mean()
    last = nearest_spots[-1].sort(-1).values
    return float(changes), float((last[:, 1:] == last[:, :-1]).any(-1).float().mean())
