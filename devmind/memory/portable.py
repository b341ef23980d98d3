"""A memory as one file, for another machine, another store or a shelf; it comes back entry by entry, bit by bit.

The file is a ZIP. `memory.json` says {"format": "devmind.memory/1", "entries": n}. Each entry is `entries/NUMBER.zst`:
a frame of `payload.pack` with a checksum, holding `about` (JSON: time_s, importance, name, recalled, recalled_s,
pointer, encoders), `payload` (uint8, the senses packed), and for each sense `key SENSE` (float32 [64]) and `features
SENSE`. Pointers are made absolute; what they point to is not copied.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from devmind.errors import StoreError
from devmind.memory.entry import Entry, Key, Pointer
from devmind.memory.payload import pack, unpack
from devmind.memory.stores import Store
from devmind.memory.stores.sqlite_rows import mixed
from devmind.moment import Sense, same_arrays

FORMAT = "devmind.memory/1"
AT_ONCE = 200


class Imported(NamedTuple):
    """How many entries came in, and how many were there already."""

    added: int
    there: int


def export_memory(store: Store, path: Path, folder: Path) -> int:
    """Write every entry of a store into a new file that only its owner can read; gives how many.

    Args:
        path: replaced in one step when all is written.
        folder: what the store's pointers are relative to.

    Raises:
        StoreError: an entry is damaged, or the file cannot be written.
    """
    part = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(part, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            ids = store.facts().ids.tolist()
            count = 0
            with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
                for start in range(0, len(ids), AT_ONCE):
                    for entry in store.get(ids[start : start + AT_ONCE]):
                        archive.writestr(f"entries/{entry.id:012d}.zst", _as_bytes(entry, folder))
                        count += 1
                archive.writestr("memory.json", json.dumps({"format": FORMAT, "entries": count}))
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        raise StoreError(f"'{path}' cannot be written: {error.strerror}; choose another place.") from error
    finally:
        with suppress(FileNotFoundError):
            part.unlink()
    return count


def check_export(path: Path) -> dict[str, str]:
    """Read a whole file that `export_memory` wrote; gives the encoder of its keys by sense. Nothing is changed.

    Raises:
        StoreError: it is no such file, damaged, of a newer format, or has keys of two encoders.
    """
    encoders: dict[str, str] = {}
    for entry in _entries(path):
        for sense, key in entry.keys.items():
            if encoders.setdefault(sense, key.encoder) != key.encoder:
                raise StoreError(f"'{path}' has keys of '{sense}' from two encoders; export it once more.")
    return encoders


def import_memory(store: Store, path: Path) -> Imported:
    """Add every entry of a file that is not in the store yet: an equal one is there when all but its counts is equal.

    It is added in parts, so a kill or a full disk may leave some of it; importing once more adds the rest. Of what two
    imports add at once, the later one takes its own away again.

    Raises:
        StoreError: it is no such file, damaged, or of a newer format, or its keys are of another encoder than the
            store's; nothing of it is added then. Or the store cannot be written.
    """
    encoders = check_export(path)  # all of it is read before any of it is written
    there = _There(store)
    for sense, encoder in encoders.items():
        if there.encoders.get(sense, encoder) != encoder:
            raise mixed(f"'{sense}'")
    added = known = 0
    entries = _entries(path)
    while part := list(islice(entries, AT_ONCE)):
        there.update()
        new = [entry for entry in part if not there.has(entry)]
        ids = store.add(new) if new else []
        there.update(ids)
        twice = [number for number, entry in zip(ids, new, strict=True) if there.has(entry, before=number)]
        if twice:
            store.delete(twice, erase=False)
        added += len(ids) - len(twice)
        known += len(part) - len(ids) + len(twice)
    return Imported(added, known)


class _There:
    """What is in a store besides what this import adds (a file may hold two equal entries, and both come in).

    Attributes:
        encoders: of the store's keys by sense, when the import began.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._revision: str | None = None
        self._by_time: dict[float, set[int]] = {}
        self._mine: set[int] = set()
        self.encoders = self.update()

    def update(self, mine: Iterable[int] = ()) -> dict[str, str]:
        """Hear of what was written since; gives the encoders of the keys among it."""
        self._mine.update(mine)
        changes = self._store.changes(self._revision)
        self._revision = changes.revision
        for number, time_s in zip(changes.facts.ids.tolist(), changes.facts.time_s.tolist(), strict=True):
            if number not in self._mine:
                self._by_time.setdefault(time_s, set()).add(number)
        return {sense: rows.encoder for sense, rows in changes.keys.items()}

    def has(self, entry: Entry, before: int | None = None) -> bool:
        """Whether an equal entry is there; with `before`, one of a lower number."""
        numbers = sorted(self._by_time.get(entry.time_s, ()))
        found = self._store.get(number for number in numbers if before is None or number < before)
        return any(_equal(entry, other) for other in found)


def _as_bytes(entry: Entry, folder: Path) -> bytes:
    pointer = entry.pointer and [str((folder / entry.pointer.session).resolve()), entry.pointer.tick]
    about = {
        "time_s": entry.time_s, "importance": entry.importance, "name": entry.name, "recalled": entry.recalled,
        "recalled_s": entry.recalled_s, "pointer": pointer and [*pointer, entry.pointer and entry.pointer.identity],
        "encoders": {sense: key.encoder for sense, key in entry.keys.items()},
    }  # fmt: skip
    parts: dict[str, Sense] = {"about": json.dumps(about), "payload": np.frombuffer(pack(entry.senses), np.uint8)}
    for sense, key in entry.keys.items():
        parts[f"key {sense}"] = key.vector
        if key.features is not None:
            parts[f"features {sense}"] = key.features
    return pack(parts)


def _as_entry(parts: Mapping[str, Any]) -> Entry:
    about = json.loads(parts["about"])
    keys = {
        sense: Key(parts[f"key {sense}"], encoder, parts.get(f"features {sense}"))
        for sense, encoder in about["encoders"].items()
    }
    return Entry(
        float(about["time_s"]), float(about["importance"]), about["name"], keys, unpack(parts["payload"].tobytes()),
        pointer=Pointer(*about["pointer"]) if about["pointer"] else None, recalled=int(about["recalled"]),
        recalled_s=about["recalled_s"],
    )  # fmt: skip


def _entries(path: Path) -> Iterator[Entry]:
    try:
        with zipfile.ZipFile(path) as archive:
            about = json.loads(archive.read("memory.json"))
            if about["format"] != FORMAT:
                raise StoreError(
                    f"'{path}' is of format {about['format']}, this devmind reads {FORMAT}: update devmind."
                )
            names = sorted(name for name in archive.namelist() if name.startswith("entries/"))
            if len(names) != about["entries"]:
                raise StoreError(f"'{path}' is damaged: {len(names)} entries of {about['entries']} are there.")
            for name in names:
                yield _as_entry(unpack(archive.read(name)))
    except FileNotFoundError as error:
        raise StoreError(f"There is no file '{path}'; check the path.") from error
    except (zipfile.BadZipFile, KeyError, ValueError, TypeError, EOFError, OSError) as error:
        raise StoreError(
            f"'{path}' is damaged or no exported memory ({type(error).__name__}: {error}); export it once more."
        ) from error


def _equal(one: Entry, other: Entry) -> bool:
    same = (one.importance, one.name, _place(one)) == (other.importance, other.name, _place(other))
    return same and same_arrays(one.senses, other.senses)


def _place(entry: Entry) -> tuple[str, int] | None:
    """Where it points to; a file's path may be written in two ways, the recording's identity in one."""
    return None if entry.pointer is None else (entry.pointer.identity, entry.pointer.tick)
