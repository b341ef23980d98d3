"""`devmind report`: the verdict of a finished run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from devmind.cli import show
from devmind.cli.house import group
from devmind.cli.paths import existing
from devmind.errors import ConfigError, DevmindError

if TYPE_CHECKING:
    from devmind.report.results import Results

app = group("Results of runs: show.")


@app.command("show")
def show_(
    run: Annotated[
        Path | None, typer.Argument(metavar="[RUN]", help="A run's folder; else the newest in ./checkpoints.")
    ] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Print the verdict of a run and the path of its page."""
    results = newest_results(existing(run, "RUN") or Path("checkpoints"))
    page = results.with_name("report.html")
    show.verdict(results, page)
    if open_page:
        typer.launch(page.resolve().as_uri())


def newest_of(stage: str, folder: Path = Path("checkpoints")) -> Results | None:
    """The results of a stage's newest run below `folder`; None if none has ended, or they cannot be read."""
    from devmind.report.results import load

    found = sorted(folder.glob(f"**/reports/{stage}/results.json"), key=lambda path: path.stat().st_mtime)
    try:
        return load(found[-1]) if found else None
    except DevmindError:
        return None


def newest_results(folder: Path) -> Path:
    """The newest results.json of the runs in `folder`, which may be one of them."""
    found = [*folder.glob("**/reports/*/results.json"), *folder.glob("results.json")]
    if not found:
        raise ConfigError(f"There is no run in '{folder}' that has ended; 'devmind stage run reflex' makes one.")
    return max(found, key=lambda path: path.stat().st_mtime)
