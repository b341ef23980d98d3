"""Naming while living: what "this" is, asked in every watched tick, without ever waiting for the disk.

A separate thread looks for changes of memory (by any thread or process; some stores report them at once) and refits the
names, which takes seconds for a thousand examples. The loop asks the last fit.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Self

import numpy as np

from devmind.agent.threads import stepping_threads
from devmind.errors import StoreError
from devmind.live.remembering.recent import RecentBuffer
from devmind.live.remembering.show_and_tell import ShowAndTell
from devmind.memory import Named
from devmind.memory.stores import watching

LOOK_S = 0.5
STRANGE = "Another agent uses this memory now, so names are unknown here; give each agent a --memory of its own."


class Naming:
    """A context manager.

    Attributes:
        fault: why nothing is named, a sentence; '' when all is well.
        is_fitted: whether there was a first fit of the taught names.
    """

    def __init__(self, child: ShowAndTell) -> None:
        self.child, self.fault, self.is_fitted = child, "", False
        self._changed, self._ended = threading.Event(), False
        self._watch = ExitStack()
        # No daemon: it must not be inside numpy when the interpreter exits.
        self._thread = threading.Thread(target=self._fit, name="naming")

    def __enter__(self) -> Self:
        self._thread.start()
        self._watch.enter_context(watching(self.child.names.memory.store, self.changed))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._watch.close()
        self._ended = True
        self._changed.set()
        self._thread.join()

    def changed(self) -> None:
        """Memory has changed: look at once."""
        self._changed.set()

    def of(self, recent: RecentBuffer, above: np.ndarray | None = None) -> dict[str, Named]:
        """The answers for what was sensed lately, by sense; empty where no name was taught, or nothing was sensed.

        `above`: see `ShowAndTell.ask`.
        """
        if not self.child.names.encoders or self.child.strange_names():
            return {}
        try:
            return self.child.ask(recent.example(), refit=False, above=above)
        except StoreError:  # nothing was sensed lately, or another agent took over at this moment
            return {}

    @property
    def is_telling(self) -> bool:
        """Whether the taught names are known here, with keys of this agent."""
        return self.is_fitted and not self.fault

    def is_unsure(self, named: Mapping[str, Named]) -> bool:
        """Whether the thing in view has no name by these answers of `of`: unknown, or no name was taught at all."""
        if not self.is_telling:
            return False
        seen = named.get("sight")
        return "sight" not in self.child.names.encoders if seen is None else seen.name is None

    def _fit(self) -> None:
        with stepping_threads():
            while not self._ended and threading.main_thread().is_alive():
                self._changed.clear()
                try:
                    self.child.names.fit()
                    self.is_fitted = True
                    self.fault = STRANGE if self.child.strange_names() else ""
                except Exception as error:  # catch everything: a dead thread could not report it
                    self.fault = str(error) or type(error).__name__
                self._changed.wait(LOOK_S)
