"""Names taught by a few examples, fitted in closed form, with "unknown" as a real answer.

Which name: ridge on the examples' features, the penalty by exact leave-one-out (`devmind.algorithms.ridge`). Whether
any: the likeness to the most alike example (`likeness.py`), against a threshold that is calibrated on the examples
themselves. Each is left out in turn: the rest with its name show how alike known things are, without its name how alike
unknown ones are. The threshold is where both kinds of error are as frequent. Why these and not others:
docs/decisions.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from devmind.algorithms.ridge import Ridge, fit_ridge_classifier
from devmind.errors import StoreError, nearest
from devmind.memory.entry import Filters, Key
from devmind.memory.episodic import Memory
from devmind.memory.likeness import Likeness

_ROUNDING = 1e-9
"""The same cosine computed in another order: what equals an example is as alike as can be."""
LONE_THRESHOLD = 0.8
"""Where one example is all there is: nothing can be calibrated then, so this is a guess and no more."""


@dataclass(frozen=True)
class Named:
    """An answer of one sense.

    Args:
        name: the name, or None for unknown.
        nearest: the name it would have, were it known.
        likeness: to the most alike example, a cosine, -1..1.
        threshold: from which likeness on a thing is known.
        confidence: that it is known at all, 0..1, from the ranks among the likenesses the threshold was calibrated on;
            0.5 says nothing, and is all that one name or one example each can give.
    """

    name: str | None
    nearest: str
    likeness: float
    threshold: float
    confidence: float


class Fitted:
    """Names fitted on the examples of one sense.

    Args:
        features: float32 [n, F].
        names: n of them.
    """

    def __init__(self, features: np.ndarray, names: Sequence[str]) -> None:
        self.names = np.asarray(names)
        self._likeness = Likeness(features, self.names)
        self._ridge: Ridge | None = None
        if len(set(names)) > 1:
            self._ridge = fit_ridge_classifier(features, self.names)
        self.known, self.unknown = self._likeness.left_out()
        self.threshold = _threshold(self.known, self.unknown)

    def ask(self, features: np.ndarray) -> Named:
        """The answer for features float32 [F]."""
        nearest = str(self.names[0] if self._ridge is None else self._ridge.predict(features[None])[0])
        likeness = float(self._likeness.of(features[None]).max())
        known = likeness >= self.threshold - _ROUNDING
        return Named(nearest if known else None, nearest, likeness, self.threshold, self._confidence(likeness, known))

    def _confidence(self, likeness: float, known: bool) -> float:
        """Share of known things less alike than this, beside the share of unknown ones more alike (each plus one)."""
        if not (len(self.known) and len(self.unknown)):
            return 0.5
        below = (1 + np.sum(self.known <= likeness)) / (1 + len(self.known))
        above = (1 + np.sum(self.unknown >= likeness)) / (1 + len(self.unknown))
        confidence = float(below / (below + above))
        return max(0.5, confidence) if known else min(0.5, confidence)


class _Fits(NamedTuple):
    """All names at one state of the examples: by sense, what was fitted and whose keys it was."""

    examples: bytes
    fitted: Mapping[str, Fitted]
    encoders: Mapping[str, str]


class Names:
    """The names of a memory, fitted anew whenever it has changed.

    A fit takes seconds for a thousand examples. Who must not wait calls `fit` in another thread, and asks with
    `refit=False` meanwhile.
    """

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self._fits = _Fits(b"", {}, {})

    @property
    def encoders(self) -> dict[str, str]:
        """By sense in which names were taught, whose keys they were fitted on; as of the last fit."""
        return dict(self._fits.encoders)

    def known(self) -> dict[str, int]:
        """How many examples there are of each name, by name."""
        names = self.memory.store.facts(Filters(named=True)).names
        return dict(sorted(Counter(str(name) for name in names).items()))

    def forget(self, name: str) -> int:
        """Undo every example of a name and delete it from the disk; gives how many there were.

        Raises:
            StoreError: there is no such name (the nearest is named), or another process keeps it from being erased.
        """
        known = self.known()
        # Even for a name that is gone: it erases what another reader may have kept from being erased before.
        gone = self.memory.forget(Filters(name=name))
        if not gone:
            raise StoreError(f"No name '{name}' was taught{nearest(name, known)}")
        return gone

    def ask(self, keys: Mapping[str, Key], refit: bool = True) -> dict[str, Named]:
        """Answers by sense, for the senses in which a name was taught; nothing where none was.

        Args:
            refit: `fit` first; else the answers are of the last fit, and the store is not touched.

        Raises:
            StoreError: a key of another encoder than the examples', or without features.
        """
        if refit:
            self.fit()
        _, fitted, encoders = self._fits
        answers = {}
        for sense in keys.keys() & fitted.keys():
            key = keys[sense]
            if key.encoder != encoders[sense] or key.features is None:
                raise StoreError(
                    f"The examples of '{sense}' were described by another encoder ({encoders[sense][:8]}, asked "
                    f"with {key.encoder[:8]}), or no features came; rebuild the memory and describe again."
                )
            answers[sense] = fitted[sense].ask(key.features)
        return answers

    def fit(self) -> None:
        """Fit anew if the examples have changed; from any thread, beside `ask`."""
        table = self.memory.index.update()
        named = table.alive & (table.names >= 0)
        state = np.stack((table.ids[named], table.changed[named])).tobytes()
        if state == self._fits.examples:
            return
        examples = self.memory.store.find(Filters(named=True), payloads=False)
        fitted, encoders = {}, {}
        for sense in {sense for entry in examples for sense in entry.keys}:
            shown = [(str(e.name), e.keys[sense]) for e in examples if sense in e.keys]
            rows = [(key.features, name) for name, key in shown if key.features is not None]
            if rows:
                fitted[sense] = Fitted(np.stack([row for row, _ in rows]), [name for _, name in rows])
                encoders[sense] = shown[0][1].encoder
        self._fits = _Fits(state, fitted, encoders)


def _threshold(known: np.ndarray, unknown: np.ndarray) -> float:
    """Where as large a share of known things is refused as of unknown ones is named, midway between two likenesses."""
    if not len(known):
        return (1 + float(unknown.max())) / 2 if len(unknown) else LONE_THRESHOLD
    if not len(unknown):
        return float(known.min() - (known.max() - known.min()))
    values = np.unique(np.concatenate((known, unknown)))
    cuts = np.concatenate((values[:1], (values[:-1] + values[1:]) / 2))
    refused = np.searchsorted(np.sort(known), cuts) / len(known)
    named = 1 - np.searchsorted(np.sort(unknown), cuts) / len(unknown)
    even = np.flatnonzero(np.abs(refused - named) == np.abs(refused - named).min())
    return float(cuts[even].mean())
