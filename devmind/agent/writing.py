"""Writing: an open page is gone on with, token by token, with the cache."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from devmind.agent.acting import StepOutput
from devmind.agent.agent import Agent
from devmind.agent.batch import Batch
from devmind.agent.state import State
from devmind.agent.taps import Percepts
from devmind.agent.text import TextEncoder
from devmind.errors import MomentError


class Writer:
    """Goes on writing the open page of each row until it ends or has `most` more tokens.

    Iterating gives each token's numbers as they are chosen, int64 [N, 1] (of patches [N, 8]); -1 in rows that ended.

    Args:
        percepts, output: those that the page was begun with; `Agent.begin(..., heads=["text"])` gave `output`.
        generator: draws the tokens; without, each is the likeliest.

    Attributes:
        state: behind the last token that was given; the pages are open still.
        sure: probability of each token that was given, by those before it, float [N] each (of patches: of all bytes).
    """

    def __init__(
        self,
        agent: Agent,
        state: State,
        percepts: Percepts,
        output: StepOutput,
        most: int,
        generator: torch.Generator | None = None,
        sense: str = "text",
    ) -> None:
        encoder = agent.encoder(sense)
        assert isinstance(encoder, TextEncoder)
        if sense not in percepts.encoded or not bool(percepts.encoded[sense].present.any(-1).all()):
            raise MomentError(f"Every row needs the beginning of a page ('{sense}') to go on from.")
        self.agent, self.state, self.output, self.most = agent, state, output, most
        self.generator, self.sense, self.encoder = generator, sense, encoder
        self.at, self.sure = percepts.encoded[sense].present.sum(-1) - 1, list[Tensor]()

    def __iter__(self) -> Iterator[Tensor]:
        encoder, rows = self.encoder, torch.arange(len(self.at), device=self.at.device)
        alive = torch.ones(len(rows), dtype=torch.bool, device=rows.device)
        for _ in range(self.most):
            output: Any = self.output.outputs[self.sense]
            every = output.answer(self.generator)
            chosen = every[rows, self.at]
            self.sure.append(output.log_prob(every)[rows, self.at].reshape(len(rows), -1).sum(-1).exp())
            ends = chosen == encoder.end if encoder.end is not None else torch.zeros_like(chosen, dtype=torch.bool)
            said = torch.where(alive[:, None], chosen.flatten(1) if encoder.patched else chosen[:, None], -1)
            alive = alive & ~(ends.any(-1) if encoder.patched else ends)
            if bool(alive.any()):
                open_rows = torch.where(alive[:, None], said, -1)
                self.state, self.output = self.agent.extend(
                    self.state, self.sense, open_rows, alive, heads=[self.sense]
                )
                self.at = torch.zeros_like(self.at)
            yield said
            if not bool(alive.any()):
                return


def write(
    agent: Agent,
    state: State,
    percepts: Percepts,
    output: StepOutput,
    most: int,
    generator: torch.Generator | None = None,
    sense: str = "text",
) -> tuple[State, list[str]]:
    """What a `Writer` with these arguments writes: the state behind it, and a text for each row."""
    writer = Writer(agent, state, percepts, output, most, generator, sense)
    written = list(writer)
    return writer.state, writer.encoder.decode(torch.cat(written, 1)) if written else [""] * len(writer.at)


STOP = "."


def answered(agent: Agent, asked: Batch, most: int, sense: str = "text") -> tuple[list[str], list[float]]:
    """What an agent that begins here writes behind the question of each row, the likeliest bytes up to a full stop.

    Args:
        asked: one tick of N rows (`collate_tick`) with a page in each, and what is sensed with it.
        most: bytes of an answer.

    Returns:
        The answers, and the probability of each: of all its bytes, as the agent itself has it.
    """
    state = agent.new_state(len(asked["first"]))
    percepts = agent.encode(state, asked)
    state, output = agent.begin(state, percepts, heads=[sense])
    writer = Writer(agent, state, percepts, output, most, sense=sense)
    tokens = list(writer)
    texts, sure = [], []
    for row in range(len(writer.at)):
        steps = [writer.encoder.decode(token[row : row + 1])[0] for token in tokens]
        ends = next((n + 1 for n, step in enumerate(steps) if STOP in step), len(steps))
        texts.append(writer.encoder.decode(torch.cat([token[row : row + 1] for token in tokens], 1))[0])
        sure.append(float(torch.stack([step[row] for step in writer.sure[:ends]]).prod()))
    return [text.partition(STOP)[0] + STOP for text in texts], sure
