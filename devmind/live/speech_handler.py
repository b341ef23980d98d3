"""Speech to the agent, passed sentence by sentence to the code that answers.

A command of a life may take seconds (a name is taught by the thing held up meanwhile) and needs the loop's thread
between two ticks. So heard words are handled in a separate thread, one sentence after another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from devmind.acting.abilities import Reply, Sentence
from devmind.errors import DevmindError, StoreError
from devmind.worker import Worker

Say = Callable[[Sentence], Reply]
"""Answers a sentence, as `Life.reply`; with no text where it has no answer."""
UNSURE = "…"
"""Shown for a sentence without any sure word."""
WAITING = 2
"""Sentences that wait at most: a late answer would no longer fit."""


class SpeechHandler(Worker[Sentence]):
    """Answers sentences while it is open.

    Args:
        say: handles each sentence, in this object's thread.
        aloud: speaks a sentence that is no answer: why a name was not taught.

    Attributes:
        fault: why the last sentence was not answered; '' where it was.
    """

    def __init__(self, say: Say, aloud: Callable[[str], None]) -> None:
        super().__init__("spoken to", WAITING)
        self._say, self._aloud = say, aloud
        self._last: dict[str, Any] = {}
        self._count = 0

    def take(self, sentence: Sentence) -> None:
        """A sentence was heard; returns at once. It is dropped if others already wait, or nobody answers."""
        if self._thread.is_alive() and not self.put(sentence, if_room=True):
            self.fault = f"“{sentence.text or UNSURE}” was not answered, since others were waiting; wait for an answer."

    def shown(self) -> dict[str, Any]:
        """For the page: the `text` answered last, its `answer`, its `number`, and `sure` where the sound itself was
        answered and not the words; empty before the first.
        """
        return {**self._last, "number": self._count} if self._last else {}

    def work(self, item: Sentence) -> None:
        words = item.text or UNSURE
        try:
            reply = self._say(item)
        except StoreError as error:  # a name that does not fit, or nothing to name: that is an answer
            self._aloud(str(error))
            reply = Reply(str(error))
        except DevmindError:
            raise
        except Exception as error:
            raise DevmindError(
                f"“{words}” was not answered ({type(error).__name__}: {error}); it goes on with the next sentence. "
                "Please report it."
            ) from error
        if not reply.text:
            return
        self._last = {"text": words, "answer": reply.said}
        self._last |= {"sure": reply.fields["sure"]} if "sure" in reply.fields else {}
        self._count += 1
        self.fault = ""
