"""Answers in writing: a question with what is sensed as one open Moment, and what the agent writes behind it."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np

from devmind.acting import Senses
from devmind.agent.agent import Agent
from devmind.agent.batch import collate_tick
from devmind.agent.writing import answered
from stages.language.parts import TEXT

TOGETHER = 100


def answers(agent: Agent, senses: Senses, most: int) -> list[str]:
    """What is written behind the question of each row, likeliest byte by likeliest byte, up to a full stop.

    Args:
        senses: arrays [N, ...] by sense, `text` a list of N questions.
        most: bytes of an answer.
    """
    said: list[str] = []
    for start in range(0, len(senses[TEXT]), TOGETHER):
        part = {name: value[start : start + TOGETHER] for name, value in senses.items()}
        said += answered(agent, collate_tick(part, np.ones(len(part[TEXT]), bool)), most)[0]
    return said


def png(picture: np.ndarray, scale: int = 3) -> bytes:
    """An RGB picture uint8 [H, W, 3] enlarged without smoothing, as PNG."""
    size: Any = (picture.shape[1] * scale, picture.shape[0] * scale)
    large = cv2.resize(np.ascontiguousarray(picture[..., ::-1]), size, interpolation=cv2.INTER_NEAREST)
    return cv2.imencode(".png", large)[1].tobytes()
