"""Baselines of reading: characters predicted by their frequency, and by the four before them.

Witten-Bell smoothing (Witten and Bell, 1991; in the form of Chen and Goodman, 1999, section 2.4): of a context h that
was followed n(h) times by T(h) different characters,

    p(c | h) = (n(hc) + T(h) p(c | h without its first character)) / (n(h) + T(h)),

and below the shortest context all characters are alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass
class _Counts:
    """Grams of one length: sorted keys (context times V + character) and how often each was seen; by context how often
    it was followed, and by how many different characters.
    """

    keys: np.ndarray
    seen: np.ndarray
    followed: np.ndarray
    kinds: np.ndarray


class WittenBell:
    """Grams of up to `order` characters counted in `text`.

    Args:
        text: characters as numbers below `size`, int64 [N].
        size: V, how many characters there are.
        order: the longest gram: a 5-gram predicts a character by the four before it; 1 is character frequency.
    """

    def __init__(self, text: np.ndarray, size: int, order: int = 5) -> None:
        self.size, self.tables = size, []
        context, contexts = np.zeros(len(text), np.int64), 1
        for length in range(1, order + 1):
            characters = text[length - 1 :]
            keys, context_of, counts = np.unique(context * size + characters, return_inverse=True, return_counts=True)
            of = keys // size
            followed = np.bincount(of, counts, minlength=contexts)
            self.tables.append(_Counts(keys, counts, followed, np.bincount(of, minlength=contexts)))
            # The gram that ends here is the context of the next character.
            context, contexts = context_of[:-1], len(keys)

    def nats(self, text: np.ndarray) -> np.ndarray:
        """Minus the log of the probability of each character of `text` int64 [N], float64 [N].

        The first characters of the text are predicted from as many as there are before them.
        """
        probability = np.full(len(text), 1.0 / self.size)
        context = np.zeros(len(text), np.int64)
        for counts in self.tables:
            known = context >= 0
            key = np.where(known, context * self.size + text, -1)
            at = np.searchsorted(counts.keys, key)
            in_table = at < len(counts.keys)
            in_table &= counts.keys[np.minimum(at, len(counts.keys) - 1)] == key
            count = np.where(in_table, counts.seen[np.where(in_table, at, 0)], 0)
            followed, kinds = (
                np.where(known, x[np.where(known, context, 0)], 0) for x in (counts.followed, counts.kinds)
            )
            total = followed + kinds
            mixed = (count + kinds * probability) / np.maximum(total, 1)
            probability = np.where(total > 0, mixed, probability)
            context = np.concatenate(([-1], np.where(in_table, at, -1)[:-1]))
        return -np.log(probability)
