"""Minimal pairs of the caregiver's grammar: two pages that differ in one place, only one of which could be hers.

Both describe the same scene of held-out pairs of colour and noun and end in one more line. In the first kinds a word of
it does not fit the words beside it. In the last three it does not fit what stands before a name that she never said,
or a line and more before, which n-grams do not reach.

If a thing is described twice, the pages end in different names, and the cost of a name by itself must not decide. So
such a pair has two right and two wrong pages, in which both names trade places: each name ends a right page and a wrong
one, behind either beginning, as where one word is compared behind two prefixes (BLiMP: Warstadt et al., 2020).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from devmind.seeding import numpy_rng
from stages.language.caregiver import grammar
from stages.language.caregiver.grammar import AT, COUNTS, SHOWS, Choices, a, exchange
from stages.language.caregiver.scene import COLOURS, HELD_OUT, NOUNS, Scene, draw_scene
from stages.language.caregiver.scene import Pair as Words


@dataclass(frozen=True)
class Pair:
    """Right pages, the same pages with one fault each, and the kind of fault.

    Attributes:
        right, wrong: one page each; if a thing is described twice, two each, which are judged by their summed cost.
    """

    kind: str
    right: tuple[str, ...]
    wrong: tuple[str, ...]


Lines = tuple[str, str]
"""A right line, and the same with one fault."""


def _article(scene: Scene, choices: Choices) -> Lines:
    name, at = _shown(scene, choices)
    wrong = ("an " if a(name).startswith("a ") else "a ") + name
    return f"{a(name)} {at}", f"{wrong} {at}"


def _order(scene: Scene, choices: Choices) -> Lines:
    name, at = _shown(scene, choices)
    colour, noun = name.split()
    return f"{a(name)} {at}", f"{a(name).split()[0]} {noun} {colour} {at}"


def _number(scene: Scene, choices: Choices) -> Lines:
    question, answer = choices.of(grammar.numbers(scene))
    kind = question.split()[2]
    single = next(noun for noun in NOUNS if kind.startswith(noun))
    return f"{question} {answer}", f"{question.replace(kind, single)} {answer}"


def _preposition(scene: Scene, choices: Choices) -> Lines:
    name, at = _shown(scene, choices)
    word, other = ("in", "on") if at.startswith("in") else ("on", "in")
    return f"{a(name)} {at}", f"{a(name)} {at.replace(word, other, 1)}"


def _determiner(scene: Scene, choices: Choices) -> Lines:
    question, answer = choices.of(grammar.places(scene))
    return f"{question} {answer}", f"{question.replace(' the ', ' a ')} {answer}"


def _verb(scene: Scene, choices: Choices) -> Lines:
    question, answer = choices.of(grammar.placements(scene))
    return f"{question} {answer}", f"{question.replace('is the', 'are the', 1)} {answer}"


def _answer_to_where(scene: Scene, choices: Choices) -> Lines:
    question, answer = choices.of(grammar.places(scene))
    return f"{question} {answer}", f"{question} {choices.of(('yes.', 'no.'))}"


def _answer_to_whether(scene: Scene, choices: Choices) -> Lines:
    question, answer = choices.of(grammar.presences(scene))
    return f"{question} {answer}", f"{question} {choices.of(AT)}."


def _described_twice(scene: Scene, lines: list[str], last: str, choices: Choices) -> Pair:
    """The last line, and in its place a thing described before; and the same with both names exchanged."""
    others = [a(thing.name) for thing in scene.things if thing.name not in last]
    name = next(a(thing.name) for thing in scene.things if thing.name in last)
    other = choices.of(others)
    right, wrong = (_page([*lines, line]) for line in (last, last.replace(name, other)))
    return Pair(TWICE, (right, _traded(right, name, other)), (wrong, _traded(wrong, name, other)))


def _traded(page: str, name: str, other: str) -> str:
    """A page with two names exchanged."""
    return other.join(part.replace(other, name) for part in page.split(name))


def _truth(scene: Scene, choices: Choices) -> Lines:
    """A true answer, and one of the same kind that is not true of the scene."""
    question, answer = choices.of(choices.of([ask for ask in ASKED if ask(scene)])(scene))
    others = [one for kind in KINDS if answer in kind for one in kind if one != answer]
    return f"{question} {answer}", f"{question} {choices.of(others)}"


ASKED = (grammar.colours, grammar.places, grammar.presences, grammar.placements, grammar.numbers)
KINDS = tuple(tuple(f"{one}." for one in each) for each in (COLOURS, AT, ("yes", "no"), COUNTS))
"""Answers by kind of question."""
FAULTS: Mapping[str, Callable[[Scene, Choices], Lines]] = {
    "article": _article,
    "word order": _order,
    "number": _number,
    "preposition": _preposition,
    "determiner": _determiner,
    "verb": _verb,
    "answer to where": _answer_to_where,
    "answer to whether": _answer_to_whether,
}
TWICE, TRUTH = "told twice", "answer is true"
KINDS_OF_FAULTS = (*FAULTS, TWICE)
"""The faults of grammar. An untrue answer is not among them."""


def pair(kind: str, *names: int | str, of: Sequence[Words] = HELD_OUT) -> Pair:
    """The minimal pair with a kind of fault about a scene named by `names`, with things of the pairs `of` alone: in
    exams the held-out ones.
    """
    choices = Choices(numpy_rng("minimal pair", kind, *names))
    scene = draw_scene(choices.rng, of)
    spoken = exchange(scene, choices).splitlines()[: len(scene.things)]
    if kind == TWICE:
        return _described_twice(scene, spoken[:-1], spoken[-1], choices)
    lines = _with_introduction((_truth if kind == TRUTH else FAULTS[kind])(scene, choices), choices)
    right, wrong = (_page([*spoken, line]) for line in lines)
    return Pair(kind, (right,), (wrong,))


def _page(lines: list[str]) -> str:
    return "\n".join([*lines, ""])


def _with_introduction(lines: Lines, choices: Choices) -> Lines:
    """With the words that show a thing in front, if the lines begin with its name."""
    if lines[0].startswith(("a ", "an ")):
        show = choices.of(SHOWS)
        return f"{show} {lines[0]}", f"{show} {lines[1]}"
    return lines


def _shown(scene: Scene, choices: Choices) -> tuple[str, str]:
    thing = choices.of(scene.things)
    return thing.name, f"{AT[thing.place]}."
