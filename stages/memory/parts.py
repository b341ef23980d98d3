"""The parts that the stage adds to an agent: senses for the tests and for beliefs, heads, the tracker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from devmind.agent.agent import Agent
from devmind.agent.tracker import SENSE, numbers_of
from devmind.worlds.nursery.state import COLOUR_NAMES
from stages.memory.recall.things import NAMES

NAME = "memory"
SIGNAL_SIZE = 8
CHOICES = 7
"""MiniGrid has seven actions; the other tests have two or four choices, the first ones of the same head."""
BOARD_KINDS, BOARD_CELLS = 11, 49
"""MiniGrid's view: seven by seven cells of eleven kinds, one plane a kind."""
RECALLS = ("called",)
"""Heads that answer from recalled entries."""
HEAD, NAMED = "things", "named"
"""The heads that detect things and that tell which class a word names; they feed the agent's tracker."""
KINDS = len(COLOUR_NAMES)
LABELS: Mapping[str, Sequence[str]] = {"called": NAMES, HEAD: COLOUR_NAMES, NAMED: COLOUR_NAMES}
"""Names of the classes, by head."""
BELIEF_NUMBERS = numbers_of(KINDS)

PLACES = 3
"""Where a thing is hidden: left, in the middle, right."""
STARTS_FROM = {"things": "whereabouts"}
"""Heads that start with the weights of another head, if the agent has it."""

Part = tuple[str, str, str | tuple[str, ...], str | None, dict[str, object]]


def admit(agent: Agent) -> None:
    """Add every part that is not there yet."""
    # Tests differ in how many numbers they show; the encoder is told which are missing, so it knows the test.
    agent.ensure_encoder("signal", "encoder.vector", stage=NAME, options={"size": SIGNAL_SIZE})
    agent.ensure_encoder("board", stage=NAME)
    agent.ensure_encoder(SENSE, "encoder.vector", stage=NAME, options={"size": BELIEF_NUMBERS})
    for name, part, tap, effector, options in heads():
        is_new = agent.ensure_head(name, part, tap, effector, NAME, options, name in RECALLS, LABELS.get(name, ()))
        if is_new and STARTS_FROM.get(name, "") in agent.heads:
            agent.head(name).load_state_dict(agent.head(STARTS_FROM[name]).state_dict())
    depth = "scene" if "scene" in agent.heads else None
    agent.add_tracker(HEAD, depth, NAMED, stage=NAME)


def heads() -> list[Part]:
    """(name, part, tap, effector, options) of every head."""
    return [
        ("choose", "head.categorical", "trunk", "choose", {"classes": CHOICES}),
        # For training only: what the sign said, at every Moment after it; every cell of a board; the teacher's choice
        # as far as the board alone tells it.
        ("told", "head.categorical", "trunk", None, {"classes": 2}),
        ("cells", "head.categorical", "board", None, {"classes": BOARD_KINDS, "slots": BOARD_CELLS}),
        ("glance", "head.categorical", "board", None, {"classes": CHOICES}),
        ("called", "head.categorical", "trunk", None, {"classes": len(NAMES)}),  # by heart, after a night
        ("copied", "head.pointer", ("trunk:recalled", "trunk"), None, {}),  # the memory whose name it is
        ("same", "head.memory-match", ("sight", "sound", "trunk"), None, {}),  # whether what is sensed is the sample
        (HEAD, "head.reflex-places", ("sight", "words"), None, {"slots": KINDS}),
        (NAMED, "head.categorical", "words", None, {"classes": KINDS}),
        ("believed", "head.categorical", SENSE, None, {"classes": PLACES}),  # only teaches
        ("place", "head.categorical", "trunk", None, {"classes": PLACES}),
    ]
