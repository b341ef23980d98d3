"""Batches of names: "what is that?" about the thing looked at, and "where is the red ball?" among four things.

Question and picture are one Moment. The head `text` writes the first answer behind the question; the head `point` gives
the second as a cell of the picture. `seeing.py` says which light teaches which word. If a noun is asked for in light of
one colour, behind the word for any colour, all things with this noun are meant.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from devmind.curriculum.stage import Context
from devmind.seeding import lesson_seeds, numpy_rng
from stages.language.caregiver.grammar import a
from stages.language.caregiver.scene import COLOURS, NOUNS, TAUGHT, name_of
from stages.language.name.scenes import THINGS, scenes
from stages.language.seeing import Page, batch_of, named_apart
from stages.language.taught_words import WHAT, where

COLOUR = "what colour is that?"
KIND = "is that a ball, a box or a can?"
APART = 0.5
"""Of questions about the thing looked at, the share that ask for the colour or the noun alone."""
BY_NOUN = 0.5
"""Of questions where a thing is, the share that go by its noun alone."""


QUESTIONS = (WHAT, COLOUR, KIND)
"""What is asked about the thing looked at."""


def answer(name: str) -> str:
    """' a red ball.', as it stands behind the question."""
    return f" {a(name)}."


def lesson_batch(context: Context, update: int, rows: int) -> dict[str, Any]:
    """`rows` scenes of taught pairs: in every second one the question is what is looked at, else where a thing is."""
    what = np.arange(rows) % 2 == 0
    drawn_scenes = scenes(context, lesson_seeds(rows, context.seed, "name", update), TAUGHT, TAUGHT, what)
    rng = numpy_rng(context.seed, "name", update)
    pages, pointed = [], np.zeros((rows, THINGS), bool)
    for row, (colour, noun) in enumerate(drawn_scenes.meant.tolist()):
        if what[row]:
            pointed[row, drawn_scenes.target[row]] = True
            pages.append(_question_page(rng, colour, noun))
        elif rng.random() < BY_NOUN:
            pointed[row] = drawn_scenes.pairs[row, :, 1] == noun
            pages.append(Page(where(name_of(int(rng.integers(len(COLOURS))), noun)), one_colour=True))
        else:
            pointed[row, drawn_scenes.target[row]] = True
            pages.append(Page(where(name_of(colour, noun))))
    return batch_of(drawn_scenes, pages, rng, pointed)


def _question_page(rng: np.random.Generator, colour: int, noun: int) -> Page:
    """A question about the thing looked at, and the answer behind it."""
    if rng.random() >= APART:
        return named_apart(rng, WHAT, colour, noun)
    if rng.random() < 0.5:
        return Page(KIND, f" {a(NOUNS[noun])}.", one_colour=True)
    return Page(COLOUR, f" {COLOURS[colour]}.")
