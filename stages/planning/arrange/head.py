"""The head that arranges: it imagines which thing goes where and the hand's path, and follows that plan.

A plan is six key points of the hand and six symbols, denoised together (`imagining`): first the symbols, by masks, then
the points. Of several plans the head follows the one of whose symbols the network is surest. The agent's state keeps
plan and progress, so life, exams and replay follow a plan alike.

Following is not learned: straight to the next key point, then its grip. The head makes a new plan when the last one is
at its end, and when the table contradicts it: a thing lies elsewhere than the plan had it, or the closed hand holds
nothing. A hand that holds something puts it down first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from devmind.agent.heads import Inlet
from devmind.agent.plans import Course
from devmind.agent.rows import Carry, CarrySpec, Leaf
from devmind.agent.taps import Tapped
from devmind.errors import ConfigError, nearest
from devmind.worlds.tabletop import GRASP, PACE, PLACE_RADIUS, PLACES, THINGS
from stages.planning.arrange.demonstrations import HORIZON, LENGTH, NEAR, PATIENCE, THERE
from stages.planning.imagining import ARRANGING, FEATURES, HALF, Form, Imaginer, scene_of, thin_tokens
from stages.planning.keypoints import KeyPoints, PlanHead, plan_spec

RAW = 3
"""Number of raw tokens at the end of the tap: hand, things and places."""
AJAR = 0.1
"""Initial weight of the trunk's features: those of a trunk that was not taught about tables are mostly noise, and
symbols are learned later with them (docs/log.md, 2026-11-25)."""
HYBRID, TRAJECTORY = "masked", "trajectory"
TRUNK, REPLANNING = "trunk", "replanning"
"""What can be silenced."""
ELSEWHERE, IN_HAND = 0.1, 1e-3
"""Distance from where the plan had it beyond which a thing lies elsewhere; distance from a hand that holds something
within which a thing is what it holds."""
CLOSED, HOLDS = 2, 3
"""Indices in the sense `hand`."""


class ArrangeHead(PlanHead):
    """Taps the trunk's features, and `raw:hand`, `raw:things`, `raw:places` last.

    Args:
        candidates: plans drawn, of which one is followed.
        follow: key points of a plan after which a new one is made.
        sizes: width, layers, attention_heads, steps, word_steps of each `Imaginer`.

    The trajectory alone is taught on the same batches. It acts only in exams: the skill's gate compares with it.

    Raises:
        ConfigError: the tap is too small, or the numbers do not fit together.
    """

    form: ClassVar[Form] = ARRANGING
    grip: ClassVar[int] = 2
    carry_spec: CarrySpec = plan_spec(
        ARRANGING, waited=Leaf(dtype=torch.int64), grip=Leaf(), lay=Leaf((THINGS, 2)), due=Leaf(dtype=torch.bool)
    )
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

    def observe(self, tapped: Tapped) -> Arranging:
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
        return Arranging(self, condition, present, here, *table)

    def losses(
        self,
        points: Tensor,
        words: Tensor,
        condition: Tensor,
        present: Tensor,
        generator: torch.Generator | None = None,
    ) -> dict[str, Tensor]:
        """Losses by way and name, for plans [n, H, 3] and symbols int64 [n, L]."""
        present = thin_tokens(present, self.thoughts, generator)
        losses: dict[str, Tensor] = {}
        for way, imaginer in self.ways.items():
            assert isinstance(imaginer, Imaginer)
            losses_of_way = imaginer.losses(condition, points, words, generator, present)
            losses |= {name if way == HYBRID else f"{way}/{name}": value for name, value in losses_of_way.items()}
        return losses


@dataclass
class Arranging(KeyPoints):
    """The command [..., 3], from hand [..., 4], things [..., 4 * THINGS] and places [..., 4 * PLACES].

    Carried are plan [B, H, 3], symbols int64 [B, L]; at int64 [B], the next key point; waited int64 [B], ticks on
    the way to it; made int64 [B], plans so far; grip [B]; sure [B], log probability of the symbols; lay [B, THINGS, 2],
    where the plan has things; due bool [B], a new plan is made as soon as the hand is empty.
    """

    head: ArrangeHead
    hand: Tensor
    things: Tensor
    places: Tensor

    name: ClassVar[str] = "arrange"

    def sensed(self) -> Tensor:
        """The table."""
        return torch.cat((self.hand, self.things), -1)

    def losses(
        self, target: Mapping[str, Tensor], mask: Tensor | None = None, generator: torch.Generator | None = None
    ) -> dict[str, Tensor]:
        """Losses by name, for `points` [..., P, H, 3] and `words` int64 [..., P, L] of P right plans."""
        rows = self.here if mask is None else mask & self.here
        points, words = target["points"][rows], target["words"][rows]
        condition, present = (
            value[rows].repeat_interleave(points.shape[1], 0) for value in (self.condition, self.present)
        )
        return self.head.losses(points.flatten(0, 1), words.flatten(0, 1), condition, present, generator)

    def due(self, before: Carry) -> tuple[Tensor, dict[str, Tensor]]:
        """Where a plan is at its end, or the table contradicts it, as soon as the hand is empty."""
        head, made, holds = self.head, before["made"], self.hand[:, HOLDS] > HALF
        seen = self.things.unflatten(-1, (THINGS, 4))
        spots, there = seen[..., :2], seen[..., 3] > HALF
        near = (spots - self.hand[:, None, :2]).norm(dim=-1) <= IN_HAND
        lay = torch.where((holds[:, None] & near)[..., None], spots, before["lay"])
        elsewhere = (there & ((spots - lay).norm(dim=-1) > ELSEWHERE)).any(-1)
        missed = (self.hand[:, CLOSED] > HALF) & ~holds
        wants = before["due"] | elsewhere | missed | (before["at"] >= head.follow) | (made == 0)
        due = self.here & wants & ~holds
        if REPLANNING in head.silenced:
            due = self.here & (made == 0)
        lay = torch.where((due | (made == 0))[:, None, None], spots, lay)
        return due, {"lay": lay, "due": wants & ~due}

    def plans(self, rows: Tensor, number: Tensor, generator: torch.Generator | None) -> dict[str, Tensor]:
        made = super().plans(rows, number, generator)
        if not made["symbols"].shape[1]:
            made["symbols"] = made["symbols"].new_full((len(rows), LENGTH), THERE)
        return made

    def halfwidths(self, points: np.ndarray) -> np.ndarray:
        """Points as the table is seen from above; a plan's y grows upwards, a picture's downwards."""
        return points[:, :2] * (1.0, -1.0)

    def word(self, symbol: int) -> str:
        """The number of a thing or a place."""
        return "" if symbol == THERE else f"thing {symbol + 1}" if symbol < THINGS else f"place {symbol - THINGS + 1}"

    def now(self, row: int) -> np.ndarray:
        """The hand's sensed place."""
        return self.hand[row, :2].cpu().numpy()

    def belief(self, row: int = 0) -> str:
        """The state of a row's task, in a sentence: that no plan exists, what the agent would have to know first, or
        that it knows all."""
        if not bool(self.here[row]):
            return "I would have to know first what lies on the table: I do not sense it."
        seen = self.things[row].unflatten(-1, (THINGS, 4)).cpu().numpy()
        places = self.places[row].unflatten(-1, (PLACES, 4)).cpu().numpy()
        there, free = seen[:, 3] > HALF, places[:, 3] > HALF
        if not there.any():
            return "there is no thing on the table: nothing is to be sorted."
        for kind in (-1, 1):
            things, room = (int((rows[on, 2] * kind > 0).sum()) for rows, on in ((seen, there), (places, free)))
            if things > room:
                return f"there is no plan that sorts all: {things} things of one kind, and places for {room}."
        if self.carry and int(self.carry["made"][row]):
            left = self.carry["symbols"][row].tolist()[int(self.carry["at"][row]) :]
            gone = [symbol for symbol in left if symbol < THINGS and not there[symbol]]
            if gone:
                return f"I would have to know first where {self.word(gone[0])} is: I do not see it."
        return "I know where all is."

    def course(self, given: Mapping[int, str], row: int = 0) -> Course | None:
        """A plan for the row's table, drawn with these symbols given ("thing 2", "place 1"); None where the head senses
        no table. Of the candidates one of those whose points make most of them.

        Its first point is the open hand as it is; what it holds it puts down first.

        Raises:
            ConfigError: there is no such symbol, or the plan has fewer.
        """
        names = [self.word(symbol) for symbol in range(THERE)]
        length = self.head.imaginer.denoiser.config["length"]
        for at, word in given.items():
            if word not in names:
                raise ConfigError(f"A plan of arranging has no symbol '{word}'{nearest(word, names)}")
            if not 0 <= at < length:
                raise ConfigError(f"A plan of arranging has {length} symbols, so number {at + 1} cannot be given.")
        if not bool(self.here[row]):
            return None
        words = {at: names.index(word) for at, word in given.items()}
        index = torch.tensor([row], device=self.hand.device)
        drawn = self.candidates(index, torch.zeros_like(index), None, words=words)
        missed = [self._missed(points, words, row) for points in drawn.trajectory.float().cpu().numpy()]
        chosen = min(range(len(missed)), key=lambda one: (len(missed[one]), -float(drawn.log_prob[one])))
        start = np.array([*self.now(row), -1.0], np.float32)
        points = np.concatenate((start[None], drawn.trajectory[chosen].float().cpu().numpy()))
        made = tuple(self.word(symbol) for symbol in drawn.symbols[chosen].tolist())
        return Course(points, made, missed[chosen], near=0.0)

    def _missed(self, points: np.ndarray, words: Mapping[int, int], row: int) -> tuple[int, ...]:
        """Numbers of symbols {number: symbol} whose point [H, 3] is not at the thing or place, if that is there."""
        seen = torch.cat((self.things[row], self.places[row])).unflatten(-1, (THINGS + PLACES, 4)).float().cpu().numpy()
        far = {at: np.linalg.norm(points[at, :2] - seen[symbol, :2]) for at, symbol in words.items()}
        return tuple(
            at
            for at, symbol in words.items()
            if seen[symbol, 3] <= HALF or far[at] > (GRASP if symbol < THINGS else PLACE_RADIUS)
        )

    def along(self, course: Course, at: float, row: int = 0) -> tuple[float, np.ndarray]:
        """How many key points are reached, and a share of the way to the next; and the command: straight to the next
        key point, then its grip. A hand that closed on nothing gets no further."""
        hand, done = self.hand[row].float().cpu().numpy(), int(at)
        grip = 1.0 if course.points[done, self.head.grip] > 0 else -1.0
        rest = np.array([0.0, 0.0, grip], np.float32)
        if done == len(course.points) - 1 or (grip > 0 and hand[HOLDS] <= HALF):
            return at, rest
        aim = course.points[done + 1]
        apart = aim[:2] - hand[:2]
        if np.abs(apart).max() <= NEAR:
            rest[2] = 1.0 if aim[self.head.grip] > 0 else -1.0
            return done + 1.0, rest
        ticks = float(np.abs(apart).max() / PACE)
        move = np.clip(apart / PACE, -1, 1)
        return max(at, done + 1 / (1 + ticks)), np.array([*move, grip], np.float32)

    def steer(self) -> Tensor:
        """Straight to the next key point, then its grip; after the last one the hand opens."""
        after, here = self.carry, self.here
        at, last = after["at"], after["plan"].shape[1] - 1
        going = here & (at < self.head.follow)
        aim = after["plan"][torch.arange(len(at), device=at.device), at.clamp_max(last)]
        apart = aim[:, :2] - self.hand[:, :2]
        there = going & ((apart.abs().amax(-1) <= NEAR) | (after["waited"] >= PATIENCE))
        grip = torch.where(there, torch.where(aim[:, 2] > 0, 1.0, -1.0), after["grip"])
        grip = torch.where(here & ~going, -1.0, grip)
        move = torch.where((going & ~there)[:, None], apart / PACE, 0.0)
        waited = torch.where(there, 0, after["waited"] + going.long())
        self.carry |= {"at": at + there.long(), "waited": waited, "grip": grip}
        return torch.cat((move.clamp(-1, 1), grip[:, None]), -1)
