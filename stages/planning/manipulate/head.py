"""The head that handles things: it reads where they are, imagines what the hand does, and follows that plan.

It shares its denoiser with arranging (`imagining`). Here things are seen, not given as numbers: the head reads a scene
from the picture's tokens, under the trunk's features. How to reach a point is learned too (`Inverse`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from devmind.agent.heads import SIGHT_TOKENS, Head, Inlet
from devmind.agent.taps import Tapped
from devmind.algorithms.diffusion import SPREAD_OUT, spread_out
from devmind.errors import ConfigError
from stages.planning.imagining import Imaginer, thinned
from stages.planning.manipulate.demonstrations import (
    CHANNELS,
    COLOURS,
    FORM,
    HAND_SCALE_M,
    HORIZON,
    MIDDLE_M,
    TOLD_BY,
    UNIT_M,
)
from stages.planning.manipulate.following import Manipulating
from stages.planning.manipulate.reading import Reading, in_room

THOUGHTS = 2
"""Number of the trunk's tokens at the beginning of the tap: its features of the body, and its readout."""
BODY = 12
"""Numbers of the nursery's sense `body`; see `devmind.worlds.spaces.BODY`."""
FEATURES = 3 * SPREAD_OUT + 1 + TOLD_BY
"""Numbers of a thing in the condition: its place, the probability that it is there, and which thing it is (one-hot)."""
TRUNK = "trunk"


class Inverse(nn.Module):
    """Inverse dynamics: the command [..., 4] that moves the hand from where it is to where it is to be next."""

    def __init__(self, hidden: int = 64) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(7, hidden), nn.SiLU(), nn.Linear(hidden, 4))

    def forward(self, hand: Tensor, following: Tensor, grip: Tensor) -> Tensor:
        """hand, following [..., 3] in units of plans; grip [..., 1]. Their difference is scaled by ten."""
        return self.layers(torch.cat((hand, 10 * (following - hand), grip), -1))


class ManipulateHead(Head):
    """Taps ("trunk:body", "trunk", "sight", "words", "raw:body"), in this order.

    Args:
        candidates: plans drawn, of which the one whose symbols are surest is followed.
        sizes: width, layers, attention_heads, steps, word_steps of the `Imaginer`.

    Raises:
        ConfigError: it taps something else.
    """

    carries: ClassVar[bool] = True
    grip: ClassVar[int] = 3
    """Index of the grip in a point."""
    silenced: frozenset[str] = frozenset()
    """For rows of exams. TRUNK: its features are taken away."""

    def __init__(self, inlet: Inlet, candidates: int = 2, **sizes: Any) -> None:
        super().__init__(inlet)
        self.n_words = inlet.n_tokens - THOUGHTS - SIGHT_TOKENS - 1
        if self.n_words < 1 or inlet.width < BODY:
            raise ConfigError(
                "A head that handles things taps ('trunk:body', 'trunk', 'sight', 'words', 'raw:body'), in this order."
            )
        self.candidates = candidates
        self.read, self.inverse = Reading(inlet.width, COLOURS), Inverse()
        self.imaginer = Imaginer(before=THOUGHTS, features=FEATURES + inlet.width, form=FORM, **sizes)

    def start_from(self, other: Head) -> None:
        """Take over the weights by which `other` reads places."""
        self.read.start_from(other)

    def forward(self, tapped: Tapped, kept: Mapping[str, Tensor] | None = None) -> Manipulating:
        tokens = (tapped.tokens * tapped.present[..., None]).float()
        parts = [THOUGHTS, SIGHT_TOKENS, self.n_words, 1]
        thought, sight, words, body = tokens.split(parts, -2)
        seen = [part.any(-1) for part in tapped.present.split(parts, -1)]
        body = body.squeeze(-2)[..., :BODY].nan_to_num()
        places = self.read(sight, words)
        scene = self.scene(places, body)
        there = torch.cat((torch.ones_like(places[..., :1, 0]), places[..., -1:, 0], places[..., :-1, 0]), -1) > 0
        present = torch.cat((tapped.present[..., :THOUGHTS], there), -1)
        if TRUNK in self.silenced:
            present[..., :THOUGHTS] = False
        condition = torch.cat((F.pad(thought, (FEATURES, 0)), self.scene_tokens(scene)), -2)
        return Manipulating(self, condition, present, seen[1] & seen[2] & seen[3], places, body, before=kept)

    def scene(self, places: Tensor, body: Tensor) -> Tensor:
        """A room as tokens for the denoiser, [..., TOLD_BY, FEATURES]: the hand, the thing asked for, each colour."""
        middle = torch.as_tensor(MIDDLE_M, dtype=body.dtype, device=body.device)
        hand = (HAND_SCALE_M * body[..., None, 3:6] - middle) / UNIT_M
        room = (in_room(places, body) - middle) / UNIT_M
        spots = torch.cat((hand, room[..., -1:, :], room[..., :-1, :]), -2).clamp(-3, 3)
        sure = torch.cat((torch.ones_like(hand[..., :1]), places[..., -1:, :1], places[..., :-1, :1]), -2).sigmoid()
        which = torch.eye(TOLD_BY, dtype=body.dtype, device=body.device).expand(*spots.shape[:-1], TOLD_BY)
        return torch.cat((spread_out(spots), sure, which), -1)

    def scene_tokens(self, scene: Tensor) -> Tensor:
        """A scene as tokens of the condition. The trunk's features have channels of their own, so a plan cannot point
        at them.
        """
        return F.pad(scene, (0, self.inlet.width))

    def nothing(self, n: int, device: torch.device) -> dict[str, Tensor]:
        """The kept state of N rows without a plan."""
        return {
            "plan": torch.zeros(n, HORIZON, CHANNELS, device=device),
            "symbols": torch.zeros(n, HORIZON, dtype=torch.int64, device=device),
            **{name: torch.zeros(n, dtype=torch.int64, device=device) for name in ("at", "waited", "made")},
            "grip": torch.full((n,), -1.0, device=device),
            "sure": torch.zeros(n, device=device),
        }

    def losses(
        self,
        points: Tensor,
        words: Tensor,
        condition: Tensor,
        present: Tensor,
        generator: torch.Generator | None = None,
    ) -> dict[str, Tensor]:
        """Losses by name, for plans [n, H, 5] and symbols int64 [n, H]."""
        present = thinned(present, THOUGHTS, generator)
        return self.imaginer.losses(condition, points, words, generator, present)
