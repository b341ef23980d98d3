"""Answers to words: the known names in them, what the agent now sees and hears, and what it cannot do.

They are built from the results of memory and recognition alone, and claim no understanding. What an agent says in words
of its own is an ability's (`devmind.acting.abilities`).
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from devmind.acting.sentences import FEW_WORDS, greeting, is_name, is_question, names_in
from devmind.memory import Named

CANNOT = "It cannot talk or follow instructions yet; it learns only names."
HELLO = "Hello."
HINT = "Hold up a thing and tell it “this is a cup”, or ask what it sees."
AHEAD_DEG = 8.0
LISTED = 6
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
    sensed, words = [say_seen(named.get("sight"), gaze_deg), say_heard(named.get("sound"))], about_words(text, known)
    is_about_names = is_name(text) or names_in(text, known)
    # "what do you see?" asks about no name
    sentences = [words, *sensed] if is_about_names else [why, *sensed, words]
    sentences = [HELLO * greeted, *sentences, CANNOT * (remarks and not writes)]
    return " ".join(sentence for sentence in sentences if sentence)


def say_learned(name: str, frames: int, examples: int, unseen: str = "") -> str:
    """What was learned about a name that was just taught.

    Args:
        frames: number of pictures that were kept.
        examples: how often it has been taught so far.
        unseen: why only a sound was kept, where a picture could have been meant; else ''.
    """
    if unseen:
        return f"It has learned only the sound of “{name}”. {unseen}"
    source = count_of(frames, "picture") if frames > 1 else "one example" if examples == 1 else f"{examples:,} examples"
    return f"It has learned “{name}” from {source}."


def about_words(text: str, known: Mapping[str, int]) -> str:
    """What it knows about the names in the text; for a longer text without a name, the names it knows."""
    said = names_in(text, known)
    if said:
        examples = (f"“{name}” ({count_of(known[name], 'example')})" for name in said[:LISTED])
        return f"It knows {join_words(list(examples))}."
    if not known:
        return "It was taught no name yet."
    if len(text.split()) <= FEW_WORDS and not is_question(text):
        word = text.strip(" .,!?")
        near = get_close_matches(word, known, 1)
        hint = f"it knows “{near[0]}”" if near else "show it one and teach it"
        return f"It does not know “{word}”; {hint}."
    names = [f"“{name}”" for name in list(known)[:LISTED]]
    more = len(known) - len(names)
    listed = join_words([*names, *([f"{more} more"] * (more > 0))])
    return f"It knows the {'name' if len(known) == 1 else 'names'} {listed}."


def say_seen(named: Named | None, gaze_deg: tuple[float, float] | None) -> str:
    """What it sees and where, from its own point of view."""
    if gaze_deg is None:
        return "It sees nothing just now."
    if named is not None and named.name:
        return f"It sees “{named.name}” {where(*gaze_deg)} ({percent(named.confidence)})."
    perhaps = f"; it may be “{named.nearest}”" if named is not None and named.confidence >= PERHAPS else ""
    return f"It cannot name what it looks at, {where(*gaze_deg)}{perhaps}."


def say_heard(named: Named | None) -> str:
    """What it hears; empty where no sound has a name."""
    return f"It hears “{named.name}” ({percent(named.confidence)})." if named is not None and named.name else ""


def where(pan_deg: float, tilt_deg: float) -> str:
    """A direction in words."""
    side = "" if abs(pan_deg) < AHEAD_DEG else "to its left" if pan_deg > 0 else "to its right"
    height = "" if abs(tilt_deg) < AHEAD_DEG else "above" if tilt_deg > 0 else "below"
    return " and ".join(part for part in (side, height) if part) or "straight ahead"


def join_words(parts: list[str]) -> str:
    """'a', 'a and b', 'a, b and c'."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)


def percent(part: float) -> str:
    """'86 %', as the page writes it."""
    return f"{round(100 * part)} %"


def count_of(number: int, what: str) -> str:
    """'1 example', '2 examples'."""
    return f"{number} {what}" if number == 1 else f"{number:,} {what}s"
