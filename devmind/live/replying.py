"""Replying: a head that an exam asks answers a spoken question aloud, as sound in its own voice, not as words.

The head gets what was heard as a separate episode (`devmind.acting.spoken_questions`), in the caller's thread. Speech
that it does not take for a taught question is left to the code that answers words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from devmind.acting.spoken_questions import REPLY, as_asked, ask, sounded
from devmind.acting.standing import Standing, answering
from devmind.agent.agent import Agent
from devmind.errors import DevmindError
from devmind.live.viewing.heard_words import has_passed
from devmind.moment import Moment, Sense

EXAM = "speak_answer/"
"""Prefix of the measures that say what a head of REPLY is worth."""


class Replied(NamedTuple):
    """A spoken answer: the intended word, the head's probability for it, and the head."""

    word: str
    sure: float
    head: str


class Replying:
    """Answers spoken questions for one life.

    Args:
        speaker: plays what `play` is given; None, or one without `play`: no answers.
        answers: by effector the heads that may act, whatever the exams say.
        sure: the probability from which an answer is given.
    """

    def __init__(self, speaker: Any, answers: Standing, sure: float = 0.0) -> None:
        self._speaker, self._answers, self.sure = speaker, answers, sure

    def heads(self, agent: Agent, results: Mapping[str, Any] | None) -> tuple[str, ...]:
        """The heads to ask: those named for it, else those of the agent that can recognise other speech (`refuses`) and
        failed no exam.
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
        """Answer aloud, and return the answer; None if it is no question for these heads, they are not sure of the
        answer, or nothing is seen or heard.

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
        head = next(name for effector, name in done.decided() if effector == REPLY)
        output: Any = done.outputs[head]
        shares = output.probabilities()[0]
        best, labels = int(shares.argmax()), agent.labels_of(head)
        if float(shares[best]) < self.sure:
            return None
        self._speaker.play(partial(sound_of_codes, agent, output.mode()[0]))
        return Replied(labels[best] if labels else f"answer {best}", float(shares[best]), head)


def sound_of_codes(agent: Agent, codes: Any) -> Any:
    """The sound of codes, float32 [1, S].

    Raises:
        DevmindError: no part can decode them.
    """
    sound = sounded(agent, codes)
    if sound is None:
        raise DevmindError("It answered by codes of sound, and no head of this agent can turn them into sound.")
    return sound
