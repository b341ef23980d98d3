"""What the stage adds to an agent: pages of text that are read and written, an eye for what they speak of, heads that
call, point and choose.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.agent.decoders import pass_by
from devmind.agent.text import TextEncoder, add_text
from devmind.agent.thinking import READOUT
from devmind.errors import ConfigError
from devmind.learners.gradient import grown_layers, owned_parts
from stages.language.caregiver.scene import COLOURS, NOUNS
from stages.language.eye import COLOUR, FORM, THINGS

NAME = "language"
TEXT, SIGHT, SOUND, BOARD, WORDS = "text", "sight", "sound", "board", "words"
DETAIL, VIEW = "detail", "view"
"""What sight shows, finer, and what a board shows, beside a page."""
POINT, CHOOSE, FOLLOW = "point", "choose", "follow"
"""`follow` does as it is told, by the effector `choose`; it stands by, so that who acted before it came still does."""
SOUGHT, RECOGNISED = "sought", "recognised"
"""Heads that compare what is in view with what memories show (`new_words/heads.py`)."""
OBJECTS, COLOUR_OF, NOUN_OF = "objects", "colours", "nouns"
CALLED: Mapping[str, Mapping[str, Any]] = {
    OBJECTS: {"of": THINGS},
    COLOUR_OF: {"of": COLOUR, "classes": len(COLOURS)},
    NOUN_OF: {"of": FORM, "classes": len(NOUNS)},
}
"""Heads that say of each cell whether it holds a thing, and call it."""
_DETAIL, _CALLING = f"encoders.{DETAIL}.", tuple(f"heads.{head}." for head in CALLED)
EYE = tuple(f"{_DETAIL}{part}." for part in ("form", "colour", "form_code", "colour_code", "code_norm", "things"))
"""What the lesson `call` teaches of the eye: all that is found in its cells."""
TOKENS = tuple(f"{_DETAIL}{part}" for part in ("spread.", "places", "surety", "type_embedding", "norm."))
"""How what is found becomes tokens, which whoever reads them teaches."""
CHOICES = 7
"""MiniGrid's seven actions; where the memory stage gave the agent `choose`, it has as many."""
GROWN: Mapping[str, int] = {"tiny": 1, "nursery": 2, "child": 2, "adult": 4}
"""By size, the layers that the trunk grows for what is read and written."""


def admit(agent: Agent, tokenizer: str = "bytes") -> None:
    """Add every part that is not there yet; the memory stage may have brought `board` and `choose`, and the run pages
    that are read by another `tokenizer`.
    """
    if NAME not in agent.config.grown:
        agent.grow(GROWN[agent.config.size], NAME, {TEXT: TEXT, READOUT: TEXT})
    if BOARD not in agent.encoders:
        agent.add_encoder(BOARD, stage=NAME)
    for sense in (SIGHT, SOUND):
        if sense not in agent.encoders:
            agent.add_encoder(sense, stage=NAME)
    if DETAIL not in agent.encoders:
        agent.add_encoder(DETAIL, "encoder.language-detail", stage=NAME)
    if VIEW not in agent.encoders:
        agent.add_encoder(VIEW, "encoder.language-view", stage=NAME)
    if TEXT not in agent.heads:
        add_text(agent, tokenizer, stage=NAME, part="head.language-text", beside=(DETAIL,))
    for head, options in CALLED.items():
        if head not in agent.heads:
            agent.add_head(head, "head.language-cells", DETAIL, stage=NAME, options=options)
    if POINT not in agent.heads:
        agent.add_head(POINT, "head.language-point", (DETAIL, "trunk"), stage=NAME)
    for head in (SOUGHT, RECOGNISED):
        if head not in agent.heads:
            agent.add_head(head, f"head.language-{head}", (DETAIL, "trunk:recalled", "trunk"), stage=NAME)
    if CHOOSE not in agent.heads:
        agent.add_head(CHOOSE, "head.categorical", effector=CHOOSE, stage=NAME, options={"classes": CHOICES})
    if FOLLOW not in agent.heads:
        agent.add_head(
            FOLLOW, "head.language-follow", (VIEW, "trunk", f"trunk:{TEXT}"), CHOOSE, NAME, {"classes": CHOICES},
            standby=True,
        )  # fmt: skip


def reader(agent: Agent) -> TextEncoder:
    """The encoder of pages."""
    encoder = agent.encoder(TEXT)
    assert isinstance(encoder, TextEncoder)
    return encoder


def untaught(agent: Agent) -> Agent:
    """A newborn of the same size that was admitted to the stage and taught nothing; for exams, not for lessons: its
    layers, which let all through as they were born, are not computed.
    """
    newborn = Agent(AgentConfig(size=agent.config.size, seed=agent.config.seed)).to(agent.device)
    admit(newborn)
    pass_by(newborn.trunk.decoder)
    return newborn.eval()


def check_reading(agent: Agent) -> None:
    """Refuse patches: what is written behind a question begins in the middle of one.

    Raises:
        ConfigError: the agent reads by patches.
    """
    if reader(agent).patched:
        raise ConfigError(
            "By patches of eight bytes language is read only, not spoken: benchmarks/read_text.py teaches that. Set "
            "text.tokenizer to bytes, bpe, own or a file tokenizer.json."
        )


def trained(agent: Agent) -> tuple[str, ...]:
    """What the stage teaches where pages are read: its own parts, and the layers that the trunk grew for pages; but not
    what the eye finds and calls, which the lesson `call` teaches, and all else rests on.

    No earlier stage uses any of it, so nothing that was learned before is undone, and nothing has to be rehearsed.
    Reading taught to the whole trunk undid reflexes at any rate and any number of rehearsals that were tried, and reads
    as well so (docs/log.md, 2026-11-25).
    """
    own = owned_parts(agent, NAME)
    others = (prefix for prefix in own if prefix != _DETAIL and prefix not in _CALLING)
    return (*grown_layers(agent, {NAME}), *others, *(TOKENS if _DETAIL in own else ()))


def trained_to_call(agent: Agent) -> tuple[str, ...]:
    """What the eye finds in its cells, unless an earlier stage brought it, and the heads that say what that is."""
    return *(EYE if _DETAIL in owned_parts(agent, NAME) else ()), *_CALLING


def trained_without_trunk(agent: Agent) -> tuple[str, ...]:
    """The same on a trunk that lets tokens through and does not learn: the stage's own parts."""
    return tuple(prefix for prefix in trained(agent) if not prefix.startswith("trunk."))
