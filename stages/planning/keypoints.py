"""Heads that keep a plan of key points and follow it: a plan is drawn for each row in which one is due, and each tick
has one command, however often it is asked for.

A head of a task is a `PlanHead` that reads the scene, and an output that says when a plan is due, and how it is
followed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from hashlib import blake2b
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from devmind.agent.heads import FollowingHead
from devmind.agent.output import Output
from devmind.agent.plans import Plan
from devmind.agent.rows import Carry, Leaf, initial_carry
from devmind.algorithms.diffusion.pipeline import SampledPlans, Watch
from devmind.seeding import torch_generator
from stages.planning.imagining import Form

AFRESH = {"at": 0, "waited": 0, "grip": -1.0}
"""What of the carry begins anew with a plan, where a head has it."""
Chance = tuple[Tensor, Tensor]
"""Noise and luck of plans (`Imaginer.chance`)."""


class PlanHead(FollowingHead):
    """A head of plans of key points.

    Attributes:
        form: sizes of its plans.
        candidates: plans drawn, of which one is followed.
        grip: index of the grip in a point.
    """

    generates, reads_senses = True, True
    lighter: ClassVar[tuple[tuple[str, float], ...] | None] = (("width", 0.25),)
    form: ClassVar[Form]
    grip: ClassVar[int]
    candidates: int


def plan_spec(form: Form, **more: Leaf) -> dict[str, Leaf]:
    """What all heads of key points carry: plan [H, C], symbols int64 [H]; int64: at, the next key point, and made,
    plans so far; sure, log probability of the symbols. And what one of them carries beside."""
    points = {"plan": Leaf((form.horizon, form.channels)), "symbols": Leaf((form.horizon,), torch.int64)}
    return {**points, **dict.fromkeys(("at", "made"), Leaf(dtype=torch.int64)), "sure": Leaf(), **more}


@dataclass
class Followed(Output):
    """The command that follows each Moment's plan; the fields of a kind are the head's readings, tensors [..., *].

    Attributes:
        head: the head, which carries the plan.
        condition, present: tokens that condition plans [..., K, D], and which are present, bool [..., K].
        carry: the head's carry after `advance`; empty before.
        command: the command of each row, once computed.
    """

    head: Any
    condition: Tensor
    present: Tensor
    carry: dict[str, Tensor] = field(default_factory=dict, kw_only=True)
    command: Tensor | None = field(default=None, kw_only=True)

    def readings(self) -> list[Tensor]:
        """What the head read, in the order of the fields."""
        return [getattr(self, one.name) for one in fields(self) if not one.kw_only and one.name != "head"]

    def rows(self, index: Tensor) -> Self:
        """The readings of some rows, without the carry."""
        return type(self)(self.head, *(value[index] for value in self.readings()))

    def and_of(self, other: Self) -> Self:
        """These rows, followed by those of another output of the same head."""
        return type(self)(self.head, *map(torch.cat, zip(self.readings(), other.readings(), strict=True)))

    def flattened(self) -> Self:
        """All Moments of a batch as rows, without the carry."""
        lead = self.present.ndim - 1
        return type(self)(self.head, *(value.flatten(0, lead - 1) for value in self.readings()))

    def losses(
        self, target: Mapping[str, Tensor], mask: Tensor | None = None, generator: torch.Generator | None = None
    ) -> dict[str, Tensor]:
        """Losses by name."""
        raise NotImplementedError

    def loss(self, target: Any, mask: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        """Sum of the losses of `losses`."""
        return torch.stack(list(self.losses(target, mask, generator).values())).sum()

    def advance(self, before: Carry, generator: torch.Generator | None = None) -> Carry:
        """Go on with each row's plan, make a new one where it is due, and compute the command; gives the carry."""
        raise NotImplementedError

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        lead = self.present.shape[:-1]
        flat = self if len(lead) == 1 else self.flattened()
        if flat.command is None:
            flat.advance(initial_carry(self.head.carry_spec, len(flat.present), flat.present.device), generator)
        assert flat.command is not None
        return flat.command.reshape(*lead, -1)

    def mode(self) -> Tensor:
        """The command, with noise determined by what is sensed and the plan's number."""
        return self.sample(None)


@dataclass
class KeyPoints(Followed):
    """The same for plans of key points, by a `PlanHead`, which has the `Imaginer`.

    Attributes:
        here: where the head senses all that it needs, bool [...].
    """

    here: Tensor

    name: ClassVar[str]
    """Names the noise."""

    def sensed(self) -> Tensor:
        """The sensed numbers that determine the noise of a row's plan, [B, N]."""
        raise NotImplementedError

    def advance(self, before: Carry, generator: torch.Generator | None = None) -> Carry:
        due, noticed = self.due(before)
        afresh = {name: torch.where(due, new, before[name]) for name, new in AFRESH.items() if name in before}
        self.carry = {**before, **afresh, **noticed, "made": before["made"] + due.long()}
        rows = due.nonzero().squeeze(-1)
        if len(rows):
            for name, value in self.plans(rows, before["made"][rows], generator).items():
                self.carry[name] = self.carry[name].index_put((rows,), value)
        self.command = self.steer()
        return self.carry

    def due(self, before: Carry) -> tuple[Tensor, dict[str, Tensor]]:
        """Where a new plan is due, bool [B], and what else of the carry the senses change."""
        raise NotImplementedError

    def plans(self, rows: Tensor, number: Tensor, generator: torch.Generator | None) -> dict[str, Tensor]:
        """New plans for these rows by the carry's names; `number` int64 [n], how many each row had before."""
        points, symbols, sure = self.imagined(rows, number, generator)
        return {"plan": points, "symbols": symbols, "sure": sure}

    def steer(self) -> Tensor:
        """The command [B, ...] that follows each row's plan; progress goes into `carry`."""
        raise NotImplementedError

    def halfwidths(self, points: np.ndarray) -> np.ndarray:
        """Where points [K, C] of a plan are drawn, [K, 2]; see `devmind.agent.plans.Plan`."""
        raise NotImplementedError

    def word(self, symbol: int) -> str:
        """A symbol's name in a picture; "" for one without meaning."""
        raise NotImplementedError

    def now(self, row: int) -> np.ndarray:
        """The hand's place as a point [C] of a plan; numbers after the place may be left out."""
        raise NotImplementedError

    def planned(self, row: int = 0) -> Plan | None:
        """The plan in a row's state; None before the first, and where the head senses too little."""
        if not self.carry or not int(self.carry["made"][row]) or not bool(self.here[row]):
            return None
        points, symbols, sure = (self.carry[name][row].cpu().numpy() for name in ("plan", "symbols", "sure"))
        return Plan(
            self.halfwidths(points),
            points[:, self.head.grip] > 0,
            tuple(self.word(symbol) for symbol in symbols.tolist()),
            min(int(self.carry["at"][row]), len(points)),
            self.halfwidths(self.now(row)[None])[0],
            float(np.exp(sure)),
            int(self.carry["made"][row]),
        )

    def imagined(
        self, rows: Tensor, number: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Points [n, H, C], symbols int64 [n, L or 0] and their log probability [n] of new plans for these rows: the
        candidate whose symbols are surest.

        Without a generator, what is sensed and the plan's `number` int64 [n] determine the noise, so rows are
        independent and a replay repeats them.
        """
        drawn = self.candidates(rows, number, generator, surest=True)
        return drawn.trajectory, drawn.symbols, drawn.log_prob

    def candidates(
        self,
        rows: Tensor,
        number: Tensor,
        generator: torch.Generator | None,
        watch: Watch | None = None,
        words: Mapping[int, int] | None = None,
        surest: bool = False,
    ) -> SampledPlans:
        """All plans [n * N, ...], of which `imagined` takes one for each of `rows`; `watch` is called at each step, and
        `words` {number: symbol} are held. With `surest` these alone, [n, ...]."""
        imaginer, n, device = self.head.imaginer, self.head.candidates, rows.device
        chance: Chance
        if generator is not None:
            chance = imaginer.chance(len(rows) * n, generator, device)
        else:
            each = [
                imaginer.chance(n, torch_generator(self.name, int(made), _number_of(row)), device)
                for made, row in zip(number.tolist(), self.sensed()[rows], strict=True)
            ]
            chance = torch.cat([noise for noise, _ in each]), torch.cat([luck for _, luck in each])
        condition, present = (value[rows].repeat_interleave(n, 0) for value in (self.condition, self.present))
        held = {at: rows.new_full((len(condition),), word) for at, word in (words or {}).items()}
        of = n if surest else 1
        drawn: SampledPlans = imaginer.drawn(condition, chance, words=held, watch=watch, present=present, of=of)
        return drawn


def _number_of(row: Tensor) -> int:
    """A number that names what is sensed."""
    numbers = np.ascontiguousarray(row.detach().float().cpu().numpy())
    return int.from_bytes(blake2b(numbers.tobytes(), digest_size=4).digest(), "little")
