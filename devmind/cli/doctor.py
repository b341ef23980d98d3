"""`devmind doctor`: what this machine has and lacks, with a command for each repair."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from devmind.cli import live_checks, machine, show

MARKS = {True: ("ok", "green"), False: ("mend", "bold red"), None: ("info", "dim")}


def doctor(
    out: Annotated[Path, typer.Argument(metavar="[OUT]", help="Folder for runs.")] = Path("checkpoints"),
) -> None:
    """Check Python, packages, device, disk, sound and cameras; exit 1 if something needs repair."""
    failed = 0
    for check in chain(machine.checks(out), live_checks.checks()):
        mark, style = MARKS[check.ok]
        failed += check.ok is False
        show.line(f"{mark:4}  {check.name}: {check.said}", style)
        if check.mend:
            show.line(f"      {check.mend}", "" if check.ok is False else "dim")
    show.line("\nAll is well." if not failed else f"\n{failed} to mend: run the command below each line marked 'mend'.")
    raise typer.Exit(1 if failed else 0)
