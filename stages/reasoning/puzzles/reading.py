"""Puzzles as people type them."""

from __future__ import annotations

import numpy as np

from devmind.errors import ConfigError

SIDE = 5
"""Side of the Lights Out board that is taught."""
SEPARATORS = " ,;/|\n\t"


def lights(text: str, side: int) -> np.ndarray:
    """Lights int8 [1, side * side] from a text of ones and zeros, row by row.

    Raises:
        ConfigError: the text has other characters or another number of lights.
    """
    plain = "".join(sign for sign in text if sign not in SEPARATORS)
    wrong = sorted(set(plain) - {"0", "1"})
    if wrong:
        raise ConfigError(f"Lights are given as 1 (on) and 0 (off); got '{wrong[0]}' in '{text}'.")
    if len(plain) != side**2:
        raise ConfigError(f"Expected {side**2} lights, {side} rows of {side}; got {len(plain)}.")
    return np.array([[int(sign) for sign in plain]], np.int8)


def tiles(text: str, side: int) -> np.ndarray:
    """Tiles int8 [1, side * side] from numbers row by row, 0 for the free place.

    Raises:
        ConfigError: a word is not a number, or the numbers are not 0, 1, 2, ... each once.
    """
    words = text.translate(str.maketrans(SEPARATORS, " " * len(SEPARATORS))).split()
    if len(words) == 1 and len(words[0]) == side**2 < 10:
        words = list(words[0])
    for word in words:
        if not word.isdecimal():
            raise ConfigError(f"Tiles are given as numbers, and 0 for the free place; got '{word}' in '{text}'.")
    numbers = [int(word) for word in words]
    if sorted(numbers) != list(range(side**2)):
        raise ConfigError(
            f"Expected the numbers 0 to {side**2 - 1}, each once, {side} rows of {side}; got {len(numbers)} "
            f"number{'s' * (len(numbers) != 1)}: {' '.join(words)}. Separate them by spaces."
        )
    return np.array([numbers], np.int8)
