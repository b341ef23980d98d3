"""Answers in writing: a question with what is sensed as one open Moment, and what the agent writes behind it."""

from __future__ import annotations

import numpy as np

from devmind.acting import Senses
from devmind.agent.agent import Agent
from devmind.agent.batch import collate_tick
from devmind.agent.writing import answered
from stages.language.parts import TEXT

TOGETHER = 100
SURE = "calibration error of what it says"
"""The row of how far from its shares of right answers an agent is sure of them, in ten bins, over the measure's n."""


def answers(agent: Agent, senses: Senses, most: int) -> list[str]:
    """What is written behind the question of each row, likeliest byte by likeliest byte, up to a full stop.

    Args:
        senses: arrays [N, ...] by sense, `text` a list of N questions.
        most: bytes of an answer.
    """
    return sure_answers(agent, senses, most)[0]


def sure_answers(agent: Agent, senses: Senses, most: int) -> tuple[list[str], np.ndarray]:
    """`answers`, and how sure the agent is of each, as a life's page says it: the probability of all its bytes,
    float64 [N].
    """
    said, sure = list[str](), list[float]()
    for start in range(0, len(senses[TEXT]), TOGETHER):
        part = {name: value[start : start + TOGETHER] for name, value in senses.items()}
        texts, shares = answered(agent, collate_tick(part, np.ones(len(part[TEXT]), bool)), most)
        said, sure = said + texts, sure + shares
    return said, np.array(sure)
