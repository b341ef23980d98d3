"""What is answered to words: the names in them that it knows, what it sees and hears just now, and what it cannot do.

An agent that was taught to write answers in its own words about what is in view, by the head that exams ask, and says
how sure it is. All else is put together here, of nothing but what memory and recognition say; it claims no
understanding.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches

from devmind.agent.agent import Agent
from devmind.agent.batch import collate
from devmind.agent.writing import answered
from devmind.errors import MomentError
from devmind.memory import Named
from devmind.moment import Moment, Sense

CANNOT = "It cannot talk yet, nor do what it is asked; names are all the words it learns today."
AHEAD_DEG = 8.0
LISTED = 6
LONGEST = 32
"""Bytes of what it writes."""
PAGE = "text"
FEW_WORDS = 3
PERHAPS = 0.1
"""A name that is less probable is no guess worth telling, here as on the page (`naming.js`)."""


def answer(
    text: str,
    known: Mapping[str, int],
    named: Mapping[str, Named],
    gaze_deg: tuple[float, float] | None,
    writes: bool = False,
) -> str:
    """Sentences for whoever said `text`.

    Args:
        known: names taught, with their numbers of examples.
        named: what is recognised just now, by sense.
        gaze_deg: pan (positive to its left) and tilt (positive upwards) of what it looks at; None when it sees nothing.
        writes: whether it has answered in its own words besides.
    """
    sentences = [about_words(text, known), seen(named.get("sight"), gaze_deg), heard(named.get("sound"))]
    return " ".join(sentence for sentence in [*sentences, "" if writes else CANNOT] if sentence)


def learned(name: str, frames: int, examples: int, unseen: str = "") -> str:
    """What was learned of a name that was just taught.

    Args:
        frames: pictures of it that were kept.
        examples: how often it was taught by now.
        unseen: why only a sound was kept, where a picture could have been meant; else ''.
    """
    if unseen:
        return f"It has learned only the sound of “{name}”. {unseen}"
    source = counted(frames, "picture") if frames > 1 else "one example" if examples == 1 else f"{examples:,} examples"
    return f"It has learned “{name}” from {source}."


def in_writing(agent: Agent, text: str, sight: Sense | None) -> tuple[str, float] | None:
    """What an agent writes behind a question about what it sees, and how sure it is of it.

    None where it was never taught to write or writes nothing, and where nothing, or more than a page, was said.
    """
    if PAGE not in agent.encoders or PAGE not in agent.heads or not text.strip():
        return None
    seen = {} if sight is None else {"sight": sight}
    try:
        (said,), (sure,) = answered(agent, collate([[Moment(0.0, {**seen, PAGE: text}, first=True)]]), LONGEST)
    except MomentError:
        return None
    return (said.strip(), sure) if said.strip() else None


def about_words(text: str, known: Mapping[str, int]) -> str:
    """Which names of `known` stand in the text as whole words, whatever their case."""
    said = [name for name in known if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE)]
    if said:
        examples = (f"“{name}” ({counted(known[name], 'example')})" for name in said[:LISTED])
        return f"It knows {joined(list(examples))}."
    if not known:
        return "It was taught no name yet."
    if len(text.split()) <= FEW_WORDS:
        word = text.strip(" .,!?")
        near = get_close_matches(word, known, 1)
        hint = f"it knows “{near[0]}”" if near else "show it one and teach it"
        return f"It does not know “{word}”; {hint}."
    names = [f"“{name}”" for name in list(known)[:LISTED]]
    more = len(known) - len(names)
    return (
        f"None of these words is a name it was taught; it knows {joined([*names, *([f'{more} more'] * (more > 0))])}."
    )


def seen(named: Named | None, gaze_deg: tuple[float, float] | None) -> str:
    """What it sees and where, from its own side."""
    if gaze_deg is None:
        return "It sees nothing just now."
    if named is not None and named.name:
        return f"It sees “{named.name}” {where(*gaze_deg)} ({percent(named.confidence)})."
    perhaps = f"; it may be “{named.nearest}”" if named is not None and named.confidence >= PERHAPS else ""
    return f"It cannot name what it looks at, {where(*gaze_deg)}{perhaps}."


def heard(named: Named | None) -> str:
    """What it hears; nothing where no sound has a name."""
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
