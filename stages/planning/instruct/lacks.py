"""What an instructed agent would have to be told first: what a word means, or where a thing is."""

from __future__ import annotations

from collections.abc import Iterator

from devmind.agent.plans import Lack
from stages.planning.instruct import symbols
from stages.planning.instruct.controller import Errand

ARTICLES = ("a", "an", "the")
LOOKS_S = 1.0
"""Seconds for which the agent looks for a thing before it asks where one is."""


def of_word(page: str, word: str) -> Lack:
    """The meaning of a word of the page; the answer takes the word's place."""
    return Lack(f"What is '{word}'?", lambda answer: " ".join(_in_place(page, word, answer.strip())))


def of_place(errand: Errand) -> Lack | None:
    """Where the thing of the next subgoal is, None if that is known; the answer is done first, then the plan's rest."""
    goal = errand.lacks
    if goal is None:
        return None
    held = goal.verb == symbols.DROP_NEXT_TO and errand.at > 0
    left = symbols.as_instruction(errand.plan[errand.at - held :])
    looks_s, looked = (0.0, "I have looked wherever I can come to") if errand.stuck else (LOOKS_S, "I look for one")
    question = f"Where is a {goal.kind}? {looked}."
    return Lack(question, lambda answer: f"{answer.strip(' .')}, then {left}", looks_s)


def _in_place(page: str, word: str, answer: str) -> Iterator[str]:
    """The words of a page, with an answer in place of one word, and of its article if the answer has its own."""
    said = page.split(" ")
    for number, one in enumerate(said):
        after = said[number + 1].strip(",.") if number + 1 < len(said) else ""
        if one.strip(",.") == word:
            yield answer + one[len(one.rstrip(",.")) :]
        elif not (after == word and one in ARTICLES and answer.split(" ", maxsplit=1)[0] in ARTICLES):
            yield one
