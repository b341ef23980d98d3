"""`devmind report`: how far a run is, its verdict, and a comparison of two."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from devmind.cli import curriculum, show
from devmind.cli.paths import existing, writable_file
from devmind.errors import ConfigError, DevmindError

if TYPE_CHECKING:
    from devmind.report.results import Results

PAGE_BYTES = 256 << 20
"""The largest page that is read to see whether it may be replaced."""


def report(
    run: Annotated[
        Path | None,
        typer.Argument(metavar="[RUN]", help="Folder of a run or a childhood; else the newest run in ./checkpoints."),
    ] = None,
    other: Annotated[
        Path | None,
        typer.Argument(metavar="[OTHER]", help="Another run of the same stage, such as of another seed, to compare."),
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The page of a comparison.")] = Path(
        "compare.html"
    ),
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Print how far a run is, its verdict and the path of its page; or compare it with another run.

    A comparison is one offline page with two runs side by side: gates, scores, differences, and curves over one
    another.
    """
    page = _shown(run) if other is None else _compared(run or Path(), other, out)
    if open_page and page:
        typer.launch(page.resolve().as_uri())


def _shown(run: Path | None) -> Path | None:
    """Print the position of a childhood or of a run that has not ended, and the verdict of the newest that has."""
    folder = existing(run, "RUN") or Path("checkpoints")
    ended = any(_results(folder))
    if (folder / curriculum.JOURNAL).is_file() or (not ended and (folder / "journal.jsonl").is_file()):
        curriculum.show_position(folder)
        if not ended:
            return None
    results = newest_results(folder)
    page = results.with_name("report.html")
    show.verdict(results, page)
    return page


def _compared(one: Path, other: Path, out: Path) -> Path:
    """Write the page of a comparison."""
    from devmind.bounds import read_file
    from devmind.report.compare import MARK, render
    from devmind.report.results import load

    files = [
        path if path.is_file() else newest_results(existing(path, label) or path)
        for path, label in ((one, "RUN"), (other, "OTHER"))
    ]
    writable_file(out, "--out")
    if out.exists() and MARK.encode() not in read_file(out, ConfigError, PAGE_BYTES):
        raise ConfigError(f"'{out}' (--out) is there already and is no page of this command; give another name.")
    from devmind.checkpointing.files import write_atomically

    write_atomically(out, render(load(files[0]), load(files[1]), _names(one, other)))
    show.path("comparison", out)
    return out


def _names(one: Path, other: Path) -> tuple[str, str]:
    """The names of two paths, or the whole paths where those are equal."""
    names = one.resolve().name, other.resolve().name
    return names if names[0] != names[1] else (str(one), str(other))


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
    found = list(_results(folder))
    if not found:
        raise ConfigError(f"There is no run in '{folder}' that has ended; 'devmind stage run reflex' makes one.")
    return max(found, key=lambda path: path.stat().st_mtime)


def _results(folder: Path) -> Iterator[Path]:
    yield from folder.glob("**/reports/*/results.json")
    yield from folder.glob("results.json")
