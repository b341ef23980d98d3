"""Building blocks of first states: an empty room, and ways to put objects, movement and sound into it."""

from __future__ import annotations

import numpy as np

from devmind.moment import WIDE_SIZE
from devmind.worlds.nursery.caregiver import gap_to_caregiver
from devmind.worlds.nursery.chance import integers, permutations, uniform
from devmind.worlds.nursery.dynamics import path_point
from devmind.worlds.nursery.geometry import angles_deg, camera_axes, cos_deg, direction, length, sin_deg
from devmind.worlds.nursery.looks import LARGEST_M, SMALLEST_M, sizes, textures
from devmind.worlds.nursery.state import (
    COLOUR_NAMES,
    FLY,
    HAND_REST,
    N_OBJECTS,
    PATH,
    ROOM_LOW,
    SHAPES,
    STILL,
    TEXTURES,
    TICK_S,
    NurseryState,
)

CANDIDATES = 12


def _planes(seeds: np.ndarray) -> np.ndarray:
    """Pale walls, floor and ceiling with checks or stripes; float32 [N, 6, 6] (see NurseryState.planes)."""
    gray = uniform(seeds, "plane gray", 95.0, 175.0, (6, 1))
    tint = uniform(seeds, "plane tint", -18.0, 18.0, (6, 3))
    frequency = uniform(seeds, "plane frequency", 0.8, 2.2, (6, 2))
    plain = uniform(seeds, "plane stripes", shape=(6, 2)) < 0.35
    contrast = uniform(seeds, "plane contrast", 0.04, 0.16, (6, 1))
    return np.concatenate([gray + tint, np.where(plain, 0.0, frequency), contrast], axis=2).astype(np.float32)


def empty_room(seeds: np.ndarray) -> NurseryState:
    """A still child in an empty, silent room. Objects already have looks (all colours differ) but are not present.

    After changes of shapes or colours call `redress`.
    """
    n, o = len(seeds), N_OBJECTS
    point, number, flag, count = np.zeros((n, o, 3)), np.zeros(n), np.zeros(n, bool), np.zeros(n, np.int64)
    each, flags, counts = np.zeros((n, o)), np.zeros((n, o), bool), np.zeros((n, o), np.int64)
    state = NurseryState(
        seed=np.array(seeds, np.int64),
        tick=count.copy(),
        pan=number.copy(),
        tilt=number.copy(),
        lean=number.copy(),
        pan_before=number.copy(),
        lean_before=number.copy(),
        look=np.zeros((n, 2)),
        grip=number.copy(),
        hand=np.tile(np.array(HAND_REST), (n, 1)),
        touch=flags.copy(),
        held=count - 1,
        present=flags.copy(),
        shape=integers(seeds, "shape", len(SHAPES), (o,)),
        colour=permutations(seeds, "colour", len(COLOUR_NAMES))[:, :o],
        texture=integers(seeds, "texture", len(TEXTURES), (o,)),
        size=sizes(seeds, uniform(seeds, "size", SMALLEST_M, LARGEST_M, (o,))),
        yaw=uniform(seeds, "yaw", 0.0, 90.0, (o,)),
        position=point.copy(),
        position_before=point.copy(),
        velocity=point.copy(),
        motion=counts + STILL,
        path=np.zeros((n, o, 12)),
        graspable=flags.copy(),
        pushable=flags.copy(),
        loudness=each.copy(),
        tapping=flags.copy(),
        contact=each.copy(),
        voice=number.copy(),
        noise=uniform(seeds, "noise", 0.001, 0.004),
        caregiver=flag.copy(),
        caregiver_position=np.tile(np.array([2.0, 0.0, 0.3]), (n, 1)),
        bang_tick=count - 1,
        bang_every=count.copy(),
        bang_position=np.zeros((n, 3)),
        event=count.copy(),
        event_tick=count - 1,
        answered=flag.copy(),
        false_alarms=count.copy(),
        target=count - 1,
        sound_class=count.copy(),
        backdrop=flag.copy(),
        planes=_planes(seeds),
        wide_before=np.zeros((n, WIDE_SIZE, WIDE_SIZE), np.uint8),
        reward=np.zeros(n, np.float32),
        terminal=flag.copy(),
    )
    redress(state)
    return state


def redress(state: NurseryState) -> None:
    """Give things with held-out looks another texture, in rooms of lessons, in place."""
    state.texture = textures(state.seed, state.shape, state.colour, state.texture)


def polar(azimuth_deg: np.ndarray, elevation_deg: np.ndarray, distance_m: np.ndarray) -> np.ndarray:
    """Points [..., 3] by direction from the head and distance."""
    return distance_m[..., None] * direction(azimuth_deg, elevation_deg)


def in_view(state: NurseryState, left_deg: np.ndarray, up_deg: np.ndarray, distance_m: np.ndarray) -> np.ndarray:
    """Points [N, 3] at angles to the left of and above the gaze's axis, `distance_m` along it."""
    forward, left, up = camera_axes(state.pan, state.tilt)
    aside, above = (sin_deg(angle) / cos_deg(angle) for angle in (left_deg, up_deg))
    return distance_m[:, None] * (forward + aside[:, None] * left + above[:, None] * up)


def _on_floor(position: np.ndarray, size: np.ndarray) -> np.ndarray:
    """`position` [N, ..., 3], moved towards the head if a body of `size` [N] would sink into the floor."""
    lowest = (ROOM_LOW[2] + size).reshape(-1, *[1] * (position.ndim - 2))
    z = position[..., 2]
    share = np.where(z < lowest - 1e-9, lowest / np.minimum(z, -1e-9), 1.0)
    return position * share[..., None]


def put_object(state: NurseryState, slot: int, position: np.ndarray, where: np.ndarray | bool = True) -> None:
    """Make the object `slot` present at `position` [N, 3] in the children `where`."""
    chosen = np.broadcast_to(np.asarray(where), (len(state),))
    state.position[chosen, slot] = _on_floor(position, state.size[:, slot])[chosen]
    state.present[:, slot] |= chosen


def put_clear(
    state: NurseryState, slot: int, candidates: np.ndarray, margin_m: float, where: np.ndarray | bool = True
) -> None:
    """Put the object at the first of `candidates` [N, C, 3] `margin_m` clear of all others, else at the freest.

    Things keep away from the caregiver's head; below it they may be as near to the body as they like, but not inside.
    """
    candidates = _on_floor(candidates, state.size[:, slot])
    free = np.full(candidates.shape[:2], np.inf)
    for other in range(slot):
        gap = (
            length(candidates - state.position[:, None, other]) - (state.size[:, other] + state.size[:, slot])[:, None]
        )
        free = np.minimum(free, np.where(state.present[:, other, None], gap, np.inf))
    gap = length(candidates - state.caregiver_position[:, None]) - 0.45 - state.size[:, slot, None]
    free = np.minimum(free, np.where(state.caregiver[:, None], gap, np.inf))
    body = gap_to_caregiver(state, candidates, state.size[:, slot, None])
    free = np.where(body < 0, np.minimum(free, body), free)
    best = np.argmax(np.minimum(free, margin_m), axis=1)
    put_object(state, slot, candidates[np.arange(len(state)), best], where)


def put_outside_caregiver(state: NurseryState, slot: int, candidates: np.ndarray) -> None:
    """Put the object at the first of `candidates` [N, C, 3] that is not inside the caregiver; else at the first."""
    candidates = _on_floor(candidates, state.size[:, slot])
    best = np.argmax(gap_to_caregiver(state, candidates, state.size[:, slot, None]) >= 0, axis=1)
    put_object(state, slot, candidates[np.arange(len(state)), best])


def seat_caregiver(state: NurseryState, where: np.ndarray | bool = True, spread_deg: float = 65.0) -> None:
    """Seat a caregiver within `spread_deg` of straight ahead, 1.5 to 2.3 m off, in the children `where`."""
    azimuth = uniform(state.seed, "caregiver azimuth", -spread_deg, spread_deg)
    distance = uniform(state.seed, "caregiver distance", 1.5, 2.3)
    state.caregiver_position = polar(azimuth, np.zeros(len(state)), distance)
    state.caregiver_position[:, 2] = uniform(state.seed, "caregiver height", 0.1, 0.4)
    state.caregiver |= np.broadcast_to(np.asarray(where), (len(state),))


def _path_distance(state: NurseryState, slot: int, lowest_deg: np.ndarray) -> np.ndarray:
    """The object's distance, less where it would touch the floor at the path's lowest elevation."""
    sunk = np.maximum(-sin_deg(lowest_deg), 1e-9)
    return np.minimum(length(state.position[:, slot]), (state.size[:, slot] + ROOM_LOW[2]) / -sunk)


def circle(state: NurseryState, slot: int, radius_deg: np.ndarray, speed_deg_s: np.ndarray, where: np.ndarray) -> None:
    """Let the object circle around its direction with a steady angular speed."""
    azimuth, elevation = angles_deg(state.position[:, slot])
    phase = uniform(state.seed, "circle", 0.0, 2 * np.pi)
    turn = speed_deg_s / radius_deg * np.where(uniform(state.seed, "circle way") < 0.5, 1.0, -1.0)
    path = np.zeros((len(state), 12))
    wide = radius_deg / np.maximum(cos_deg(elevation), 0.3)
    path[:, 1], path[:, 2], path[:, 3] = wide, turn, phase
    path[:, 8], path[:, 9], path[:, 10] = radius_deg, turn, phase + np.pi / 2
    path[:, 0] = azimuth - wide * np.sin(phase)
    path[:, 7] = elevation - radius_deg * np.sin(phase + np.pi / 2)
    path[:, 11] = _path_distance(state, slot, path[:, 7] - radius_deg)
    state.path[where, slot] = path[where]
    state.motion[where, slot] = PATH


def wander(state: NurseryState, slot: int, where: np.ndarray | bool = True) -> None:
    """Let the object swing smoothly around its direction, at up to 25 degrees a second, from its place."""
    azimuth, elevation = angles_deg(state.position[:, slot])
    path = np.zeros((len(state), 12))
    swings = ((1, "swing a", (12.0, 22.0), 14.0), (4, "swing b", (4.0, 8.0), 7.0), (8, "swing c", (5.0, 10.0), 6.0))
    for first, name, amplitudes, top_deg_s in swings:
        amplitude = uniform(state.seed, name, *amplitudes)
        path[:, first] = amplitude
        path[:, first + 1] = top_deg_s * uniform(state.seed, name + " speed", 0.6, 1.0) / amplitude
        path[:, first + 2] = uniform(state.seed, name + " phase", 0.0, 2 * np.pi)
    path[:, 0] = azimuth - path[:, 1] * np.sin(path[:, 3].copy()) - path[:, 4] * np.sin(path[:, 6].copy())
    path[:, 7] = elevation - path[:, 8] * np.sin(path[:, 10].copy())
    path[:, 11] = _path_distance(state, slot, path[:, 7] - path[:, 8])
    chosen = np.broadcast_to(np.asarray(where), (len(state),))
    state.path[chosen, slot] = path[chosen]
    state.motion[chosen, slot] = PATH


def launch(
    state: NurseryState, slot: int, velocity: np.ndarray, first_tick: np.ndarray, stop_m: float, where: np.ndarray
) -> None:
    """Let the object fly straight from `first_tick` [N] (the first tick that shows it moved) with `velocity` [N, 3]."""
    state.path[where, slot, 0] = first_tick[where]
    state.path[where, slot, 1:4] = velocity[where]
    state.path[where, slot, 4] = stop_m + state.size[where, slot]
    state.motion[where, slot] = FLY


def settle(state: NurseryState) -> NurseryState:
    """Fill in how things moved during the tick before the first Moment."""
    on_path = (state.motion == PATH)[..., None]
    state.position_before = np.where(
        on_path, path_point(state.path, state.tick - 1), state.position - state.velocity * TICK_S
    )
    state.position = np.where(on_path, path_point(state.path, state.tick), state.position)
    state.velocity = np.where(on_path, (state.position - state.position_before) / TICK_S, state.velocity)
    state.pan_before, state.lean_before = state.pan.copy(), state.lean.copy()
    return state
