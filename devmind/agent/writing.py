"""Writing: an open page is continued token by token, with the cache."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from devmind.agent.acting import StepOutput
from devmind.agent.agent import Agent
from devmind.agent.batch import Batch
from devmind.agent.output import Output
from devmind.agent.state import State
from devmind.agent.taps import Percepts
from devmind.agent.text import TextEncoder
from devmind.errors import MomentError

STOPS = ".?"
"""What ends a sentence."""


class Writer:
    """Goes on writing the open page of each row until it ends or has `most` more tokens.

    Iterating gives each token's numbers as they are chosen, int64 [N, 1] (of patches [N, 8]); -1 in rows that ended.

    Args:
        percepts, output: those that the page was begun with; `Agent.begin(..., heads=["text"])` gave `output`.
        generator: draws the tokens; without, each is the likeliest.
        stops: a row has ended behind a token with one of these characters.

    Attributes:
        state: behind the last token that was given; the pages are open still.
        sure: probability of each token that was given, by those before it, float [N] each (of patches: of all bytes);
            1 in rows that had ended.
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
    """What a `Writer` with these arguments writes: the state behind it, and a text for each row."""
    writer = Writer(agent, state, percepts, output, most, generator, sense)
    written = list(writer)
    return writer.state, writer.encoder.decode(torch.cat(written, 1)) if written else [""] * len(writer.at)


class Turn(NamedTuple):
    """One turn of N rows: what was written, the probability of each text (of all its bytes, as the agent itself has
    it), and the answers of the heads that were asked at its end."""

    texts: list[str]
    sure: list[float]
    outputs: Mapping[str, Output]


class Conversation:
    """Turns of N rows that go on from one another: what is sensed with a page, and a sentence that the agent writes
    behind it, likeliest byte by likeliest byte. Each turn is a Moment, and so is each `listen` of a pause.

    Attributes:
        state: behind the last turn.
    """

    def __init__(self, agent: Agent, n: int = 1, sense: str = "text") -> None:
        self.agent, self.sense, self.state = agent, sense, agent.new_state(n)

    def turn(self, heard: Batch, most: int, heads: Iterable[str] = ()) -> Turn:
        """Take in a page of each row and answer it.

        Args:
            heard: one tick of N rows (`collate_tick`) with a page in each, and what is sensed with it.
            most: bytes of a sentence; 0 only listens.
            heads: those asked when the turn is over.
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
        """Take in a Moment of each row, of a pause: what is sensed while nobody says anything."""
        percepts = self.agent.encode(self.state, sensed)
        self.state, _ = self.agent.step(self.state, percepts, effectors=())


def answered(agent: Agent, asked: Batch, most: int, sense: str = "text") -> tuple[list[str], list[float]]:
    """What an agent that begins here writes behind the question of each row, and how sure it is: a first `turn`."""
    turn = Conversation(agent, len(asked["first"]), sense).turn(asked, most)
    return turn.texts, turn.sure
