"""Every fault in recalling is reported, and the next Moment is still recalled for."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from devmind.config import MemoryConfig
from devmind.errors import StoreError
from devmind.live.remembering.recalling import Recalling
from devmind.moment import Moment


class Child:
    """Fails first, then describes nothing."""

    def __init__(self, error: Exception) -> None:
        self.error: Exception | None = error
        self.asked = threading.Event()
        self.memory: Any = SimpleNamespace(flush=lambda: None)
        self.agent: Any = None

    def describe(self, senses: Any) -> dict[str, Any]:
        error, self.error = self.error, None
        if error is not None:
            raise error
        self.asked.set()
        return {}


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (StoreError("The disk is full."), "The disk is full."),
        (KeyError(7), "Recalling failed (KeyError: 7); it goes on with the next Moment. Please report it."),
    ],
)
def test_failure_is_reported_and_the_next_moment_is_recalled_for(error: Exception, fault: str) -> None:
    """Regression: a KeyError ended the thread, and nothing was recalled or reported any more."""
    child = Child(error)
    told = threading.Event()

    class Told(Recalling):
        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value)
            if name == "fault" and value:
                told.set()

    with Told(child, MemoryConfig(), keeps=lambda: False) as recalling:  # type: ignore[arg-type]
        recalling.put(Moment(0.0, {"words": "one"}))
        assert told.wait(60)
        assert recalling.fault == fault
        recalling.put(Moment(0.1, {"words": "two"}))
        assert child.asked.wait(60)
    assert recalling.fault == ""


def test_failure_at_the_end_is_reported() -> None:
    child = Child(KeyError(7))

    def flush() -> None:
        raise OSError("gone")

    child.memory.flush = flush
    with Recalling(child, MemoryConfig(), keeps=lambda: False) as recalling:  # type: ignore[arg-type]
        pass
    assert recalling.fault.startswith("Recalling failed (OSError: gone)")


def test_clock_that_is_set_back_does_not_stop_the_writing_down() -> None:
    child, now_s = Child(KeyError(7)), [1000.0]
    child.error, written = None, list[float]()
    child.memory.flush = lambda: written.append(now_s[0])
    recalling = Recalling(child, MemoryConfig(), keeps=lambda: False, clock=lambda: now_s[0])  # type: ignore[arg-type]
    for now_s[0] in (1000.0, 1005.0, 1010.0, 400.0, 405.0, 410.0):
        recalling._write_down()
    assert written == [1000.0, 1010.0, 400.0, 410.0]


def test_fault_of_keeping_or_writing_down_stays_until_it_succeeds() -> None:
    """Regression: both are tried every few seconds, and the next Moment, a tick later, cleared the fault: nobody could
    read that memory's disk was full.
    """
    child, full, now_s = Child(KeyError(7)), [True], [1000.0]
    child.error = None

    def refuse(*_: Any, **__: Any) -> None:
        if full[0]:
            raise StoreError("The disk is full.")

    child.memory = SimpleNamespace(flush=refuse, write=refuse)
    recalling = Recalling(child, MemoryConfig(), keeps=lambda: True, clock=lambda: now_s[0])  # type: ignore[arg-type]
    moment = Moment(0.0, {"words": "one"})
    recalling._keep(moment, {}, 1.0, 60.0)
    recalling._write_down()
    assert (recalling._unkept, recalling._unwritten, recalling.written) == (2 * ("The disk is full.",) + (0,))
    recalling._keep(moment, {}, 0.0, 0.0)  # nothing new: not tried
    recalling._write_down()  # not due
    assert recalling._unkept
    assert recalling._unwritten
    with recalling:
        recalling.put(moment)
        assert child.asked.wait(60)
        child.asked.clear()
        recalling.put(moment)
        assert child.asked.wait(60)
        assert recalling.fault == "The disk is full.", "a Moment without a fault of its own does not hide it"
        full[0] = False
        recalling._keep(moment, {}, 1.0, 60.0)
        now_s[0] += 60
        recalling._write_down()
    assert (recalling._unkept, recalling._unwritten, recalling.fault, recalling.written) == ("", "", "", 1)
