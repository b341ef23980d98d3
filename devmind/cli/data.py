"""`devmind data`: public sets from their own sources, in the layout that `--data` reads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from devmind.cli import show
from devmind.cli.house import group

app = group("Public data sets from their own sources: list, get.")


@app.command("list")
def list_() -> None:
    """Show the sets that can be fetched."""
    from devmind.datasets import CATALOGUE

    for item in CATALOGUE:
        show.line(f"{item.name} ({show.megabytes(item.size)}): {item.about}")
        show.line(f"    {item.licence}; {item.home}", "dim")
    show.line("\nFetch one: devmind data get NAME --out data")


@app.command()
def get(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A set of 'devmind data list'.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The data folder.")] = Path("data"),
) -> None:
    """Fetch a set into a data folder; resumes after an interruption and verifies checksums."""
    from devmind.datasets import find
    from devmind.datasets import get as fetch

    columns = (TextColumn(name), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, transient=True, console=show.console()) as progress:
        task = progress.add_task(name, total=find(name).size)
        got = fetch(name, out, lambda here: progress.update(task, completed=here))
    state = "were there already" if got.already else "fetched and verified"
    show.line(f"{name}: {show.counted(len(got.paths), 'file')} {state}")
    show.path("--data", out)
