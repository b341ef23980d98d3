"""Pages that a command serves: one page from its opening to Ctrl-C.

Commands of stages use this too: a stage provides its page's files and answers, and does not depend on the server.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from devmind.cli import show
from devmind.cli.house import Terminated

if TYPE_CHECKING:
    from devmind.live.serving.conversation import PageLife

L = TypeVar("L", bound="PageLife")


class Publisher(Protocol):
    """The receiver of views."""

    def publish(self, view: Mapping[str, Any]) -> None:
        """Send the newest view to every open page."""


@contextmanager
def serve_page(make: Callable[[Publisher], L], port: int, files: Mapping[str, bytes] | None = None) -> Iterator[L]:
    """A page on this machine during the block; Ctrl-C ends the block.

    Args:
        make: makes the object that answers the page's requests, from the receiver of its views.
        files: the files of another page by name (`index.html`, scripts, styles), which replace those of the live page
            or are added to them. A page runs only scripts that are its own files.
    """
    from devmind.live.serving.hub import Hub
    from devmind.live.serving.server import PageServer

    hub = Hub()
    life = make(hub)
    with PageServer(life, hub, port=port, files=files) as server:
        show.door(server.address)
        show.line("It works once, in one browser; Ctrl-C ends it.")
        open_browser(server.address)
        try:
            yield life
        except (KeyboardInterrupt, Terminated):
            show.line("stopped")


def wait() -> None:
    """Wait for Ctrl-C."""
    while True:
        time.sleep(1.0)


def open_browser(address: str) -> None:
    """Open a browser if there is a desktop; elsewhere a text browser would take over the terminal."""
    if has_desktop():
        import webbrowser

        webbrowser.open(address)


def has_desktop() -> bool:
    """Whether a browser may be opened: somebody at a terminal sees a desktop."""
    desktop = sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return bool(desktop) and sys.stdout.isatty()
