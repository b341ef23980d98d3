"""`devmind report`: the verdict of a finished run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from devmind.cli import show
from devmind.cli.house import group
from devmind.cli.paths import existing, writable_file
from devmind.errors import ConfigError, DevmindError

if TYPE_CHECKING:
    from devmind.report.results import Results

PAGE_BYTES = 256 << 20
"""The largest page that is read to see whether it may be replaced."""

app = group("Results of runs: show, compare.")


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


@app.command()
def compare(
    one: Annotated[Path, typer.Argument(metavar="A", help="A run's folder, or its results.json.")],
    other: Annotated[Path, typer.Argument(metavar="B", help="Another run of the same stage, such as of another seed.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The page.")] = Path("compare.html"),
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Write one offline page with two runs side by side: gates, scores, differences, and curves over one another."""
    from devmind.bounds import read_file
    from devmind.report.compare import MARK, render
    from devmind.report.results import load

    files = [
        path if path.is_file() else newest_results(existing(path, label) or path)
        for path, label in zip((one, other), "AB", strict=True)
    ]
    writable_file(out, "--out")
    if out.exists() and MARK.encode() not in read_file(out, ConfigError, PAGE_BYTES):
        raise ConfigError(f"'{out}' (--out) is there already and is no page of this command; give another name.")
    from devmind.checkpointing.files import write_atomically

    write_atomically(out, render(load(files[0]), load(files[1]), _names(one, other)))
    show.path("comparison", out)
    if open_page:
        typer.launch(out.resolve().as_uri())


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
    found = [*folder.glob("**/reports/*/results.json"), *folder.glob("results.json")]
    if not found:
        raise ConfigError(f"There is no run in '{folder}' that has ended; 'devmind stage run reflex' makes one.")
    return max(found, key=lambda path: path.stat().st_mtime)
