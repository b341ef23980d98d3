"""Pages: a part of a text as one Moment, each token predicted from those before it.

A page opens with the token "a page begins" and has no end token, because the text goes on behind it. For bytes and
patches a page is a number of bytes; for a vocabulary it is the pieces of about so many bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.agent.text import BEGIN, PATCH, TextEncoder
from devmind.agent.vocabulary import PART
from devmind.errors import ExamError
from stages.language.parts import TEXT, reader

LENGTHS = {"tiny": 64, "nursery": 256, "child": 480, "adult": 480}
"""Bytes of a page. Positions that no lesson had are read badly, so exams have pages as long as lessons have."""


def page_batch(pieces: np.ndarray) -> dict[str, Any]:
    """Bytes uint8 [N, L] as a Batch of one Moment a row, with `pieces` int64 [N, 1, L] to be predicted."""
    targets = torch.from_numpy(pieces.astype(np.int64))[:, None]
    here = torch.ones(len(pieces), 1, dtype=torch.bool)
    return {"senses": {TEXT: targets}, "present": {TEXT: here}, "first": here, "valid": here, "pieces": targets}


def pieces_of(encoder: TextEncoder, text: str) -> tuple[np.ndarray, np.ndarray]:
    """The pieces of a text by an encoder's vocabulary, and the character at which each begins: int64 [K] each.

    Raises:
        ExamError: the pieces do not give the text back, so their cost is not its cost (a vocabulary without capitals).
    """
    ids: list[int] = []
    begins: list[int] = []
    # The library merges a part at a time, so no piece lies across two parts; that changes one piece of thousands.
    for at in range(0, len(text), PART):
        encoding = encoder.pieces.encode(text[at : at + PART], add_special_tokens=False)
        ids += encoding.ids
        begins += [at + begin for begin, _ in encoding.offsets]
        if encoder.pieces.decode(encoding.ids, skip_special_tokens=False) != text[at : at + PART]:
            raise ExamError(
                "The vocabulary of this agent does not reproduce a text exactly, so its nats a character would be of "
                "another text; give it a vocabulary of all bytes (text.tokenizer=bpe makes one)."
            )
    return np.array(ids, np.int64), np.array(begins, np.int64)


def telling_pieces(agent: Agent, pieces: Tensor) -> Tensor:
    """Nats of each of `pieces` int64 [N, K] (-1: none, which costs 0), given those before it, float32 [N, K]."""
    encoder = reader(agent)
    pieces = pieces.to(agent.device)
    opening = torch.full_like(pieces[:, :1], -1 if encoder.begin is None else encoder.begin)
    # One token fewer is read than predicted, as nothing is predicted from the last.
    read = torch.cat((opening, pieces[:, :-1]), 1)
    here = torch.ones(len(pieces), 1, dtype=torch.bool)
    page: dict[str, Any] = {"senses": {TEXT: read[:, None]}, "present": {TEXT: here}, "first": here, "valid": here}
    output: Any = agent.forward(page, [TEXT])[TEXT]
    logits = output.logits[:, 0, : pieces.shape[1]]
    nats = torch.nn.functional.cross_entropy(logits.mT, pieces.clamp_min(0), reduction="none")
    return nats * (pieces >= 0)


def pad_pages(rows: Sequence[Sequence[int]], device: torch.device | str = "cpu") -> Tensor:
    """Rows of tokens as int64 [N, K] on `device`, -1 behind the end of each."""
    longest = max(map(len, rows), default=0)
    tokens = [[*row, *[-1] * (longest - len(row))] for row in rows]
    return torch.tensor(tokens, dtype=torch.int64, device=device).reshape(len(rows), longest)


def telling(agent: Agent, batch: dict[str, Any]) -> Tensor:
    """Nats of each byte of `pieces`, given those before it on its page, float32 [N, L]."""
    encoder = reader(agent)
    unit = PATCH if encoder.patched else 1
    targets = batch["pieces"].to(agent.device)
    opening = torch.full_like(targets[..., :unit], BEGIN)
    read = torch.cat((opening, targets[..., :-unit]), -1)
    units = targets.unflatten(-1, (-1, unit)) if encoder.patched else targets
    page = {**batch, "senses": {**batch["senses"], TEXT: read}}
    output: Any = agent.forward(page, [TEXT], targets={TEXT: units})[TEXT]
    logits = output.logits.flatten(0, -2)
    nats = torch.nn.functional.cross_entropy(logits, units.flatten(), reduction="none")
    return nats.reshape(targets.shape)[:, 0]
