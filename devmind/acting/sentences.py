"""Forms of sentences that are the same in a life, in lessons and in exams."""

from __future__ import annotations

import re

QUESTIONS = frozenset(("what", "where", "who", "which", "how", "is", "are", "do", "does", "can"))
"""Words with which a question begins."""
FEW_WORDS = 3


def is_question(text: str) -> bool:
    """Whether it begins as a question does: "what is that", "Where's the cup?"; "cup?" alone is a name."""
    first = re.match(r"\W*(\w+)", text.lower())
    return first is not None and first[1] in QUESTIONS


def is_name(text: str) -> bool:
    """Whether it may be nothing but a name: a few words that are no question."""
    return len(text.split()) <= FEW_WORDS and not is_question(text)


def teaching(name: str) -> str:
    """The sentence that teaches a name: 'this is a zib.', or 'this is Tom.' for a name with a capital letter."""
    article = "" if name[:1].isupper() else "an " if name[:1] in "aeiou" else "a "
    return f"this is {article}{name}."
