"""A worker's thread: items in order, what a full queue drops, and its end."""

from __future__ import annotations

import threading

from devmind.worker import Worker


class Slow(Worker[str]):
    def __init__(self) -> None:
        super().__init__("slow", 2)
        self.done, self.begun, self.may = list[str](), threading.Event(), threading.Event()

    def work(self, item: str) -> None:
        self.begun.set()
        self.may.wait(20)
        self.done.append(item)


def test_full_queue_drops_as_asked_and_the_end_waits_for_what_is_in_work() -> None:
    with Slow() as slow:
        assert slow.put("a")
        assert slow.begun.wait(20)
        assert [slow.put(item, if_room=True) for item in "bcd"] == [True, True, False]
        slow.put("e")
        threading.Timer(0.1, slow.may.set).start()
    assert slow.done == ["a"], "the item in work is finished, and what waits is dropped"
    assert list(slow._waiting) == ["c", "e"]
