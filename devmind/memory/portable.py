"""A memory as one file, for another machine, another store or an archive; an import restores it entry by entry, bit by
bit.

The file is a ZIP. `memory.json` says {"format": "devmind.memory/1", "entries": n}. Each entry is `entries/NUMBER.zst`:
a frame of `payload.pack` with a checksum, holding `about` (JSON: time_s, importance, name, recalled, recalled_s,
pointer, encoders), `payload` (uint8, the senses packed), and for each sense `key SENSE` (float32 [64]) and `features
SENSE`. Pointers are made absolute; what they point to is not copied.
"""

from __future__ import annotations

import json
import os
import stat
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from devmind.bounds import MEMORY_TIMES, damage, is_name, parse_json, printable
from devmind.checkpointing.files import take_place
from devmind.errors import DevmindError, StoreError
from devmind.memory.entry import Entry, Key, Pointer
from devmind.memory.names import MAX_NAME
from devmind.memory.payload import pack, unpack
from devmind.memory.stores import Store
from devmind.memory.stores.rows import mixed_keys_error
from devmind.moment import Sense, same_arrays

FORMAT = "devmind.memory/1"
AT_ONCE = 200
LATEST_S = 2.5e11
"""Later times are invalid: no calendar shows them, and additions to them vanish in rounding."""
MOST = 2**53
LARGEST_PART = 64 << 20


class Imported(NamedTuple):
    """Number of imported entries, and of those that were already there."""

    added: int
    there: int


def export_memory(store: Store, path: Path, folder: Path) -> int:
    """Write every entry of a store into a new file that only its owner can read; returns their number.

    Args:
        path: replaced in one step when everything is written.
        folder: base of the store's relative pointers.

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
        take_place(part, path)
    except OSError as error:
        raise StoreError(f"'{path}' cannot be written: {error.strerror}; choose another place.") from error
    finally:
        with suppress(FileNotFoundError):
            part.unlink()
    return count


def check_export(path: Path) -> dict[str, str]:
    """Read a whole file of `export_memory`; returns the encoder of its keys by sense. Nothing is changed.

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
    """Add every entry of a file that is not in the store yet. Entries are equal when everything but their counts is
    equal.

    All or nothing: if one entry is refused, the entries added before are deleted again. Only a kill may leave some of
    them, and importing again adds the rest. If two imports add the same entry at once, the later one deletes its own
    again.

    Raises:
        StoreError: it is no such file, damaged, or of a newer format, or its keys are of another encoder than the
            store's; nothing of it is added then. Or the store cannot be written.
    """
    encoders = check_export(path)  # reads everything before writing anything
    existing = _TargetStore(store)
    for sense, encoder in encoders.items():
        if existing.encoders.get(sense, encoder) != encoder:
            raise mixed_keys_error(f"'{sense}'")
    known, own_ids = 0, list[int]()
    entries = _entries(path)
    try:
        while part := list(islice(entries, AT_ONCE)):
            existing.update()
            new = [entry for entry in part if not existing.has(entry)]
            ids = store.add(new) if new else []
            own_ids += ids
            existing.update(ids)
            twice = {number for number, entry in zip(ids, new, strict=True) if existing.has(entry, before=number)}
            if twice:
                store.delete(twice, erase=False)
                own_ids = [number for number in own_ids if number not in twice]
            known += len(part) - len(ids) + len(twice)
    except DevmindError:
        with suppress(DevmindError):  # the disk that refused may refuse this too
            store.delete(own_ids, erase=False)
        raise
    return Imported(len(own_ids), known)


class _TargetStore:
    """The content of a store without what this import adds (a file may hold two equal entries, and both are imported).

    Attributes:
        encoders: of the store's keys by sense, when the import began.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._revision: str | None = None
        self._by_time: dict[float, set[int]] = {}
        self._own_ids: set[int] = set()
        self.encoders = self.update()

    def update(self, own_ids: Iterable[int] = ()) -> dict[str, str]:
        """Take in what was written since; returns the encoders of the new keys."""
        self._own_ids.update(own_ids)
        changes = self._store.changes(self._revision)
        self._revision = changes.revision
        for number, time_s in zip(changes.facts.ids.tolist(), changes.facts.time_s.tolist(), strict=True):
            if number not in self._own_ids:
                self._by_time.setdefault(time_s, set()).add(number)
        return {sense: rows.encoder for sense, rows in changes.keys.items()}

    def has(self, entry: Entry, before: int | None = None) -> bool:
        """Whether an equal entry is there; with `before`, one with a lower number."""
        numbers = sorted(self._by_time.get(entry.time_s, ()))
        found = self._store.get(number for number in numbers if before is None or number < before)
        return any(_equal(entry, other) for other in found)


def _as_bytes(entry: Entry, folder: Path) -> bytes:
    pointer = entry.pointer and [str((folder / entry.pointer.session).resolve()), entry.pointer.tick]
    about = {
        "time_s": entry.time_s, "importance": entry.importance, "name": entry.name, "recalled": entry.recalled,
        "recalled_s": entry.recalled_s, "pointer": pointer and [*pointer, entry.pointer and entry.pointer.identity],
        "span": entry.pointer.span if entry.pointer else 0,
        "encoders": {sense: key.encoder for sense, key in entry.keys.items()},
    }  # fmt: skip
    parts: dict[str, Sense] = {"about": json.dumps(about), "payload": np.frombuffer(pack(entry.senses), np.uint8)}
    for sense, key in entry.keys.items():
        parts[f"key {sense}"] = key.vector
        if key.features is not None:
            parts[f"features {sense}"] = key.features
    return pack(parts)


def _as_entry(parts: Mapping[str, Any]) -> Entry:
    """An entry in which every field obeys the contract of `Entry` and can be shown in a terminal.

    Raises:
        ValueError: a field does not. Parsers may raise other errors on invalid entries.
    """
    about = parse_json(parts["about"], StoreError, "its description is not JSON ({})")
    encoders, name, pointer = about["encoders"], about["name"], about["pointer"]
    _need(isinstance(encoders, dict), "its keys are invalid")
    _need(all(is_name(text) for pair in encoders.items() for text in pair), "a sense or an encoder has no proper name")
    _need(name is None or is_name(name, MAX_NAME), f"its name is no line of 1 to {MAX_NAME} bytes")
    time_s, importance = _number(about["time_s"], -LATEST_S), _number(about["importance"], 0.0)
    recalled_s = None if about["recalled_s"] is None else _number(about["recalled_s"], -LATEST_S)
    recalled = about["recalled"]
    _need(type(recalled) is int and 0 <= recalled < MOST, "its count of recalls is invalid")
    if pointer is not None:
        place, tick, identity = pointer
        _need(is_name(place, 4096) and isinstance(identity, str) and identity.isprintable(), "its pointer is invalid")
        pointer = *pointer, about.get("span", 0)  # older versions wrote none
        _need(
            all(type(number) is int and 0 <= number < MOST for number in (tick, pointer[3])),
            "its pointer's tick is invalid",
        )
    keys = {
        sense: Key(parts[f"key {sense}"], encoder, parts.get(f"features {sense}"))
        for sense, encoder in encoders.items()
    }
    senses = unpack(parts["payload"].tobytes())
    _need(all(is_name(sense) for sense in senses), "a sense has no proper name")
    return Entry(
        time_s, importance, name, keys, senses, pointer=None if pointer is None else Pointer(*pointer),
        recalled=recalled, recalled_s=recalled_s,
    )  # fmt: skip


def _need(is_right: bool, otherwise: str) -> None:
    if not is_right:
        raise ValueError(otherwise)


def _number(value: Any, lowest: float) -> float:
    """A finite number, since times are compared and added with it."""
    _need(
        type(value) in (int, float) and lowest <= value <= LATEST_S, f"{value!r:.40} is not a valid time or importance"
    )
    return float(value)


def _entries(path: Path) -> Iterator[Entry]:
    if not stat.S_ISREG(_kind(path)):
        raise StoreError(f"'{path}' is no file; give one that 'devmind memory export' wrote.")
    again = "export it once more"
    sentence = f"'{path}' is damaged or no exported memory ({{}}); {again}."
    with (
        damage(StoreError, sentence),
        zipfile.ZipFile(path) as archive,
    ):
        inside = {item.filename: item for item in archive.infolist()}
        _check_sizes(path, archive)
        about = parse_json(archive.read(inside["memory.json"]), StoreError, sentence)
        if about["format"] != FORMAT:
            format_text = printable(f"{about['format']!s:.40}")
            raise StoreError(f"'{path}' is of format {format_text}, this devmind reads {FORMAT}: update devmind.")
        names = sorted(name for name in inside if name.startswith("entries/"))
        if len(names) != about["entries"]:
            raise StoreError(f"'{path}' is damaged: {len(names)} entries of {about['entries']!r:.40} are there.")
        for name in names:
            where = printable(name)[:60]
            with damage(StoreError, f"'{path}' is damaged or no exported memory ({where}: {{}}); {again}."):
                try:
                    entry = _as_entry(unpack(archive.read(inside[name])))
                except StoreError as error:
                    raise ValueError(str(error)) from error
            yield entry


def _kind(path: Path) -> int:
    try:
        return path.stat().st_mode
    except FileNotFoundError as error:
        raise StoreError(f"There is no file '{path}'; check the path.") from error
    except OSError as error:
        raise StoreError(f"'{path}' cannot be read: {error.strerror}; check its rights.") from error


def _check_sizes(path: Path, archive: zipfile.ZipFile) -> None:
    """Refuse a bomb before anything of it is unfolded: our entries are stored, so their content is no larger than they
    are.

    Raises:
        StoreError: one part, or all of them, would unfold to too much.
    """
    size = path.stat().st_size
    sizes = [item.file_size for item in archive.infolist()]
    if max(sizes, default=0) > LARGEST_PART + size or sum(sizes) > MEMORY_TIMES * size + LARGEST_PART:
        raise StoreError(
            f"'{path}' says that its {size:,} bytes unfold to {sum(sizes):,}; no exported memory does, so it is not "
            "read."
        )


def _equal(one: Entry, other: Entry) -> bool:
    same = (one.importance, one.name, _place(one)) == (other.importance, other.name, _place(other))
    return same and same_arrays(one.senses, other.senses)


def _place(entry: Entry) -> tuple[str, int, int] | None:
    """The place it points to; a file's path may be written in two ways, the recording's identity in one."""
    return None if entry.pointer is None else (entry.pointer.identity, entry.pointer.tick, entry.pointer.span)
