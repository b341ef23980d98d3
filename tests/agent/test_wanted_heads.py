"""Heads that are wanted beside those that act: one that carries goes on from tick to tick, and once a tick."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from devmind.acting import Actor
from devmind.agent.batch import collate_tick
from devmind.errors import DevmindError
from devmind.testing import tiny_agent
from stages.voice import parts
from stages.voice.moments import as_batch


@pytest.mark.parametrize("acts", [False, True])
def test_a_wanted_head_that_carries_answers_tick_by_tick_as_at_once(acts: bool) -> None:
    """It had no past where it was only wanted, and would have had each Moment twice where it acted as well."""
    agent = tiny_agent()
    parts.admit(agent)
    agent.eval()
    sound = 0.1 * torch.randn(1, 5 * 1600, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        output: Any = agent(as_batch(sound), [parts.WORDS_ARC])[parts.WORDS_ARC]
    standing = {parts.NOTE: (parts.WORDS_ARC,)} if acts else {}
    actor = Actor(agent, 1, effectors=tuple(standing), heads=(parts.WORDS_ARC,), standing=standing)
    for number, moment in enumerate(sound[0].reshape(5, 1, 1, 1600).numpy()):
        done = actor.act(collate_tick({parts.SOUND: moment}, np.array([number == 0])))
        told = done.outputs[parts.WORDS_ARC].numbers()[0]
        torch.testing.assert_close(told, output.logits[0, number], atol=1e-4, rtol=1e-4)


def test_a_wanted_head_that_carries_and_has_nothing_to_read_is_refused() -> None:
    agent = tiny_agent()
    parts.admit(agent)
    actor = Actor(agent.eval(), 1, effectors=(), heads=(parts.WORDS_ARC,))
    with pytest.raises(DevmindError, match=f"The head '{parts.WORDS_ARC}' taps 'listen', which is not among"):
        actor.act(collate_tick({parts.SIGHT: np.zeros((1, 64, 64, 3), np.uint8)}, np.array([True])))
