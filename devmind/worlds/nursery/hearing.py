"""The sound of a tick: the room's sources (objects, contacts, voice, bang) as arrays for the mixer."""

from __future__ import annotations

import numpy as np

from devmind.moment import SOUND_RATE_HZ, TICK_SAMPLES
from devmind.worlds.nursery import timbre
from devmind.worlds.nursery.caregiver import voice_cycles, voice_level, voice_vowel
from devmind.worlds.nursery.chance import integers, uniform
from devmind.worlds.nursery.geometry import wrap_deg
from devmind.worlds.nursery.state import N_OBJECTS, TEXTURES, TICK_S, NurseryState
from devmind.worlds.nursery.turns import in_turn

_TONES, _CONTACTS = slice(0, N_OBJECTS), slice(N_OBJECTS, 2 * N_OBJECTS)
_VOICE, _BANG = 2 * N_OBJECTS, 2 * N_OBJECTS + 1
N_SOURCES = 2 * N_OBJECTS + 2
BANG_ONSET_S, BANG_TAU_S, BANG_LOUDNESS = (0.005, 0.085), (0.03, 0.15), (4.0, 8.0)
"""Ranges: a bang may begin anywhere in its tick, decay like a clap in a dry room or a slammed door, near or far."""
CONTACT_ONSET_S, CONTACT_TAU_S, CONTACT_LOUDNESS = 0.02, 0.012, 5.0


def bang_age_s(state: NurseryState) -> np.ndarray:
    """Seconds from the latest bang's onset to the start of the state's tick [N]; far below zero before the first."""
    since = state.tick - state.bang_tick
    since = np.where(state.bang_every > 0, since % np.maximum(state.bang_every, 1), since)
    sounded = (state.bang_tick >= 0) & (state.tick >= state.bang_tick)
    return np.where(sounded, since * TICK_S - uniform(state.seed, "bang onset", *BANG_ONSET_S), -1e3)


def _ranging(seeds: np.ndarray, purpose: str, low: float, high: float) -> np.ndarray:
    """Log-uniform numbers [N] in [low, high)."""
    return low * (high / low) ** uniform(seeds, purpose)


class _Sources:
    """Arrays of the mixer, filled source by source (see mixer.mix)."""

    def __init__(self, n: int) -> None:
        self.which = np.full((n, N_SOURCES), -1, np.int64)
        self.where = np.zeros((n, N_SOURCES, 2, 3))
        self.hertz = np.zeros((n, N_SOURCES))
        self.phase = np.zeros((n, N_SOURCES, 2))
        self.level = np.zeros((n, N_SOURCES, 2))
        self.onset = np.zeros((n, N_SOURCES))
        self.tau = np.zeros((n, N_SOURCES))

    def steady_phase(self, where: slice | int, start_s: np.ndarray) -> None:
        """Phases of fixed pitches, counted from time 0, so that they continue over ticks."""
        time_s = start_s if isinstance(where, int) else start_s[:, None]
        self.phase[:, where, 0] = self.hertz[:, where] * time_s
        self.phase[:, where, 1] = self.hertz[:, where] * (time_s + TICK_S)


def _add_objects(sources: _Sources, state: NurseryState, start_s: np.ndarray) -> None:
    sounding = state.present & (state.loudness > 0)
    sources.which[:, _TONES] = np.where(sounding, state.shape * len(TEXTURES) + state.texture, -1)
    sources.hertz[:, _TONES] = timbre.tone_hz(state.size)
    sources.level[:, _TONES] = state.loudness[..., None]
    sources.which[:, _CONTACTS] = np.where(state.present & (state.contact > 0), timbre.TABLE_KNOCK + state.shape, -1)
    sources.hertz[:, _CONTACTS] = timbre.knock_hz(state.size)
    sources.level[:, _CONTACTS] = CONTACT_LOUDNESS * state.contact[..., None]
    sources.onset[:, _CONTACTS], sources.tau[:, _CONTACTS] = CONTACT_ONSET_S, CONTACT_TAU_S
    for part in (_TONES, _CONTACTS):
        sources.where[:, part, 0], sources.where[:, part, 1] = state.position_before, state.position
        sources.steady_phase(part, start_s)


def _add_voice(sources: _Sources, state: NurseryState) -> None:
    sources.which[:, _VOICE] = np.where(state.voice > 0, timbre.TABLE_VOWEL + voice_vowel(state), -1)
    sources.where[:, _VOICE] = state.caregiver_position[:, None]
    for end, tick in enumerate((state.tick - 1, state.tick)):
        sources.hertz[:, _VOICE], sources.phase[:, _VOICE, end] = voice_cycles(state, tick)
        sources.level[:, _VOICE, end] = voice_level(state, tick)


def _add_bang(sources: _Sources, state: NurseryState, start_s: np.ndarray) -> None:
    age_s, tau_s = bang_age_s(state), _ranging(state.seed, "bang tau", *BANG_TAU_S)
    sources.which[:, _BANG] = np.where((age_s > -1.0) & (age_s < 12 * tau_s), timbre.TABLE_NOISE, -1)
    sources.where[:, _BANG] = state.bang_position[:, None]
    sources.hertz[:, _BANG] = timbre.NOISE_HZ
    sources.level[:, _BANG] = _ranging(state.seed, "bang loudness", *BANG_LOUDNESS)[:, None]
    sources.onset[:, _BANG], sources.tau[:, _BANG] = -age_s, tau_s
    sources.steady_phase(_BANG, start_s)


def sound(state: NurseryState) -> np.ndarray:
    """The 100 ms that end at the state's tick, float32 [N, 2, 1600] (left, right), -1..1."""
    from devmind.worlds.nursery import mixer

    sources = _Sources(len(state))
    start_s = (state.tick - 1) * TICK_S + uniform(state.seed, "phase", 1.0, 60.0)
    _add_objects(sources, state, start_s)
    _add_voice(sources, state)
    _add_bang(sources, state, start_s)
    turned = wrap_deg(state.pan - state.pan_before)
    pan = np.stack([state.pan - turned, state.pan], axis=1) * (np.pi / 180)
    lean = np.stack([state.lean_before, state.lean], axis=1)
    key = integers(state.seed, "hiss", 2**32, tick=state.tick).astype(np.uint32)
    out = np.empty((len(state), 2, TICK_SAMPLES), np.float32)
    in_turn(
        mixer.mix,
        timbre.tables(),
        sources.which,
        sources.where,
        sources.hertz,
        sources.phase,
        sources.level,
        sources.onset,
        sources.tau,
        pan,
        lean,
        state.noise,
        key,
        float(SOUND_RATE_HZ),
        out,
    )
    return out
