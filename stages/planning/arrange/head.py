"""The head that arranges: it imagines which thing goes where and the hand's path, and follows that plan.

A plan is six key points of the hand and six symbols, denoised together (`imagining`): first the symbols, by masks, then
the points. Of several plans the head follows the one of whose symbols the network is surest. The agent's state keeps
plan and progress, so life, exams and replay follow a plan alike; see `following`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from devmind.agent.heads import Head, Inlet
from devmind.agent.taps import Tapped
from devmind.errors import ConfigError
from devmind.worlds.tabletop import PLACES, THINGS
from stages.planning.arrange.demonstrations import CHANNELS, HORIZON, LENGTH
from stages.planning.arrange.following import TRUNK, Arranging
from stages.planning.imagining import FEATURES, Imaginer, scene_of, thinned

RAW = 3
"""Number of raw tokens at the end of the tap: hand, things and places."""
AJAR = 0.1
"""Initial weight of the trunk's features: those of a trunk that was not taught about tables are mostly noise, and
symbols are learned later with them (docs/log.md, 2026-11-25)."""
HYBRID, TRAJECTORY = "masked", "trajectory"


class ArrangeHead(Head):
    """Taps the trunk's features, and `raw:hand`, `raw:things`, `raw:places` last.

    Args:
        candidates: plans drawn, of which one is followed.
        follow: key points of a plan after which a new one is made.
        sizes: width, layers, attention_heads, steps, word_steps of each `Imaginer`.

    The trajectory alone is taught on the same batches. It acts only in exams: the skill's gate compares with it.

    Raises:
        ConfigError: the tap is too small, or the numbers do not fit together.
    """

    carries: ClassVar[bool] = True
    grip: ClassVar[int] = 2
    """Index of the grip in a point."""
    silenced: frozenset[str] = frozenset()
    """For rows and floors of exams. TRUNK: its features are taken away. REPLANNING: only the first plan is made."""

    def __init__(self, inlet: Inlet, candidates: int = 4, follow: int = HORIZON, **sizes: Any) -> None:
        super().__init__(inlet)
        if inlet.n_tokens <= RAW or inlet.width < 4 * max(THINGS, PLACES):
            raise ConfigError(
                "A head that arranges taps the trunk, and 'raw:hand', 'raw:things' and 'raw:places' last."
            )
        if candidates < 1 or not 2 <= follow <= HORIZON or follow % 2:
            raise ConfigError(
                f"A head that arranges needs at least one candidate, and follows a plan for 2, 4 or {HORIZON} key "
                f"points, two a thing; got {candidates} and {follow}."
            )
        self.candidates, self.follow, self.thoughts = candidates, follow, inlet.n_tokens - RAW
        sizes |= {"before": self.thoughts, "features": FEATURES + inlet.width}
        self.ways = nn.ModuleDict({way: Imaginer(way == HYBRID, **sizes) for way in (HYBRID, TRAJECTORY)})
        self.way, self.gate = HYBRID, nn.Parameter(torch.tensor(AJAR))

    @property
    def imaginer(self) -> Imaginer:
        """The way of imagining in use: the hybrid, unless an exam asks for a control."""
        found = self.ways[self.way]
        assert isinstance(found, Imaginer)
        return found

    def forward(self, tapped: Tapped, kept: Mapping[str, Tensor] | None = None) -> Arranging:
        tokens = (tapped.tokens * tapped.present[..., None]).float()
        hand, things, places = tokens[..., -RAW:, :].unbind(-2)
        here = tapped.present[..., -RAW:].all(-1)
        scene = scene_of(hand[..., :4], things[..., : 4 * THINGS], places[..., : 4 * PLACES])
        present = torch.cat((tapped.present[..., :-RAW], scene.any(-1) & here[..., None]), -1)
        if TRUNK in self.silenced:
            present[..., : self.thoughts] = False
        # The trunk's features have channels of their own, so a plan cannot point at them.
        thought = F.pad(self.gate * tokens[..., :-RAW, :], (FEATURES, 0))
        condition = torch.cat((thought, F.pad(scene, (0, self.inlet.width))), -2)
        table = hand[..., :4], things[..., : 4 * THINGS], places[..., : 4 * PLACES]
        return Arranging(self, condition, present, here, *table, before=kept)

    def nothing(self, n: int, device: torch.device) -> dict[str, Tensor]:
        """The kept state of N rows without a plan."""
        return {
            "plan": torch.zeros(n, HORIZON, CHANNELS, device=device),
            "symbols": torch.zeros(n, LENGTH, dtype=torch.int64, device=device),
            **{name: torch.zeros(n, dtype=torch.int64, device=device) for name in ("at", "waited", "made")},
            "grip": torch.zeros(n, device=device),
            "sure": torch.zeros(n, device=device),
            "lay": torch.zeros(n, THINGS, 2, device=device),
            "due": torch.zeros(n, dtype=torch.bool, device=device),
        }

    def losses(
        self,
        points: Tensor,
        words: Tensor,
        condition: Tensor,
        present: Tensor,
        generator: torch.Generator | None = None,
    ) -> dict[str, Tensor]:
        """Losses by way and name, for plans [n, H, 3] and symbols int64 [n, L]."""
        present = thinned(present, self.thoughts, generator)
        losses: dict[str, Tensor] = {}
        for way, imaginer in self.ways.items():
            assert isinstance(imaginer, Imaginer)
            losses_of_way = imaginer.losses(condition, points, words, generator, present)
            losses |= {name if way == HYBRID else f"{way}/{name}": value for name, value in losses_of_way.items()}
        return losses
