"""Continuing a sound code after code, as a text is written, with the trunk's cache."""

from __future__ import annotations

import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.agent.batch import one_tick
from stages.voice.parts import CODES, NEXT_CODE


def written_on(agent: Agent, page: Tensor, tokens: int) -> Tensor:
    """The next `tokens` codes of pages int64 [N, L, 2], the likeliest each time, int64 [N, tokens, 2]. Each enters the
    trunk behind the one before it, with the trunk's cache.
    """
    state = agent.new_state(len(page))
    percepts = agent.encode(state, one_tick({CODES: page}))
    state, output = agent.begin(state, percepts, heads=[NEXT_CODE])
    new_tokens = list[Tensor]()
    for _ in range(tokens):
        new_tokens.append(output.outputs[NEXT_CODE].mode()[:, -1:])
        if len(new_tokens) < tokens:
            state, output = agent.extend(state, CODES, new_tokens[-1], heads=[NEXT_CODE], began=percepts)
    return torch.cat(new_tokens, 1).cpu()
