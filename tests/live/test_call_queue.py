"""CallQueue: done by the loop's thread, answered to whoever asked, refused when the loop is gone."""

from __future__ import annotations

import threading

import pytest

from devmind.errors import DevmindError, StoreError
from devmind.live.call_queue import CallQueue


def test_it_is_done_in_the_loops_thread_and_the_answer_comes_back() -> None:
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


def test_an_error_goes_to_whoever_asked_and_the_loop_goes_on() -> None:
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


def test_who_waited_too_long_is_told_and_nothing_is_done_later() -> None:
    calls, done = CallQueue(), list[int]()
    with pytest.raises(DevmindError, match="too busy"):
        calls.ask(lambda: done.append(1), patience_s=0.01)
    assert calls.run() == 0
    assert done == []


def test_a_loop_that_has_ended_takes_nothing_more() -> None:
    calls = CallQueue()
    calls.close()
    with pytest.raises(DevmindError, match="not living"):
        calls.ask(lambda: 1)
