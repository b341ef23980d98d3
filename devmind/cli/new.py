"""`devmind new`: a small installable package as a start for your own stage, sensor or world."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from devmind.cli import show


def new(
    kind: Annotated[str, typer.Argument(metavar="stage|sensor|world", help="The kind of package.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name, as users type it.")],
    out: Annotated[Path, typer.Argument(metavar="[OUT]", help="The folder for the package.")] = Path("."),
) -> None:
    """Write a small installable package that passes its check."""
    from devmind.scaffold import create

    folder = create(kind, name, out)
    show.path(kind, folder)
    typed = shlex.quote(str(folder))
    show.line(f"Next: pip install pytest -e {typed} && python -m pytest {typed}")
