"""What the stage adds to an agent: pages of text that are read and written, a head that points, one that chooses."""

from __future__ import annotations

from devmind.agent.agent import Agent
from devmind.agent.taps import taps_trunk
from devmind.agent.text import add_text

NAME = "language"
TEXT, POINT, CHOOSE, BOARD = "text", "point", "choose", "board"
CELLS = 8
"""The picture is pointed into as 8 x 8 cells."""
CHOICES = 7
"""MiniGrid's seven actions; where the memory stage gave the agent `choose`, it has as many."""


def admit(agent: Agent, tokenizer: str = "bytes") -> None:
    """Add every part that is not there yet; the memory stage may have brought `board` and `choose`."""
    if BOARD not in agent.encoders:
        agent.add_encoder(BOARD, stage=NAME)
    if TEXT not in agent.encoders:
        add_text(agent, tokenizer, stage=NAME)
    if POINT not in agent.heads:
        agent.add_head(POINT, "head.categorical", stage=NAME, options={"classes": CELLS**2})
    if CHOOSE not in agent.heads:
        agent.add_head(CHOOSE, "head.categorical", effector=CHOOSE, stage=NAME, options={"classes": CHOICES})


def trained(agent: Agent) -> tuple[str, ...]:
    """Prefixes of the parameters that lessons change: the trunk, every head on it, and the senses of symbols.

    What eyes and ears were taught stays: arcs of earlier stages read it. Heads on the trunk of earlier stages are among
    them, because the trunk changes under them and rehearsal keeps them right.
    """
    senses = {entry["name"] for entry in agent.config.encoders if entry["stage"] == NAME} | {BOARD}
    heads = [entry for entry in agent.config.heads if entry["stage"] == NAME or taps_trunk(entry["tap"])]
    return (
        "trunk.",
        "readout",
        "recalled_",
        "age.",
        *(f"encoders.{sense}." for sense in sorted(senses)),
        *(f"heads.{entry['name']}." for entry in heads),
    )
