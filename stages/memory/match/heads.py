"""The head that compares what is sensed with what the trunk holds."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from devmind.agent.heads import Head, Inlet
from devmind.agent.output import Categorical, Output
from devmind.agent.taps import Tapped


class MatchHead(Head):
    """Whether what is sensed is what the trunk holds: `Categorical` [..., 2], another or the same.

    Taps (senses, "trunk"): the mean of the senses' tokens and the readout, each through a linear map; the cosine of the
    two decides. So the trunk has to hold what was sensed earlier, but need not compare.
    """

    lighter = ()
    reads_senses = True

    def __init__(self, inlet: Inlet) -> None:
        super().__init__(inlet)
        self.sensed, self.held = nn.Linear(inlet.width, inlet.width), nn.Linear(inlet.width, inlet.width)
        self.gain, self.bias = nn.Parameter(torch.tensor(10.0)), nn.Parameter(torch.tensor(-5.0))

    def forward(self, tapped: Tapped) -> Categorical:
        tokens, readout = tapped.tokens[..., :-1, :], tapped.tokens[..., -1, :]
        here = tapped.present[..., :-1, None]
        mean = (tokens * here).sum(-2) / here.sum(-2).clamp_min(1)
        same = F.cosine_similarity(self.sensed(mean), self.held(readout), dim=-1) * self.gain + self.bias
        return Categorical(torch.stack((torch.zeros_like(same), same), -1))


def log_odds(output: Output) -> Tensor:
    """The log-odds [...] by a `MatchHead` that what is sensed is what the trunk holds."""
    assert isinstance(output, Categorical)
    return output.logits[..., 1] - output.logits[..., 0]
