"""The parts that the stage adds to an agent: senses for the tests and for beliefs, heads, the tracker."""

from __future__ import annotations

from collections.abc import Sequence

from devmind.agent.agent import Agent
from devmind.agent.parts import Part, PartSpec, add_all
from devmind.agent.tracker import SENSE, numbers_of
from devmind.worlds.nursery.state import COLOUR_NAMES
from stages.memory.recall.things import NAMES

NAME = "memory"
SIGNAL_SIZE = 8
CHOICES = 7
"""MiniGrid has seven actions; the other tests have two or four choices, the first ones of the same head."""
BOARD_KINDS, BOARD_CELLS = 11, 49
"""MiniGrid's view: seven by seven cells of eleven kinds, one plane a kind."""
HEAD, NAMED = "things", "named"
"""The heads that detect things and that tell which class a word names; they feed the agent's tracker."""
KINDS = len(COLOUR_NAMES)
BELIEF_NUMBERS = numbers_of(KINDS)

PLACES = 3
"""Where a thing is hidden: left, in the middle, right."""


def _tracker(agent: Agent) -> None:
    agent.add_tracker(HEAD, "scene" if "scene" in agent.heads else None, NAMED, stage=NAME)


PARTS: Sequence[Part] = (
    # Tests differ in how many numbers they show; the encoder is told which are missing, so it knows the test.
    PartSpec("signal", "encoder.vector", options={"size": SIGNAL_SIZE}),
    PartSpec("board"),
    PartSpec(SENSE, "encoder.vector", options={"size": BELIEF_NUMBERS}),
    PartSpec("choose", "head.categorical", "trunk", "choose", options={"classes": CHOICES}),
    # For training only: what the sign said, at every Moment after it; every cell of a board; the teacher's choice
    # as far as the board alone tells it.
    PartSpec("told", "head.categorical", "trunk", options={"classes": 2}),
    PartSpec("cells", "head.categorical", "board", options={"classes": BOARD_KINDS, "slots": BOARD_CELLS}),
    PartSpec("glance", "head.categorical", "board", options={"classes": CHOICES}),
    # Names that it knows by heart, after a night.
    PartSpec("called", "head.categorical", "trunk", options={"classes": len(NAMES)}, recalls=True, labels=NAMES),
    PartSpec("copied", "head.pointer", ("trunk:recalled", "trunk")),  # the memory whose name it is
    PartSpec("same", "head.memory-match", ("sight", "sound", "trunk")),  # whether what is sensed is the sample
    PartSpec(
        HEAD, "head.reflex-places", ("sight", "words"), options={"slots": KINDS}, labels=COLOUR_NAMES,
        starts_from="whereabouts",
    ),
    PartSpec(NAMED, "head.categorical", "words", options={"classes": KINDS}, labels=COLOUR_NAMES),
    PartSpec("believed", "head.categorical", SENSE, options={"classes": PLACES}),  # only teaches
    PartSpec("place", "head.categorical", "trunk", options={"classes": PLACES}),
    _tracker,
)  # fmt: skip


def admit(agent: Agent) -> None:
    """Add every part that is not there yet."""
    add_all(agent, NAME, PARTS)
