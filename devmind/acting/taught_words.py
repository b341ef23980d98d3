"""Words taught once, by one look: what memory keeps of them, and how they are said and found later.

The exam of new words and the page of a life share this code. A look at the thing, and the sentence that named it, are
kept under the name. A question is put to an agent in a fresh state, with what its memory brings back. The head
`recognised` says which memory is of what is looked at; where none is likely, the agent has no word for it and asks by
itself. The head `sought` says in which cell of the picture the thing lies that the question names. This file does not
know which stage adds these heads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from devmind.acting.actor import Actor
from devmind.acting.recall import PAGE, OwnMemories
from devmind.agent.agent import Agent
from devmind.agent.batch import collate_tick
from devmind.memory import Entry, Memory
from devmind.moment import Sense

SIGHT = "sight"
RECOGNISED, SOUGHT = "recognised", "sought"
WHAT = "what is that?"
DOUBT = 0.5
"""From here on it is unsure what a thing is called."""


class TaughtAnswer(NamedTuple):
    """What N rows answer by words that were taught once.

    Attributes:
        words: the word of the memory that is of what is looked at, '' where none is.
        sure: the probability of that, float64 [N].
        cells: the likeliest cell of the picture, counted row by row, int64 [N].
        cells_sure: the probability of that cell, float64 [N].
        nearest: the likeliest word whether or not it is said, '' where no word came to mind.
        doubt: the probability that this word is not that of what is looked at, float64 [N].
    """

    words: list[str]
    sure: np.ndarray
    cells: np.ndarray
    cells_sure: np.ndarray
    nearest: list[str]
    doubt: np.ndarray

    @property
    def asks(self) -> np.ndarray:
        """Whether it asks by itself what it looks at: no word is more likely right than wrong, bool [N]."""
        return self.doubt > DOUBT


def teaching(name: str) -> str:
    """What is said while a thing is shown: 'this is a zib.'; of a name with a capital letter 'this is Tom.'"""
    article = "" if name[:1].isupper() else "an " if name[:1] in "aeiou" else "a "
    return f"this is {article}{name}."


def where(name: str) -> str:
    """How it is asked for: 'where is the zib?'"""
    return f"where is the {name}?"


def look(sight: Sense, name: str) -> dict[str, Sense]:
    """What is kept of one look at a thing that was named, by sense."""
    return {SIGHT: sight, PAGE: teaching(name)}


def answers_by_looks(agent: Agent) -> bool:
    """Whether it has the heads, and the senses that they are asked by."""
    return {RECOGNISED, SOUGHT} <= set(agent.heads) and {SIGHT, PAGE} <= set(agent.encoders)


def memories_of(agent: Agent, memories: Sequence[Memory], hashes: Mapping[str, str] | None = None) -> OwnMemories:
    """What comes to mind of words that were taught: examples of a name alone, by what is seen."""
    return OwnMemories(agent, memories, (SIGHT,), hashes, named=True)


def ask(agent: Agent, recall: OwnMemories | None, sight: np.ndarray, said: Sequence[str]) -> TaughtAnswer:
    """Ask N rows that begin here.

    Args:
        recall: of `memories_of`; None: nothing comes to mind.
        sight: uint8 [N, 64, 64, 3].
        said: the question of each.
    """
    actor = Actor(agent, len(said), effectors=(), heads=(RECOGNISED, SOUGHT), recall=recall)
    outputs: Any = actor.act(collate_tick({SIGHT: sight, PAGE: list(said)}, np.ones(len(said), bool))).outputs
    shares = outputs[RECOGNISED].logits.double().softmax(-1).cpu().numpy()
    entries = recall.entries if recall is not None else [[] for _ in said]
    told = [_words(row, found) for row, found in zip(shares, entries, strict=True)]
    words, nearest = ([_likeliest(of) for of in each] for each in (told, [_named(of) for of in told]))
    cells = outputs[SOUGHT].logits.double().softmax(-1).cpu()
    likeliest = torch.max(cells, -1)
    return TaughtAnswer(
        [word for word, _ in words],
        np.array([sure for _, sure in words]),
        likeliest.indices.numpy(),
        likeliest.values.numpy(),
        [word for word, _ in nearest],
        np.array([1.0 - share for _, share in nearest]),
    )


def _words(shares: np.ndarray, entries: Sequence[Entry]) -> dict[str, float]:
    """The probability of each word by those [R + 1] of memories, the last of which is none ('' here): memories of one
    word add up.
    """
    of = {"": float(shares[-1])}
    for entry, share in zip(entries, shares, strict=False):
        of[entry.name or ""] = of.get(entry.name or "", 0.0) + float(share)
    return of


def _named(of: Mapping[str, float]) -> dict[str, float]:
    return {word: share for word, share in of.items() if word}


def _likeliest(of: Mapping[str, float]) -> tuple[str, float]:
    """The likeliest word and its probability; '' and 0 of none."""
    word = max(of, key=of.__getitem__, default="")
    return word, of.get(word, 0.0)
