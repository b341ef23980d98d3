"""Plans in symbols: an instruction's subgoals, in the order in which they are to be reached.

They are the subgoals of BabyAI's bot (Chevalier-Boisvert et al. 2019, section 3.4) without those that only explore or
clear the way, which a controller adds by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from devmind.algorithms.grid import COLOURS, KINDS, LOCKED, door, thing
from devmind.errors import WorldError

VERBS = ("end", "go to", "pick up", "drop next to", "open")
END, GO_TO, PICK_UP, DROP_NEXT_TO, OPEN = range(len(VERBS))
NOUNS = (*KINDS, "door")
DOORS = NOUNS.index("door")
ANY = len(COLOURS)
"""The colour of a thing that may have any."""
SYMBOLS = (len(VERBS), len(NOUNS), len(COLOURS) + 1)
"""Numbers of verbs, nouns and colours of a subgoal."""
LENGTH = 8
"""Subgoals of a plan, at most: four things put next to others. A shorter plan is filled up with END."""


class Subgoal(NamedTuple):
    """One of VERBS, one of NOUNS, and one of COLOURS or ANY, by number."""

    verb: int
    noun: int
    colour: int

    @property
    def classes(self) -> frozenset[int]:
        """The classes of cells that fit it."""
        colours = range(len(COLOURS)) if self.colour == ANY else (self.colour,)
        if self.noun == DOORS:
            return frozenset(door(colour, state) for colour in colours for state in range(LOCKED + 1))
        return frozenset(thing(NOUNS[self.noun], colour) for colour in colours)

    @property
    def kind(self) -> str:
        """Its thing, without an article: "red ball"."""
        return ("" if self.colour == ANY else f"{COLOURS[self.colour]} ") + NOUNS[self.noun]

    def __str__(self) -> str:
        return f"{VERBS[self.verb]} {'a' if self.colour == ANY else 'the'} {self.kind}"


Subgoals = tuple[Subgoal, ...]


def as_numbers(plan: Sequence[Subgoal]) -> np.ndarray:
    """The plan as int64 [LENGTH, 3].

    Raises:
        WorldError: it has more subgoals.
    """
    if len(plan) > LENGTH:
        raise WorldError(f"A plan has up to {LENGTH} subgoals; got {len(plan)}. Say it in several instructions.")
    numbers = np.zeros((LENGTH, len(SYMBOLS)), np.int64)
    numbers[: len(plan)] = np.array(plan, np.int64).reshape(-1, len(SYMBOLS))
    return numbers


def from_numbers(numbers: np.ndarray) -> Subgoals:
    """The plan of int [LENGTH, 3], up to the first END."""
    ends = np.flatnonzero(numbers[:, 0] == END)
    return tuple(Subgoal(*row) for row in numbers[: ends[0] if len(ends) else None].tolist())


def in_words(plan: Sequence[Subgoal]) -> str:
    """The plan in words: "pick up the red ball, drop next to the blue box"."""
    return ", ".join(map(str, plan)) or "nothing to do"


def as_instruction(plan: Sequence[Subgoal]) -> str:
    """The plan in BabyAI's words: "put the red ball next to the blue box and go to the key". A subgoal that drops a
    thing follows the one that picks it up."""
    clauses: list[str] = []
    for one in plan:
        thing = str(one).removeprefix(f"{VERBS[one.verb]} ")
        if one.verb == DROP_NEXT_TO and clauses:
            clauses[-1] = f"put {clauses[-1].removeprefix(f'{VERBS[PICK_UP]} ')} next to {thing}"
        else:
            clauses.append(f"{VERBS[one.verb]} {thing}")
    return " and ".join(clauses)


def of_instruction(instruction: Any) -> Subgoals:
    """The true plan of an instruction of BabyAI, for lessons and for references of exams.

    Raises:
        WorldError: the instruction names things by their places, or not by their kind, for which there are no symbols.
    """
    from minigrid.envs.babyai.core import verifier

    if isinstance(instruction, verifier.AfterInstr):
        return of_instruction(instruction.instr_b) + of_instruction(instruction.instr_a)
    if isinstance(instruction, verifier.SeqInstr):
        return of_instruction(instruction.instr_a) + of_instruction(instruction.instr_b)
    if isinstance(instruction, verifier.PutNextInstr):
        return _about(PICK_UP, instruction.desc_move), _about(DROP_NEXT_TO, instruction.desc_fixed)
    verbs: dict[type, int] = {verifier.GoToInstr: GO_TO, verifier.PickupInstr: PICK_UP, verifier.OpenInstr: OPEN}
    return (_about(verbs[type(instruction)], instruction.desc),)


def _about(verb: int, described: Any) -> Subgoal:
    if described.loc is not None or described.type is None:
        raise WorldError(
            f"Expected a thing with its kind and colour, such as 'the red ball'; got '{described!r}'. "
            "There are no symbols for where things are: take a level without `locations`."
        )
    colour = ANY if described.color is None else COLOURS.index(described.color)
    return Subgoal(verb, NOUNS.index(described.type), colour)
