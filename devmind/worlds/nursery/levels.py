"""The nursery's levels: the start, length and reward of episodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from devmind.worlds.nursery import fetching, handling, hiding, playroom, tasks
from devmind.worlds.nursery.geometry import between_deg, direction
from devmind.worlds.nursery.goals import (
    ORIENTED_DEG,
    TRACKED_DEG,
    first_touched,
    gaze_error_deg,
    hand_distance,
    startle_success,
)
from devmind.worlds.nursery.state import NO_EVENT, NurseryState

SHAPING_DEG = 90.0
FALSE_ALARM = 0.2
WRONG_TOUCH = 0.5
SLOWNESS = 0.02

Spawn = Callable[[np.ndarray], NurseryState]
Reward = Callable[[NurseryState, NurseryState, bool], np.ndarray]
Judge = Callable[[NurseryState], np.ndarray]


def _nothing(before: NurseryState, after: NurseryState, closing: bool) -> np.ndarray:
    return np.zeros(len(after))


def _never(state: NurseryState) -> np.ndarray:
    return np.zeros(len(state), bool)


def _turning(azimuth_only: bool) -> tuple[Reward, Judge]:
    def succeeded(state: NurseryState) -> np.ndarray:
        return gaze_error_deg(state, azimuth_only) <= ORIENTED_DEG

    def reward(before: NurseryState, after: NurseryState, closing: bool) -> np.ndarray:
        nearer = gaze_error_deg(before, azimuth_only) - gaze_error_deg(after, azimuth_only)
        return nearer / SHAPING_DEG + (succeeded(after) if closing else 0.0)

    return reward, succeeded


def _following(before: NurseryState, after: NurseryState, closing: bool) -> np.ndarray:
    error = gaze_error_deg(after)
    return np.where(error <= TRACKED_DEG, 1.0, 0.5 * np.maximum(1.0 - error / 30.0, 0.0))


def _touching(before: NurseryState, after: NurseryState, closing: bool) -> np.ndarray:
    nearer, touched = hand_distance(before) - hand_distance(after), first_touched(after)
    right, wrong = touched == after.target, (touched >= 0) & (touched != after.target)
    return nearer + right - WRONG_TOUCH * wrong - SLOWNESS


def _startled(before: NurseryState, after: NurseryState, closing: bool) -> np.ndarray:
    missed = (after.event != NO_EVENT) & ~after.answered & (after.tick == after.event_tick + 2)
    answered = after.answered & ~before.answered
    return answered * 1.0 - missed * 1.0 - FALSE_ALARM * (after.false_alarms - before.false_alarms)


def _resting(before: NurseryState, after: NurseryState, closing: bool) -> np.ndarray:
    turned = between_deg(direction(before.pan, before.tilt), direction(after.pan, after.tilt))
    return -turned / SHAPING_DEG


@dataclass(frozen=True)
class NurseryLevel:
    """One level. `succeeded` judges every level; only `reach`, `fetch` and `handle/*` end early.

    Attributes:
        name: as in `NurseryRules(name)`.
        horizon: ticks until truncation.
        spawn: first states by seeds.
        reward: (before, after, closing) to float [N]; closing is True on the horizon's tick.
        succeeded: state to bool [N].
        azimuth_only: the gaze's error counts azimuth alone.
        cued: `words` gives the target's colour in every tick.
        touch_ends: touching any object ends the episode; success_ends: success does.
        script: puts things to their places at a state's tick, in place, whatever the child does.
        asks: state to bool [N]: whether `words` names the target now; None: always.
        holds: state to bool [N]: whether the hand is held now, so that commands to it do nothing; None: never.
        facts: further truth about a state, by name; part of `truth`.
    """

    name: str
    horizon: int
    spawn: Spawn
    reward: Reward = _nothing
    succeeded: Judge = _never
    azimuth_only: bool = False
    cued: bool = False
    touch_ends: bool = False
    success_ends: bool = False
    script: Callable[[NurseryState], None] | None = None
    asks: Judge | None = None
    holds: Judge | None = None
    facts: Callable[[NurseryState], dict[str, np.ndarray]] | None = None


def _hide(kind: str) -> NurseryLevel:
    return NurseryLevel(
        f"hide/{kind}",
        hiding.HORIZON,
        hiding.spawn(kind),
        cued=True,
        script=hiding.script(kind),
        asks=hiding.names_colour(kind),
        facts=hiding.facts(kind),
    )


def _handle(task: str) -> NurseryLevel:
    return NurseryLevel(
        f"handle/{task}",
        handling.HORIZON,
        handling.spawn(task),
        handling.reward(task),
        handling.task_done(task),
        cued=True,
        success_ends=True,
    )


LEVELS = {
    level.name: level
    for level in (
        NurseryLevel("room", 32, playroom.spawn_room),
        NurseryLevel("orient/sight", 10, tasks.spawn_orient_sight, *_turning(False)),
        NurseryLevel("orient/empty", 10, tasks.spawn_orient_empty, _resting),
        NurseryLevel("orient/sound", 10, tasks.spawn_orient_sound, *_turning(True), azimuth_only=True),
        NurseryLevel("orient/motion", 10, tasks.spawn_orient_motion, *_turning(False)),
        NurseryLevel("track", 30, tasks.spawn_track, _following, lambda s: gaze_error_deg(s) <= TRACKED_DEG),
        NurseryLevel("clutter/orient", 10, tasks.spawn_clutter_orient, *_turning(False)),
        NurseryLevel(
            "clutter/track", 30, tasks.spawn_clutter_track, _following, lambda s: gaze_error_deg(s) <= TRACKED_DEG
        ),
        NurseryLevel("clutter/empty", 10, tasks.spawn_clutter_empty, _resting),
        NurseryLevel(
            "reach",
            30,
            tasks.spawn_reach,
            _touching,
            lambda s: first_touched(s) == s.target,
            cued=True,
            touch_ends=True,
        ),
        NurseryLevel("startle", 20, tasks.spawn_startle, _startled, startle_success),
        NurseryLevel("bind", 5, playroom.spawn_bind),
        NurseryLevel("hear", 5, playroom.spawn_hear),
        _hide("unmoved"),
        _hide("moved"),
        _hide("swapped"),
        _hide("a-not-b"),
        *(_handle(task) for task in handling.TASKS),
        NurseryLevel(
            "fetch",
            fetching.HORIZON,
            fetching.spawn,
            _touching,
            lambda s: first_touched(s) == s.target,
            cued=True,
            touch_ends=True,
            script=fetching.script,
            asks=fetching.names_colour,
            holds=fetching.holds_hand,
        ),
    )
}
