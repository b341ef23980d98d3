"""Spoken questions that are answered aloud: one episode of an Actor, the same in an exam and live.

The Actor hears Moment by Moment. In the last Moment a page asks for the answer, and the thing that the question is
about is in view. A head of the effector `reply` answers, in the same codes of sound as `utter`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from devmind.acting.actor import Actor
from devmind.agent.agent import Agent, StepOutput
from devmind.agent.batch import Batch, at_tick, collate
from devmind.moment import TICK_HZ, Moment, Sense
from stages.voice.parts import KINDS_ARC, REPLY
from stages.voice.sounds.kinds import SPEECH

LEAST = 0.05
"""A probability of speech from which words are believed: about the share of speech in the lessons of kinds, 0.06."""
SHORTEST, PAUSE = 24, 2
"""Moments that are asked about at least, and those of silence between repetitions."""
PAGE = "?"
"""The page of the Moment in which an answer is wanted; the encoder `detail` sees only Moments with a page."""


def is_speech(agent: Agent, heard: Sequence[Moment]) -> bool:
    """Whether words may be believed in Moments of sound in a row, by the agent's arc of kinds; always without one.

    They are speech if that is not less likely than LEAST. The likeliest kind would be too strict: an agent that was
    taught by recordings of other sounds heard 0.23 instead of 0.70 of people's digits (docs/voice.md).
    """
    if KINDS_ARC not in agent.heads or not heard:
        return True
    with torch.inference_mode():
        shares = agent(collate([as_piece(heard)]), [KINDS_ARC])[KINDS_ARC].numbers()[0, -1].softmax(-1)
    return float(shares[SPEECH]) >= LEAST


def as_piece(heard: Sequence[Moment]) -> list[Moment]:
    """Moments of sound as an episode of their own; short ones are repeated, since in lessons a sound lasts longer."""
    sounds = [np.asarray(one.senses["sound"]) for one in heard]
    if len(sounds) < SHORTEST:
        sounds = (sounds + [np.zeros_like(sounds[0])] * PAUSE) * (1 + SHORTEST // len(sounds))
    return [Moment(k / TICK_HZ, {"sound": sound}, first=k == 0) for k, sound in enumerate(sounds)]


def ask(agent: Agent, asked: Batch, heads: Sequence[str]) -> StepOutput:
    """Run episodes [N, T, ...] in which something is asked; gives the output of the last Moment.

    Args:
        heads: the heads that may answer, in order. If none answers for a row, `acted` is false there.
    """
    trunk = any(agent.tap_of(head).on_trunk for head in heads)
    n, ticks = asked["first"].shape
    actor = Actor(agent, n, effectors=(REPLY,), trunk=trunk, beliefs=False, standing={REPLY: tuple(heads)})
    for tick in range(ticks - 1):
        actor.act(at_tick(asked, tick))
    return actor.act(at_tick(asked, ticks - 1))


def as_asked(heard: Sequence[Moment], sight: Sense | None) -> Batch:
    """What was heard live, and the picture in view, as an episode of one row."""
    row = [Moment(one.time_s, {"sound": one.senses["sound"]}, first=not number) for number, one in enumerate(heard)]
    seen = {} if sight is None else {"sight": sight}
    return collate([[*row[:-1], Moment(row[-1].time_s, {**row[-1].senses, **seen, "text": PAGE}, first=len(row) == 1)]])
