"""The lesson sliding: the cost of each move on 3 x 3 and 4 x 4, from boards mixed by random moves from the goal.

Costs that a search backwards from the goal has proven (`Perimeter`) are exact targets. They cover all boards of
3 x 3, of which one in eight is kept for exams. Beyond them costs are learned by value iteration: one more than the
network's cheapest move after the move. A board mixed by k moves can be undone in k, which bounds all four costs. A move
into the edge changes nothing and costs 1, so every move has a cost. Random moves seldom lead farther than 40 moves
away, and what was learned of such boards said next to nothing of others (its values correlated with the distance of
15-puzzles by 0.30, Manhattan by 0.81; docs/log.md, 2026-11-27). So a share of the 4 x 4 boards lies on solutions from
anywhere, found by a search by rules (`patterns.py`). These bound their costs likewise, and the search's tables are
lower bounds for all.

LIGHTS batches of each update are Lights Out scrambles. Both puzzles share a sense, and this lesson by itself undid the
other one (0.938 to 0.875; docs/log.md, 2026-11-25).

The head on the sense of puzzles alone learns, at an eighth of the trunk's cost; the trunk's head takes over what it
knows (`glancing.CostLearner`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np

from devmind.agent.agent import Agent
from devmind.agent.batch import Batch
from devmind.agent.config import by_size
from devmind.curriculum.stage import Context, Lesson, Rehearsed, Scalars
from devmind.learners.gradient import gradient_lesson
from devmind.seeding import numpy_rng
from devmind.worlds.sliding import MOVES, SlidingRules
from stages.reasoning import parts
from stages.reasoning.glancing import PUZZLES_TRAIN, REHEARSAL_COST, CostLearner, Costs, hand_over
from stages.reasoning.hindsight import attempt, hindsight_option, pieces, put_among, tiles_renamed
from stages.reasoning.puzzles import lesson as puzzles
from stages.reasoning.puzzles.lesson import for_exams
from stages.reasoning.sliding import patterns

MOST = {3: 100, 4: 80}
"""The most moves that mix boards, by side."""
TURNS = (3, 3, 3, 4)
"""Sides, in turn."""
FAR = 0.5
"""Share of the 4 x 4 boards that lie on solutions from anywhere; the others are mixed."""
ALONG = 32
"""One solution is found for ALONG boards; it has some 55, and neighbours are much alike."""
NEAR = 200_000
"""Boards with proven costs before the lesson begins, at most: every 8-puzzle, 15-puzzles within 15 moves."""
FEW = 24
"""Moves that mix 4 x 4 boards at the lesson's beginning: few, so that most of what they lead to is proven."""
DEEPEST_AT = 0.7
"""Share of the lesson after which 4 x 4 boards are mixed by up to MOST moves."""
GLANCES = 8
"""Batches of an update for the sense of puzzles, besides its own batch."""
TRIED = 30
"""Moves of an attempt for hindsight."""
LIGHTS = 3
"""Further batches of an update, of Lights Out."""
COSTS = Costs(parts.SLIDES, parts.SLIDE_GLANCES, mean=20.0, spread=10.0)
STEPS = {"tiny": 40, "nursery": 850, "child": 20_000, "adult": 60_000}
ROWS = by_size(128, tiny=32)


def lesson(context: Context) -> Lesson:
    """Boards of 3 x 3 and 4 x 4 in turn; the option `hindsight` takes a share from failed attempts."""
    again = hindsight_option(context, "sliding")
    return gradient_lesson(
        context, "sliding", COSTS.loss, make, steps=STEPS, rows=ROWS, learning_rate=3e-3,
        minutes=3.6, trains=lambda agent: PUZZLES_TRAIN, control=(),
        learner=partial(SlidingLearner, **again), skills=("sliding", "puzzles"), rehearsal_cost=REHEARSAL_COST,
        settings=("batch", "learning_rate", *again),
    )  # fmt: skip


@lru_cache
def rules(side: int) -> SlidingRules:
    """The rules for a board of this side."""
    return SlidingRules(str(side))


@lru_cache
def perimeter(side: int) -> Perimeter:
    """The proven costs of boards of this side."""
    return Perimeter.of(side, NEAR)


class SlidingLearner(CostLearner):
    """Teaches the sense of puzzles with further boards, and with Lights Out beside them."""

    costs = COSTS

    def update(self, batch: Any, step: int) -> Scalars:
        """Take some steps of Lights Out, then those of sliding; hand the costs of both over together."""
        if isinstance(batch, Rehearsed):
            return super().update(batch, step)
        self.set_rates(step)
        lights, rows = puzzles.COSTS, len(batch["first"])
        for view in puzzles.further(rows, LIGHTS, "sliding", self.seed, step):
            self.descend(lights.error(self.agent, view, lights.glance))
        scalars = super().update(batch, step)
        if self.hands_over(step):
            hand_over(self.agent, parts.PUZZLE, lights.heads, puzzles.further(rows, GLANCES, "handed", self.seed, step))
        return scalars

    def views(self, batch: Any, step: int) -> Iterator[Batch]:
        """GLANCES batches like the trunk's own, made at once."""
        side, rows, rng = side_of(step), len(batch["first"]), numpy_rng("lesson", "sliding", "glance", self.seed, step)
        most = deepest(side, step, self.steps)
        tiles, bound = boards(side, GLANCES * rows, most, rng)
        if self.hindsight:
            again = in_hindsight(self.agent, side, round(self.hindsight * len(tiles)), most, rng)
            tiles, bound = (put_among(*columns) for columns in zip((tiles, bound), again, strict=True))
        for turn in range(GLANCES):
            part = slice(turn * rows, (turn + 1) * rows)
            yield cost_batch(side, tiles[part], targets(self.agent, side, tiles[part], bound[part]))

    def handed(self, batch: Any, step: int) -> Iterator[Batch]:
        """Boards of both sides."""
        for side, most in MOST.items():
            tiles, bound = boards(side, 512, most, numpy_rng("lesson", "sliding", "handed", self.seed, step, side))
            yield cost_batch(side, tiles, bound)


def side_of(update: int) -> int:
    """The side of the boards of an update."""
    return TURNS[update % len(TURNS)]


def deepest(side: int, update: int, steps: int) -> int:
    """The most moves that mix the boards of an update; they grow where not all costs are proven."""
    share = 1.0 if side == 3 else min(1.0, update / max(1.0, steps * DEEPEST_AT))
    return round(FEW + share * (MOST[side] - FEW))


def costs(agent: Agent, side: int, tiles: np.ndarray, head: str = "") -> np.ndarray:
    """The cost of each move and all that follows, float [N, 4], for tiles int8 [N, side * side]; see `Costs.of`."""
    return COSTS.of(agent, rules(side).observe(rules(side).of(tiles))["puzzle"], head)


def boards(side: int, n: int, most: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Boards of lessons int8 [n, cells] in random order, and upper bounds on the cost of each move, float [n, 4].

    They are mixed by up to `most` moves; on 4 x 4 the share FAR lies on solutions from anywhere.
    """
    n_on_ways = round(FAR * n) if side == patterns.SIDE else 0
    tiles, bound = mix_boards(side, n - n_on_ways, most, rng, held_out=False)
    if not n_on_ways:
        return tiles, bound
    on_ways = along(n_on_ways, rng)
    order = rng.permutation(n)
    return np.concatenate([tiles, on_ways[0]])[order], np.concatenate([bound, on_ways[1]])[order]


def along(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Boards int8 [n, 16] on solutions, and upper bounds on the cost of each of their moves, float [n, 4]."""
    chunks, have = list[tuple[np.ndarray, np.ndarray]](), 0
    while have < n:
        on_ways = patterns.ways(max(1, -(-n // ALONG)), rng)
        # Drawn with weight by their distance: mixed boards are near enough.
        drawn = np.argsort(-(rng.random(len(on_ways.tiles)) ** (1 / on_ways.moves)))
        rows = drawn[~for_exams(on_ways.tiles[drawn])][: n - have]
        tiles, first = on_ways.tiles[rows], on_ways.first[rows]
        chunks.append((tiles, bounds(patterns.SIDE, tiles, on_ways.moves[rows], first)))
        have += len(rows)
    tiles, bound = (np.concatenate(column) for column in zip(*chunks, strict=True))
    return tiles, bound


def mix_boards(side: int, n: int, most: int, rng: np.random.Generator, held_out: bool) -> tuple[np.ndarray, np.ndarray]:
    """Tiles int8 [n, cells] after 1 to `most` moves, and upper bounds on the cost of each of the four moves, float [n,
    4].

    Args:
        held_out: boards kept for exams; else those for lessons.
    """
    chunks: list[tuple[np.ndarray, np.ndarray]] = []
    while sum(len(tiles) for tiles, _ in chunks) < n:
        moves = rng.integers(1, most + 1, n + n // 4 + 8)
        tiles, undoing = rules(side).mixed(moves, rng)
        bound = bounds(side, tiles, moves, undoing)
        here = (for_exams(tiles) == held_out) & ~rules(side).solved(tiles)
        chunks.append((tiles[here], bound[here]))
    tiles, bound = (np.concatenate(column)[:n] for column in zip(*chunks, strict=True))
    return tiles, bound


def bounds(side: int, tiles: np.ndarray, moves: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Upper bounds on the cost of each of the four moves, float [N, 4], given a solution of `moves` [N] that begins
    with `first` [N].
    """
    # Any other move is taken back; a move into the edge only costs itself.
    bound = moves[:, None] + np.where(rules(side).able(tiles), 2.0, 1.0)
    bound[np.arange(len(moves)), first] = moves
    return bound


def in_hindsight(agent: Agent, side: int, n: int, most: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Up to `n` boards int8 [m, cells] from failed attempts, and upper bounds on the cost of their moves, float [m, 4].
    The attempts begin at boards mixed by up to `most` moves.
    """
    starts, _ = mix_boards(side, max(8, n // 8), most, rng, held_out=False)
    step, solved = rules(side).slid, rules(side).solved
    attempts = attempt(starts, step, solved, lambda tiles: costs(agent, side, tiles, COSTS.glance), TRIED, rng)
    tiles, start, first, last = pieces(attempts, tiles_renamed)
    rows = rng.permutation(np.flatnonzero(~for_exams(tiles) & ~solved(tiles)))[:n]
    tiles, start, first, last = tiles[rows], start[rows], first[rows], last[rows]
    return tiles, bounds(side, tiles, last - first, attempts.actions[first, start])


def make(agent: Agent, context: Context, update: int, rows: int, steps: int = 0) -> dict[str, Any]:
    """Boards of lessons with their targets `cost` [rows, 1, 4]."""
    side, rng = side_of(update), numpy_rng("lesson", "sliding", context.seed, update)
    tiles, bound = boards(side, rows, deepest(side, update, steps), rng)
    return cost_batch(side, tiles, targets(agent, side, tiles, bound))


def targets(agent: Agent, side: int, tiles: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """The target of each move's cost, float [N, 4]: exact where the board after it is proven, else by the network.

    Args:
        bound: the upper bound of each, float [N, 4].
    """
    following = rules(side).slid(np.repeat(tiles, len(MOVES), 0), np.tile(np.arange(len(MOVES)), len(tiles)))
    proven = perimeter(side).distance(following)
    after, beyond = proven.astype(float), np.flatnonzero(proven < 0)
    if len(beyond):
        board = rules(side).observe(rules(side).of(following[beyond]))["puzzle"]
        # A board outside the perimeter is farther than all boards inside, and at least as far as its tiles say.
        least = np.full(len(beyond), perimeter(side).depth + 1.0)
        if side == patterns.SIDE:
            least = np.maximum(least, patterns.moves_left(following[beyond]))
        after[beyond] = np.maximum(least, COSTS.of(agent, board, COSTS.glance).min(-1))
    return np.minimum(bound, 1 + after.reshape(len(tiles), -1))


def cost_batch(side: int, tiles: np.ndarray, cost: np.ndarray) -> Batch:
    """A batch of tiles int8 [N, cells] with `cost` [N, 1, 4]."""
    return COSTS.batch(rules(side).observe(rules(side).of(tiles))["puzzle"], cost)


@dataclass(frozen=True)
class Perimeter:
    """Every board within `depth` moves of the goal.

    Attributes:
        tiles: int8 [N, side * side], the nearest first.
        fewest: int64 [N], their fewest moves.
        depth: moves of the farthest.
    """

    side: int
    tiles: np.ndarray
    fewest: np.ndarray
    depth: int

    @classmethod
    def of(cls, side: int, most: int) -> Perimeter:
        """As many whole levels as have at most `most` boards together."""
        rules, level = SlidingRules(str(side)), SlidingRules(str(side)).goal[None]
        levels, before, here = list[np.ndarray](), np.zeros(0, np.int64), np.zeros(0, np.int64)
        while len(level) and sum(map(len, levels)) + len(level) <= most:
            levels.append(level)
            before, here = here, np.sort(keys(level, side))
            reached = rules.slid(np.repeat(level, len(MOVES), 0), np.tile(np.arange(len(MOVES)), len(level)))
            new_keys, first = np.unique(keys(reached, side), return_index=True)
            new = ~np.isin(new_keys, before, assume_unique=True) & ~np.isin(new_keys, here, assume_unique=True)
            level = reached[first[new]]
        fewest = np.repeat(np.arange(len(levels)), [len(one) for one in levels])
        return cls(side, np.concatenate(levels), fewest, len(levels) - 1)

    def distance(self, tiles: np.ndarray) -> np.ndarray:
        """The fewest moves int64 [N] of tiles int8 [N, cells]; -1 if they are farther than `depth`."""
        ordered, fewest = self._by_key
        queries = keys(tiles, self.side)
        at = np.searchsorted(ordered, queries).clip(max=len(ordered) - 1)
        return np.where(ordered[at] == queries, fewest[at], -1)

    @cached_property
    def _by_key(self) -> tuple[np.ndarray, np.ndarray]:
        all_keys = keys(self.tiles, self.side)
        order = np.argsort(all_keys)
        return all_keys[order], self.fewest[order]


def keys(tiles: np.ndarray, side: int) -> np.ndarray:
    """A number for each board, int64 [N], of a side up to 4; the last place follows from the others."""
    cells = side**2
    return np.asarray(tiles[:, :-1].astype(np.int64) @ cells ** np.arange(cells - 1, dtype=np.int64))
