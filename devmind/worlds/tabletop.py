"""A table seen from above, as Rules: a hand sorts discs of some kinds into places of their kinds.

The hand is a disc too. If it closes over a thing, it carries it, lifted, until it opens. If it closes without a thing,
it is down on the table and pushes what it meets. Open, it passes over everything. Overlapping things are pushed apart,
so a thing that is put on another moves that one away. A thing may go into any free place of its kind, in any order. So
many plans are right, and their mean is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from gymnasium import spaces

from devmind.errors import WorldError, nearest
from devmind.seeding import numpy_rng
from devmind.worlds.rules import Outcome, Struct
from devmind.worlds.spaces import effector

LEVELS = {"two": 2, "three": 3, "four": 4}
"""Things to sort, by level."""
SORTED = "-begun"
"""Suffix of a level: some of the things, by the seed, are in their places already."""
MOVED = "-moved"
"""Suffix of a level: at a tick by the seed, a thing that is not in the hand is moved elsewhere."""
THINGS, PLACES, KINDS = 4, 4, 2
"""Rows of the senses for things and for places; and kinds, with two places each."""
RADIUS, PLACE_RADIUS, GRASP = 0.08, 0.12, 0.07
"""Radius of things and of the hand; radius of places (a thing is in one if its middle is); and the largest distance
of the middles of hand and thing for a grasp. The table goes from -1 to 1 along both axes."""
PACE = 0.1
"""The distance of a command of 1 in a tick."""
APART = 0.3
"""Least distance between the middles of things, places and the hand at the beginning."""
TICKS_A_THING = 60
MOVES_FROM, MOVES_BEFORE = 10, 50
"""The ticks between which a thing is moved."""
PASSES = 4
"""Passes in which overlaps are pushed apart."""
PICTURE_PX = 480
TABLE_RGB, HAND_RGB, KINDS_RGB = (38, 44, 51), (235, 235, 235), ((232, 140, 60), (80, 160, 235))
"""Colours of the picture: the table, the hand, and things and places of each kind."""


@dataclass
class Table(Struct):
    """hand float64 [N, 2]; things [N, THINGS, 2], of kinds int64 [N, THINGS], -1: none; places [N, PLACES, 2], of kinds
    [N, PLACES]; held int64 [N], the number of the thing in the hand, -1: none; closed bool [N]; tick int64 [N]; over
    bool [N]: it had ended before this tick. moves int64 [N]: before which tick a thing is moved, -1: none is; onto
    [N, 2], where to; order int64 [N, THINGS]: the first of them that is not sorted and not held is moved."""

    hand: np.ndarray
    things: np.ndarray
    kinds: np.ndarray
    places: np.ndarray
    place_kinds: np.ndarray
    held: np.ndarray
    closed: np.ndarray
    tick: np.ndarray
    over: np.ndarray
    moves: np.ndarray
    onto: np.ndarray
    order: np.ndarray

    @property
    def inside(self) -> np.ndarray:
        """Whether thing i lies in place j, released, and is of its kind, bool [N, THINGS, PLACES]."""
        near = np.linalg.norm(self.things[:, :, None] - self.places[:, None], axis=-1) <= PLACE_RADIUS
        alike = self.kinds[:, :, None] == self.place_kinds[:, None]
        return np.asarray(near & alike & (np.arange(THINGS) != self.held[:, None])[..., None])

    @property
    def sorted(self) -> np.ndarray:
        """Sorted things, bool [N, THINGS]; of two in one place neither is sorted."""
        inside = self.inside
        alone = inside & (inside.sum(1, keepdims=True) == 1)
        return np.asarray(alone.any(-1))


class TabletopRules:
    """`hand` float32 [4]: its place, whether it is closed, whether it holds something. `things` and `places` float32
    [4 * 4]: for each x, y, its kind as -1 or 1, and a 1 if it exists. `arm` [3]: the movement of the hand, where 1 is
    0.1, and the grip, which closes the hand if it is above 0.

    Reward 1 when all things are sorted, which ends the episode; truncated after 60 ticks a thing.

    Args:
        level: "two", "three" or "four" things; with "-begun" some of them are in their places already, with "-moved"
            one of them is moved on the way.

    Raises:
        WorldError: there is no such level.
    """

    name = "tabletop"

    def __init__(self, level: str = "three") -> None:
        known = [*LEVELS, *(one + what for what in (SORTED, MOVED) for one in LEVELS)]
        if level not in known:
            raise WorldError(f"The world 'tabletop' has no level '{level}'{nearest(level, known)}")
        self.level, self.n_things = level, LEVELS[level.removesuffix(SORTED).removesuffix(MOVED)]
        self.horizon = TICKS_A_THING * self.n_things
        hand = spaces.Box(-1.0, 1.0, (4,), np.float32)
        row = spaces.Box(-1.0, 1.0, (4 * THINGS,), np.float32)
        self.observation_space = spaces.Dict({"hand": hand, "things": row, "places": row})
        self.action_space = spaces.Dict({"arm": effector(3)})

    def initial(self, seeds: np.ndarray) -> Table:
        """The table of each seed: kinds and places of everything."""
        n, moving = len(seeds), self.level.endswith(MOVED)
        spots = np.zeros((n, 1 + THINGS + PLACES + moving, 2))
        kinds = np.full((n, THINGS), -1)
        place_kinds = np.tile(np.arange(PLACES) % KINDS, (n, 1))
        begun = np.zeros((n, THINGS), bool)
        moves, order = np.full(n, -1), np.tile(np.arange(THINGS), (n, 1))
        for row, seed in enumerate(seeds):
            rng = numpy_rng("tabletop", self.level, int(seed))
            spots[row] = _scattered(spots.shape[1], rng)
            # No kind has more things than places.
            kinds[row, : self.n_things] = rng.permutation(place_kinds[row])[: self.n_things]
            place_kinds[row] = rng.permutation(place_kinds[row])
            if self.level.endswith(SORTED):
                done = rng.permutation(self.n_things)[: rng.integers(1, self.n_things)]
                begun[row, done] = True
            if moving:
                moves[row], order[row] = rng.integers(MOVES_FROM, MOVES_BEFORE), rng.permutation(THINGS)
        hand, things, places = spots[:, 0], spots[:, 1 : 1 + THINGS].copy(), spots[:, 1 + THINGS : 1 + THINGS + PLACES]
        for row, thing in np.argwhere(begun):
            free = [
                place
                for place in np.flatnonzero(place_kinds[row] == kinds[row, thing])
                if (np.linalg.norm(things[row] - places[row, place], axis=-1) > PLACE_RADIUS).all()
            ]
            things[row, thing] = places[row, free[0]]
        things[kinds < 0] = 0.0
        none, onto = np.zeros(n, bool), spots[:, -1] if moving else np.zeros((n, 2))
        still = np.full(n, -1), none, np.zeros(n, np.int64), none.copy()
        return Table(hand, things, kinds, places, place_kinds, *still, moves, onto, order)

    def legal(self, state: Table) -> Mapping[str, np.ndarray]:
        """Every movement is legal."""
        return {}

    def step(self, state: Table, actions: Mapping[str, np.ndarray]) -> Table:
        """Move the hand and what it holds, close or open it, push overlaps apart; missing commands are zero."""
        n, over = len(state), self._ended(state)
        arm = np.asarray(actions.get("arm", np.zeros((n, 3))), np.float64)
        if not np.isfinite(arm).all():
            raise WorldError("Commands `arm` are finite numbers in -1..1; got NaN or infinity.")
        move, grip = arm[:, :2], arm[:, 2]
        on, rows = ~over, np.arange(n)
        hand = np.where(on[:, None], np.clip(state.hand + PACE * np.clip(move, -1, 1), -1, 1), state.hand)
        closed = np.where(on, grip > 0, state.closed)
        things = _moved(state, on)
        here = np.where((state.kinds >= 0), np.linalg.norm(things - hand[:, None], axis=-1), np.inf)
        new = on & closed & ~state.closed & (here.min(1) <= GRASP)
        held = np.where(on & ~closed, -1, np.where(new, here.argmin(1), state.held))
        carried = on & (held >= 0)
        things[rows[carried], held[carried]] = hand[carried]
        things = np.where(on[:, None, None], _pushed(things, state.kinds >= 0, held, hand, closed), things)
        return replace(
            state.copy(), hand=hand, things=things, held=held, closed=closed, tick=state.tick + on, over=over
        )

    def outcome(self, state: Table) -> Outcome:
        """1 for sorting the last thing, and the end of the episode."""
        done = self._done(state)
        return Outcome((done & ~state.over & (state.tick > 0)).astype(np.float32), done, state.tick >= self.horizon)

    def observe(self, state: Table) -> dict[str, Any]:
        """The hand, things and places."""
        return observe_table(state)

    def picture(self, state: Table) -> np.ndarray:
        """The table from above, for people who watch, uint8 [N, S, S, 3]; y points upwards."""
        return np.stack([_picture(state, row) for row in range(len(state))])

    def truth(self, state: Table) -> dict[str, np.ndarray]:
        """The sorted things, and the thing in the hand."""
        return {"sorted": state.sorted, "things": state.kinds >= 0, "held": state.held.copy()}

    def _done(self, state: Table) -> np.ndarray:
        return np.asarray((state.sorted | (state.kinds < 0)).all(1) & (state.tick > 0))

    def _ended(self, state: Table) -> np.ndarray:
        return self._done(state) | (state.tick >= self.horizon)


def observe_table(state: Table) -> dict[str, np.ndarray]:
    """The senses of tables: see `TabletopRules`."""
    hand = np.column_stack((state.hand, state.closed, state.held >= 0))
    seen = {}
    for name, at, kinds in (("things", state.things, state.kinds), ("places", state.places, state.place_kinds)):
        there = kinds >= 0
        kind = np.where(there, 2.0 * kinds / (KINDS - 1) - 1, 0.0)
        seen[name] = np.concatenate((at, kind[..., None], there[..., None]), -1).reshape(len(at), -1)
    return {name: value.astype(np.float32) for name, value in {"hand": hand, **seen}.items()}


def _scattered(n: int, rng: np.random.Generator) -> np.ndarray:
    """`n` places [n, 2] of the table that are apart from each other."""
    while True:
        found: list[np.ndarray] = []
        for spot in rng.uniform(-0.9, 0.9, (100, 2)):
            if all(np.hypot(*(spot - other)) >= APART for other in found):
                found.append(spot)
            if len(found) == n:
                return np.array(found)


def _moved(state: Table, on: np.ndarray) -> np.ndarray:
    """Things [N, THINGS, 2], one of them moved in the rows `on` whose tick has come."""
    things, rows = state.things.copy(), np.arange(len(state))
    now = on & (state.tick == state.moves)
    open_ = (state.kinds >= 0) & ~state.sorted & (np.arange(THINGS) != state.held[:, None])
    asked = np.take_along_axis(open_, state.order, 1)
    now &= asked.any(1)
    things[rows[now], state.order[rows[now], asked[now].argmax(1)]] = state.onto[now]
    return things


def _pushed(
    things: np.ndarray, there: np.ndarray, held: np.ndarray, hand: np.ndarray, closed: np.ndarray
) -> np.ndarray:
    """Things [N, THINGS, 2] moved until none overlaps another, or the hand where it is down; a held one is lifted."""
    things, down = things.copy(), closed & (held < 0)
    lying = there & (np.arange(THINGS) != held[:, None])
    for _ in range(PASSES):
        aside = _away(things - hand[:, None]) * (lying & down[:, None])[..., None]
        for other in range(THINGS):
            both = lying & lying[:, [other]] & (np.arange(THINGS) != other)
            # Of two in one spot the first goes to the left.
            apart = things - things[:, [other]]
            apart[..., 0] += 1e-9 * np.sign(np.arange(THINGS) - other)
            aside += 0.5 * _away(apart) * both[..., None]
        if not aside.any():
            break
        things = np.where(lying[..., None], np.clip(things + aside, -1, 1), things)
    return things


def _away(apart: np.ndarray) -> np.ndarray:
    """How far discs whose middles are `apart` [..., 2] must move so that they only touch."""
    far = np.linalg.norm(apart, axis=-1, keepdims=True)
    return np.asarray(apart / np.maximum(far, 1e-12) * np.maximum(2 * RADIUS - far, 0.0))


def _picture(state: Table, row: int) -> np.ndarray:
    """The table from above, uint8 [S, S, 3]: places as rings, things as discs, the hand as a ring, filled if closed."""
    picture = np.full((PICTURE_PX, PICTURE_PX, 3), TABLE_RGB, np.uint8)
    middles = (np.arange(PICTURE_PX) + 0.5) / PICTURE_PX * 2 - 1

    def disc(at: np.ndarray, radius: float, rgb: tuple[int, int, int], width: float | None = None) -> None:
        far = np.hypot(middles[None] - at[0], -middles[:, None] - at[1])
        picture[(far <= radius) & (far >= (0 if width is None else radius - width))] = rgb

    for at, kind in zip(state.places[row], state.place_kinds[row], strict=True):
        disc(at, PLACE_RADIUS, KINDS_RGB[kind], 0.015)
    for at, kind in zip(state.things[row], state.kinds[row], strict=True):
        if kind >= 0:
            disc(at, RADIUS, KINDS_RGB[kind])
    disc(state.hand[row], RADIUS / 2, HAND_RGB, None if state.closed[row] else 0.015)
    return picture
