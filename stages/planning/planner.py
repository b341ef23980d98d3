"""The planner: a head that keeps a plan, follows it, and makes a new one when it is due.

A plan is a trajectory of places `stride` ticks apart and its moves from cell to cell, denoised together
(`devmind.algorithms.diffusion`). The planner draws several plans without guidance, and a critic chooses one by how
sound their strides are (MCSS: Lu et al. 2025, "What makes a good diffusion planner for decision making?"). Inverse
dynamics give the command. The agent's state keeps the plan, so life, exams and replay follow it alike.

A new plan is made after so many ticks, by no clock, and at once where the world contradicts the old one: the goal has
moved, the agent is not where the plan had it to be, or the plan leads into a cell that was found closed.

What the planner believes about where it can go is learned from trips beforehand, and corrected on the way. Two things
are learned. The first is in which cells of a maze trips were, as plans are to stay in these. The second is how it feels
to run into something: the commands of the last ticks, their effect, and where in its cell the body is give the log odds
that each of the four neighbouring cells cannot be entered. One tick proves little, so log odds are added up over ticks
(an occupancy grid: Moravec, Elfes 1985), with a learned weight, as ticks in a row say nearly the same. The sum is
carried in the state, so it holds for all plans of an episode. It fades, so false beliefs are forgotten. Nothing else
tells of closed cells.

The planner has learned shortest ways only, and all of its candidates may lead through a closed cell. But a detour
consists of shortest ways: to another place, from there to the next, and at last to the goal. So it draws these; those
that lead into nothing closed form a graph, and the shortest path through it is followed (as in Eysenbach et al. 2019,
"Search on the replay buffer"). Where there is none, the planner says that there is no plan.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra
from torch import Tensor, nn
from torch.nn import functional as F

from devmind.agent.heads import AgentParts, FollowingHead, Inlet
from devmind.agent.output import masked_mean
from devmind.agent.plans import Course
from devmind.agent.rows import Carry, Leaf
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
from devmind.errors import ConfigError, nearest
from devmind.seeding import torch_generator
from devmind.worlds.pointmaze import MAZES
from stages.planning import WORDS
from stages.planning.judge import JudgeHead, mlp
from stages.planning.keypoints import Followed
from stages.planning.places import (
    CELL_SIDE,
    CELLS,
    SPREAD,
    WALKED,
    middles,
    number_places,
    scale_places,
    square,
    unscale_places,
)

PLACE, GOAL, MAZE = -3, -2, -1
"""Where the raw senses stand among the tokens that are tapped."""
PLACE_NUMBERS = 2
"""Numbers of a place; a place that lacks one of them is unknown."""
TRUNK, SYMBOLS, BELIEF, REPLANNING = "trunk", "symbols", "belief", "replanning"
"""What can be silenced."""
GONE, REACHED = 0.05, 0.12
"""Distance beyond which a goal counts as moved, and within which a place on the way round counts as reached."""
SLOW = 0.25
"""Progress below this share of a tick's walking counts as none."""
WARM = 0.5
"""Noise level from which a plan that begins from the last one is denoised."""
WITHIN = 17
"""Places on the next stride that are compared with the agent's own."""
TRIES = 4
"""Failed searches, each with noise of its own, before the planner says that there is no plan."""
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
STANDING, CRITICISED = 0.02, 4
"""Length below which a stride counts as standing; strides of a plan that teach the critic."""
LENGTH_PRICE = 1.0
"""What a unit of length costs a plan in the critic's marks."""
SIDES = ((1, 0), (0, 1), (-1, 0), (0, -1))
"""The four neighbouring cells: (columns, rows)."""
FADES = 0.75
"""Share of a tick's command, and of its effect, that is left a tick later."""
ALONG = 8
"""Places of a stride that are checked."""
DEEP, CLOSED_DEEP = 0.35, 0.45
"""A plan leads into a cell if it comes nearer to its middle than this share of a side, since strides of few points cut
the corners of walls. Cells that were found closed leave less room."""
FORGETS = 0.999
"""Share of the evidence on a cell that is left a tick later, where the agent is not beside it."""
SURE = 8.0
"""Log odds from which on a cell counts as closed."""
SUREST = 3.0
"""Evidence is limited to so many times SURE, so the surest is forgotten in 1,100 ticks."""
SELDOM = 0.1
"""A cell counts as one where the agent can be if trips are in it at least so many times as often as by chance; few
trips end in a dead end."""
SCALE = 10.0
"""Factor on the learned numbers of cells, so that they are learned as fast as all else."""
NEIGHBOURS = 1.5
"""Plans are drawn between places that are no further apart than this, in cells."""
TURN = 0.2
"""What each further place on the way costs, in units of a plan's length."""
WORD_STEPS = 4
"""Steps in which the moves of these plans are drawn."""
REMEMBERED = 128
"""Sets of near plans, each of a maze and a noise, that a planner keeps."""
Way = tuple[Tensor, Tensor, Tensor]
"""The plan [H, 2] of the first part, its symbols int64 [L], and its end, [2]."""


@dataclass
class Candidates:
    """Plans [B, N, H, 2] in the senses' units, their symbols int64 [B, N, L], their marks [B, N], and the chosen one,
    int64 [B]: the best mark, where moves were given among those that make most of them."""

    plans: Tensor
    symbols: Tensor
    marks: Tensor
    chosen: Tensor


def uses_trunk_layers(layers_of: str) -> bool:
    """Whether a denoiser's layers are the trunk's; ConfigError where neither OWN nor TRUNK is asked for."""
    if layers_of not in (OWN, TRUNK):
        raise ConfigError(f"A planner's layers are of '{OWN}' or '{TRUNK}'; got '{layers_of}'.")
    return layers_of == TRUNK


class PlannerHead(FollowingHead):
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

    generates, reads_senses = True, True
    lighter = (("width", 0.25), ("memory", 0.5))
    silenced: frozenset[str] = frozenset()
    """For rows and floors of exams. TRUNK: its features are taken away. SYMBOLS: no symbol is drawn, the trajectory
    stands alone. BELIEF: no cell is found closed, and a goal that moves is not noticed. REPLANNING: the first plan is
    followed to its end."""
    surprise: float = 0.3
    """Distance from the plan beyond which a new plan is made from noise alone, from one stride after the plan was
    made."""
    patience: int = 16
    """Ticks without progress along the plan after which the agent goes back."""
    guidance: float = 0.0
    """How far the critic's gradient pulls the denoised points in each step; 0: not at all."""
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
        lent = uses_trunk_layers(layers_of)
        self.denoiser = HybridDenoiser(
            2, horizon, words, length, self.read_width, inlet.n_tokens + 1,
            inlet.width if lent else width, layers, attention_heads, memory, pieces, lent,
        )  # fmt: skip
        # Places near in numbers may be far to walk, so each pair of cells has a code of its own, a product of two.
        self.begins, self.ends = (nn.Embedding(len(MAZES) * CELLS**2, self.read_width) for _ in range(2))
        # Of strides: what leads from here to there, whether anything does, and the name of the move.
        seen = 6 * SPREAD_OUT + 2 + inlet.width
        self.dynamics, self.sound = mlp(seen, width, 2), mlp(seen, width, 1)
        if length:
            self.names = mlp(2 * seen, width, words)
        # Of belief: where the agent can be, how it feels to be stopped, and the weight of a tick.
        self.space = nn.Embedding(len(MAZES) * CELLS**2, 1)
        nn.init.zeros_(self.space.weight)
        self.stopped = mlp(4 + 2 * SPREAD_OUT, 64, 1)
        self.counts = nn.Parameter(torch.tensor([-1.0, 0.0]))  # a tick's weight before softplus; log odds of any wall
        whole, flag, pair = Leaf(dtype=torch.int64), Leaf(dtype=torch.bool), Leaf((2,))
        self.carry_spec = {
            **{"plan": Leaf((horizon, 2)), "symbols": Leaf((length,), torch.int64), "along": Leaf()},
            **{"evidence": Leaf((CELLS**2,)), **dict.fromkeys(("age", "made", "stalled", "failed"), whole)},
            **dict.fromkeys(("pushed", "moved", "last", "told", "goal", "via"), pair),
            **dict.fromkeys(("around", "none"), flag),
        }

    def bind(self, agent: AgentParts, tap: Tap) -> None:
        """Lend the trunk's layers to a denoiser that has none, and remember the agent's judges of plans, which take
        part in choosing one."""
        if self.denoiser.config["lent"]:
            self.denoiser.lend(agent.trunk.both_ways)
        self.judges = tuple(head for head in agent.heads.values() if isinstance(head, JudgeHead))

    def observe(self, tapped: Tapped) -> Route:
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
        return Route(self, self._between(tokens, place, goal, maze), present, place, goal, maze)

    def _between(self, tokens: Tensor, place: Tensor, goal: Tensor, maze: Tensor) -> Tensor:
        """Tokens [..., K, D]: the first is the code of a pair of cells, two hold the ends as numbers."""
        tokens = tokens.clone()
        ends = spread_out(scale_places(torch.stack((place, goal), -2)))
        tokens[..., PLACE : GOAL + 1, : ends.shape[-1]] = ends
        pair = self.begins(number_places(place, maze)) * self.ends(number_places(goal, maze))
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
            each(read.condition),
            each(read.present),
            noise,
            {at: each(value) for at, value in self.held(read, given).items()},
            {at: each(word) for at, word in (words or {}).items()},
            steps=steps or (self.steps if start is None else self.warm_steps * round(1 / WARM)),
            start=None if start is None else each(scale_places(start)),
            begin=WARM,
            guidance=self.free_guidance,
            watch=watch,
            luck=luck,
            with_symbols=SYMBOLS not in self.silenced,
            words_first=self.word_steps if word_steps is None else word_steps,
            guide=self.guide(each(read.maze)) if self.guidance else None,
        )
        plans = unscale_places(drawn.trajectory).unflatten(0, (b, n))
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
        return {at: scale_places(place) for at, place in {**(given or {}), 0: read.place, -1: read.goal}.items()}

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

    def shifted(self, plan: Tensor, along: Tensor) -> Tensor:
        """The rest of plans [B, H, 2] after `along` [B] strides; the last point is repeated."""
        return interpolate_plan(plan, torch.arange(self.horizon, device=plan.device) + along[:, None])

    # -- strides ------------------------------------------------------------------------------------------------------

    def marks(self, plans: Tensor, maze: Tensor) -> Tensor:
        """The critic's marks [B, N] of plans [B, N, H, 2]: log probability that all strides can be walked, less length.

        The critic has learned to tell strides of the data from the same ones in other directions, so it finds a stride
        through a wall unlikely. It knows nothing of the goal, at which every plan ends.
        """
        strides = (plans[..., 1:, :] - plans[..., :-1, :]).norm(dim=-1)
        logits = self.soundness(plans[..., :-1, :], plans[..., 1:, :], maze[:, None, None])
        moving = strides > STANDING
        return (F.logsigmoid(logits) * moving).sum(-1) - LENGTH_PRICE * strides.sum(-1)

    def guide(self, maze: Tensor) -> Callable[[Tensor], Tensor]:
        """A function that pulls denoised plans [B, H, 2] along the gradient of what the critic finds sound."""

        def pulled(clean: Tensor) -> Tensor:
            # A life is stepped in inference mode, which records nothing for a gradient.
            with torch.inference_mode(False), torch.enable_grad():
                plan, which = unscale_places(clean.clone()).requires_grad_(), maze.clone()
                logits = self.soundness(plan[:, :-1], plan[:, 1:], which[:, None])
                moving = (plan[:, 1:] - plan[:, :-1]).detach().norm(dim=-1) > STANDING
                (pull,) = torch.autograd.grad((F.logsigmoid(logits) * moving).sum(), plan)
            return clean + self.guidance * pull / SPREAD

        return pulled

    def soundness(self, here: Tensor, there: Tensor, maze: Tensor) -> Tensor:
        """Log odds [...] that one stride leads from `here` to `there` [..., 2]."""
        return self.sound(self._pair(here, there, maze)).squeeze(-1)

    def inverse(self, here: Tensor, there: Tensor, maze: Tensor) -> Tensor:
        """The command [..., 2] that leads from `here` towards `there`."""
        return self.dynamics(self._pair(here, there, maze))

    def moves(self, plans: Tensor, maze: Tensor) -> Tensor:
        """Logits [..., H, words] of the move at each point of plans [..., H, 2]: of the stride that begins there, and,
        as a stride may cross two borders, of the one before."""
        before = torch.cat((plans[..., :1, :], plans[..., :-1, :]), -2)
        behind = torch.cat((plans[..., 1:, :], plans[..., -1:, :]), -2)
        strides = (self._pair(before, plans, maze), self._pair(plans, behind, maze))
        return self.names(torch.cat(strides, -1))

    def _pair(self, here: Tensor, there: Tensor, maze: Tensor) -> Tensor:
        here, there = scale_places(here), scale_places(there)
        ends = torch.cat((spread_out(here), spread_out(there), spread_out((here + there) / 2)), -1)
        return torch.cat((ends, 4 * (there - here), maze.expand(*here.shape[:-1], maze.shape[-1])), -1)

    def critic_loss(self, plan: Tensor, imagined: Tensor, maze: Tensor, turn: Tensor) -> Tensor:
        """Loss of telling strides of the data from the same ones turned at random (noise contrastive: Gutmann,
        Hyvärinen 2010), and from those that the planner imagined in their place."""
        strides = (plan[:, 1:] - plan[:, :-1]).norm(dim=-1) > STANDING
        number = (turn[0] * strides.sum(-1, keepdim=True)).long()[..., None].expand(-1, -1, 2)  # they come first
        here, there, from_, to = (way.gather(1, number + k) for way in (plan, imagined) for k in (0, 1))
        way, angle = there - here, 2 * torch.pi * turn[1]
        x, y = way.unbind(-1)
        turned = torch.stack((angle.cos() * x - angle.sin() * y, angle.sin() * x + angle.cos() * y), -1)
        real, false, drawn_logits = (
            self.soundness(begin, end, maze[:, None])
            for begin, end in ((here, there), (here, here + turned), (from_, to))
        )
        moving = strides.any(-1)
        return 0.1 * masked_mean(F.softplus(-real) + 0.5 * (F.softplus(false) + F.softplus(drawn_logits)), moving)

    # -- belief -------------------------------------------------------------------------------------------------------

    def room(self, maze: Tensor) -> Tensor:
        """Log odds [B, CELLS^2] that the agent can be in each cell of the mazes [B, mazes]; 0: nothing was learned."""
        return SCALE * self.space.weight.view(len(MAZES), -1)[maze[..., : len(MAZES)].argmax(-1)]

    def felt(self, before: Mapping[str, Tensor], place: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
        """Fading means of the commands, and of their effect in ticks of walking, [B, 2] each; `known` bool [B]: there
        was a tick before."""
        moved = (place - before["last"]) / WALKED
        return tuple(
            torch.where(known[:, None], FADES * before[name] + (1 - FADES) * now, 0.0)
            for name, now in (("pushed", before["told"]), ("moved", moved))
        )  # type: ignore[return-value]

    def stops(self, pushed: Tensor, moved: Tensor, place: Tensor) -> Tensor:
        """Log odds [..., 4] that each neighbouring cell cannot be entered, by this tick alone.

        Each side has a frame of its own, along it and across it, mirrored so that the agent is on its left: a wall
        feels the same wherever it stands.
        """
        along = torch.tensor(SIDES, dtype=place.dtype, device=place.device).T
        across = along.flip(0) * torch.tensor([[-1.0], [1.0]], device=place.device)
        inside = place / CELL_SIDE
        inside = inside - inside.round()
        aside = inside @ across
        mirrored = torch.where(aside < 0, -1.0, 1.0)
        felt = [way for what in (pushed, moved) for way in (what @ along, (what @ across) * mirrored)]
        geometry = spread_out(torch.stack((inside @ along, aside * mirrored), -1))
        return self.stopped(torch.cat((torch.stack(felt, -1), geometry), -1)).squeeze(-1)

    def counted(self, stops: Tensor) -> Tensor:
        """The weighted log odds of a tick, less those of any wall, which are no evidence."""
        return F.softplus(self.counts[0]) * (stops - self.counts[1])

    def weighed(self, evidence: Tensor, pushed: Tensor, moved: Tensor, place: Tensor) -> Tensor:
        """`evidence` [B, CELLS^2], log odds that cells are closed, after this tick; 0 for the agent's own cell."""
        beside = square(place[:, None] + CELL_SIDE * torch.tensor(SIDES, device=place.device))
        log_odds = self.counted(self.stops(pushed, moved, place))
        # At the edge of all cells two sides may have one number; then both are added.
        evidence = (FORGETS * evidence).scatter(1, beside, evidence.gather(1, beside)).scatter_add(1, beside, log_odds)
        most = SUREST * SURE
        return evidence.clamp(-SURE, most) * ~F.one_hot(square(place), evidence.shape[1]).bool()

    def closed(self, evidence: Tensor, maze: Tensor) -> Tensor:
        """Which cells are believed to have closed, bool [B, CELLS^2]: only cells where trips were or nothing was
        learned, as a known wall is no news."""
        return (evidence > SURE) & (self.room(maze) >= 0)

    def leads_into(self, plans: Tensor, maze: Tensor, closed: Tensor) -> Tensor:
        """Whether plans [B, N, H, 2] lead into a cell that is `closed`, bool [B, CELLS^2], into a cell of the mazes [B,
        mazes] where no trip ever was, or past a corner where two such cells meet; bool [B, N].
        """
        share = torch.arange(ALONG, device=plans.device)[:, None] / ALONG
        places = plans[..., :-1, None, :] + share * (plans[..., 1:, None, :] - plans[..., :-1, None, :])
        places = torch.cat((places.flatten(-3, -2), plans[..., -1:, :]), -2)
        inside = places / CELL_SIDE
        aside, number = (inside - inside.round()).abs().amax(-1), square(places)
        walls = self.room(maze) < 0

        def there(cells: Tensor, number: Tensor) -> Tensor:
            return cells[:, None].expand(-1, number.shape[1], -1).gather(-1, number)

        deep = (there(closed, number) & (aside < CLOSED_DEEP)) | (there(walls, number) & (aside < DEEP))
        return deep.any(-1) | self._squeezes(number, walls | closed, there)

    def _squeezes(self, number: Tensor, shut: Tensor, there: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """Whether ways through cells of these numbers [B, N, K] step diagonally between two shut cells, or jump over
        more; shut cells that are only grazed are passed over."""
        order = torch.arange(number.shape[-1], device=number.device)
        last = torch.where(there(shut, number), 0, order).cummax(-1).values
        number = number.gather(-1, last)
        one, other = number[..., :-1], number[..., 1:]
        (down, across), (lower, further) = ((n // CELLS, n % CELLS) for n in (one, other))
        apart = (down - lower).abs() + (across - further).abs()
        corner = there(shut, lower * CELLS + across) & there(shut, down * CELLS + further)
        return ((apart == 2) & corner | (apart > 2)).any(-1)

    def belief_losses(self, of: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Losses by name.

        Args:
            of: `pushed`, `moved`, `at` [..., T, 2] of T ticks in a row; `wall` [..., T, 4], whether each neighbouring
                cell is a wall; `been` [..., 2], places of trips, and `maze` [..., mazes], their maze.
        """
        stop_logits, wall = self.stops(of["pushed"], of["moved"], of["at"]), of["wall"].to(of["at"].dtype)
        been = SCALE * self.space(number_places(of["been"], of["maze"]))
        # Against places anywhere, where trips are by chance.
        anywhere = self.room(of["maze"])
        usual = self.counts[1].expand_as(wall)
        added: list[Tensor] = []
        cell = square(of["at"])
        for tick in range(cell.shape[-1]):
            now = self.counted(stop_logits[..., tick, :].detach())
            stayed = (
                cell[..., tick] == cell[..., tick - 1] if tick else torch.zeros_like(cell[..., 0], dtype=torch.bool)
            )
            added.append(now + torch.where(stayed[..., None], added[-1], 0.0) if tick else now)
        return {
            "stops": F.binary_cross_entropy_with_logits(stop_logits, wall),
            "usual": F.binary_cross_entropy_with_logits(usual, wall),
            "added": F.binary_cross_entropy_with_logits(self.counts[1].detach() + torch.stack(added, -2), wall),
            "room": F.softplus(-been).mean() + SELDOM * F.softplus(anywhere).mean(),
        }

    # -- losses -------------------------------------------------------------------------------------------------------

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
        clean, n, device = scale_places(plan), len(plan), plan.device

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
        losses["critic"] = self.critic_loss(plan, unscale_places(denoised.detach()), maze, uniform(2, n, CRITICISED))
        return losses | (self.belief_losses(of) if "wall" in of else {})


@dataclass
class Route(Followed):
    """The command [..., 2], from place and goal [..., 2] and maze [..., K].

    Carried are plan [B, H, 2], symbols int64 [B, L]; age int64 [B], ticks since the plan was made, 1 in the first,
    0 without a plan; made int64 [B], plans made so far, which names the noise of the next; along [B], progress in
    strides; stalled int64 [B], ticks without progress.

    Of the belief: evidence [B, cells^2], log odds that cells are closed; pushed and moved [B, 2], fading means of
    commands and of their effect; last, told and goal [B, 2], the tick's place, command and goal; via [B, 2], the next
    place on a way round, where around bool [B]; failed int64 [B], searches that found nothing; none bool [B], there is
    no plan.
    """

    head: PlannerHead
    place: Tensor
    goal: Tensor
    maze: Tensor

    def losses(
        self, target: Mapping[str, Tensor], mask: Tensor | None = None, generator: torch.Generator | None = None
    ) -> dict[str, Tensor]:
        """Losses by name: trajectory, symbols, moves, inverse dynamics, critic.

        Args:
            target: `plan` [..., H, 2] and `symbols` int64 [..., L]; `ahead` [..., 2], the place some ticks later, and
                `walk` [..., 2], the command that led there; optionally all that `PlannerHead.belief_losses` takes.
        """
        rows = torch.ones_like(self.present[..., 0]) if mask is None else mask
        of = {name: value[rows] for name, value in target.items()}
        return self.head.losses(of, self.condition[rows], self.present[rows], self.maze[rows], generator)

    def advance(self, before: Carry, generator: torch.Generator | None = None) -> Carry:
        """Go on with each row's plan, and make a new one where it is due or the world contradicts the old one."""
        head = self.head
        here, age = self.here, before["age"]
        believes = BELIEF not in head.silenced
        pushed, moved = head.felt(before, self.place, here & (age > 0))
        evidence = head.weighed(before["evidence"], pushed, moved, self.place) if believes else before["evidence"]
        evidence = torch.where(here[:, None], evidence, before["evidence"])
        closed = head.closed(evidence, self.maze)
        new = (closed & ~head.closed(before["evidence"], self.maze)).any(-1)
        elsewhere = here & (age > 0) & ((self.goal - before["goal"]).norm(dim=-1) > GONE) & believes
        around = before["around"] & ~elsewhere
        reached = here & around & ((self.place - before["via"]).norm(dim=-1) < REACHED)
        along, aside = self._progress(before)
        stalled = torch.where(along - before["along"] < SLOW / head.stride, before["stalled"] + 1, 0)
        into = head.leads_into(head.shifted(before["plan"], along)[:, None], self.maze, closed)[:, 0]
        cold = (age == 0) | elsewhere | reached | (into & new)
        cold |= (age >= head.stride) & (aside > head.surprise)
        none = before["none"] & ~elsewhere
        due = here & ~none & (cold | (age >= head.follow))
        back = here & ~none & ~due & (stalled >= head.patience)
        if REPLANNING in head.silenced:
            due, back = here & (age == 0), torch.zeros_like(back)
        afresh = due | back
        self.carry = {
            **before,
            "age": torch.where(afresh, 1, age + here.long()),
            "along": torch.where(afresh, 0.0, torch.where(here, along, before["along"])),
            "stalled": torch.where(afresh, 0, torch.where(here, stalled, before["stalled"])),
            "made": before["made"] + due.long(),
            "evidence": evidence,
            "around": around & ~reached,
            "failed": torch.where(elsewhere, 0, before["failed"]),
            "none": none,
            "via": before["via"].clone(),  # `_plan` writes into it
        }
        self.carry |= {"pushed": pushed, "moved": moved}
        for fresh in (True, False):
            rows = (due & ((cold | around) == fresh)).nonzero().squeeze(-1)
            if len(rows):
                start = None if fresh else head.shifted(before["plan"][rows], along[rows])
                self._plan(rows, start, before["made"][rows], generator)
        self._back(back)
        self.carry |= {
            name: torch.where(here[:, None], now, before[name])
            for name, now in (("last", self.place), ("goal", self.goal))
        }
        self.command = self.carry["told"] = self.steer()
        return self.carry

    @property
    def here(self) -> Tensor:
        """Where the agent's place and its goal are known, bool [...]."""
        return self.present[..., [PLACE, GOAL]].all(-1)

    def _progress(self, before: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """How far along its plan each row is, in strides, and its distance from the plan, [B] each.

        Progress is the nearest place on the next stride, never an earlier one. So a plan does not go on, round the next
        corner, without an agent that is held up.
        """
        ahead = before["along"][:, None] + torch.linspace(0, 1, WITHIN, device=self.place.device)
        distance = (interpolate_plan(before["plan"], ahead) - self.place[:, None]).norm(dim=-1)
        aside, at = distance.min(-1)
        return ahead.gather(1, at[:, None])[:, 0].clamp_max(self.head.horizon - 1.0), aside

    def _back(self, rows: Tensor) -> None:
        """Send `rows` bool [B], which get no further, back to the middle of their cell, where they plan anew; in the
        goal's cell, to the goal."""
        here = square(self.place)
        home = here == square(self.goal)
        there = torch.where(home[:, None], self.goal, middles(here.device)[here])
        plan = self._straight(self.place, there)
        self.carry["plan"] = torch.where(rows[:, None, None], plan, self.carry["plan"])
        self.carry["symbols"] = torch.where(rows[:, None], 0, self.carry["symbols"])
        self.carry["via"] = torch.where(rows[:, None], there, self.carry["via"])
        self.carry["around"] = self.carry["around"] | (rows & ~home)

    def _straight(self, place: Tensor, there: Tensor) -> Tensor:
        """Plans [B, H, 2] straight to a place in the agent's own cell, where no wall is: no further than a stride."""
        plan = there[:, None].repeat(1, self.head.horizon, 1)
        plan[:, 0] = place
        return plan

    def _plan(self, rows: Tensor, start: Tensor | None, number: Tensor, generator: torch.Generator | None) -> None:
        """Make plans for these rows, with the noise of each row's `number` int64 [n]: to the goal, else round what is
        in the way; else say that there is none."""
        head, read, after = self.head, self.rows(rows), self.carry
        candidates = head.search(read, start, generator, number=number)
        at = torch.arange(len(rows), device=rows.device)
        plan, symbols = candidates.plans[at, candidates.chosen], candidates.symbols[at, candidates.chosen]
        if BELIEF not in head.silenced:
            closed = head.closed(after["evidence"][rows], read.maze)
            into = head.leads_into(candidates.plans, read.maze, closed)
            best = candidates.marks.masked_fill(into, -torch.inf).argmax(-1)
            best = torch.where(into.all(-1), candidates.chosen, best)
            plan, symbols = candidates.plans[at, best], candidates.symbols[at, best]
            after["around"][rows] &= into.all(-1)
            for row in into.all(-1).nonzero().squeeze(-1).tolist():
                whole = int(rows[row])
                if square(read.place[row]) == square(read.goal[row]):
                    after["around"][whole] = False
                    plan[row], symbols[row] = self._straight(read.place[row : row + 1], read.goal[row : row + 1])[0], 0
                    continue
                way = detour(head, read.rows(torch.tensor([row], device=rows.device)), closed[row], int(number[row]))
                after["around"][whole] = way is not None
                if way is not None:
                    plan[row], symbols[row], after["via"][whole] = way
                elif bool(closed[row].any()):
                    # It waits where it is and searches again, with other noise, before it says that there is no plan.
                    plan[row], symbols[row] = read.place[row], 0
                    after["failed"][whole] += 1
                    after["none"][whole] = after["failed"][whole] >= TRIES
                    after["age"][whole] = head.follow - 1
        after["plan"] = after["plan"].index_put((rows,), plan)
        after["symbols"] = after["symbols"].index_put((rows,), symbols)

    def course(self, given: Mapping[int, str], row: int = 0) -> Course | None:
        """A plan for the row's Moment, drawn with these moves given; None where place or goal is unknown.

        Raises:
            ConfigError: there is no such symbol, or the plan has fewer.
        """
        head = self.head
        length = head.denoiser.config["length"]
        for at, word in given.items():
            if word not in WORDS:
                raise ConfigError(f"Expected a symbol of the route plan; got '{word}'{nearest(word, WORDS)}")
            if not 0 <= at < length:
                raise ConfigError(
                    f"Expected at most {length} symbols in a route plan; got a symbol at number {at + 1}."
                )
        if not bool(self.here[row]):
            return None
        read = self.rows(torch.tensor([row], device=self.place.device))
        words = {at: torch.tensor([WORDS.index(word)], device=self.place.device) for at, word in given.items()}
        with torch.inference_mode():
            candidates = head.search(read, words=words)
            plan = candidates.plans[0, candidates.chosen[0]]
            words_of_plan = head.moves(plan, read.maze).argmax(-1).tolist() if length else []
        made = [WORDS[word] for word in words_of_plan]
        missed = tuple(at for at, word in given.items() if made[at] != word)
        return Course(plan.float().cpu().numpy(), tuple(given.get(at, word) for at, word in enumerate(made)), missed)

    def along(self, course: Course, at: float, row: int = 0) -> tuple[float, np.ndarray]:
        """The nearest place on the course's next stride, and the command that leads one stride further."""
        read = self.rows(torch.tensor([row], device=self.place.device))
        plan = torch.from_numpy(course.points).to(self.place)[None]
        with torch.inference_mode():
            now, _ = read._progress({"plan": plan, "along": plan.new_tensor([at])})
            command = self.head.inverse(read.place, interpolate_plan(plan, now[:, None] + 1)[:, 0], read.maze).clamp(
                -1, 1
            )
        return float(now[0]), command[0].float().cpu().numpy()

    def steer(self) -> Tensor:
        """The command [B, 2] in -1..1 that leads to the plan's place one stride further on; 0 where there is no plan,
        or the agent's place or goal is unknown."""
        head = self.head
        aim = interpolate_plan(self.carry["plan"], self.carry["along"][:, None] + 1)[:, 0]
        command = head.inverse(self.place, aim, self.maze).clamp(-1, 1)
        return torch.where((self.carry["none"] | ~self.here)[:, None], 0.0, command)


def interpolate_plan(plan: Tensor, at: Tensor) -> Tensor:
    """Points [B, K, 2] of plans [B, H, 2] at the fractional indices `at` [B, K]; beyond the end the last point."""
    at = at.clamp(0, plan.shape[1] - 1)
    low = at.floor().long().clamp_max(plan.shape[1] - 2)
    share = (at - low)[..., None]
    before, after = (plan.gather(1, index[..., None].expand(-1, -1, 2)) for index in (low, low + 1))
    return before + share * (after - before)


@dataclass(frozen=True)
class Near:
    """Plans between neighbouring places of a maze: numbers of the cells where they begin and end, int64 [E], their maze
    [E, mazes], and the plans, one candidate each."""

    begin: Tensor
    end: Tensor
    maze: Tensor
    found: Candidates


_KEPT: WeakKeyDictionary[PlannerHead, OrderedDict[Hashable, Near]] = WeakKeyDictionary()


def detour(head: PlannerHead, read: Route, closed: Tensor, number: int) -> Way | None:
    """The best way round for one row; None if the drawn plans contain none.

    Args:
        read: the readings of one row. closed: bool [cells^2], cells that were found closed.
        number: names the noise of the plans.
    """
    known = (head.room(read.maze)[0] > 0) & ~closed
    known[square(read.place)[0]] = False
    places = middles(read.place.device)[known]
    n = len(places)
    if not n:
        return None
    # Places are numbered from 0; the agent's own is n, the goal n + 1.
    of, to = torch.arange(n, device=places.device), torch.full((n,), n + 1, device=places.device)
    begin, end = torch.cat((torch.full_like(of, n), of)), torch.cat((of, to))
    nodes = torch.cat((places, read.place, read.goal))
    asked = head.thinking(nodes[begin], nodes[end], read.maze.expand(len(begin), -1))
    own = _candidates(head, asked, number)
    near = near_plans(head, read.maze, number)
    both = known[near.begin] & known[near.end]
    place_of = known.cumsum(0) - 1
    begin = torch.cat((begin, place_of[near.begin[both]]))
    end = torch.cat((end, place_of[near.end[both]]))
    free, price = [], []
    for found, maze, some in ((own, asked.maze, slice(None)), (near.found, near.maze, both)):
        plans = found.plans[some]
        free.append(~head.leads_into(plans, maze[some], closed.expand(len(plans), -1))[:, 0])
        price.append(TURN - found.marks[some, 0])
    on = torch.cat(free)
    edges = [value[on].cpu().numpy() for value in (torch.cat(price), begin, end)]
    graph = csr_array((edges[0], (edges[1], edges[2])), (n + 2, n + 2))
    far, before = dijkstra(graph, indices=n, return_predecessors=True)
    if not far[n + 1] < float("inf"):
        return None
    at = n + 1
    while before[at] != n:
        at = int(before[at])
    # The first plans are those from the agent's place, in the order of the places.
    return own.plans[at, 0], own.symbols[at, 0], places[at]


def near_plans(head: PlannerHead, maze: Tensor, number: int) -> Near:
    """Plans between all neighbouring places of the maze [1, mazes] where trips were, with the noise `number`, as this
    head draws them now. All are always drawn together, so that it makes no difference which row asked first."""
    kept = _KEPT.setdefault(head, OrderedDict())
    key = (*_cache_key(head), int(maze[0, : len(MAZES)].argmax()), number)
    if key not in kept:
        places = middles(maze.device)
        known = (head.room(maze)[0] > 0).nonzero()[:, 0]
        apart = torch.cdist(places[known], places[known])
        begin, end = known[(apart < NEIGHBOURS * CELL_SIDE).fill_diagonal_(False).nonzero()].unbind(-1)
        asked = head.thinking(places[begin], places[end], maze.expand(len(begin), -1))
        kept[key] = Near(begin, end, asked.maze, _candidates(head, asked, number))
        while len(kept) > REMEMBERED:
            kept.popitem(last=False)
    kept.move_to_end(key)
    return kept[key]


def _candidates(head: PlannerHead, asked: Route, number: int) -> Candidates:
    return head.search(asked, number=number, candidates=1, steps=1, word_steps=WORD_STEPS)


def _cache_key(head: PlannerHead) -> tuple[Hashable, ...]:
    """What near plans depend on besides maze and noise: the weights of the planner and its judges, as sums over each
    tensor, and the settings of drawing."""
    with torch.no_grad():
        sums = torch.stack([value.abs().sum() for module in (head, *head.judges) for value in module.parameters()])
    settings = head.silenced, head.doubt, head.guidance, head.free_guidance, repr(head.scheduler.config)
    return (*settings, str(sums.device), sums.dtype, *sums.tolist())
