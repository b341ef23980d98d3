"""A small formant synthesiser for the caregiver's few words, used if espeak-ng is not installed.

A source (pulses of the glottis, or noise) passes through three resonators in a row (Klatt 1980, JASA 67, the cascade
branch, much reduced). It is understood, but not pretty. A voice is a few numbers: pitch, length of the vocal tract,
breath.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.signal import lfilter

from devmind.moment import SOUND_RATE_HZ

FRAME = 80
"""Samples of 5 ms, through which a resonator stays as it is."""
PAUSE = "_"
SOUNDS: dict[str, tuple[tuple[int, int, int], float, float, int]] = {
    # three formants in Hz; how much voice, how much noise; milliseconds
    "i": ((280, 2250, 2900), 1.0, 0.0, 120), "I": ((400, 1900, 2550), 1.0, 0.0, 80),
    "e": ((550, 1770, 2490), 1.0, 0.0, 100), "A": ((690, 1660, 2490), 1.0, 0.0, 130),
    "a": ((710, 1100, 2540), 1.0, 0.0, 120), "V": ((620, 1220, 2550), 1.0, 0.0, 90),
    "o": ((540, 900, 2400), 1.0, 0.0, 130), "O": ((590, 880, 2540), 1.0, 0.0, 140),
    "u": ((310, 900, 2250), 1.0, 0.0, 120), "@": ((500, 1400, 2300), 0.8, 0.0, 60),
    "3": ((470, 1270, 1600), 1.0, 0.0, 110), "w": ((290, 610, 2150), 0.8, 0.0, 60),
    "r": ((310, 1060, 1380), 0.8, 0.0, 70), "l": ((360, 1050, 2700), 0.8, 0.0, 70),
    "j": ((260, 2100, 3000), 0.8, 0.0, 50), "n": ((280, 1700, 2600), 0.5, 0.0, 75),
    "m": ((270, 1100, 2200), 0.5, 0.0, 75), "v": ((300, 1100, 2100), 0.4, 0.15, 60),
    "z": ((300, 4300, 5200), 0.25, 0.35, 80), "s": ((3800, 4700, 5900), 0.0, 0.5, 110),
    "f": ((1400, 4200, 6800), 0.0, 0.16, 95), "T": ((1500, 5200, 6500), 0.0, 0.16, 90),
    "h": ((500, 1500, 2500), 0.0, 0.2, 50), "t": ((2600, 3900, 5200), 0.0, 0.6, 25),
    "k": ((1500, 1900, 2700), 0.0, 0.6, 30), "p": ((700, 1200, 2200), 0.0, 0.5, 20),
    "b": ((250, 900, 2100), 0.5, 0.1, 25), "d": ((250, 1700, 2600), 0.5, 0.2, 25),
    "g": ((250, 1600, 2100), 0.5, 0.15, 30), "S": ((1900, 2700, 3600), 0.0, 0.5, 105),
    "Z": ((1900, 2700, 3500), 0.3, 0.3, 60), PAUSE: ((500, 1500, 2500), 0.0, 0.0, 45),
}  # fmt: skip
SAID = {
    "zero": "zIro", "one": "wVn", "two": "_tu", "three": "Tri", "four": "fOr", "five": "faIv", "six": "sI_ks",
    "seven": "sev@n", "eight": "eI_t", "nine": "naIn", "red": "red", "green": "_grin", "blue": "_blu",
    "yellow": "jelo", "ball": "_bOl", "balls": "_bOlz", "box": "_ba_ks", "boxes": "_ba_ks@z", "can": "_kAn",
    "cans": "_kAnz", "apple": "A_p@l", "garden": "_gard@n", "window": "wIn_do", "music": "mjuzI_k", "river": "rIv3",
    "button": "_bV_t@n", "paper": "_peI_p3", "cookie": "_kI_ki", "magenta": "m@_dZen_t@", "cyan": "saIAn",
    "orange": "OrIn_dZ", "white": "waI_t", "left": "lef_t", "middle": "mI_d@l", "right": "raI_t", "yes": "jes",
    "no": "nou", "none": "nVn", "unknown": "Vnnoun", "look": "lu_k", "touch": "_tV_tS", "take": "_teI_k",
    "roll": "roul", "find": "faIn_d", "go": "_gou", "key": "_ki", "door": "_dOr", "square": "s_kwer", "grey": "_greI",
    "purple": "_p3_p@l", "pick": "_pI_k", "put": "_pu_t", "open": "ou_p@n", "next": "ne_ks_t", "here": "hIr",
    "see": "si", "what": "wV_t", "where": "wer", "colour": "_kVl3", "is": "Iz", "the": "_d@", "a": "@",
    "there": "_der", "how": "hau", "many": "meni", "are": "ar", "this": "_dIs", "that": "_dA_t", "it": "I_t",
    "cup": "_kV_p", "book": "_bu_k", "dog": "_dO_g",
}  # fmt: skip
"""How each word is spoken: `_` is the closure before a plosive."""
BANDS_HZ = (70, 100, 150)


@dataclass(frozen=True)
class Voice:
    """Pitch in Hz; formants by the factor `tract`; `breath`, noise beside the voice; `seed` of that noise."""

    pitch_hz: float
    tract: float
    breath: float
    seed: int

    @staticmethod
    def drawn(unseen: bool, rng: np.random.Generator) -> Voice:
        """One of eight voices of exams, or of sixteen other voices of lessons."""
        number = 2 * int(rng.integers(8)) + 1 if unseen else 2 * int(rng.integers(16))
        share = number / 32
        return Voice(90 + 150 * share, 0.92 + 0.3 * share, 0.01 + 0.02 * (number % 3), int(rng.integers(2**31)))

    @property
    def name(self) -> str:
        """By what it is."""
        return f"{self.pitch_hz:.0f} Hz, {self.tract:.2f}"


def speak(text: str, voice: Voice, speed: float = 1.0) -> np.ndarray:
    """Sound float32 [S] at 16 kHz; `speed` 1 is about 170 words a minute. KeyError of a word it cannot say."""
    tracks = _tracks("_".join(SAID[word] for word in text.split()), round(speed, 2))
    formants, voiced, noisy = tracks[:, :3] * voice.tract, tracks[:, 3], tracks[:, 4]
    n = len(tracks) * FRAME
    rng = np.random.Generator(np.random.PCG64(voice.seed))
    falling = np.linspace(1.08, 0.88, n)  # as in a statement
    phase = np.cumsum(voice.pitch_hz * falling / SOUND_RATE_HZ)
    pulses = lfilter([1.0], [1.0, -0.9], (np.diff(np.floor(phase), prepend=0.0) > 0).astype(float)) - 0.05
    breath = rng.standard_normal(n)
    source = np.repeat(voiced, FRAME) * (pulses + voice.breath * breath) + np.repeat(noisy, FRAME) * 0.25 * breath
    for number, band_hz in enumerate(BANDS_HZ):
        source = _resonated(source, formants[:, number].clip(150, 7200), band_hz * (1 + noisy * 4))
    return source.astype(np.float32)


@lru_cache(maxsize=512)
def _tracks(sounds: str, speed: float) -> np.ndarray:
    """Formants in Hz, voice and noise of every frame [F, 5], which glide from one sound to the next."""
    rows = []
    for sound in sounds:
        where, voiced, noisy, lasts_ms = SOUNDS[sound]
        rows += [[*where, voiced, noisy]] * max(2, round(lasts_ms / 5 / speed))
    tracks, glide = np.array(rows, float), np.hanning(7)[1:-1] / np.hanning(7)[1:-1].sum()
    padded = np.pad(tracks, ((2, 2), (0, 0)), mode="edge")
    return np.stack([np.convolve(padded[:, k], glide, "valid") for k in range(5)], 1)


def _resonated(source: np.ndarray, centre_hz: np.ndarray, band_hz: np.ndarray) -> np.ndarray:
    """Through one resonator whose middle and width change from frame to frame."""
    radius = np.exp(-np.pi * band_hz / SOUND_RATE_HZ)
    back = 2 * radius * np.cos(2 * np.pi * centre_hz / SOUND_RATE_HZ)
    return np.asarray(_filtered()(source, back, -(radius**2)))


@lru_cache(maxsize=1)
def _filtered() -> Any:
    """y[n] = (1 - b - c) x[n] + b y[n - 1] + c y[n - 2], b and c of each frame; compiled when it is first needed."""
    from numba import njit

    @njit
    def run(source: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        out = np.empty_like(source)
        last, before = 0.0, 0.0
        for n in range(len(source)):
            at = n // FRAME
            out[n] = (1 - b[at] - c[at]) * source[n] + b[at] * last + c[at] * before
            last, before = out[n], last
        return out

    return run
