"""Output of the commands: tables and lines that read well on a terminal, in a pipe, and at 80 columns.

Credentials are never printed, except the address of a page by `door`. Text from strangers cannot control the terminal:
see `bounds.printable`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from devmind.bounds import printable
from devmind.errors import without_secrets
from devmind.report.grid import plain_grid

PIPE_CLOSED = 141
"""The exit code if the reader closes the output, as in shells: 128 plus the number of SIGPIPE."""


class PipedConsole(Console):
    """A console that ends with the exit code of a closed pipe; Rich's own code is 1, which means a failed gate."""

    def on_broken_pipe(self) -> None:
        """Discard the rest of the output and end the process."""
        nobody_reads()
        raise SystemExit(PIPE_CLOSED)


def nobody_reads() -> None:
    """Discard what is left for stdout, so that the interpreter does not complain at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def console() -> Console:
    """A console on the current stdout; made anew, because tests and pipes replace stdout."""
    return PipedConsole(highlight=False, soft_wrap=False)


def line(text: str = "", style: str = "") -> None:
    """Print one line at once, also into a pipe; never wrapped, so that paths and commands can be copied."""
    _print(without_secrets(text), style)


def door(address: str) -> None:
    """Print the whole address of a page, with the token for the user of this terminal."""
    _print(f"open this page: {address}")


def _print(text: str, style: str = "") -> None:
    out = console()
    out.print(escape(printable(text)), style=style or None, soft_wrap=True)
    out.file.flush()


def lamp(text: str) -> None:
    """Print a line that begins with a red "recording"."""
    console().print(f"[bold red]recording[/] {escape(printable(without_secrets(text)))}", soft_wrap=True)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], wrapping: Collection[str] = ()) -> None:
    """A plain table; the last column takes the remaining width, or is printed under its row.

    Args:
        wrapping: further columns that may be wrapped if there is no room. All others keep their full width, because a
            cropped number is another number.
    """
    cells = [[printable(without_secrets(str(cell))) for cell in row] for row in rows]
    console().print(plain_grid(columns, cells, wrapping))


LOADING = "loading takes some seconds"


def print_loading() -> None:
    """Print on stderr, before heavy imports, that they take a while."""
    print(LOADING, file=sys.stderr, flush=True)


def loading() -> AbstractContextManager[Callable[[int], None]]:
    """`print_loading`, and a bar on a terminal until the `with` block ends."""
    print_loading()
    return working("loading")


@contextmanager
def working(what: str, most: int | None = None) -> Iterator[Callable[[int], None]]:
    """Show a bar during some work on a terminal, and nothing elsewhere; the bar is removed at the end.

    Yields a function to call with the amount of further work done.

    Args:
        what: name of the work.
        most: largest amount of work; None if unknown.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    out = console()
    out.soft_wrap = True  # a note printed meanwhile stands above the bar, and can be copied
    counts = () if most is None else (MofNCompleteColumn(),)
    columns = (TextColumn(what), BarColumn(), *counts, TimeElapsedColumn())
    with Progress(*columns, transient=True, console=out, disable=not out.is_terminal) as progress:
        task = progress.add_task(what, total=most)
        yield lambda more: progress.advance(task, more)


def megabytes(size: int) -> str:
    """A size in readable form."""
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"


def count_of(number: int, what: str, many: str | None = None) -> str:
    """`1 file`, `2,000 files`; `many` is the plural if it is irregular."""
    return f"{number:,} {what if number == 1 else many or what + 's'}"


def entries(number: int) -> str:
    """`1 entry`, `2,000 entries`."""
    return count_of(number, "entry", "entries")


def memories(number: int) -> str:
    """`1 memory`, `2,000 memories`."""
    return count_of(number, "memory", "memories")


def when(time_s: float | None) -> str:
    """Seconds since 1970 as local time."""
    try:
        return "never" if time_s is None else f"{datetime.fromtimestamp(time_s):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):  # older imports accepted any number
        return f"{time_s:g} s, which is no time"


def path(label: str, place: Path) -> None:
    """Print a labelled path, relative to the working folder if it lies below."""
    line(f"{label}: {_from_here(place)}")


def place(memory: str) -> str:
    """The place of a memory in readable form: a folder like other paths, a URL without credentials."""
    from devmind.memory.stores import folder_of

    folder = folder_of(memory)
    return without_secrets(memory) if folder is None else str(_from_here(folder))


def _from_here(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def verdict(results: Path, page: Path) -> None:
    """The verdict table of a results.json, and where its page is."""
    from devmind.report.results import load
    from devmind.report.table import verdict_table

    console().print(verdict_table(load(results)))
    path("report", page)
