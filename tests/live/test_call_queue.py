"""CallQueue: calls run in the loop's thread, their callers get the answer, and an ended loop refuses them."""

from __future__ import annotations

import threading

import pytest

from devmind.errors import DevmindError, StoreError
from devmind.live.call_queue import CallQueue


def test_call_runs_in_the_thread_of_the_loop_and_returns_its_answer() -> None:
    calls, answers = CallQueue(), list[tuple[str, str]]()

    def ask(word: str) -> None:
        answers.append((word, calls.ask(lambda: f"{word} by {threading.current_thread().name}")))

    askers = [threading.Thread(target=ask, args=(word,)) for word in ("a", "b")]
    for asker in askers:
        asker.start()
    done = 0
    while done < 2:
        done += calls.run()
    for asker in askers:
        asker.join()
    here = threading.current_thread().name
    assert sorted(answers) == [("a", f"a by {here}"), ("b", f"b by {here}")]


def test_error_is_raised_at_the_caller_and_the_loop_continues() -> None:
    calls, caught = CallQueue(), list[Exception]()

    def refuse() -> None:
        raise StoreError("No such name.")

    def ask() -> None:
        try:
            calls.ask(refuse)
        except StoreError as error:
            caught.append(error)

    asker = threading.Thread(target=ask)
    asker.start()
    while not calls.run():
        pass
    asker.join()
    assert [str(error) for error in caught] == ["No such name."]
    assert calls.run() == 0


def test_call_that_timed_out_raises_and_never_runs() -> None:
    calls, done = CallQueue(), list[int]()
    with pytest.raises(DevmindError, match="too busy"):
        calls.ask(lambda: done.append(1), patience_s=0.01)
    assert calls.run() == 0
    assert done == []


def test_ended_loop_refuses_calls() -> None:
    calls = CallQueue()
    calls.close()
    with pytest.raises(DevmindError, match="not living"):
        calls.ask(lambda: 1)
