"""Blocks of episodes that a lesson plays once and uses in many steps."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from devmind.agent.agent import Agent

Block = TypeVar("Block")
_KEPT: WeakKeyDictionary[Agent, dict[str, tuple[Hashable, dict[int, Any]]]] = WeakKeyDictionary()


def latest(agent: Agent, name: str, key: Hashable, blocks: range, play: Callable[[int], Block]) -> list[Block]:
    """`play(block)` for each of `blocks`; blocks of the previous call are not played again.

    Args:
        name: of the caller; each has blocks of its own.
        key: what a block depends on besides its number and the agent's parts that do not learn here; if it changes, all
            blocks are played anew.
    """
    cached = _KEPT.setdefault(agent, {}).get(name)
    known = cached[1] if cached is not None and cached[0] == key else {}
    known = {block: known[block] if block in known else play(block) for block in blocks}
    _KEPT[agent][name] = (key, known)
    return list(known.values())
