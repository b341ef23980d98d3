"""Spawns and scripts of the levels `hide/*`: things are shown, covered, perhaps moved unseen, and asked for by colour.

Three places lie before the child. Two things are at two of them. Then a cover comes down before each of the three, so
the covers give no information. The level says what happens behind them: nothing (`unmoved`); the asked thing moves to
another place (`moved`); or it moves to another place while the other thing takes its own (`swapped`; an exact exchange
in half of the rooms). In `a-not-b` the thing is hidden at A twice and then carried to B in full view (Piaget 1954, "The
construction of reality in the child"). The question comes after a delay, and again after the cover of the place where
the thing was last seen has gone up.

Everything is a function of (seed, tick), so the state needs no further numbers. A moved thing is equally often at
either of the two places not looked at, so nobody can be right in more than half of the rooms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from devmind.worlds.nursery.chance import integers, permutations, uniform
from devmind.worlds.nursery.spawning import empty_room, polar, settle
from devmind.worlds.nursery.state import BOX, COLOUR_NAMES, NurseryState

PLACES = ("left", "middle", "right")
THINGS = 2
COVERS = slice(THINGS, THINGS + len(PLACES))
DELAYS = (4, 14, 34)
SHORT_DELAYS = (2, 5, 8)
FALL_TICKS = 3
ASK_TICKS = 2
NOT_ASKED, BEFORE_LOOKING, AFTER_LOOKING, REHEARSED = range(4)
"""When a question comes: not at all, before the look at the last seen place, after it, or after a hiding at A."""
HORIZON = 54

_CLOSE = 4
_MOVE = _CLOSE + FALL_TICKS + 1
SECOND_QUESTION = ASK_TICKS + 6
"""Ticks from the first tick of a question to that of the one after the look."""
_A_CLOSES, _A_HIDDEN = (4, 15), 3
_CARRY, _CARRY_TICKS, _B_CLOSE = 25, 4, 30
_COVER_M, _COVER_SIZE_M, _PARKED_M = 0.97, 0.15, 2.0
_BULGE_M = 0.35
_PALE = COLOUR_NAMES.index("white")


@dataclass(frozen=True)
class Schedule:
    """The events in the rooms of some seeds; int64 [N] by default.

    Attributes:
        target: which thing is asked for.
        before, after: place of each thing before and after the move, [N, 2].
        move: tick at which the things are at `after` (of a visible carry: the first tick of it).
        carried: whether the move is seen.
        delay: ticks between the covers' coming down and the question.
        ask: first tick of the question; the look begins when it is over.
    """

    target: np.ndarray
    before: np.ndarray
    after: np.ndarray
    move: np.ndarray
    carried: bool
    delay: np.ndarray
    ask: np.ndarray

    @property
    def last_seen(self) -> np.ndarray:
        """The place where the asked thing was last in sight, [N]."""
        return _of(self.after if self.carried else self.before, self.target)

    def where(self, tick: np.ndarray) -> np.ndarray:
        """The place of each thing at `tick` [N], [N, 2]; while it is carried, its goal."""
        return np.where((tick >= self.move)[:, None], self.after, self.before)

    def known(self, tick: np.ndarray) -> np.ndarray:
        """An ideal observer's belief about the place of each thing at `tick` [N]: probabilities [N, 2, 3].

        It is the true place, unless the thing was moved unseen. Then it is the old place, until its cover is up and it
        is empty; then each of the others with 0.5.
        """
        where, places = self.where(tick), np.eye(len(PLACES))
        if self.carried:
            return np.asarray(places[where])
        looked = (tick >= self.ask + ASK_TICKS + FALL_TICKS)[:, None]
        in_view = looked & (where == self.last_seen[:, None])
        empty = looked & (self.before == self.last_seen[:, None])
        old = places[self.before]
        believed = np.where(empty[..., None], (1 - old) / (len(PLACES) - 1), old)
        return np.where(((where == self.before) | in_view)[..., None], places[where], believed)

    def asked(self, tick: np.ndarray) -> np.ndarray:
        """Which question is asked at `tick` [N]: NOT_ASKED, BEFORE_LOOKING, AFTER_LOOKING or REHEARSED."""
        second = self.ask + SECOND_QUESTION
        found = np.where(_during(tick, self.ask), BEFORE_LOOKING, NOT_ASKED)
        found = np.where(_during(tick, second), AFTER_LOOKING, found)
        if self.carried:
            for close in _A_CLOSES:
                found = np.where(_during(tick, close + FALL_TICKS + 1), REHEARSED, found)
        return found

    def covered(self, tick: np.ndarray) -> np.ndarray:
        """How far the cover of each place is down at `tick` [N], 0..1, [N, 3]."""
        closes = (*_A_CLOSES, _B_CLOSE) if self.carried else (_CLOSE,)
        opens = [close + FALL_TICKS + _A_HIDDEN for close in closes[:-1]]
        down = np.zeros(len(tick))
        for close in closes:
            down = down + _ramp(tick, close)
        for start in opens:
            down = down - _ramp(tick, start)
        looked = _ramp(tick, self.ask + ASK_TICKS)
        return down[:, None] - looked[:, None] * (np.arange(len(PLACES)) == self.last_seen[:, None])


def _of(values: np.ndarray, which: np.ndarray) -> np.ndarray:
    return values[np.arange(len(values)), which]


def _during(tick: np.ndarray, start: np.ndarray | int) -> np.ndarray:
    return (tick >= start) & (tick < start + ASK_TICKS)


def _ramp(tick: np.ndarray, start: np.ndarray | int, ticks: int = FALL_TICKS) -> np.ndarray:
    return np.asarray(np.clip((tick - start) / ticks, 0.0, 1.0))


def plan(seeds: np.ndarray, kind: str) -> Schedule:
    """The events in the rooms of `seeds`, int64 [N], at the level `hide/KIND`."""
    target, order = integers(seeds, "asked", THINGS), permutations(seeds, "places", len(PLACES))
    before = order[:, :THINGS]
    mine, its, free = _of(before, target), _of(before, 1 - target), order[:, THINGS]
    goal = np.where(uniform(seeds, "goal") < 0.5, its, free)
    other = its
    if kind == "unmoved":
        goal = mine
    elif kind == "swapped":
        other = mine
    elif kind == "moved":
        # The other thing makes room, so that the asked thing may go to either place.
        other = np.where(goal == its, free, its)
    else:
        goal = free
    after = np.where(np.arange(THINGS) == target[:, None], goal[:, None], other[:, None])
    carried = kind == "a-not-b"
    delays = np.array(SHORT_DELAYS if carried else DELAYS)
    delay = delays[integers(seeds, "delay", len(delays))]
    ask = (_B_CLOSE if carried else _CLOSE) + FALL_TICKS + delay
    return Schedule(target, before, after, np.full(len(seeds), _CARRY if carried else _MOVE), carried, delay, ask)


def place_directions_deg(seeds: np.ndarray) -> np.ndarray:
    """Azimuth and elevation of the three places in the torso frame, [N, 3, 2].

    The middle one is higher, so that no place lies between two covers, which a coarse eye would take for one.
    """
    centre, height = uniform(seeds, "centre", -8.0, 8.0), uniform(seeds, "height", -3.0, 3.0)
    aside, above = uniform(seeds, "aside", 14.5, 16.0), uniform(seeds, "above", 9.0, 10.5)
    azimuth = centre[:, None] + aside[:, None] * np.array([1.0, 0.0, -1.0])
    return np.stack([azimuth, height[:, None] + above[:, None] * np.array([-1.0, 1.0, -1.0])], -1)


def script(kind: str) -> Callable[[NurseryState], None]:
    """A function that puts the things and covers of `hide/KIND` to their places at a state's tick, in place."""

    def play(state: NurseryState) -> None:
        seeds, tick, every = state.seed, state.tick, np.arange(len(state))
        made, at = plan(seeds, kind), place_directions_deg(seeds)
        moved = _ramp(tick, made.move - 1, _CARRY_TICKS if made.carried else 1)
        for thing in range(THINGS):
            start, end = at[every, made.before[:, thing]], at[every, made.after[:, thing]]
            way = start + moved[:, None] * (end - start)
            distance = uniform(seeds, f"distance {thing}", 1.45, 1.6)
            if made.carried:
                # In front of the other thing, not behind it.
                distance = distance - 4 * _BULGE_M * moved * (1 - moved) * (thing == made.target)
            state.position[:, thing] = polar(way[:, 0], way[:, 1], distance)
        down = made.covered(tick)
        for place in range(len(PLACES)):
            hung = polar(at[:, place, 0], at[:, place, 1], np.full(len(state), _COVER_M))
            hung[:, 2] += (1.0 - down[:, place]) * (_PARKED_M - hung[:, 2])
            state.position[:, COVERS][:, place] = hung

    return play


def spawn(kind: str) -> Callable[[np.ndarray], NurseryState]:
    """First states of `hide/KIND`: two things in full view, three covers above the view."""

    def first(seeds: np.ndarray) -> NurseryState:
        state, at = empty_room(seeds), place_directions_deg(seeds)
        state.pan = at[:, 1, 0] + uniform(seeds, "pan", -3.0, 3.0)
        state.tilt = at[..., 1].mean(1) + uniform(seeds, "tilt", -3.0, 3.0)
        state.present[:, : COVERS.stop] = True
        state.size[:, :THINGS] = uniform(seeds, "thing size", 0.115, 0.135, (THINGS,))
        state.size[:, COVERS], state.shape[:, COVERS] = _COVER_SIZE_M, BOX
        state.yaw[:, COVERS] = at[..., 0]
        _leave_out_pale(state)
        state.target = plan(seeds, kind).target
        script(kind)(state)
        return settle(state)

    return first


def _leave_out_pale(state: NurseryState) -> None:
    """Give the pale colour to another slot, as a white thing before pale walls is hard to see."""
    rows, slots = np.nonzero(state.colour[:, : COVERS.stop] == _PALE)
    state.colour[rows, slots], state.colour[rows, -1] = state.colour[rows, -1], _PALE


def at_tick(state: NurseryState, kind: str, tick: np.ndarray) -> NurseryState:
    """The rooms of `state` as they are at `tick` [N], with the same gaze."""
    new = state.copy()
    new.tick = np.asarray(tick, np.int64)
    script(kind)(new)
    return new


def names_colour(kind: str) -> Callable[[NurseryState], np.ndarray]:
    """Whether the level names a colour at a state's tick, bool [N]."""
    return lambda state: plan(state.seed, kind).asked(state.tick) != NOT_ASKED


def facts(kind: str) -> Callable[[NurseryState], dict[str, np.ndarray]]:
    """The truth about a state of `hide/KIND`, for lessons and exams.

    question int64 [N] (NOT_ASKED, ...); places int64 [N, 2], of each thing, from the left; place [N] of the asked one;
    last_seen_place [N]; covered [N, 3] 0..1; delay [N] ticks.
    """

    def describe_truth(state: NurseryState) -> dict[str, np.ndarray]:
        made = plan(state.seed, kind)
        places = made.where(state.tick)
        return {
            "question": made.asked(state.tick),
            "places": places,
            "place": _of(places, made.target),
            "last_seen_place": made.last_seen,
            "covered": made.covered(state.tick),
            "delay": made.delay,
        }

    return describe_truth
