"""The lesson sliding: what each move costs on 3 x 3 and 4 x 4, from boards mixed by moves that go on from the goal.

What a search backwards from the goal has proven (`perimeter.py`) is taken as it is: that is all boards of 3 x 3, of
which one in eight is kept for exams. Beyond it costs are learned by value iteration: one more than the cheapest move
where a move leads to, as the network says it. Who came by k moves can go back by k: that bounds all four costs. A move
into the edge changes nothing and costs 1, so every move has a cost. Moves by chance seldom lead farther than 40 moves
away, and what was learned of such boards said next to nothing of the others (by how far boards of 15 tiles are from the
goal it went with 0.30, Manhattan with 0.81; docs/log.md, 2026-11-27). So a share of these boards lies on ways that a
search by rules has found from anywhere (`patterns.py`), which bounds their costs likewise, and its tables bound all
from below.

Lights Out goes on beside it, scrambles in LIGHTS batches of each update: both puzzles share a sense, and taught by
itself this one undid the other (0.938 to 0.875; docs/log.md, 2026-11-25).

The network that learns is the head that reads the sense of puzzles alone, which costs an eighth of the trunk; the
trunk's head takes over what that one knows (`glancing.CostLearner`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Any

import numpy as np

from devmind.agent.agent import Agent
from devmind.agent.batch import Batch
from devmind.curriculum.stage import Context, Lesson, Rehearsed, Scalars
from devmind.learners.gradient import gradient_lesson
from devmind.seeding import numpy_rng
from devmind.worlds.sliding import MOVES, SlidingRules
from stages.reasoning import parts
from stages.reasoning.glancing import PUZZLES_STAY, REHEARSAL_COST, CostLearner, Costs, hand_over
from stages.reasoning.hindsight import attempt, pieces, put_among, tiles_renamed, told_again
from stages.reasoning.puzzles import lesson as puzzles
from stages.reasoning.puzzles.lesson import for_exams
from stages.reasoning.sliding import patterns
from stages.reasoning.sliding.perimeter import Perimeter

MOST = {3: 100, 4: 80}
"""By how many moves boards are mixed at most."""
TURNS = (3, 3, 3, 4)
"""Sides that are taught in turn."""
FAR = 0.5
"""The share of the boards of 4 x 4 that lie on ways from anywhere to the goal; the others are mixed."""
ALONG = 32
"""Of how many boards one such way is found: it has some 55, neighbours much alike."""
NEAR = 200_000
"""Boards whose costs are proven before the lesson begins, at most: every 8-puzzle, 15-puzzles within 15 moves."""
FEW = 24
"""Moves that mix the boards of 4 x 4 at the lesson's beginning: few enough that most of what they lead to is proven."""
DEEPEST_AT = 0.7
"""The share of the lesson after which they are mixed by up to MOST."""
GLANCES = 8
"""Batches of an update, besides its own."""
TRIED = 30
"""Moves of an attempt that is told in hindsight."""
LIGHTS = 3
"""And so many of Lights Out."""
COSTS = Costs(parts.SLIDES, parts.SLIDE_GLANCES, mean=20.0, spread=10.0)
STEPS = {"tiny": 40, "nursery": 850, "child": 20_000, "adult": 60_000}
ROWS, TINY_ROWS = 128, 32


def lesson(context: Context) -> Lesson:
    """Boards of 3 x 3 and of 4 x 4 in turn; a share of them, the option `hindsight`, of attempts that failed."""
    again = told_again(context, "sliding")
    return gradient_lesson(
        context, "sliding", COSTS.loss, make, steps=STEPS, rows=ROWS, tiny_rows=TINY_ROWS, learning_rate=3e-3,
        minutes=3.6, trains=parts.trained, control_trains=parts.trained_without_trunk,
        learner=partial(SlidingLearner, **again), skills=("sliding", "puzzles"), rehearsal_cost=REHEARSAL_COST,
        unrehearsed=PUZZLES_STAY, options=tuple(again),
    )  # fmt: skip


@lru_cache
def rules(side: int) -> SlidingRules:
    """Of a board of this side."""
    return SlidingRules(str(side))


@lru_cache
def perimeter(side: int) -> Perimeter:
    """What is proven of boards of this side."""
    return Perimeter.of(side, NEAR)


class SlidingLearner(CostLearner):
    """The sense of puzzles learns from further boards, and from Lights Out beside them."""

    costs = COSTS

    def update(self, batch: Any, step: int) -> Scalars:
        """Some steps of Lights Out, then those of sliding; what both cost is handed over together."""
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
        """GLANCES batches like the trunk's own, all mixed at once."""
        side, rows, rng = side_of(step), len(batch["first"]), numpy_rng("lesson", "sliding", "glance", self.seed, step)
        most = deepest(side, step, self.steps)
        tiles, bound = boards(side, GLANCES * rows, most, rng)
        if self.hindsight:
            again = in_hindsight(self.agent, side, round(self.hindsight * len(tiles)), most, rng)
            tiles, bound = (put_among(*columns) for columns in zip((tiles, bound), again, strict=True))
        for turn in range(GLANCES):
            some = slice(turn * rows, (turn + 1) * rows)
            yield told(side, tiles[some], targets(self.agent, side, tiles[some], bound[some]))

    def handed(self, batch: Any, step: int) -> Iterator[Batch]:
        """Boards of both sides."""
        for side, most in MOST.items():
            tiles, bound = boards(side, 512, most, numpy_rng("lesson", "sliding", "handed", self.seed, step, side))
            yield told(side, tiles, bound)


def side_of(update: int) -> int:
    """Which board an update is about."""
    return TURNS[update % len(TURNS)]


def deepest(side: int, update: int, steps: int) -> int:
    """How many moves mix the boards of an update at most: more and more of them where not all is proven."""
    share = 1.0 if side == 3 else min(1.0, update / max(1.0, steps * DEEPEST_AT))
    return round(FEW + share * (MOST[side] - FEW))


def costs(agent: Agent, side: int, tiles: np.ndarray, head: str = "") -> np.ndarray:
    """What each move costs with all that follows, float [N, 4], for tiles int8 [N, side * side]; as in `Costs.of`."""
    return COSTS.of(agent, rules(side).observe(rules(side).of(tiles))["puzzle"], head)


def boards(side: int, n: int, most: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Boards of lessons int8 [n, cells] in an order by chance, and what each move costs at most, float [n, 4]: mixed by
    up to `most` moves, and of 4 x 4 the share FAR on ways from anywhere."""
    far = round(FAR * n) if side == patterns.SIDE else 0
    tiles, bound = mixed(side, n - far, most, rng, held_out=False)
    if not far:
        return tiles, bound
    on_ways = along(far, rng)
    order = rng.permutation(n)
    return np.concatenate([tiles, on_ways[0]])[order], np.concatenate([bound, on_ways[1]])[order]


def along(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Boards int8 [n, 16] on ways to the goal, and what each of their moves costs at most, float [n, 4]."""
    kept, have = list[tuple[np.ndarray, np.ndarray]](), 0
    while have < n:
        found = patterns.ways(max(1, -(-n // ALONG)), rng)
        # Those that are far are as often taken as they are far: mixed boards are near enough.
        drawn = np.argsort(-(rng.random(len(found.tiles)) ** (1 / found.moves)))
        some = drawn[~for_exams(found.tiles[drawn])][: n - have]
        tiles, first = found.tiles[some], found.first[some]
        kept.append((tiles, bounds(patterns.SIDE, tiles, found.moves[some], first)))
        have += len(some)
    tiles, bound = (np.concatenate(column) for column in zip(*kept, strict=True))
    return tiles, bound


def mixed(side: int, n: int, most: int, rng: np.random.Generator, held_out: bool) -> tuple[np.ndarray, np.ndarray]:
    """Tiles int8 [n, cells] after 1 to `most` moves, and what each of the four moves costs at most, float [n, 4].

    Args:
        held_out: boards kept for exams; else those for lessons.
    """
    kept: list[tuple[np.ndarray, np.ndarray]] = []
    while sum(len(tiles) for tiles, _ in kept) < n:
        moves = rng.integers(1, most + 1, n + n // 4 + 8)
        tiles, back = rules(side).mixed(moves, rng)
        bound = bounds(side, tiles, moves, back)
        here = (for_exams(tiles) == held_out) & ~rules(side).solved(tiles)
        kept.append((tiles[here], bound[here]))
    tiles, bound = (np.concatenate(column)[:n] for column in zip(*kept, strict=True))
    return tiles, bound


def bounds(side: int, tiles: np.ndarray, moves: np.ndarray, first: np.ndarray) -> np.ndarray:
    """What each of the four moves costs at most, float [N, 4], where there is a way of `moves` [N] to the goal, and
    `first` [N] of it."""
    # Another move is taken back; one into the edge is lost, and that is all.
    bound = moves[:, None] + np.where(rules(side).able(tiles), 2.0, 1.0)
    bound[np.arange(len(moves)), first] = moves
    return bound


def in_hindsight(agent: Agent, side: int, n: int, most: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Up to `n` boards int8 [m, cells] and what their moves cost at most, float [m, 4], of attempts that failed at
    boards mixed by up to `most` moves."""
    starts, _ = mixed(side, max(8, n // 8), most, rng, held_out=False)
    step, solved = rules(side).slid, rules(side).solved
    tried = attempt(starts, step, solved, lambda tiles: costs(agent, side, tiles, COSTS.glance), TRIED, rng)
    tiles, which, first, last = pieces(tried, tiles_renamed)
    kept = rng.permutation(np.flatnonzero(~for_exams(tiles) & ~solved(tiles)))[:n]
    tiles, which, first, last = tiles[kept], which[kept], first[kept], last[kept]
    return tiles, bounds(side, tiles, last - first, tried.actions[first, which])


def make(agent: Agent, context: Context, update: int, rows: int, steps: int = 0) -> dict[str, Any]:
    """Mixed boards with their targets `cost` [rows, 1, 4]."""
    side, rng = side_of(update), numpy_rng("lesson", "sliding", context.seed, update)
    tiles, bound = boards(side, rows, deepest(side, update, steps), rng)
    return told(side, tiles, targets(agent, side, tiles, bound))


def targets(agent: Agent, side: int, tiles: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """What each move costs, float [N, 4]: where all that it leads to is proven, that; else as the network has it.

    Args:
        bound: what each costs at most, float [N, 4].
    """
    following = rules(side).slid(np.repeat(tiles, len(MOVES), 0), np.tile(np.arange(len(MOVES)), len(tiles)))
    proven = perimeter(side).distance(following)
    after, far = proven.astype(float), np.flatnonzero(proven < 0)
    if len(far):
        board = rules(side).observe(rules(side).of(following[far]))["puzzle"]
        # What is not in the perimeter is farther than all that is, and as far as its tiles at least.
        least = np.full(len(far), perimeter(side).depth + 1.0)
        if side == patterns.SIDE:
            least = np.maximum(least, patterns.left(following[far]))
        after[far] = np.maximum(least, COSTS.of(agent, board, COSTS.glance).min(-1))
    return np.minimum(bound, 1 + after.reshape(len(tiles), -1))


def told(side: int, tiles: np.ndarray, cost: np.ndarray) -> Batch:
    """A batch of tiles int8 [N, cells] with `cost` [N, 1, 4]."""
    return COSTS.batch(rules(side).observe(rules(side).of(tiles))["puzzle"], cost)
