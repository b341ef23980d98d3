"""Batches of questions that the caregiver asks about a scene in view.

Picture and question are one Moment, and the answer is written behind the question. The answer is in the picture alone:
the scene was not described before. Names are learned as in `name/lesson.py`, colour and noun apart, and numbers mostly
in light of one colour.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from devmind.curriculum.stage import Context
from devmind.seeding import lesson_seeds, numpy_rng
from devmind.worlds.nursery.in_cells import CELLS
from stages.language.caregiver import grammar
from stages.language.caregiver.grammar import AT, Exchange
from stages.language.caregiver.scene import COLOURS, NOUNS, TAUGHT, Pair, Scene, Thing
from stages.language.caregiver.views import MOST, Views, views
from stages.language.seeing import Page, batch_of, named_apart

ASKED = {
    "colour": grammar.colours,
    "place": grammar.places,
    "name": grammar.names,
    "presence": grammar.presences,
    "placement": grammar.placements,
    "number": grammar.numbers,
    "unknown": grammar.unknowns,
}
"""Kinds of questions about a picture; requests are not among them."""


IN_ONE_COLOUR = 0.7
"""Of questions for a number, the share in light of one colour."""


@dataclass
class Questions:
    """Scenes in view, and a question about each with its answer.

    Attributes:
        shown: N scenes.
        kinds: which of ASKED each question is of.
        exchanges: question and answer of each.
    """

    shown: Views
    kinds: list[str]
    exchanges: list[Exchange]

    @property
    def questions(self) -> list[str]:
        """What is asked."""
        return [question for question, _ in self.exchanges]

    @property
    def answers(self) -> list[str]:
        """What is true, as it stands behind the question."""
        return [f" {answer}" for _, answer in self.exchanges]


def lesson_batch(context: Context, update: int, rows: int) -> dict[str, Any]:
    """`rows` scenes of taught pairs, with a question about each."""
    questions = draw_questions(context, lesson_seeds(rows, context.seed, "answer", update), TAUGHT)
    rng = numpy_rng(context.seed, "answer", update)
    pages = [_page(rng, *each) for each in zip(questions.kinds, questions.questions, questions.answers, strict=True)]
    pointed = [
        [tuple(pair) in about(question, scene) for pair in pairs]
        for question, scene, pairs in zip(
            questions.questions, questions.shown.scenes, questions.shown.pairs.tolist(), strict=True
        )
    ]
    return batch_of(questions.shown, pages, rng, np.array(pointed))


def all_questions(of: Sequence[Pair]) -> dict[str, list[str]]:
    """Every question about a picture that she may ask if the pairs `of` may be mentioned, by kind."""
    alone = [Scene((Thing(*pair, place),), of) for pair in of for place in range(len(AT))]
    return {
        kind: list(dict.fromkeys(question for scene in alone for question, _ in ask(scene)))
        for kind, ask in ASKED.items()
    }


def about(question: str, scene: Scene) -> set[Pair]:
    """The pairs that a question is about: all things with its words, or, without a noun, those at its place."""
    words = question.strip("?").split()
    colours = [at for at, colour in enumerate(COLOURS) if colour in words]
    nouns = [at for at, noun in enumerate(NOUNS) if noun in words or grammar.plural(noun) in words]

    def fits(thing: Thing) -> bool:
        if not nouns:
            return AT[thing.place] in question
        return thing.noun in nouns and (not colours or thing.colour in colours)

    return {(thing.colour, thing.noun) for thing in scene.things if fits(thing)}


def _page(rng: np.random.Generator, kind: str, question: str, answer: str) -> Page:
    """The page of a question: which part of the answer is learned, and in which light."""
    if kind == "name":
        colour, noun = answer.strip(" .").split()[-2:]
        return named_apart(rng, question, COLOURS.index(colour), NOUNS.index(noun))
    return Page(question, answer, one_colour=kind == "number" and bool(rng.random() < IN_ONE_COLOUR))


def draw_questions(context: Context, seeds: np.ndarray, of: Sequence[Pair]) -> Questions:
    """Scenes of two to four things of the pairs `of`, and a question about each; all kinds are equally frequent."""
    drawn = [_draw_pairs(numpy_rng("answer", seed), of) for seed in seeds.tolist()]
    pairs, cells = (np.stack(column) for column in zip(*drawn, strict=True))
    drawn_views = views(context, seeds, pairs, cells, of=of)
    exchanges = [
        _question(numpy_rng("question", seed), scene)
        for seed, scene in zip(seeds.tolist(), drawn_views.scenes, strict=True)
    ]
    return Questions(drawn_views, [kind for kind, _ in exchanges], [exchange for _, exchange in exchanges])


def _draw_pairs(rng: np.random.Generator, of: Sequence[Pair]) -> tuple[np.ndarray, np.ndarray]:
    """Different pairs int64 [MOST, 2] and their cells [MOST]; -1 for those that are not there."""
    count = int(rng.integers(2, MOST + 1))
    pairs = np.array([of[at] for at in rng.choice(len(of), MOST, replace=False)])
    cells = rng.choice(CELLS, MOST, replace=False)
    return pairs, np.where(np.arange(MOST) < count, cells, -1)


def _question(rng: np.random.Generator, scene: Scene) -> tuple[str, Exchange]:
    """A kind of question, and one of that kind; all answers that are possible are equally frequent."""
    kinds = [(kind, exchanges) for kind, ask in ASKED.items() if (exchanges := ask(scene))]
    kind, exchanges = kinds[int(rng.integers(len(kinds)))]
    answers = sorted({answer for _, answer in exchanges})
    chosen_answer = answers[int(rng.integers(len(answers)))]
    fit = [exchange for exchange in exchanges if exchange[1] == chosen_answer]
    return kind, fit[int(rng.integers(len(fit)))]
