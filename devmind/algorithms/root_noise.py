"""Exploration of self-play with PUCT: noise in the root's prior, and random moves.

Published with AlphaZero (Silver et al. 2018, "A general reinforcement learning algorithm that masters chess, shogi and
Go through self-play"). The prior of a root is 0.75 p + 0.25 Dirichlet(alpha). Alpha is about 10 divided by the number
of legal actions (0.3 in chess, 0.15 in shogi, 0.03 in Go). A game's first actions are drawn by
visits ** (1 / temperature). `tree_search.puct_search` mixes the noise in. Generators are arguments; rows are drawn side
by side.
"""

from __future__ import annotations

import numpy as np

from devmind.algorithms.selection import softmax
from devmind.errors import ConfigError

Array = np.ndarray
CONCENTRATION = 10.0
"""Sum of the alphas of a row's legal actions."""


def dirichlet(legal: Array, rng: np.random.Generator, concentration: float = CONCENTRATION) -> Array:
    """Dirichlet noise over the legal actions of each row, float [B, A]: it sums to 1 and is 0 elsewhere.

    Args:
        legal: bool [B, A], at least one a row.
        concentration: the alpha of each legal action is this divided by their number.

    Raises:
        ConfigError: a row has no legal action, or the concentration is not above 0.
    """
    count = legal.sum(-1, keepdims=True)
    if not concentration > 0:
        raise ConfigError(f"The concentration of noise is above 0, such as {CONCENTRATION:g}; got {concentration:g}.")
    if not count.all():
        raise ConfigError(
            f"Noise is drawn among legal actions; row {int(count[:, 0].argmin())} has none: leave out what has ended."
        )
    alpha = concentration / count
    # Gamma(alpha) is Gamma(alpha + 1) U ** (1 / alpha). With logarithms, a small alpha never makes all of them 0.
    gamma = rng.standard_gamma(np.broadcast_to(alpha + 1, legal.shape))
    return softmax(np.log(gamma) + np.log1p(-rng.random(legal.shape)) / alpha, legal)


def by_temperature(weights: Array, temperature: float | Array, rng: np.random.Generator) -> Array:
    """An action a row, int64 [B], drawn in proportion to weights ** (1 / temperature).

    Args:
        weights: float [B, A], not negative, not all 0 in a row, such as a search's visits.
        temperature: float [B] or one for all. 0: the action of greatest weight, the lowest number among equals. 1: in
            proportion to the weights.

    Raises:
        ConfigError: a temperature is below 0, or a row has no weight.
    """
    heat = np.broadcast_to(np.asarray(temperature, np.float64), len(weights))
    top = weights.max(-1, keepdims=True)
    if not (heat >= 0).all():
        raise ConfigError(f"A temperature is 0 (the best action) or above; got {heat[~(heat >= 0)][0]:g}.")
    if not (top > 0).all():
        raise ConfigError(f"An action is drawn by its weight; row {int((top[:, 0] > 0).argmin())} has none above 0.")
    hot = heat > 0
    powers = (weights / top) ** (1 / np.where(hot, heat, 1.0))[:, None]
    reached = powers.cumsum(-1)
    # Kept below the total even after rounding: a last action without weight is never drawn.
    at = np.minimum(rng.random(len(weights)) * reached[:, -1], np.nextafter(reached[:, -1], 0))
    return np.where(hot, (reached <= at[:, None]).sum(-1), weights.argmax(-1))
