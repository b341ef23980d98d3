"""`devmind memory export`, `import` and `check`: a memory as a file, and a check of its integrity."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from devmind.cli import show
from devmind.cli.agents import describer
from devmind.cli.house import complain
from devmind.cli.options import JsonOption, MemoryOption, agent_option
from devmind.cli.paths import existing
from devmind.errors import ConfigError, KeptError, StoreError, TracesError

if TYPE_CHECKING:
    from devmind.agent.encoders import EncoderHolder
    from devmind.live.remembering.show_and_tell import ShowAndTell
    from devmind.memory import Memory


IN_A_SERVER = (
    "PostgreSQL's tables are written anew; its write-ahead log (pg_wal), archives of it, replicas and backups keep "
    "what was forgotten until the server lets them go: docs/postgres.md says how to shorten that."
)


def export_file(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The new file, for example mind.zip.")],
    memory: MemoryOption = "memory",
) -> None:
    """Write the whole memory into one file."""
    if file.exists():
        raise ConfigError(f"'{file}' is there already; give a new name.")
    from devmind.memory import folder_of
    from devmind.memory.portable import export_memory

    with open_memory_at(memory) as mind:
        count = export_memory(mind.store, file, folder_of(memory) or Path())
    show.line(f"{show.entries(count)} exported, {show.megabytes(file.stat().st_size)}")
    show.path("memory", file)


def import_file(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that 'devmind memory export' wrote.")],
    memory: MemoryOption = "memory",
) -> None:
    """Add entries of an exported file that the memory lacks; a missing memory is made."""
    existing(file, "FILE", "file")
    from devmind.memory import open_store
    from devmind.memory.portable import check_export, import_memory

    check_export(file)  # checked before a memory is made
    with open_store(memory) as store:
        done = import_memory(store, file)
    show.line(f"{show.entries(done.added)} imported; {done.there:,} of the file were there already")
    show.line(f"memory: {show.place(memory)}")


def check(
    mend: Annotated[
        bool, typer.Option("--mend", help="Rebuild what can be derived, and delete what is damaged beyond repair.")
    ] = False,
    keys_of: Annotated[
        Path | None,
        agent_option("Make all keys anew by this agent, if they are another one's; that one loses them.", "--keys-of"),
    ] = None,
    memory: MemoryOption = "memory",
    as_json: JsonOption = False,
) -> None:
    """Read everything and compare it with its checksums; exits with 1 if a fault was found and not repaired."""
    with open_memory_at(memory, mend) as mind:
        faults = mind.store.check(mend=mend)
        entries = mind.store.sizes().entries
        if keys_of and (mend or not faults):
            describing(describer(keys_of), mind)
    if as_json:
        show.line(json.dumps({"entries": entries, "faults": faults, "mended": mend}))
    else:
        for sentence in faults:
            complain(sentence)
        show.line(f"{show.entries(entries)}, {'all is well' if not faults else 'mended' if mend else 'damaged'}")
    if faults and not mend:
        raise typer.Exit(1)


def open_memory_at(place: str, mend: bool = False) -> AbstractContextManager[Memory]:
    """Open an existing memory, with the recordings that it points to."""
    refuse_missing(place)
    return opened_or_made(place, mend)


@contextmanager
def opened_or_made(place: str, mend: bool = False) -> Iterator[Memory]:
    """Open a memory, which is made if it is missing."""
    from devmind.memory import Memory, folder_of, open_store
    from devmind.sessions.pointed import Pointed

    with open_store(place, mend=mend) as store:
        yield Memory(store, pointed=Pointed(folder_of(place)))


def describing(agent: EncoderHolder, mind: Memory, rebuild: bool = True) -> ShowAndTell:
    """Let an agent make the memory's keys; a note tells when another agent's were made anew.

    Raises:
        StoreError: another agent made the keys, and `rebuild` is False.
    """
    from devmind.live.remembering.show_and_tell import ShowAndTell

    child = ShowAndTell(agent, mind, rebuild)
    if child.rebuilt:
        complain(f"Note: this agent has other weights than before; {show.memories(child.rebuilt)} got new keys.")
    return child


def refuse_missing(place: str) -> None:
    """Refuse a place without a memory.

    Raises:
        StoreError: there is no memory in `place`.
    """
    if is_missing(place):
        raise StoreError(f"There is no memory in '{place}'; live or teach first, or give --memory DIR.")


def is_missing(place: str) -> bool:
    """Whether it is a folder without a memory. Opening would make one, which read-only commands must not do.

    A log without its database counts as a memory, because there was one.
    """
    from devmind.memory import folder_of

    folder = folder_of(place)
    return folder is not None and not any(file.suffix != ".sqlite3-shm" for file in store_files(folder))


def store_files(folder: Path) -> list[Path]:
    """The store's files in a folder: the database and SQLite's files beside it, but no other files."""
    from devmind.memory.stores.sqlite import FILE

    return [file for beside in ("", "-wal", "-shm") if (file := folder / f"{FILE}{beside}").is_file()]


def erase_entries(mind: Memory, ids: Sequence[int]) -> tuple[int, list[str]]:
    """Erase entries; returns how many could not be erased, and sentences on traces that stay elsewhere or may."""
    try:
        return 0, mind.erase(ids)
    except TracesError as error:  # they are deleted all the same
        return 0, [str(error)] if ids else []
    except KeptError as error:
        return error.kept, [str(error)]


def show_where_traces_stay(place: str) -> None:
    """Print in one line what overwriting cannot reach at a memory's place."""
    from devmind.erasing import where_traces_stay
    from devmind.memory import folder_of

    folder = folder_of(place)
    sentence = where_traces_stay(folder) if folder else IN_A_SERVER
    if sentence:
        complain(f"Note: {sentence}")
