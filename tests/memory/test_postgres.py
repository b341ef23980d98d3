"""The PostgreSQL store on a real server: its contract, two agents, a restart between them, and what it refuses."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import psycopg
import pytest
from postgres_server import PostgresServer, free_port

from devmind.errors import StoreError
from devmind.memory import Memory, open_store
from devmind.memory.stores.postgres import link, open_postgres
from devmind.memory.stores.postgres.link import Connection
from devmind.memory.stores.postgres.migrations import MIGRATIONS
from devmind.memory.stores.postgres.rows import read_changes, read_entries, rows_of
from devmind.memory.stores.postgres.store import PostgresStore
from devmind.testing import check_store
from devmind.testing.stores import example

AGENT = """
import sys
from devmind.memory import Memory, open_store
from devmind.moment import Moment
from devmind.testing.stores import example

url, own, others = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with open_store(url) as store:
    memory = Memory(store)
    memory.recall(example(0).keys)  # its index is made while the store is empty
    for line in sys.stdin:
        if line.startswith("write"):
            entry = example(own + int(line.split()[1]))
            print(memory.write(Moment(0.0, dict(entry.senses), 0.0, True, False, False), entry.keys).id, flush=True)
        else:
            entry = example(others + int(line.split()[1]))
            found = memory.recall(entry.keys, k=1)[0]
            print(found.senses["words"] == entry.senses["words"] and found.score > 0.999, flush=True)
"""


def test_the_store_keeps_its_law(url: str) -> None:
    check_store(lambda: open_store(url))


def execute(url: str, statement: str, *values: object) -> list[tuple[object, ...]]:
    """Execute a statement beside the store and return its rows."""
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode(), values or None)
        return cursor.fetchall() if cursor.description else []


class Agent:
    """A process with a memory of its own on the shared store."""

    def __init__(self, url: str, own: int, others: int) -> None:
        command = [sys.executable, "-c", AGENT, url, str(own), str(others)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, words: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(words + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def end(self) -> None:
        self.process.communicate(timeout=30)


@pytest.mark.slow
def test_two_agents_recall_each_others_memories_across_a_server_restart(postgres: PostgresServer, url: str) -> None:
    one, other = Agent(url, 100, 200), Agent(url, 200, 100)
    try:
        written = [one.ask("write 1"), other.ask("write 1"), one.ask("write 2")]
        assert [other.ask("recall 1"), one.ask("recall 1"), other.ask("recall 2")] == ["True"] * 3
        postgres.stop()
        postgres.start()
        assert [other.ask("recall 2"), one.ask("recall 1")] == ["True"] * 2
        written += [other.ask("write 3"), one.ask("write 3")]
        postgres.stop("immediate")
        postgres.start()
        assert [one.ask("recall 3"), other.ask("recall 3")] == ["True"] * 2
    finally:
        one.end()
        other.end()
    assert [int(number) for number in written] == [1, 2, 3, 4, 5]


def test_several_processes_may_open_a_new_database_at_once(postgres: PostgresServer) -> None:
    together = threading.Barrier(4)

    def open_at_once(url: str) -> int:
        together.wait()
        with open_store(url) as store:
            return store.add([example(0)])[0]

    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            url = postgres.database()
            assert sorted(pool.map(open_at_once, [url] * 4)) == [1, 2, 3, 4]


def test_concurrent_writers_lose_no_entries(url: str) -> None:
    def write(offset: int) -> list[int]:
        with open_store(url) as store:
            return [store.add([example(offset + number)])[0] for number in range(25)]

    with ThreadPoolExecutor(3) as pool:
        written = [number for ids in pool.map(write, (0, 100, 200)) for number in ids]
    with open_store(url) as store:
        assert sorted(written) == [entry.id for entry in store.find(payloads=False)] == list(range(1, 76))
        assert store.check() == []


def test_recalls_are_counted_while_another_process_deletes_one_of_the_entries(url: str) -> None:
    """Only the deleted entry is skipped; the counts of all used to be lost."""
    with open_store(url) as store, psycopg.connect(url) as other, ThreadPoolExecutor(1) as pool:
        ids = store.add([example(number) for number in range(3)])
        other.execute("DELETE FROM devmind.entries WHERE id = %s", (ids[1],))
        counted = pool.submit(store.mark_recalled, dict.fromkeys(ids, 2), 5.0)
        while not execute(url, "SELECT pid FROM pg_locks WHERE NOT granted"):
            time.sleep(0.01)
        other.commit()
        counted.result()
        assert [(entry.id, entry.recalled) for entry in store.find()] == [(ids[0], 2), (ids[2], 2)]


def test_concurrent_counts_of_recalls_are_all_kept(url: str) -> None:
    with open_store(url) as store:
        ids = store.add([example(number) for number in range(8)])

        def count(order: list[int]) -> None:
            with open_store(url) as own:
                for _ in range(20):
                    own.mark_recalled(dict.fromkeys(order, 1), 5.0)

        with ThreadPoolExecutor(3) as pool:
            list(pool.map(count, (ids, ids[::-1], [*ids[4:], *ids[:4]])))
        assert [entry.recalled for entry in store.find()] == [60] * 8


def test_recalls_accept_numpy_numbers(url: str) -> None:
    """As in the SQLite store: an index returns such numbers."""
    with open_store(url) as store:
        ids = store.add([example(0), example(1)])
        store.mark_recalled({ids[0]: 1, np.int64(ids[1]): np.int64(2)}, np.float64(5.0))
        assert [(entry.recalled, entry.recalled_s) for entry in store.find()] == [(1, 5.0), (2, 5.0)]


def test_changes_are_seen_in_the_order_of_commits(url: str) -> None:
    """A reader that sees change n has missed none below n, however slow a writer is."""
    seen: set[int] = set()
    ended = threading.Event()

    def write(offset: int) -> None:
        with open_store(url) as store:
            for number in range(30):
                store.add([example(offset + number) for _ in range(1 + number % 3)])

    def read() -> None:
        with open_store(url) as store:
            since = None
            while True:
                last = ended.is_set()
                changes = store.changes(since)
                since = changes.revision
                seen.update(changes.facts.ids.tolist())
                if last:
                    return

    with open_store(url), ThreadPoolExecutor(3) as pool:
        reader = pool.submit(read)
        for writer in [pool.submit(write, offset) for offset in (0, 100)]:
            writer.result()
        ended.set()
        reader.result()
    assert seen == set(range(1, 121))


@pytest.mark.parametrize("order", ["both begin empty", "one after the other"])
def test_two_processes_cannot_mix_encoders(url: str, order: str) -> None:
    with open_store(url) as one, open_store(url) as other:
        if order == "both begin empty":
            together = threading.Barrier(2)

            def add(store: PostgresStore, encoder: str) -> bool:
                together.wait()
                try:
                    return bool(store.add([example(0, encoder)]))
                except StoreError:
                    return False

            with ThreadPoolExecutor(2) as pool:
                kept = list(pool.map(add, (one, other), ("encoder-a", "encoder-b")))
            assert sorted(kept) == [False, True]
        else:
            one.add([example(0)])
            with pytest.raises(StoreError, match="two encoders"):
                other.add([example(1, "encoder-b")])
        assert len(one.find()) == 1
        assert {key.encoder for entry in other.find() for key in entry.keys.values()} < {"encoder-a", "encoder-b"}


def test_the_database_itself_refuses_mixed_encoders(url: str) -> None:
    """Also for a statement typed in psql."""
    with open_store(url) as store:
        store.add([example(0)])
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            execute(url, "UPDATE devmind.keys SET encoder = 'encoder-b' WHERE sense = 'sight'")
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            execute(url, "UPDATE devmind.encoders SET encoder = 'encoder-b'")


def test_a_store_of_a_newer_version_is_refused_and_unchanged(url: str) -> None:
    newer = len(MIGRATIONS) + 1
    with open_store(url) as store:
        store.add([example(0)])
        execute(url, "UPDATE devmind.state SET version = %s", newer)
        with pytest.raises(StoreError, match=rf"of version {newer} .* update devmind"):
            store.add([example(1)])  # a store that was opened before the update refuses to write, too
    before = execute(url, "SELECT * FROM devmind.state")
    with pytest.raises(StoreError, match=rf"of version {newer} .* update devmind"):
        open_store(url)
    assert execute(url, "SELECT * FROM devmind.state") == before


@pytest.mark.parametrize("table", ["bookmarks (url text)", "state (url text)"])
def test_a_schema_of_another_program_is_refused_and_unchanged(url: str, table: str) -> None:
    execute(url, "CREATE SCHEMA devmind")
    execute(url, f"CREATE TABLE devmind.{table}")
    with pytest.raises(StoreError, match="another program"):
        open_store(url)
    tables = "SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace('devmind') AND relkind = 'r'"
    assert execute(url, tables) == [(1,)]


def test_an_opening_error_is_a_sentence_without_the_password(
    postgres: PostgresServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "OPENING_S", 0.2)
    nobody = f"postgresql://somebody:secret@127.0.0.1:{free_port()}/memory"
    for place, said in (
        (nobody, "look whether it runs"),
        (postgres.url("no_such_database"), "does not exist"),
        (postgres.url("postgres", password="secret"), "password authentication failed"),
        ("postgresql://somebody:secret@host/db?no_such_option=1", "URL of the PostgreSQL store cannot be read"),
    ):
        with pytest.raises(StoreError, match=said) as caught:
            open_store(place)
        assert "secret" not in str(caught.value)
        assert postgres.password not in str(caught.value)
    with pytest.raises(StoreError, match="opened by a URL"):
        open_postgres("memory")
    with open_store(url) as store:
        assert postgres.password not in store.place  # type: ignore[attr-defined]


def test_without_psycopg_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreError, match=r"pip install 'devmind\[postgres\]'"):
        open_store("postgresql://somebody@127.0.0.1/memory")


def test_names_that_postgresql_cannot_store_are_refused(url: str) -> None:
    from dataclasses import replace

    with open_store(url) as store:
        for name in ("a\0b", "\udc80"):
            with pytest.raises(StoreError):
                store.add([example(1), replace(example(0), name=name)])
        assert store.find() == []
        assert store.add([example(0)])


def test_commits_are_synchronous_whatever_the_database_setting(url: str) -> None:
    name = url.rpartition("/")[2]
    execute(url, f"ALTER DATABASE {name} SET synchronous_commit = off")
    with open_store(url) as store:
        setting = "SELECT current_setting('synchronous_commit')"
        assert store._link.alone(lambda connection: connection.execute(setting.encode()).fetchone()) == ("on",)  # type: ignore[attr-defined]


def test_damage_is_reported_and_mended(url: str) -> None:
    with open_store(url) as store:
        ids = store.add([example(number) for number in range(6)])
        execute(
            url, "UPDATE devmind.entries SET payload = set_byte(payload, 40, 255 - get_byte(payload, 40)) WHERE id = 2"
        )
        execute(url, "UPDATE devmind.keys SET vector[5] = 0.5 WHERE entry = 4 AND sense = 'sound'")
        execute(url, "UPDATE devmind.entries SET text = 'nothing' WHERE id = 5")
        execute(url, "UPDATE devmind.state SET keys_sum = 1")
        for number in (2, 4):
            with pytest.raises(StoreError, match=f"Entry {number} .* damaged"):
                store.get([number])
        told = store.check()
        assert len(told) == 4
        assert [sentence for sentence in store.check(mend=True) if "deleted" in sentence] == [
            f"{sentence} It was deleted." for sentence in told[:2]
        ]
        assert store.check() == []
        assert [entry.id for entry in store.find()] == [ids[0], ids[2], ids[4], ids[5]]


def test_old_deletions_are_dropped_and_late_readers_begin_anew(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("devmind.memory.stores.postgres.store.KEPT_DELETIONS", 4)
    with open_store(url) as store:
        ids = store.add([example(number) for number in range(12)])
        before = store.revision()
        for number in ids[:6]:
            store.delete([number], erase=False)
        assert execute(url, "SELECT count(*) <= 5 FROM devmind.deletions") == [(True,)]
        assert store.changes(before).anew
        after = store.revision()
        store.delete(ids[6:8], erase=False)
        assert store.changes(after).deleted.tolist() == ids[6:8]
        assert store.check() == []


def test_reading_a_few_entries_scans_no_whole_table(url: str) -> None:
    """Found by measuring: without statistics, PostgreSQL's query planner read all keys for each recall."""
    with open_store(url) as store:
        for start in range(0, 2000, 500):
            store.add([example(start + number) for number in range(500)])
        before = store.revision()
        store.add([example(0)])

        def read(connection: Connection) -> int:
            scans = "SELECT seq_tup_read::int FROM pg_stat_xact_user_tables WHERE relname IN ('entries', 'keys')"
            assert len(read_entries(connection, "id = ANY(%s)", [[5, 900, 1700]], payloads=True)) == 3
            assert read_changes(connection, before).facts.ids.tolist() == [2001]
            return sum(int(row[0]) for row in rows_of(connection, scans))

        assert store._link.read(read) == 0  # type: ignore[attr-defined]


def test_recall_equals_that_of_sqlite(url: str) -> None:
    with open_store(url) as store, open_store(None) as beside:
        for each in (store, beside):
            each.add([example(number) for number in range(60)])
        shared, own = Memory(store), Memory(beside)
        for number in range(100, 105):
            keys = example(number).keys
            found, wanted = shared.recall(keys, k=8), own.recall(keys, k=8)
            assert [entry.id for entry in found] == [entry.id for entry in wanted]
            assert [entry.score for entry in found] == [entry.score for entry in wanted]


def test_released_migrations_are_unchanged() -> None:
    """Users' stores have run the released steps: changing one here would change nothing there."""
    text = "\x1f".join("".join(statement.split()) for statement in MIGRATIONS[0])
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "368466a53a41a7f0"
