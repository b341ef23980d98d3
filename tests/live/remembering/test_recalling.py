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
        recalling.offer(Moment(0.0, {"words": "one"}))
        assert told.wait(60)
        assert recalling.fault == fault
        recalling.offer(Moment(0.1, {"words": "two"}))
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
