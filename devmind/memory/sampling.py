"""Which memories are replayed: a reservoir of all that ever came by, and draws by priority. Both resume exactly.

Random numbers are functions of (seed, position), never of a hidden generator, so a state is a few plain numbers and a
resumed sampler goes on as if it had never stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappush, heapreplace
from typing import Any

import numpy as np

from devmind.algorithms.priorities import SumTree
from devmind.errors import StoreError
from devmind.seeding import derive_seed, numpy_rng


class Reservoir:
    """A uniform sample of fixed size from a stream of unknown length, in which a number may come by again and again.

    Every number has a random rank, and the lowest are held (a bottom-k sample: Cohen and Kaplan 2007, "Summarizing data
    using bottom-k sketches"): after n different ones each of them is held with probability capacity / n, whatever their
    order and however often they came. Vitter's algorithm R (1985) would take a number that comes again for another one.

    Args:
        capacity: how many numbers are held at most.
        seed: path of the random numbers.

    Attributes:
        items: the numbers held, in the order in which they came.
        seen: how many were offered so far, also again.

    Raises:
        StoreError: a capacity below 1.
    """

    def __init__(self, capacity: int, *seed: int | str) -> None:
        if capacity < 1:
            raise StoreError(f"A reservoir holds at least one item; got a capacity of {capacity}.")
        self.capacity, self.seed = capacity, derive_seed("reservoir", *seed)
        self.items: list[int] = []
        self.seen = 0

    def __len__(self) -> int:
        return len(self.items)

    def offer(self, items: Iterable[int]) -> None:
        """Let numbers (of entries, for instance) come by."""
        highest = [(-self._rank(item), item) for item in self.items]
        heapify(highest)
        held = dict.fromkeys(self.items)
        for item in map(int, items):
            self.seen += 1
            if item in held:
                continue
            ranked = (-self._rank(item), item)
            if len(held) < self.capacity:
                heappush(highest, ranked)
            elif ranked > highest[0]:
                del held[heapreplace(highest, ranked)[1]]
            else:
                continue
            held[item] = None
        self.items = list(held)

    def _rank(self, item: int) -> int:
        return derive_seed(self.seed, item)

    def discard(self, items: Iterable[int]) -> None:
        """Let go of numbers that are no more (forgotten entries); the next ones offered fill the gaps."""
        gone = set(items)
        self.items = [item for item in self.items if item not in gone]

    def state_dict(self) -> dict[str, Any]:
        """All it depends on, as JSON."""
        return {"capacity": self.capacity, "seed": self.seed, "seen": self.seen, "items": list(self.items)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        self.capacity, self.seed = int(state["capacity"]), int(state["seed"])
        self.seen, self.items = int(state["seen"]), [int(item) for item in state["items"]]


class Prioritised:
    """Draws numbers with probability p^alpha / sum p^alpha (Schaul et al. 2016, arXiv 1511.05952, eq. 1).

    Args:
        ids: what is drawn from; a fixed set, so nothing grows.
        alpha: 0 draws uniformly, 1 in proportion to the priority.
        floor: added to every priority, so that nothing is never drawn (the paper's epsilon).
        seed: path of the random numbers.

    Raises:
        StoreError: no number, or one twice.
    """

    def __init__(self, ids: Sequence[int], *seed: int | str, alpha: float = 0.6, floor: float = 1e-3) -> None:
        self.ids = np.asarray(ids, np.int64)
        if not len(self.ids) or len(np.unique(self.ids)) != len(self.ids):
            raise StoreError(f"Draws need numbers that all differ, at least one; got {len(self.ids)}.")
        self.alpha, self.floor, self.seed = alpha, floor, derive_seed("prioritised", *seed)
        self.draws = 0
        self._place = {int(number): place for place, number in enumerate(self.ids)}
        self._priorities = np.ones(len(self.ids))
        self._tree = SumTree(len(self.ids))
        self._weigh(np.arange(len(self.ids)))

    def __len__(self) -> int:
        return len(self.ids)

    def _weigh(self, places: np.ndarray) -> None:
        self._tree.set(places, (self._priorities[places] + self.floor) ** self.alpha)

    def priorities(self) -> np.ndarray:
        """float64 [n] in the order of `ids`."""
        return self._priorities.copy()

    def probabilities(self) -> np.ndarray:
        """P(i) float64 [n] in the order of `ids`."""
        return self._tree.values / self._tree.total

    def update(self, ids: Sequence[int], priorities: np.ndarray) -> None:
        """New priorities float [n], 0 or more.

        Raises:
            StoreError: a number that is not among those drawn from, or a priority that is negative or not finite.
        """
        priorities = np.asarray(priorities, np.float64)
        if not (np.isfinite(priorities).all() and (priorities >= 0).all()):
            raise StoreError(f"Priorities are finite numbers from 0 on; got {priorities.min()} to {priorities.max()}.")
        unknown = [number for number in map(int, ids) if number not in self._place]
        if unknown:
            raise StoreError(f"Number {unknown[0]} is not among the {len(self)} that are drawn from.")
        places = np.array([self._place[int(number)] for number in ids], np.int64)
        self._priorities[places] = priorities
        self._weigh(places)

    def draw(self, n: int, beta: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
        """`n` numbers, one from each n-th of the total (the paper's appendix B.2.1), and their importance weights.

        Args:
            beta: 1 makes up for the priorities wholly, 0 not at all (eq. in section 3.4).

        Returns:
            numbers int64 [n] and weights float64 [n], (N P(i))^-beta divided by their largest possible value, so that
            they only scale down.
        """
        rng = numpy_rng(self.seed, self.draws)
        self.draws += 1
        places = self._tree.find((np.arange(n) + rng.random(n)) / n * self._tree.total)
        probabilities = self.probabilities()
        least = probabilities[probabilities > 0].min()
        return self.ids[places], (probabilities[places] / least) ** -beta

    def state_dict(self) -> dict[str, Any]:
        """All it depends on, as JSON; floats come back bit by bit."""
        return {
            "ids": self.ids.tolist(),
            "priorities": self._priorities.tolist(),
            "draws": self.draws,
            "seed": self.seed,
            "alpha": self.alpha,
            "floor": self.floor,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        self.__init__(state["ids"], alpha=state["alpha"], floor=state["floor"])  # type: ignore[misc]
        self.seed, self.draws = int(state["seed"]), int(state["draws"])
        self._priorities = np.asarray(state["priorities"], np.float64)
        self._weigh(np.arange(len(self)))
