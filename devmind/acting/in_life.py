"""Notes whether a live loop could hold an exam, from every Actor that acts in the exam's rollouts.

A live loop can replace an Actor that acts as agents do live. A mailbox then passes any sense in and any action out. If
a camera could picture the world, and a room has the effectors (`EFFECTORS`), senses are rendered as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from devmind.acting.actor import Actor
from devmind.acting.rollout import Policy, acting_through, current_replacement

EFFECTORS = ("look", "move", "say", "utter")
"""The effectors that an agent may answer for in a room."""
SINGLE = "its exam asks heads about single Moments, or runs the agent inside another policy"


def why_not_in_life(actor: Actor) -> str:
    """Why a live loop cannot act in place of `actor`; '' if it can."""
    alone = actor.trunk and not actor.beliefs and actor.agent.tracker is not None
    own = alone or not actor.short_term or actor.recall is not None or actor.generator is not None
    return "its agent acts under a condition of the exam's own" if own else ""


def why_no_camera(actor: Actor, world: Any) -> str:
    """Why a camera's room cannot replace `world`; '' if it can."""
    from devmind.worlds.nursery import NurseryRules

    if lacks := sorted(set(actor.effectors or actor.agent.effectors) - set(EFFECTORS)):
        return f"a camera's room has no effector '{lacks[0]}'"
    return "" if isinstance(getattr(world, "rules", None), NurseryRules) else "its world cannot be pictured by a camera"


@dataclass
class InLife:
    """What was noted of one exam.

    Attributes:
        mailbox, rendered: whether any rollout can be run live in that way; unasked, unpictured: why others cannot.

    One such rollout is enough, even if others of the exam have a sense or memory off.
    """

    mailbox: bool = False
    rendered: bool = False
    unasked: dict[str, None] = field(default_factory=dict)
    unpictured: dict[str, None] = field(default_factory=dict)

    def note(self, policy: Policy, world: Any) -> None:
        """Note one rollout that is about to begin."""
        if not isinstance(policy, Actor):
            return
        if why := why_not_in_life(policy):
            self.unasked[why] = None
            return
        self.mailbox = True
        if why := why_no_camera(policy, world):
            self.unpictured[why] = None
        else:
            self.rendered = True

    @property
    def said(self) -> str:
        """In words, as on the console, in the report and on a stage's page."""
        left, unseen = "; ".join(self.unasked), "; ".join(self.unpictured)
        if not self.mailbox:
            return f"not examined in the live loop: {left or SINGLE}"
        said = "asked in life, through the mailbox" + (" and rendered" if self.rendered else "")
        return f"{said}; {'in part ' if self.rendered else ''}not rendered: {unseen}" if unseen else said


@contextmanager
def noting() -> Iterator[InLife]:
    """Note the rollouts of this block; the policies that act in them do not change."""
    noted, outer = InLife(), current_replacement()

    def note(policy: Policy, world: Any) -> Policy:
        noted.note(policy, world)
        return outer(policy, world)

    with acting_through(note):
        yield noted
