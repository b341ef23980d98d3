"""Blocks of episodes that a lesson plays once and asks about in many of its steps."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from devmind.agent.agent import Agent

Block = TypeVar("Block")
_KEPT: WeakKeyDictionary[Agent, dict[str, tuple[Hashable, dict[int, Any]]]] = WeakKeyDictionary()


def latest(agent: Agent, name: str, key: Hashable, blocks: range, play: Callable[[int], Block]) -> list[Block]:
    """What `play(block)` gives of each of `blocks`; what was asked for the last time is not played again.

    Args:
        name: whose blocks these are; each has its own.
        key: of what a block depends on beside its number and parts of the agent that do not learn here; with another
            one all blocks are played anew.
    """
    kept = _KEPT.setdefault(agent, {}).get(name)
    known = kept[1] if kept is not None and kept[0] == key else {}
    known = {block: known[block] if block in known else play(block) for block in blocks}
    _KEPT[agent][name] = (key, known)
    return list(known.values())
