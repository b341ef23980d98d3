"""The arc of kinds of sounds: convolutions over each Moment's log-mel, pooled over all Moments of the episode.

It reads the ear's map of log-mel and not its tokens, which are taught by words. It learns first, and the trunk learns
from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from devmind.agent.heads import Head, Inlet
from devmind.agent.output import Categorical
from devmind.agent.rows import Carry, Leaf
from devmind.agent.taps import Tapped
from stages.voice.bodies import sums_so_far
from stages.voice.ear import MEL, SCALE, SHIFT

_MOST_WEIGHT = 4.0
_LEAST_VARIANCE = 1e-2
"""Far above the rounding error of a difference of squares."""


def in_pairs(mel: Tensor) -> Tensor:
    """Log-mel [..., 15] in frames of 25 ms, [..., 7]: half the work, and as good for sounds that last."""
    return mel[..., mel.shape[-1] % 2 :].unflatten(-1, (-1, 2)).mean(-1)


class KindsHead(Head):
    """The kind of all that was heard up to each Moment: by weighted mean, spread and maximum, over all Moments of an
    episode, of 384 features each, 48 at each of eight places of the frequency axis.

    The weights are learned (attention pooling, Ilse et al. 2018, ICML), so silence counts little. All results are sums
    or maxima of non-negative numbers, so an episode begins with zeros. A row of a batch is one episode.
    """

    def __init__(self, inlet: Inlet, kinds: int, dropout: float = 0.3) -> None:
        super().__init__(inlet)
        self.look = nn.Sequential(
            nn.Conv2d(1, 12, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(12, 24, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(24, 48, 3, stride=2, padding=1), nn.ReLU(),
        )  # fmt: skip
        # No normalisation, as loudness is informative; this initialisation keeps the scale of rectifiers.
        for layer in self.look:
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        features = 48 * (inlet.map_channels[MEL] // 8)
        self.weigh = nn.Linear(features, 1)
        self.answer = nn.Sequential(nn.Dropout(dropout), nn.Linear(3 * features, kinds))
        self.carry_spec = {"weight": Leaf((1,)), **dict.fromkeys(("mean", "square", "most"), Leaf((features,)))}

    def light(self, part: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
        """A linear choice: the trunk's window holds what was heard."""
        return "head.categorical", {"classes": self.answer[-1].out_features, "depth": 0}

    def forward(self, tapped: Tapped, carry: Carry) -> tuple[Categorical, Carry]:
        mel = in_pairs(tapped.maps[MEL].flatten(-2))
        seen = self.look(((mel + SHIFT) * SCALE).flatten(0, -3)[:, None]).mean(-1)
        features = seen.flatten(1).unflatten(0, mel.shape[:-2])
        here = tapped.present.any(-1)[..., None]
        weight = (_MOST_WEIGHT * torch.tanh(self.weigh(features) / _MOST_WEIGHT)).exp() * here
        sums = {"weight": weight, "mean": weight * features, "square": weight * features.square()}
        most = features * here
        pooled, carry = sums_so_far(sums, most, carry, at_once=features.ndim > 2)
        total = pooled["weight"].clamp_min(1e-6)
        mean = pooled["mean"] / total
        spread = ((pooled["square"] / total - mean.square()).clamp_min(0.0) + _LEAST_VARIANCE).sqrt()
        return Categorical(self.answer(torch.cat((mean, spread, pooled["most"]), -1))), carry
