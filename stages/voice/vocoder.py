"""From log-mel back to sound: magnitudes by the pseudo-inverse of the mel filters, phases by fast Griffin-Lim."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional as F

from devmind.agent.features import mel_filterbank
from devmind.moment import SOUND_RATE_HZ
from stages.voice.ear import HOP, MELS, N_FFT

ROUNDS = 20
MOMENTUM = 0.99


@lru_cache(maxsize=1)
def _back() -> Tensor:
    """The pseudo-inverse of the mel filters, [64, 257]."""
    with torch.inference_mode(False):
        return torch.linalg.pinv(torch.from_numpy(mel_filterbank(SOUND_RATE_HZ, N_FFT, MELS))).mT.contiguous()


def magnitudes(mel: Tensor) -> Tensor:
    """Magnitudes [N, 257, F] of log-mel [N, F, 64]."""
    power = (10.0 ** (2.0 * mel - 2.0) - 1e-6).clamp_min(0.0)
    return (power @ _back().to(power.device)).clamp_min(0.0).sqrt().mT


def sound_of(mel: Tensor, rounds: int = ROUNDS) -> Tensor:
    """Sound float32 [N, 200 F] at 16 kHz of log-mel [N, F, 64] (Perraudin et al. 2013, WASPAA: fast Griffin-Lim).

    It begins with the same phases at every call and in every row, so equal frames give equal sound.
    """
    mel = F.pad(mel, (0, 0, 0, 1), mode="replicate")
    wanted = magnitudes(mel.float())
    window = torch.hann_window(N_FFT, device=mel.device)
    length = HOP * (mel.shape[1] - 1)
    start = torch.rand(wanted.shape[1:], generator=torch.Generator().manual_seed(0)).to(mel.device)
    spectrum = torch.polar(wanted, 2 * torch.pi * start)
    last = torch.zeros_like(spectrum)
    for _ in range(rounds):
        sound = torch.istft(spectrum, N_FFT, HOP, window=window, length=length)
        rebuilt = torch.stft(sound, N_FFT, HOP, window=window, return_complex=True, pad_mode="constant")
        ahead = rebuilt + MOMENTUM * (rebuilt - last)
        last = rebuilt
        spectrum = wanted * ahead / ahead.abs().clamp_min(1e-8)
    return torch.istft(spectrum, N_FFT, HOP, window=window, length=length)
