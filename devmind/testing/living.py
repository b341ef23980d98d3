"""The laws of directors of a life, and of voices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from devmind.testing.laws import difference, require

TICKS = 4


def check_director(make: Callable[[], Any], words: str = "red") -> None:
    """Check the laws of a director (`devmind.acting.directing`): it answers each tick with arrays, and can restart.

    Args:
        make: makes a new one, as a plugin of the group `devmind.procedures` makes from a file.
        words: the words that it hears in one of the ticks.

    Raises:
        BrokenLawError: the first law that does not hold, with what was found.
    """
    director = make()
    first = [_directed(director, tick, words) for tick in range(TICKS)]
    for tick in range(TICKS):  # the same episode once more
        off = difference(first[tick], _directed(director, tick, words))
        require(not off, "a first Moment begins a director anew, so it does the same again", off)
    doing = director.doing()
    law = "what a director is about is a list of lines"
    require(isinstance(doing, list) and all(isinstance(line, str) for line in doing), law, repr(doing))


def _directed(director: Any, tick: int, words: str) -> Mapping[str, np.ndarray]:
    """One tick of an episode with words in one tick, and without senses in the last."""
    from devmind.acting.directing import Observation
    from devmind.moment import Moment

    body = np.zeros(12, np.float32)
    body[1] = 1.0
    senses: dict[str, Any] = {} if tick == TICKS - 1 else {"body": body} | ({"words": words} if tick == 1 else {})
    orders = director.direct(Observation(Moment(tick / 10, senses, first=tick == 0), [words]))
    law = "a director gives finite numbers by effector, and says a fault in a sentence"
    for effector, value in orders.items():
        fits = isinstance(value, np.ndarray) and bool(np.isfinite(value).all())
        require(fits, law, f"'{effector}' is {value!r:.60}")
    require(isinstance(director.fault, str), law, repr(director.fault))
    return dict(orders)


def check_voice(voice: Callable[[str], np.ndarray], text: str = "two red balls") -> None:
    """Check the laws of a voice, a plugin of the group `devmind.voices`: words to sound.

    Raises:
        BrokenLawError: the first law that does not hold, with what was found.
    """
    sound, law = voice(text), "a voice gives sound, float32 [C, S] within -1..1 at 16 kHz, and is heard"
    found = f"{getattr(sound, 'dtype', type(sound).__name__)} {list(getattr(sound, 'shape', ()))}"
    require(isinstance(sound, np.ndarray) and sound.dtype == np.float32 and sound.ndim == 2, law, found)
    require(bool(sound.size) and 0.01 < float(np.abs(sound).max()) <= 1.0, law, f"{found} of another loudness")
