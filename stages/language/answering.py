"""Written answers: a question with what is sensed is one open Moment, and the agent writes behind the question."""

from __future__ import annotations

import numpy as np

from devmind.acting import Senses
from devmind.agent.agent import Agent
from devmind.agent.batch import collate_tick
from devmind.agent.writing import answer_questions
from stages.language.parts import TEXT

TOGETHER = 100
SURE = "calibration error of what it says"
"""The row of the expected calibration error of written answers, in ten bins, over the measure's n."""


def answers(agent: Agent, senses: Senses, most: int) -> list[str]:
    """The text behind each row's question, the likeliest byte each time, up to a full stop.

    Args:
        senses: arrays [N, ...] by sense, `text` a list of N questions.
        most: bytes of an answer.
    """
    return answers_with_confidence(agent, senses, most)[0]


def answers_with_confidence(agent: Agent, senses: Senses, most: int) -> tuple[list[str], np.ndarray]:
    """`answers`, and the confidence that a life's page shows: the product of the bytes' probabilities, float64 [N]."""
    replies, confidence = list[str](), list[float]()
    for start in range(0, len(senses[TEXT]), TOGETHER):
        part = {name: value[start : start + TOGETHER] for name, value in senses.items()}
        texts, shares = answer_questions(agent, collate_tick(part, np.ones(len(part[TEXT]), bool)), most)
        replies, confidence = replies + texts, confidence + shares
    return replies, np.array(confidence)
