"""`devmind checkpoint`: what a run saved inside its lessons, whether it is whole, and any step again."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from devmind.checkpointing import generations
from devmind.checkpointing.lock import lock_folder
from devmind.cli import house, show
from devmind.cli.paths import existing
from devmind.errors import CheckpointError, ConfigError

app = house.group("Look at what a run saved inside its lessons, check it, and go back to any step.")

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a stage's run, or of a night.")]


@app.command("list")
def list_checkpoints(run: RunArgument) -> None:
    """List the checkpoints of a run and of its backup, the newest first; 'devmind checkpoint verify' checks them."""
    rows = []
    for path in _saved(run):
        try:
            about = generations.read_manifest(path)["about"]
            said = (about["lesson"], f"{about['step']:,} of {about['steps']:,}", show.when(about["time"]))
        except CheckpointError:
            said = ("damaged", "", "")
        size = sum(file.stat().st_size for file in path.iterdir())
        rows.append((path.name, *said, show.megabytes(size), path.parent))
    show.table(("checkpoint", "lesson", "step", "saved", "size", "in"), rows)


@app.command()
def verify(run: RunArgument) -> None:
    """Check every byte of a run's checkpoints and of their backups. Exit code 0: all are whole; 1: one is not."""
    faults = 0
    for path in _saved(run):
        try:
            generations.verify(path)
            show.line(f"{path}: whole")
        except CheckpointError as error:
            faults += 1
            show.line(str(error), style="red")
    if faults:
        raise typer.Exit(1)


@app.command()
def restore(
    run: RunArgument,
    step: Annotated[int, typer.Option("--step", min=1, metavar="N", help="Step of the lesson that was saved last.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="New folder for the agent as it was then.")],
) -> None:
    """Make the agent again as it was behind a step of a lesson, bit for bit.

    The lesson is taught again from the newest checkpoint at or before that step; the run stays as it is.
    """
    _saved(run)
    if out.exists():
        raise ConfigError(f"'{out}' (--out) is there already; give a new folder.")
    show.print_loading()
    from devmind.curriculum.stage_run import replay

    begun = time.monotonic()
    lesson, since = replay(run, step, out)
    show.line(f"{lesson}: step {step:,}, taught again from step {since:,} in {time.monotonic() - begun:.1f} s")
    show.path("agent", out)


@app.command()
def prune(
    run: RunArgument,
    keep: Annotated[
        int, typer.Option("--keep", min=1, metavar="N", help="How many stay, of those that are whole.")
    ] = 1,
) -> None:
    """Delete a run's older checkpoints and what interrupted writes have left; nothing if too few are whole."""
    _saved(run)
    for shelf in _shelves(run):
        with lock_folder(shelf):
            for path in generations.retire(shelf, keep):
                show.line(f"deleted {path}")


def _shelves(run: Path) -> list[Path]:
    """The folders in which a run's checkpoints and their backups lie."""
    from devmind.config import load
    from devmind.curriculum.finished import shelves

    existing(run, "RUN")
    settings = run / "config.yaml"
    backup: dict[str, Any] = {} if not settings.is_file() else {"config": load(str(settings))}
    return [shelf for shelf in shelves(run, **backup) if shelf is not None and shelf.is_dir()]


def _saved(run: Path) -> list[Path]:
    """The checkpoints of a run, the newest first.

    Raises:
        ConfigError: there are none.
    """
    found = [path for shelf in _shelves(run) for path in generations.on_shelf(shelf)]
    if not found:
        inner = next(iter(sorted(run.glob("*/checkpoints"))), None)
        hint = f"give the folder of one stage, such as {inner.parent}" if inner else "give the folder of a stage's run"
        raise ConfigError(f"'{run}' has no checkpoints; {hint}.")
    return sorted(found, key=generations.number_of, reverse=True)
