"""Memory writes and recalls exactly, sees what other processes write, and never compares keys of two encoders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from devmind.errors import StoreError
from devmind.memory import Entry, Filters, Key, Memory, Weights, open_store
from devmind.moment import Moment, Sense
from devmind.testing.laws import ATOL


def key(seed: int, encoder: str = "a") -> Key:
    """A random key of length 1."""
    vector = np.random.default_rng(seed).normal(size=64)
    return Key((vector / np.linalg.norm(vector)).astype(np.float32), encoder, np.ones(3, dtype=np.float32))


def moment(number: int) -> Moment:
    return Moment(number / 10, {"words": f"moment {number}"})


@pytest.fixture
def memory() -> Memory:
    """A memory in RAM, with a clock that counts writes."""
    ticks = iter(range(10**6))
    return Memory(open_store(None), clock=lambda: float(next(ticks)))


def test_recall_equals_sorting_all_cosines(memory: Memory) -> None:
    for number in range(60):
        keys = {"sight": key(number)} | ({"sound": key(1000 + number)} if number % 3 else {})
        memory.write(moment(number), keys)
    asked = {"sight": key(5000), "sound": key(5001)}

    def score(entry: Entry) -> float:
        return float(np.mean([entry.keys[s].vector @ asked[s].vector for s in asked if s in entry.keys]))

    wanted = sorted(memory.store.find(), key=score, reverse=True)[:7]
    found = memory.recall(asked, k=7)
    assert [entry.id for entry in found] == [entry.id for entry in wanted]
    assert [entry.score for entry in found] == pytest.approx([score(entry) for entry in wanted], abs=ATOL)
    assert found[0].senses["words"] == f"moment {int(found[0].time_s)}"


def test_one_sense_can_query_and_ties_return_the_newer_entry_first(memory: Memory) -> None:
    for number in range(3):
        memory.write(moment(number), {"sound": key(1)})
    memory.write(moment(3), {"sight": key(2)})
    assert [entry.time_s for entry in memory.recall({"sound": key(1)}, k=9)] == [2, 1, 0]
    assert memory.recall({"smell": key(1)}) == []
    assert memory.recall({"sound": key(1)}, k=0) == []


def test_recall_applies_its_filters(memory: Memory) -> None:
    for number in range(6):
        memory.write(moment(number), {"sight": key(number)}, name="cup" if number % 2 else None)
    asked = {"sight": key(0)}
    assert {e.time_s for e in memory.recall(asked, 9, Filters(name="cup"))} == {1, 3, 5}
    assert {e.time_s for e in memory.recall(asked, 9, Filters(named=False, since_s=2))} == {2, 4}
    between = Filters(since_s=2, until_s=4)
    assert (
        {e.time_s for e in memory.recall(asked, 9, between)} == {2, 3} == {e.time_s for e in memory.store.find(between)}
    )
    assert memory.forget(Filters(name="cup")) == 3
    assert {e.time_s for e in memory.recall(asked, 9)} == {0, 2, 4}


def test_recall_returns_entries_that_another_process_wrote(tmp_path: Path) -> None:
    with open_store(tmp_path) as one, open_store(tmp_path) as other:
        mine, theirs = Memory(one), Memory(other)
        mine.write(moment(0), {"sight": key(0)})
        assert len(theirs.recall({"sight": key(0)})) == 1
        mine.write(moment(1), {"sight": key(1)})
        assert theirs.recall({"sight": key(1)})[0].senses == moment(1).senses


def test_keys_of_another_encoder_are_refused(memory: Memory) -> None:
    memory.write(moment(0), {"sight": key(0)})
    with pytest.raises(StoreError, match="two encoders cannot be compared"):
        memory.write(moment(1), {"sight": key(1, "b")})
    with pytest.raises(StoreError, match="made by another encoder"):
        memory.recall({"sight": key(1, "b")})
    assert len(memory.store.find()) == 1
    memory.write(moment(2), {"sound": key(2, "b")})  # another sense has its own encoder


def test_keys_are_rebuilt_from_payloads(memory: Memory) -> None:
    for number in range(4):
        memory.write(moment(number), {"sight": key(number)}, name="cup" if number else None)

    def describe(senses: Mapping[str, Sense]) -> dict[str, Key]:
        return {"sight": key(100 + int(str(senses["words"]).split()[1]), "b")}

    assert memory.rebuild(describe, {"sight": "a"}) == 0
    assert memory.rebuild(describe, {"sight": "b"}) == 4
    found = memory.recall({"sight": key(102, "b")}, k=1)[0]
    assert found.senses == moment(2).senses
    assert found.score == pytest.approx(1)
    featured = [entry.keys["sight"].features is not None for entry in memory.store.find()]
    assert featured == [False, True, True, True]  # only examples of names keep features


def test_rebuild_leaves_keys_of_senses_that_the_agent_lacks(memory: Memory) -> None:
    memory.write(moment(0), {"sight": key(0), "sound": key(1)})
    assert memory.rebuild(lambda senses: {"sight": key(2, "b")}, {"sight": "b"}) == 1
    assert memory.recall({"sight": key(2, "b")})[0].score == pytest.approx(1)
    assert memory.recall({"sound": key(1)})[0].score == pytest.approx(1)
    assert memory.rebuild(lambda senses: {}, {"sight": "b"}) == 0


def test_rebuild_adds_keys_for_a_sense_that_the_agent_gained(memory: Memory) -> None:
    for number in range(200):
        memory.write(moment(number), {"sight": key(number)})
    asked: list[Mapping[str, Sense]] = []

    def describe(senses: Mapping[str, Sense]) -> dict[str, Key]:
        asked.append(senses)
        return {"sight": key(1), "words": key(100 + int(str(senses["words"]).split()[1]), "w")}

    assert memory.rebuild(describe, {"sight": "a", "sound": "s"}) == 0  # none of the entries has a sound
    assert not asked
    assert memory.rebuild(describe, {"sight": "a", "words": "w"}) == 200
    assert memory.recall({"words": key(107, "w")}, k=1)[0].id == 8
    asked.clear()
    assert memory.rebuild(describe, {"sight": "a", "words": "w"}) == 0
    assert not asked


def test_scores_add_relevance_recency_and_importance() -> None:
    now_s = [0.0]
    memory = Memory(open_store(None), clock=lambda: now_s[0])
    for hours, importance in ((0, 3.0), (10, 0.0), (30, 1.0)):
        now_s[0] = 3600.0 * hours
        memory.write(moment(hours), {"sight": key(hours)}, importance)
    now_s[0] = 3600.0 * 20
    weights = Weights(relevance=0.5, recency=2.0, importance=4.0, half_life_h=10)
    found = {entry.id: entry.score for entry in memory.recall({"sight": key(1)}, 3, weights=weights)}
    alike = [0.5 * float(key(hours).vector @ key(1).vector) for hours in (0, 10, 30)]
    # The last one was written in the future, as after a clock was set back; it counts as written now.
    wanted = {1: alike[0] + 2 * 0.25 + 4 * 0.75, 2: alike[1] + 2 * 0.5, 3: alike[2] + 2 * 1.0 + 4 * 0.5}
    assert found == pytest.approx(wanted, abs=ATOL)


def test_recall_omits_deleted_entries_when_relevance_has_no_weight(memory: Memory) -> None:
    """0 x -inf used to be NaN, and NaN came first."""
    for number in range(40):
        memory.write(moment(number), {"sight": key(number)}, name="cup" if number < 30 else None)
    memory.recall({"sight": key(0)})  # the index knows them
    memory.store.delete([1, 2, 3])
    found = memory.recall({"sight": key(0)}, 3)  # the most similar one was deleted
    assert len(found) == 3
    assert not {1, 2, 3} & {entry.id for entry in found}
    for weights in (Weights(relevance=0, recency=1), Weights(relevance=-1)):
        found = memory.recall({"sight": key(0)}, 9, Filters(name="cup"), weights)
        assert len(found) == 9
        assert all(entry.name == "cup" and np.isfinite(entry.score or 0) for entry in found)
        assert {entry.id for entry in found} <= set(range(4, 31))


@pytest.mark.parametrize("words", ["", "  ", "\0", "\u3000\n"])
def test_blank_words_are_refused_instead_of_matching_everything(memory: Memory, words: str) -> None:
    memory.write(moment(0), {"sight": key(0)})
    with pytest.raises(StoreError, match="at least one letter"):
        memory.forget(Filters(words=words))
    assert len(memory.store.find()) == 1


def test_lone_surrogates_in_filters_are_refused(memory: Memory) -> None:
    memory.write(Moment(0.0, {"words": "what?"}), {"sight": key(0)})
    half: list[dict[str, Any]] = [{"words": "\ud800"}, {"name": "cup\udfff"}, {"session": "\udc80"}]
    for filters in half:
        with pytest.raises(StoreError, match="lone surrogate"):
            memory.forget(Filters(**filters))
    assert len(memory.store.find()) == 1


@pytest.mark.parametrize(
    ("keys", "importance", "sentence"),
    [({}, 0.0, "needs a key"), ({"sight": key(0)}, -1.0, "from 0 on"), ({"sight": key(0)}, float("nan"), "from 0 on")],
)
def test_an_invalid_write_raises_a_store_error(
    memory: Memory, keys: dict[str, Key], importance: float, sentence: str
) -> None:
    with pytest.raises(StoreError, match=sentence):
        memory.write(moment(0), keys, importance)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"vector": np.zeros(64, dtype=np.float32)}, "length 1"),
        ({"vector": np.full(64, np.nan, dtype=np.float32)}, "length 1"),
        ({"vector": np.ones(63, dtype=np.float32)}, r"float32 \[64\]"),
        ({"features": np.array([np.inf], dtype=np.float32)}, "finite"),
        ({"features": np.ones((2, 2), dtype=np.float32)}, r"float32 \[F\]"),
    ],
)
def test_an_invalid_key_is_refused(change: dict[str, np.ndarray], sentence: str) -> None:
    with pytest.raises(StoreError, match=sentence):
        replace(key(0), **change)
