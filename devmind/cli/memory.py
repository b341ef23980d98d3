"""`devmind memory`: look into long-term memory, ask it, forget, carry it elsewhere, and check it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from devmind.cli import memory_files, show, sleeping
from devmind.cli.agents import saved_agent
from devmind.cli.house import complain, group
from devmind.cli.memory_files import Json, MemoryOption, opened
from devmind.cli.paths import existing
from devmind.errors import ConfigError, StoreError

if TYPE_CHECKING:
    from devmind.memory import Entry, Key, Memory

app = group("Long-term memory: look into it, ask it, forget, export and check it.")
app.command("export")(memory_files.export_file)
app.command("import")(memory_files.import_file)
app.command("check")(memory_files.check)
sleeping.register(app)

TRACES = "Weights that have already slept on it keep what they learned: forgetting reaches files, not weights."


@app.command()
def stats(memory: MemoryOption = "memory", as_json: Json = False) -> None:
    """Say how much is remembered, since when, of which senses, and what it costs."""
    with opened(memory) as mind:
        from devmind.memory import folder_of
        from devmind.memory.stats import statistics

        found = statistics(mind)
    folder = folder_of(memory)
    files = [] if folder is None else [file for file in folder.rglob("*") if file.is_file()]
    found["disk_bytes"] = sum(file.stat().st_size for file in files) if files else None
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
        ("written", f"{_when(found['first_s'])} to {_when(found['last_s'])}" if found["entries"] else "never"),
        ("recalled", f"{found['recalls']:,} times, {found['never_recalled']:,} entries never"),
        ("payloads", show.megabytes(found["payload_bytes"])),
        ("keys", show.megabytes(found["key_bytes"])),
        ("on disk", show.megabytes(found["disk_bytes"]) if files else "in a database: its server knows"),
        *((f"keys of {sense}", f"{one['keys']:,} by {one['encoder'][:8]}") for sense, one in found["senses"].items()),
    ]
    show.table(("what", ""), rows)


@app.command()
def recall(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="WORDS", help="Part of a name, or of what was said.")
    ] = None,
    image: Annotated[Path | None, typer.Option("--image", metavar="FILE", help="A picture to be reminded by.")] = None,
    sound: Annotated[Path | None, typer.Option("--sound", metavar="FILE", help="A sound to be reminded by.")] = None,
    count: Annotated[int, typer.Option("--count", "-k", min=1, metavar="N", help="How many, at most.")] = 8,
    agent: Annotated[
        Path | None, typer.Option("--agent", metavar="DIR", help="Saved agent; else the newest milestone.")
    ] = None,
    memory: MemoryOption = "memory",
    as_json: Json = False,
) -> None:
    """Ask memory by words, by a picture, by a sound; with several, what is like the picture and has the words.

    By words alone the newest come first and no agent is needed.
    """
    text = " ".join(words or [])
    if not (text or image or sound):
        raise ConfigError("Ask by something: WORDS, --image FILE or --sound FILE.")
    from devmind.memory import Filters

    with opened(memory) as mind:
        filters = Filters(words=text or None)
        if image or sound:
            found = mind.recall(_asked(mind, image, sound, agent), count, filters)
        else:
            found = mind.get(mind.store.facts(filters).ids[::-1][:count].tolist())
            mind.count(entry.id for entry in found)
        mind.flush()
    _print(found, as_json)


@app.command("show")
def show_entry(
    number: Annotated[int, typer.Argument(metavar="ID", help="Its number, as 'recall' prints it.")],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Also write its picture and its sound there.")
    ] = None,
    memory: MemoryOption = "memory",
    as_json: Json = False,
) -> None:
    """Show one entry with everything that is known of it."""
    with opened(memory) as mind:
        found = mind.get([number])
    if not found:
        raise StoreError(
            f"There is no entry {number} in '{show.place(memory)}'; 'devmind memory recall' prints numbers."
        )
    from devmind.memory.stats import as_plain, write_senses

    plain = as_plain(found[0])
    files = write_senses(found[0], out) if out else []
    if as_json:
        show.line(json.dumps(plain | {"files": [str(file) for file in files]}))
        return
    show.table(("what", ""), [(key, _text(key, value)) for key, value in plain.items() if value not in (None, {}, "")])
    for file in files:
        show.path("written", file)


@app.command()
def forget(
    numbers: Annotated[list[int] | None, typer.Argument(metavar="ID...", help="Entries by number.")] = None,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="All examples of a name.")] = None,
    words: Annotated[
        str | None, typer.Option("--words", metavar="TEXT", help="What has this in its name or its words.")
    ] = None,
    older_than_h: Annotated[
        float | None, typer.Option("--older-than-h", min=0, metavar="H", help="What is older; examples of names stay.")
    ] = None,
    memory: MemoryOption = "memory",
) -> None:
    """Delete entries for good: from the database, its log, its indexes, and from recordings that they point to."""
    ways = [numbers or None, name, words, older_than_h]
    if sum(way is not None for way in ways) != 1:
        raise ConfigError("Say what to forget, by one of: ID..., --name NAME, --words TEXT, --older-than-h H.")
    import time

    from devmind.memory import Filters

    with opened(memory) as mind:
        if numbers:
            there = set(mind.store.facts().ids.tolist())
            ids = [number for number in numbers if number in there]
        elif older_than_h is not None:
            ids = mind.store.facts(Filters(named=False, until_s=time.time() - 3600 * older_than_h)).ids.tolist()
        else:
            ids = mind.store.facts(Filters(name=name, words=words)).ids.tolist()
        told = mind.erase(ids)
    for sentence in told:
        complain(f"Note: {sentence}")
    show.line(f"{show.counted(len(ids), 'entry').replace('entrys', 'entries')} forgotten")
    if ids:
        show.line(TRACES)


def _asked(mind: Memory, image: Path | None, sound: Path | None, agent: Path | None) -> dict[str, Key]:
    """Keys of the picture and the sound by the agent whose memory it is."""
    for file, option in ((image, "--image"), (sound, "--sound")):
        existing(file, option, "file")
    raised = saved_agent(agent)
    from devmind.agent.threads import stepping_threads
    from devmind.live.remembering.show_and_tell import ShowAndTell, cut_examples
    from devmind.sessions.media import media_moments

    senses: dict[str, Any] = {}
    for file, sense in ((image, "sight"), (sound, "sound")):
        shown = cut_examples(media_moments(file))[0].senses if file else {}
        if file and sense not in shown:
            raise ConfigError(f"'{file}' has no {sense}; give a file that has.")
        senses |= {sense: shown[sense]} if file else {}
    with stepping_threads():
        child = ShowAndTell(raised, mind)
        if child.rebuilt:
            complain(f"Note: this agent has other weights than before; {child.rebuilt} memories got new keys.")
        return child.describe(senses)


def _print(found: Sequence[Entry], as_json: bool) -> None:
    from devmind.memory.stats import as_plain

    plain = [as_plain(entry) for entry in found]
    if as_json:
        show.line(json.dumps(plain))
        return
    if not plain:
        show.line("nothing is remembered of it")
        return
    rows = [
        (
            one["id"], "" if one["score"] is None else f"{one['score']:.3f}", _when(one["time_s"]), one["recalled"],
            one["name"] or "", ", ".join(one["senses"]), one["words"],
        )
        for one in plain
    ]  # fmt: skip
    show.table(("id", "score", "when", "recalled", "name", "senses", "words"), rows)


def _when(time_s: float | None) -> str:
    return "never" if time_s is None else f"{datetime.fromtimestamp(time_s):%Y-%m-%d %H:%M:%S}"


def _text(key: str, value: Any) -> str:
    if key.endswith("_s") and isinstance(value, float):
        return _when(value)
    return ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else str(value)
