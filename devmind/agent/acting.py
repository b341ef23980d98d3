"""Who answers for an effector: arcs are asked first, in order; a row is decided by the first head that fires."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from devmind.agent.output import Output
from devmind.agent.taps import Tapped
from devmind.moment import Action

Ask = Callable[[str], tuple[Tapped, Output] | None]


@dataclass
class StepOutput:
    """What came of one tick of B agents.

    Attributes:
        action: by effector, [B, ...]; rows nobody answered for are zero.
        acted: by effector, whether somebody answered, bool [B].
        outputs: Output by head name, of the heads that were run.
        answered: by effector and head, how many of the B rows that head decided.
        features: the readout's feature [B, D]; None when the trunk was not run.
    """

    action: dict[str, Tensor] = field(default_factory=dict)
    acted: dict[str, Tensor] = field(default_factory=dict)
    outputs: dict[str, Output] = field(default_factory=dict)
    answered: dict[str, dict[str, int]] = field(default_factory=dict)
    features: Tensor | None = None

    def to_action(self, row: int = 0) -> Action:
        """The Action of one agent, as arrays; an effector nobody answered for is not in it."""
        return Action(
            {
                name: np.asarray(value[row].detach().cpu().numpy())
                for name, value in self.action.items()
                if self.acted[name][row]
            }
        )


@dataclass
class Answer:
    """An effector's action [B, ...], the rows that were decided, bool [B], and how many each head decided."""

    action: Tensor
    acted: Tensor
    counts: Mapping[str, int]


def decide(names: Iterable[str], ask: Ask, rows: int, generator: torch.Generator | None) -> Answer | None:
    """Ask heads in order until every row is decided; None when none of them has anything to read.

    An arc cannot fire on a sense that its row lacks. Heads after the last open row are not run.

    Args:
        ask: runs the head of that name: what it read and its output, or None when nothing of its tap was sensed.
        generator: samples the actions; without, the most likely is taken.
    """
    action: Tensor | None = None
    open_rows = torch.ones(rows, dtype=torch.bool)
    counts = dict.fromkeys(names, 0)
    for name in counts:
        reply = ask(name) if bool(open_rows.any()) else None
        if reply is None:
            continue
        tapped, output = reply
        value, fires = output.answer(generator), output.fires()
        takes = open_rows.to(value.device) & tapped.present.any(-1)
        takes = takes if fires is None else takes & fires
        action = torch.zeros_like(value) if action is None else action
        action = torch.where(takes.reshape(rows, *[1] * (value.ndim - 1)), value, action)
        counts[name] = int(takes.sum())
        open_rows = open_rows.to(value.device) & ~takes
    return None if action is None else Answer(action, ~open_rows, counts)
