"""Naming while living: what "this" is, asked in every watched tick, without ever waiting for the disk.

A separate thread looks for changes of memory (by any thread or process; some stores report them at once) and refits the
names, which takes seconds for a thousand examples. The loop asks the last fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, Self

import numpy as np

from devmind.agent.threads import stepping_threads
from devmind.errors import StoreError
from devmind.live.remembering.recent import RecentBuffer
from devmind.live.remembering.show_and_tell import ShowAndTell
from devmind.memory import Named
from devmind.memory.stores import watching
from devmind.worker import Worker

LOOK_S = 0.5
STRANGE = "Another agent uses this memory now, so names are unknown here; give each agent a --memory of its own."


class Naming(Worker[bool]):
    """Attributes:
    is_fitted: whether there was a first fit of the taught names.
    """

    def __init__(self, child: ShowAndTell) -> None:
        super().__init__("naming", idle_s=LOOK_S)
        self.child, self.is_fitted = child, False
        self._watch = ExitStack()

    def __enter__(self) -> Self:
        self.changed()
        super().__enter__()
        self._watch.enter_context(watching(self.child.names.memory.store, self.changed))
        return self

    def __exit__(self, *error: Any) -> None:
        self._watch.close()
        super().__exit__(*error)

    def changed(self) -> None:
        """Memory has changed: look at once."""
        self.put(True)

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

    def work(self, item: bool) -> None:
        with stepping_threads():
            self.child.names.fit()
        self.is_fitted = True
        self.fault = STRANGE if self.child.strange_names() else ""

    def idle(self) -> None:
        self.work(True)
