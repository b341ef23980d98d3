"""Spoken questions about scenes in view, and their true answers.

Up to four things of colours and kinds that lessons have words for stand in the nursery. The caregiver asks for a
colour, a place, a number, or whether a thing is there. No lesson shows or mentions pairs in HELD_OUT, which lessons of
language lack too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from devmind.curriculum.stage import Context
from devmind.moment import SIGHT_SIZE
from devmind.seeding import numpy_rng
from devmind.worlds.nursery.in_cells import CELLS, HEIGHTS, put_in_cells
from devmind.worlds.nursery.state import COLOUR_NAMES
from stages.voice.caregiver.speech import (
    COLOURS,
    MANY,
    NEW_WORDS,
    NOUNS,
    SPOKEN,
    TAUGHT_PHRASES,
    UNSEEN_PHRASES,
)

LEVEL = "bind"
"""The nursery's level with things in view; this module moves them to cells."""
MOST = 4
"""Things of a scene; two at least."""
KINDS = ("colour", "place", "presence", "number")
PLACES = ("left", "middle", "right")
COUNTS = ("none", "one", "two", "three")
ANSWERS = (*COLOURS, *PLACES, "yes", "no", *COUNTS)
"""All answers, one word each."""
UNDERSTOOD = (len(KINDS), len(COLOURS) + 1, len(NOUNS))
"""Numbers of classes of a question: its kind, its colour or none, its noun."""
SIDE = 8
"""Cells on each side of the picture, as of the eye `detail`."""
Pair = tuple[int, int]
"""Indices of a colour and a noun."""
PAIRS: tuple[Pair, ...] = tuple((colour, noun) for colour in range(len(COLOURS)) for noun in range(len(NOUNS)))
HELD_OUT: tuple[Pair, ...] = tuple((colour, colour % len(NOUNS)) for colour in range(len(COLOURS)))
TAUGHT: tuple[Pair, ...] = tuple(pair for pair in PAIRS if pair not in HELD_OUT)
ALL = -1
"""The colour of a question that names none."""
TRIES = 100
VERBS, UNSEEN_VERBS = ("find", "take", "touch"), ("roll", "pick")
"""Verbs of remarks, which ask nothing, in lessons and in exams."""
assert COLOUR_NAMES[: len(COLOURS)] == COLOURS


@dataclass(frozen=True)
class Question:
    """A question: one of KINDS, by index; a colour, or ALL; and a noun."""

    kind: int
    colour: int
    noun: int

    @property
    def text(self) -> str:
        """The spoken words; on a page they have a question mark."""
        noun = NOUNS[self.noun]
        named = f"{COLOURS[self.colour]} {noun}"
        return (f"what colour is the {noun}", f"where is the {named}", f"is there a {named}",
                f"how many {MANY[noun]} are there")[self.kind]  # fmt: skip

    def means(self, pair: Pair) -> bool:
        """Whether it asks about a thing of this pair."""
        return pair[1] == self.noun and self.colour in (ALL, pair[0])


def questions(of: Sequence[Pair]) -> tuple[Question, ...]:
    """All questions about these pairs."""
    of_one = [Question(kind, ALL, noun) for kind in (0, 3) for noun in range(len(NOUNS))]
    return (*of_one, *(Question(kind, *pair) for kind in (1, 2) for pair in of))


def remarks(of: Sequence[Pair], verbs: Sequence[str]) -> tuple[str, ...]:
    """Sentences about these pairs that ask nothing, with words of questions and others."""
    sentences = list[str]()
    for colour, noun in of:
        named, many = f"{COLOURS[colour]} {NOUNS[noun]}", f"{COLOURS[colour]} {MANY[NOUNS[noun]]}"
        sentences += [f"{verb} the {named}" for verb in verbs]
        sentences += [f"here is a {named}", f"there is a {named}", f"the {NOUNS[noun]} is {COLOURS[colour]}"]
        sentences += [f"there are {count} {many}" for count in COUNTS[2:]]
    return tuple(dict.fromkeys(sentences))


NO_QUESTIONS: tuple[str, ...] = (*SPOKEN, *TAUGHT_PHRASES, *remarks(TAUGHT, VERBS))
"""Utterances of lessons that ask nothing: words, phrases and sentences."""
STRANGE_REMARKS: tuple[str, ...] = (*NEW_WORDS, *UNSEEN_PHRASES, *remarks(HELD_OUT, UNSEEN_VERBS))
"""Those of exams; no lesson says any of them."""


def truth(question: Question, pairs: Sequence[Pair], cells: Sequence[int]) -> str | None:
    """The true answer if things of `pairs` stand in `cells`; None if the question has none: the colour or the place of
    a thing of which there are none or several, or a number above three.
    """
    meant_things = [at for at, pair in enumerate(pairs) if question.means(pair)]
    kind = KINDS[question.kind]
    if kind == "presence":
        return "yes" if meant_things else "no"
    if kind == "number":
        return COUNTS[len(meant_things)] if len(meant_things) < len(COUNTS) else None
    if len(meant_things) != 1:
        return None
    return COLOURS[pairs[meant_things[0]][0]] if kind == "colour" else PLACES[cells[meant_things[0]] // HEIGHTS]


def answers_to(question: Question) -> tuple[str, ...]:
    """The possible answers of a question."""
    return (COLOURS, PLACES, ("yes", "no"), COUNTS)[question.kind]


@dataclass(frozen=True)
class Scenes:
    """N scenes, each seen while its question is asked.

    Attributes:
        questions: [N]; answers: int64 [N], in ANSWERS.
        sight: uint8 [N, 64, 64, 3].
        meant: bool [N, 64], cells of the picture that hold the centre of a thing that is asked about; things: bool
            [N, 64], cells that hold the centre of any thing.
    """

    questions: tuple[Question, ...]
    answers: np.ndarray
    sight: np.ndarray
    meant: np.ndarray
    things: np.ndarray

    @property
    def texts(self) -> list[str]:
        """What is asked."""
        return [question.text for question in self.questions]

    @property
    def words(self) -> np.ndarray:
        """What is true, a word each, [N]."""
        return np.array(ANSWERS)[self.answers]

    def first(self, n: int) -> Scenes:
        """The first `n` of them."""
        return Scenes(self.questions[:n], self.answers[:n], self.sight[:n], self.meant[:n], self.things[:n])


def scenes(context: Context, seeds: np.ndarray, asked: Sequence[Question], of: Sequence[Pair]) -> Scenes:
    """For each question a room of `seeds` int64 [N] with things of the pairs `of`, such that answers are about equally
    frequent.
    """
    drawn = [
        _draw_scene(numpy_rng("speak_answer", seed), one, of) for seed, one in zip(seeds.tolist(), asked, strict=True)
    ]
    pairs, cells, answers = (np.stack(each) for each in zip(*drawn, strict=True))
    world = context.make_world("nursery", LEVEL, seeds)
    state = put_in_cells(world.state(), seeds, pairs[..., 0], pairs[..., 1], cells)
    sight = world.restore(state)["sight"]
    boxes = world.truth()["boxes"][:, :MOST]
    meant, things = (np.zeros((len(seeds), SIDE**2), bool) for _ in range(2))
    middle = (boxes[..., :2] + boxes[..., 2:]) / 2 * SIDE // SIGHT_SIZE
    for row, thing in zip(*np.nonzero(boxes[..., 2] > boxes[..., 0]), strict=True):
        cell = int(middle[row, thing, 1]) * SIDE + int(middle[row, thing, 0])
        things[row, cell] = True
        meant[row, cell] |= asked[row].means(tuple(pairs[row, thing].tolist()))
    return Scenes(tuple(asked), answers, sight, meant, things)


def _draw_scene(
    rng: np.random.Generator, question: Question, of: Sequence[Pair]
) -> tuple[np.ndarray, np.ndarray, np.int64]:
    """Different pairs int64 [MOST, 2], their cells [MOST], -1 for those that are not there, and the answer.

    An answer is drawn, and then scenes until it is true; after TRIES scenes another answer is drawn.
    """
    while True:
        wanted = str(rng.choice(answers_to(question)))
        for _ in range(TRIES):
            count = int(rng.integers(2, MOST + 1))
            pairs = [of[at] for at in rng.choice(len(of), MOST, replace=False)]
            cells = rng.choice(CELLS, MOST, replace=False)
            if truth(question, pairs[:count], cells[:count].tolist()) == wanted:
                there = np.where(np.arange(MOST) < count, cells, -1)
                return np.array(pairs), there, np.int64(ANSWERS.index(wanted))
