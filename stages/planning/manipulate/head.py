"""The head that handles things: it reads where they are, imagines what the hand does, and follows that plan.

It shares its denoiser with arranging (`imagining`). Here things are seen, not given as numbers: the head reads a scene
from the picture's tokens, under the trunk's features (`Reading`).

The hand goes towards the next key point at the plan's pace, by learned inverse dynamics (`Inverse`), and takes the
point's grip there. The head makes a new plan if a task still stands at a plan's end, and if the hand has closed on
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from devmind.agent.heads import SCALE_DEG, SIGHT_TOKENS, Head, Inlet, NamedCells
from devmind.agent.rows import Carry, CarrySpec, Leaf
from devmind.agent.taps import Tapped
from devmind.agent.tracker import project
from devmind.algorithms.diffusion import SPREAD_OUT, spread_out
from devmind.errors import ConfigError
from devmind.sessions.pictures import WIDE_HALF_DEG
from devmind.worlds.nursery.state import COLOUR_NAMES, HAND_HIGH, HAND_LOW, MAX_REACH_M
from stages.planning.imagining import Form, Imaginer, thin_tokens
from stages.planning.keypoints import KeyPoints, PlanHead, plan_spec
from stages.planning.manipulate.demonstrations import (
    COLOURS,
    FORM,
    HAND_SCALE_M,
    HORIZON,
    MIDDLE_M,
    THERE,
    TOLD_BY,
    UNIT_M,
    units,
)

THOUGHTS = 2
"""Number of the trunk's tokens at the beginning of the tap: its features of the body, and its readout."""
BODY = 12
"""Numbers of the nursery's sense `body`; see `devmind.worlds.spaces.BODY`."""
FEATURES = 3 * SPREAD_OUT + 1 + TOLD_BY
"""Numbers of a thing in the condition: its place, the probability that it is there, and which thing it is (one-hot)."""
TRUNK = "trunk"
NEAR_M, PATIENCE = 0.02, 8
"""Distance along each axis at which a point counts as reached, and ticks after which the hand goes on anyway."""
SLOW = 0.5
"""The slow pace, as a share of the fast one."""
BEHIND = 4.0
"""Limit, in halves of the picture's width, for points further out of the picture or behind the eye."""
HAND, HELD = slice(3, 6), 7
"""Indices in the sense `body`."""


class Reading(NamedCells):
    """Where things are: from tokens of sight [..., 16, D] and of words [..., W, D] to places [..., slots + 1, 4], the
    named one last.

    The network is that of reflex's `whereabouts`, so it can begin with the weights of that head.
    """

    def forward(self, sight: Tensor, words: Tensor) -> Tensor:
        return self.tell_named(sight, words)[0]

    def start_from(self, other: Head) -> None:
        """Take over the weights of a head that reads places of colours.

        Raises:
            ConfigError: that head reads something else, or from other tokens.
        """
        try:
            self.load_state_dict(other.places.state_dict())  # type: ignore[union-attr]
        except (AttributeError, RuntimeError) as error:
            raise ConfigError(f"Places can be read only as by a head of the same slots and width: {error}") from error


class Inverse(nn.Module):
    """Inverse dynamics: the command [..., 4] that moves the hand from where it is to where it is to be next."""

    def __init__(self, hidden: int = 64) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(7, hidden), nn.SiLU(), nn.Linear(hidden, 4))

    def forward(self, hand: Tensor, following: Tensor, grip: Tensor) -> Tensor:
        """hand, following [..., 3] in units of plans; grip [..., 1]. Their difference is scaled by ten."""
        return self.layers(torch.cat((hand, 10 * (following - hand), grip), -1))


class ManipulateHead(PlanHead):
    """Taps ("trunk:body", "trunk", "sight", "words", "raw:body"), in this order.

    Args:
        candidates: plans drawn, of which the one whose symbols are surest is followed.
        sizes: width, layers, attention_heads, steps, word_steps of the `Imaginer`.

    Raises:
        ConfigError: it taps something else.
    """

    form: ClassVar[Form] = FORM
    grip: ClassVar[int] = 3
    carry_spec: CarrySpec = plan_spec(FORM, waited=Leaf(dtype=torch.int64), grip=Leaf())
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

    def observe(self, tapped: Tapped) -> Manipulating:
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
        return Manipulating(self, condition, present, seen[1] & seen[2] & seen[3], places, body)

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

    def losses(
        self,
        points: Tensor,
        words: Tensor,
        condition: Tensor,
        present: Tensor,
        generator: torch.Generator | None = None,
    ) -> dict[str, Tensor]:
        """Losses by name, for plans [n, H, 5] and symbols int64 [n, H]."""
        present = thin_tokens(present, THOUGHTS, generator)
        return self.imaginer.losses(condition, points, words, generator, present)


@dataclass
class Manipulating(KeyPoints):
    """The command [..., 4], from `places` as read [..., COLOURS + 1, 4] and `body` [..., 12].

    `here` is where picture, word and body are sensed; without a word the head does not answer.

    Carried are plan [B, H, 5], symbols int64 [B, H]; at int64 [B], the next key point; waited int64 [B], ticks on
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

    def due(self, before: Carry) -> tuple[Tensor, dict[str, Tensor]]:
        """Where a task still stands at a plan's end, and where the hand has closed on nothing."""
        missed = (before["grip"] > 0) & ~(self.body[:, HELD] > 0.5)
        return self.here & ((before["made"] == 0) | missed | (before["at"] >= HORIZON)), {}

    def steer(self) -> Tensor:
        """Towards the next key point, then its grip; after the last one the hand stays, with its grip."""
        after, here, hand = self.carry, self.here, self._hand()
        at, last = after["at"], after["plan"].shape[1] - 1
        going = here & (at <= last)
        aim = after["plan"][torch.arange(len(at), device=at.device), at.clamp_max(last)]
        # A point out of reach is never reached, so the hand goes to the nearest place within reach.
        low, high = (torch.as_tensor(units(end), dtype=hand.dtype, device=hand.device) for end in (HAND_LOW, HAND_HIGH))
        apart = (aim[:, :3].clamp(low, high) - hand) * (UNIT_M / MAX_REACH_M)
        most = apart.abs().amax(-1)
        there = going & ((most <= NEAR_M / MAX_REACH_M) | (after["waited"] >= PATIENCE))
        # Before the first plan, where 0 is carried, the hand is open.
        grip = torch.where(torch.where(there, aim[:, 3], after["grip"]) > 0, 1.0, -1.0)
        pace = torch.where(aim[:, 4] > 0, 1.0, SLOW)
        step = apart * (pace / most.clamp_min(1e-6)).clamp_max(1.0)[:, None]
        step = torch.where((going & ~there)[:, None], step, 0.0) * (MAX_REACH_M / UNIT_M)
        waited = torch.where(there, 0, after["waited"] + going.long())
        self.carry |= {"at": at + there.long(), "waited": waited, "grip": grip}
        return self.head.inverse(hand, hand + step, grip[:, None]).clamp(-1, 1)

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


def reading_losses(places: Tensor, target: Tensor) -> dict[str, Tensor]:
    """Losses by name of places [B, S + 1, 4] against the true ones, of the same shape: nats of presence, and errors."""
    here, error = target[..., 0], (places[..., 1:] - target[..., 1:]).abs().mean(-1)
    return {
        "present": F.binary_cross_entropy_with_logits(places[..., 0], here),
        "where": 4 * (error * here).sum() / here.sum().clamp_min(1),
    }


def in_room(places: Tensor, body: Tensor) -> Tensor:
    """Places [..., K, 4] as x, y, z in the room [..., K, 3] (m), given the gaze in `body` [..., 12]."""
    pan = torch.atan2(body[..., 0], body[..., 1])[..., None]
    tilt = torch.deg2rad(60.0 * body[..., 2])[..., None]
    turn, rise = torch.deg2rad(SCALE_DEG * places[..., 1:3]).unbind(-1)
    far = places[..., 3].clamp(-3.0, 3.0).exp()
    turn, rise = turn + pan, rise + tilt
    return far[..., None] * torch.stack((rise.cos() * turn.cos(), rise.cos() * turn.sin(), rise.sin()), -1)
