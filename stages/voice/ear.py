"""The ear for speech: a second, finer encoder of `sound`, for sound of one ear.

The ear of earlier stages tells kinds of sounds and directions, and stays as it is. This one hears a tenth of a second
with the tenth before it, is taught by words, and gives two tokens a Moment. They go through the trunk by themselves, so
nothing that was learned before changes, to the bit, and words are heard with a picture in view as in the dark. The
encoder is absent in Moments of two ears (the nursery's, whose sounds are placed in a room); recordings, the caregiver's
voices and microphones have one.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from devmind.agent.batch import both_ears, is_one_ear
from devmind.agent.encoders import Encoded, Encoder
from devmind.agent.features import log_mel
from devmind.errors import ConfigError, nearest
from devmind.moment import TICK_SAMPLES

TOKENS, MELS, N_FFT, HOP = 2, 64, 512, 200
FRAMES = TICK_SAMPLES // HOP
"""Frames a Moment: 8 of 32 ms, one each 12.5 ms. Each ends where its 12.5 ms end, so none waits for later sound."""
BEFORE = FRAMES - 1
"""Frames of the Moment before. The first is not complete, as it begins before that Moment."""
LEAD = BEFORE - 1
"""The complete ones of these, which are heard."""
SHIFT, SCALE = 1.2, 1.6
"""Added to log-mel, and then multiplied with the sum, before the convolutions: a rough standardisation."""
LOGMEL, MFCC, LOGMEL_2D = "logmel", "mfcc", "logmel2d"
FEATURES = (LOGMEL, MFCC, LOGMEL_2D)
"""Input of the convolutions: log-mel frame by frame, all bands at once; its first 20 cepstral coefficients likewise
(Davis and Mermelstein 1980); or log-mel over bands and time, so that a formant is found wherever a voice has it
(Abdel-Hamid et al. 2014, "Convolutional neural networks for speech recognition").
"""
CEPSTRA = 20
BANDS_LEFT = 5
"""Of 64 bands after three convolutions of width 5 and stride 2: 30, 13, 5."""
MEL = "mel"
"""The map of log-mel [64, 1, 15]: 7 frames of the Moment before, then its own 8."""


class EarEncoder(Encoder):
    """Log-mel of 200 ms through three convolutions to two tokens, one for 50 ms.

    Each token sees 9 frames (132 ms), none later than its own last frame. Of sound longer than a tick the last 100 ms
    are heard; shorter sound is padded in front.

    Args:
        features: one of FEATURES. The map stays log-mel, which other heads read.
        apart: whether the tokens go through the trunk by themselves.
    """

    of = "sound"
    uses_previous = True
    sense_dims: int = 2
    counts_ears: ClassVar[bool] = True
    cepstra: Tensor | None

    def __init__(self, width: int, features: str = LOGMEL, apart: bool = True) -> None:
        super().__init__(width, n_tokens=TOKENS)
        self.apart = apart
        if features not in FEATURES:
            raise ConfigError(f"There are no features '{features}' of speech{nearest(features, FEATURES)}")
        cepstra = None
        if features == MFCC:
            from scipy.fft import dct

            cepstra = torch.from_numpy(dct(np.eye(MELS), norm="ortho")[:, :CEPSTRA].astype(np.float32))
        self.register_buffer("cepstra", cepstra, persistent=False)
        channels = MELS if cepstra is None else CEPSTRA
        self.net = _over_picture(width) if features == LOGMEL_2D else _over_frames(channels, width)
        self.map_channels = {MEL: MELS}

    def encode(self, x: Tensor, previous: Tensor | None, previous_present: Tensor | None) -> Encoded:
        now = _one_ear(x)
        before = torch.zeros_like(now)
        if previous is not None and previous_present is not None:
            before = _one_ear(previous) * previous_present[:, None]
        mel = frames(torch.cat((before, now), -1))
        tokens = self.convolved(mel[:, BEFORE - LEAD :])
        here = self.all_present(tokens) & is_one_ear(x)[:, None]
        return Encoded(tokens, here, {MEL: mel.mT[:, :, None]})

    def convolved(self, mel: Tensor) -> Tensor:
        """Log-mel [N, 6 + 8 T, 64] of T Moments in a row as tokens [N, 2 T, D], not yet normed."""
        scaled = (mel + SHIFT) * SCALE
        return self.net((scaled if self.cepstra is None else scaled @ self.cepstra).mT).mT

    def tokens_of(self, mel: Tensor) -> Tensor:
        """As `forward` for T Moments at once: log-mel [N, 6 + 8 T, 64] to tokens [N, T, 2, D]."""
        return self.norm(self.convolved(mel)).unflatten(1, (-1, TOKENS))


def _over_frames(channels: int, width: int) -> nn.Sequential:
    """[N, channels, 6 + 8 T] to [N, width, 2 T]."""
    return nn.Sequential(
        nn.Conv1d(channels, width, 3), nn.GELU(),
        nn.Conv1d(width, width, 3, stride=2), nn.GELU(),
        nn.Conv1d(width, width, 3, stride=2),
    )  # fmt: skip


def _over_picture(width: int) -> nn.Sequential:
    """Log-mel [N, 64, 6 + 8 T] to [N, width, 2 T]: over time as `_over_frames`, over bands by 5 with steps of 2."""
    first, second, third = (max(4, width * share // 16) for share in (3, 6, 8))
    return nn.Sequential(
        nn.Unflatten(1, (1, MELS)),
        nn.Conv2d(1, first, (5, 3), (2, 1)), nn.GELU(),
        nn.Conv2d(first, second, (5, 3), (2, 2)), nn.GELU(),
        nn.Conv2d(second, third, (5, 3), (2, 2)), nn.GELU(),
        nn.Flatten(1, 2),
        nn.Conv1d(BANDS_LEFT * third, width, 1),
    )  # fmt: skip


def frames(sound: Tensor) -> Tensor:
    """Log-mel of the whole frames in sound [N, S], S a multiple of HOP: [N, S // HOP - 1, 64].

    Frame j is 512 samples long and ends with sample 200 (j + 2); the first is filled up with silence.
    """
    # With this padding frame k ends with sample 200 k; the first two are not needed.
    return log_mel(F.pad(sound, (N_FFT // 2, 0)), N_FFT, HOP, MELS)[:, 2:-1]


def add_log_mels(mel: Tensor, other: Tensor) -> Tensor:
    """Log-mel of two sounds at once: powers add up, and log-mel is two decades of power a unit."""
    natural = 2.0 * math.log(10.0)
    return torch.logaddexp(mel * natural, other * natural) / natural


def _one_ear(sound: Tensor) -> Tensor:
    """Sound [N, C, S] as one tick of one ear, [N, 1600]."""
    mono = both_ears(sound.float()).mean(1)
    return F.pad(mono, (max(0, TICK_SAMPLES - mono.shape[-1]), 0))[:, -TICK_SAMPLES:]
