"""Missions, read from their words."""

from __future__ import annotations

import re
from dataclasses import dataclass

from devmind.algorithms.grid import COLOURS, GOAL, KINDS, thing
from devmind.errors import WorldError

_GOAL = re.compile(
    r"(?:.* and (?:then )?)?(?:reach|get to|go to|traverse the rooms to get to)(?: the)?(?: green)? goal(?: square)?"
)
_PICK = re.compile(rf"(?:.* and )?pick up (?:the|a|an)(?: ({'|'.join(COLOURS)}))? ({'|'.join(KINDS)})")


@dataclass(frozen=True)
class Mission:
    """Classes of cells of which one is the target (`cells`), and whether it is to be picked up or stood on."""

    targets: frozenset[int]
    picked_up: bool


def parse_mission(words: str) -> Mission:
    """The mission that the words say: to reach the goal, or to pick up a key, ball or box.

    Raises:
        WorldError: the words say something else.
    """
    sentence = " ".join(words.lower().replace(",", " ").split()).removesuffix(".")
    if _GOAL.fullmatch(sentence):
        return Mission(frozenset({GOAL}), picked_up=False)
    if matched := _PICK.fullmatch(sentence):
        colours = [COLOURS.index(matched[1])] if matched[1] else range(len(COLOURS))
        return Mission(frozenset(thing(matched[2], colour) for colour in colours), picked_up=True)
    raise WorldError(
        f"Expected a mission such as 'reach the goal', 'get to the green goal square' or 'pick up the red ball'; got "
        f"'{words}'."
    )
