"""How the caregiver takes turns: she is silent for a while, sees where the child looks meanwhile, and goes on from it.

    game     = question reply PAUSE answer
    question = "where is the" NAME "?" | "where is the" NOUN "?" | "where is the" COLOUR "one?"
    reply    = " there." | " which one?"                   what the child writes
    PAUSE    = one to three Moments without a word, in which who said "there." looks at what it points at, and who
               asked looks on
    answer   = left out                                    to who asked
             | "yes."                                      to who looks at what she means
             | "no," left out                              to who looks at something else
    left out = "the" COLOUR "one." | "the" NOUN "." | "the" NAME "."

Gaps between turns last some 0.2 s, two Moments (Stivers et al., 2009, PNAS 106). That what is said follows the child's
gaze, so that both attend to one thing, is joint attention (Tomasello and Farrar, 1986, Child Development 57); names are
taught so too: "this is a zib." is said of what the child looks at.
"""

from __future__ import annotations

import numpy as np

from devmind.moment import SIGHT_SIZE

LONGEST_PAUSE = 3
"""Moments."""
GAZE_PX = 4.0
"""What lies so near to the middle of the picture is looked at; of what stands in view nothing does where the child
looks straight ahead."""
YES = "yes."


def pause(rng: np.random.Generator) -> int:
    """How many Moments she is silent."""
    return 1 + int(rng.integers(LONGEST_PAUSE))


def looked_at(boxes: np.ndarray) -> np.ndarray:
    """Which thing the child looks at, int64 [N], -1 for none: the one whose middle is that of the picture.

    Args:
        boxes: of the things in its picture, [N, K, 4] as in `Views`.
    """
    away = np.linalg.norm((boxes[..., :2] + boxes[..., 2:]) / 2 - SIGHT_SIZE / 2, axis=-1)
    away = np.where(boxes[..., 2] > boxes[..., 0], away, np.inf)
    return np.where(away.min(1) <= GAZE_PX, away.argmin(1), -1)


def repaired(left_out: str) -> str:
    """What she says to who looks at another thing: 'no, the red one.'."""
    return f"no, {left_out}"


def answer(asked: bool, looks_at: int, means: int, left_out: str) -> str:
    """How she goes on behind her pause.

    Args:
        asked: the child has asked which one she means.
        looks_at: the thing it looks at, -1 for none; means: the one that she means.
        left_out: the words that she had left out: 'the red one.'
    """
    if asked:
        return left_out
    return YES if looks_at == means else repaired(left_out)
