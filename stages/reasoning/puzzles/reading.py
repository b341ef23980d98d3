"""Puzzles as people type them."""

from __future__ import annotations

import numpy as np

from devmind.errors import ConfigError

SEPARATORS = " ,;/|\n\t"


def lights(text: str, side: int) -> np.ndarray:
    """Lights int8 [1, side * side] from a text of ones and zeros, row by row.

    Raises:
        ConfigError: other characters are in it, or it has another number of lights.
    """
    plain = "".join(sign for sign in text if sign not in SEPARATORS)
    wrong = sorted(set(plain) - {"0", "1"})
    if wrong:
        raise ConfigError(f"Lights are given as 1 (on) and 0 (off); got '{wrong[0]}' in '{text}'.")
    if len(plain) != side**2:
        raise ConfigError(f"Expected {side**2} lights, {side} rows of {side}; got {len(plain)}.")
    return np.array([[int(sign) for sign in plain]], np.int8)
