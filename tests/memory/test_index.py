"""The index always equals the store, whoever wrote to it, and finds what sorting everything would find."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest

from devmind.errors import StoreError
from devmind.memory import Entry, Filters, Key, Memory, open_store
from devmind.memory.columns import Column, top
from devmind.memory.index import Index, Table, cosines, quantise_keys
from devmind.memory.scoring import Weights
from devmind.memory.stores import Store
from devmind.memory.stores.sqlite import FILE
from devmind.testing.laws import ATOL


def keys(n: int, seed: int) -> np.ndarray:
    vectors = np.random.default_rng(seed).normal(size=(n, 64)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def entry(number: int, encoder: str = "a", senses: tuple[str, ...] = ("sight", "sound")) -> Entry:
    vectors = keys(2, number)
    kept = {sense: Key(vectors[at], encoder) for at, sense in enumerate(("sight", "sound")) if sense in senses}
    return Entry(float(number), number % 5, f"name {number % 3}" if number % 4 == 0 else None, kept)


def assert_equal(table: Table, store: Store) -> None:
    entries = {e.id: e for e in store.find()}
    alive = table.ids[table.alive].tolist()
    assert sorted(alive) == sorted(entries)
    numbers = {number: name for name, number in table.known.items()}
    for place in np.flatnonzero(table.alive):
        kept = entries[int(table.ids[place])]
        facts = (table.time_s[place], table.importance[place], numbers.get(int(table.names[place])))
        assert facts == (kept.time_s, kept.importance, kept.name)
    held = {}
    for sense, one in table.senses.items():
        for place, vector in zip(one.places, one.vectors, strict=True):
            if table.alive[place]:
                held[int(table.ids[place]), sense] = (vector.tobytes(), one.encoder)
    wanted = {
        (number, sense): (key.vector.tobytes(), key.encoder)
        for number, kept in entries.items()
        for sense, key in kept.keys.items()
    }
    assert held == wanted


@pytest.mark.parametrize("seed", range(4))
def test_the_index_follows_every_kind_of_write(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    with open_store(tmp_path) as store, open_store(tmp_path) as other:
        index, encoder = Index(store), "a"
        snapshots: list[tuple[Table, bytes, int]] = []
        for step in range(60):
            writer = other if rng.random() < 0.5 else store
            ids = store.facts().ids
            act = rng.choice(["add", "delete", "rekey", "all", "mark"], p=[0.55, 0.25, 0.1, 0.03, 0.07])
            if act == "add" or not len(ids):
                senses = [("sight",), ("sound",), ("sight", "sound")][rng.integers(3)]
                writer.add([entry(1000 * step + n, encoder, senses) for n in range(rng.integers(1, 6))])
            elif act == "delete":
                writer.delete(rng.choice(ids, min(len(ids), int(rng.integers(1, 9))), replace=False), erase=False)
            elif act == "rekey":
                writer.replace_keys({int(rng.choice(ids)): entry(7 * step, encoder).keys})
            elif act == "all":
                encoder += "a"
                writer.replace_keys({int(n): entry(int(n), encoder).keys for n in ids})
            else:
                writer.mark_recalled({int(ids[0]): 1}, 1.0)
            if rng.random() < 0.6:
                table = index.update()
                assert_equal(table, store)
                snapshots.append((table, table.alive.tobytes(), hash(table.ids.tobytes())))
        assert_equal(index.update(), store)
        for table, alive, ids_hash in snapshots:  # a write never changes what a reader holds
            assert table.alive.tobytes() == alive
            assert hash(table.ids.tobytes()) == ids_hash


def test_search_equals_sorting_everything(tmp_path: Path) -> None:
    with open_store(None) as store:
        memory = Memory(store, clock=lambda: 3600.0 * 30)
        vectors = keys(3000, 1)
        store.add([Entry(36.0 * n, n % 7, "x" if n % 3 else None, {"s": Key(v, "a")}) for n, v in enumerate(vectors)])
        store.delete(range(100, 200), erase=False)
        asked, weights = keys(1, 9)[0], Weights(0.7, 0.3, 0.2, half_life_h=2.0)
        filters = Filters(named=True, since_s=36.0 * 50, until_s=36.0 * 2900)
        found = memory.recall({"s": Key(asked, "a")}, 20, filters, weights)

        def score(one: Entry) -> float:
            cosine = float(one.keys["s"].vector.astype(float) @ asked.astype(float))
            age_h = 30 - one.time_s / 3600
            return 0.7 * cosine + 0.3 * 0.5 ** (age_h / 2) + 0.2 * one.importance / (1 + one.importance)

        wanted = sorted(store.find(filters), key=score, reverse=True)[:20]
        assert [one.id for one in found] == [one.id for one in wanted]
        assert [one.score for one in found] == pytest.approx([score(one) for one in wanted], abs=ATOL)


def test_int8_keys_are_accurate_enough() -> None:
    vectors, asked = keys(20_000, 2), keys(50, 3)
    (small, scales), ones = quantise_keys(vectors), np.ones(len(vectors), np.float32)
    assert small.nbytes * 4 == vectors.nbytes
    hits = 0
    for one in asked:
        exact, rough = cosines(vectors, one, ones), cosines(small, one, scales)
        assert np.abs(exact - rough).max() < 0.01
        hits += len(set(np.argsort(-exact)[:8]) & set(np.argsort(-rough)[:8]))
    assert hits / (8 * len(asked)) > 0.95


def test_a_memory_with_int8_keys_recalls(tmp_path: Path) -> None:
    with open_store(None) as store:
        store.add([Entry(0.0, 0.0, None, {"s": Key(v, "a")}) for v in keys(500, 5)])
        memory = Memory(store, precision="int8")
        assert [e.id for e in memory.recall({"s": Key(keys(500, 5)[123], "a")}, k=1)] == [124]


@pytest.mark.parametrize("n", [4095, 4096, 10_000])
@pytest.mark.parametrize("levels", [3, 100, 10**9])
def test_top_of_many_scores_equals_sorting(n: int, levels: int) -> None:
    rng = np.random.default_rng(n)
    scores, ids = rng.integers(0, levels, n).astype(np.float32), rng.permutation(n)
    for there in (1.0, 0.5, 5 / n):  # the others are filtered out
        some = np.where(rng.random(n) < there, scores, np.float32(-np.inf))
        order = np.lexsort((-ids, -some))
        for k in (1, 8, 60, 100):
            wanted = order[:k][some[order[:k]] > -np.inf]
            assert top(some, ids, k).tolist() == wanted.tolist()


def test_top_is_a_stable_sort() -> None:
    rng = np.random.default_rng(0)
    for n in (0, 1, 5, 300):
        scores = rng.integers(0, 5, n).astype(np.float32)
        scores[rng.random(n) < 0.3] = -np.inf
        ids = rng.permutation(n)
        order = sorted((p for p in range(n) if scores[p] > -np.inf), key=lambda p: (-scores[p], -ids[p]))
        for k in (0, 1, 4, 1000):
            assert top(scores, ids, k).tolist() == order[:k]


def test_a_column_grows_without_changing_what_its_readers_hold() -> None:
    column = Column(np.zeros((0, 2)))
    seen = []
    for n in range(40):
        column.append(np.full((n % 3, 2), n))
        seen.append((column.rows, column.rows.copy()))
    column.keep(column.rows[:, 0] % 2 == 0)
    column.append(np.ones((5, 2)))
    for rows, before in seen:
        np.testing.assert_array_equal(rows, before)
    assert len(column) == len(column.rows)


def test_a_store_restored_from_a_backup_is_indexed_anew(tmp_path: Path) -> None:
    """Both have reached the same revision in different ways."""
    with open_store(tmp_path / "a") as store:
        store.add([entry(0)])
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / FILE).write_bytes((tmp_path / "a" / FILE).read_bytes())
    with open_store(tmp_path / "a") as store, open_store(tmp_path / "b") as copy:
        index = Index(store)
        store.add([entry(1), entry(2)])
        index.update()
        copy.add([entry(3), entry(4)])
        copy.add([entry(5)])
        index.store = copy
        assert_equal(index.update(), copy)


def test_a_changed_key_is_refused(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.add([entry(0), entry(1)])
        with sqlite3.connect(tmp_path / FILE) as beside:
            beside.execute("UPDATE keys SET vector = zeroblob(256) WHERE entry = 2 AND sense = 'sight'")
        beside.close()
        with pytest.raises(StoreError, match="Entry 2 of the memory is damaged: its key of 'sight'"):
            Index(store).update()
        assert any("Entry 2" in sentence for sentence in store.check())
        assert any("deleted" in sentence for sentence in store.check(mend=True))
        assert store.check() == []
        assert Index(store).update().ids.tolist() == [1]


def test_a_graph_serves_an_older_table_of_another_thread() -> None:
    from devmind.memory.approximate import Graphs

    vectors, graphs = keys(1300, 13), Graphs(from_rows=1000)
    with open_store(None) as store:
        index = Index(store)

        def grown(part: np.ndarray) -> Table:
            store.add([Entry(0.0, 0.0, None, {"s": Key(vector, "a")}) for vector in part])
            return index.update()

        older, newer = grown(vectors[:1200]), grown(vectors[1200:])
        assert graphs.propose(older, {"s": Key(vectors[0], "a")}, 8) is None
        graphs.wait()
        for table in (newer, older, newer):
            for at in (0, 1250):
                proposed = graphs.propose(table, {"s": Key(vectors[at], "a")}, 8)
                assert proposed is not None
                assert (at in proposed) == (at < len(table.ids))


def test_relevance_of_some_rows_equals_that_of_all() -> None:
    """Rows hold keys of both asked senses, of one, or of none."""
    with open_store(None) as store:
        kinds = (("sight",), ("sound",), ("sight", "sound"))
        store.add([entry(number, senses=kinds[number % 3]) for number in range(12)])
        store.add([Entry(0.0, 0.0, None, {"smell": Key(keys(1, 5)[0], "a")})])
        table = Index(store).update()
    asked = {sense: Key(vector, "a") for sense, vector in zip(("sight", "sound"), keys(2, 99), strict=True)}
    for places in (np.arange(13), np.array([2, 3, 8, 12]), np.array([12])):
        np.testing.assert_allclose(table.relevance_at(places, asked), table.relevance(asked)[places], atol=ATOL)
    assert table.relevance_at(np.array([12]), asked).tolist() == [-np.inf]


def test_keys_of_a_sense_that_was_gone_are_a_new_epoch() -> None:
    with open_store(None) as store:
        index = Index(store)
        store.add([entry(number, senses=("sound",)) for number in range(20)])
        (number,) = store.add([entry(20, senses=("sight",))])
        before = index.update()
        store.delete([number], erase=False)
        store.add([entry(21, "b", senses=("sight",))])
        assert index.update().epoch > before.epoch


def test_an_approximate_index_finds_nearly_what_exact_search_finds(tmp_path: Path) -> None:
    from devmind.memory.approximate import Graphs

    centres = keys(40, 11)
    rng = np.random.default_rng(12)

    def near(n: int) -> np.ndarray:
        vectors = centres[rng.integers(0, 40, n)] + 0.05 * rng.normal(size=(n, 64)).astype(np.float32)
        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)

    with open_store(None) as store:
        store.add([Entry(0.0, 0.0, None, {"s": Key(v, "a")}) for v in near(1500)])
        exact, memory = Memory(store), Memory(store)
        memory.graphs = Graphs(from_rows=1000)
        asked = [Key(v, "a") for v in near(20)]

        def same() -> float:
            pairs = [(exact.recall({"s": one}, 8), memory.recall({"s": one}, 8)) for one in asked]
            for mine, theirs in pairs:
                assert [e.score for e in theirs] == sorted((e.score or 0 for e in theirs), reverse=True)
                assert len(mine) == len(theirs) == 8
            return float(np.mean([len({e.id for e in a} & {e.id for e in b}) / 8 for a, b in pairs]))

        assert same() == 1  # exact until the graph is built
        memory.graphs.wait()
        table = memory.index.update()
        proposed = memory.graphs.propose(table, {"s": asked[0]}, 8)
        assert proposed is not None
        assert len(proposed) < 100
        assert same() >= 0.95
        store.add([Entry(0.0, 0.0, None, {"s": Key(v, "a")}) for v in near(300)])  # the index adds them when it notices
        store.delete(range(1, 200), erase=False)
        assert same() >= 0.95
        store.delete(range(200, 900), erase=False)  # packing rebuilds the graph
        assert same() == 1
        memory.graphs.wait()
        assert same() >= 0.95
        found = memory.recall({"s": asked[0]}, 8, Filters(named=True))  # with filters the search is exact
        assert found == []
