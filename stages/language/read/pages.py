"""Pages: a piece of a text as one Moment, each character told from those before it.

A page opens with the token "a page begins" and never says that it ends, because the text goes on behind it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.agent.text import BEGIN, PATCH, TextEncoder
from stages.language.parts import TEXT

LENGTHS = {"tiny": 64, "nursery": 256, "child": 480, "adult": 480}
"""Bytes of a page. Positions that no lesson had are read badly, so exams read pages as long as lessons do."""


def page_batch(pieces: np.ndarray) -> dict[str, Any]:
    """Bytes uint8 [N, L] as a Batch of one Moment a row, with `pieces` int64 [N, 1, L] to be told."""
    told = torch.from_numpy(pieces.astype(np.int64))[:, None]
    here = torch.ones(len(pieces), 1, dtype=torch.bool)
    return {"senses": {TEXT: told}, "present": {TEXT: here}, "first": here, "valid": here, "pieces": told}


def telling(agent: Agent, batch: dict[str, Any]) -> Tensor:
    """Nats of each byte of `pieces`, given those before it on its page, float32 [N, L]."""
    encoder = agent.encoder(TEXT)
    assert isinstance(encoder, TextEncoder)
    unit = PATCH if encoder.patched else 1
    told = batch["pieces"].to(agent.device)
    opening = torch.full_like(told[..., :unit], BEGIN)
    read = torch.cat((opening, told[..., :-unit]), -1)
    wanted = told.unflatten(-1, (-1, unit)) if encoder.patched else told
    page = {**batch, "senses": {**batch["senses"], TEXT: read}}
    output: Any = agent.forward(page, [TEXT], targets={TEXT: wanted})[TEXT]
    logits = output.logits.flatten(0, -2)
    nats = torch.nn.functional.cross_entropy(logits, wanted.flatten(), reduction="none")
    return nats.reshape(told.shape)[:, 0]
