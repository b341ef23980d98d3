"""How the caregiver takes turns: she pauses, sees where the child looks meanwhile, and goes on from that.

    game     = question reply PAUSE answer
    question = "where is the" NAME "?" | "where is the" NOUN "?" | "where is the" COLOUR "one?"
    reply    = " there." | " which one?"                   what the child writes
    PAUSE    = one to three Moments without a word; a child that said "there." looks at the thing it points at, and a
               child that asked keeps looking straight ahead
    answer   = left out                                    if the child asked
             | "yes."                                      if it looks at the thing she means
             | "no," left out                              if it looks at another thing
    left out = "the" COLOUR "one." | "the" NOUN "." | "the" NAME "."

Gaps between turns last about 0.2 s, two Moments (Stivers et al., 2009, PNAS 106). Her words follow the child's gaze, so
that both attend to one thing: joint attention (Tomasello and Farrar, 1986, Child Development 57). Names are taught so
too: "this is a zib." is said of what the child looks at.
"""

from __future__ import annotations

import numpy as np

from devmind.moment import SIGHT_SIZE

LONGEST_PAUSE = 3
"""Moments."""
GAZE_PX = 4.0
"""A thing so near to the centre of the picture is looked at. If the child looks straight ahead, no thing is so near."""
YES = "yes."


def pause(rng: np.random.Generator) -> int:
    """For how many Moments she is silent."""
    return 1 + int(rng.integers(LONGEST_PAUSE))


def looked_at(boxes: np.ndarray) -> np.ndarray:
    """Which thing the child looks at, int64 [N], -1 for none: the one in the centre of the picture.

    Args:
        boxes: of the things in its picture, [N, K, 4] as in `Views`.
    """
    away = np.linalg.norm((boxes[..., :2] + boxes[..., 2:]) / 2 - SIGHT_SIZE / 2, axis=-1)
    away = np.where(boxes[..., 2] > boxes[..., 0], away, np.inf)
    return np.where(away.min(1) <= GAZE_PX, away.argmin(1), -1)


def repair_turn(left_out: str) -> str:
    """What she says if the child looks at another thing: 'no, the red one.'."""
    return f"no, {left_out}"


def answer(asked: bool, looks_at: int, means: int, left_out: str) -> str:
    """What she says after her pause.

    Args:
        asked: the child has asked which one she means.
        looks_at: the thing it looks at, -1 for none; means: the one that she means.
        left_out: the words that she had left out: 'the red one.'
    """
    if asked:
        return left_out
    return YES if looks_at == means else repair_turn(left_out)
