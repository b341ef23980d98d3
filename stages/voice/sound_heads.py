"""Heads that make sound of what was heard: it is said again, cleaned or gone on with, as an exam has it.

What was heard is an episode of its own, of one ear, taken in at once by `Agent.forward` as in the exam of echo: codes
and gains are those that are examined, bit by bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.agent.batch import clip
from devmind.moment import Moment
from stages.voice.parts import CLEAN, UTTER


@runtime_checkable
class Audible(Protocol):
    """A head whose answers for UTTER are codes of sound."""

    def as_sound(self, answers: Tensor) -> Tensor:
        """The sound of its answers [T, ...] in T consecutive Moments, float32 [1600 T] at 16 kHz."""


@runtime_checkable
class SoundFilter(Protocol):
    """A head whose answers change the sound that they answer to."""

    def sound_through(self, answers: Tensor, heard: Tensor) -> Tensor:
        """How T Moments in a row that were `heard`, float32 [1600 T] at 16 kHz, sound through its answers to them,
        [T, ...]: float32 [1600 T]."""


_SOUNDS_BY: dict[str, type] = {UTTER: Audible, CLEAN: SoundFilter}


def sounding(agent: Agent, effector: str) -> list[str]:
    """The heads that answer for UTTER, CLEAN or GO_ON by what can be made sound, those too that stand by.

    What answers for GO_ON answers by codes of UTTER, so another head has to know how they sound.
    """
    every = agent.heads_of(effector, standby=True)
    if effector not in _SOUNDS_BY:
        return every if sounding(agent, UTTER) else []
    return [name for name in every if isinstance(agent.head(name), _SOUNDS_BY[effector])]


def one_ear(heard: Sequence[Moment]) -> Tensor:
    """What T Moments in a row sound like to one ear, float32 [1600 T]."""
    return torch.from_numpy(np.concatenate([np.asarray(one.senses["sound"], np.float32).mean(0) for one in heard]))


def answers(agent: Agent, heard: Sequence[Moment], head: str) -> Tensor:
    """What a head answers to each of T Moments in a row, [T, ...]."""
    sound = one_ear(heard).reshape(1, len(heard), 1, -1)
    with torch.inference_mode():
        return agent(clip({"sound": sound}), [head])[head].mode()[0].cpu()


def codes(agent: Agent, heard: Sequence[Moment], codec: str, goes_on: str | None = None) -> Tensor:
    """Codes by which T Moments are said again, [T, ...]; with `goes_on` those of the A Moments behind them that this
    head tells by the last one follow, [T + A, ...].
    """
    again = answers(agent, heard, codec)
    return again if goes_on is None else torch.cat((again, answers(agent, heard, goes_on)[-1]))


def clean_moments(agent: Agent, heard: Sequence[Moment], name: str) -> np.ndarray:
    """How T Moments sound through what a head of CLEAN answers to them, float32 [1, 1600 T]."""
    head = agent.head(name)
    assert isinstance(head, SoundFilter)
    with torch.inference_mode():
        made = head.sound_through(answers(agent, heard, name), one_ear(heard))
    return np.asarray(made.numpy()[None], np.float32)


def sound_by(agent: Agent, name: str, row: Tensor) -> np.ndarray:
    """The sound of codes [T, ...] by a head that can make it, float32 [1, S]."""
    head = agent.head(name)
    assert isinstance(head, Audible)
    with torch.inference_mode():
        made = head.as_sound(row.to(agent.device))
    return np.asarray(made.float().cpu().numpy()[None], np.float32)


def sound_of_answer(agent: Agent, row: Tensor) -> np.ndarray | None:
    """The sound of an answer's codes [T, ...], float32 [1, S]; None if no head of UTTER can turn codes into sound."""
    name = next(iter(sounding(agent, UTTER)), None)
    return None if name is None else sound_by(agent, name, row)
