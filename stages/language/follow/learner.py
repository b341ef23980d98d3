"""How the head `follow` is taught by itself: each batch goes through the frozen trunk once, and the head learns from
the features of this batch and of those before it, in small parts.

A pass of the trunk over whole episodes with their pages costs twenty times as much as the head, and the head answers
each Moment from the trunk's features alone. So the head takes many steps for each pass. Keeping earlier episodes beside
new ones is what DAgger asks for (Ross et al., 2011, algorithm 3.1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from devmind.agent.agent import Agent
from devmind.agent.batch import map_tensors
from devmind.agent.taps import Tapped
from devmind.curriculum.stage import Rehearsed, Scalars
from devmind.learners.gradient import GradientLearner
from devmind.seeding import torch_generator
from stages.language.parts import BOARD, FOLLOW, TEXT, VIEW
from stages.language.seeing import as_read

TOGETHER = 3
"""Episodes that go through the trunk together. They have about as many tokens each, as shorter ones are padded."""
KEPT = 24
"""The newest batches, which are kept to learn from."""
STEPS, MOMENTS = 12, 96
"""Steps of the head at each update, and the Moments of each."""


class FollowLearner(GradientLearner):
    """Trains the head alone by cross-entropy: `STEPS` steps an update, on Moments of the last `KEPT` batches.

    The scalars are those of the head before it learns from the new batch: its loss, and how often it agrees with the
    bot.
    """

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.recent: list[Any] = []
        self.read: list[tuple[Tapped, Tensor]] = []

    def update(self, batch: Any, step: int) -> Scalars:
        """Add one batch and take `STEPS` steps, on Moments drawn by the step."""
        if isinstance(batch, Rehearsed):
            return super().update(batch, step)
        self.set_rates(step)
        if len(self.read) < len(self.recent):  # after a stop; the trunk is the same, so its features are too
            self.read = [moments_of(self.agent, one) for one in self.recent]
        self.recent, self.read = [*self.recent, batch][-KEPT:], [*self.read, moments_of(self.agent, batch)][-KEPT:]
        head: Any = self.agent.head(FOLLOW)
        tapped, choice = self.read[-1]
        with torch.no_grad():
            output = head.respond(tapped)
            scalars = {"loss": output.loss(choice), "as the bot": (output.mode() == choice).float().mean()}
        order = torch_generator(self.seed, "follow", "order", step)
        for _ in range(STEPS):
            tapped, choice = draw_moments(self.read, MOMENTS, order)
            self.descend(head.respond(tapped).loss(choice))
        return scalars

    def state_dict(self) -> dict[str, Any]:
        """The optimizer's state and the kept batches."""
        return super().state_dict() | {"kept": list(self.recent)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore these; their features are computed anew."""
        super().load_state_dict(state)
        self.recent, self.read = list(state["kept"]), []


def groups(agent: Agent, batch: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The batch's episodes, TOGETHER at a time, sorted by their number of tokens: in one Batch most would be padding.

    Attention costs the square of that number, to which the page contributes as much as the length of the episode.
    """
    read = as_read(agent, batch)
    ticks = read["valid"].sum(1)
    beside = sum(agent.tokens_of(sense) for sense in (BOARD, VIEW) if sense in agent.encoders)
    tokens = (read["senses"][TEXT] >= 0).sum((1, 2)) + beside * ticks
    return [
        map_tensors(read, lambda x, rows=rows: x[rows, : int(ticks[rows].max())])
        for rows in tokens.argsort().split(TOGETHER)
    ]


@torch.no_grad()
def moments_of(agent: Agent, batch: Mapping[str, Any], target: str = "choice") -> tuple[Tapped, Tensor]:
    """What the head reads of each of a batch's M Moments, and their part of `target` [B, T, ...], [M, ...]: by default
    what the bot would do.
    """
    tap = agent.tap_of(FOLLOW)
    parts = list[tuple[Tapped, Tensor]]()
    for part in groups(agent, batch):
        tapped = tap.read(agent.perceive(part, [tap]))
        assert tapped is not None, "every Moment of an episode has a page and a view"
        valid = part["valid"].to(agent.device)
        parts.append((only(tapped, valid), part[target].to(agent.device)[valid]))
    return together(parts)


def only(tapped: Tapped, rows: Tensor) -> Tapped:
    """The Moments `rows`, by number or as a mask."""
    return tapped.map(lambda x: x[rows])


def together(parts: Sequence[tuple[Tapped, Tensor]]) -> tuple[Tapped, Tensor]:
    """Joins Moments of several parts; pages, which come last, are padded to the longest."""
    longest = max(tapped.tokens.shape[1] for tapped, _ in parts)
    tokens = torch.cat([F.pad(tapped.tokens, (0, 0, 0, longest - tapped.tokens.shape[1])) for tapped, _ in parts])
    present = torch.cat([F.pad(tapped.present, (0, longest - tapped.present.shape[1])) for tapped, _ in parts])
    maps = {name: torch.cat([tapped.maps[name] for tapped, _ in parts]) for name in parts[0][0].maps}
    return Tapped(tokens, present, maps), torch.cat([choice for _, choice in parts])


def draw_moments(parts: Sequence[tuple[Tapped, Tensor]], n: int, order: torch.Generator) -> tuple[Tapped, Tensor]:
    """`n` Moments of all parts, drawn uniformly without replacement; all of them if there are fewer."""
    sizes = [len(choice) for _, choice in parts]
    picked = torch.randperm(sum(sizes), generator=order)[:n].sort().values
    taken, start = [], 0
    for (tapped, choice), size in zip(parts, sizes, strict=True):
        rows = (picked[(picked >= start) & (picked < start + size)] - start).to(choice.device)
        if len(rows):
            taken.append((only(tapped, rows), choice[rows]))
        start += size
    return together(taken)
