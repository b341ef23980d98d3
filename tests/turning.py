"""An untrained agent that turns its gaze at once: its heads turn by less than the threshold of the reflex stage."""

from __future__ import annotations

from dataclasses import replace

from devmind.agent.agent import Agent
from devmind.agent.parts import Part, PartSpec, add_all
from stages.reflex import parts


def admit(agent: Agent) -> None:
    """Add the reflex stage's parts, with heads for `look` that turn by any amount."""
    add_all(agent, parts.NAME, [without_threshold(part) for part in parts.PARTS])


def without_threshold(part: Part) -> Part:
    if not isinstance(part, PartSpec) or part.effector != "look":
        return part
    if "options" in part.options:  # a head on the trunk, which wraps another one
        return replace(part, options={**part.options, "options": {**part.options["options"], "threshold": None}})
    return replace(part, options={**part.options, "threshold": None})
