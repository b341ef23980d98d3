"""Broken connections: a write is kept once or not at all wherever the break comes, and work goes on after a restart."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from broken_line import BrokenLine
from postgres_server import PostgresServer

from devmind.config import MemoryConfig
from devmind.errors import StoreError
from devmind.memory import Filters, open_store
from devmind.memory.stores.postgres import link, listen
from devmind.testing.stores import example
from tests.live.test_life import Home, raise_agent

KILLED = """
import sys
from devmind.memory import open_store
from devmind.testing.stores import example

with open_store(sys.argv[1]) as store:
    for number in range(100_000):
        print(store.add([example(number)])[0], flush=True)
"""


def words(url: str) -> list[object]:
    """The words of all entries in order."""
    with open_store(url) as store:
        assert store.check() == []
        return [entry.senses["words"] for entry in store.find()]


@pytest.mark.parametrize("passed_on", [True, False], ids=["its answer is lost", "it never arrives"])
def test_a_commit_over_a_breaking_connection_is_kept_once(postgres: PostgresServer, url: str, passed_on: bool) -> None:
    line = BrokenLine(postgres.port, b"COMMIT", passed_on, times=0)
    with line, open_store(url.replace(f":{postgres.port}/", f":{line.port}/")) as store:
        store.add([example(0)])
        line.left = 2  # the second break comes while the store looks up whether the first write was kept
        assert store.add([example(1), example(2)]) == [2, 3]
        assert line.left == 0
        line.left = 1
        assert store.delete([2], erase=False) == 1
        assert line.left == 0
    assert words(url) == [example(number).senses["words"] for number in (0, 2)]


def test_a_break_before_the_commit_writes_nothing_twice(postgres: PostgresServer, url: str) -> None:
    line = BrokenLine(postgres.port, b"devmind.writers", passed_on=True, times=0)
    with line, open_store(url.replace(f":{postgres.port}/", f":{line.port}/")) as store:
        line.left = 2
        assert store.add([example(0)]) == [1]
        assert line.left == 0
    assert words(url) == [example(0).senses["words"]]


@pytest.mark.parametrize("mark", [b"devmind.recalls", b"COMMIT"], ids=["statement", "commit"])
@pytest.mark.parametrize("passed_on", [True, False], ids=["its answer is lost", "it never arrives"])
def test_a_recall_over_a_breaking_connection_is_counted_once(
    postgres: PostgresServer, url: str, mark: bytes, passed_on: bool
) -> None:
    line = BrokenLine(postgres.port, mark, passed_on, times=0)
    with line, open_store(url.replace(f":{postgres.port}/", f":{line.port}/")) as store:
        ids = store.add([example(0), example(1)])
        line.left = 1
        store.mark_recalled({ids[0]: 1, ids[1]: 3}, 5.0)
        assert line.left == 0
        assert [entry.recalled for entry in store.get(ids)] == [1, 3]


def test_a_kept_write_is_seen_under_repeatable_read_isolation(url: str) -> None:
    """Looking up whether a write was kept waits for it and must see what was committed meanwhile."""
    open_store(url).close()
    name, writer = url.rpartition("/")[2], uuid.uuid4()
    with psycopg.connect(url, autocommit=True) as other:
        other.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = 'repeatable read'".encode())
    write = link._Write(lambda connection: None, writer, 1)
    with psycopg.connect(url) as other, link.connect(url) as looking, ThreadPoolExecutor(1) as pool:
        other.execute("SELECT FROM devmind.state FOR KEY SHARE")
        other.execute("INSERT INTO devmind.writers VALUES (%s, 1, now())", (writer,))
        kept = pool.submit(write._was_committed, looking)
        while not other.execute("SELECT FROM pg_locks WHERE NOT granted").rowcount:
            time.sleep(0.01)
        other.commit()
        assert kept.result()


def test_an_unreachable_server_raises_an_error_and_acknowledges_nothing(
    postgres: PostgresServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "PATIENCE_S", 0.5)
    with open_store(url) as store:
        store.add([example(0)])
        postgres.stop()
        try:
            for _ in range(2):
                with pytest.raises(StoreError, match="look whether it runs"):
                    store.add([example(1)])
            with pytest.raises(StoreError, match="look whether it runs"):
                store.find()
        finally:
            postgres.start()
        assert store.add([example(2)]) == [2]
    assert words(url) == [example(number).senses["words"] for number in (0, 2)]


def test_an_unanswered_commit_is_reported_as_in_doubt(
    postgres: PostgresServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "PATIENCE_S", 0.5)
    line = BrokenLine(postgres.port, b"COMMIT", passed_on=True, times=0)
    with line, open_store(url.replace(f":{postgres.port}/", f":{line.port}/")) as store:
        line.left = 100  # the outcome stays unknown
        with pytest.raises(StoreError, match="Whether the last write was kept is not known"):
            store.add([example(0)])
    assert words(url) == [example(0).senses["words"]]


@pytest.mark.slow
def test_restarts_during_writing_lose_and_double_nothing(postgres: PostgresServer, url: str) -> None:
    acknowledged: dict[int, int] = {}
    ended = threading.Event()

    def write() -> None:
        with open_store(url) as store:
            number = 0
            while not ended.is_set():
                acknowledged[store.add([example(number)])[0]] = number
                number += 1

    writer = threading.Thread(target=write)
    writer.start()
    for mode in ("fast", "immediate"):
        time.sleep(0.3)
        before = len(acknowledged)
        postgres.stop(mode)
        postgres.start()
        deadline = time.monotonic() + 20
        while len(acknowledged) < before + 3 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(acknowledged) >= before + 3, "writing goes on after the restart"
    ended.set()
    writer.join()
    with open_store(url) as store:
        found = {entry.id: entry.senses["words"] for entry in store.find()}
    assert found == {number: example(which).senses["words"] for number, which in acknowledged.items()}


@pytest.mark.slow
def test_acknowledged_writes_survive_a_kill_of_the_writer(url: str) -> None:
    with subprocess.Popen([sys.executable, "-c", KILLED, url], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        acknowledged = [int(child.stdout.readline()) for _ in range(20)]
        child.send_signal(signal.SIGKILL)
        acknowledged += [int(line) for line in child.stdout if line.endswith("\n")]
    with open_store(url) as store:
        assert set(acknowledged) <= {entry.id for entry in store.find()}
        assert store.check() == []
        assert store.add([example(0)])  # the killed writer blocks nothing


def test_a_blocking_writer_is_reported(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "PATIENCE_S", 0.3)
    with open_store(url) as store, psycopg.connect(url) as other:
        other.execute("SELECT FROM devmind.state FOR UPDATE")
        with pytest.raises(StoreError, match="another process has been writing to it"):
            store.add([example(0)])
        assert store.find() == []  # readers are not blocked
        other.rollback()
        assert store.add([example(0)])


def test_counting_recalls_waits_for_no_writer(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "PATIENCE_S", 0.3)
    with open_store(url) as store, psycopg.connect(url) as other:
        store.add([example(0)])
        other.execute("UPDATE devmind.state SET changed = changed + 1")
        store.mark_recalled({1: 1}, 5.0)
        other.execute("UPDATE devmind.state SET changed = changed + 1")
        assert [entry.recalled for entry in store.find()] == [1]


class Heard:
    """Counts the calls of a watch."""

    def __init__(self) -> None:
        self.count = threading.Semaphore(0)

    def __call__(self) -> None:
        self.count.release()

    def soon(self, timeout_s: float = 5.0) -> bool:
        return self.count.acquire(timeout=timeout_s)

    def forget(self) -> None:
        while self.count.acquire(blocking=False):
            pass


def test_a_watch_hears_of_other_processes_writes_at_once(url: str) -> None:
    heard = Heard()
    with open_store(url) as store, open_store(url) as other, store.watch(heard):  # type: ignore[attr-defined]
        assert heard.soon()  # the first call says that it listens
        assert not heard.soon(0.3)
        for act in (
            lambda: other.add([example(0)]),
            lambda: other.replace_keys({1: example(1).keys}),
            lambda: other.delete([1], erase=False),
        ):
            act()
            assert heard.soon()
            heard.forget()
        other.mark_recalled({1: 1}, 5.0)
        assert not heard.soon(0.3)


def test_a_watch_makes_up_for_a_lost_notification(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listen, "QUIET_S", 0.4)
    heard = Heard()
    with open_store(url) as store, store.watch(heard), psycopg.connect(url, autocommit=True) as other:  # type: ignore[attr-defined]
        assert heard.soon()
        other.execute("UPDATE devmind.state SET changed = changed + 1")  # a write whose notification never came
        assert heard.soon()


def test_a_watch_resumes_after_a_break_and_misses_nothing(postgres: PostgresServer, url: str) -> None:
    heard = Heard()
    with open_store(url) as store, store.watch(heard) as watch:  # type: ignore[attr-defined]
        assert heard.soon()
        before = store.revision()
        with psycopg.connect(url, autocommit=True) as other:
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND datname = current_database()"
            )
        store.add([example(0)])
        assert heard.soon()
        assert watch.breaks
        changes = store.changes(before)
        assert not changes.anew
        assert changes.facts.ids.tolist() == [1]
        postgres.stop()
        heard.forget()
        postgres.start()
        assert heard.soon(15)


def test_a_watch_ends_while_the_server_is_down(postgres: PostgresServer, url: str) -> None:
    with open_store(url) as store:
        postgres.stop()
        try:
            started = time.monotonic()
            with store.watch(lambda: None):  # type: ignore[attr-defined]
                time.sleep(0.2)
            assert time.monotonic() - started < 5
        finally:
            postgres.start()
    assert not [thread for thread in threading.enumerate() if thread.name == "memory-watch"], os.getpid()


@pytest.mark.slow
def test_life_goes_on_while_the_server_restarts(
    postgres: PostgresServer, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "PATIENCE_S", 0.5)
    monkeypatch.setattr(listen, "QUIET_S", 0.4)
    always = MemoryConfig(keep="always", novelty=1e-9, shortest_s=0.1, longest_s=1)
    with Home(raise_agent(tmp_path / "start", 1), tmp_path, remembering=always, memory=url) as home:
        life = home.life
        home.wait(lambda: life.holding.square)
        life.do("teach", {"name": "cup"})
        home.wait(lambda: life.recalling.written >= 2)
        postgres.stop("immediate")
        try:
            home.wait(lambda: any("look whether it runs" in fault for fault in life.faults()))
            with pytest.raises(StoreError, match="look whether it runs"):
                life.do("teach", {"name": "box"})
            home.ticks(10)
            written = life.recalling.written
        finally:
            postgres.start()
        home.wait(lambda: life.recalling.written >= written + 2)
        home.wait(lambda: not life.faults())
        life.do("teach", {"name": "box"})
    with open_store(url) as store:
        assert store.check() == []
        assert [entry.name for entry in store.find(Filters(named=True))] == ["cup", "box"]
        assert len(store.find(Filters(named=False))) >= life.recalling.written
