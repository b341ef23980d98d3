"""What is spoken to it, sentence by sentence, put to whoever answers it.

A command of a life may take seconds (a name is taught by what is held up meanwhile) and asks for the loop's thread
between two ticks, so words that were heard are put to it in a thread of their own, one sentence after another.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from devmind.errors import DevmindError, StoreError
from devmind.moment import Moment

Say = Callable[[str, Sequence[Moment]], Mapping[str, Any]]
"""What is done with words and with how they sounded, and its answer, as `Commands.hear` has it; empty for none."""
UNSURE = "…"
"""What is shown of a sentence of which no word is sure."""
WAITING = 2
"""Sentences that wait at most: who is answered late has gone on by then."""


class SpokenTo:
    """A context manager; from its begin to its end sentences are answered.

    Args:
        say: what is done with each, in this object's thread.
        aloud: says a sentence that is no answer: why a name was not taught.

    Attributes:
        fault: why the last sentence was not answered; '' where it was.
    """

    def __init__(self, say: Say, aloud: Callable[[str], None]) -> None:
        self.fault = ""
        self._say, self._aloud = say, aloud
        self._waiting: queue.Queue[tuple[str, Sequence[Moment]] | None] = queue.Queue(WAITING)
        self._last: dict[str, Any] = {}
        self._count = 0
        # No daemon: it must not be inside torch when the interpreter goes away.
        self._thread = threading.Thread(target=self._run, name="spoken to")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._thread.is_alive():
            self._waiting.put(None)
            self._thread.join()

    def take(self, words: str, heard: Sequence[Moment] = ()) -> None:
        """A sentence was heard, '' for none that it is sure of, and sounded so; at once. It is left out where others
        wait already, or nobody answers.
        """
        if (words or heard) and self._thread.is_alive():
            try:
                self._waiting.put_nowait((words, heard))
            except queue.Full:
                self.fault = f"So much was said that “{words or UNSURE}” was not answered; wait for an answer."

    def shown(self) -> dict[str, Any]:
        """For the page: the `text` that was answered last, its `answer`, how `sure` it was where the sound itself was
        answered and not the words, and its `number`; empty before the first.
        """
        return {**self._last, "number": self._count} if self._last else {}

    def _run(self) -> None:
        while (sentence := self._waiting.get()) is not None:
            words, heard = sentence
            try:
                answer = self._say(words, heard)
            except StoreError as error:  # what was said is no name, or nothing is there to be named: that is an answer
                self._aloud(str(error))
                answer = {"answer": str(error)}
            except DevmindError as error:
                self.fault = str(error)
                continue
            if not answer:
                continue
            own = answer.get("learned", answer.get("own"))
            self._last = {"text": words or UNSURE, "answer": own["text"] if own else answer["answer"]}
            self._last |= {"sure": answer["sure"]} if "sure" in answer else {}
            self._count += 1
            self.fault = ""
