"""Spawns of the levels for watching and listening: room, bind and hear."""

from __future__ import annotations

import numpy as np

from devmind.worlds.nursery.chance import integers, permutations, uniform
from devmind.worlds.nursery.dynamics import taps
from devmind.worlds.nursery.geometry import direction
from devmind.worlds.nursery.spawning import (
    CANDIDATES,
    empty_room,
    in_view,
    polar,
    put_clear,
    put_object,
    redress,
    seat_caregiver,
    settle,
)
from devmind.worlds.nursery.state import (
    BANGS,
    CONTACT,
    FREE,
    N_OBJECTS,
    ROOM_LOW,
    SHAPES,
    SOUND_CLASSES,
    VOICE,
    NurseryState,
)


def spawn_room(seeds: np.ndarray) -> NurseryState:
    """Three to six objects of all kinds on the floor or hanging, some rolling, some sounding, often a caregiver."""
    state = empty_room(seeds)
    n, draws = len(seeds), (CANDIDATES,)
    state.pan = uniform(seeds, "pan", -40.0, 40.0)
    state.tilt = uniform(seeds, "tilt", -30.0, -5.0)
    seat_caregiver(state, uniform(seeds, "caregiver") < 0.7)
    state.voice = np.where(
        state.caregiver & (uniform(seeds, "voice") < 0.4), uniform(seeds, "voice level", 0.8, 1.5), 0.0
    )
    count = 3 + integers(seeds, "count", 4)
    for slot in range(6):
        azimuth = uniform(seeds, f"azimuth {slot}", -75.0, 75.0, draws)
        where = polar(azimuth, np.zeros((n, CANDIDATES)), uniform(seeds, f"distance {slot}", 0.85, 2.4, draws))
        hangs = uniform(seeds, f"hangs {slot}") < 0.3
        height = np.where(hangs, uniform(seeds, f"height {slot}", -0.35, 0.5), ROOM_LOW[2] + state.size[:, slot])
        where[..., 2] = height[:, None]
        put_clear(state, slot, where, 0.05, slot < count)
        rolls = ~hangs & (uniform(seeds, f"rolls {slot}") < 0.45)
        state.motion[rolls, slot] = FREE
        heading = direction(uniform(seeds, f"heading {slot}", -180.0, 180.0), np.zeros(n))
        speed = np.where(rolls, uniform(seeds, f"speed {slot}", 0.2, 0.8), 0.0)
        state.velocity[:, slot] = speed[:, None] * heading
    _scatter_habits(state)
    return settle(state)


def _scatter_habits(state: NurseryState) -> None:
    """Which objects sound, and which can be held or pushed."""
    seeds, o = state.seed, (N_OBJECTS,)
    sounds = uniform(seeds, "sounds", shape=o) < 0.3
    state.loudness = np.where(sounds & state.present, uniform(seeds, "loudness", 0.6, 1.4, o), 0.0)
    state.graspable = (state.size < 0.12) & (uniform(seeds, "graspable", shape=o) < 0.8)
    state.pushable = ~state.graspable & (uniform(seeds, "pushable", shape=o) < 0.7)


def spawn_bind(seeds: np.ndarray) -> NurseryState:
    """Four visible objects at clearly different places, unlike in shape, size and colour; one sounds all the time."""
    state = empty_room(seeds)
    n = len(seeds)
    state.pan = uniform(seeds, "pan", -30.0, 30.0)
    place, order, sizes = (permutations(seeds, name, 4) for name in ("place", "order", "sizes"))
    sounding = integers(seeds, "sounding", 4)
    for slot in range(4):
        state.shape[:, slot] = (order[:, slot] + integers(seeds, "first shape", 3)) % len(SHAPES)
        state.size[:, slot] = 0.075 + 0.03 * sizes[:, slot]
        left = -22.5 + 15.0 * place[:, slot] + uniform(seeds, f"left {slot}", -1.5, 1.5)
        up = uniform(seeds, f"up {slot}", -15.0, 15.0)
        put_object(state, slot, in_view(state, left, up, uniform(seeds, f"distance {slot}", 1.5, 1.9)))
    redress(state)
    state.loudness[np.arange(n), sounding] = uniform(seeds, "loudness", 0.8, 1.4)
    state.target = sounding
    state.sound_class = 1 + state.shape[np.arange(n), sounding]
    return settle(state)


def spawn_hear(seeds: np.ndarray) -> NurseryState:
    """One class of sound from a random object, place and level, with background noise."""
    state = empty_room(seeds)
    n, every = len(seeds), np.arange(len(seeds))
    kind = integers(seeds, "class", len(SOUND_CLASSES))
    state.sound_class = kind
    state.noise = 0.001 * 20.0 ** uniform(seeds, "noise level")
    level = uniform(seeds, "loudness", 0.6, 1.5)
    seat_caregiver(state, (kind == VOICE) | (uniform(seeds, "caregiver") < 0.3), 180.0)
    state.voice = np.where(kind == VOICE, level, 0.0)
    count = 1 + integers(seeds, "count", 4)
    for slot in range(4):
        azimuth = uniform(seeds, f"azimuth {slot}", -180.0, 180.0, (CANDIDATES,))
        elevation = uniform(seeds, f"elevation {slot}", -15.0, 20.0, (CANDIDATES,))
        where = polar(azimuth, elevation, uniform(seeds, f"distance {slot}", 0.7, 2.4, (CANDIDATES,)))
        put_clear(state, slot, where, 0.05, slot < count)
    source = integers(seeds, "source", count)
    tone = (kind >= 1) & (kind <= len(SHAPES))
    state.shape[every[tone], source[tone]] = kind[tone] - 1
    redress(state)
    state.loudness[every, source] = np.where(tone, level, 0.0)
    state.tapping[every, source] = kind == CONTACT
    state.target = np.where(tone | (kind == CONTACT), source, -1)
    bangs = kind == BANGS
    state.bang_tick = np.where(bangs, 0, -1)
    state.bang_every = np.where(bangs, 2, 0)
    state.bang_position = polar(uniform(seeds, "bang azimuth", -180.0, 180.0), np.zeros(n), 1.0 + level)
    state.contact = taps(state)
    return settle(state)
