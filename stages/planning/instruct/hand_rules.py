"""A rule by hand that reads missions by a pattern: a floor of the exam, never part of a head."""

from __future__ import annotations

import re

from devmind.algorithms.grid import COLOURS
from stages.planning.instruct.symbols import ANY, DROP_NEXT_TO, GO_TO, NOUNS, OPEN, PICK_UP, Subgoal, Subgoals

_THING = rf"(?:the|a) (?:({'|'.join(COLOURS)}) )?({'|'.join(NOUNS)})"
_VERBS = {"go to": GO_TO, "pick up": PICK_UP, "open": OPEN}
_ONE = re.compile(rf"({'|'.join(_VERBS)}) {_THING}")
_PUT = re.compile(rf"put {_THING} next to {_THING}")


def by_pattern(said: str) -> Subgoals:
    """The plan of a mission of BabyAI's grammar without places; empty if the pattern does not fit."""
    before, after, then = said.partition(" after you ")
    said = f"{then}, then {before}" if after else said
    plan: list[Subgoal] = []
    for action in re.split(r", then | and ", said):
        if put := _PUT.fullmatch(action):
            plan += [_about(PICK_UP, put[1], put[2]), _about(DROP_NEXT_TO, put[3], put[4])]
        elif one := _ONE.fullmatch(action):
            plan.append(_about(_VERBS[one[1]], one[2], one[3]))
        else:
            return ()
    return tuple(plan)


def _about(verb: int, colour: str | None, noun: str) -> Subgoal:
    return Subgoal(verb, NOUNS.index(noun), ANY if colour is None else COLOURS.index(colour))
