"""`devmind data`: public sets from their own sources, in the layout that `--data` reads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from devmind.cli import show


def data(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="The set to fetch; without it, the sets are listed.")
    ] = None,
    out: Annotated[Path, typer.Argument(metavar="[OUT]", help="The data folder.")] = Path("data"),
) -> None:
    """List public data sets, or fetch one; it resumes after an interruption and verifies checksums."""
    from devmind.datasets import CATALOGUE, find
    from devmind.datasets import get as fetch

    if name is None:
        for item in CATALOGUE:
            show.line(f"{item.name} ({show.megabytes(item.size)}): {item.about}")
            show.line(f"    {item.licence}; {item.home}", "dim")
        show.line("\nFetch one: devmind data NAME")
        return
    columns = (TextColumn(name), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, transient=True, console=show.console()) as progress:
        task = progress.add_task(name, total=find(name).size)
        got = fetch(name, out, lambda here: progress.update(task, completed=here))
    state = "were there already" if got.already else "fetched and verified"
    show.line(f"{name}: {show.count_of(len(got.paths), 'file')} {state}")
    show.path("--data", out)
