"""Sound features of every tick, in torch: power mel, log-mel and interaural lags, batched over leading dimensions.

Definitions are librosa's defaults (Slaney mel scale and area norm, periodic Hann window, centred frames padded with
zeros), and a test compares with librosa, which does the same off a tick's path. These functions are about ten times
faster on chunks of 100 ms, and importing librosa takes seconds.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from devmind.moment import SOUND_RATE_HZ

_BREAK_HZ, _BREAK_MEL, _MEL_PER_HZ, _LOG_STEP = 1000.0, 15.0, 3.0 / 200.0, np.log(6.4) / 27.0
SILENCE_DB = -120.0
QUIET_DB = -50.0
"""Below this level nothing is claimed of a sound."""


def hz_to_mel(hz: np.ndarray | float) -> np.ndarray:
    """Slaney's scale: linear below 1 kHz, logarithmic above (Auditory Toolbox, 1998)."""
    hz = np.asarray(hz, dtype=np.float64)
    return np.where(
        hz < _BREAK_HZ, hz * _MEL_PER_HZ, _BREAK_MEL + np.log(np.maximum(hz, _BREAK_HZ) / _BREAK_HZ) / _LOG_STEP
    )


def mel_to_hz(mel: np.ndarray | float) -> np.ndarray:
    """The inverse of `hz_to_mel`."""
    mel = np.asarray(mel, dtype=np.float64)
    return np.where(
        mel < _BREAK_MEL, mel / _MEL_PER_HZ, _BREAK_HZ * np.exp(_LOG_STEP * (np.maximum(mel, _BREAK_MEL) - _BREAK_MEL))
    )


def mel_filterbank(rate_hz: int, n_fft: int, n_mels: int) -> np.ndarray:
    """Triangular filters of equal area from 0 Hz to rate/2, float32 [n_mels, n_fft // 2 + 1]."""
    bins_hz = np.fft.rfftfreq(n_fft, 1.0 / rate_hz)
    edges_hz = mel_to_hz(np.linspace(0.0, hz_to_mel(rate_hz / 2), n_mels + 2))
    width_hz = np.diff(edges_hz)
    rising = (bins_hz - edges_hz[:-2, None]) / width_hz[:-1, None]
    falling = (edges_hz[2:, None] - bins_hz) / width_hz[1:, None]
    triangles = np.maximum(0.0, np.minimum(rising, falling))
    return (triangles * (2.0 / (edges_hz[2:] - edges_hz[:-2]))[:, None]).astype(np.float32)


@lru_cache(maxsize=32)
def _filters(n_fft: int, n_mels: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """The transposed mel filterbank [bins, n_mels] and the window [n_fft], cached by device."""
    # A cached tensor made under inference_mode could never be used in training.
    with torch.inference_mode(False):
        bank = torch.from_numpy(mel_filterbank(SOUND_RATE_HZ, n_fft, n_mels).T.copy()).to(device)
        return bank, torch.hann_window(n_fft, periodic=True, device=device)


def mel_power(sound: Tensor, n_fft: int = 512, hop: int = 160, n_mels: int = 64) -> Tensor:
    """Power mel spectrogram of float32 sound [..., S] as [..., S // hop + 1, n_mels]; frames are centred."""
    bank, window = _filters(n_fft, n_mels, sound.device)
    frames = F.pad(sound, (n_fft // 2, n_fft // 2)).unfold(-1, n_fft, hop)
    spectrum = torch.fft.rfft(frames * window.to(frames.dtype))
    power = spectrum.real.square() + spectrum.imag.square()
    return power @ bank.to(power.dtype)


def log_mel(sound: Tensor, n_fft: int = 512, hop: int = 160, n_mels: int = 64) -> Tensor:
    """Log-mel [..., frames, n_mels], scaled to about -2..2 for a network: (log10(power + 1e-6) + 2) / 2."""
    return ((mel_power(sound, n_fft, hop, n_mels) + 1e-6).log10() + 2.0) / 2.0


def interaural_lags(left: Tensor, right: Tensor, max_lag: int = 12) -> Tensor:
    """Normalised cross-correlation of two ears [..., S] at lags -max_lag..max_lag, [..., 2 max_lag + 1] in -1..1.

    A peak at a positive lag means that the sound reaches the right ear later, so its source is on the left. Twelve
    samples are 0.75 ms at 16 kHz, more than the largest delay between a person's ears.
    """
    shifted = F.pad(right, (max_lag, max_lag)).unfold(-1, left.shape[-1], 1)
    correlation = (shifted @ left.unsqueeze(-1)).squeeze(-1)
    energy = left.square().sum(-1) * right.square().sum(-1)
    return correlation / (energy.sqrt() + 1e-6).unsqueeze(-1)


def level_difference(left: Tensor, right: Tensor) -> Tensor:
    """Log10 ratio of the ears' mean powers over the last dimension, [..., S] to [...]; positive: louder on the left."""
    return ((left.square().mean(-1) + 1e-8) / (right.square().mean(-1) + 1e-8)).log10()


def level_db(sound: np.ndarray) -> float:
    """Root mean square of sound [C, S] in decibels of full scale; -120 for silence."""
    power = float(np.square(sound, dtype=np.float64).mean()) if sound.size else 0.0
    return 10 * math.log10(power) if power > 1e-12 else SILENCE_DB
