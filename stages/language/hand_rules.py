"""Rules on raw pixels, which are told where each thing is: baselines of skills about pictures.

Fitted on all pixels of a cut-out, a classifier of nouns goes by colour too, and is wrong about pairs that it never saw:
0.62 of nouns. So a second rule has the colour by hue alone, and the noun by brightness alone, as the eye `detail` has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from devmind.algorithms.kernel_ridge import fit_kernel_classifier
from devmind.algorithms.ridge import Ridge, fit_ridge_classifier
from stages.language.caregiver.views import CROP, Views

CLASSIFIERS, HUE = "two classifiers on cut-out pixels", "colour by hue, noun by brightness of cut-outs"
PENALTY = 0.03
"""Of `Kernel`: the best of 0.03 to 3 for nouns of taught pairs that were left out in turn."""
_LEAST_CONTRAST = 0.02


def hue(crops: np.ndarray) -> np.ndarray:
    """The mean colour of the middle of cut-outs [N, P], at length 1, [N, 3]."""
    edge = CROP // 4
    middle = crops.reshape(-1, CROP, CROP, 3)[:, edge:-edge, edge:-edge].mean((1, 2))
    return np.asarray(middle / np.maximum(np.linalg.norm(middle, axis=1, keepdims=True), 1e-6))


def brightness(crops: np.ndarray) -> np.ndarray:
    """The brightness of each pixel of cut-outs [N, P], less its mean and by its contrast, [N, P / 3]."""
    bright = crops.reshape(len(crops), -1, 3).mean(2)
    return np.asarray((bright - bright.mean(1, keepdims=True)) / (bright.std(1, keepdims=True) + _LEAST_CONTRAST))


class Kernel:
    """Kernel ridge classification of cut-outs [N, P] by their `features`."""

    def __init__(self, features: Callable[[np.ndarray], np.ndarray], crops: np.ndarray, labels: np.ndarray) -> None:
        self.features, self.fitted = features, fit_kernel_classifier(features(crops), labels, PENALTY)

    def scores(self, crops: np.ndarray) -> np.ndarray:
        """Outputs before the choice of a class, float64 [N, classes]."""
        return self.fitted.scores(self.features(crops))

    def predict(self, crops: np.ndarray) -> np.ndarray:
        """Class labels [N]."""
        return self.fitted.predict(self.features(crops))


@dataclass(frozen=True)
class CutOuts:
    """Things cut out of known pictures, and two classifiers fitted on them apart, of colours and of nouns.

    Attributes:
        crops: float32 [M, P]; pairs: int64 [M, 2].
        words: the two classifiers.
    """

    crops: np.ndarray
    pairs: np.ndarray
    words: tuple[Ridge | Kernel, Ridge | Kernel]

    @classmethod
    def of(cls, known: Views) -> dict[str, CutOuts]:
        """From all visible things of pictures whose things are known: by CLASSIFIERS on all pixels, and by HUE."""
        crops = known.crops()
        in_view = crops.any(-1)
        crops, pairs = crops[in_view], known.pairs[in_view]
        colours, nouns = pairs.T
        return {
            CLASSIFIERS: cls(crops, pairs, (fit_ridge_classifier(crops, colours), fit_ridge_classifier(crops, nouns))),
            HUE: cls(crops, pairs, (Kernel(hue, crops, colours), Kernel(brightness, crops, nouns))),
        }

    def called(self, crops: np.ndarray) -> np.ndarray:
        """Colour and noun of cut-outs [N, P], each by its own classifier, int64 [N, 2]."""
        return np.stack([word.predict(crops) for word in self.words], 1)

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
