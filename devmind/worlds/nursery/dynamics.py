"""One tick of the nursery: the head turns, the body leans, the hand reaches, objects move, events happen."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from devmind.worlds.nursery.chance import uniform
from devmind.worlds.nursery.geometry import cos_deg, direction, length, sin_deg, wrap_deg
from devmind.worlds.nursery.state import (
    BOX,
    CYLINDER,
    FLY,
    FREE,
    HAND_HIGH,
    HAND_LOW,
    HAND_RADIUS_M,
    HELD,
    MAX_LEAN_M,
    MAX_REACH_M,
    MAX_TILT_DEG,
    MAX_TURN_DEG,
    N_OBJECTS,
    NO_EVENT,
    PATH,
    ROOM_HIGH,
    ROOM_LOW,
    STILL,
    TICK_S,
    WITHDRAWN,
    NurseryState,
)

LEAN_M_PER_TICK = 0.1
HARD_HIT_M_S = 0.8  # a contact at this speed or above is as loud as contacts get


def path_point(path: np.ndarray, tick: np.ndarray) -> np.ndarray:
    """Points [N, O, 3] of PATH objects at `tick` [N].

    `path` [N, O, 12] holds azimuth, two swings of it (amplitude deg, rad/s, phase), elevation, one swing of it
    (the same three), distance in metres.
    """
    time_s = (tick * TICK_S)[:, None]

    def swing(first: int) -> np.ndarray:
        turn_deg = (path[..., first + 1] * time_s + path[..., first + 2]) * (180 / np.pi)
        return path[..., first] * sin_deg(turn_deg)

    azimuth = path[..., 0] + swing(1) + swing(4)
    return path[..., 11, None] * direction(azimuth, path[..., 7] + swing(8))


def fly(position: np.ndarray, path: np.ndarray, tick: np.ndarray, head: np.ndarray) -> np.ndarray:
    """Next points of FLY objects: `path` holds the first tick of flight, the velocity (3) and where to stop (m off)."""
    flying = (tick[:, None] >= path[..., 0])[..., None]
    velocity = path[..., 1:4]
    room = np.maximum(length(position - head[:, None]) - path[..., 4], 0.0)
    speed = length(velocity)
    share = np.minimum(1.0, room / np.maximum(speed * TICK_S, 1e-9))[..., None]
    moved = position + velocity * TICK_S * share
    return np.where(flying, np.clip(moved, ROOM_LOW + 0.05, ROOM_HIGH - 0.05), position)


def surface_distance(state: NurseryState) -> np.ndarray:
    """Distance [N, O] from the hand's centre to each object's surface (0 inside); infinite for absent objects."""
    offset = hand_in_room(state)[:, None] - state.position
    cos, sin = cos_deg(state.yaw), sin_deg(state.yaw)
    x, y = cos * offset[..., 0] + sin * offset[..., 1], cos * offset[..., 1] - sin * offset[..., 0]
    size = state.size
    above = np.maximum(np.abs(offset[..., 2]) - size, 0.0)
    box = length(np.stack([np.maximum(np.abs(x) - size, 0.0), np.maximum(np.abs(y) - size, 0.0), above], axis=-1))
    round_ = np.maximum(np.sqrt(x * x + y * y) - size, 0.0)
    cylinder = np.sqrt(round_ * round_ + above * above)
    sphere = np.maximum(length(offset) - size, 0.0)
    distance = np.where(state.shape == BOX, box, np.where(state.shape == CYLINDER, cylinder, sphere))
    return np.where(state.present, distance, np.inf)


def hand_in_room(state: NurseryState) -> np.ndarray:
    """The hand's centre [N, 3] in the room frame."""
    hand = state.hand.copy()
    hand[:, 0] += state.lean
    return hand


def _handle(new: NurseryState, moved: np.ndarray) -> None:
    """Grasp, carry, release and push: `moved` [N, 3] is how far the hand went in this tick."""
    n = np.arange(len(new))
    closed = new.grip > 0
    released = (new.held >= 0) & ~closed
    new.motion[n[released], new.held[released]] = STILL
    new.held[released] = -1
    held = new.held >= 0
    new.position[n[held], new.held[held]] += moved[held]
    distance = surface_distance(new)
    near = distance <= HAND_RADIUS_M
    able = np.where(near & new.graspable, distance, np.inf)
    grasps = closed & ~held & np.isfinite(able.min(axis=1))
    chosen = np.argmin(able, axis=1)
    new.held = np.where(grasps, chosen, new.held)
    new.motion[n[grasps], chosen[grasps]] = HELD
    away = new.position - hand_in_room(new)[:, None]
    away[..., 2] = 0.0
    away /= np.maximum(length(away), 1e-6)[..., None]
    push = np.maximum(away[..., 0] * moved[:, None, 0] + away[..., 1] * moved[:, None, 1], 0.0)
    pushed = near & new.pushable & ((new.motion == STILL) | (new.motion == FREE))
    new.position += np.where(pushed, push, 0.0)[..., None] * away


def _move_objects(new: NurseryState) -> None:
    from devmind.worlds.nursery import bounce

    head = np.zeros((len(new), 3))
    head[:, 0] = new.lean
    motion = new.motion[..., None]
    new.position = np.where(motion == PATH, path_point(new.path, new.tick), new.position)
    new.position = np.where(motion == FLY, fly(new.position, new.path, new.tick, head), new.position)
    free = new.motion == FREE
    new.velocity = np.where(free[..., None], new.velocity, (new.position - new.position_before) / TICK_S)
    speed = np.zeros((len(new), N_OBJECTS))
    bounce.roll(
        new.position,
        new.velocity,
        new.size,
        new.present,
        free,
        new.lean,
        new.caregiver,
        new.caregiver_position,
        ROOM_LOW,
        ROOM_HIGH,
        TICK_S,
        speed,
    )
    new.contact = np.maximum(np.where(speed > 0.02, np.minimum(speed / HARD_HIT_M_S, 1.0), 0.0), taps(new))


def taps(state: NurseryState) -> np.ndarray:
    """Strength [N, O] of the contacts that tapping objects make in the state's tick."""
    strength = uniform(state.seed, "tap", 0.5, 1.0, shape=(N_OBJECTS,), tick=state.tick)
    return np.where(state.tapping & state.present, strength, 0.0)


def advance(
    state: NurseryState,
    actions: Mapping[str, np.ndarray],
    wide: np.ndarray,
    script: Callable[[NurseryState], None] | None = None,
) -> NurseryState:
    """The states one tick later, without reward.

    Args:
        state: left untouched.
        actions: checked arrays: look [N, 2], reach [N, 4], move [N, 1], all within -1..1.
        wide: brightness of the wide view of `state`.
        script: puts things where they are at the new tick, in place.
    """
    look, reach, move = actions["look"], actions["reach"], actions["move"][:, 0]
    new = state.copy()
    new.tick = state.tick + 1
    new.wide_before, new.position_before = wide, state.position
    new.pan_before, new.lean_before = state.pan, state.lean
    new.look, new.grip = look, reach[:, 3]
    new.pan = wrap_deg(state.pan + MAX_TURN_DEG * look[:, 0])
    new.tilt = np.clip(state.tilt + MAX_TURN_DEG * look[:, 1], -MAX_TILT_DEG, MAX_TILT_DEG)
    new.lean = np.clip(state.lean + LEAN_M_PER_TICK * move, -MAX_LEAN_M, MAX_LEAN_M)
    new.hand = np.clip(state.hand + MAX_REACH_M * reach[:, :3], HAND_LOW, HAND_HIGH)
    if script:
        script(new)
    _handle(new, hand_in_room(new) - hand_in_room(state))
    _move_objects(new)
    new.touch = surface_distance(new) <= HAND_RADIUS_M
    withdrew = move <= WITHDRAWN
    since = state.tick - state.event_tick
    in_time = (state.event != NO_EVENT) & ((since == 0) | (since == 1))
    new.answered = state.answered | (withdrew & in_time)
    new.false_alarms = state.false_alarms + (withdrew & ~in_time)
    return new
