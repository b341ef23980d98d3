"""What untaught encoders give, as a floor of exams: a ridge on their tokens has learned all that it knows by itself."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.agent.device import place

FLOOR = "ridge on an untaught encoder's tokens"


class Untaught:
    """The encoders of an agent of this configuration as they are before the first lesson."""

    def __init__(self, agent: Agent) -> None:
        self.agent = place(Agent(agent.config), agent.device).eval()

    @torch.no_grad()
    def tokens(self, sense: str, values: Tensor) -> np.ndarray:
        """Tokens of a sense's values [N, *L, ...], float32 [N, *L, K, D]."""
        found = [self.agent.encode_senses({sense: x}, names=(sense,))[sense].tokens for x in values.split(256)]
        return np.asarray(torch.cat(found).float().cpu().numpy())
