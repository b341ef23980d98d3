"""Scanner for plan files: text to words, numbers, quoted texts and signs, each with its place."""

from __future__ import annotations

import re
from dataclasses import dataclass

from stages.reasoning.procedures.plans import Place
from stages.reasoning.procedures.terms import PlanError

_TOKEN = re.compile(
    r"""(?P<blank>[ \t\r\n]+|\#[^\n]*)
    | (?P<number>\d+\.\d+|\d+)
    | (?P<word>[a-z]\w*)
    | (?P<variable>[A-Z_]\w*)
    | (?P<text>"[^"\n]*")
    | (?P<sign><=|>=|!=|->|[-+*/=<>(){}\[\],])""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Token:
    """One word, number, text or sign; `kind` is the group of the pattern, or 'end' after the last one."""

    kind: str
    text: str
    place: Place


def tokens_of(text: str, file: str) -> list[Token]:
    """The tokens of a text, the end included.

    Raises:
        PlanError: a sign is unknown; the sentence gives `file`, line and column.
    """
    tokens, at, line, begins = [], 0, 1, 0
    while at < len(text):
        place = Place(file, line, at - begins + 1)
        match = _TOKEN.match(text, at)
        if match is None:
            what = "a closing '\"' on the same line" if text[at] == '"' else "a word, a number, a text or an operator"
            raise PlanError(f"{place}: expected {what}; got {text[at : at + 20].splitlines()[0]!r}.")
        if match.lastgroup != "blank":
            tokens.append(Token(str(match.lastgroup), match[0], place))
        newlines = match[0].count("\n")
        if newlines:
            line += newlines
            begins = at + match[0].rindex("\n") + 1
        at = match.end()
    return [*tokens, Token("end", "the end of the file", Place(file, line, at - begins + 1))]
