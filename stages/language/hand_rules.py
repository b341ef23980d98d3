"""Rules on raw pixels, which are told where each thing is: baselines of skills about pictures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from devmind.algorithms.ridge import Ridge, fit_ridge_classifier
from stages.language.caregiver.views import Views


@dataclass(frozen=True)
class CutOuts:
    """Things cut out of known pictures, and two classifiers fitted on them apart, of colours and of nouns.

    Attributes:
        crops: float32 [M, P]; pairs: int64 [M, 2].
        words: the two classifiers.
    """

    crops: np.ndarray
    pairs: np.ndarray
    words: tuple[Ridge, Ridge]

    @classmethod
    def of(cls, known: Views) -> CutOuts:
        """From all visible things of pictures whose things are known."""
        crops = known.crops()
        in_view = crops.any(-1)
        crops, pairs = crops[in_view], known.pairs[in_view]
        return cls(crops, pairs, (fit_ridge_classifier(crops, pairs[:, 0]), fit_ridge_classifier(crops, pairs[:, 1])))

    def called(self, crops: np.ndarray) -> np.ndarray:
        """Colour and noun of cut-outs [N, P], each by its own classifier, int64 [N, 2]."""
        return np.stack([word.predict(crops) for word in self.words], 1)

    def nearest(self, crops: np.ndarray) -> np.ndarray:
        """Colour and noun of the nearest known cut-out, int64 [N, 2]."""
        return self.pairs[np.argmin((self.crops**2).sum(1) - 2 * crops @ self.crops.T, 1)]

    def scores(self, crops: np.ndarray) -> np.ndarray:
        """The scores of both classifiers for cut-outs [..., P], side by side, [..., words]."""
        flat = crops.reshape(-1, crops.shape[-1])
        return np.concatenate([word.scores(flat) for word in self.words], 1).reshape(*crops.shape[:-1], -1)

    def fits(self, crops: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """How well cut-outs [N, K, P] match colours and nouns int64 [N, 2]: the sum of both scores, [N, K]."""
        total = np.zeros(crops.shape[:2])
        for word, classifier in enumerate(self.words):
            scores = classifier.scores(crops.reshape(-1, crops.shape[-1])).reshape(*total.shape, -1)
            column = np.searchsorted(np.unique(self.pairs[:, word]), targets[:, word])  # classes are sorted
            total += np.take_along_axis(scores, column[:, None, None], 2)[..., 0]
        return total

    def likeness(self, crops: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """How near cut-outs [N, K, P] are to known ones of colours and nouns int64 [N, 2]: minus the sum of the squared
        distances to the nearest of that colour and to the nearest of that noun, [N, K].
        """
        flat = crops.reshape(-1, crops.shape[-1])
        apart = (self.crops**2).sum(1) - 2 * flat @ self.crops.T + (flat**2).sum(1, keepdims=True)
        apart = apart.reshape(*crops.shape[:-1], -1)
        near = [np.where(self.pairs[:, word] == targets[:, word, None], 0.0, np.inf)[:, None] for word in (0, 1)]
        return -sum((apart + other).min(-1) for other in near)
