"""Whether a live loop could hold an exam: noted of every Actor that acts in a rollout while the exam is held.

A live loop can stand in for an Actor that acts as agents do in life: through a mailbox, which holds any sense and
passes on any action. Where a camera could picture the world, and a room has the effectors (`EFFECTORS`), the senses are
rendered as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from devmind.acting.actor import Actor
from devmind.acting.rollout import Policy, acting_through, replaced

EFFECTORS = ("look", "move", "say", "utter")
"""What an agent answers for in a room, whatever the room has besides."""
SINGLE = "its exam puts single Moments to heads, or plays the agent inside a policy of its own"


def unasked(actor: Actor) -> str:
    """Why life cannot act in the place of `actor`; '' when it can."""
    alone = actor.trunk and not actor.beliefs and actor.agent.tracker is not None
    own = alone or not actor.short_term or actor.recall is not None or actor.generator is not None
    return "its agent acts under a condition of the exam's own" if own else ""


def unpictured(actor: Actor, world: Any) -> str:
    """Why a camera's room cannot stand in for `world`; '' when it can."""
    from devmind.worlds.nursery import NurseryRules

    if lacks := sorted(set(actor.effectors or actor.agent.effectors) - set(EFFECTORS)):
        return f"a camera's room has no effector '{lacks[0]}'"
    return "" if isinstance(getattr(world, "rules", None), NurseryRules) else "its world cannot be pictured by a camera"


@dataclass
class InLife:
    """What was noted of one exam.

    Attributes:
        mailbox, rendered: whether any rollout can be lived so; unasked, unpictured: why others cannot.

    What an exam asks beside that under a condition of its own, a sense or the memory off, makes no difference.
    """

    mailbox: bool = False
    rendered: bool = False
    unasked: dict[str, None] = field(default_factory=dict)
    unpictured: dict[str, None] = field(default_factory=dict)

    def note(self, policy: Policy, world: Any) -> None:
        """Take down one rollout that is about to begin."""
        if not isinstance(policy, Actor):
            return
        if why := unasked(policy):
            self.unasked[why] = None
            return
        self.mailbox = True
        if why := unpictured(policy, world):
            self.unpictured[why] = None
        else:
            self.rendered = True

    @property
    def said(self) -> str:
        """In words, the same on the console, in the report and on a stage's page."""
        left, unseen = "; ".join(self.unasked), "; ".join(self.unpictured)
        if not self.mailbox:
            return f"not asked in life: {left or SINGLE}"
        said = "asked in life, through the mailbox" + (" and rendered" if self.rendered else "")
        return f"{said}; {'in part ' if self.rendered else ''}not rendered: {unseen}" if unseen else said


@contextmanager
def noting() -> Iterator[InLife]:
    """What rollouts of this block would be in life; who acts in them stays as it is."""
    noted, outer = InLife(), replaced()

    def note(policy: Policy, world: Any) -> Policy:
        noted.note(policy, world)
        return outer(policy, world)

    with acting_through(note):
        yield noted
