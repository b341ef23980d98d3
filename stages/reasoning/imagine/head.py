"""The head of the learned model: representation, dynamics, and policy and value, as in MuZero, but small.

MuZero is Schrittwieser et al. 2020, "Mastering Atari, Go, chess and shogi by planning with a learned model". `forward`
is the representation of what the head taps, `imagine` the dynamics; both return policy and value. Latents are
normalised, so a latent many steps ahead stays in the range of observed ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from devmind.agent.heads import Inlet, Reader, ReaderHead
from devmind.agent.output import Categorical, Output
from devmind.agent.taps import Tapped


@dataclass
class Imagined(Output):
    """A latent state: `latent` [..., L], the policy's `logits` [..., n] and the `value` [...]."""

    latent: Tensor
    logits: Tensor
    value: Tensor

    @property
    def policy(self) -> Categorical:
        """The policy of the network alone."""
        return Categorical(self.logits)

    def loss(self, target: Tensor, mask: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        """Cross-entropy of the policy against actions [...] or weights [..., n]; the lesson has the other losses."""
        return self.policy.loss(target, mask)

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """An action drawn from the policy."""
        return self.policy.sample(generator)

    def mode(self) -> Tensor:
        """The likeliest action."""
        return self.policy.mode()

    def numbers(self) -> Tensor:
        """The policy's logits."""
        return self.logits

    def with_numbers(self, numbers: Tensor) -> Self:
        """The same state with other logits."""
        return replace(self, logits=numbers)


class ImagineHead(ReaderHead):
    """Encodes an observation into a latent, and predicts further latents from there.

    Args:
        classes: actions.
        latent: numbers of a latent; hidden: width of every hidden layer.
    """

    def __init__(self, inlet: Inlet, classes: int, latent: int = 64, hidden: int = 128) -> None:
        super().__init__(inlet)
        self.classes = classes
        self.read = Reader(inlet, latent, hidden, 1, "gelu", 1.0)
        self.ahead = nn.Sequential(
            nn.Linear(latent + classes, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU()
        )  # fmt: skip
        self.moved, self.earned = nn.Linear(hidden, latent), nn.Linear(hidden, 1)
        last_layer = nn.Linear(hidden, classes + 1)
        self.judge = nn.Sequential(nn.Linear(latent, hidden), nn.GELU(), last_layer)
        for last in (self.earned, last_layer):
            # Small initial rewards, values and preferences, but not zero: the loss has to reach the latent.
            nn.init.orthogonal_(last.weight, 0.1)
            nn.init.zeros_(last.bias)

    def light(self, part: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
        """The same with a third of the hidden numbers; a model of what comes is no linear map."""
        return part, {**options, "hidden": 48}

    def forward(self, tapped: Tapped) -> Imagined:
        return self.predict(F.layer_norm(read := self.read(tapped), read.shape[-1:]))

    def predict(self, latent: Tensor) -> Imagined:
        """Policy and value of a latent [..., L]."""
        outputs = self.judge(latent)
        return Imagined(latent, outputs[..., :-1], outputs[..., -1])

    def imagine(self, latent: Tensor, action: Tensor) -> tuple[Imagined, Tensor]:
        """The latent state after an action int64 [...] in a latent [..., L], and the reward [...] on the way."""
        acted = F.one_hot(action, self.classes).to(latent.dtype)
        hidden = self.ahead(torch.cat((latent, acted), -1))
        reached = latent + self.moved(hidden)
        return self.predict(F.layer_norm(reached, reached.shape[-1:])), self.earned(hidden)[..., 0]
