"""A head for action values with its encoder, as a module that Q-learning can copy."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from devmind.acting import Senses
from devmind.agent.agent import Agent
from devmind.agent.encoders import Encoder
from devmind.agent.taps import Perceived
from devmind.errors import ConfigError


class HeadValues(nn.Module):
    """The `ValueNetwork` of a head that taps one sense, encoded or raw; it has weights of its own.

    Raises:
        ConfigError: the head taps the trunk, or several senses.
    """

    def __init__(self, agent: Agent, head: str, effector: str) -> None:
        super().__init__()
        self.effector, self.tap = effector, agent.tap_of(head)
        if self.tap.on_trunk or len(self.tap.parts) != 1:
            raise ConfigError(f"Q-learning acts by a head that taps one sense; '{head}' taps '{self.tap}'.")
        [self.sense] = *self.tap.senses, *self.tap.raw
        self.head = agent.head(head)
        self.encoder: Encoder | None = agent.encoder(self.sense) if self.tap.encoded else None

    def read(self, senses: Senses) -> Tensor:
        """The sense itself, [N, ...]."""
        return torch.from_numpy(np.asarray(senses[self.sense]))

    def forward(self, observation: Tensor) -> Tensor:
        """Quantiles [B, A, K]."""
        observation = observation.to(next(self.head.parameters()).device)
        if self.encoder is None:
            perceived = Perceived({}, {self.sense: (observation, None)})
        else:
            perceived = Perceived({self.sense: self.encoder(observation)})
        tapped = self.tap.read(perceived)
        assert tapped is not None
        quantiles: Tensor = self.head(tapped).quantiles
        return quantiles
