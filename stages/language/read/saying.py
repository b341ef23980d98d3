"""Continuing a text, byte by byte, with a new page behind every full one."""

from __future__ import annotations

import codecs
from collections.abc import Iterator

import torch

from devmind.agent.agent import Agent
from devmind.agent.text import PATCH, TextEncoder
from devmind.agent.writing import Writer
from devmind.errors import DevmindError
from devmind.moment import Moment
from stages.language.parts import TEXT, reader
from stages.language.read import NOTHING
from stages.language.read.corpus import CAREGIVER
from stages.language.read.lesson import GROUP
from stages.language.read.pages import LENGTHS

UNFINISHED = 3
"""Bytes of UTF-8 that may be missing from a character that has begun."""


def has_read(agent: Agent) -> str:
    """What the agent's lessons let it read, as a list in words: the caregiver's sentences, and texts by their names."""
    groups = [group.removeprefix(GROUP) for group in agent.config.trained_on if group.startswith(GROUP)]
    names = [name for name in dict.fromkeys(group.rpartition("#")[0] for group in groups) if name != CAREGIVER]
    return " and ".join([*([", ".join(names)] if names else []), CAREGIVER])


def go_on(agent: Agent, text: str, most: int, generator: torch.Generator | None = None) -> Iterator[str]:
    """What the agent writes behind `text`, piece by piece as it comes, about `most` bytes.

    When a page as long as those of lessons is full, its second half opens the next one. A character that has begun at
    the end of a page is written out there, as half a one cannot open a page. Of a longer text only the end is read, as
    much as fits on half a page. The number zero, which only an untaught agent writes often, is no text and left out.

    Args:
        generator: draws the bytes; without, each is the likeliest.

    Raises:
        DevmindError: the agent was never taught to read, or there is nothing to go on from.
    """
    if TEXT not in agent.encoders or TEXT not in agent.heads:
        raise DevmindError("This agent was never taught to read and write; teach it: devmind stage run language.")
    if not text.strip():
        raise DevmindError(NOTHING)
    encoder = reader(agent)
    length, unit = LENGTHS[agent.config.size], PATCH if encoder.patched else 1
    written, decoder = text.encode(), codecs.getincrementaldecoder("utf-8")("replace")
    while most > 0:
        page = written[-(length // 2) :].decode(errors="ignore")
        state = agent.new_state()
        percepts = agent.encode(state, Moment(0.0, {TEXT: page}, first=True))
        state, output = agent.begin(state, percepts, heads=[TEXT])
        fits = min(most, length - len(page.encode()))
        if encoder.pieces is not None:
            before = len(written)
            for piece in _pieces(encoder, Writer(agent, state, percepts, output, fits, generator), fits):
                written += piece.encode()
                most -= len(piece.encode())
                yield piece
            if len(written) == before:
                return  # the agent ended the page at once, and would again
            continue
        tokens = max(1, fits // unit)
        writer = Writer(agent, state, percepts, output, tokens + UNFINISHED, generator)
        for count, token in enumerate(writer, 1):
            new_bytes = bytes(number for number in token.flatten().tolist() if 0 < number < 256)
            written += new_bytes
            most -= unit
            yield decoder.decode(new_bytes)
            if count >= tokens and not decoder.getstate()[0]:
                break


def _pieces(encoder: TextEncoder, writer: Writer, most: int) -> Iterator[str]:
    """The text written by pieces of a vocabulary, until it has `most` bytes or the page ends; a character that two
    pieces share comes with the second.
    """
    tokens: list[int] = []
    yielded = ""
    for token in writer:
        tokens.append(int(token))
        text = encoder.decode(torch.tensor([tokens]))[0].replace("\0", "")
        if not text.endswith("\ufffd"):
            yield text[len(yielded) :]
            yielded = text
        if len(yielded.encode()) >= most:
            return
