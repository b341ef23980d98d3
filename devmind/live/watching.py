"""A training run on the page of a life: the contents of its journal, once a second, as long as somebody watches.

Nothing is written here, so any number of pages may watch, also from another process or a machine that shares the
folder.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

from devmind.curriculum.journal import Journal
from devmind.errors import ConfigError, DevmindError
from devmind.live.journal_view import JournalView

PERIOD_S = 1.0


class Publisher(Protocol):
    """Receives views: a `Hub`."""

    def publish(self, view: Mapping[str, Any]) -> None:
        """Give every viewer the newest view."""


class Watching:
    """Takes the place of a `Life` for the page's server, but there is nobody to talk to.

    Args:
        run: folder of a stage's run, or of a curriculum, whose newest stage is shown.
        hub: gets a view each second.

    Raises:
        ConfigError: there is no run in that folder.
    """

    mailboxes: tuple[Any, ...] = ()

    def __init__(self, run: Path, hub: Publisher) -> None:
        self.folder, self.hub = run, hub
        self._bytes_by_path: dict[Path, int] = {}
        self.journal_view = JournalView(self._newest(None))

    def _newest(self, shown: Path | None) -> Journal:
        """The journal written last, the folder's own or one of its stages': the one that has grown since the last look,
        else the one `shown`. Times of files decide only at first, because the clock may be set meanwhile.
        """
        found = [*self.folder.glob("journal.jsonl"), *self.folder.glob("*/journal.jsonl")]
        if not found:
            raise ConfigError(
                f"There is no run in '{self.folder}' (no journal.jsonl); give the folder that --out named, "
                "such as checkpoints/reflex-nursery-seed0."
            )
        before, self._bytes_by_path = self._bytes_by_path, {path: path.stat().st_size for path in found}
        grown = [path for path, size in self._bytes_by_path.items() if size != before.get(path)]
        if not grown and shown in found:
            return Journal(shown)
        return Journal(max(grown or found, key=lambda path: path.stat().st_mtime))

    def welcome(self) -> dict[str, Any]:
        """The first message to a page: there is something to watch, and nothing to do."""
        return {
            "type": "welcome", "mode": "watch", "camera": "none", "microphone": "none", "hz": 1 / PERIOD_S,
            "private": False, "ages": [], "age": "", "examples": {}, "can_record": False,
            "version": metadata.version("devmind"), "command": f"devmind watch {self.folder}",
        }  # fmt: skip

    def do(self, command: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Refuse.

        Raises:
            DevmindError: always.
        """
        raise DevmindError(f"Nobody is awake here to '{command}': this page watches a run. Meet one by 'devmind live'.")

    def view(self) -> dict[str, Any]:
        """The current view."""
        newest = self._newest(self.journal_view.journal.path)
        if newest.path != self.journal_view.journal.path:  # a curriculum has started its next stage
            self.journal_view = JournalView(newest)
        self.journal_view.read_on()
        saved_s = self.journal_view.saved_s
        age_s = None if saved_s is None else time.monotonic() - saved_s
        return {"type": "tick", "run": self.journal_view.view() | {"saved_age_s": age_s}}

    def run(
        self,
        seconds: float | None = None,
        stop: Callable[[], bool] = lambda: False,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Publish a view each second for so long (for ever by default) or until `stop()`.

        It goes on after the run has finished, so that a page opened later still shows the end.
        """
        until_s = time.monotonic() + (float("inf") if seconds is None else seconds)
        while True:
            self.hub.publish(self.view())
            if stop() or time.monotonic() >= until_s:
                return
            sleep(min(PERIOD_S, max(0.0, until_s - time.monotonic())))
