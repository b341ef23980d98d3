"""A baseline of `speak_answer`: the cascade of the other skills, each by the head of its own exam.

`hear_words` gives the words, the nearest question is written on a page beside the picture, `answer` of language writes
the answer, and `say` says its word.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from devmind.agent.agent import Agent
from devmind.agent.batch import collate_tick
from devmind.agent.writing import answer_questions
from stages.voice.caregiver.speech import SPOKEN
from stages.voice.hear_words.exam import frames_of
from stages.voice.parts import SAY, SIGHT, TEXT, WORDS
from stages.voice.say.head import MANNER, MOMENTS
from stages.voice.say.lesson import pages, said_mel
from stages.voice.speak_answer.asked import PAIRS, questions
from stages.voice.transcript import errors, read_off
from stages.voice.vocoder import sound_of

LONGEST = 20
"""Bytes of a written answer."""
TOGETHER = 50
NOTHING_SAID = np.zeros(MOMENTS * 1600, np.float32)


def is_whole(agent: Agent) -> bool:
    """Whether an agent has the heads of all three skills."""
    return {WORDS, TEXT, SAY} <= set(agent.heads)


def heard_questions(agent: Agent, waves: Sequence[np.ndarray]) -> list[str]:
    """The question with the least edit distance, in words, to what is heard in each sound float32 [S]."""
    found, counts = frames_of(agent, waves, [WORDS])
    texts = [question.text for question in questions(PAIRS)]
    known = [text.split() for text in texts]
    heard = [text.split() for text in read_off(found[WORDS], counts)]
    return [texts[int(np.argmin([errors(words, one) for one in known]))] for words in heard]


def written_answers(agent: Agent, texts: Sequence[str], sight: np.ndarray) -> list[str]:
    """The written answer to each question about its picture uint8 [N, 64, 64, 3], reduced to its last word that `say`
    was taught; '' if there is none.
    """
    replies = list[str]()
    for rows in np.array_split(np.arange(len(texts)), -(-len(texts) // TOGETHER)):
        senses = {SIGHT: sight[rows], TEXT: [f"{texts[row]}?" for row in rows]}
        replies += answer_questions(agent, collate_tick(senses, np.ones(len(rows), bool)), LONGEST)[0]
    known_words = ([word for word in text.strip(" .?").split() if word in SPOKEN] for text in replies)
    return [words[-1] if words else "" for words in known_words]


def said_aloud(agent: Agent, words: Sequence[str]) -> list[np.ndarray]:
    """Each word said by the head `say`, in the middle manner, as sound float32 [16000]; silence for ''."""
    different = sorted({word for word in words if word})
    if not different:
        return [NOTHING_SAID] * len(words)
    output: Any = agent(pages(different), [SAY])[SAY]
    middle = torch.zeros(len(different), 1, MANNER, device=agent.device)
    sounds = sound_of(said_mel(agent, output.levels(middle)[:, 0]).cpu()).numpy()
    by_word = dict(zip(different, sounds, strict=True))
    return [by_word.get(word, NOTHING_SAID) for word in words]


def cascade(agent: Agent, waves: Sequence[np.ndarray], sight: np.ndarray) -> list[np.ndarray]:
    """The spoken answers, sounds float32 [16000], to questions heard as sounds float32 [S] about pictures."""
    return said_aloud(agent, written_answers(agent, heard_questions(agent, waves), sight))
