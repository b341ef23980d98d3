"""Replying: a question that was spoken is answered aloud by the head that an exam asks, in its own voice and no words.

What was heard is put to it as an episode of its own (`devmind.acting.asked_aloud`), in the thread of who is spoken to.
What it takes for no question that it was taught, it leaves to who answers words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from devmind.acting.asked_aloud import REPLY, as_asked, ask, sounded
from devmind.acting.standing import Standing, answering
from devmind.agent.agent import Agent
from devmind.errors import DevmindError
from devmind.live.viewing.heard_words import has_passed
from devmind.moment import Moment, Sense

EXAM = "speak_answer/"
"""How the names of measures begin that say what a head of REPLY is worth."""


class Replied(NamedTuple):
    """What was answered aloud: the word that is meant, the head's share of it, and the head."""

    word: str
    sure: float
    head: str


class Replying:
    """Answers for one life what is asked aloud.

    Args:
        speaker: plays what `play` is given; None, or one without `play`: nothing is answered so.
        answers: by effector the heads that may act, whatever exams say.
    """

    def __init__(self, speaker: Any, answers: Standing) -> None:
        self._speaker, self._answers = speaker, answers

    def heads(self, agent: Agent, results: Mapping[str, Any] | None) -> tuple[str, ...]:
        """Who is asked: heads that were named for it, else those of the agent that can tell what is no question
        (`refuses`) and failed no exam.
        """
        if REPLY not in agent.effectors or not hasattr(self._speaker, "play"):
            return ()
        named = answering(agent, self._answers).get(REPLY)
        if named or has_passed(results, EXAM) is False:
            return named or ()
        every = agent.heads_of(REPLY, standby=True)
        return tuple(name for name in every if getattr(agent.head(name), "refuses", False))

    def reply(
        self, agent: Agent, results: Mapping[str, Any] | None, heard: Sequence[Moment], sight: Sense | None
    ) -> Replied | None:
        """Answer aloud, and say what; None where that is no question of its own, or nothing is seen or heard.

        Args:
            results: of the agent's exams.
            heard: Moments in a row, each with sound.
        """
        heads = self.heads(agent, results)
        if not heads or not heard or sight is None:
            return None
        done = ask(agent, as_asked(heard, sight), heads)
        if not bool(done.acted.get(REPLY, [False])[0]):
            return None
        head = next(name for name, count in done.answered[REPLY].items() if count)
        output: Any = done.outputs[head]
        shares = output.probabilities()[0]
        best, labels = int(shares.argmax()), agent.labels_of(head)
        self._speaker.play(partial(sound_of_codes, agent, output.mode()[0]))
        return Replied(labels[best] if labels else f"answer {best}", float(shares[best]), head)


def sound_of_codes(agent: Agent, codes: Any) -> Any:
    """How codes sound, float32 [1, S].

    Raises:
        DevmindError: nobody can tell.
    """
    sound = sounded(agent, codes)
    if sound is None:
        raise DevmindError("It answered by codes of sound, and no head of this agent says how they sound.")
    return sound
