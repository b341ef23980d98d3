"""The planner: a head that keeps a plan, follows it, and makes a new one after so many ticks.

A plan is a trajectory of places `stride` ticks apart and its moves from cell to cell, denoised together
(`devmind.algorithms.diffusion`). The planner draws several plans without guidance, and a critic chooses one (MCSS: Lu
et al. 2025, "What makes a good diffusion planner for decision making?"). Inverse dynamics give the command. The agent's
state keeps the plan, so life, exams and replay follow it alike. Ticks decide when a new plan is due, never a clock. The
state also keeps which cells were found closed (`belief`). The planner refuses plans that lead into these and looks for
a way round (`detour`); where it finds none, it says that there is no plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from devmind.agent.heads import AgentParts, Inlet
from devmind.agent.output import masked_mean
from devmind.agent.taps import Tap, Tapped
from devmind.algorithms.diffusion import (
    SPREAD_OUT,
    HybridDenoiser,
    HybridPipeline,
    MaskedTokens,
    make_scheduler,
    spread_out,
)
from devmind.algorithms.diffusion.pipeline import Watch
from devmind.algorithms.diffusion.schedules import gumbel, noised_to_teach
from devmind.errors import ConfigError
from devmind.seeding import torch_generator
from devmind.worlds.pointmaze import MAZES
from stages.planning.belief import BeliefHead
from stages.planning.critic import CRITICISED
from stages.planning.following import (
    GOAL,
    MAZE,
    PLACE,
    PLACE_NUMBERS,
    SYMBOLS,
    TRUNK,
    WARM,
    Candidates,
    Route,
    interpolated,
)
from stages.planning.judge import JudgeHead
from stages.planning.places import CELLS, numbered, scaled, unscaled

OWN = "own"
"""Whose layers the denoiser runs; else TRUNK."""
LEFT_OUT = 0.25
"""Probability with which a token of the condition is left out in teaching."""
WORDS_FIRST, WORDS_KNOWN = 0.35, 0.35
"""Shares of taught plans: with a trajectory of pure noise, which teaches symbols, and with all symbols known."""
NAMED_EVERY = 4
"""One in so many plans teaches the names of strides, which are learned sooner than all else."""
GIVEN_SHARE = 0.1
"""Share of a taught plan's points that are given clean beside its ends, in half of the plans."""


def are_lent(layers_of: str) -> bool:
    """Whether a denoiser's layers are the trunk's; ConfigError where neither OWN nor TRUNK is asked for."""
    if layers_of not in (OWN, TRUNK):
        raise ConfigError(f"A planner's layers are of '{OWN}' or '{TRUNK}'; got '{layers_of}'.")
    return layers_of == TRUNK


class PlannerHead(BeliefHead):
    """Taps the trunk's features, and `raw:body`, `raw:goal`, `raw:maze` last.

    Args:
        horizon: points of a plan; stride: ticks between two points; follow: ticks until a new plan is made.
        words: number of symbols; length: symbols of a plan, 0 for plans without symbols.
        candidates: plans drawn, of which the critic chooses one; steps: denoising steps; warm_steps: denoising steps
            of a plan that begins from the last one, which is noised to the level WARM.
        word_steps: steps in which symbols are drawn before the trajectory; 0: side by side with it.
        width, layers, attention_heads, memory, pieces: of the denoiser; scheduler: see `SCHEDULERS`; levels: noise
            levels in teaching.
        layers_of: OWN, or TRUNK: the denoiser runs the trunk's layers in both directions, at the trunk's width. They
            are taught where the trunk is.
        doubt: what a nat of the judge's doubt costs a plan in its marks, where the agent has a judge of plans; 0: the
            critic of strides chooses alone.
    """

    carries: ClassVar[bool] = True
    silenced: frozenset[str] = frozenset()
    """For rows and floors of exams. TRUNK: its features are taken away. SYMBOLS: no symbol is drawn, the trajectory
    stands alone. BELIEF: no cell is found closed, and a goal that moves is not noticed. REPLANNING: the first plan is
    followed to its end."""
    surprise: float = 0.3
    """Distance from the plan beyond which a new plan is made from noise alone, from one stride after the plan was
    made."""
    patience: int = 16
    """Ticks without progress along the plan after which the agent goes back."""
    free_guidance: float = 1.0
    """How much the condition counts (classifier-free guidance); 1: as it was taught, at one network call a step instead
    of two."""

    def __init__(
        self,
        inlet: Inlet,
        horizon: int = 32,
        stride: int = 16,
        follow: int = 48,
        words: int = 5,
        length: int = 24,
        candidates: int = 8,
        steps: int = 5,
        warm_steps: int = 3,
        word_steps: int = 10,
        width: int = 192,
        layers: int = 2,
        attention_heads: int = 4,
        memory: int = 512,
        pieces: int = 2,
        scheduler: str = "ddim",
        levels: int = 100,
        doubt: float = 3.0,
        layers_of: str = OWN,
    ) -> None:
        super().__init__(inlet)
        if inlet.n_tokens < 4:
            raise ConfigError("A planner taps the trunk, and 'raw:body', 'raw:goal' and 'raw:maze' last.")
        if candidates < 1 or not 1 <= follow <= stride * (horizon - 2):
            raise ConfigError(
                f"A planner needs at least one candidate, and follows a plan for 1 to {stride * (horizon - 2)} "
                f"ticks, its length; got {candidates} and {follow}."
            )
        self.horizon, self.stride, self.follow, self.candidates = horizon, stride, follow, candidates
        self.steps, self.warm_steps, self.word_steps = steps, warm_steps, word_steps
        self.doubt = doubt
        self.judges: tuple[JudgeHead, ...] = ()
        self.scheduler = make_scheduler(scheduler, levels)
        self.read_width = max(inlet.width, 2 * SPREAD_OUT)
        lent = are_lent(layers_of)
        self.denoiser = HybridDenoiser(
            2, horizon, words, length, self.read_width, inlet.n_tokens + 1,
            inlet.width if lent else width, layers, attention_heads, memory, pieces, lent,
        )  # fmt: skip
        # Places near in numbers may be far to walk, so each pair of cells has a code of its own, a product of two.
        self.begins, self.ends = (nn.Embedding(len(MAZES) * CELLS**2, self.read_width) for _ in range(2))
        self.add_strides(width, words if length else 0)
        self.add_belief()

    def bind(self, agent: AgentParts, tap: Tap) -> None:
        """Lend the trunk's layers to a denoiser that has none, and remember the agent's judges of plans, which take
        part in choosing one."""
        if self.denoiser.config["lent"]:
            self.denoiser.lend(agent.trunk.both_ways)
        self.judges = tuple(head for head in agent.heads.values() if isinstance(head, JudgeHead))

    def forward(self, tapped: Tapped, kept: Mapping[str, Tensor] | None = None) -> Route:
        tokens = tapped.tokens * tapped.present[..., None]
        place, goal, maze = (tokens[..., at, :n].clone() for at, n in ((PLACE, 2), (GOAL, 2), (MAZE, None)))
        tokens = F.pad(tokens, (0, self.read_width - tokens.shape[-1]))
        present = tapped.present
        if tapped.known is not None:
            # A place that is half NaN is unknown, and a head that does not know place and goal makes no plan.
            known = tapped.known[..., [PLACE, GOAL]] >= PLACE_NUMBERS
            present = torch.cat((present[..., :PLACE], present[..., [PLACE, GOAL]] & known, present[..., MAZE:]), -1)
        if TRUNK in self.silenced:
            present = torch.cat((torch.zeros_like(present[..., :PLACE]), present[..., PLACE:]), -1)
        tokens = torch.cat((tokens[..., :1, :], tokens), -2)
        present = torch.cat((present[..., [PLACE, GOAL]].all(-1, keepdim=True), present), -1)
        return Route(self, self._between(tokens, place, goal, maze), present, place, goal, maze, kept)

    def _between(self, tokens: Tensor, place: Tensor, goal: Tensor, maze: Tensor) -> Tensor:
        """Tokens [..., K, D]: the first is the code of a pair of cells, two hold the ends as numbers."""
        tokens = tokens.clone()
        ends = spread_out(scaled(torch.stack((place, goal), -2)))
        tokens[..., PLACE : GOAL + 1, : ends.shape[-1]] = ends
        pair = self.begins(numbered(place, maze)) * self.ends(numbered(goal, maze))
        return torch.cat((pair[..., None, :], tokens[..., 1:, :]), -2)

    def thinking(self, place: Tensor, goal: Tensor, maze: Tensor) -> Route:
        """The reading as if the agent were at `place` with `goal` [N, 2] in `maze` [N, K], without the trunk's
        features, which are of the Moment as it is.
        """
        n, told_by = len(place), self.denoiser.config["told_by"]
        maze = F.pad(maze, (0, self.inlet.width - maze.shape[-1]))
        tokens = place.new_zeros(n, told_by, self.read_width)
        tokens[:, MAZE, : maze.shape[-1]] = maze
        present = torch.zeros(n, told_by, dtype=torch.bool, device=place.device)
        present[:, [0, PLACE, GOAL, MAZE]] = True
        return Route(self, self._between(tokens, place, goal, maze), present, place, goal, maze)

    def nothing(self, n: int, device: torch.device) -> dict[str, Tensor]:
        """The kept state of N rows without a plan."""
        length = self.denoiser.config["length"]
        return {
            "plan": torch.zeros(n, self.horizon, 2, device=device),
            "symbols": torch.zeros(n, length, dtype=torch.int64, device=device),
            "age": torch.zeros(n, dtype=torch.int64, device=device),
            "made": torch.zeros(n, dtype=torch.int64, device=device),
            "evidence": torch.zeros(n, CELLS**2, device=device),
            "along": torch.zeros(n, device=device),
            "stalled": torch.zeros(n, dtype=torch.int64, device=device),
            **{name: torch.zeros(n, 2, device=device) for name in ("pushed", "moved", "last", "told", "goal", "via")},
            **{name: torch.zeros(n, dtype=torch.bool, device=device) for name in ("around", "none")},
            "failed": torch.zeros(n, dtype=torch.int64, device=device),
        }

    @property
    def pipeline(self) -> HybridPipeline:
        """The denoiser with its schedulers, as diffusers saves it."""
        return HybridPipeline(self.denoiser, self.scheduler, MaskedTokens(self.denoiser.config["words"]))

    def search(
        self,
        read: Route,
        start: Tensor | None = None,
        generator: torch.Generator | None = None,
        given: Mapping[int, Tensor] | None = None,
        words: Mapping[int, Tensor] | None = None,
        watch: Watch | None = None,
        steps: int | None = None,
        number: int | Tensor = 0,
        candidates: int | None = None,
        word_steps: int | None = None,
    ) -> Candidates:
        """Draw several plans for each of B rows, and let the critic of strides and the judge of plans choose.

        Args:
            start: plans to begin from [B, H, 2].
            generator: draws the noise, the same for all rows. Without it `number` names the noise: one number for all
                rows, or int64 [B], one for each.
            given, words: held besides place and goal: waypoints {point: [B, 2]} and symbols {number: int64 [B]}.
            watch: called at each step, with rows [B * N].
            steps, word_steps: by default the planner's own.
            candidates: by default the planner's own number.

        Raises:
            ConfigError: more steps than there are noise levels, or a waypoint beyond the horizon.
        """
        b, n = len(read.place), candidates or self.candidates
        noise, luck = self._chances(b, n, generator, number, read.place.device)

        def each(value: Tensor) -> Tensor:
            return value.repeat_interleave(n, 0)

        drawn = self.pipeline(
            each(read.thought),
            each(read.present),
            noise,
            {at: each(value) for at, value in self.held(read, given).items()},
            {at: each(word) for at, word in (words or {}).items()},
            steps=steps or (self.steps if start is None else self.warm_steps * round(1 / WARM)),
            start=None if start is None else each(scaled(start)),
            begin=WARM,
            guidance=self.free_guidance,
            watch=watch,
            luck=luck,
            with_symbols=SYMBOLS not in self.silenced,
            words_first=self.word_steps if word_steps is None else word_steps,
            guide=self.guide(each(read.maze)) if self.guidance else None,
        )
        plans = unscaled(drawn.trajectory).unflatten(0, (b, n))
        marks = self.marks(plans, read.maze) - self._doubted(plans, read.maze)
        drawn_plans = Candidates(plans, drawn.symbols.unflatten(0, (b, n)), marks, marks.argmax(-1))
        return self._named(drawn_plans, read, words)

    def _doubted(self, plans: Tensor, maze: Tensor) -> Tensor | float:
        """What the judge's doubt takes off the marks of plans [B, N, H, 2]; 0 without a judge."""
        if not self.doubt:
            return 0.0
        return self.doubt * sum(judge.doubts(plans, maze[:, None]) for judge in self.judges)

    def _chances(
        self, b: int, n: int, generator: torch.Generator | None, number: int | Tensor, device: torch.device
    ) -> tuple[Tensor, Tensor]:
        """`_chance` of `n` candidates for each of B rows, row by row."""
        if isinstance(number, int) or generator is not None:
            noise, luck = self._chance(n, generator, 0 if isinstance(number, Tensor) else number, device)
            return noise.repeat(b, 1, 1), luck.repeat(b, 1, 1)
        numbers, of = number.unique(return_inverse=True)
        noises, lucks = zip(*(self._chance(n, None, one, device) for one in numbers.tolist()), strict=True)
        return torch.stack(noises)[of].flatten(0, 1), torch.stack(lucks)[of].flatten(0, 1)

    def _chance(
        self, n: int, generator: torch.Generator | None, number: int, device: torch.device
    ) -> tuple[Tensor, Tensor]:
        """Noise [n, H, 2] and Gumbel luck [n, L, words] of `n` candidates. The first has no luck, so it draws the
        likeliest symbols."""
        draws = generator or torch_generator("planner", self.horizon, n, number, device=device)
        noise = torch.randn(n, self.horizon, 2, generator=draws, device=draws.device).to(device)
        kinds = n, self.denoiser.config["length"], self.denoiser.config["words"]
        luck = gumbel(torch.rand(kinds, generator=draws, device=draws.device).to(device))
        luck[0] = 0.0
        return noise, luck

    def held(self, read: Route, given: Mapping[int, Tensor] | None) -> dict[int, Tensor]:
        """Held points {number: [B, 2]} in the denoiser's numbers: both ends and what is given."""
        return {at: scaled(place) for at, place in {**(given or {}), 0: read.place, -1: read.goal}.items()}

    def _named(self, candidates: Candidates, read: Route, words: Mapping[int, Tensor] | None) -> Candidates:
        """The candidates with the moves that their trajectories make in place of the drawn ones; none where symbols are
        silenced.

        Where moves are given, candidates that make most of them are preferred before any mark. Given moves stay among
        the symbols whether the path makes them or not (`film.Told.given` says which).
        """
        if not candidates.symbols.shape[-1] or SYMBOLS in self.silenced:
            return candidates
        symbols = self.moves(candidates.plans, read.maze[:, None, None]).argmax(-1)
        if not words:
            return replace(candidates, symbols=symbols)
        matches = torch.stack([symbols[..., at] == word[:, None] for at, word in words.items()]).sum(0)
        fewer = matches < matches.amax(-1, keepdim=True)
        for at, word in words.items():
            symbols[..., at] = word[:, None]
        return replace(candidates, symbols=symbols, chosen=candidates.marks.masked_fill(fewer, -torch.inf).argmax(-1))

    def losses(
        self,
        of: Mapping[str, Tensor],
        thought: Tensor,
        present: Tensor,
        maze: Tensor,
        generator: torch.Generator | None,
    ) -> dict[str, Tensor]:
        """See `Route.losses`; all with the leading dimension [n]."""
        plan, symbols = of["plan"], of["symbols"]
        clean, n, device = scaled(plan), len(plan), plan.device

        def uniform(*shape: int) -> Tensor:
            return torch.rand(*shape, generator=generator, device=device)

        # Plans are drawn symbols first, from a trajectory of pure noise; then the trajectory, with all symbols known.
        phase = uniform(n)
        x, level = noised_to_teach(self.scheduler, clean, phase < WORDS_FIRST, generator)
        fixed = (uniform(n, self.horizon) < GIVEN_SHARE) & (uniform(n, 1) < 0.5)
        fixed[:, [0, -1]] = True
        share = torch.where(phase > 1 - WORDS_KNOWN, 0.0, uniform(n))
        hidden = uniform(*symbols.shape) < share[:, None]
        # The whole condition is left out at times, for guidance, and parts of it, so that the network leans on none.
        present = present & (uniform(n, 1) > 0.1) & (uniform(*present.shape) > LEFT_OUT)
        mask = self.denoiser.config["words"]
        denoised, logits = self.denoiser(
            torch.where(fixed[..., None], clean, x),
            fixed,
            level,
            symbols.masked_fill(hidden, mask),
            hidden.float().mean(-1) if symbols.shape[1] else share,
            thought,
            present,
        )
        losses = {"trajectory": 10 * masked_mean((denoised - clean).square(), ~fixed)}
        if symbols.shape[1]:
            nats = F.cross_entropy(logits.transpose(1, 2), symbols, reduction="none")
            losses["symbols"] = 0.3 * masked_mean(nats, hidden)
            few = slice(None, None, NAMED_EVERY)
            move_logits = self.moves(plan[few], maze[few, None])
            losses["moves"] = F.cross_entropy(move_logits.transpose(1, 2), symbols[few])
        here = plan[:, 0]
        losses["inverse"] = (self.inverse(here, of["ahead"], maze) - of["walk"]).square().mean()
        losses["critic"] = self.critic_loss(plan, unscaled(denoised.detach()), maze, uniform(2, n, CRITICISED))
        return losses | (self.belief_losses(of) if "wall" in of else {})

    def shifted(self, plan: Tensor, along: Tensor) -> Tensor:
        """The rest of plans [B, H, 2] after `along` [B] strides; the last point is repeated."""
        return interpolated(plan, torch.arange(self.horizon, device=plan.device) + along[:, None])
