"""Plans to be judged: cut out of the oracle's trips, sound or with one flaw that the maze itself confirms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from devmind.worlds.pointmaze import CELL, PACE, UNIT, Maze, maze
from stages.planning.judge import BLOCKED, COLLISION, ENDED, LATE, MOVES, REASONS, UNREACHABLE, draft
from stages.planning.parts import HORIZON, STRIDE
from stages.planning.route.trips import Trips, goal_of, one_hot, plan_between, stretch

SOUND_SHARE = 0.5
MARGIN = 0.5
"""How far a stride may cut into a wall, in OGBench's units: a plan has a point for 16 ticks, not the curve between."""
ALONG = 9
"""Places of a stride that are checked."""
FARTHEST = STRIDE * PACE * 1.5 / UNIT
"""Length, in the senses' units, above which a stride cannot be walked; along a diagonal 1.4 paces a tick can be."""
ASTRAY, ASIDE = 0.15, (0.15, 0.3)
"""Distance from the goal at which an end counts as elsewhere; and by how much a point is moved into a wall."""
ROOM, LACK = (1.1, 2.0), (0.4, 0.9)
"""Ticks available by ticks that a plan takes: of one that has enough, and of one that has not."""
TRIES = 20


@dataclass(frozen=True)
class Drafts:
    """N plans.

    Attributes:
        draft: the sense of each, float32 [N, numbers].
        reason: int64 [N], 0 for a sound plan, else 1 plus the number in REASONS.
        hit: int8 [N, H - 1], whether each stride runs into a wall; stuck: int8 [N, L], whether each move has no way; -1
            where unknown, as behind a move without a way.
    """

    draft: np.ndarray
    reason: np.ndarray
    hit: np.ndarray
    stuck: np.ndarray

    @property
    def flawed(self) -> np.ndarray:
        """Which plans have a flaw, bool [N]."""
        return self.reason > 0


@dataclass
class Draft:
    """One plan while it is made: points [H, 2] and goal [2] in the senses' units, symbols [L], ticks available."""

    points: np.ndarray
    words: np.ndarray
    goal: np.ndarray
    ticks: float

    @property
    def strides(self) -> np.ndarray:
        """Lengths of the strides [H - 1]."""
        return np.linalg.norm(np.diff(self.points, axis=0), axis=1)

    @property
    def takes(self) -> int:
        """Ticks that the plan takes."""
        return STRIDE * max(1, int((self.strides > ENDED).sum()))


def drafts(trips: Sequence[Trips], n: int, rng: np.random.Generator, points: int = HORIZON) -> Drafts:
    """`n` plans through the mazes of `trips`: half of them sound, the others with each flaw equally often."""
    made = [_made(trips[int(rng.integers(len(trips)))], rng, points) for _ in range(n)]
    columns = (np.stack([np.asarray(row[k]) for row in made]) for k in range(4))
    return Drafts(*columns)


def _made(trips: Trips, rng: np.random.Generator, points: int) -> tuple[np.ndarray, int, np.ndarray, np.ndarray]:
    reason = 0 if rng.random() < SOUND_SHARE else 1 + int(rng.integers(len(REASONS)))
    where = maze(trips.maze)
    while True:  # until a sound plan is found that can be given this flaw
        _, end, at, there = stretch(trips, rng)
        goal = goal_of(trips, end, there)
        plan = Draft(*plan_between(trips, at, there, goal, points), goal.astype(np.float32), 0.0)
        plan.ticks = plan.takes * rng.uniform(*ROOM)
        known = _hits(where, plan).any() or (_stuck(where, plan) > 0).any() or plan.strides.max() > FARTHEST
        if not known and (reason == 0 or any(FLAWS[reason - 1](where, plan, rng) for _ in range(TRIES))):
            break
    hit = np.where(plan.strides > FARTHEST, -1, _hits(where, plan)).astype(np.int8)
    shown = draft(plan.points, plan.words, plan.goal, one_hot(trips.maze), plan.ticks)
    return shown, reason, hit, _stuck(where, plan)


def _hits(where: Maze, plan: Draft) -> np.ndarray:
    """Which strides run into a wall, by more than MARGIN, bool [H - 1]."""
    share = np.linspace(0, 1, ALONG)[:, None, None]
    places = (plan.points[:-1] + share * np.diff(plan.points, axis=0)) * UNIT
    corners = MARGIN * np.array([(-1, -1), (-1, 1), (1, -1), (1, 1)])
    return np.asarray((~where.inside(places[..., None, :] + corners).any(-1)).any(0))


def _stuck(where: Maze, plan: Draft) -> np.ndarray:
    """Which moves have no way, int8 [L]; -1 behind the first of them."""
    cells = np.round(plan.points[0] * UNIT / CELL) * CELL + CELL * np.cumsum(np.array(MOVES)[plan.words], axis=0)
    found = (~where.inside(cells)).astype(np.int8)
    found[int(found.argmax()) + 1 if found.any() else len(found) :] = -1
    return found


def _into_a_wall(where: Maze, plan: Draft, rng: np.random.Generator) -> bool:
    """Replace a piece of the way by a straight line, or move one point, so that a stride runs into a wall."""
    last = int((plan.strides > ENDED).sum())
    if last < 3:
        return False
    points = plan.points.copy()
    if rng.random() < 0.5:
        begin, end = sorted(rng.choice(last + 1, 2, replace=False).tolist())
        points[begin : end + 1] = np.linspace(points[begin], points[end], end - begin + 1)
    else:
        angle, far = rng.uniform(0, 2 * np.pi), rng.uniform(*ASIDE)
        points[int(rng.integers(1, last))] += far * np.array([np.cos(angle), np.sin(angle)], np.float32)
    changed = Draft(points, plan.words, plan.goal, plan.ticks)
    fits = changed.strides.max() <= FARTHEST and bool(_hits(where, changed).any())
    # The number of strides stays, so that the plan takes as many ticks as before.
    fits = fits and (changed.strides[:last] > ENDED).all()
    plan.points = points if fits else plan.points
    return bool(fits)


def _without_way(where: Maze, plan: Draft, rng: np.random.Generator) -> bool:
    """Replace one move by another, for which there is no way."""
    moving = np.flatnonzero(plan.words)
    if not len(moving):
        return False
    words = plan.words.copy()
    words[int(rng.choice(moving))] = int(rng.integers(1, len(MOVES)))
    changed = Draft(plan.points, words, plan.goal, plan.ticks)
    if not (_stuck(where, changed) > 0).any():
        return False
    plan.words = words
    return True


def _elsewhere(where: Maze, plan: Draft, rng: np.random.Generator) -> bool:
    """Put the goal elsewhere, or let the plan leap over a piece of its way."""
    last = int((plan.strides > ENDED).sum())
    if rng.random() < 0.5:
        cells = where.free[rng.integers(len(where.free))]
        goal = (where.centres(cells) + rng.uniform(-CELL / 4, CELL / 4, 2)) / UNIT
        if np.linalg.norm(goal - plan.points[-1]) < ASTRAY:
            return False
        plan.goal = goal.astype(np.float32)
        return True
    if last < 4:
        return False
    begin, end = sorted(rng.choice(np.arange(1, last + 1), 2, replace=False).tolist())
    left = np.concatenate((plan.points[:begin], plan.points[end:]))
    points = np.concatenate((left, np.repeat(plan.points[-1:], end - begin, 0)))
    changed = Draft(points, plan.words, plan.goal, plan.ticks)
    if changed.strides.max() <= FARTHEST:
        return False
    plan.points, plan.ticks = points, changed.takes * rng.uniform(*ROOM)
    return True


def _too_late(where: Maze, plan: Draft, rng: np.random.Generator) -> bool:
    """Leave fewer ticks than the plan takes."""
    plan.ticks = plan.takes * rng.uniform(*LACK)
    return True


Flaw = Callable[[Maze, Draft, np.random.Generator], bool]
"""Gives the plan a flaw; False if it cannot have it."""
FLAWS: Sequence[Flaw] = tuple(
    {COLLISION: _into_a_wall, BLOCKED: _without_way, UNREACHABLE: _elsewhere, LATE: _too_late}[reason]
    for reason in range(len(REASONS))
)
