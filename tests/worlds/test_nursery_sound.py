"""What the two ears hear, against the geometry of the head."""

from __future__ import annotations

import numpy as np
import pytest

from devmind.worlds.nursery import NurseryRules, NurseryState
from devmind.worlds.nursery.hearing import sound
from devmind.worlds.nursery.spawning import empty_room, put_object, settle
from devmind.worlds.nursery.timbre import tables, tone_hz

RATE, EAR_M, SOUND_M_S = 16_000, 0.09, 343.0


def source_at(azimuth_deg: float, distance: float = 1.5, bang: bool = False, size: float = 0.12) -> NurseryState:
    """One child without background noise, and one tone or one bang."""
    state = empty_room(np.array([9]))
    state.noise[:] = 0.0
    place = distance * np.array([[np.cos(np.deg2rad(azimuth_deg)), np.sin(np.deg2rad(azimuth_deg)), 0.0]])
    if bang:
        state.bang_tick[:], state.bang_position[:] = 0, place
    else:
        state.size[:, 0] = size
        put_object(state, 0, place)
        state.loudness[:, 0] = 1.0
    return settle(state)


def lag_samples(ears: np.ndarray) -> float:
    """By how many samples the left ear hears earlier, from the phase slope of the cross spectrum."""
    left, right = np.fft.rfft(ears[0]), np.fft.rfft(ears[1])
    cross = left * np.conj(right)
    hz = np.fft.rfftfreq(ears.shape[1], 1 / RATE)
    lags = np.linspace(-16, 16, 3201)
    band = (hz > 200) & (hz < 3500)
    score = np.real(cross[band] @ np.exp(-2j * np.pi * hz[band, None] * lags / RATE))
    return float(lags[np.argmax(score)])


def expected_lag(azimuth_deg: float, distance: float) -> float:
    place = distance * np.exp(1j * np.deg2rad(azimuth_deg))
    return (abs(place + 1j * EAR_M) - abs(place - 1j * EAR_M)) / SOUND_M_S * RATE


@pytest.mark.parametrize("azimuth", [-90.0, -40.0, 0.0, 25.0, 90.0, 150.0])
def test_the_time_difference_follows_the_azimuth(azimuth: float) -> None:
    ears = sound(source_at(azimuth, bang=True))[0]
    assert lag_samples(ears) == pytest.approx(expected_lag(azimuth, 1.5), abs=0.35)


def test_turning_the_head_turns_the_ears() -> None:
    state = source_at(0.0, bang=True)
    state.pan[:] = state.pan_before[:] = 90.0  # what was ahead is now on the right
    ears = sound(state)[0]
    assert lag_samples(ears) == pytest.approx(expected_lag(-90.0, 1.5), abs=0.35)


def test_the_nearer_ear_hears_louder_and_brighter() -> None:
    ears = sound(source_at(90.0, bang=True))[0].astype(float)
    power = np.abs(np.fft.rfft(ears, axis=1)) ** 2
    assert power[0].sum() > 2 * power[1].sum()
    high = power[:, 400:].sum(1) / power.sum(1)  # above 4 kHz
    assert high[0] > 1.5 * high[1]
    front, back = (sound(source_at(a, bang=True))[0].astype(float) for a in (0.0, 180.0))
    assert (front**2).sum() > 1.5 * (back**2).sum()


def test_level_falls_with_distance() -> None:
    near, far = (float(np.sqrt(np.mean(sound(source_at(0.0, d))[0] ** 2))) for d in (1.0, 2.0))
    assert near / far == pytest.approx(2.0, rel=0.02)


def test_a_tone_has_the_pitch_of_its_size_and_continues_over_ticks() -> None:
    rules = NurseryRules("room")
    state = source_at(30.0)
    heard = [sound(state)]
    for _ in range(9):
        state = rules.step(state, {"look": np.array([[0.7, 0.0]])})
        heard.append(sound(state))
    long = np.concatenate(heard, axis=2)[0, 0].astype(float)
    steps = np.abs(np.diff(long))
    seams = steps[1599::1600]
    assert seams.max() <= 1.2 * np.delete(steps, np.arange(1599, len(steps), 1600)).max()
    still = np.concatenate([sound(s) for s in _still_ticks(10)], axis=2)[0, 0]
    spectrum = np.abs(np.fft.rfft(still * np.hanning(len(still))))
    pitch = float(tone_hz(np.array([0.12]))[0])
    peaks = np.nonzero(spectrum > 0.05 * spectrum.max())[0] * RATE / len(still)
    assert np.allclose(np.round(peaks / pitch), peaks / pitch, atol=3.0 / pitch)


def _still_ticks(n: int) -> list[NurseryState]:
    rules, states = NurseryRules("room"), [source_at(30.0)]
    for _ in range(n - 1):
        states.append(rules.step(states[-1], {}))
    return states


def test_timbres_differ_by_shape_and_texture() -> None:
    spectra = np.abs(np.fft.rfft(tables()[:12, :-1, 0], axis=1))[:, 1:17]
    spectra /= np.linalg.norm(spectra, axis=1, keepdims=True)
    likeness = spectra @ spectra.T - np.eye(12)
    assert likeness.max() < 0.999
    bright, dull = tables()[..., :-1, 0], tables()[..., :-1, 1]
    assert np.allclose(np.sqrt((bright.astype(float) ** 2).mean(1)), 1.0, atol=1e-5)
    assert ((dull**2).mean(1) < (bright**2).mean(1)).all()


def test_each_class_of_sound_is_heard_and_quiet_is_quiet() -> None:
    rules = NurseryRules("hear")
    state = rules.initial(np.arange(200))
    kinds = state.sound_class
    for _ in range(3):
        level = np.sqrt((sound(state).astype(float) ** 2).mean((1, 2)))
        floor = state.noise / np.sqrt(3)
        assert np.allclose(level[kinds == 0], floor[kinds == 0], rtol=0.1)
        assert (level[kinds > 0] > 1.02 * floor[kinds > 0]).mean() > 0.97
        state = rules.step(state, {})


def test_the_noise_is_white_and_independent_between_the_ears() -> None:
    state = empty_room(np.array([1]))
    state.noise[:] = 0.5
    ears = sound(settle(state))[0].astype(float)
    assert abs(ears.mean()) < 0.03
    assert ears.std() == pytest.approx(0.5 / np.sqrt(3), rel=0.05)
    assert abs(np.corrcoef(ears)[0, 1]) < 0.1
    assert abs(np.corrcoef(ears[0, 1:], ears[0, :-1])[0, 1]) < 0.1
