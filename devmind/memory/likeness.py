"""How alike things are to taught examples: a cosine that counts little what varies among examples of one name.

The inner product is a' S^-1 b with S the covariance within names, shrunk halfway to a multiple of the identity (Fisher
1936; the shrinkage as in Friedman 1989, "Regularized discriminant analysis", eq. 18, with gamma = 0.5). With fewer
examples than features it is computed from the examples' inner products alone (Woodbury's identity), which also makes
leaving examples out cheap.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

FOLDS = 10
"""Examples are left out one of a name at a time, or a tenth of them where a name has more than ten."""


class Likeness:
    """Cosines to examples float [n, F] of `names` [n]; with one example a name it is the plain cosine."""

    def __init__(self, examples: np.ndarray, names: np.ndarray) -> None:
        self._examples = np.asarray(examples, np.float64)
        self._gram = self._examples @ self._examples.T
        self._names = names
        self._within = _within(self._gram, names, self._examples.shape[1])
        self._own = _own(self._gram, self._within)

    def of(self, features: np.ndarray) -> np.ndarray:
        """Cosines [m, n] of features [m, F] to every example."""
        features = np.asarray(features, np.float64)
        squares = np.square(features).sum(1)
        return _cosines(self._gram, self._within, self._own, features @ self._examples.T, squares)

    def left_out(self) -> tuple[np.ndarray, np.ndarray]:
        """What was taught, asked as if it had not been: the highest cosines [known], [unknown].

        The first to all the other examples, for what has another of its name among them; the second to those of other
        names only. Both may be empty.
        """
        known, unknown = [np.zeros(0)], [np.zeros(0)]
        for out in _folds(self._names):
            gram, names = self._gram[~out][:, ~out], self._names[~out]
            if not len(names):
                continue
            within = _within(gram, names, self._examples.shape[1])
            squares = self._gram.diagonal()[out]
            cosines = _cosines(gram, within, _own(gram, within), self._gram[out][:, ~out], squares)
            same = self._names[out][:, None] == names
            known.append(cosines.max(1)[same.any(1)])
            unknown.append(np.where(same, -2.0, cosines).max(1)[~same.all(1)])
        return np.concatenate(known), np.concatenate(unknown)


def _folds(names: np.ndarray) -> Iterator[np.ndarray]:
    """Masks [n]: the first of each name, the second of each, ..."""
    count: dict[str, int] = {}
    place = np.zeros(len(names), dtype=int)
    for at, name in enumerate(names.tolist()):
        place[at] = count.get(name, 0) % FOLDS
        count[name] = count.get(name, 0) + 1
    for fold in range(place.max() + 1):
        yield place == fold


def _within(gram: np.ndarray, names: np.ndarray, size: int) -> np.ndarray:
    """M [n, n], so that a' S^-1 b = a'b - (Xa)' M (Xb) up to a factor, X being the examples [n, size]."""
    same = (names[:, None] == names[None]).astype(np.float64)
    centre = np.eye(len(names)) - same / same.sum(1, keepdims=True)
    scatter = centre @ gram @ centre
    mean_variance = np.trace(scatter) / size
    if mean_variance <= 1e-12 * np.trace(gram) / size:
        return np.zeros_like(gram)  # nothing is known of how examples of one name differ
    return centre @ np.linalg.solve(mean_variance * np.eye(len(names)) + scatter, centre)


def _own(gram: np.ndarray, within: np.ndarray) -> np.ndarray:
    """Squared lengths [n] of the examples. It takes n^3 operations, too many to be done at every question."""
    return np.asarray(gram.diagonal() - ((gram @ within) * gram).sum(1))


def _cosines(
    gram: np.ndarray, within: np.ndarray, own: np.ndarray, products: np.ndarray, squares: np.ndarray
) -> np.ndarray:
    """Cosines [m, n] of things whose inner products with the examples are [m, n], and with themselves [m]."""
    weighted = products @ within
    theirs = squares - (weighted * products).sum(1)
    lengths = np.sqrt(np.maximum(theirs[:, None] * own[None], 1e-24))
    return np.clip((products - weighted @ gram) / lengths, -1, 1)
