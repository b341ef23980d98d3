"""The parts that the stage adds to an agent: pages of text that are read and written, a finer eye, and heads that
classify cells, point and choose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from devmind.agent.agent import Agent
from devmind.agent.batch import READOUT
from devmind.agent.config import AgentConfig
from devmind.agent.decoders import pass_by
from devmind.agent.parts import Part, PartSpec, add_all
from devmind.agent.text import TextEncoder, add_text
from devmind.errors import ConfigError
from devmind.learners.gradient import grown_layers, owned_parts
from stages.language.caregiver.scene import COLOURS, NOUNS
from stages.language.eye import COLOUR, FORM, THINGS

NAME = "language"
TEXT, SIGHT, SOUND, BOARD, WORDS = "text", "sight", "sound", "board", "words"
DETAIL, VIEW = "detail", "view"
"""Further encoders of `sight` (finer) and of `board`, in Moments that have a page."""
POINT, CHOOSE, FOLLOW = "point", "choose", "follow"
"""`follow` carries out instructions by the effector `choose`. It stands by, so heads that acted before still act."""
SOUGHT, RECOGNISED = "sought", "recognised"
"""Heads that compare the picture with recalled memories (`new_words/heads.py`)."""
OBJECTS, COLOUR_OF, NOUN_OF = "objects", "colours", "nouns"
CALLED: Mapping[str, Mapping[str, Any]] = {
    OBJECTS: {"of": THINGS},
    COLOUR_OF: {"of": COLOUR, "classes": len(COLOURS)},
    NOUN_OF: {"of": FORM, "classes": len(NOUNS)},
}
"""Heads that classify each cell: whether it holds a thing, its colour, its noun."""
_DETAIL, _CALLING = f"encoders.{DETAIL}.", tuple(f"heads.{head}." for head in CALLED)
EYE = tuple(f"{_DETAIL}{part}." for part in ("form", "colour", "form_code", "colour_code", "code_norm", "things"))
"""The parameters of the eye that the lesson `call` trains: what is found in its cells."""
TOKENS = tuple(f"{_DETAIL}{part}" for part in ("spread.", "places", "surety", "type_embedding", "norm."))
"""The parameters that turn this into tokens; lessons that read the tokens train them."""
CHOICES = 7
"""MiniGrid's seven actions, as many as the memory stage's own `choose` has."""


def _grow(agent: Agent) -> None:
    agent.ensure_grown(NAME, {TEXT: TEXT, READOUT: TEXT})


def _pages(agent: Agent, tokenizer: str = "bytes") -> None:
    if TEXT not in agent.heads:
        add_text(agent, tokenizer, stage=NAME, part="head.language-text", beside=(DETAIL,))


SENSES: Sequence[Part] = (
    _grow,
    PartSpec(BOARD),
    PartSpec(SIGHT),
    PartSpec(SOUND),
    PartSpec(DETAIL, "encoder.language-detail"),
    PartSpec(VIEW, "encoder.language-view"),
)
RECALLED = (DETAIL, "trunk:recalled", "trunk")
PARTS: Sequence[Part] = (
    *SENSES,
    _pages,
    *(PartSpec(head, "head.language-cells", DETAIL, options=options) for head, options in CALLED.items()),
    PartSpec(POINT, "head.language-point", (DETAIL, "trunk")),
    PartSpec(SOUGHT, "head.language-sought", RECALLED),
    PartSpec(RECOGNISED, "head.language-recognised", RECALLED),
    PartSpec(CHOOSE, "head.categorical", "trunk", CHOOSE, options={"classes": CHOICES}),
    PartSpec(
        FOLLOW, "head.language-follow", (VIEW, "trunk", f"trunk:{TEXT}"), CHOOSE, options={"classes": CHOICES},
        standby=True,
    ),
)  # fmt: skip


def admit(agent: Agent, tokenizer: str = "bytes") -> None:
    """Add every part that is not there yet. The memory stage may have added `board` and `choose`; the run may have
    added pages with another `tokenizer`.
    """
    add_all(agent, NAME, (*SENSES, partial(_pages, tokenizer=tokenizer), *PARTS))


def reader(agent: Agent) -> TextEncoder:
    """The encoder of pages."""
    encoder = agent.encoder(TEXT)
    assert isinstance(encoder, TextEncoder)
    return encoder


def untrained_agent(agent: Agent) -> Agent:
    """A newborn of the same size with the stage's parts, taught nothing. For exams, not for lessons: the grown layers,
    which change nothing before training, are not computed.
    """
    newborn = Agent(AgentConfig(size=agent.config.size, seed=agent.config.seed)).to(agent.device)
    admit(newborn)
    pass_by(newborn.trunk.decoder)
    return newborn.eval()


def check_reading(agent: Agent) -> None:
    """Refuse patches: an answer would begin in the middle of one.

    Raises:
        ConfigError: the agent reads by patches.
    """
    if reader(agent).patched:
        raise ConfigError(
            "By patches of eight bytes language is read only, not spoken: benchmarks/read_text.py teaches that. Set "
            "text.tokenizer to bytes, bpe, own or a file tokenizer.json."
        )


def trained_weights(agent: Agent) -> tuple[str, ...]:
    """Prefixes of the parameters that lessons with pages train: the stage's own parts and the grown layers, without
    what the eye finds in its cells and the heads that classify it (`trained_to_call`).

    No earlier stage uses any of these, so nothing learned before changes and nothing is rehearsed. Training the whole
    trunk reads no better, and it undid reflexes at every learning rate and number of rehearsals that was tried
    (docs/log.md, 2026-11-25).
    """
    own = owned_parts(agent, NAME)
    others = (prefix for prefix in own if prefix != _DETAIL and prefix not in _CALLING)
    return (*grown_layers(agent, {NAME}), *others, *(TOKENS if _DETAIL in own else ()))


def trained_to_call(agent: Agent) -> tuple[str, ...]:
    """What the lesson `call` trains: the heads that classify cells, and the eye, unless an earlier stage added it."""
    return *(EYE if _DETAIL in owned_parts(agent, NAME) else ()), *_CALLING
