"""Whether the agent has a word for the thing held up, by the head that the exams ask; in a thread beside the loop.

`devmind.acting.taught_words` answers, as in the exam of conversing: the agent starts a new episode, looks, and recalls
what was taught by a look. An agent without these heads is not asked here, but by naming (`naming.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

import numpy as np

from devmind.acting.taught_words import WHAT, ask, memories_of
from devmind.agent.agent import Agent
from devmind.agent.threads import stepping_threads
from devmind.errors import StoreError
from devmind.live.remembering.asking import Doubt
from devmind.memory import Memory


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


class Wondering:
    """A context manager whose thread handles one look at a time.

    Attributes:
        fault: why nothing is wondered about, a sentence; '' when all is well.
    """

    def __init__(self, memory: Memory) -> None:
        self.memory, self.fault = memory, ""
        self._threads = ThreadPoolExecutor(1, "wondering")
        self._begun: Future[Doubt] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._threads.shutdown(cancel_futures=True)

    def about(self, agent: Agent, hashes: Mapping[str, str], sight: np.ndarray) -> Doubt | None:
        """The answer to the look that started this; None until there is one."""
        if self._begun is None:
            self._begun = self._threads.submit(_stepping, agent, self.memory, hashes, sight.copy())
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

    def drop(self) -> None:
        """The thing was removed: drop the look."""
        self._begun = None


def _stepping(agent: Agent, memory: Memory, hashes: Mapping[str, str], sight: np.ndarray) -> Doubt:
    with stepping_threads():
        return doubt_of(agent, memory, hashes, sight)
