"""`devmind session`: recordings of senses and actions; import media, inspect and repair recordings."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from devmind.cli import show
from devmind.cli.checking import check_life
from devmind.cli.house import complain, group
from devmind.cli.options import agent_option
from devmind.cli.paths import existing
from devmind.cli.recording import record
from devmind.errors import ConfigError, some

if TYPE_CHECKING:
    from collections.abc import Mapping

    from devmind.sessions.repair import Lost

app = group("Recordings of senses and actions: record, import, show, replay, repair, export.")
app.command()(record)

Recording = Annotated[Path, typer.Argument(metavar="SESSION", help="A recording (.mcap).")]


@app.command("import")
def import_(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Media, folders of images; or one LeRobotDataset, ROS bag, MCAP file."),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="The recording; else the first file's name in this folder."),
    ] = None,
    topic: Annotated[
        str | None, typer.Option("--topic", metavar="NAME", help="Which pictures become sight, if there are several.")
    ] = None,
) -> None:
    """Make one recording from media or a robot's recording: 64x64 sight, 16 kHz sound, ten Moments a second."""
    for file in files:
        if not file.is_dir():
            existing(file, "FILE", "file")
    from devmind.sessions import import_any

    made = import_any(files, out or _named_after(files[0]), topic=topic)
    for sentence in made.warnings:
        complain(f"Note: {sentence}")
    show.line(f"{show.count_of(made.ticks, 'Moment')} of {show.count_of(len(files), 'file')}")
    show.path("session", made.path)


@app.command("show")
def show_(session: Recording) -> None:
    """Show the content of a recording."""
    existing(session, "SESSION", "file")
    from devmind.sessions import describe

    about = describe(session)
    whole = "cut off or still being written" if about["truncated"] else "whole"
    in_parts = f" in {len(about['parts'])} parts" if len(about["parts"]) > 1 else ""
    show.line(f"{session}: {show.megabytes(about['bytes'])}{in_parts}, {whole}")
    for part in about["empty_parts"]:
        complain(f"Note: '{part}' has nothing in it, as after a power cut, and is left out.")
    if about["missing_parts"]:
        complain(f"Note: there is no file for part {', '.join(map(str, about['missing_parts']))}.")
    ticks, episodes = show.count_of(about["ticks"], "Moment"), show.count_of(about["episodes"], "episode")
    show.line(f"{ticks} in {episodes}, {about['duration_s']:.1f} s")
    rows = [
        (kind, name, f"{what['count']:,}", ", ".join(what["dtypes"]), _shapes(what["shapes"]))
        for kind in ("senses", "effectors")
        for name, what in about[kind].items()
    ]
    show.table(("", "name", "ticks", "type", "shapes"), [(kind.removesuffix("s"), *rest) for kind, *rest in rows])
    if about["frames"]["count"]:
        show.line(
            f"camera: {show.count_of(about['frames']['count'], 'frame')}, {show.megabytes(about['frames']['bytes'])}"
        )
    for name, text in (about["metadata"] | {f"notes: {k}": v for k, v in about["notes"].items()}).items():
        show.line(f"{name}: {text}")


@app.command()
def replay(
    session: Recording,
    ticks: Annotated[
        str | None, typer.Option("--ticks", metavar="A-B", help="Ticks A to B only, or A- from A on; the first is 0.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Step the agent through it again and compare every action.")
    ] = False,
    agent: Annotated[
        Path | None,
        agent_option("For --check: the agent, if the recording has not kept it."),
    ] = None,
    memory: Annotated[
        str | None, typer.Option("--memory", metavar="PLACE", help="For --check: the memory it recalled from.")
    ] = None,
) -> None:
    """Print a recording tick by tick: time, senses, actions.

    With --check only the result is printed. Exit code 0: every action of every part is equal to the bit; 1: one
    differs or could not be checked.
    """
    existing(session, "SESSION", "file")
    if check:
        if ticks is not None:
            raise ConfigError("--check begins where the recording begins, and takes all of it; leave out --ticks.")
        return check_life(session, agent, memory)
    from devmind.sessions import replay as steps

    (start, stop), tick = _range(ticks), -1
    for tick, (moment, action) in enumerate(islice(steps(session), start, stop), start):
        flags = " ".join(name for name in ("first", "last", "terminal") if getattr(moment, name))
        did = f" -> {_values(action.effectors)}" if action else ""
        show.line(f"{tick:6d} {moment.time_s:8.2f} s  {_values(moment.senses)}{did} {flags}".rstrip())
    if start and tick < 0:
        raise ConfigError(f"'{session}' has no tick {start}: --ticks is beyond its end.")


@app.command()
def repair(
    session: Recording,
    out: Annotated[
        Path | None, typer.Argument(metavar="[OUT]", help="The repaired copy; else named after the recording.")
    ] = None,
) -> None:
    """Copy the readable part of a cut or damaged recording into a complete one, and print what is lost.

    The original stays. Credentials in older recordings are not copied.
    """
    existing(session, "SESSION", "file")
    from devmind.sessions import repair as mend

    target = out or session.with_name(f"{session.stem}-repaired.mcap")
    done = mend(session, target)
    frames = f" and {show.count_of(done.frames, 'frame')}" if done.frames else ""
    show.line(f"{show.count_of(done.ticks, 'Moment')}{frames} kept")
    for lost in done.lost:
        show.line(f"lost of {lost.path.name}: {_missing(lost)}")
    if done.secrets:
        show.line(f"credentials removed from: {', '.join(sorted(done.secrets))}")
        complain(f"Note: '{session}' still holds them; delete it, and change the password if others have that file.")
    for path in done.paths:
        show.path("session", path)


@app.command()
def export(
    session: Recording,
    out: Annotated[
        Path | None,
        typer.Argument(metavar="[OUT]", help="The film, or a new folder; else named after the recording."),
    ] = None,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="FORMAT",
            help="mkv: a film with sound and subtitles. wav: sound, pictures, words as files. lerobot: its dataset v3.",
        ),
    ] = "mkv",
) -> None:
    """Write a recording with all its parts in another format."""
    existing(session, "SESSION", "file")
    from devmind.sessions.export import export as write

    made, messages = write(session, to, out)
    for sentence in messages:
        complain(f"Note: {sentence}")
    show.path(to, made)


def _range(text: str | None) -> tuple[int, int | None]:
    """The first tick of '8-20' or '8-', and the one behind the last; None: all that follow."""
    match = re.fullmatch(r"(\d{1,12})-(\d{0,12})", text or "0-")
    first, last = (int(match[1]), match[2]) if match else (0, "")
    if match is None or (last and int(last) < first):
        raise ConfigError(f"--ticks expects ticks such as 8-20 or 8-, the smaller number first; got '{text}'.")
    return first, int(last) + 1 if last else None


def _missing(lost: Lost) -> str:
    """`3 Moments from 2.0 s to 2.4 s, 9.1 kB`."""
    ticks = "what nothing tells of" if lost.ticks is None else show.count_of(lost.ticks, "Moment")
    begin = "the beginning" if lost.from_s is None else f"{lost.from_s:.1f} s"
    end = "the end" if lost.to_s is None else f"{lost.to_s:.1f} s"
    return f"{ticks} from {begin} to {end}, {show.megabytes(lost.bytes)}"


def _named_after(file: Path) -> Path:
    """A name for the recording in this folder; for an MCAP file it differs from the file's own."""
    stem = file.resolve().stem
    return Path(f"{stem}-session.mcap" if file.suffix == ".mcap" else f"{stem}.mcap")


def _shapes(shapes: list[list[int]]) -> str:
    return some(["x".join(map(str, shape)) or "-" for shape in shapes], 4)


def _values(values: Mapping[str, Any]) -> str:
    return " ".join(f"{name}[{_short(value)}]" for name, value in values.items())


def _short(value: Any) -> str:
    """A small array as its numbers, a big one as its shape, a text unchanged."""
    if isinstance(value, str):
        return repr(value)
    if value.size <= 4:
        return " ".join(f"{number:.3g}" for number in value.ravel())
    return "x".join(map(str, value.shape))
