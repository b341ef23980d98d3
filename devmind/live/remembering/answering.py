"""Answers to words: the known names in them, what the agent now sees and hears, and what it cannot do.

An agent that was taught to write answers in its own words about what is in view, by the head that the exams ask, and
says how sure it is; but only questions as its lessons ask them, and only if it is sure. Everything else is built here
from the results of memory and recognition alone; it claims no understanding.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

from devmind.acting.recall import names_in
from devmind.agent.agent import Agent
from devmind.agent.batch import collate
from devmind.agent.output import Output
from devmind.agent.writing import Conversation
from devmind.errors import MomentError, PluginError
from devmind.memory import Named
from devmind.moment import Moment, Sense
from devmind.plugins import load

CANNOT = "It cannot talk or follow instructions yet; it learns only names."
NO_WORDS = "It has no words for that."
ELSEWHERE = "It learned to answer this in a room of coloured boxes; here it is unsure."
HELLO = "Hello."
HINT = "Hold up a thing and tell it “this is a cup”, or ask what it sees."
AHEAD_DEG = 8.0
LISTED = 6
LONGEST = 32
"""Bytes of what it writes."""
PAGE, POINT, THERE = "text", "point", "there."
"""The sense and head of pages, the head that says which part of the picture is meant, and the word with which it
points."""
QUESTIONS = frozenset(("what", "where", "who", "which", "how", "is", "are", "do", "does", "can"))
"""Words with which a question begins."""
LAPSE_S = 60.0
"""After so long a silence what was said before is over."""
FEW_WORDS = 3
SPELLED = {"color": "colour", "colors": "colours", "colored": "coloured", "gray": "grey", "center": "centre"}
"""American spellings of words that lessons spell in the British way."""
_SHORT_IS = re.compile(r"\b(what|where|who|how|that|there|it)['’]s\b")
_ONE_THING = re.compile(r"\b(?:this|it)(?=\?$)")
_GREETING = re.compile(
    r"^\W*(?:hello|hallo|hullo|hi|hiya|hey|howdy|welcome|greetings|good (?:morning|afternoon|evening|day))\b"
    r"(?:\s+(?:there|you|again|everyone|baby|little one|devmind))*\b[\s,.;:!-]*",
    re.IGNORECASE,
)
PERHAPS = 0.1
"""A name that is less probable is no guess worth telling, here as on the page (`naming.js`)."""


def answer(
    text: str,
    known: Mapping[str, int],
    named: Mapping[str, Named],
    gaze_deg: tuple[float, float] | None,
    writes: bool = False,
    why: str = "",
    remarks: bool = True,
) -> str:
    """Sentences that answer `text`; a greeting is returned, and what stands behind it is answered.

    Args:
        known: names taught, with their numbers of examples.
        named: what is recognised now, by sense.
        gaze_deg: pan (positive to its left) and tilt (positive upwards) of its gaze; None when it sees nothing.
        writes: whether it can answer in its own words, at least some questions.
        why: why it did not, or ''; left out where only a name was said.
        remarks: whether to say what it cannot do at all.
    """
    greeted, rest = greeting(text, known)
    if greeted and not rest:
        return " ".join((HELLO, HINT))
    text = rest
    sensed, words = [seen(named.get("sight"), gaze_deg), heard(named.get("sound"))], about_words(text, known)
    is_about_names = is_name(text) or names_in(text, known)
    # "what do you see?" asks about no name
    sentences = [words, *sensed] if is_about_names else [why, *sensed, words]
    sentences = [HELLO * greeted, *sentences, CANNOT * (remarks and not writes)]
    return " ".join(sentence for sentence in sentences if sentence)


def greeting(text: str, known: Mapping[str, int] = MappingProxyType({})) -> tuple[bool, str]:
    """Whether a text begins with a greeting, and what stands behind it; a name that was taught is none."""
    found = _GREETING.match(text)
    if found is None or names_in(text[: found.end()], known):
        return False, text
    return True, text[found.end() :]


def is_name(text: str) -> bool:
    """Whether it may be nothing but a name: a few words that are no question."""
    return len(text.split()) <= FEW_WORDS and not is_question(text)


def learned(name: str, frames: int, examples: int, unseen: str = "") -> str:
    """What was learned about a name that was just taught.

    Args:
        frames: number of pictures that were kept.
        examples: how often it has been taught so far.
        unseen: why only a sound was kept, where a picture could have been meant; else ''.
    """
    if unseen:
        return f"It has learned only the sound of “{name}”. {unseen}"
    source = counted(frames, "picture") if frames > 1 else "one example" if examples == 1 else f"{examples:,} examples"
    return f"It has learned “{name}” from {source}."


class OwnWords(NamedTuple):
    """What it writes itself, how sure it is of it, and where it points: -1 to 1 from left to right and from top to
    bottom of its view; None where its words do not say that it points.
    """

    text: str
    sure: float
    points: tuple[float, float] | None


@cache
def _questions(stage: str) -> dict[str, tuple[str, ...]]:
    """The questions of a stage's lessons by kind (`Stage`), as `as_in_lessons` writes them; empty if it names none."""
    try:
        asked = getattr(load("stages", stage)(), "questions", None)
    except PluginError:  # an agent can live on without the stage that taught it
        asked = None
    return {kind: tuple(every) for kind, every in asked().items()} if asked else {}


def questions(agent: Agent) -> Mapping[str, tuple[str, ...]]:
    """The questions that lessons taught this agent to answer in writing, by kind, the plainest of each first; empty if
    it cannot write, or the stage that taught it does not say. The first call imports that stage.
    """
    if not can_write(agent):
        return {}
    [taught_by] = [head.get("stage") for head in agent.config.heads if head["name"] == PAGE]
    return _questions(taught_by) if taught_by in agent.config.stages else {}


def example_questions(agent: Agent) -> list[str]:
    """A few of `questions`, no two with the same two words at the beginning, for people to choose from."""
    first = [every[0] for every in questions(agent).values() if every and is_question(every[0])]
    chosen = dict[tuple[str, ...], str]()
    for question in first:
        chosen.setdefault(tuple(question.split()[:2]), question)
    return list(chosen.values())


def can_write(agent: Agent) -> bool:
    """Whether it was taught to write."""
    return PAGE in agent.encoders and PAGE in agent.heads


class Dialogue:
    """The agent's answers in its own words about what it sees, each turn continuing from the turns before.

    Args:
        sure: the probability from which an answer is given.
    """

    def __init__(self, sure: float = 0.0) -> None:
        self.sure = sure
        self._talk: Conversation | None = None
        self._said_s = 0.0
        self._speaking = threading.Lock()  # each page speaks in a thread of its own

    def reply(self, agent: Agent, text: str, sight: Sense | None, now_s: float) -> OwnWords | None:
        """Its next turn.

        None if it was never taught to write or writes nothing, if it is not sure, if the text is empty or longer than a
        page, or if its lessons never ask that. What is not said is no part of the dialogue, which then starts again.

        Args:
            now_s: on a monotonic clock; after LAPSE_S of silence, and with another agent, the dialogue starts again.
        """
        if not can_write(agent) or not text.strip() or not is_taught(text, questions(agent)):
            return None
        with self._speaking:
            return self._reply(agent, text, sight, now_s)

    def _reply(self, agent: Agent, text: str, sight: Sense | None, now_s: float) -> OwnWords | None:
        anew = self._talk is None or self._talk.agent is not agent or now_s - self._said_s > LAPSE_S
        talk = Conversation(agent, sense=PAGE) if anew or self._talk is None else self._talk
        # In the dark there is nothing to point at.
        heads = [POINT] if POINT in agent.heads and sight is not None else []
        seen = {} if sight is None else {"sight": sight}
        if seen and not anew:  # a pause between two turns, as in the lessons
            talk.listen(collate([[Moment(now_s, seen)]]))
        try:
            turn = talk.turn(
                collate([[Moment(now_s, {**seen, PAGE: as_in_lessons(text)}, first=anew)]]), LONGEST, heads
            )
        except MomentError:
            return None
        self._talk, self._said_s = talk, now_s
        said = turn.texts[0].strip()
        if not said or turn.sure[0] < self.sure:
            self._talk = None
            return None
        points = _place(turn.outputs[POINT]) if heads and said == THERE else None
        return OwnWords(said, turn.sure[0], points)


def _place(pointed: Output) -> tuple[float, float]:
    """The middle of the likeliest cell of a square grid."""
    return middle_of(int(pointed.mode().flatten()[0]), math.isqrt(pointed.numbers().shape[-1]))


def middle_of(cell: int, side: int = 8) -> tuple[float, float]:
    """The middle of a cell, counted row by row, `side` in a row: -1 to 1, left to right and top to bottom."""
    row, column = divmod(cell, side)
    return (2 * column + 1) / side - 1, (2 * row + 1) / side - 1


def as_in_lessons(text: str) -> str:
    """The typed text in the caregiver's style: small letters, single blanks, a mark at the end.

    A capital letter at the beginning, which a phone writes on its own, a missing mark, American spelling, "what's", and
    "this" or "it" for "that" at the end of a question do not change the question.
    """
    plain = _SHORT_IS.sub(r"\1 is", " ".join(text.lower().split()))
    plain = re.sub(r"\w+", lambda word: SPELLED.get(word[0], word[0]), plain)
    if plain and plain[-1] not in ".?!":
        plain += "?" if is_question(plain) else "."
    return _ONE_THING.sub("that", plain) if is_question(plain) else plain


def is_taught(text: str, known: Mapping[str, tuple[str, ...]]) -> bool:
    """Whether lessons ask this (`questions`), or say nothing about what they ask."""
    return not known or any(as_in_lessons(text) in every for every in known.values())


def is_question(text: str) -> bool:
    """Whether it begins as a question does: "what is that", "Where's the cup?"; "cup?" alone is a name."""
    first = re.match(r"\W*(\w+)", text.lower())
    return first is not None and first[1] in QUESTIONS


def about_words(text: str, known: Mapping[str, int]) -> str:
    """What it knows about the names in the text; for a longer text without a name, the names it knows."""
    said = names_in(text, known)
    if said:
        examples = (f"“{name}” ({counted(known[name], 'example')})" for name in said[:LISTED])
        return f"It knows {joined(list(examples))}."
    if not known:
        return "It was taught no name yet."
    if len(text.split()) <= FEW_WORDS and not is_question(text):
        word = text.strip(" .,!?")
        near = get_close_matches(word, known, 1)
        hint = f"it knows “{near[0]}”" if near else "show it one and teach it"
        return f"It does not know “{word}”; {hint}."
    names = [f"“{name}”" for name in list(known)[:LISTED]]
    more = len(known) - len(names)
    listed = joined([*names, *([f"{more} more"] * (more > 0))])
    return f"It knows the {'name' if len(known) == 1 else 'names'} {listed}."


def seen(named: Named | None, gaze_deg: tuple[float, float] | None) -> str:
    """What it sees and where, from its own point of view."""
    if gaze_deg is None:
        return "It sees nothing just now."
    if named is not None and named.name:
        return f"It sees “{named.name}” {where(*gaze_deg)} ({percent(named.confidence)})."
    perhaps = f"; it may be “{named.nearest}”" if named is not None and named.confidence >= PERHAPS else ""
    return f"It cannot name what it looks at, {where(*gaze_deg)}{perhaps}."


def heard(named: Named | None) -> str:
    """What it hears; empty where no sound has a name."""
    return f"It hears “{named.name}” ({percent(named.confidence)})." if named is not None and named.name else ""


def where(pan_deg: float, tilt_deg: float) -> str:
    """A direction in words."""
    side = "" if abs(pan_deg) < AHEAD_DEG else "to its left" if pan_deg > 0 else "to its right"
    height = "" if abs(tilt_deg) < AHEAD_DEG else "above" if tilt_deg > 0 else "below"
    return " and ".join(part for part in (side, height) if part) or "straight ahead"


def joined(parts: list[str]) -> str:
    """'a', 'a and b', 'a, b and c'."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)


def percent(part: float) -> str:
    """'86 %', as the page writes it."""
    return f"{round(100 * part)} %"


def counted(number: int, what: str) -> str:
    """'1 example', '2 examples'."""
    return f"{number} {what}" if number == 1 else f"{number:,} {what}s"
