"""What arrange learns from: a script's plans of key points for tables, and a follower that carries plans out.

A plan has two points for each thing still to be sorted: where it is grasped, and where it is put. The order of the
things and the place of each are drawn anew each time, so all right plans are shown equally often.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from devmind.worlds.tabletop import PACE, PLACES, THINGS, Table, TabletopRules

MOST = 3
"""Things that a plan sorts, at most."""
HORIZON = LENGTH = 2 * MOST
CHANNELS = 3
"""Numbers of a point: x, y, and the grip after it, 1 closed and -1 open."""
THERE = THINGS + PLACES
WORDS = THERE + 1
"""Symbols of a plan: which thing is grasped (0 to 3), in which place it is put (4 to 7); "there" fills up its end."""
NEAR, PATIENCE = 0.02, 24
"""Distance at which a point counts as reached, and ticks after which the hand goes on anyway."""


def plans(table: Table, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Points float32 [N, H, 3] and symbols int64 [N, L] of a right plan for each table, drawn evenly from all."""
    n = len(table)
    rows = np.arange(n)
    points, words = np.zeros((n, HORIZON, CHANNELS)), np.full((n, LENGTH), THERE)
    points[:, :, :2], points[:, :, 2] = table.hand[:, None], -1.0
    left = (table.kinds >= 0) & ~table.sorted
    taken = (table.inside & table.sorted[..., None]).any(1)
    for number in range(MOST):
        thing = np.where(left, rng.random((n, THINGS)), -1.0).argmax(1)
        going = left.any(1)
        kind = table.kinds[rows, thing]
        free = (table.place_kinds == kind[:, None]) & ~taken
        place = np.where(free, rng.random((n, PLACES)), -1.0).argmax(1)
        on = going[:, None]
        points[:, 2 * number, :2] = np.where(on, table.things[rows, thing], points[:, 2 * number, :2])
        points[:, 2 * number, 2] = np.where(going, 1.0, -1.0)
        put = table.places[rows, place]
        points[:, 2 * number + 1 :, :2] = np.where(on, put, points[:, 2 * number + 1, :2])[:, None]
        words[:, 2 * number] = np.where(going, thing, THERE)
        words[:, 2 * number + 1] = np.where(going, THINGS + place, THERE)
        left[rows, thing] = False
        taken[rows, place] |= going
    return points.astype(np.float32), words


def shuffle_tables(table: Table, rng: np.random.Generator, together: int = 1) -> Table:
    """The same tables with things and places in another order, so that no number means anything by itself; each run of
    `together` tables gets the same order."""
    table = table.copy()
    for names in (("things", "kinds"), ("places", "place_kinds")):
        order = rng.random((len(table) // together, THINGS)).argsort(1).repeat(together, 0)
        for name in names:
            value = getattr(table, name)
            index = order if value.ndim == 2 else order[..., None]
            setattr(table, name, np.take_along_axis(value, index, 1))
        if names[0] == "things":
            table.held = np.where(table.held < 0, -1, (order == table.held[:, None]).argmax(1))
    return table


def held_out(table: Table) -> np.ndarray:
    """Whether a table shows what no lesson does, bool [N]: a thing of the second kind in the upper right quarter."""
    there = (table.kinds == 1) & (table.things > 0).all(-1)
    return np.asarray(there.any(1))


def carried_out(rules: TabletopRules, table: Table, points: np.ndarray) -> Iterator[Table]:
    """The tables after each tick while plans [N, H, 3] are carried out: straight to each point, then its grip."""
    n = len(table)
    at, waited, grip = np.zeros(n, int), np.zeros(n, int), np.full(n, -1.0)
    for _ in range((PATIENCE + 2) * points.shape[1]):
        going = at < points.shape[1]
        if not going.any():
            break
        aim = points[np.arange(n), np.minimum(at, points.shape[1] - 1)]
        apart = aim[:, :2] - table.hand
        there = going & ((np.abs(apart).max(1) <= NEAR) | (waited >= PATIENCE))
        grip = np.where(there, np.where(aim[:, 2] > 0, 1.0, -1.0), grip)
        move = np.where((going & ~there)[:, None], apart / PACE, 0.0)
        table = rules.step(table, {"arm": np.column_stack((np.clip(move, -1, 1), grip))})
        at, waited = at + there, np.where(there, 0, waited + 1)
        yield table


def follow(rules: TabletopRules, table: Table, points: np.ndarray) -> Table:
    """The tables at the end of plans [N, H, 3]."""
    return [table, *carried_out(rules, table, points)][-1]


def arrange_tables(
    rules: TabletopRules, table: Table, imagine: Callable[[Table], np.ndarray], rounds: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Whether all is sorted, bool [N], and the share of things that are, [N], after `rounds` plans in a row."""
    for _ in range(rounds):
        table = follow(rules, table, imagine(table))
    there = table.kinds >= 0
    done = (table.sorted & there).sum(1) / there.sum(1)
    return done == 1, done
