"""What an agent of the stage language says in a life: answers in its own words, taught words, and what it doubts.

A taught word is found by what was shown with it (`word_questions.py`), and if it points at a thing, it writes nothing
else. Otherwise it writes (`own_words.py`): nothing if it is not sure, if its lessons never ask that, or about a picture
unlike those of its lessons. Whether it has a word for a thing held up is decided by the head of the exam of conversing
(`taught_words.ask`), in a thread beside the loop: the agent starts a new episode, looks, and recalls what was taught by
a look.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from devmind.acting.abilities import Ability, Doubt, Look, Reply, Surroundings
from devmind.acting.sentences import is_name
from devmind.agent.agent import Agent
from devmind.agent.threads import stepping_threads
from devmind.errors import StoreError
from devmind.memory import Memory
from stages.language.own_words import Dialogue, OwnWords, can_write, example_questions, is_in_lessons, questions
from stages.language.taught_words import WHAT, answers_by_looks, ask, memories_of
from stages.language.word_questions import answer_by_look, is_about_one

NO_WORDS = "It has no words for that."
ELSEWHERE = "It learned to answer this in a room of coloured boxes; here it is unsure."


class Talk(Ability):
    """The agent's own words in one life: `own` is what it writes, and `learned` what it answers by taught words."""

    def __init__(self, life: Surroundings) -> None:
        super().__init__(life)
        self.dialogue = Dialogue(life.sure)
        self._thread = ThreadPoolExecutor(1, "doubting")
        self._begun: Future[Doubt] | None = None

    def wants(self, agent: Agent) -> bool:
        return can_write(agent) or answers_by_looks(agent)

    def questions(self) -> list[str]:
        return example_questions(self.life.agent)

    def remark(self, text: str, look: Look) -> Reply | None:
        """Own words, if there are any; else the reason, with questions that its lessons ask."""
        agent = self.life.agent
        sight = look.held if look.sight is not None and look.held is not None and is_about_one(text) else look.sight
        found, why = dict[str, OwnWords](), ""
        writes = can_write(agent)
        learned = answer_by_look(agent, self.life.memory, self.life.hashes, text, sight)
        if learned is not None:
            found["learned"] = learned
        if (learned is not None and learned.points is not None) or (writes and sight is None):
            pass  # it points once; and it says nothing about a picture that is not there
        elif writes and is_in_lessons(text, questions(agent)) and self.life.is_elsewhere(sight):
            why = "" if found else ELSEWHERE
        else:
            if written := self.dialogue.reply(agent, text, sight, time.monotonic()):
                found["own"] = written
            why = NO_WORDS if writes and not found and not is_name(text) else ""
        if not found and not writes:
            return None
        fields = {what: {**words._asdict(), "sure": round(words.sure, 3)} for what, words in found.items()}
        aloud = next((words.text for words in found.values()), None)
        return Reply(why, aloud, {**fields, **({"questions": self.questions()} if why else {})})

    @property
    def doubts(self) -> bool:
        return answers_by_looks(self.life.agent)

    def doubt(self, look: np.ndarray) -> Doubt | None:
        """The answer to the look that started this; None until there is one."""
        if self._begun is None:
            about = self.life.agent, self.life.memory, self.life.hashes, look.copy()
            self._begun = self._thread.submit(_stepping, *about)
        if not self._begun.done():
            return None
        begun, self._begun = self._begun, None
        try:
            found = begun.result()
        except Exception as error:  # catch everything: the loop goes on, and the page reports it
            self.fault = str(error) or type(error).__name__
            return Doubt(False, 0.0, "")
        self.fault = ""
        return found

    def look_away(self) -> None:
        self._begun = None

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)


def doubt_of(agent: Agent, memory: Memory, hashes: Mapping[str, str], sight: np.ndarray) -> Doubt:
    """The answer of an agent with heads for words taught once to a look, uint8 [64, 64, 3].

    For another agent's memory there is no answer and no question.

    Args:
        hashes: of the encoders that made the memory's keys.
    """
    try:
        found = ask(agent, memories_of(agent, [memory], hashes), sight[None], [WHAT])
    except StoreError:
        return Doubt(False, 0.0, "")
    return Doubt(bool(found.asks[0]), float(found.doubt[0]), found.nearest[0])


def _stepping(agent: Agent, memory: Memory, hashes: Mapping[str, str], sight: np.ndarray) -> Doubt:
    with stepping_threads():
        return doubt_of(agent, memory, hashes, sight)
