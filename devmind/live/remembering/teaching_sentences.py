"""Sentences that teach a name: text typed to the agent (or turned into text from speech), and the name in it.

    sentence = {opening} (pointing | naming) ["." | "!"]
    opening  = "no," "yes," "look," "well," "hey," "oh," "ok," "and" …
    pointing = ("this is" | "that is" | "it is" | "that's" …) (article name | Name | known name)
             | ("these are" | "those are" | "they are" …) [article] name
    naming   = ("this is" | "it is" | "these are" …) ("called" | "named") [article] name
             | ("its" | "his" | "her" | "their" | "the") "name" ["of this" …] "is" [article] name
             | ("I" | "we" | "you" | "people") "call" ("this" | "that" | "it" | "them" …) [article] name
    article  = "a" "an" "the" "some" "my" "your" "our" "his" "her" "their", not part of the name

Case matters only in a Name: without an article only a capital letter tells "this is Tom" from "this is nice".
A name may have several words and stand in quotes. A question is never a teaching sentence, nor is "this is not a cup".
The grammar only matches forms and understands nothing: "this is a pity" teaches "pity" if something is held up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from devmind.errors import StoreError
from devmind.live.remembering.show_and_tell import proper_name

ARTICLES = frozenset(("a", "an", "the", "some", "my", "your", "our", "his", "her", "their"))
NO_NAMES = frozenset(
    ("not", "no", "never", "neither", "what", "why", "how", "where", "when", "who", "whose", "which", "because", "if")
)
"""A rest that begins with one of these says something else about the thing."""
SHORT_WORDS = 3
"""A longer rest of "this is …" without an article is not taken as an attempt to teach."""
QUOTES = "\"'“”‘’«»„"
_OPENING = re.compile(r"^(?:(?:no|yes|look|well|hey|oh|ok|okay|and)\b[\s,:;.!–-]*)+", re.IGNORECASE)
_ONE, _MANY = r"(?:this|that|it)(?:\s+one)?(?:\s+is|['’]?s)", r"(?:these|those|they)(?:\s+ones)?(?:\s+are|['’]re)"
_THING = r"(?:this|that|it|these|those|them)"
_NAMING = tuple(
    re.compile(rf"{form}\b\s*(?P<name>.*)", re.IGNORECASE | re.DOTALL)
    for form in (
        rf"(?:{_ONE}|{_MANY})\s+(?:called|named)",
        rf"(?:it['’]?s|his|her|their|the)\s+names?(?:\s+of\s+{_THING})?\s+(?:is|are)",
        rf"(?:i|we|you|people)\s+call\s+{_THING}",
    )
)
_POINTING = re.compile(rf"(?:{_ONE}|(?P<many>{_MANY}))\b\s*(?P<name>.*)", re.IGNORECASE | re.DOTALL)


def name_in(sentence: str, known: Iterable[str] = ()) -> str | None:
    """The name that a teaching sentence gives to what is shown; None for any other sentence.

    Args:
        known: taught names: one of them in another case is that name.

    Raises:
        StoreError: it is a teaching sentence without a usable name (none, over 64 bytes, several clauses), or its last
            word may not be meant as a name, as in "this is nice".
    """
    text = sentence.strip()
    if "?" in text:
        return None
    text = _OPENING.sub("", text, count=1)
    naming = next((found for form in _NAMING if (found := form.fullmatch(text))), None)
    found = naming or _POINTING.fullmatch(text)
    if found is None:
        return None
    words = found["name"].rstrip(" \t\n.!…").split()
    if words and words[0].lower() in NO_NAMES:
        return None
    has_article = bool(words) and words[0].lower() in ARTICLES
    name = " ".join(words[1:] if has_article else words).strip(QUOTES + " .!…")
    same = {one.casefold(): one for one in known}
    if name.casefold() in same:
        return same[name.casefold()]
    if naming is None and not (has_article or found["many"] or name[:1].isupper() or not name):
        if len(words) > SHORT_WORDS:
            return None
        raise StoreError(f"If “{name}” is its name, say “it is called {name}”.")
    if re.search(r"[,;:!]|\.\s", name):
        raise StoreError(f"One sentence teaches one name, as “this is a cup” does; “{name[:40]}” is more than a name.")
    return proper_name(name)


def name_in_reply(reply: str, known: Iterable[str] = ()) -> str:
    """The name in an answer to "What is that?": in a teaching sentence, or alone, with or without an article.

    Raises:
        StoreError: it is neither.
    """
    name = name_in(reply, known) or name_in(f"it is called {reply}", known)
    if name is None:
        raise StoreError(f"“{reply.strip()[:40]}” is no name; say what it is, as “cup” or “this is a cup”.")
    return name


def is_short_reply(text: str) -> bool:
    """Whether it may answer a question without a sentence, as "a cup" and "my red cup" do; a name alone may be talk."""
    words = text.split()
    return 1 < len(words) <= SHORT_WORDS and words[0].lower() in ARTICLES and "?" not in text
