"""Forms of sentences, in a life, in lessons and in exams; what a stage takes is built by `request`.

Text typed to the agent, or turned into text from speech, teaches a name in these forms:

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
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from devmind.errors import StoreError
from devmind.memory.names import proper_name

QUESTIONS = frozenset(("what", "where", "who", "which", "how", "is", "are", "do", "does", "can"))
"""Words with which a question begins."""
FEW_WORDS = 3
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
_GREETING = re.compile(
    r"^\W*(?:hello|hallo|hullo|hi|hiya|hey|howdy|welcome|greetings|good (?:morning|afternoon|evening|day))\b"
    r"(?:\s+(?:there|you|again|everyone|baby|little one|devmind))*\b[\s,.;:!-]*",
    re.IGNORECASE,
)
_ASKING = r"\W*(?:(?:and|so|now|well|then|hey|look|ok|okay)\b\W*)*(?:(?:can|could|would) you |please )*"


def request(words: str) -> re.Pattern[str]:
    """The pattern of a request or question: these words, perhaps behind "and now", "could you" or "please"."""
    return re.compile(rf"{_ASKING}(?:{words})", re.IGNORECASE)


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


def names_in(text: str, known: Iterable[str]) -> list[str]:
    """Names of `known` that are in the text as whole words, in any case, in the order of the text.

    Words that stand in a longer name do not count: "where is the red cup?" has no "cup" if "red cup" is known.
    """
    found = dict[str, list[tuple[int, int]]]()
    for name in known:
        if places := [one.span() for one in re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE)]:
            found[name] = places
    every = [place for places in found.values() for place in places]

    def stands_alone(begin: int, end: int) -> bool:
        return not any(b <= begin and end <= e and e - b > end - begin for b, e in every)

    begins = {name: [place[0] for place in places if stands_alone(*place)] for name, places in found.items()}
    return sorted((name for name, alone in begins.items() if alone), key=lambda name: begins[name][0])


def greeting(text: str, known: Mapping[str, int] = MappingProxyType({})) -> tuple[bool, str]:
    """Whether a text begins with a greeting, and what stands behind it; a name that was taught is none."""
    found = _GREETING.match(text)
    if found is None or names_in(text[: found.end()], known):
        return False, text
    return True, text[found.end() :]


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
