"""Heads that are requested beside the acting ones: a head with carried state runs once a tick."""

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
def test_requested_head_with_carried_state_steps_as_all_at_once(acts: bool) -> None:
    """Regression: it had no past if only requested, and got each Moment twice if it acted as well."""
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


def test_requested_head_with_carried_state_needs_its_sense() -> None:
    agent = tiny_agent()
    parts.admit(agent)
    actor = Actor(agent.eval(), 1, effectors=(), heads=(parts.WORDS_ARC,))
    with pytest.raises(DevmindError, match=f"The head '{parts.WORDS_ARC}' taps 'listen', which is not among"):
        actor.act(collate_tick({parts.SIGHT: np.zeros((1, 64, 64, 3), np.uint8)}, np.array([True])))
