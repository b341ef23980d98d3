"""Directors: they act for an agent in place of its heads, as procedures that people wrote do.

Every tick a director is given what the agent senses and believes, and may replace what its heads answer. Directors come
from plugins (the group `devmind.procedures`); this file knows none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from devmind.moment import Moment

if TYPE_CHECKING:
    from devmind.agent.beliefs import Beliefs
    from devmind.agent.output import Output


@dataclass(frozen=True)
class Told:
    """What a director is told of a tick.

    Attributes:
        moment: as the agent got it.
        labels: names of the classes that beliefs are about.
        beliefs: of the agent's tracker, of one row; None where none are kept up.
        named: where things are that memory knows by a name, in degrees left and up; those in view alone.
        read: `(head) -> Output` [1, ...], what a head of the agent says of this Moment by itself; None where the agent
            has no such head, or nothing was sensed that it reads.
    """

    moment: Moment
    labels: Sequence[str] = ()
    beliefs: Beliefs | None = None
    named: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    read: Callable[[str], Output | None] = lambda head: None


class Director(Protocol):
    """One agent's director; it begins anew with a Moment that is a first one.

    Attributes:
        fault: why it says nothing any more, a sentence; '' when all is well.
    """

    fault: str

    def direct(self, told: Told) -> Mapping[str, np.ndarray]:
        """One tick: by effector what is done in place of what the heads answer; what is left out is theirs."""
        ...

    def doing(self) -> list[str]:
        """What it is about, a line for each intention, for people."""
        ...
