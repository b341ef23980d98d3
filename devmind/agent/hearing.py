"""The ear turns 100 ms of sound from one or two ears into four tokens of 25 ms. Another encoder serves other series."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from devmind.agent.batch import both_ears, is_one_ear
from devmind.agent.encoders import Encoded, Encoder, mlp
from devmind.agent.features import interaural_lags, level_difference, log_mel
from devmind.errors import MomentError
from devmind.moment import TICK_SAMPLES

_TOKENS, _MELS, _LAG, _N_FFT = 4, 64, 12, 512
_FRAMES = 2 * _TOKENS
_CHUNK = TICK_SAMPLES // _TOKENS
_HOP = TICK_SAMPLES // _FRAMES


class SoundEncoder(Encoder):
    """Encodes the log-mel of each ear (two frames a token), and cross-correlation and level difference of the ears.

    The level difference alone does not distinguish left and right well enough; the lags do. Sound of one ear is used
    for both, with a flag. Of longer sound the last 100 ms are used; shorter sound is padded at its beginning. `maps`
    has `hidden` (2 width, 1 x 4), from which the tokens are computed: memory uses it, since it keeps more of a voice.
    It is not among `map_channels`, which dense heads take for pictures.
    """

    sense_dims = 2
    counts_ears: ClassVar[bool] = True

    def __init__(self, width: int) -> None:
        super().__init__(width, n_tokens=_TOKENS)
        n_features = 2 * 2 * _MELS + (2 * _LAG + 1) + 2
        self.net = mlp(n_features, 2 * width, width)

    def encode(self, x: Tensor, previous: Tensor | None, previous_present: Tensor | None) -> Encoded:
        if x.shape[1] not in (1, 2):
            raise MomentError(f"Sense 'sound' must have one or two ears; got {x.shape[1]}.")
        sound = F.pad(both_ears(x.float()), (max(0, TICK_SAMPLES - x.shape[-1]), 0))[..., -TICK_SAMPLES:]
        first, bend, last = self.net
        hidden = bend(first(self.features(sound.expand(-1, 2, -1), ~is_one_ear(x))))
        tokens = last(hidden)
        return Encoded(tokens, self.all_present(tokens), {"hidden": hidden.transpose(1, 2)[:, :, None]})

    @staticmethod
    def features(sound: Tensor, stereo: Tensor) -> Tensor:
        """Features of each 25 ms of sound [N, 2, 1600], float32 [N, 4, 283]; `stereo` bool [N]: it is of two ears."""
        n = sound.shape[0]
        mel = log_mel(sound, _N_FFT, _HOP, _MELS)[:, :, :_FRAMES]
        mel = mel.reshape(n, 2, _TOKENS, 2 * _MELS).transpose(1, 2).flatten(2)
        left, right = sound.reshape(n, 2, _TOKENS, _CHUNK).unbind(1)
        level = level_difference(left, right)
        flag = stereo[:, None].to(level.dtype).expand_as(level)
        return torch.cat((mel, interaural_lags(left, right, _LAG), torch.stack((level, flag), -1)), -1)


class SeriesEncoder(Encoder):
    """Encodes any series [C, S] as four tokens: strided convolution, mean over each quarter, projection."""

    sense_dims = 2

    def __init__(self, width: int, channels: int) -> None:
        super().__init__(width, n_tokens=_TOKENS)
        self.convolution = nn.Conv1d(channels, width, 9, stride=4, padding=4)
        self.project = nn.Linear(width, width)

    def encode(self, x: Tensor, previous: Tensor | None, previous_present: Tensor | None) -> Encoded:
        features = F.adaptive_avg_pool1d(F.gelu(self.convolution(x.float())), _TOKENS)
        tokens = self.project(features.transpose(1, 2))
        return Encoded(tokens, self.all_present(tokens))
