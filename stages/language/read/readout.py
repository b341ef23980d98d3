"""A baseline of reading: the next byte by a linear read-out of the bytes before it, fitted in closed form.

Features are one-hot: the last byte, and each of the last two, three and four together, hashed into buckets (Weinberger
et al., 2009, "Feature hashing for large scale multitask learning"). Ridge regression on which byte comes next is one
linear system (Hoerl and Kennard, 1970); its outputs s and how often each byte comes, p, become probabilities by

    softmax(a s + b log p),

with the two numbers a and b that are best on the end of the taught part, which the regression does not see.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from scipy.sparse import csr_array
from scipy.special import log_softmax

ORDERS = (2, 3, 4)
"""Numbers of last bytes that are hashed together; the last byte stands by itself too."""
BUCKETS, BYTES_A_BUCKET = 2048, 64
"""Buckets of each order, at most; a text has one for so many of its bytes."""
MOST = 1_500_000
"""Bytes of the taught part that are used, its last ones."""
TOGETHER = 50_000
"""Bytes that are told at once."""
PENALTY, CALIBRATED = 3.0, 0.05
"""Of the regression; and the share of the taught part that a and b are fitted on."""


class ReadOut:
    """Fitted on `text`, bytes uint8 [N]."""

    def __init__(self, text: np.ndarray) -> None:
        text = text[-MOST:]
        self.buckets = int(np.clip(len(text) // BYTES_A_BUCKET, 16, BUCKETS))
        cut = int(len(text) * (1 - CALIBRATED))
        fitted, rest = text[:cut], text[cut:]
        self.bytes = np.unique(text)
        counts = np.bincount(fitted, minlength=256)[self.bytes] + 0.5
        self.prior = np.log(counts / counts.sum())
        features = self.features(fitted)
        one_hot = csr_array((np.ones(len(fitted)), np.searchsorted(self.bytes, fitted), np.arange(len(fitted) + 1)),
                           (len(fitted), len(self.bytes)))  # fmt: skip
        gram = (features.T @ features).toarray()
        gram[np.diag_indices_from(gram)] += PENALTY
        self.weights = cho_solve(cho_factor(gram, overwrite_a=True), (features.T @ one_hot).toarray())
        self.mixed = np.array([1.0, 1.0])
        scores, right = self.features(rest) @ self.weights, np.searchsorted(self.bytes, rest)

        def nats(mixed: np.ndarray) -> float:
            log_probs = log_softmax(mixed[0] * scores + mixed[1] * self.prior, axis=1)
            return -float(log_probs[np.arange(len(right)), right].mean())

        self.mixed = minimize(nats, self.mixed, method="Nelder-Mead", options={"xatol": 1e-2, "fatol": 1e-4}).x

    def features(self, data: np.ndarray) -> csr_array:
        """One row for each byte of `data` uint8 [N]: what stands before it, as ones [N, 256 + orders x buckets]; zeros
        stand before the first.
        """
        before = np.concatenate((np.zeros(max(ORDERS), np.uint64), data.astype(np.uint64)))
        last = [before[max(ORDERS) - back : len(before) - back] for back in range(1, max(ORDERS) + 1)]
        columns = [last[0].astype(np.int64)]
        for at, order in enumerate(ORDERS):
            key = np.zeros(len(data), np.uint64)
            for back, byte in enumerate(last[:order]):
                key += byte << np.uint64(8 * back)
            hashed = (key * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)
            columns.append(256 + at * self.buckets + (hashed % np.uint64(self.buckets)).astype(np.int64))
        width, each = 256 + len(ORDERS) * self.buckets, len(columns)
        shape = (len(data), width)
        ones, begins = np.ones(each * len(data)), np.arange(len(data) + 1) * each
        return csr_array((ones, np.stack(columns, 1).ravel(), begins), shape)

    def nats(self, data: np.ndarray) -> np.ndarray:
        """Minus the log of the probability of each byte of `data` uint8 [N], float64 [N]; of one that the taught part
        does not have, twice the log of 256.
        """
        at = np.searchsorted(self.bytes, data).clip(0, len(self.bytes) - 1)
        known, log_probs, features = self.bytes[at] == data, np.zeros(len(data)), self.features(data)
        for rows in np.array_split(np.arange(len(data)), -(-len(data) // TOGETHER)):
            all_log_probs = log_softmax(
                self.mixed[0] * (features[rows] @ self.weights) + self.mixed[1] * self.prior, axis=1
            )
            log_probs[rows] = all_log_probs[np.arange(len(rows)), at[rows]]
        return np.where(known, -log_probs, 2 * np.log(256.0))
