"""`devmind watch`: a training run on the page of the live agent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from devmind.cli.paths import existing
from devmind.cli.serving import serve_page


def watch(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="Folder of a run, such as checkpoints/reflex-nursery-seed0.")
    ],
    port: Annotated[int, typer.Option("--port", min=0, max=65535, metavar="N", help="Port of the page; 0: any.")] = 0,
) -> None:
    """Watch a training run on a page: its lesson, curves and scores. The run is only read."""
    existing(run, "RUN")
    from devmind.live.watching import Watching

    with serve_page(lambda publisher: Watching(run, publisher), port) as watching:
        watching.run()
