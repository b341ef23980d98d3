"""Batches of games: asking which thing is meant if the words leave it open, and finding it by the answer.

A row has two turns about one picture, with a pause between them (`caregiver/turns.py`). The answer behind the
caregiver's first words is " there." or " which one?". A child that wrote " there." looks at a thing in the pause, and
she goes on from where it looks. In the second turn she says the word that she left out, so the first turn has to be
remembered, and the answer is " there.". Colour and noun are learned apart, as in names.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from devmind.curriculum.stage import Context
from devmind.seeding import lesson_seeds, numpy_rng
from stages.language.caregiver import turns
from stages.language.caregiver.scene import COLOURS, NOUNS, TAUGHT
from stages.language.caregiver.turns import YES
from stages.language.caregiver.views import Views, in_light_of_one_colour
from stages.language.converse.games import NOUN, SAID, Games, completion, games, opening
from stages.language.name.scenes import THINGS
from stages.language.parts import SIGHT, TEXT
from stages.language.seeing import Page, batch_of

THERE, WHICH = " there.", " which one?"
MISUNDERSTOOD = 0.3
"""Of games whose first words leave it open, the share in which the child answered as if they did not."""
BY_NOUN = 0.35
"""The share of games in light of one colour, by the noun alone."""


class _Row(NamedTuple):
    """A game: the pages of both turns, the things to be pointed at in each, bool [2, 4], and the thing that the child
    looks at in the pause, -1 for none.
    """

    pages: tuple[Page, Page]
    meant: np.ndarray
    looks_at: int


def lesson_batch(context: Context, update: int, rows: int) -> dict[str, Any]:
    """`rows` games of taught pairs: a turn, a pause as long as that of the first game, and a turn."""
    drawn_games = games(context, lesson_seeds(rows, context.seed, "converse", update), TAUGHT, TAUGHT)
    rng = numpy_rng(context.seed, "converse", update)
    played = [_row(rng, drawn_games, row) for row in range(rows)]
    later_views = drawn_games.seen_by(context, np.array([row.looks_at for row in played]))

    def light() -> np.random.Generator:
        """The same draws for each Moment, so that the light of a game stays."""
        return numpy_rng(context.seed, "converse light", update)

    first, second = (
        batch_of(
            drawn_games, [row.pages[turn] for row in played], light(), np.stack([row.meant[turn] for row in played])
        )
        for turn in (0, 1)
    )
    silence = silent(later_views, [row.pages[0].one_colour for row in played], light(), first)
    return in_turn(first, *[silence] * int(drawn_games.silent[0]), second)


def _row(rng: np.random.Generator, drawn_games: Games, row: int) -> _Row:
    target, fits = np.arange(THINGS) == drawn_games.target[row], drawn_games.fitting[row]
    pair, words, means = (
        drawn_games.pairs[row, drawn_games.target[row]],
        SAID[drawn_games.kind[row]][0],
        int(drawn_games.target[row]),
    )
    if rng.random() < BY_NOUN:
        same_noun, other = drawn_games.pairs[row, :, NOUN] == pair[NOUN], (int(rng.integers(len(COLOURS))), pair[NOUN])
        ambiguous = same_noun.sum() > 1
        answer = Page(completion(other, (NOUN,)), THERE, one_colour=True) if ambiguous else Page(YES, one_colour=True)
        question = Page(f"where is the {NOUNS[pair[NOUN]]}?", WHICH if ambiguous else THERE, one_colour=True)
        return _Row((question, answer), np.stack([same_noun, same_noun & ambiguous]), -1 if ambiguous else means)
    first_words = opening(pair, words)
    if drawn_games.clear[row]:
        return _Row((Page(first_words, THERE), Page(YES)), np.stack([fits, np.zeros_like(fits)]), means)
    completed = completion(pair, words)
    if rng.random() < MISUNDERSTOOD:
        others = np.flatnonzero(fits & ~target)
        looks_at = int(others[rng.integers(len(others))])
        correction = turns.answer(False, looks_at, means, completed)
        return _Row(
            (Page(first_words, THERE, given=len(THERE)), Page(correction, THERE)), np.stack([fits, target]), looks_at
        )
    return _Row((Page(first_words, WHICH), Page(completed, THERE)), np.stack([fits, target]), -1)


def silent(views: Views, one_colour: list[bool], rng: np.random.Generator, turn: dict[str, Any]) -> dict[str, Any]:
    """A Moment of each row without a page, with pictures as `seen` in the light of a `turn` of `batch_of`; its targets
    are empty.
    """
    lit = in_light_of_one_colour(views.sight, rng)
    sight = np.where(np.array(one_colour)[:, None, None, None], lit, views.sight)
    always, nothing = turn["valid"], torch.full_like(turn["written"], -1)
    return {
        "senses": {SIGHT: torch.from_numpy(sight)[:, None], TEXT: nothing},
        "present": {SIGHT: always, TEXT: ~always},
        "first": ~always,
        "valid": always,
        "written": nothing,
        "pointed": torch.zeros_like(turn["pointed"]),
    }


def in_turn(first: dict[str, Any], *others: dict[str, Any]) -> dict[str, Any]:
    """Joins Batches of one Moment a row, about the same things, in time; entries without time come from the first."""
    moments = (first, *others)
    length = max(moment["written"].shape[-1] for moment in moments)

    def joined(each: list[Tensor]) -> Tensor:
        return torch.cat(each, 1)

    def pages(each: list[Tensor]) -> Tensor:
        return joined([F.pad(page, (0, length - page.shape[-1]), value=-1) for page in each])

    of_senses = {
        about: {
            name: (pages if (about, name) == ("senses", TEXT) else joined)([moment[about][name] for moment in moments])
            for name in first[about]
        }
        for about in ("senses", "present")
    }
    return first | of_senses | {
        "first": torch.cat([first["first"], *(torch.zeros_like(other["first"]) for other in others)], 1),
        "valid": joined([moment["valid"] for moment in moments]),
        "written": pages([moment["written"] for moment in moments]),
        "pointed": joined([moment["pointed"] for moment in moments]),
    }  # fmt: skip
