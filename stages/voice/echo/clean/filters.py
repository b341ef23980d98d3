"""Sound through gains of the ear's bands and frames."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional as F

from devmind.agent.features import mel_filterbank
from devmind.moment import SOUND_RATE_HZ
from stages.voice.ear import HOP, MELS, N_FFT

_BEFORE = N_FFT - HOP
_LEAST = 1e-3


def spectrum(sound: Tensor) -> Tensor:
    """Sound [N, 200 F] as complex [N, 257, F]: frame f ends with sample 200 (f + 1), as the ear's frames do."""
    return torch.stft(
        F.pad(sound, (_BEFORE, 0)), N_FFT, HOP, window=_window(sound.device), center=False, return_complex=True
    )


def sound_of_spectrum(spectra: Tensor) -> Tensor:
    """The sound [N, 200 F] whose `spectrum` comes nearest to complex [N, 257, F] (Griffin and Lim 1984, eq. 6)."""
    window, frames = _window(spectra.device), spectra.shape[-1]
    pieces = torch.fft.irfft(spectra, N_FFT, dim=1) * window[:, None]
    weights = (window.square()[:, None]).expand(-1, frames)[None]
    length = HOP * (frames - 1) + N_FFT
    add = lambda x: F.fold(x, (1, length), (1, N_FFT), stride=(1, HOP))[:, 0, 0]  # noqa: E731
    return (add(pieces) / add(weights).clamp_min(_LEAST))[:, _BEFORE:]


def filter_sound(sound: Tensor, gains: Tensor) -> Tensor:
    """Sound [N, 200 F] through gains [N, F, 64] of the ear's bands."""
    return sound_of_spectrum(spectrum(sound) * in_bins(gains))


def in_bins(gains: Tensor) -> Tensor:
    """Gains [N, F, 64] of bands as those of frequencies, [N, 257, F]."""
    return (gains @ _spread(gains.device)).mT


def _window(device: torch.device) -> Tensor:
    return torch.hann_window(N_FFT, device=device)


@lru_cache(maxsize=2)
def _spread(device: torch.device) -> Tensor:
    """The share of each band in each frequency, [64, 257]; the shares of a frequency sum to 1."""
    with torch.inference_mode(False):
        bank = torch.from_numpy(mel_filterbank(SOUND_RATE_HZ, N_FFT, MELS))
        bank = bank / bank.amax(1, keepdim=True).clamp_min(1e-9)
        nearest = torch.zeros_like(bank)
        middle = bank.argmax(1).float()
        for column in range(bank.shape[1]):  # above the highest band, and below the lowest
            nearest[(middle - column).abs().argmin(), column] = 1.0
        bank = torch.where(bank.sum(0) > 1e-3, bank, nearest)
        return (bank / bank.sum(0)).to(device)


def si_sdr_db(sound: Tensor, target: Tensor) -> Tensor:
    """The SI-SDR of `sound` [N, S] for a `target` one (Le Roux et al. 2019, ICASSP), in dB, [N]."""
    sound, target = sound - sound.mean(-1, keepdim=True), target - target.mean(-1, keepdim=True)
    scale = (sound * target).sum(-1, keepdim=True) / target.square().sum(-1, keepdim=True).clamp_min(1e-9)
    aim = scale * target
    return 10 * (aim.square().sum(-1).clamp_min(1e-9) / (sound - aim).square().sum(-1).clamp_min(1e-9)).log10()
