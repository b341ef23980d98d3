"""From log-mel back to sound: magnitudes by the pseudo-inverse of the mel filters, phases by fast Griffin-Lim."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional as F

from devmind.agent.features import mel_filterbank
from devmind.moment import SOUND_RATE_HZ
from stages.voice.ear import HOP, MELS, N_FFT

ROUNDS = 24


@lru_cache(maxsize=1)
def _back() -> Tensor:
    """The pseudo-inverse of the mel filters, [64, 257]."""
    with torch.inference_mode(False):
        return torch.linalg.pinv(torch.from_numpy(mel_filterbank(SOUND_RATE_HZ, N_FFT, MELS))).mT.contiguous()


def magnitudes(mel: Tensor) -> Tensor:
    """Magnitudes [N, 257, F] of log-mel [N, F, 64]."""
    power = (10.0 ** (2.0 * mel - 2.0) - 1e-6).clamp_min(0.0)
    return (power @ _back().to(power.device)).clamp_min(0.0).sqrt().mT


def sound_of(mel: Tensor) -> Tensor:
    """Sound float32 [N, 200 F] at 16 kHz of log-mel [N, F, 64] (Perraudin et al. 2013, WASPAA: fast Griffin-Lim).

    It begins with phases of zero in every row, so equal frames give equal sound; random ones would differ by the row.
    """
    import librosa  # takes seconds, and none of this is on a tick's path

    wanted = magnitudes(F.pad(mel, (0, 0, 0, 1), mode="replicate").float()).detach().cpu().numpy()
    sound = librosa.griffinlim(wanted, n_iter=ROUNDS, hop_length=HOP, n_fft=N_FFT, length=HOP * mel.shape[1], init=None)
    return torch.from_numpy(sound).to(mel.device)
