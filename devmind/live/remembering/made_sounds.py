"""Sounds that nobody recorded: coloured noises, voices, tones and chirps, clicks and crackles, each in many examples.

A kind has a source, resonances and a course of loudness (steady, swelling, in events or in strikes that die away), or
is two of these at once. An example is another event of that kind, in another room, by another microphone. Source and
resonances follow Fant (1960); the variation stands for the differences between two recordings of one thing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from devmind.moment import SOUND_RATE_HZ

SOURCES = ("noise", "voice", "tone", "clicks")
COURSES = ("steady", "swell", "events")
_LOWEST_HZ, _RING_S = 40.0, 0.15


@dataclass(frozen=True)
class SoundKind:
    """One kind of sound.

    Args:
        source: one of SOURCES.
        course: one of COURSES, the course of the loudness.
        slope: how fast the level falls with frequency: amplitude as frequency to the minus this.
        pitch_hz: of a voice or tone; `glide` and `bow` are how many octaves it rises and bends within an event.
        breath: noise in a voice or tone, as a share of it.
        peaks_hz: resonances, `width` wide (in log frequency) and `peak_db` high.
        clicks_hz: clicks a second, `regular` or random, each ringing for `ring_s`.
        beat_hz: events or swells a second; an event fills `duty` of a beat, and `attack` of that is its rise.
    """

    source: str
    course: str
    slope: float
    pitch_hz: float
    glide: float
    bow: float
    breath: float
    peaks_hz: tuple[float, ...]
    width: float
    peak_db: float
    clicks_hz: float
    regular: bool
    ring_s: float
    beat_hz: float
    duty: float
    attack: float


def sound_kind(rng: np.random.Generator) -> SoundKind:
    """A random kind."""
    log = lambda low, high: float(np.exp(rng.uniform(np.log(low), np.log(high))))  # noqa: E731
    source = str(rng.choice(SOURCES))
    return SoundKind(
        source=source,
        course=str(rng.choice(COURSES)),
        slope=rng.uniform(0, 1.2),
        pitch_hz=log(90, 900) * (3 if source == "tone" else 1),
        glide=rng.uniform(-0.7, 0.7),
        bow=rng.uniform(-0.6, 0.6),
        breath=float(rng.choice((0.02, 0.1, 0.4))),
        peaks_hz=tuple(log(250, 6000) for _ in range(rng.integers(1, 4))),
        width=rng.uniform(0.12, 0.6),
        peak_db=rng.uniform(5, 30),
        clicks_hz=log(3, 60),
        regular=bool(rng.random() < 0.5),
        ring_s=log(0.002, 0.06),
        beat_hz=log(0.4, 6),
        duty=rng.uniform(0.15, 0.7),
        attack=rng.uniform(0.05, 0.6),
    )


@dataclass(frozen=True)
class Mixture:
    """One or two kinds of sound at once, as one kind.

    Args:
        layers: by loudness.
        levels_db: of each, relative to the first.
        strikes_s: decay time of each one's strikes; 0 where it goes on as its kind does.
        beat_hz: strikes a second, with irregularity `irregular` (0..1).
        variation: the overall difference between two examples.
        spread: their difference in pitch and resonances, in octaves.
    """

    layers: tuple[SoundKind, ...]
    levels_db: tuple[float, ...]
    strikes_s: tuple[float, ...]
    beat_hz: float
    irregular: float
    variation: float
    spread: float


def mixture(rng: np.random.Generator) -> Mixture:
    """A random mixture."""
    log = lambda low, high: float(np.exp(rng.uniform(np.log(low), np.log(high))))  # noqa: E731
    layers = tuple(sound_kind(rng) for _ in range(1 if rng.random() < 0.55 else 2))
    return Mixture(
        layers=layers,
        levels_db=tuple(-18 * rng.random() if place else 0.0 for place in range(len(layers))),
        strikes_s=tuple(log(0.02, 0.6) if rng.random() < 0.35 else 0.0 for _ in layers),
        beat_hz=log(0.4, 8),
        irregular=rng.random(),
        variation=rng.uniform(0.7, 2.0),
        spread=rng.uniform(0, 0.5),
    )


def mixture_example(kind: Mixture, rng: np.random.Generator, seconds: float) -> np.ndarray:
    """One ear's sound float32 [1, S], in a room and by a microphone of its own."""
    n, vary = round(seconds * SOUND_RATE_HZ), kind.variation
    turn = lambda octaves: float(np.exp2(octaves * rng.normal()))  # noqa: E731
    wave = np.zeros(n)
    for layer, level_db, strike_s in zip(kind.layers, kind.levels_db, kind.strikes_s, strict=True):
        now = replace(
            layer,
            course="steady" if strike_s else layer.course,
            pitch_hz=layer.pitch_hz * turn(kind.spread),
            beat_hz=layer.beat_hz * turn(0.3 * vary),
            peaks_hz=tuple(peak * turn(0.3 * kind.spread) for peak in layer.peaks_hz),
        )
        sound = sound_example(now, rng, seconds, vary)[0].astype(np.float64)
        if strike_s:
            sound = sound * _strikes(kind, strike_s * turn(0.3 * vary), rng, n)
        wave += _level(sound) * 10 ** (level_db / 20 + 0.1 * vary * rng.normal())
    if rng.random() < 0.6:
        wave = _in_room(wave, float(np.exp(rng.uniform(np.log(0.05), np.log(0.9)))), rng.uniform(-14, 0), rng)
    octaves = np.log2(np.maximum(np.fft.rfftfreq(n, 1 / SOUND_RATE_HZ), _LOWEST_HZ) / 1000)
    decibel = 1.5 * vary * rng.normal() * octaves
    if rng.random() < 0.3:
        decibel = decibel - 24 * np.maximum(0, octaves - np.log2(rng.uniform(2, 7)))
    if rng.random() < 0.3:
        decibel = decibel - 12 * np.maximum(0, np.log2(rng.uniform(0.08, 0.4)) - octaves)
    wave = _level(np.fft.irfft(np.fft.rfft(wave) * 10 ** (decibel / 20), n))
    wave += 10 ** (-rng.uniform(8, 50) / 20) * _noise(n, rng.uniform(0, 1.2), rng)
    return np.clip(wave * 10 ** (rng.uniform(-34, -12) / 20), -1, 1).astype(np.float32)[None]


def _strikes(kind: Mixture, dies_s: float, rng: np.random.Generator, n: int) -> np.ndarray:
    """Loudness [n] of decaying strikes, the first within half a sound."""
    decay, loudness = np.exp(-np.arange(n) / SOUND_RATE_HZ / dies_s), np.zeros(n)
    between = SOUND_RATE_HZ / (kind.beat_hz * float(np.exp2(0.4 * kind.variation * rng.normal())))
    at = rng.uniform(0, min(between, 0.6 * n))
    while at < n:
        strength = np.exp(0.3 * kind.variation * rng.normal())
        loudness[int(at) :] = np.maximum(loudness[int(at) :], strength * decay[: n - int(at)])
        at += max(between * np.exp(0.6 * kind.irregular * rng.normal()), 0.02 * SOUND_RATE_HZ)
    return loudness


def _in_room(wave: np.ndarray, decay_s: float, level_db: float, rng: np.random.Generator) -> np.ndarray:
    """Add an echo that falls by 60 dB in `decay_s`, made of noise as in Schroeder 1979."""
    length = round(decay_s * SOUND_RATE_HZ)
    echo = rng.normal(size=length) * 10 ** (-3 * np.arange(length) / length)
    echo[0] = 0
    echo *= 10 ** (level_db / 20) / np.sqrt(np.square(echo).sum() + 1e-12)
    echo[0] = 1
    size = 1 << (len(wave) + length - 1).bit_length()
    return np.fft.irfft(np.fft.rfft(wave, size) * np.fft.rfft(echo, size), size)[: len(wave)]


def sound_example(kind: SoundKind, rng: np.random.Generator, seconds: float, variation: float = 1.0) -> np.ndarray:
    """One ear's sound float32 [1, S] of a kind; `variation` is its difference from other examples of the kind."""
    n = round(seconds * SOUND_RATE_HZ)
    turn = lambda octaves: float(np.exp2(variation * rng.normal(0, octaves)))  # noqa: E731
    loudness, within = _course(kind, rng, n, variation)
    if kind.source == "noise":
        wave = _noise(n, kind.slope + 0.15 * variation * rng.normal(), rng)
    elif kind.source == "clicks":
        wave = _clicks(kind, rng, n, turn)
    else:
        bend = kind.glide * (within - 0.5) + kind.bow * (4 * within * (1 - within) - 0.5)
        tremor = 0.02 * variation * np.interp(np.arange(n), np.linspace(0, n, 20), rng.normal(size=20))
        cycles = np.cumsum(kind.pitch_hz * turn(0.2) * np.exp2(bend + tremor) / SOUND_RATE_HZ)
        wave = np.sin(2 * np.pi * cycles) if kind.source == "tone" else np.diff(np.floor(cycles), prepend=0.0)
        wave = _level(wave - wave.mean()) + kind.breath * _noise(n, kind.slope, rng)
    octaves = np.log2(np.maximum(np.fft.rfftfreq(n, 1 / SOUND_RATE_HZ), _LOWEST_HZ))
    room = np.linspace(octaves[0], octaves[-1], 7)
    decibel = np.interp(octaves, room, variation * rng.normal(0, 3.0, 7))
    if kind.source != "tone":
        for peak in kind.peaks_hz:
            away = (octaves - np.log2(peak * turn(0.1))) * np.log(2)
            decibel = decibel + kind.peak_db * np.exp(-0.5 * np.square(away / kind.width))
    if kind.source in ("voice", "clicks"):
        decibel = decibel - 6 * kind.slope * np.maximum(octaves - np.log2(500), -2)
    wave = _level(np.fft.irfft(np.fft.rfft(wave) * 10 ** (decibel / 20), n)) * loudness
    behind = 10 ** (-rng.uniform(12, 45) / 20) * _noise(n, rng.uniform(0, 1), rng)
    sound = (_level(wave) + behind) * 10 ** (rng.uniform(-32, -12) / 20)
    return np.clip(sound, -1, 1).astype(np.float32)[None]


def as_recorded(sound: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The sound at a random place of a file up to three times as long, between digital silence or faint noise; or
    unchanged.
    """
    n = sound.shape[1]
    length, at = int(rng.uniform(1, 3) * n), rng.random()
    if rng.random() < 0.4:
        return sound
    faint = sound.std() * 10 ** (-rng.uniform(20, 50) / 20) * (rng.random() < 0.5)
    file = (faint * rng.normal(size=(1, length))).astype(np.float32)
    file[:, (start := int(at * (length - n))) : start + n] += sound
    return np.clip(file, -1, 1)


def _course(kind: SoundKind, rng: np.random.Generator, n: int, variation: float) -> tuple[np.ndarray, np.ndarray]:
    """Loudness [n], and the progress of the event, 0..1 [n]."""
    if kind.course == "steady":
        return np.ones(n), np.linspace(0, 1, n)
    hurry = np.interp(np.arange(n), np.linspace(0, n, 8), rng.normal(size=8))
    rate_hz = kind.beat_hz * np.exp2(0.25 * variation * (rng.normal() + hurry))
    within = (np.cumsum(rate_hz / SOUND_RATE_HZ) + rng.random()) % 1
    if kind.course == "swell":
        return 0.25 + 0.75 * (0.5 - 0.5 * np.cos(2 * np.pi * within)), within
    within = within / np.clip(kind.duty * np.exp2(0.2 * variation * rng.normal()), 0.05, 0.95)
    loudness = np.minimum(within / kind.attack, (1 - within) / (1 - kind.attack))
    # At least one event starts in it: a beat may be longer than the sound.
    loudness = np.maximum(loudness, 0.0) if (within < 1).any() else np.linspace(1, 0, n)
    return loudness, np.clip(within, 0, 1)


def _clicks(kind: SoundKind, rng: np.random.Generator, n: int, turn: object) -> np.ndarray:
    assert callable(turn)
    rate_hz, seconds = kind.clicks_hz * turn(0.2), n / SOUND_RATE_HZ
    even = np.arange(rng.random(), max(seconds * rate_hz, 1.0)) / rate_hz
    at_s = even if kind.regular else rng.uniform(0, seconds, rng.poisson(rate_hz * seconds) + 1)
    train = np.zeros(n)
    heights = np.ones(len(at_s)) if kind.regular else np.exp(0.5 * rng.normal(size=len(at_s)))
    np.add.at(train, np.minimum((at_s * SOUND_RATE_HZ).astype(int), n - 1), heights)
    length = round(_RING_S * SOUND_RATE_HZ)
    ring = np.exp(-np.arange(length) / SOUND_RATE_HZ / (kind.ring_s * turn(0.2))) * rng.normal(size=length)
    size = n + length
    return np.fft.irfft(np.fft.rfft(train, size) * np.fft.rfft(ring, size), size)[:n]


def _noise(n: int, slope: float, rng: np.random.Generator) -> np.ndarray:
    """Noise [n] of mean square 1 whose amplitude falls as frequency to the minus `slope`."""
    spectrum = np.fft.rfft(rng.normal(size=n))
    hz = np.maximum(np.fft.rfftfreq(n, 1 / SOUND_RATE_HZ), _LOWEST_HZ)
    return _level(np.fft.irfft(spectrum * (hz / 1000) ** -slope, n))


def _level(wave: np.ndarray) -> np.ndarray:
    """Scaled to mean square 1, or silence."""
    return wave / max(float(np.sqrt(np.mean(np.square(wave)))), 1e-9)
