"""Monte Carlo Tree Diffusion: a tree search over partly denoised plans (Yoon et al. 2025, ICML).

A node is a plan denoised up to some level: first some of its symbols are known, then all of them and a trajectory with
less and less noise. An action chooses the guidance level (how much the condition counts, the paper's meta-action) and
the branch (which noise is drawn). A node's worth is that of its plan when it is denoised to the end in one jump ("jumpy
DDIM" there), so one network call both denoises and simulates. The search is `devmind.algorithms.tree_search`, which
knows nothing of plans.

Unlike the paper, all points of a trajectory have one noise level, as the denoiser was trained. The symbols are denoised
first and choose between ways. Every plan that was met is returned, because the best one is not always at the end of the
most visited path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.algorithms.diffusion.pipeline import Held, HybridPipeline
from devmind.algorithms.diffusion.schedules import gumbel, noised
from devmind.algorithms.tree_search import Expanded, Roots, puct_search
from devmind.errors import ConfigError

Worth = Callable[[Tensor, Tensor, Tensor], Tensor]
"""`(trajectories [N, H, C], symbols int64 [N, L], the row of each, int64 [N]) -> [N]`, higher is better."""
EDGE = 1e-9
"""How far worths stay from 0 and 1: a plan worth exactly 1 would prove that none is better, and end the search."""


@dataclass(frozen=True)
class Shape:
    """The shape of a tree.

    Attributes:
        simulations: nodes added to the root, at most.
        word_levels: steps in which the symbols become known.
        levels: noise levels of a trajectory.
        guidances: weights of the condition to choose from; 1: as in training. Another weight costs two network calls.
        branches: noises to try for each.
        explore: PUCT's constant.
        scale: a difference in worth that counts as large.
    """

    simulations: int = 40
    word_levels: int = 5
    levels: int = 3
    guidances: tuple[float, ...] = (1.0, 2.0)
    branches: int = 2
    explore: float = 1.25
    scale: float = 2.0

    def __post_init__(self) -> None:
        least = self.simulations, self.word_levels, self.levels, len(self.guidances), self.branches
        if min(least) < 1:
            raise ConfigError(
                "A tree of plans needs at least one simulation, level of words and of noise, guidance and branch; got "
                f"{least}."
            )

    @property
    def actions(self) -> int:
        """Number of actions at a node; an action is `guidance * branches + branch`."""
        return len(self.guidances) * self.branches


@dataclass(frozen=True)
class Noise:
    """The noise of a tree: luck, Gumbel noise [word_levels, branches, L, words]; points, normal, [levels, branches, H,
    C].

    Branch 0 of the luck may be zero: the likeliest symbols.
    """

    luck: Tensor
    points: Tensor


@dataclass
class Grown:
    """All plans that were met, for B rows.

    Attributes:
        trajectory: [B, M, H, C]; symbols: int64 [B, M, L].
        worth: [B, M], -inf where a tree has fewer nodes.
        depth: int64 [B, M], levels above each node; the root's is 0.
        calls: calls of the network for all rows; a call of n rows counts n.
    """

    trajectory: Tensor
    symbols: Tensor
    worth: Tensor
    depth: Tensor
    calls: int


@dataclass
class Partial:
    """Rows of the search: N plans denoised up to `depth` int64 [N], of the problems `row` int64 [N].

    Attributes:
        symbols: int64 [N, L], the mask where they are unknown.
        logits: [N, L, words] of these.
        whole: int64 [N, L], all symbols after denoising in one jump.
        clean: [N, H, C], the trajectory after denoising in one jump.
    """

    row: Tensor
    depth: Tensor
    symbols: Tensor
    logits: Tensor
    whole: Tensor
    clean: Tensor

    def take(self, index: Any) -> Partial:
        """See `Rows`."""
        at = torch.as_tensor(np.asarray(index), device=self.row.device)
        return Partial(*(getattr(self, one.name)[at] for one in fields(self)))

    def put(self, index: Any, other: Partial) -> None:
        """See `Rows`."""
        at = torch.as_tensor(np.asarray(index), device=self.row.device)
        for one in fields(self):
            getattr(self, one.name)[at] = getattr(other, one.name)


@torch.no_grad()
def grown(
    pipeline: HybridPipeline,
    condition: Tensor,
    present: Tensor,
    noise: Noise,
    worth: Worth,
    shape: Shape,
    given: Mapping[int, Tensor] | None = None,
    words: Mapping[int, Tensor] | None = None,
    start: Tensor | None = None,
    begin: float = 1.0,
    with_symbols: bool = True,
) -> Grown:
    """Search for plans of B rows; see `HybridPipeline.__call__` for the given parts.

    Args:
        start: plans [B, H, C] from which trajectories begin, noised to the level `begin`.

    Raises:
        ConfigError: a given point or symbol lies beyond the plan's end, or the tree is of one level.
    """
    grower = _Grower(
        pipeline, condition, present, noise, worth, shape, given or {}, words or {}, start, begin, with_symbols
    )
    roots = grower.roots()
    # Worths lie in 0..1 there, so a fully denoised plan has an exact value and is not visited again.
    tree = puct_search(roots, grower.expand, shape.simulations, init=shape.explore, bounds=(0.0, 1.0)).tree
    b, states = len(condition), tree.states
    apart = [value.unflatten(0, (b, -1)) for value in (states.clean, states.whole, states.depth)]
    there = torch.from_numpy(np.arange(tree.visits.shape[1]) < tree.size[:, None]).to(condition.device)
    value = worth(states.clean, states.whole, states.row).unflatten(0, (b, -1))
    marks = torch.where(there, value, -torch.inf)
    return Grown(apart[0], apart[1], marks, apart[2], grower.calls)


class _Grower:
    """The searched function: what actions at nodes lead to."""

    def __init__(
        self,
        pipeline: HybridPipeline,
        condition: Tensor,
        present: Tensor,
        noise: Noise,
        worth: Worth,
        shape: Shape,
        given: Mapping[int, Tensor],
        words: Mapping[int, Tensor],
        start: Tensor | None,
        begin: float,
        with_symbols: bool,
    ) -> None:
        self.network, self.scheduler, self.tokens = pipeline.denoiser, pipeline.scheduler, pipeline.token_scheduler
        self.condition, self.present, self.noise, self.worth, self.shape = condition, present, noise, worth, shape
        form = self.network.config
        self.length, self.mask, self.calls, n = form.length, form.words, 0, len(condition)
        self.start, self.begin = start, begin
        self.word_levels = shape.word_levels if form.length and with_symbols else 0
        if self.word_levels + shape.levels < 2:
            raise ConfigError(
                "A tree of plans without symbols needs two levels of noise at least: its root is the first; got 1."
            )
        self.held = Held.of(form, n, condition.device, given, words)
        self.guides = torch.tensor(shape.guidances, device=condition.device)
        none = torch.zeros_like(present)
        self.about: Tensor | None = None
        self.hints = [self.network.hint(condition, here) for here in (present, none)]

    def roots(self) -> Roots[Partial]:
        """Plans of which only the given parts are known."""
        row = torch.arange(len(self.condition), device=self.condition.device)
        depth = torch.zeros_like(row)
        state = self._reached(row, depth, self.held.symbols, None, depth, torch.ones_like(row, dtype=torch.float32))
        return Roots(state, *self._thought(state)[:3])

    def expand(self, states: Partial, actions: np.ndarray) -> Expanded[Partial]:
        """See `tree_search.Expand`."""
        action = torch.from_numpy(actions).to(states.row.device)
        branch, guidance = action % self.shape.branches, self.guides[action // self.shape.branches]
        parts, order = [], []
        for depth in states.depth.unique().tolist():
            at = (states.depth == depth).nonzero().squeeze(-1)
            here = states.take(at.cpu().numpy())
            symbols = here.symbols
            if depth < self.word_levels:
                self.tokens.set_timesteps(self.word_levels, (0, 0), symbols.device)
                drawn = here.logits + self.noise.luck[depth, branch[at]]
                symbols = self.tokens.step(drawn, self.word_levels - 1 - depth, symbols).prev_sample
            clean = here.clean if depth >= self.word_levels else None
            parts.append(self._reached(here.row, here.depth + 1, symbols, clean, branch[at], guidance[at]))
            order.append(at)
        back = torch.cat(order).argsort()
        state = Partial(*(torch.cat([getattr(part, one.name) for part in parts])[back] for one in fields(Partial)))
        logits, value, legal, over = self._thought(state)
        return Expanded(state, logits, value, legal, np.where(over, value, 0.0), np.where(over, 0.0, 1.0), over)

    def _thought(self, state: Partial) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """A uniform prior, worths in 0..1, legal actions, and whether each plan is fully denoised.

        The worth is that of the whole plan relative to the root's.
        """
        n = len(state.row)
        value = self.worth(state.clean, state.whole, state.row).double()
        self.about = value if self.about is None else self.about  # the roots' own, by row
        worth = 0.5 + 0.5 * ((value - self.about[state.row]) / self.shape.scale).tanh()
        over = (state.depth == self.word_levels + self.shape.levels - 1).cpu().numpy()
        legal = np.ones((n, self.shape.actions), bool)
        return np.zeros((n, self.shape.actions)), worth.clamp(EDGE, 1 - EDGE).cpu().numpy(), legal, over

    def _reached(
        self, row: Tensor, depth: Tensor, symbols: Tensor, clean: Tensor | None, branch: Tensor, guidance: Tensor
    ) -> Partial:
        """Plans at one depth: the network's predictions, and the plans denoised to the end.

        Args:
            clean: the trajectory predicted at a level above; None: none, it is all noise.
        """
        at = int(depth[0])
        left, level = max(0, at - self.word_levels), self._level(max(0, at - self.word_levels))
        noise = self.noise.points[left, branch]
        source = clean if clean is not None else None if self.start is None else self.start[row]
        x = noise if source is None else self._noised(source, noise, level)
        whole, logits = symbols, x.new_zeros(len(row), self.length, self.mask)
        if at < self.word_levels:
            _, logits = self._predict(x, level, symbols, row, guidance)
            whole = self.tokens.step(logits, 0, symbols).prev_sample  # all at once, the likeliest ones
        trajectory, _ = self._predict(x, level, whole, row, guidance)
        return Partial(row, depth, symbols, logits, whole, trajectory)

    def _predict(
        self, x: Tensor, level: float, symbols: Tensor, row: Tensor, guidance: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The network's clean trajectory and logits of the symbols, under a guidance [n]."""
        held = self.held.rows(row)
        x = held.over(x)
        clean, logits = self._asked(x, level, symbols, row, self.present, self.hints[0])
        guided = (guidance != 1.0).nonzero().squeeze(-1)
        if len(guided):
            of, none = row[guided], torch.zeros_like(self.present)
            free, free_logits = self._asked(x[guided], level, symbols[guided], of, none, self.hints[1])
            share = guidance[guided][:, None, None]
            clean = clean.index_put((guided,), free + share * (clean[guided] - free))
            logits = logits.index_put((guided,), free_logits + share * (logits[guided] - free_logits))
        return held.over(clean), logits

    def _asked(
        self, x: Tensor, level: float, symbols: Tensor, row: Tensor, present: Tensor, hints: Tensor
    ) -> tuple[Tensor, Tensor]:
        self.calls += len(row)
        masked = (symbols == self.mask).float().mean(-1) if self.length else x.new_zeros(len(row))
        predicted: tuple[Tensor, Tensor] = self.network(
            x, self.held.fixed[row], x.new_full((len(row),), level), symbols, masked, self.condition[row], present[row],
            hint=hints[row],
        )  # fmt: skip
        return predicted

    def _level(self, number: int) -> float:
        """The noise of a trajectory's level, in 0..1, from `begin` down."""
        return self.begin * (1 - number / self.shape.levels)

    def _noised(self, clean: Tensor, noise: Tensor, level: float) -> Tensor:
        levels = self.scheduler.config.num_train_timesteps
        index = min(levels - 1, max(0, round(level * levels) - 1))
        return noised(self.scheduler, clean, noise, torch.full((len(clean),), index, device=clean.device))[0]


def named(shape: Shape, form: Mapping[str, Any], generator: torch.Generator, device: torch.device) -> Noise:
    """The noise of a tree for a denoiser of the configuration `form`; the first branch takes the likeliest symbols."""
    sizes: Sequence[int] = (shape.word_levels, shape.branches, form["length"], form["words"])
    luck = gumbel(torch.rand(*sizes, generator=generator, device=generator.device))
    luck[:, 0] = 0.0
    points = torch.randn(
        shape.levels, shape.branches, form["horizon"], form["channels"], generator=generator, device=generator.device
    )
    return Noise(luck.to(device), points.to(device))
