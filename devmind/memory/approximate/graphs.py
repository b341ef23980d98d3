"""Beyond a million keys: an approximate index over the keys of one sense, searched as a graph from near to nearer.

HNSW (Malkov and Yashunin 2016, arXiv 1603.09320) by faiss, the extra `ann`. It only proposes rows; their cosines are
computed exactly afterwards. It is kept in RAM. A separate thread builds it, while search stays exact. It is rebuilt
when the table was packed; rows deleted since then are skipped.
"""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Mapping

import numpy as np

from devmind.memory.entry import KEY_SIZE, Key
from devmind.memory.index import SenseKeys, Table

FROM_ROWS = 1_000_000
LINKS, BUILD_WIDTH, SEARCH_WIDTH = 16, 100, 256
"""Of HNSW: links of a node, and the number of candidate nodes while building and while searching."""
PROPOSED = 8
"""Proposed rows for each wanted row, because other parts of the score and deleted rows change the order."""
_INLINE = 1000
"""Fewer new rows than these are added in the thread that notices them."""


class Graph:
    """The keys of one sense of one epoch of a table."""

    def __init__(self, epoch: int) -> None:
        import faiss

        self.epoch, self._places = epoch, np.zeros(0, np.int64)
        self._index = faiss.IndexHNSWFlat(KEY_SIZE, LINKS, faiss.METRIC_INNER_PRODUCT)
        self._index.hnsw.efConstruction, self._index.hnsw.efSearch = BUILD_WIDTH, SEARCH_WIDTH

    @property
    def done(self) -> int:
        """Number of the sense's keys that are in it."""
        return len(self._places)

    def add(self, held: SenseKeys) -> None:
        """Add the keys that are not in it yet; an older table, which another thread may still search, has none."""
        if len(held.places) <= self.done:
            return
        rows = held.vectors[self.done :]
        vectors = rows.astype(np.float32) * held.scales[self.done :, None]
        self._index.add(vectors)
        self._places = held.places

    def propose(self, vector: np.ndarray, count: int) -> np.ndarray:
        """Places int64 [<= count] of keys that are likely the nearest."""
        found = self._index.search(vector[None], min(count, self.done))[1][0]
        return self._places[found[found >= 0]]


class Graphs:
    """One graph for each sense that is large enough; from any thread.

    Args:
        from_rows: least number of keys of a sense for a graph.
    """

    def __init__(self, from_rows: int = FROM_ROWS) -> None:
        self.from_rows = from_rows if importlib.util.find_spec("faiss") else None
        self._lock, self._graphs = threading.Lock(), dict[str, Graph]()
        self._thread: threading.Thread | None = None

    def propose(self, table: Table, keys: Mapping[str, Key], k: int) -> np.ndarray | None:
        """Places int64 of rows worth comparing, for all asked senses; None: compare every row."""
        held = {sense: table.senses[sense] for sense in keys if sense in table.senses}
        if self.from_rows is None or not held or any(len(one.places) < self.from_rows for one in held.values()):
            return None
        with self._lock:
            if any(not self._follow(table, sense) for sense in held):
                return None
            found = [self._graphs[sense].propose(keys[sense].vector, PROPOSED * k) for sense in held]
        places = np.unique(np.concatenate(found))
        places = places[places < len(table.alive)]  # the graph may be of a newer table
        return places[table.alive[places]]

    def wait(self) -> None:
        """Wait until nothing is being built."""
        while (thread := self._thread) is not None:
            thread.join()
            if self._thread is thread:
                self._thread = None

    def _follow(self, table: Table, sense: str) -> bool:
        """Whether the sense's graph has all of the table's keys; if many are missing, start building it."""
        graph, held = self._graphs.get(sense), table.senses[sense]
        if graph is not None and graph.epoch == table.epoch and len(held.places) - graph.done < _INLINE:
            graph.add(held)
            return True
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._build, args=(table, sense), name="index", daemon=True)
            self._thread.start()
        return False

    def _build(self, table: Table, sense: str) -> None:
        graph = Graph(table.epoch)
        graph.add(table.senses[sense])
        with self._lock:
            self._graphs[sense] = graph
