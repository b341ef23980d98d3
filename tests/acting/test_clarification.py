"""When the agent asks about something it lacks: once, after it has looked for it in vain."""

from __future__ import annotations

from typing import Any

import pytest

from devmind.acting.clarification import Inquiry, lacking
from devmind.agent.agent import StepOutput
from devmind.agent.plans import Lack


def lack(question: str, looks_s: float = 0.0) -> Lack:
    return Lack(question, lambda answer: answer, looks_s)


def test_inquiry_asks_once_after_looking_and_stays_open_while_the_lack_lasts() -> None:
    inquiry, where, what = Inquiry(), lack("Where?", 1.0), lack("What?")
    ticks = [(where, 5.0), (where, 5.9), (where, 6.0), (where, 6.1), (None, 6.2), (where, 6.3), (what, 6.4),
             (what, 6.5), (where, 7.3), (where, 8.4)]  # fmt: skip
    due = [inquiry.is_due(one, at_s) for one, at_s in ticks]
    assert due == [False, False, True, False, False, False, True, False, False, True]
    assert inquiry.asked is where
    assert not inquiry.is_due(None, 9.0)
    assert inquiry.asked is None, "who is shown the thing asks no more"


class Lacks:
    """An output that lacks something in one of its rows if there is a page."""

    def __init__(self, row: int) -> None:
        self.row = row

    def lacks(self, page: str, row: int = 0) -> Lack | None:
        return lack(page) if page and row == self.row else None


@pytest.mark.parametrize(("row", "found"), [(0, None), (1, "a page")])
def test_lacking_asks_only_heads_that_decided_in_the_row(row: int, found: str | None) -> None:
    outputs: dict[str, Any] = {"decided": Lacks(1), "idle": Lacks(0)}
    output = StepOutput(outputs=outputs, answered={"choose": {"idle": 0, "decided": 2, "directed": 1}})
    came = lacking(output, "a page", row)
    assert (came and came.question) == found
    assert lacking(output, "", row) is None
