"""What the head that handles things does at a tick: it follows a plan, decides when to make another, moves the hand.

The hand goes towards the next key point at the plan's pace, by learned inverse dynamics, and takes the point's grip
there. The head makes a new plan if a task still stands at a plan's end, and if the hand has closed on nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from torch import Tensor

from devmind.agent.tracker import project
from devmind.sessions.pictures import WIDE_HALF_DEG
from devmind.worlds.nursery.state import COLOUR_NAMES, HAND_HIGH, HAND_LOW, MAX_REACH_M
from stages.planning.keypoints import KeyPoints
from stages.planning.manipulate.demonstrations import HAND_SCALE_M, HORIZON, MIDDLE_M, THERE, UNIT_M, units

if TYPE_CHECKING:
    from stages.planning.manipulate.head import ManipulateHead

NEAR_M, PATIENCE = 0.02, 8
"""Distance along each axis at which a point counts as reached, and ticks after which the hand goes on anyway."""
SLOW = 0.5
"""The slow pace, as a share of the fast one."""
BEHIND = 4.0
"""Limit, in halves of the picture's width, for points further out of the picture or behind the eye."""
HAND, HELD = slice(3, 6), 7
"""Indices in the sense `body`."""


@dataclass
class Manipulating(KeyPoints):
    """The command [..., 4], from `places` as read [..., COLOURS + 1, 4] and `body` [..., 12].

    `here` is where picture, word and body are sensed; without a word the head does not answer.

    The kept state: plan [B, H, 5], symbols int64 [B, H]; at int64 [B], the next key point; waited int64 [B], ticks on
    the way to it; made int64 [B], plans so far; grip [B]; sure [B], log probability of the symbols.
    """

    head: ManipulateHead
    places: Tensor
    body: Tensor

    name: ClassVar[str] = "manipulate"

    def sensed(self) -> Tensor:
        """The body."""
        return self.body

    def fires(self) -> Tensor:
        """Whether the head answers, bool [...]: where picture, word and body are sensed."""
        return self.here

    def imagining(self, places: Tensor) -> Manipulating:
        """The same output for things at other `places` than those read."""
        scene = self.head.scene_tokens(self.head.scene(places, self.body))
        condition = torch.cat((self.condition[..., : -scene.shape[-2], :], scene), -2)
        return replace(self, condition=condition, places=places)

    def losses(
        self, target: Mapping[str, Tensor], mask: Tensor | None = None, generator: torch.Generator | None = None
    ) -> dict[str, Tensor]:
        """Losses by name.

        Args:
            target: `points` [..., H, 5] and `words` int64 [..., H] of a right plan; `hand` [..., 3] (in units of
                plans), where the `command` [..., 4] brought the hand within a tick.
        """
        rows = self.here if mask is None else mask & self.here
        points, words = (target[name][rows] for name in ("points", "words"))
        losses = self.head.losses(points, words, self.condition[rows], self.present[rows], generator)
        hand, following, command = self._hand()[rows], target["hand"][rows], target["command"][rows]
        predicted = self.head.inverse(hand, following, command[..., 3:])
        # The mean of nothing would be NaN.
        losses["inverse"] = (
            (predicted - command).square().sum() / command.numel() if command.numel() else predicted.sum()
        )
        return losses

    def prepare(self, generator: torch.Generator | None = None) -> None:
        """Go on with each row's plan, and make a new one where it is due."""
        head, here = self.head, self.here
        before = self.before or head.nothing(len(here), here.device)
        holds = self.body[:, HELD] > 0.5
        missed = (before["grip"] > 0) & ~holds
        due = here & ((before["made"] == 0) | missed | (before["at"] >= HORIZON))
        self.after = {
            **before,
            "made": before["made"] + due.long(),
            **{name: torch.where(due, 0, before[name]) for name in ("at", "waited")},
            "grip": torch.where(due, -1.0, before["grip"]),
        }
        rows = due.nonzero().squeeze(-1)
        if len(rows):
            self._plan(rows, before["made"][rows], generator)
        self._follow()

    def _plan(self, rows: Tensor, number: Tensor, generator: torch.Generator | None) -> None:
        """Make these rows' plans; `number` int64 [n], how many each had before."""
        for name, value in zip(("plan", "symbols", "sure"), self.imagined(rows, number, generator), strict=True):
            self.after[name] = self.after[name].index_put((rows,), value)

    def _follow(self) -> None:
        """Towards the next key point, then its grip; after the last one the hand stays, with its grip."""
        after, here, hand = self.after, self.here, self._hand()
        at, last = after["at"], after["plan"].shape[1] - 1
        going = here & (at <= last)
        aim = after["plan"][torch.arange(len(at), device=at.device), at.clamp_max(last)]
        # A point out of reach is never reached, so the hand goes to the nearest place within reach.
        low, high = (torch.as_tensor(units(end), dtype=hand.dtype, device=hand.device) for end in (HAND_LOW, HAND_HIGH))
        apart = (aim[:, :3].clamp(low, high) - hand) * (UNIT_M / MAX_REACH_M)
        most = apart.abs().amax(-1)
        there = going & ((most <= NEAR_M / MAX_REACH_M) | (after["waited"] >= PATIENCE))
        grip = torch.where(there, torch.where(aim[:, 3] > 0, 1.0, -1.0), after["grip"])
        pace = torch.where(aim[:, 4] > 0, 1.0, SLOW)
        step = apart * (pace / most.clamp_min(1e-6)).clamp_max(1.0)[:, None]
        step = torch.where((going & ~there)[:, None], step, 0.0) * (MAX_REACH_M / UNIT_M)
        self.command = self.head.inverse(hand, hand + step, grip[:, None]).clamp(-1, 1)
        waited = torch.where(there, 0, after["waited"] + going.long())
        self.after |= {"at": at + there.long(), "waited": waited, "grip": grip}

    def halfwidths(self, points: np.ndarray) -> np.ndarray:
        """Points as a camera on the torso that looks straight ahead sees them."""
        return in_picture(points[:, :3] * UNIT_M + MIDDLE_M)

    def word(self, symbol: int) -> str:
        """A colour, or the thing asked for."""
        return "" if symbol == THERE else f"the {COLOUR_NAMES[symbol - 1]} one" if symbol else "what was named"

    def now(self, row: int) -> np.ndarray:
        """The hand's place, by the sense `body`."""
        return self._hand()[row].cpu().numpy()

    def _hand(self) -> Tensor:
        """Where the hand is [..., 3], in units of plans."""
        middle = torch.as_tensor(MIDDLE_M, dtype=self.body.dtype, device=self.body.device)
        return (HAND_SCALE_M * self.body[..., HAND] - middle) / UNIT_M


def in_picture(places_m: np.ndarray) -> np.ndarray:
    """Places in the room [K, 3] as a camera on the torso that looks straight ahead sees them, [K, 2] (`Plan`)."""
    level = np.zeros(1)
    column, line, _ = project(places_m[None], level, level, WIDE_HALF_DEG)
    return np.nan_to_num(np.column_stack((column[0], line[0])), posinf=BEHIND).clip(-BEHIND, BEHIND)
