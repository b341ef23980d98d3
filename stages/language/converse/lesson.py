"""Games to learn from: to ask which one is meant where the words leave it open, and to find it by the answer.

A row is two turns about one picture. What is written behind the caregiver's first words is " there." or " which one?";
in the second turn she says the word that she had left out, only who kept the first one in mind knows all of it, and
what is written is " there.".
Colour and noun are learned apart, as in names.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from devmind.curriculum.stage import Context
from devmind.seeding import lesson_seeds, numpy_rng
from stages.language.caregiver.scene import COLOURS, NOUNS, TAUGHT
from stages.language.converse.games import NOUN, SAID, Games, completion, games, opening
from stages.language.name.scenes import THINGS
from stages.language.parts import TEXT
from stages.language.seeing import Page, batch_of

THERE, WHICH = " there.", " which one?"
MISUNDERSTOOD = 0.3
"""Of the games whose first words leave it open, the share in which the child has answered as if they did not."""
BY_NOUN = 0.35
"""The share of games that are played in light of one colour, by the noun alone."""


def repaired(completed: str) -> str:
    """What she says to who found another thing: 'no, the red one.'."""
    return f"no, {completed}"


def lesson_batch(context: Context, update: int, rows: int) -> dict[str, Any]:
    """`rows` games of pairs that are taught, each of two Moments."""
    shown = games(context, lesson_seeds(rows, context.seed, "converse", update), TAUGHT, TAUGHT)
    rng = numpy_rng(context.seed, "converse", update)
    turns = [_turns(rng, shown, row) for row in range(rows)]
    first, second = (
        # The light of both turns is drawn alike.
        batch_of(shown, [pages[turn] for pages, _ in turns], numpy_rng(context.seed, "converse light", update),
                 np.stack([meant[turn] for _, meant in turns]))
        for turn in (0, 1)
    )  # fmt: skip
    return in_turn(first, second)


def _turns(rng: np.random.Generator, shown: Games, row: int) -> tuple[tuple[Page, Page], np.ndarray]:
    """The pages of both turns, and which things are to be pointed at in each, bool [2, 4]."""
    target, fits = np.arange(THINGS) == shown.target[row], shown.fitting[row]
    pair, words = shown.pairs[row, shown.target[row]], SAID[shown.kind[row]][0]
    if rng.random() < BY_NOUN:
        alike, other = shown.pairs[row, :, NOUN] == pair[NOUN], (int(rng.integers(len(COLOURS))), pair[NOUN])
        asks = alike.sum() > 1
        answer = Page(completion(other, (NOUN,)), THERE, one_colour=True) if asks else Page("yes.", one_colour=True)
        return (
            Page(f"where is the {NOUNS[pair[NOUN]]}?", WHICH if asks else THERE, one_colour=True),
            answer,
        ), np.stack([alike, alike & asks])
    said = opening(pair, words)
    if shown.clear[row]:
        return (Page(said, THERE), Page("yes.")), np.stack([fits, np.zeros_like(fits)])
    completed = completion(pair, words)
    if rng.random() < MISUNDERSTOOD:
        return (Page(said, THERE, given=len(THERE)), Page(repaired(completed), THERE)), np.stack([fits, target])
    return (Page(said, WHICH), Page(completed, THERE)), np.stack([fits, target])


def in_turn(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Two Batches of one Moment a row, about the same pictures, as one of two Moments."""
    length = max(batch["written"].shape[-1] for batch in (first, second))

    def joined(one: Tensor, other: Tensor) -> Tensor:
        return torch.cat((one, other), 1)

    def pages(one: Tensor, other: Tensor) -> Tensor:
        return joined(*(F.pad(page, (0, length - page.shape[-1]), value=-1) for page in (one, other)))

    both = {
        part: {name: (pages if (part, name) == ("senses", TEXT) else joined)(one, second[part][name])
               for name, one in first[part].items()}
        for part in ("senses", "present")
    }  # fmt: skip
    return first | both | {
        "first": joined(first["first"], ~second["first"]),
        "valid": joined(first["valid"], second["valid"]),
        "written": pages(first["written"], second["written"]),
        "pointed": joined(first["pointed"], second["pointed"]),
    }  # fmt: skip
