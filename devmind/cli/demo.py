"""`devmind demo`: a whole life in 90 seconds, without camera and microphone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from devmind.cli import show
from devmind.cli.serving import has_desktop, open_browser


def demo() -> None:
    """Show in 90 seconds, on a clip and without devices, how it is taught, killed, woken and told to forget.

    A thing gets a name by one press and is known again elsewhere, a stranger is not; the process is killed and woken
    again, still knows it, and forgets it; then one exam is held. The memory is a temporary folder.

    Exit code 0: all came out as promised; 1: something did not; 2: an error.
    """
    from devmind.live.demonstration import Demonstration

    page = _open_page if has_desktop() else None
    raise typer.Exit(0 if Demonstration(show.line, _exam, page).run() else 1)


def _open_page(address: str) -> None:
    show.door(address)
    open_browser(address)


def _exam() -> Mapping[str, Any]:
    """The exam of balance, as `devmind stage exam reflex --skill balance` holds it."""
    from devmind.cli.settings import run_config
    from devmind.curriculum.runner import examine
    from devmind.raised import FOLDER, SIZE

    return examine("reflex", FOLDER, run_config(SIZE), skill="balance")["skills"]["balance"]
