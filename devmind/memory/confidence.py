"""The probability that the nearest name is right: logistic in the evidence for it, calibrated on made-up kinds.

Distances are 1 - cosine. The evidence for a name is a log ratio of two distances, as in Lowe 2004's ratio test. It
means the same where all things look alike (digits) and where they do not (a cup and a dog), for sight and for sound.

The weights were computed by `git show af69618b:benchmarks/fit_names.py`. It teaches one to five names, by one to five
examples each, of kinds that are no built-in strangers (made-up sounds, things of the nursery, the digits that come with
scikit-learn). Then it asks for things of those names and for others, half and half, and fits the logistic (Platt 1999)
on whether the nearest name was right. Those of sound were computed by `benchmarks/names.py --fit`, in the same way, of
kinds of which half are much alike. When names and strangers of a draw were always variants of one kind, the answers for
ordinary sounds were far too unsure (0.62 said, 0.97 nearest).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np

NAMED_FROM, GUESSED_FROM = 0.5, 0.25
"""A thing gets its nearest name when the name is more probably right than not; from the second on it is a guess."""
USUAL_OWN, USUAL_OTHER = -1.5, -0.2
"""Default log distance of an example to the rest of its name, and to the next name, where none was taught."""
PRIOR_EXAMPLES = 0.3
"""Weight of these defaults, in taught examples. The weight and the defaults gave the least log loss on spoken digits of
even takes and the first 600 MNIST pictures among some ten settings, with weights from made-up kinds."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """The evidence for the nearest names of q things, each float64 [q]: log(other distance / distance to the name).

    Args:
        strangers: the other distance is to the most similar strangers.
        second: to the next name; to strangers where there is none.
        other: the usual one of taught examples to the next name.
        own: the usual one of taught examples to the rest of their name.
        alone: 1 where there is no other name, and nothing that was shown as no name.
    """

    strangers: np.ndarray
    second: np.ndarray
    other: np.ndarray
    own: np.ndarray
    alone: np.ndarray

    def rows(self) -> np.ndarray:
        """float64 [q, 9]: a one, every field in its order, and how far strangers, other and own fall short of 0: of a
        sound that is nearer than usual, how much nearer says nothing."""
        columns = [getattr(self, field.name) for field in fields(self)]
        short = np.minimum(np.stack([self.strangers, self.other, self.own], 1), 0)
        return np.column_stack([np.ones(len(self.own)), *columns, short])


WEIGHTS = {
    "sight": np.array([-1.11, 0.49, 0.36, 2.23, 1.32, 0.20, 0, 0, 0]),
    "sound": np.array([0.41, 0, 1.51, 0, 0, 1.65, 5.90, 3.14, 1.92]),
    "press": np.array([-2.38, 3.06, 3.68, 5.37, -0.67, 0.00, 0, 0, 0]),
}
"""Weights of `Evidence.rows`: by the sense of a name's examples, and for a name taught by a press, with many crops and
turns, and for the scene before it."""


def log_odds(evidence: Evidence, weights: np.ndarray) -> np.ndarray:
    """Log odds [q] that the nearest name is right, if half of the questions are about a named thing, by weights [q, 9];
    in -30..30.
    """
    return np.clip((evidence.rows() * weights).sum(1), -30, 30)


def usual(log_distances: np.ndarray, prior: float) -> float:
    """The mean of the observed values, shrunk towards the default; the same in any order."""
    return float((math.fsum(log_distances) + PRIOR_EXAMPLES * prior) / (len(log_distances) + PRIOR_EXAMPLES))
