"""The caregiver: a body, a head whose eyes and red nose show its gaze, and a voice of syllables."""

from __future__ import annotations

import numpy as np

from devmind.worlds.nursery.chance import integers, uniform
from devmind.worlds.nursery.geometry import angles_deg, camera_axes, direction
from devmind.worlds.nursery.state import MASK_CAREGIVER, N_OBJECTS, ROOM_LOW, TICK_S, NurseryState

HEAD_RADIUS_M = 0.16
BODY_RADIUS_M = 0.22
GAZE_TICKS = 12
SYLLABLE_TICKS = 3
_SKIN, _CLOTH, _NOSE, _EYE = (205, 160, 125), (105, 90, 130), (200, 40, 35), (20, 20, 25)


def gazed_object(state: NurseryState) -> np.ndarray:
    """The object the caregiver looks at, int64 [N]; -1: none (it looks at the child, or is absent)."""
    glance = state.tick // GAZE_TICKS
    scores = uniform(state.seed, "gaze", shape=(N_OBJECTS,), tick=glance)
    chosen = np.argmax(np.where(state.present, scores, -1.0), axis=1)
    looks = state.caregiver & state.present.any(axis=1) & (uniform(state.seed, "gaze at", tick=glance) < 0.75)
    return np.where(looks, chosen, -1)


def gaze_direction(state: NurseryState) -> np.ndarray:
    """Unit vectors [N, 3] of the caregiver's gaze in the room frame."""
    at = gazed_object(state)
    point = np.take_along_axis(state.position, np.maximum(at, 0)[:, None, None], axis=1)[:, 0]
    azimuth, elevation = angles_deg(np.where(at[:, None] >= 0, point, 0.0) - state.caregiver_position)
    return direction(azimuth, elevation)


def caregiver_prims(state: NurseryState) -> np.ndarray:
    """Primitives float32 [N, 5, 14]: head, nose, two eyes, body (kind 0 without a caregiver)."""
    prims = np.zeros((len(state), 5, 14), np.float32)
    if not state.caregiver.any():
        return prims
    ahead = gaze_direction(state)
    _, left, up = camera_axes(*angles_deg(ahead))
    head = state.caregiver_position
    prims[..., 1], prims[..., 8] = MASK_CAREGIVER, 1
    parts = ((head, HEAD_RADIUS_M, _SKIN), (head + 0.18 * ahead - 0.02 * up, 0.055, _NOSE))
    eyes = tuple((head + 0.125 * ahead + side * 0.075 * left + 0.06 * up, 0.045, _EYE) for side in (1, -1))
    for k, (centre, radius, colour) in enumerate(parts + eyes):
        prims[:, k, 0], prims[:, k, 2:5], prims[:, k, 5:8], prims[:, k, 10:13] = 1, centre, radius, colour
    top = _body_top(state)
    prims[:, 4, 0], prims[:, 4, 2:4], prims[:, 4, 10:13] = 3, head[:, :2], _CLOTH
    prims[:, 4, 4], prims[:, 4, 7] = (top + ROOM_LOW[2]) / 2, (top - ROOM_LOW[2]) / 2
    prims[:, 4, 5:7] = BODY_RADIUS_M
    prims[~state.caregiver, :, 0] = 0
    return prims


def gap_to_caregiver(state: NurseryState, position: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Metres [N, C] between things of radius `size` [N, C] at `position` [N, C, 3] and the caregiver's head and body;
    below 0: inside. Infinite without a caregiver.
    """
    off = position - state.caregiver_position[:, None]
    head = np.sqrt(off[..., 0] ** 2 + off[..., 1] ** 2 + off[..., 2] ** 2) - HEAD_RADIUS_M - size
    aside = np.sqrt(off[..., 0] ** 2 + off[..., 1] ** 2) - BODY_RADIUS_M - size
    reaches_body = position[..., 2] - size < _body_top(state)[:, None]
    gap = np.minimum(head, np.where(reaches_body, aside, np.inf))
    return np.where(state.caregiver[:, None], gap, np.inf)


def _body_top(state: NurseryState) -> np.ndarray:
    """Height [N] of the body's upper end, in the head."""
    return state.caregiver_position[:, 2] - HEAD_RADIUS_M * 0.8


def voice_level(state: NurseryState, tick: np.ndarray) -> np.ndarray:
    """Loudness [N] of the voice at the end of `tick`: syllables that start and end in silence."""
    return state.voice * np.abs(np.sin(np.ascontiguousarray(tick, np.float64) * (np.pi / SYLLABLE_TICKS)))


def voice_vowel(state: NurseryState) -> np.ndarray:
    """Vowel 0..3 [N] sung in the tick that ends at the state's tick; it changes only between syllables."""
    return integers(state.seed, "vowel", 4, tick=(state.tick + 2 * SYLLABLE_TICKS - 1) // SYLLABLE_TICKS)


def voice_cycles(state: NurseryState, tick: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pitch in Hz [N] and the cycles sung until the end of `tick` [N], with a vibrato of 4.5 Hz."""
    pitch_hz = uniform(state.seed, "pitch", 190.0, 290.0)
    time_s = np.ascontiguousarray(tick * TICK_S)
    return pitch_hz, pitch_hz * (time_s + 0.003 * np.sin(2 * np.pi * 4.5 * time_s))
