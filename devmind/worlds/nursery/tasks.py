"""Spawns of the levels that ask for an act: orient, track, reach and startle."""

from __future__ import annotations

import numpy as np

from devmind.worlds.nursery.backdrop import hang
from devmind.worlds.nursery.chance import integers, permutations, uniform
from devmind.worlds.nursery.geometry import direction
from devmind.worlds.nursery.spawning import (
    CANDIDATES,
    circle,
    empty_room,
    in_view,
    launch,
    polar,
    put_clear,
    put_object,
    put_outside_caregiver,
    seat_caregiver,
    settle,
    wander,
)
from devmind.worlds.nursery.state import BANG, HAND_REST, LOOM, NO_EVENT, NurseryState

REACH_TILT_DEG = -25.0
"""The gaze for reaching: down at things before the body."""


def _look_somewhere(state: NurseryState) -> None:
    state.pan = uniform(state.seed, "pan", -30.0, 30.0)
    state.tilt = uniform(state.seed, "tilt", -10.0, 10.0)


def _put_off_axis(state: NurseryState, least_deg: float, most_deg: float) -> None:
    """One object at that angle from the gaze's axis, in any direction from it."""
    turn = uniform(state.seed, "turn", 0.0, 2 * np.pi)
    angle = uniform(state.seed, "off axis", least_deg, most_deg)
    distance = uniform(state.seed, "distance", 1.1, 1.9)
    state.size[:, 0] = np.minimum(state.size[:, 0], 0.16)
    put_object(state, 0, in_view(state, angle * np.cos(turn), angle * np.sin(turn), distance))
    state.target[:] = 0


def spawn_orient_sight(seeds: np.ndarray) -> NurseryState:
    """One still, silent object, in sight but 12 to 24 degrees off the axis."""
    state = empty_room(seeds)
    _look_somewhere(state)
    _put_off_axis(state, 12.5, 24.0)
    return settle(state)


def spawn_orient_empty(seeds: np.ndarray) -> NurseryState:
    """The rooms of `spawn_orient_sight` without their object, seed by seed. There is no target."""
    state = empty_room(seeds)
    _look_somewhere(state)
    return settle(state)


def spawn_orient_sound(seeds: np.ndarray) -> NurseryState:
    """One sounding object at any azimuth, near the ears' height, and up to three silent ones."""
    state = empty_room(seeds)
    place = polar(
        uniform(seeds, "azimuth", -180.0, 180.0),
        uniform(seeds, "elevation", -8.0, 8.0),
        uniform(seeds, "distance", 0.9, 2.2),
    )
    put_object(state, 0, place)
    silent = integers(seeds, "silent", 4)
    for slot in range(1, 4):
        azimuth = uniform(seeds, f"azimuth {slot}", -180.0, 180.0, (CANDIDATES,))
        elevation = uniform(seeds, f"elevation {slot}", -20.0, 20.0, (CANDIDATES,))
        where = polar(azimuth, elevation, uniform(seeds, f"distance {slot}", 1.0, 2.4, (CANDIDATES,)))
        put_clear(state, slot, where, 0.1, slot <= silent)
    state.loudness[:, 0] = uniform(seeds, "loudness", 0.8, 1.5)
    state.target[:] = 0
    state.sound_class = 1 + state.shape[:, 0]
    return settle(state)


def spawn_orient_motion(seeds: np.ndarray) -> NurseryState:
    """Four silent objects in the wide view; one goes round its place at 15 to 25 degrees a second."""
    state = empty_room(seeds)
    _look_somewhere(state)
    mover = integers(seeds, "mover", 4)
    for slot in range(4):
        state.size[:, slot] = uniform(seeds, f"size {slot}", 0.11, 0.19)
        azimuth = uniform(seeds, f"azimuth {slot}", -46.0, 46.0, (CANDIDATES,))
        elevation = uniform(seeds, f"elevation {slot}", -22.0, 28.0, (CANDIDATES,))
        where = polar(azimuth, elevation, uniform(seeds, f"distance {slot}", 1.2, 1.7, (CANDIDATES,)))
        put_clear(state, slot, where, 0.35)
    speed, radius = uniform(seeds, "speed", 15.0, 25.0), uniform(seeds, "radius", 4.0, 7.0)
    for slot in range(4):
        circle(state, slot, radius, speed, mover == slot)
    state.target = mover
    return settle(state)


def spawn_track(seeds: np.ndarray) -> NurseryState:
    """One object near the gaze's axis that wanders smoothly at up to 25 degrees a second."""
    state = empty_room(seeds)
    _look_somewhere(state)
    _put_off_axis(state, 0.0, 14.0)
    wander(state, 0)
    return settle(state)


def spawn_clutter_orient(seeds: np.ndarray) -> NurseryState:
    """One object, still or wandering, often before a moving picture instead of walls.

    In a quarter of the children it is anywhere in the wide view and has to be looked for; else it is in sight.
    """
    state = empty_room(seeds)
    state.pan, state.tilt = uniform(seeds, "pan", -45.0, 45.0), uniform(seeds, "tilt", -30.0, 30.0)
    _put_off_axis(state, 0.0, 28.0)
    away = uniform(seeds, "away") < 0.25
    azimuth, elevation = uniform(seeds, "azimuth", -48.0, 48.0), uniform(seeds, "elevation", -26.0, 28.0)
    put_object(state, 0, polar(azimuth, elevation, uniform(seeds, "distance", 1.1, 1.9)), away)
    wander(state, 0, uniform(seeds, "wanders") < 0.5)
    return settle(hang(state))


def spawn_clutter_empty(seeds: np.ndarray) -> NurseryState:
    """Nothing at all, often before a moving picture instead of walls; the gaze is anywhere. There is no target."""
    state = empty_room(seeds)
    state.pan, state.tilt = uniform(seeds, "pan", -45.0, 45.0), uniform(seeds, "tilt", -30.0, 30.0)
    return settle(hang(state))


def spawn_clutter_track(seeds: np.ndarray) -> NurseryState:
    """As `spawn_track`, often before a moving picture instead of walls."""
    return hang(spawn_track(seeds))


def spawn_reach(seeds: np.ndarray) -> NurseryState:
    """Three or four small objects of different colours in view and within the arm's reach; one colour is named."""
    state = empty_room(seeds)
    state.tilt[:] = REACH_TILT_DEG
    count = 3 + integers(seeds, "count", 2)
    side = permutations(seeds, "side", 4)
    for slot in range(4):
        state.size[:, slot] = uniform(seeds, f"size {slot}", 0.035, 0.055)
        y = -0.225 + 0.15 * side[:, slot, None] + uniform(seeds, f"y {slot}", -0.02, 0.02, (CANDIDATES,))
        x = uniform(seeds, f"x {slot}", 0.44, 0.62, (CANDIDATES,))
        z = uniform(seeds, f"z {slot}", -0.38, -0.1, (CANDIDATES,))
        hand = np.sqrt((x - HAND_REST[0]) ** 2 + (y - HAND_REST[1]) ** 2 + (z - HAND_REST[2]) ** 2)
        x = np.where(hand < 0.2, np.minimum(x + 0.1, 0.65), x)
        put_clear(state, slot, np.stack([x, y, z], axis=-1), 0.05, slot < count)
    state.graspable[:] = True
    state.target = integers(seeds, "target", count)
    return settle(state)


def spawn_startle(seeds: np.ndarray) -> NurseryState:
    """A bang or a looming object at some tick, or nothing of the kind; harmless sounds and movements in between.

    Half of the rooms are noisy, some like rain, as steady loudness is no reason to startle.
    """
    state = empty_room(seeds)
    state.noise = 0.001 * 60.0 ** uniform(seeds, "noise level")
    state.pan, state.tilt = uniform(seeds, "pan", -15.0, 15.0), uniform(seeds, "tilt", -8.0, 8.0)
    lot = uniform(seeds, "event")
    state.event = np.where(lot < 0.25, BANG, np.where(lot < 0.5, LOOM, NO_EVENT))
    state.event_tick = np.where(state.event == NO_EVENT, -1, 3 + integers(seeds, "event tick", 12))
    state.bang_tick = np.where(state.event == BANG, state.event_tick, -1)
    distance = uniform(seeds, "bang distance", 0.8, 2.5)
    state.bang_position = polar(uniform(seeds, "bang azimuth", -180.0, 180.0), np.zeros(len(seeds)), distance)
    seat_caregiver(state, uniform(seeds, "caregiver") < 0.4)
    state.voice = np.where(
        state.caregiver & (uniform(seeds, "voice") < 0.6), uniform(seeds, "voice level", 0.6, 1.4), 0.0
    )
    _add_flyer(state)
    _add_harmless(state)
    return settle(state)


def _add_flyer(state: NurseryState) -> None:
    """The object in slot 0 flies at the head in LOOM; else it may fly past, seen from the side, or hang still."""
    seeds = state.seed
    looms = state.event == LOOM
    state.size[:, 0] = uniform(seeds, "flyer size", 0.14, 0.22)
    draws = (CANDIDATES,)
    left, up = uniform(seeds, "flyer left", -16.0, 16.0, draws), uniform(seeds, "flyer up", -10.0, 10.0, draws)
    distance = uniform(seeds, "flyer distance", 1.9, 2.4, draws)
    places = [in_view(state, left[:, one], up[:, one], distance[:, one]) for one in range(CANDIDATES)]
    put_outside_caregiver(state, 0, np.stack(places, 1))
    at = state.position[:, 0]
    inward = -at / np.sqrt(at[:, :1] ** 2 + at[:, 1:2] ** 2 + at[:, 2:] ** 2)
    speed = uniform(seeds, "flyer speed", 3.2, 4.5)[:, None]
    launch(state, 0, speed * inward, state.event_tick, 0.12, looms)
    passes = ~looms & (uniform(seeds, "passes") < 0.5)
    sideways = np.where(uniform(seeds, "way") < 0.5, 90.0, -90.0) + state.pan
    lateral = uniform(seeds, "pass speed", 0.8, 2.5)[:, None] * direction(sideways, np.zeros(len(seeds)))
    launch(state, 0, lateral, 2 + integers(seeds, "pass tick", 14), 0.0, passes)


def _add_harmless(state: NurseryState) -> None:
    """Up to two further objects, still; one of them may hum."""
    seeds = state.seed
    for slot in (1, 2):
        azimuth = uniform(seeds, f"azimuth {slot}", -50.0, 50.0, (CANDIDATES,))
        elevation = uniform(seeds, f"elevation {slot}", -25.0, 20.0, (CANDIDATES,))
        where = polar(azimuth, elevation, uniform(seeds, f"distance {slot}", 1.4, 2.3, (CANDIDATES,)))
        put_clear(state, slot, where, 0.15, uniform(seeds, f"present {slot}") < 0.6)
    hums = state.present[:, 1] & (uniform(seeds, "hums") < 0.6)
    state.loudness[:, 1] = np.where(hums, uniform(seeds, "loudness", 0.6, 1.4), 0.0)
