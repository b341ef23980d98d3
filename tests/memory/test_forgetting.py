"""Forgetting keeps the budget, removes the least valuable entries first, and never removes names."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devmind.errors import StoreError
from devmind.memory import Budget, Facts, Key, Memory, Sizes, open_store
from devmind.memory.forgetting import random_factor, surplus, values
from devmind.moment import Moment

HOUR_S = 3600.0


def key(seed: int) -> Key:
    vector = np.random.default_rng(seed).normal(size=64)
    return Key((vector / np.linalg.norm(vector)).astype(np.float32), "a")


def facts(time_s: list[float], importance: list[float], recalled: list[int], names: list[str | None]) -> Facts:
    n = len(time_s)
    return Facts(
        np.arange(1, n + 1), np.array(time_s, float), np.array(importance, float), names, np.array(recalled, np.int64),
        np.full(n, np.nan), np.full(n, 100), np.zeros(n, np.int64),
    )  # fmt: skip


def test_value_is_recency_times_importance_times_use() -> None:
    one = facts([0, 10 * HOUR_S, 10 * HOUR_S, 10 * HOUR_S, 0], [0, 0, 3, 0, 0], [0, 0, 0, 1, 0], [None] * 4 + ["cup"])
    found = values(one, 10 * HOUR_S, half_life_h=10)
    assert found.tolist() == [0.5, 1, 4, 2, np.inf]
    one.recalled_s[0] = 10 * HOUR_S  # what was recalled just now counts as new
    assert values(one, 10 * HOUR_S, half_life_h=10)[0] == 1


def test_luck_is_uniform_and_depends_on_the_entrys_number_alone() -> None:
    found = np.log2(random_factor(np.arange(1, 20_001)))
    assert -1 <= found.min() < found.max() < 1
    assert np.abs(np.histogram(found, 10, (-1, 1))[0] - 2000).max() < 200
    assert abs(np.corrcoef(found[1:], found[:-1])[0, 1]) < 0.03
    np.testing.assert_array_equal(random_factor(np.array([7, 5])), random_factor(np.array([5, 7]))[::-1])


@given(
    st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 5), st.integers(0, 9), st.booleans()), min_size=1, max_size=60),
    st.integers(1, 60),
    st.integers(500, 10_000),
)
@settings(max_examples=30, deadline=None)
def test_surplus_removes_the_least_valuable_entries_and_no_more_than_needed(
    rows: list[tuple[float, float, int, bool]], entries: int, n_bytes: int
) -> None:
    one = facts([r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows], ["x" if r[3] else None for r in rows])
    n = len(rows)
    sizes, budget = Sizes(n, 100 * n, 256 * n), Budget(entries, n_bytes)
    gone = surplus(one, sizes, budget, 1e6)
    if not budget.exceeded(sizes):
        assert not len(gone)
        return
    worth = dict(zip(one.ids.tolist(), values(one, 1e6, budget.half_life_h) * random_factor(one.ids), strict=True))
    stays = [number for number in worth if number not in gone]
    assert all(np.isfinite(worth[number]) for number in gone.tolist())
    assert max((worth[g] for g in gone.tolist()), default=0) <= min((worth[s] for s in stays), default=np.inf)
    left = Sizes(len(stays), 100 * len(stays), 256 * len(stays))
    assert not budget.exceeded(left) or all(np.isinf(worth[number]) for number in stays)
    more = Sizes(left.entries + 1, left.payload_bytes + 100, left.key_bytes + 256)
    assert more.entries > 0.95 * entries or more.bytes > 0.95 * n_bytes  # one entry fewer would not be enough


def test_a_memory_keeps_its_budget_and_its_names() -> None:
    ticks = iter(range(10**6))
    with open_store(None) as store:
        memory = Memory(store, clock=lambda: HOUR_S * next(ticks), budget=Budget(entries=40))
        for number in range(10):
            memory.write(Moment(0.0, {"words": "shown"}), {"sight": key(number)}, name="cup")
        for number in range(10, 60):
            memory.write(Moment(0.0, {"words": "lived"}), {"sight": key(number)}, importance=5.0 * (number == 12))
            assert store.sizes().entries <= 40
        left = store.facts()
        assert left.names.count("cup") == 10
        assert 13 in left.ids  # entry 13 was important
        assert left.ids.max() == 60
        memory.recall({"sight": key(40)}, k=1)
        memory.flush()
        assert store.get([41])[0].recalled == 1
        for number in range(60, 90):
            memory.write(Moment(0.0, {"words": "lived"}), {"sight": key(number)})
        assert 41 in store.facts().ids  # entry 41 was recalled
        assert 42 not in store.facts().ids


def test_a_budget_full_of_names_refuses_an_unnamed_entry() -> None:
    with open_store(None) as store:
        memory = Memory(store, budget=Budget(entries=10))
        for number in range(9):
            memory.write(Moment(0.0, {"words": "shown"}), {"sight": key(number)}, name="cup")
        for number in range(9, 14):
            lived = memory.write(Moment(0.0, {"words": "lived"}), {"sight": key(number)})
            assert [entry.id for entry in store.find() if entry.name is None] == [lived.id]  # the newest one stays
        memory.write(Moment(0.0, {"words": "shown"}), {"sight": key(20)}, name="cup")
        with pytest.raises(StoreError, match=r"full of examples of names.*forget --name"):
            memory.write(Moment(0.0, {"words": "lived"}), {"sight": key(21)})
        memory.write(Moment(0.0, {"words": "shown"}), {"sight": key(22)}, name="cup")  # a taught entry stays
        assert store.facts().names == ["cup"] * 11


def test_a_budget_in_bytes_is_kept() -> None:
    rng = np.random.default_rng(0)
    with open_store(None) as store:
        memory = Memory(store, budget=Budget(bytes=200_000))
        for number in range(60):
            picture = rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)
            memory.write(Moment(0.0, {"sight": picture}), {"sight": key(number)})
            assert store.sizes().bytes <= 200_000
        assert 10 <= store.sizes().entries <= 17  # 12 KB each


def test_recalls_are_counted_in_batches_and_on_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("devmind.memory.episodic.COUNTED_AT_ONCE", 4)
    with open_store(None) as store:
        memory = Memory(store, clock=lambda: 7.0)
        memory.write(Moment(0.0, {"words": "x"}), {"sight": key(1)})
        for _ in range(3):
            memory.recall({"sight": key(1)})
        assert store.get([1])[0].recalled == 0
        memory.recall({"sight": key(1)})
        assert (store.get([1])[0].recalled, store.get([1])[0].recalled_s) == (4, 7.0)
        memory.recall({"sight": key(1)})
        memory.flush()
        assert store.get([1])[0].recalled == 5
