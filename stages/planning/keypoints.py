"""What heads that follow plans of key points share: a plan is drawn for each row in which one is due, and each tick has
one command, however often it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from hashlib import blake2b
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from devmind.agent.output import Output
from devmind.agent.plans import Plan
from devmind.algorithms.diffusion.pipeline import Drawn, Watch
from devmind.seeding import torch_generator

Chance = tuple[Tensor, Tensor]
"""Noise and luck of plans (`Imaginer.chance`)."""


@dataclass
class KeyPoints(Output):
    """The command that follows each Moment's plan.

    Attributes:
        head: has the `Imaginer` and the number of `candidates`.
        condition, present: tokens that condition plans [..., K, D], and which are present, bool [..., K].
        here: where the head senses all that it needs, bool [...].
        before, after: the kept state, old and new (the head's `nothing`).
        command: the command of each row, once computed.
    """

    head: Any
    condition: Tensor
    present: Tensor
    here: Tensor
    before: Mapping[str, Tensor] | None = field(default=None, kw_only=True)
    after: dict[str, Tensor] = field(default_factory=dict, kw_only=True)
    command: Tensor | None = field(default=None, kw_only=True)

    name: ClassVar[str]
    """Names the noise."""

    def sensed(self) -> Tensor:
        """The sensed numbers that determine the noise of a row's plan, [B, N]."""
        raise NotImplementedError

    def prepare(self, generator: torch.Generator | None = None) -> None:
        """Go on with each row's plan or make a new one, and compute the command."""
        raise NotImplementedError

    def losses(
        self, target: Mapping[str, Tensor], mask: Tensor | None = None, generator: torch.Generator | None = None
    ) -> dict[str, Tensor]:
        """Losses by name."""
        raise NotImplementedError

    def loss(self, target: Any, mask: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        """Sum of the losses of `losses`."""
        return torch.stack(list(self.losses(target, mask, generator).values())).sum()

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
        if not self.after or not int(self.after["made"][row]) or not bool(self.here[row]):
            return None
        points, symbols, sure = (self.after[name][row].cpu().numpy() for name in ("plan", "symbols", "sure"))
        return Plan(
            self.halfwidths(points),
            points[:, self.head.grip] > 0,
            tuple(self.word(symbol) for symbol in symbols.tolist()),
            min(int(self.after["at"][row]), len(points)),
            self.halfwidths(self.now(row)[None])[0],
            float(np.exp(sure)),
            int(self.after["made"][row]),
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
    ) -> Drawn:
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
        drawn: Drawn = imaginer.drawn(condition, chance, words=held, watch=watch, present=present, of=of)
        return drawn

    def kept(self) -> dict[str, Tensor]:
        """`after`."""
        return self.after

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        lead = self.here.shape
        flat = self if len(lead) == 1 else self._flattened()
        if flat.command is None:
            flat.prepare(generator)
        assert flat.command is not None
        return flat.command.reshape(*lead, -1)

    def mode(self) -> Tensor:
        """The command, with noise determined by what is sensed and the plan's number."""
        return self.sample(None)

    def _flattened(self) -> Self:
        """All Moments of a batch as rows, without the kept state."""
        read = [getattr(self, one.name) for one in fields(self) if not one.kw_only and one.name != "head"]
        return type(self)(self.head, *(value.flatten(0, self.here.ndim - 1) for value in read))


def _number_of(row: Tensor) -> int:
    """A number that names what is sensed."""
    numbers = np.ascontiguousarray(row.detach().float().cpu().numpy())
    return int.from_bytes(blake2b(numbers.tobytes(), digest_size=4).digest(), "little")
