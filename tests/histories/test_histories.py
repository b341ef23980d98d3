"""The checker of histories refuses those that are wrong, and memories under kills have none of these."""

from __future__ import annotations

import itertools
import math
import random
from pathlib import Path

import pytest

from tests.histories.__main__ import crashed, histories, live, thinned
from tests.histories.checker import ADD, DELETE, READ, REKEY, Operation, after, linearizable
from tests.memory.postgres_server import PostgresServer, binaries

O = Operation  # noqa: E741 - short, as rows of a table
NEVER = math.inf
A, B = "a", "b"


@pytest.mark.parametrize(
    "history",
    [
        [],
        [O(0, 1, READ, got=None), O(2, 3, ADD, A), O(4, 5, READ, got=A), O(6, 7, DELETE, got=1), O(8, 9, READ)],
        [O(0, 9, ADD, A), O(1, 2, READ, got=None), O(3, 4, READ, got=A)],  # while it is written
        [O(0, 1, ADD, A), O(2, NEVER, DELETE), O(3, 4, READ, got=A), O(5, 6, READ, got=None)],  # killed in forgetting
        [O(0, 1, ADD, A), O(2, NEVER, DELETE), O(3, 4, READ, got=A)],  # killed before it did anything
        [O(0, NEVER, ADD, A), O(50, 51, READ, got=None), O(60, 61, READ, got=A)],
        [O(0, 1, ADD, A), O(2, 5, REKEY, B), O(3, 6, DELETE, got=1), O(7, 8, READ, got=None)],
        [O(0, 1, ADD, A), O(2, 9, DELETE, got=1), O(3, 8, DELETE, got=0)],
        [O(0, 1, ADD, A), O(2, 9, REKEY, B), O(3, 4, READ, got=B), O(5, 6, READ, got=B)],
    ],
)
def test_right_histories_pass(history: list[Operation]) -> None:
    assert linearizable(history)


@pytest.mark.parametrize(
    ("why", "history"),
    [
        ("a lost write", [O(0, 1, ADD, A), O(2, 3, READ, got=None)]),
        ("a stale read after an acknowledged forget",
         [O(0, 1, ADD, A), O(2, 3, DELETE, got=1), O(4, 5, READ, got=A)]),
        ("it comes back", [O(0, 1, ADD, A), O(2, 9, DELETE, got=1), O(3, 4, READ, got=None), O(5, 6, READ, got=A)]),
        ("never written", [O(0, 1, READ, got=A)]),
        ("read before it was written", [O(0, 1, READ, got=A), O(2, 3, ADD, A)]),
        ("forgotten twice", [O(0, 1, ADD, A), O(2, 3, DELETE, got=1), O(2, 4, DELETE, got=1)]),
        ("forgetting missed what was there", [O(0, 1, ADD, A), O(2, 3, DELETE, got=0)]),
        ("an old key behind an acknowledged re-keying", [O(0, 1, ADD, A), O(2, 3, REKEY, B), O(4, 5, READ, got=A)]),
        ("a new key and then the old one",
         [O(0, 1, ADD, A), O(2, 9, REKEY, B), O(3, 4, READ, got=B), O(5, 6, READ, got=A)]),
        ("killed in writing, seen, and gone", [O(0, NEVER, ADD, A), O(2, 3, READ, got=A), O(4, 5, READ, got=None)]),
    ],
)  # fmt: skip
def test_wrong_histories_are_refused(why: str, history: list[Operation]) -> None:
    assert not linearizable(history), why


def test_the_search_says_what_trying_all_orders_says() -> None:
    said = []
    for seed in range(400):
        draw = random.Random(seed)
        history = []
        for _ in range(draw.randint(1, 6)):
            at_s, kind = draw.uniform(0, 6), draw.choice([ADD, READ, READ, DELETE, REKEY])
            until_s = NEVER if draw.random() < 0.2 else at_s + draw.uniform(0.1, 4)
            got = draw.choice([None, A, B]) if kind == READ else draw.randint(0, 1) if kind == DELETE else None
            history.append(O(at_s, until_s, kind, draw.choice([A, B]), got))
        said.append(linearizable(history))
        assert said[-1] == by_all_orders(history), history
    assert 0.2 < sum(said) / len(said) < 0.8


def by_all_orders(history: list[Operation]) -> bool:
    closed = [one for one in history if not one.is_open]
    opened = [one for one in history if one.is_open]
    for count in range(len(opened) + 1):
        for some in itertools.combinations(opened, count):
            if any(_fits(order) for order in itertools.permutations([*closed, *some])):
                return True
    return False


def _fits(order: tuple[Operation, ...]) -> bool:
    state = None
    for at, one in enumerate(order):
        if any(later.answered_s < one.called_s for later in order[at + 1 :]):
            return False
        fits, state = after(state, one)
        if not fits:
            return False
    return True


def test_what_a_killed_process_called_has_no_end_and_what_was_refused_is_none() -> None:
    found, faults, counts = histories(
        [
            {"id": "1.1", "at": 0, "kind": "add", "tag": "x", "given": A},
            {"id": "1.2", "at": 5, "kind": "rekey", "tags": ["x"], "given": B},
            {"id": "1.2", "at": 6, "error": "Keys of two", "refused": True},
            {"id": "2.1", "at": 7, "kind": "snapshot"},
            {"id": "2.1", "at": 8, "got": {"x": A, "y": B}},
        ]
    )
    assert found == {"x": [O(0.0, NEVER, ADD, A), O(7e-9, 8e-9, READ, got=A)]}
    assert faults == ["a look at the whole has keys of ['a', 'b']", "y was never written"]
    assert counts == {"add without an answer": 1, "rekey refused": 1, "snapshot": 1}


def test_reads_that_tell_nothing_more_are_left_out_and_others_are_not() -> None:
    still = [O(0, 1, ADD, A), *(O(at, at + 1, READ, got=A) for at in range(2, 40, 2))]
    assert len(thinned(still)) == 3
    stale = [*still, O(40, 41, DELETE, got=1), *(O(at, at + 1, READ, got=A) for at in range(42, 60, 2))]
    assert not linearizable(stale)
    assert not linearizable(thinned(stale))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_sqlite_memory_under_kills_has_an_order(tmp_path: Path) -> None:
    counts = live(str(tmp_path / "mind"), 8.0, 1, tmp_path)
    assert min(counts[what] for what in ("add", "delete", "rekey", "read", "snapshot", "kills")) >= 1, counts


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_postgres_memory_under_kills_and_crashes_has_an_order(tmp_path: Path) -> None:
    found = binaries()
    if found is None:
        pytest.skip("no PostgreSQL server: make test-system")
    server = PostgresServer(found)
    try:
        counts = live(server.database(), 10.0, 1, tmp_path, lambda: crashed(server))
    finally:
        server.close()
    assert min(counts[what] for what in ("add", "delete", "rekey", "read", "snapshot", "kills", "crashes")) >= 1, counts
