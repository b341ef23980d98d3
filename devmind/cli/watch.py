"""`devmind watch`: a training run on the page of the live agent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from devmind.cli import show
from devmind.cli.house import Terminated
from devmind.cli.live import OpenOption, PortOption, SecondsOption, open_browser
from devmind.cli.paths import existing


def watch(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="Folder of a run, such as checkpoints/reflex-nursery-seed0.")
    ],
    port: PortOption = 0,
    open_: OpenOption = True,
    seconds: SecondsOption = None,
) -> None:
    """Watch a training run on a page: its lesson, curves and scores. The run is only read."""
    existing(run, "RUN")
    from devmind.live.serving.hub import Hub
    from devmind.live.serving.server import PageServer
    from devmind.live.watching import Watching

    hub = Hub()
    watching = Watching(run, hub)
    with PageServer(watching, hub, port=port) as server:
        show.door(server.address)
        open_browser(server.address, open_)
        try:
            watching.run(seconds)
        except (KeyboardInterrupt, Terminated):
            show.line("stopped")
