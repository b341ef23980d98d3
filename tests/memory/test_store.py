"""The SQLite store: its contract, what a kill leaves, what deletion leaves, and what it refuses to open."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Hashable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from devmind.errors import StoreError
from devmind.memory import Changes, Entry, Filters, Key, open_store
from devmind.memory.index import Index
from devmind.memory.payload import pack
from devmind.memory.stores.migrations import APPLICATION_ID, MIGRATIONS
from devmind.memory.stores.sqlite import FILE, SqliteStore
from devmind.testing import BrokenLawError, check_store
from devmind.testing.stores import example

KILLED = """
import sys
from pathlib import Path
from devmind.memory.stores.sqlite import SqliteStore
from devmind.testing.stores import example

with SqliteStore(Path(sys.argv[1])) as store:
    for number in range(100_000):
        print(store.add([example(number)])[0], flush=True)
"""


def test_the_store_keeps_its_law(tmp_path: Path) -> None:
    check_store(lambda: open_store(tmp_path / "memory"))


def test_the_store_in_ram_keeps_its_law_and_touches_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("SQLITE_TMPDIR", str(tmp_path))
    check_store(lambda: open_store(None), persistent=False)
    with open_store(None) as store:
        store.add([example(number) for number in range(50)])
        assert not list(tmp_path.iterdir())


class Forgetful(SqliteStore):
    """Acknowledges entries that it has not written."""

    def add(self, entries: Sequence[Entry]) -> list[int]:
        ids = super().add(entries[:4])
        return [*ids, ids[-1] + 1] if len(entries) == 5 else ids


class Mixing(SqliteStore):
    """Accepts keys of two encoders."""

    def _one_encoder(self, database: sqlite3.Connection, written: Iterable[Mapping[str, Key]]) -> None:
        pass


class Deaf(SqliteStore):
    """Does not see what others write."""

    def revision(self) -> Hashable:
        return self._connection.total_changes  # type: ignore[union-attr]


class Greedy(SqliteStore):
    """Deletes one entry too many."""

    def delete(self, ids: Iterable[int]) -> int:
        return min(1, super().delete([*ids, 5]))


class Silent(SqliteStore):
    """Does not report deletions."""

    def changes(self, since: str | None = None) -> Changes:
        return replace(super().changes(since), deleted=np.zeros(0, np.int64))


class Repeating(SqliteStore):
    """Reports everything at every change."""

    def changes(self, since: str | None = None) -> Changes:
        return super().changes(None)


class Uncounting(SqliteStore):
    """Does not count recalls."""

    def mark_recalled(self, times: Mapping[int, int], at_s: float) -> None:
        pass


@pytest.mark.parametrize(
    ("broken", "law"),
    [
        (Silent, "a copy kept up to date by changes equals the store"),
        (Repeating, "changes after an add are that entry alone"),
        (Uncounting, "mark_recalled adds to the count"),
        (Forgetful, "find gives every entry as it was added"),
        (Mixing, "add refuses another"),
        (Deaf, "revision changes with what another opening wrote"),
        (Greedy, "delete takes the entries that it was given"),
    ],
)
def test_the_check_names_the_law_that_a_store_breaks(tmp_path: Path, broken: type[SqliteStore], law: str) -> None:
    with pytest.raises(BrokenLawError, match=law):
        check_store(lambda: broken(tmp_path / "memory"))


def test_a_name_that_is_no_text_is_a_store_error_and_changes_nothing(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        with pytest.raises(StoreError, match="A name or path that is no text cannot be kept"):
            store.add([Entry(0.0, 0.0, "cup", {}), Entry(0.0, 0.0, "cup\ud800", {})])
        assert store.sizes().entries == 0
        store.add([Entry(0.0, 0.0, "cup", {})])


def test_only_the_owner_can_read_the_files(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        with open_store(tmp_path / "deep" / "memory") as store:
            store.add([example(0)])
            files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "deep" / "memory").iterdir()}
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "deep" / "memory").stat().st_mode) == 0o700
    assert set(files.values()) == {0o600}
    assert f"{FILE}-wal" in files  # the log exists while the store is open, and is private too


@pytest.mark.parametrize("seconds_after", [0, 7])
def test_acknowledged_entries_survive_a_kill(tmp_path: Path, seconds_after: int) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path / "memory")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        acknowledged = [int(child.stdout.readline()) for _ in range(20 + seconds_after)]
        child.send_signal(signal.SIGKILL)
        # Lines already in the pipe were acknowledged before the kill.
        acknowledged += [int(line) for line in child.stdout if line.endswith("\n")]
    with open_store(tmp_path / "memory") as store:
        found = {entry.id: entry for entry in store.find()}
        assert set(acknowledged) <= found.keys()
        assert found[acknowledged[-1]].senses["words"] == example(acknowledged[-1] - 1).senses["words"]


def traces(folder: Path, *marks: bytes) -> list[str]:
    """Files of the folder that hold one of the marks."""
    return [p.name for p in folder.iterdir() for mark in marks if mark in p.read_bytes()]


def test_a_deleted_entry_leaves_no_trace_in_the_files(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    secret, kept = example(0), example(2)
    key = secret.keys["sight"].vector.tobytes()
    payload = None
    with open_store(folder) as store:
        first, *_ = store.add([secret, *(example(number) for number in range(1, 40))])
        with sqlite3.connect(folder / FILE) as beside:
            (payload,) = beside.execute("SELECT payload FROM entries WHERE id = ?", (first,)).fetchone()
        beside.close()
        marks = (b"name 0", key, payload[20:60])
        assert len(traces(folder, *marks)) >= 3  # the scan does find what is there
        store.delete([entry.id for entry in store.find() if entry.name == "name 0"])
        assert traces(folder, *marks) == []  # while the store is still open
        assert traces(folder, kept.keys["sight"].vector.tobytes()) != []
    assert traces(folder, *marks) == []


def test_opening_erases_what_a_kill_after_deleting_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = example(0).keys["sight"].vector.tobytes()
    with SqliteStore(tmp_path / "memory") as store:
        first, *_ = store.add([example(number) for number in range(40)])
        monkeypatch.setattr(SqliteStore, "_erase", lambda self: None)
        store.delete([first])
        shutil.copytree(tmp_path / "memory", tmp_path / "killed")  # what a kill would leave
    assert traces(tmp_path / "killed", mark) != []
    with open_store(tmp_path / "killed") as store:
        assert len(store.find()) == 39
        assert traces(tmp_path / "killed", mark) == []


def test_concurrent_writers_lose_no_entries(tmp_path: Path) -> None:
    def write(offset: int) -> list[int]:
        with open_store(tmp_path / "memory") as store:
            return [store.add([example(offset + number)])[0] for number in range(25)]

    with ThreadPoolExecutor(3) as pool:
        written = [number for ids in pool.map(write, (0, 100, 200)) for number in ids]
    with open_store(tmp_path / "memory") as store:
        assert sorted(written) == [entry.id for entry in store.find(payloads=False)]
        assert len(set(written)) == 75


def test_several_threads_may_open_a_new_memory_at_once(tmp_path: Path) -> None:
    together = threading.Barrier(4)

    def open_at_once(folder: Path) -> int:
        together.wait()
        with open_store(folder) as store:
            return len(store.find())

    with ThreadPoolExecutor(4) as pool:
        for round_ in range(10):
            assert list(pool.map(open_at_once, [tmp_path / str(round_) / "memory"] * 4)) == [0] * 4


def test_a_reader_that_blocks_erasing_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("devmind.memory.stores.sqlite.BUSY_S", 0.05)
    folder = tmp_path / "memory"
    with open_store(folder) as store:
        ids = store.add([example(0), example(1)])
        reader = sqlite3.connect(folder / FILE, isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM entries").fetchone()
        with pytest.raises(StoreError, match="another process is reading"):
            store.delete(ids[:1])
        assert [entry.id for entry in store.find()] == ids[1:]
        reader.close()
        assert store.delete(ids[:1]) == 0
        assert traces(folder, b"name 0") == []


def test_a_store_of_a_newer_version_is_refused_and_unchanged(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.add([example(0)])
    with sqlite3.connect(tmp_path / FILE) as database:
        database.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    database.close()
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(StoreError, match=rf"of version {len(MIGRATIONS) + 1} .* update devmind"):
        open_store(tmp_path)
    assert (tmp_path / FILE).read_bytes() == before


def test_a_database_of_another_program_is_refused_and_unchanged(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / FILE) as database:
        database.execute("CREATE TABLE bookmarks (url TEXT)")
    database.close()
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(StoreError, match="another program"):
        open_store(tmp_path)
    assert (tmp_path / FILE).read_bytes() == before


def test_a_file_that_is_no_database_raises_a_store_error(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"no database at all" * 100)
    with pytest.raises(StoreError, match="damaged or no database"):
        open_store(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="choose another folder"):
        open_store(tmp_path / "file")


def test_released_migrations_are_unchanged() -> None:
    """Users' stores have run the released steps: changing one here would change nothing there."""
    texts = ["\x1f".join("".join(statement.split()) for statement in step) for step in MIGRATIONS]
    assert [hashlib.sha256(text.encode()).hexdigest()[:16] for text in texts] == [
        "0fa41880084a56c0",
        "152b881476cc87e7",
        "266f45a8f1cb3a2c",
        "ed0b651f6535e636",
        "d83d7ba05b4c3438",
    ]


def test_a_store_of_the_first_version_is_migrated(tmp_path: Path) -> None:
    entries = [example(number) for number in range(6)]
    with sqlite3.connect(tmp_path / FILE) as old:
        for statement in MIGRATIONS[0]:
            old.execute(statement)
        for number, entry in enumerate(entries, 1):
            values = (number, entry.time_s, entry.importance, entry.name, pack(entry.senses))
            old.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", values)
            for sense, key in entry.keys.items():
                features = None if key.features is None else key.features.astype("<f4").tobytes()
                row = (number, sense, key.encoder, key.vector.astype("<f4").tobytes(), features)
                old.execute("INSERT INTO keys VALUES (?, ?, ?, ?, ?)", row)
        old.execute("PRAGMA user_version = 1")
        old.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    old.close()
    for _ in range(2):
        with open_store(tmp_path) as store:
            assert store.check() == []
            assert store.sizes().entries == 6
            for found, entry in zip(store.find(), entries, strict=True):
                assert (found.time_s, found.importance, found.name) == (entry.time_s, entry.importance, entry.name)
                assert found.senses["words"] == entry.senses["words"]
                assert (found.pointer, found.recalled, found.recalled_s) == (None, 0, None)
                assert found.keys["sight"].vector.tobytes() == entry.keys["sight"].vector.tobytes()
            assert len(Index(store).update().ids) == 6
            assert [e.id for e in store.find(Filters(words="ENTRY 3"))] == [4]
    with open_store(tmp_path) as store:
        assert store.add([example(7)]) == [7]
        assert store.delete([1]) == 1
        assert store.check() == []


@pytest.mark.parametrize("owner", ["has closed it", "has it open", "opens it later"])
def test_a_store_that_may_only_be_read_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: str) -> None:
    """Regression: `memory stats` of a shared or mounted folder ended with "attempt to write a readonly database"."""
    folder = tmp_path / "a #1? memory"
    writer = SqliteStore(folder)
    writer.add([example(number) for number in range(4)])
    if owner != "has it open":
        writer.close()
    else:
        assert (folder / f"{FILE}-wal").stat().st_size
    readers = [True]  # root may do all, whatever the file's rights
    monkeypatch.setattr("devmind.memory.stores.sqlite._may_only_be_read", lambda _: readers[0])
    folder.chmod(0o500)
    before = {file.name: file.read_bytes() for file in folder.iterdir() if not file.name.endswith("-shm")}
    with SqliteStore(folder) as reader:
        assert reader.read_only
        assert len(reader.find()) == len(reader.facts().ids) == 4
        assert reader.check() == []
        reader.mark_recalled({1: 1}, 5.0)
        assert [entry.recalled for entry in reader.get([1])] == [0]
        for write in (
            lambda: reader.add([example(9)]),
            lambda: reader.delete([1]),
            lambda: reader.replace_keys({1: {}}),
            lambda: reader.check(mend=True),
        ):
            with pytest.raises(StoreError, match=r"may only be read by this user, so nothing .*--memory DIR"):
                write()
        assert {file.name: file.read_bytes() for file in folder.iterdir() if file.name in before} == before
        if owner == "opens it later":
            folder.chmod(0o700)
            readers[0] = False
            writer = SqliteStore(folder)
        if owner != "has closed it":
            writer.add([example(5)])
            assert len(reader.find()) == 5, "what its owner writes is seen"
    writer.close()
    folder.chmod(0o700)


def test_a_store_that_may_only_be_read_and_needs_its_log_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SqliteStore(tmp_path / "m") as store:
        store.add([example(1)])
        shutil.copytree(tmp_path / "m", tmp_path / "killed")
    (tmp_path / "killed" / f"{FILE}-shm").unlink()
    monkeypatch.setattr("devmind.memory.stores.sqlite._may_only_be_read", lambda _: True)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(StoreError, match=r"what was written last is in its log .*Let its owner open it once"):
        SqliteStore(tmp_path / "killed")
    with sqlite3.connect(tmp_path / "killed" / FILE) as database:
        database.execute("PRAGMA user_version = 3")
    database.close()
    with pytest.raises(StoreError, match=r"is of version 3 and has to be updated .* let its owner open it once"):
        SqliteStore(tmp_path / "killed")
