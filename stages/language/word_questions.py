"""Questions answered by words taught once: "what is that?" and "where is the zib?".

Hand-written rules tell the two questions by the form of the sentence. The answer comes from the agent's heads and its
memory, by the code of the exam of new words (`stages.language.taught_words`), in the words of the lessons.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from devmind.acting.sentences import names_in, request
from devmind.agent.agent import Agent
from devmind.errors import StoreError
from devmind.memory import Memory
from devmind.moment import Sense
from stages.language.own_words import THERE, OwnWords, middle_of
from stages.language.taught_words import WHAT, answers_by_looks, ask, memories_of, where

_WHERE = request(r"(?:where|find|point (?:at|to))\b")
_WHAT = request(
    r"(?:what|who)(?:['’]?s|\s+(?:is|are|do you call))\s+(?:this|that|it|these|those)\b(?:\s+thing)?\W*"
    r"(?:called|named|again|then|now|here|there)?\W*$"
)
_ONE_THING = re.compile(r"\b(?:this|that|it|these|those)\b", re.IGNORECASE)


def is_what_question(text: str) -> bool:
    """Whether it asks what one thing is, as "what is that?" does."""
    return _WHAT.match(text) is not None


def is_where_question(text: str) -> bool:
    """Whether it asks where something is, as "where is the cup?" does."""
    return _WHERE.match(text) is not None


def is_about_one(text: str) -> bool:
    """Whether it is about one shown thing: then the agent looks at the thing held up."""
    return not is_where_question(text) and _ONE_THING.search(text) is not None


def answer_by_look(
    agent: Agent, memory: Memory, hashes: Mapping[str, str], text: str, sight: Sense | None
) -> OwnWords | None:
    """What the agent says, or where it points, by what was taught with one look.

    None if the text is neither question, nothing is seen, the agent has no word for it or no heads for words taught
    once, the thing was taught by its sound alone, or the memory's keys are another agent's.

    Args:
        hashes: of the encoders that made the memory's keys.
        sight: what it looks at, uint8 [64, 64, 3].
    """
    if not isinstance(sight, np.ndarray) or not answers_by_looks(agent):
        return None
    known = memory.index.update().known
    names = names_in(text, known)
    is_where = is_where_question(text)
    if not (names if is_where else known and is_what_question(text)):
        return None
    question, recall = where(names[0]) if is_where else WHAT, memories_of(agent, [memory], hashes)
    try:
        found = ask(agent, recall, sight[None], [question])
    except StoreError:
        return None
    if is_where:
        if names[0] not in {entry.name for entry in recall.entries[0]}:
            return None  # without a look at it the head would point at another thing
        return OwnWords(THERE, float(found.cells_sure[0]), middle_of(int(found.cells[0])))
    return OwnWords(found.words[0], float(found.sure[0]), None) if found.words[0] else None
