"""What the caregiver says: the whole grammar, and the exchange about one scene.

An exchange describes a scene, one sentence a thing, in any order, and then asks; the child's answers stand behind the
questions. Everything is true of the scene, so an answer follows only from the description some lines before: no window
of five characters reaches that far.

    exchange   = show {show} ask {ask} NEWLINE
    show       = SHOW A NAME PLACE "." NEWLINE                look, a red ball on the left.
    ask        = question " " answer NEWLINE
    question   = "what colour is the" NOUN "?"                red.
               | "where is the" NAME "?"                      on the left.
               | "what is" PLACE "?"                          a red ball.
               | "is there" A NAME "?"                        yes. / no.
               | "is the" NAME PLACE "?"                      yes. / no.
               | "how many" NOUNS "are there?"                one. / two. / three. / four. / none.
               | either of the first two, of what is not there  unknown.
               | VERB "the" NAME "."                          yes.
    SHOW       = look, | here is | see, | there is
    A          = a | an
    NAME       = COLOUR NOUN
    COLOUR     = red | green | blue | yellow | magenta | cyan | orange | white
    NOUN       = ball | box | can
    PLACE      = "on the left" | "in the middle" | "on the right"
    VERB       = look at | touch | take | roll | find

She asks only for things that can be told apart: not for the colour of "the ball" if there are two balls. Conversations
about a picture that both see, with turns and pauses, are in `turns.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log
from typing import TypeVar

import numpy as np

from devmind.errors import DevmindError, nearest
from devmind.seeding import numpy_rng
from stages.language.caregiver.scene import COLOURS, NOUNS, TAUGHT, Pair, Scene, Thing, draw_scene, name_of

SHOWS = ("look,", "here is", "see,", "there is")
AT = ("on the left", "in the middle", "on the right")
VERBS = ("look at", "touch", "take", "roll", "find")
COUNTS = ("none", "one", "two", "three", "four")
UNKNOWN = "unknown."
"""The answer if the thing asked about is not there."""
QUESTIONS = (2, 5)
"""Questions of an exchange, at least and at most."""

T = TypeVar("T")


class Choices:
    """Draws one of several options, all equally likely, and adds up the cost.

    Attributes:
        nats: minus the log probability of all draws: an upper bound of the cost for a listener who knows the grammar
            and the distribution of scenes.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.nats = rng, 0.0

    def of(self, options: Sequence[T]) -> T:
        """One of `options`."""
        self.nats += log(len(options))
        return options[int(self.rng.integers(len(options)))]


def exchange(scene: Scene, choices: Choices) -> str:
    """The description of a scene, then questions with their answers, a line each; an empty line ends it."""
    order = list(scene.things)
    lines = []
    while order:
        thing = choices.of(order)
        order.remove(thing)
        lines.append(f"{choices.of(SHOWS)} {a(thing.name)} {AT[thing.place]}.")
    applicable = [ask for ask in ASKED if ask(scene)]
    for _ in range(choices.of(range(QUESTIONS[0], QUESTIONS[1] + 1))):
        question, answer = choices.of(choices.of(applicable)(scene))
        lines.append(f"{question} {answer}")
    return "\n".join(lines) + "\n\n"


Exchange = tuple[str, str]
"""A question and its answer."""


def colours(scene: Scene) -> Sequence[Exchange]:
    """The colour of each thing that is the only one with its noun."""
    return [(f"what colour is the {NOUNS[t.noun]}?", f"{COLOURS[t.colour]}.") for t in _alone(scene)]


def places(scene: Scene) -> Sequence[Exchange]:
    """Where each thing is."""
    return [(f"where is the {thing.name}?", f"{AT[thing.place]}.") for thing in scene.things]


def names(scene: Scene) -> Sequence[Exchange]:
    """What is at each place that holds exactly one thing."""
    here = [thing.place for thing in scene.things]
    return [(f"what is {AT[t.place]}?", f"{a(t.name)}.") for t in scene.things if here.count(t.place) == 1]


def presences(scene: Scene) -> Sequence[Exchange]:
    """Whether each of the things is there, and each of as many that are not there."""
    there = {(thing.colour, thing.noun) for thing in scene.things}
    pairs = [*sorted(there), *_absent(scene)[: len(there)]]
    return [(f"is there {a(name_of(*pair))}?", "yes." if pair in there else "no.") for pair in pairs]


def placements(scene: Scene) -> Sequence[Exchange]:
    """Whether each thing is at its place, and whether it is at the next place."""
    right = [(f"is the {thing.name} {AT[thing.place]}?", "yes.") for thing in scene.things]
    return [*right, *((f"is the {t.name} {AT[(t.place + 1) % len(AT)]}?", "no.") for t in scene.things)]


def numbers(scene: Scene) -> Sequence[Exchange]:
    """How many things there are of each noun."""
    there = [thing.noun for thing in scene.things]
    return [(f"how many {plural(noun)} are there?", f"{COUNTS[there.count(n)]}.") for n, noun in enumerate(NOUNS)]


def unknowns(scene: Scene) -> Sequence[Exchange]:
    """The colour of each noun that is not there, and the place of things that are not there."""
    there = {thing.noun for thing in scene.things}
    kinds = [noun for number, noun in enumerate(NOUNS) if number not in there]
    where = [f"where is the {name_of(*pair)}?" for pair in _absent(scene)[:2]]
    return [(question, UNKNOWN) for question in (*(f"what colour is the {kind}?" for kind in kinds), *where)]


def requests(scene: Scene) -> Sequence[Exchange]:
    """Each request about each thing."""
    return [(f"{verb} the {thing.name}.", "yes.") for verb in VERBS for thing in scene.things]


ASKED: tuple[Callable[[Scene], Sequence[Exchange]], ...] = (
    colours, places, names, presences, placements, numbers, unknowns, requests
)  # fmt: skip


def a(name: str) -> str:
    """'a red ball', 'an orange box'."""
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _absent(scene: Scene) -> list[Pair]:
    """Pairs that may be mentioned and are not there; first those that share most words with things that are."""
    there = {(thing.colour, thing.noun) for thing in scene.things}
    colours, nouns = {colour for colour, _ in there}, {noun for _, noun in there}
    absent = [pair for pair in scene.spoken_of if pair not in there]
    return sorted(absent, key=lambda pair: -(pair[0] in colours) - (pair[1] in nouns))


def _alone(scene: Scene) -> list[Thing]:
    there = [thing.noun for thing in scene.things]
    return [thing for thing in scene.things if there.count(thing.noun) == 1]


def plural(noun: str) -> str:
    """'balls', 'boxes'."""
    return noun + ("es" if noun.endswith("x") else "s")


def talk(characters: int, *names: int | str) -> tuple[str, float]:
    """At least so many characters of exchanges about scenes named by `names`, and their cost in nats.

    The cost includes the scenes, which are known by their descriptions alone. Held-out pairs are not mentioned.
    """
    exchanges, length, nats, number = [], 0, 0.0, 0
    while length < characters:
        rng = numpy_rng("caregiver", *names, number)
        choices = Choices(rng)
        scene = draw_scene(rng, TAUGHT)
        exchanges.append(exchange(scene, choices))
        length, nats, number = length + len(exchanges[-1]), nats + choices.nats + _nats_of(scene), number + 1
    return "".join(exchanges), nats


def _nats_of(scene: Scene) -> float:
    """The cost of a scene of n things: n, the n pairs in the order of `things`, and the place of each."""
    n = len(scene.things)
    return log(3) + sum(log(len(TAUGHT) - k) for k in range(n)) - _log_factorial(n) + n * log(len(AT))


def _log_factorial(n: int) -> float:
    return sum(log(k) for k in range(2, n + 1))


INSTRUCTIONS = (
    "go to pick up put next open the a an key door square grey purple in front of you your behind on left right "
    "then after and room"
)
"""The words of instructions that the caregiver's sentences lack."""
VOCABULARY = frozenset(
    " ".join((*COLOURS, *NOUNS, *map(plural, NOUNS), *SHOWS, *AT, *VERBS, *COUNTS, INSTRUCTIONS))
    .replace(",", "")
    .split()
) | frozenset(["what", "colour", "where", "is", "there", "how", "many", "are", "yes", "no", "unknown"])
"""Every word that is taught."""


def check_words(sentence: str) -> None:
    """Refuse words that are never taught.

    Raises:
        DevmindError: a word is not in VOCABULARY (the error names it and the nearest one), or there is no word.
    """
    for word in sentence.lower().replace(",", " ").replace(".", " ").replace("?", " ").replace("!", " ").split():
        if word not in VOCABULARY:
            raise DevmindError(f"The word '{word}' in '{sentence}' was never taught{nearest(word, VOCABULARY)}")
    if not sentence.strip():
        raise DevmindError("An instruction of no words was given; say what to do, for example 'go to the red ball'.")
