"""Writing: continue an open page token by token, with cached keys and values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from devmind.agent.agent import Agent, StepOutput
from devmind.agent.batch import Batch
from devmind.agent.output import Output
from devmind.agent.state import State
from devmind.agent.taps import Percepts
from devmind.agent.text import TextEncoder
from devmind.errors import MomentError

STOPS = ".?"
"""Characters that end a sentence."""


class Writer:
    """Continues the open page of each row until it ends or has `most` more tokens.

    Iteration gives the numbers of each token as it is chosen, int64 [N, 1] (for patches [N, 8]); -1 in ended rows.

    Args:
        percepts, output: those that the page was begun with; `output` comes from `Agent.begin(..., heads=["text"])`.
        generator: samples the tokens; without it each is the most likely one.
        stops: a row ends after a token with one of these characters.

    Attributes:
        state: the state after the last token; the pages are still open.
        sure: for each token, its probability given those before it, float [N] (for patches: of all its bytes); 1 in
            ended rows.
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
        stops: str = "",
    ) -> None:
        encoder = agent.encoder(sense)
        assert isinstance(encoder, TextEncoder)
        if sense not in percepts.encoded or not bool(percepts.encoded[sense].present.any(-1).all()):
            raise MomentError(f"Every row needs the beginning of a page ('{sense}') to go on from.")
        self.agent, self.state, self.percepts, self.output, self.most = agent, state, percepts, output, most
        self.generator, self.sense, self.encoder, self.stops = generator, sense, encoder, frozenset(stops)
        self.at, self.sure = percepts.encoded[sense].present.sum(-1) - 1, list[Tensor]()

    def __iter__(self) -> Iterator[Tensor]:
        encoder, rows = self.encoder, torch.arange(len(self.at), device=self.at.device)
        alive = torch.ones(len(rows), dtype=torch.bool, device=rows.device)
        for _ in range(self.most):
            output: Any = self.output.outputs[self.sense]
            every = output.answer(self.generator)
            chosen = every[rows, self.at]
            sure = output.log_prob(every)[rows, self.at].reshape(len(rows), -1).sum(-1).exp()
            self.sure.append(torch.where(alive, sure, 1.0))
            ends = chosen == encoder.end if encoder.end is not None else torch.zeros_like(chosen, dtype=torch.bool)
            said = torch.where(alive[:, None], chosen.flatten(1) if encoder.patched else chosen[:, None], -1)
            alive = alive & ~(ends.any(-1) if encoder.patched else ends)
            if bool(alive.any()):
                open_rows = torch.where(alive[:, None], said, -1)
                self.state, self.output = self.agent.extend(
                    self.state, self.sense, open_rows, alive, heads=[self.sense], began=self.percepts
                )
                self.at = torch.zeros_like(self.at)
            if self.stops:
                stopped = [bool(self.stops & set(text)) for text in encoder.decode(said)]
                alive = alive & ~torch.tensor(stopped, device=alive.device)
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
    """What a `Writer` with these arguments writes: the state after it, and a text for each row."""
    writer = Writer(agent, state, percepts, output, most, generator, sense)
    written = list(writer)
    return writer.state, writer.encoder.decode(torch.cat(written, 1)) if written else [""] * len(writer.at)


class Turn(NamedTuple):
    """One turn of N rows: the texts that were written, the agent's probability of each, and outputs of heads at the end
    of the turn."""

    texts: list[str]
    sure: list[float]
    outputs: Mapping[str, Output]


class Conversation:
    """Consecutive turns of N rows: the agent reads a page and writes a sentence after it, always the most likely token.

    Each turn is a Moment, and so is each `listen`.

    Attributes:
        state: the state after the last turn.
    """

    def __init__(self, agent: Agent, n: int = 1, sense: str = "text") -> None:
        self.agent, self.sense, self.state = agent, sense, agent.new_state(n)

    def turn(self, heard: Batch, most: int, heads: Iterable[str] = ()) -> Turn:
        """Read a page in each row and answer it.

        Args:
            heard: one tick of N rows (`collate_tick`) with a page in each, and other senses.
            most: the most tokens of the answer; 0: only read.
            heads: heads that are run at the end of the turn.
        """
        percepts = self.agent.encode(self.state, heard)
        self.state, output = self.agent.begin(self.state, percepts, heads=[self.sense])
        writer = Writer(self.agent, self.state, percepts, output, most, sense=self.sense, stops=STOPS)
        tokens, n = list(writer), len(writer.at)
        self.state, ended = self.agent.end(writer.state, percepts, effectors=(), heads=heads)
        if not tokens:
            return Turn([""] * n, [1.0] * n, ended.outputs)
        sure = torch.stack(writer.sure).prod(0).tolist()
        return Turn(writer.encoder.decode(torch.cat(tokens, 1)), sure, ended.outputs)

    def listen(self, sensed: Batch) -> None:
        """Take in one Moment of each row without writing, for pauses."""
        percepts = self.agent.encode(self.state, sensed)
        self.state, _ = self.agent.step(self.state, percepts, effectors=())


def answer_questions(agent: Agent, asked: Batch, most: int, sense: str = "text") -> tuple[list[str], list[float]]:
    """Answers of an agent with an empty state to the question in each row, and their probabilities."""
    turn = Conversation(agent, len(asked["first"]), sense).turn(asked, most)
    return turn.texts, turn.sure
