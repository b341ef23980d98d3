"""The choice of the head that answers for an effector: arcs are asked first, and the first head that fires decides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.agent.beliefs import Beliefs
from devmind.agent.encoders import Encoded
from devmind.agent.output import Output
from devmind.agent.parts import Effector
from devmind.agent.taps import Tapped
from devmind.moment import Action

Ask = Callable[[str], tuple[Tapped, Output] | None]


@dataclass
class StepOutput:
    """The result of one tick of B agents.

    Attributes:
        action: by effector, [B, ...]; zero in rows that no head answered for.
        acted: by effector, whether a head answered, bool [B].
        outputs: by head, the Outputs of the heads that were run.
        answered: by effector and head, the number of the B rows that the head decided.
        features: the readout's feature [B, D]; None if the trunk was not run.
        beliefs: about things in and out of sight; None if the tracker was not run.
        recalled: the tokens [B, R, D] that the trunk was given beside the senses: memories, then beliefs.
    """

    action: dict[str, Tensor] = field(default_factory=dict)
    acted: dict[str, Tensor] = field(default_factory=dict)
    outputs: dict[str, Output] = field(default_factory=dict)
    answered: dict[str, dict[str, int]] = field(default_factory=dict)
    features: Tensor | None = None
    beliefs: Beliefs | None = None
    recalled: Encoded | None = None

    def decided(self) -> list[tuple[str, str]]:
        """Each effector with each head that decided for it in one of the rows at least."""
        return [(effector, head) for effector, heads in self.answered.items() for head, count in heads.items() if count]

    def to_action(self, row: int = 0) -> Action:
        """The Action of one agent, as arrays; an effector that no head answered for is not in it."""
        return Action(
            {
                name: np.asarray(value[row].detach().cpu().numpy())
                for name, value in self.action.items()
                if self.acted[name][row]
            }
        )


@dataclass
class Answer:
    """An effector's action [B, ...], the rows that were decided, bool [B], and the number that each head decided."""

    action: Tensor
    acted: Tensor
    counts: Mapping[str, int]


def decide(
    effector: Effector,
    names: Iterable[str],
    ask: Ask,
    rows: int,
    generator: torch.Generator | None,
    carry: dict[str, Any],
) -> Answer | None:
    """Ask heads in order until every row is decided; None if none of them has anything to read.

    An arc cannot fire on a sense that its row lacks. Once every row is decided, the remaining heads are not run. A row
    that is in the middle of a sequence continues it. If a head before the one that gave the sequence fires, the rest is
    dropped.

    Args:
        ask: runs the head of that name and gives what it read and its output, or None if its tap has no token.
        generator: samples the actions; without it the most likely action is taken.
        carry: the state's `carry`; its entry "head.<name>" holds the rest of the sequences: `rest` [B, H - 1, *shape]
            and `left` int64 [B], how many of these actions are still to be carried out.
    """
    action: Tensor | None = None
    open_rows = torch.ones(rows, dtype=torch.bool)
    counts = dict.fromkeys(names, 0)
    for name in counts:
        waiting: Any = carry.pop(f"head.{name}", None)
        if waiting is not None:
            open_rows = open_rows.to(waiting["left"].device)
        follows = open_rows & (waiting["left"] > 0) if waiting is not None else torch.zeros_like(open_rows)
        reply = ask(name) if bool((open_rows & ~follows).any()) else None
        answers = _Sequence(waiting["rest"], waiting["left"]) if waiting is not None else None
        takes = follows
        if reply is not None:
            tapped, output = reply
            value, fires = output.answer(generator), output.fires()
            effector.check(name, output, value)
            asked = open_rows.to(value.device) & ~follows.to(value.device) & tapped.present.any(-1)
            asked = asked if fires is None else asked & fires
            takes = asked | follows.to(value.device)
            answers = _Sequence.of(value, output).among(asked, answers)
        if answers is None or not (reply is not None or bool(takes.any())):
            continue
        now = answers.values[:, 0]
        action = torch.zeros_like(now) if action is None else action
        action = torch.where(takes.reshape(rows, *[1] * (now.ndim - 1)), now, action)
        counts[name] = int(takes.sum())
        open_rows = open_rows.to(now.device) & ~takes
        rest = answers.after(takes)
        if rest is not None:
            carry[f"head.{name}"] = rest
    return None if action is None else Answer(action, ~open_rows, counts)


@dataclass
class _Sequence:
    """Sequences of actions, values [B, H, *shape]; each row carries out the next `left` of them, int64 [B]."""

    values: Tensor
    left: Tensor

    @classmethod
    def of(cls, answer: Tensor, output: Output) -> _Sequence:
        values = answer if output.horizon > 1 else answer[:, None]
        follow = min(output.follow or output.horizon, output.horizon)
        return cls(values, torch.full((len(values),), follow, device=values.device))

    def among(self, rows: Tensor, others: _Sequence | None) -> _Sequence:
        """This sequence in the `rows`, bool [B], and the other one elsewhere."""
        if others is None:
            return self
        length = max(self.values.shape[1], others.values.shape[1])
        own_values, other_values = (_padded(x.values, length) for x in (self, others))
        where = rows.reshape(-1, *[1] * (own_values.ndim - 1))
        return _Sequence(torch.where(where, own_values, other_values), torch.where(rows, self.left, others.left))

    def after(self, takes: Tensor) -> dict[str, Tensor] | None:
        """What is left, [B, H - 1, ...], in the rows that took the first action; None if no row has any left."""
        left = torch.where(takes, self.left - 1, 0)
        return {"rest": self.values[:, 1:], "left": left} if bool((left > 0).any()) else None


def _padded(values: Tensor, length: int) -> Tensor:
    return torch.cat((values, values.new_zeros(len(values), length - values.shape[1], *values.shape[2:])), 1)
