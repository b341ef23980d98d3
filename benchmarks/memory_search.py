"""Exact search of memory beside peers: the top 8 of 10^5 (and 10^6) keys of 64 numbers, in one run, on one thread.

    OMP_NUM_THREADS=1 python benchmarks/memory_search.py [--rows 100000] [--queries 200] [--only devmind faiss]

faiss and hnswlib are in the extra `bench`; missing packages are named and left out. The peers take
turns at each query, so that other load on the machine affects all alike. Two kinds of keys: `spread` are independent
and uniform on the sphere, the hardest case for an approximate index and unlike the output of encoders; `grouped` are
noise around 1,000 centres (cosine to the own centre about 0.9). recall@8 is against exact search in float32.
"""

from __future__ import annotations

import argparse
import importlib
import sqlite3
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from devmind.memory import Entry, Filters, Key, Memory, open_store
from devmind.memory.columns import top
from devmind.memory.index import Precision, cosines, quantise_keys
from devmind.memory.scoring import Weights

K = 8
BUILD, WIDTHS = 100, (64, 256)
"""How widely the graphs of approximate peers look while they are built, and at a question; each node has 16 links."""
Search = Callable[[np.ndarray], np.ndarray]
Approximate = Callable[[np.ndarray, int], np.ndarray]


@dataclass
class Peer:
    """One way to search: `search` returns the numbers of the best K rows."""

    name: str
    search: Search
    build_s: float


def make_keys(n: int, kind: str, seed: int = 0) -> np.ndarray:
    """Keys float32 [n, 64] of length 1."""
    rng = np.random.default_rng(seed)
    keys = rng.normal(size=(n, 64)).astype(np.float32)
    if kind == "grouped":
        centres = np.random.default_rng(99).normal(size=(1000, 64)).astype(np.float32)
        keys = centres[rng.integers(0, 1000, n)] + np.float32(0.48) * keys
    return keys / np.linalg.norm(keys, axis=1, keepdims=True)


def of_devmind(keys: np.ndarray, precision: Precision) -> Search:
    """The product and the selection of the best, as in `Memory.recall`."""
    held, scales = quantise_keys(keys) if precision == "int8" else (keys, np.ones(len(keys), np.float32))
    ids = np.arange(len(keys))
    return lambda asked: top(cosines(held, asked, scales), ids, K)


def of_memory(keys: np.ndarray, folder: Path) -> Search:
    """A whole memory on a disk: `Memory.nearest`, with the index updated at each query."""
    store = open_store(folder)
    for start in range(0, len(keys), 10_000):
        store.add([Entry(0.0, 0.0, None, {"s": Key(key, "e")}) for key in keys[start : start + 10_000]])
    memory = Memory(store)

    def search(asked: np.ndarray) -> np.ndarray:
        found = memory.nearest(memory.index.update(), {"s": Key(asked, "e")}, K, Filters(), Weights())
        return np.array(list(found)) - 1

    search(keys[0])
    return search


def of_faiss(keys: np.ndarray) -> Search:
    import faiss

    faiss.omp_set_num_threads(1)
    index = faiss.IndexFlatIP(64)
    index.add(keys)
    return lambda asked: index.search(asked[None], K)[1][0]


def of_faiss_hnsw(keys: np.ndarray) -> Approximate:
    import faiss

    index = faiss.IndexHNSWFlat(64, 16, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = BUILD
    index.add(keys)

    def search(asked: np.ndarray, width: int) -> np.ndarray:
        index.hnsw.efSearch = width
        return index.search(asked[None], K)[1][0]

    return search


def of_hnswlib(keys: np.ndarray) -> Approximate:
    import hnswlib

    index = hnswlib.Index("ip", 64)
    index.init_index(len(keys), M=16, ef_construction=BUILD)
    index.set_num_threads(1)
    index.add_items(keys, num_threads=1)

    def search(asked: np.ndarray, width: int) -> np.ndarray:
        index.set_ef(width)
        return index.knn_query(asked, K, num_threads=1)[0][0].astype(np.int64)

    return search


def of_sqlite_scan(keys: np.ndarray, folder: Path) -> Search:
    """Every row read and multiplied at each query, as by a store without an index."""
    database = sqlite3.connect(folder / "scan.sqlite3")
    database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, vector BLOB)")
    database.executemany("INSERT INTO t VALUES (?, ?)", ((n, key.tobytes()) for n, key in enumerate(keys)))
    database.commit()

    def search(asked: np.ndarray) -> np.ndarray:
        rows = database.execute("SELECT vector FROM t ORDER BY id").fetchall()
        matrix = np.frombuffer(b"".join(row[0] for row in rows), np.float32).reshape(-1, 64)
        return top(matrix @ asked, np.arange(len(matrix)), K)

    return search


def peers(keys: np.ndarray, folder: Path, only: list[str]) -> list[Peer]:
    """Build every peer that is installed."""
    makers: list[tuple[str, str, Callable[[], Search]]] = [
        ("devmind float32", "", lambda: of_devmind(keys, "float32")),
        ("devmind int8", "", lambda: of_devmind(keys, "int8")),
        ("devmind Memory", "", lambda: of_memory(keys, folder / "memory")),
        ("faiss flat", "faiss", lambda: of_faiss(keys)),
        ("sqlite scan", "", lambda: of_sqlite_scan(keys, folder)),
    ]
    approximate: list[tuple[str, str, Callable[[], Approximate]]] = [
        ("faiss hnsw", "faiss", lambda: of_faiss_hnsw(keys)),
        ("hnswlib", "hnswlib", lambda: of_hnswlib(keys)),
    ]
    built = []
    for name, package, make in [*makers, *approximate]:
        if only and not any(name.startswith(word) for word in only):
            continue
        try:
            if package:
                importlib.import_module(package)
        except ImportError:
            print(f"{name}: {package} is not installed")
            continue
        begun = time.perf_counter()
        search: Any = make()
        build_s = time.perf_counter() - begun
        if (name, package, make) in approximate:
            built += [Peer(f"{name} {width}", partial(search, width=width), build_s) for width in WIDTHS]
        else:
            built.append(Peer(name, search, build_s))
        print(f"built {name} in {build_s:.1f} s", flush=True)
    return built


def measure(keys: np.ndarray, asked: np.ndarray, found: list[Peer]) -> None:
    """Query all peers in turn and print a table."""
    spent: dict[str, list[float]] = {peer.name: [] for peer in found}
    hits = dict.fromkeys(spent, 0)
    for query in asked:
        exact = set(top(keys @ query, np.arange(len(keys)), K).tolist())
        for peer in found:
            begun = time.perf_counter()
            answer = peer.search(query)
            spent[peer.name].append(time.perf_counter() - begun)
            hits[peer.name] += len(exact & set(answer.tolist()))
    flat = np.median(spent.get("faiss flat", [np.nan]))
    print("| peer | build s | median ms | p95 ms | of faiss flat | recall@8 |\n|---|---|---|---|---|---|")
    for peer in found:
        times = np.array(spent[peer.name])
        print(
            f"| {peer.name} | {peer.build_s:.1f} | {1e3 * np.median(times):.2f} | {1e3 * np.quantile(times, 0.95):.2f} "
            f"| {np.median(times) / flat:.2f} | {hits[peer.name] / (K * len(asked)):.3f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=40)
    parser.add_argument("--kind", choices=("spread", "grouped"), default="grouped")
    parser.add_argument("--only", nargs="*", default=[], help="only peers whose names begin with one of these")
    parser.add_argument("--tiny", action="store_true", help="only show that everything runs: 500 keys, 3 queries")
    given = parser.parse_args()
    if given.tiny:
        given.rows, given.queries = 500, 3
    keys = make_keys(given.rows, given.kind)
    asked = make_keys(given.queries, given.kind, seed=1)
    print(f"{given.rows:,} x 64 {given.kind} keys, {given.queries} queries, top {K}")
    with tempfile.TemporaryDirectory() as folder:
        measure(keys, asked, peers(keys, Path(folder), given.only))


if __name__ == "__main__":
    main()
