"""Names are requested in every tick, and the loop gets an answer at once, whatever the memory holds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from devmind.agent.agent import Agent
from devmind.live.remembering.naming import STRANGE, Naming
from devmind.live.remembering.recent import RecentBuffer
from devmind.live.remembering.show_and_tell import ShowAndTell
from devmind.memory import Memory, open_store
from devmind.memory.stores.sqlite import SqliteStore
from devmind.moment import Moment
from devmind.testing import tiny_agent

PICTURE = np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)


def seeing(seed: int) -> Agent:
    born = tiny_agent(seed)
    born.add_encoder("sight")
    return born.eval()


def seen() -> RecentBuffer:
    recent = RecentBuffer()
    recent.add(Moment(0.0, {"sight": PICTURE}))
    return recent


def wait(naming: Naming, fault: str) -> None:
    give_up_s = time.monotonic() + 60
    while naming.fault != fault or not naming.child.names.encoders:
        assert time.monotonic() < give_up_s
        time.sleep(0.01)


def test_room_without_senses_has_no_names() -> None:
    child = ShowAndTell(seeing(0), Memory(open_store(None)))
    with Naming(child) as naming:
        assert naming.of(seen()) == {}, "no name was taught"
        child.teach("cup", seen().example())
        naming.changed()
        wait(naming, "")
        assert naming.of(seen())["sight"].nearest == "cup"
        assert naming.of(RecentBuffer()) == {}, "a camera that went away ended the life"


class Hearing(SqliteStore):
    """Is notified of other processes' writes, as a PostgreSQL store is."""

    heard: Callable[[], None] | None = None

    @contextmanager
    def watch(self, changed: Callable[[], None]) -> Iterator[None]:
        self.heard = changed
        yield
        self.heard = None


def test_name_taught_by_another_process_is_known_after_notification(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("devmind.live.remembering.naming.LOOK_S", 60.0)
    store = Hearing(tmp_path)
    with store, SqliteStore(tmp_path) as other, Naming(ShowAndTell(seeing(0), Memory(store))) as naming:
        ShowAndTell(seeing(0), Memory(other)).teach("cup", seen().example())
        assert store.heard is not None
        store.heard()
        wait(naming, "")
        assert naming.of(seen())["sight"].nearest == "cup"
    assert store.heard is None


def test_memory_of_another_agent_is_reported_and_ends_nothing() -> None:
    memory = Memory(open_store(None))
    child = ShowAndTell(seeing(0), memory)
    child.teach("cup", seen().example())
    with Naming(child) as naming:
        wait(naming, "")
        ShowAndTell(seeing(1), memory)
        naming.changed()
        wait(naming, STRANGE)
        assert naming.of(seen()) == {}


def test_unreadable_memory_is_reported() -> None:
    store = open_store(None)
    child = ShowAndTell(seeing(0), Memory(store))
    with Naming(child) as naming:
        store.close()
        naming.changed()
        give_up_s = time.monotonic() + 60
        while "closed" not in naming.fault:
            assert time.monotonic() < give_up_s
            time.sleep(0.01)
        assert naming.of(seen()) == {}


def test_any_fault_in_fitting_names_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged() -> None:
        raise EOFError("No data left in file")

    child = ShowAndTell(seeing(0), Memory(open_store(None)))
    monkeypatch.setattr(child.names, "fit", damaged)
    with Naming(child) as naming:
        give_up_s = time.monotonic() + 10
        while not naming.fault and time.monotonic() < give_up_s:
            time.sleep(0.01)
        assert naming.fault == "No data left in file"
