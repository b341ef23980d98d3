"""Writing: an open page is gone on with, token by token, with the cache."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from devmind.agent.acting import StepOutput
from devmind.agent.agent import Agent, Percepts
from devmind.agent.state import State
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
        self.at = percepts.encoded[sense].present.sum(-1) - 1

    def __iter__(self) -> Iterator[Tensor]:
        encoder, rows = self.encoder, torch.arange(len(self.at), device=self.at.device)
        alive = torch.ones(len(rows), dtype=torch.bool, device=rows.device)
        for _ in range(self.most):
            chosen = self.output.outputs[self.sense].answer(self.generator)[rows, self.at]
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
