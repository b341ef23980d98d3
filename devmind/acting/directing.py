"""Directors act for an agent in place of its heads; procedures that people wrote are an example.

In every tick a director gets what the agent senses and believes, and may replace the answers of its heads. Directors
come from plugins (the group `devmind.procedures`); this file knows none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from devmind.moment import Moment

if TYPE_CHECKING:
    from devmind.agent.output import Output
    from devmind.agent.tracker import Beliefs


@dataclass(frozen=True)
class Observation:
    """What a director gets in one tick.

    Attributes:
        moment: the Moment that the agent gets.
        labels: names of the classes of beliefs.
        beliefs: those of the agent's tracker, one row; None if it has none.
        named: directions of things in view that memory knows by name, in degrees left and up.
        read: `(head) -> Output` [1, ...], the output of a head of the agent for this Moment; None if the agent has no
            such head, or if nothing that it taps was sensed.
    """

    moment: Moment
    labels: Sequence[str] = ()
    beliefs: Beliefs | None = None
    named: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    read: Callable[[str], Output | None] = lambda head: None


class Director(Protocol):
    """The director of one agent; it starts again at a Moment that is `first`.

    Attributes:
        fault: a sentence that says why it has stopped; '' if it has not.
    """

    fault: str

    def direct(self, observation: Observation) -> Mapping[str, np.ndarray]:
        """One tick: actions by effector that replace the heads' answers; heads answer for other effectors."""
        ...

    def doing(self) -> list[str]:
        """Its present intentions in words, one line each."""
        ...
