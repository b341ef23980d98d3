"""`devmind memory`: inspect long-term memory, ask it, forget, export, import and check."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from devmind.cli import memory_files, show, sleeping
from devmind.cli.agents import agent_folder, describer
from devmind.cli.house import complain, group
from devmind.cli.memory_files import describing, erase_entries, open_memory_at, show_where_traces_stay
from devmind.cli.options import AgentOption, JsonOption, MemoryOption
from devmind.cli.paths import existing, existing_files
from devmind.errors import ConfigError, StoreError, nearest

if TYPE_CHECKING:
    from devmind.memory import Entry, Facts, Key, Memory

app = group("Long-term memory: look into it, ask it, forget, export and check it.")
app.command("export")(memory_files.export_file)
app.command("import")(memory_files.import_file)
app.command("check")(memory_files.check)
app.command("sleep")(sleeping.sleep)

TRACES = (
    "Weights that have already slept on it keep what they learned: forgetting reaches files, not weights. Of a "
    "recording made meanwhile only the ticks that it points to are gone; delete that session file to have all gone."
)
FOUND, NEWEST = 8, 20
"""Entries that are shown of a search, and without one."""
NUMBERS = range(1, 2**63)
"""The numbers that a store can give to entries; it refuses to look up others."""


@app.command("show")
def show_(
    number: Annotated[
        int | None, typer.Argument(metavar="[ID]", help="An entry's number, as 'recall' prints it.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Also write the entry's picture and sound there.")
    ] = None,
    memory: MemoryOption = "memory",
    as_json: JsonOption = False,
) -> None:
    """Show one entry with all its data; without ID, the number of entries, their age and senses, and the size."""
    if number is None and out is not None:
        raise ConfigError("--out writes what one entry has; name it: devmind memory show ID --out DIR.")
    if number is None:
        _statistics(memory, as_json)
    else:
        _entry(number, out, memory, as_json)


def _statistics(memory: str, as_json: bool) -> None:
    with open_memory_at(memory) as mind:
        from devmind.memory import folder_of
        from devmind.memory.stats import statistics

        found = statistics(mind)
        folder = folder_of(memory)  # measured while it is open: closing it removes its log
        sizes = [file.stat().st_size for file in memory_files.store_files(folder)] if folder else []
    found["disk_bytes"] = sum(sizes) if sizes else None
    if as_json:
        show.line(json.dumps(found))
        return
    names = ", ".join(f"{name} {count}" for name, count in found["names"].items()) or "none"
    rows = [
        (
            "entries",
            f"{found['entries']:,}, {found['named']:,} of them examples of names, {found['pointed']:,} pointing",
        ),
        ("names", names),
        ("written", f"{show.when(found['first_s'])} to {show.when(found['last_s'])}" if found["entries"] else "never"),
        ("recalled", f"{show.count_of(found['recalls'], 'time')}, {show.entries(found['never_recalled'])} never"),
        ("payloads", show.megabytes(found["payload_bytes"])),
        ("keys", show.megabytes(found["key_bytes"])),
        ("on disk", show.megabytes(found["disk_bytes"]) if sizes else "in a database: its server knows"),
        *((f"keys of {sense}", f"{one['keys']:,} by {one['encoder'][:8]}") for sense, one in found["senses"].items()),
    ]
    show.table(("what", ""), rows)


def _entry(number: int, out: Path | None, memory: str, as_json: bool) -> None:
    if out is not None and out.exists():
        existing(out, "--out")
    with open_memory_at(memory) as mind:
        found = mind.get([number]) if number in NUMBERS else []
    if not found:
        raise StoreError(
            f"There is no entry {number} in '{show.place(memory)}'; 'devmind memory recall' prints numbers."
        )
    from devmind.memory.stats import as_plain, why_nothing, write_senses

    plain = as_plain(found[0])
    files = write_senses(found[0], out) if out else []
    if out and not files:
        complain(f"Note: {why_nothing(found[0])}")
    if as_json:
        show.line(json.dumps(plain | {"files": [str(file) for file in files]}))
        return
    show.table(("what", ""), [(key, _text(key, value)) for key, value in plain.items() if value not in (None, {}, "")])
    for file in files:
        show.path("written", file)


@app.command()
def recall(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="WORDS", help="Part of a name, or of what was said.")
    ] = None,
    like: Annotated[
        list[Path] | None,
        typer.Option("--like", metavar="FILE", help="A picture or a sound to search by; a second one is the other."),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option("--count", "-k", min=1, metavar="N", help="Most entries to show; else 8 of a search, or 20."),
    ] = None,
    agent: AgentOption = None,
    memory: MemoryOption = "memory",
    as_json: JsonOption = False,
) -> None:
    """Show the newest entries; or those found by words, a picture, a sound, or by several of these together.

    WORDS are searched as one phrase. A search by words alone shows the newest entries first and needs no agent. Each
    entry found counts as recalled once more, but not those that are shown without a search.
    """
    text = " ".join(words or []).strip()
    files = existing_files(like, "--like")
    most = count or (FOUND if text or files else NEWEST)
    from devmind.memory import Filters

    with open_memory_at(memory) as mind:
        filters = Filters(words=text or None)
        facts = mind.store.facts(filters)
        if files:
            found = mind.recall(_query_keys(mind, files, agent), most, filters)
        elif text:
            found = mind.get(_newest(facts, most))
            mind.count(entry.id for entry in found)
        else:
            found = mind.get(_newest(facts, most))
        mind.flush()
    if text or files:
        _print(found, as_json)
        return
    _print(found, as_json, nothing="no entry yet")
    if not as_json and len(facts.ids) > len(found):
        show.line(f"the newest {len(found)} of {show.entries(len(facts.ids))}; --count N shows more")


def _newest(facts: Facts, count: int) -> list[int]:
    return [
        number for _, number in sorted(zip(facts.time_s.tolist(), facts.ids.tolist(), strict=True))[: -count - 1 : -1]
    ]


@app.command()
def forget(
    numbers: Annotated[list[int] | None, typer.Argument(metavar="ID...", help="Entries by number.")] = None,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="All examples of a name.")] = None,
    words: Annotated[
        str | None, typer.Option("--words", metavar="TEXT", help="Entries with this text in their name or words.")
    ] = None,
    older_than_h: Annotated[
        float | None,
        typer.Option("--older-than-h", min=0, metavar="H", help="Entries older than this; examples of names stay."),
    ] = None,
    memory: MemoryOption = "memory",
) -> None:
    """Delete entries permanently: from the database, its log and indexes, and from recordings that they point to."""
    ways = [numbers or None, name, words, older_than_h]
    if sum(way is not None for way in ways) != 1:
        raise ConfigError("Say what to forget, by one of: ID..., --name NAME, --words TEXT, --older-than-h H.")
    for option, text in (("--name", name), ("--words", words)):
        if text is not None and not text.strip():  # a blank text is part of every text
            raise ConfigError(f"{option} expects a text; got a blank one, which says nothing of what to forget.")
    later = ""
    with open_memory_at(memory) as mind:
        if numbers:
            ids, missing = _by_number(mind, numbers)
        elif older_than_h is not None:
            ids, later = _older_than(mind, 3600 * older_than_h)
            missing = ""
        else:
            ids, missing = _by_text(mind, name and name.strip(), words and words.strip())
        kept, messages = erase_entries(
            mind, ids
        )  # even if nothing was found: this erases what a reader protected from erasure before
    if missing and not ids:
        raise StoreError(missing)
    for sentence in filter(None, (missing, later, *messages)):
        complain(f"Note: {sentence}")
    show.line(f"{show.entries(len(ids) - kept)} forgotten")
    if len(ids) > kept:
        show_where_traces_stay(memory)
        show.line(TRACES)
    if kept:
        raise typer.Exit(2)


def _by_number(mind: Memory, numbers: Sequence[int]) -> tuple[list[int], str]:
    """The numbers that exist, each once, and a sentence about the others."""
    there = set(mind.store.facts().ids.tolist())
    asked = dict.fromkeys(numbers)
    missing = ", ".join(str(number) for number in asked if number not in there)
    sentence = f"There is no entry {missing}; 'devmind memory recall' prints numbers." if missing else ""
    return [number for number in asked if number in there], sentence


def _older_than(mind: Memory, age_s: float) -> tuple[list[int], str]:
    """Entries without a name of that age by the machine's clock, and a sentence about those that it dates after now."""
    from devmind.memory import Filters

    now_s = time.time()
    ids = mind.store.facts(Filters(named=False, until_s=now_s - age_s)).ids.tolist()
    later = mind.store.facts(Filters(named=False, since_s=now_s)).ids.tolist()
    sentence = (
        f"By this machine's clock {show.entries(len(later))} are dated after now, perhaps because it was set back. "
        "Their age is unknown, so they stay; 'devmind memory recall' prints numbers, and 'devmind memory forget ID...' "
        "deletes them."
    )
    return ids, sentence if later else ""


def _by_text(mind: Memory, name: str | None, words: str | None) -> tuple[list[int], str]:
    """The entries of a name, or with words, and a sentence if there are none."""
    from devmind.memory import Filters, Names

    ids = mind.store.facts(Filters(name=name, words=words)).ids.tolist()
    if ids:
        return ids, ""
    if name:
        return ids, f"No name '{name}' was taught{nearest(name, Names(mind).known())}"
    return ids, f"Nothing has '{words}' in its name or its words; 'devmind memory recall' looks for words too."


def _query_keys(mind: Memory, files: Sequence[Path], agent: Path | None) -> dict[str, Key]:
    """Keys of the pictures and sounds in files, one of each sense, made by the memory's agent."""
    folder = agent_folder(agent)
    from devmind.live.remembering.example_files import examples_in

    senses: dict[str, Any] = {}
    for file in files:
        shown = examples_in(file, [])[0].senses
        if twice := sorted(shown.keys() & senses.keys()):
            raise ConfigError(f"--like takes one {twice[0]} at a time, and '{file}' is a second one; leave one out.")
        senses |= shown
    return describing(describer(folder), mind, rebuild=False).describe(senses)


def _print(found: Sequence[Entry], as_json: bool, nothing: str = "nothing is remembered of it") -> None:
    from devmind.memory.stats import as_plain

    plain = [as_plain(entry) for entry in found]
    if as_json:
        show.line(json.dumps(plain))
        return
    if not plain:
        show.line(nothing)
        return
    columns = ["id", "score", "when", "recalled", "name", "senses", "words"]
    rows = [
        [
            one["id"], "" if one["score"] is None else f"{one['score']:.3f}", show.when(one["time_s"]), one["recalled"],
            one["name"] or "", ", ".join(one["senses"]), one["words"],
        ]
        for one in plain
    ]  # fmt: skip
    if not any(row[1] for row in rows):  # words have no score; its column gives them room
        columns, rows = [columns[0], *columns[2:]], [[row[0], *row[2:]] for row in rows]
    show.table(columns, rows, wrapping=("name", "senses"))


def _text(key: str, value: Any) -> str:
    if key.endswith("_s") and isinstance(value, float):
        return show.when(value)
    return ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else str(value)
