"""Words taught once, by one look: what memory stores of them, and how they are said and found later.

The exam of new words and the live page share this code. Memory stores a look at the thing and the sentence that named
it, under the name. A question is put to an agent with an empty state and its recalled memories. The head `recognised`
says which memory shows the thing in view; if none is likely, the agent has no word for it and asks. The head `sought`
says in which cell of the picture the named thing is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from devmind.acting.actor import Actor
from devmind.acting.recall import OwnMemories
from devmind.acting.sentences import teaching
from devmind.agent.agent import Agent
from devmind.agent.batch import collate_tick
from devmind.memory import Entry, Memory
from devmind.moment import Sense
from stages.language.parts import RECOGNISED, SIGHT, SOUGHT, TEXT

WHAT = "what is that?"
DOUBT = 0.5
"""The agent asks for a thing's name if its doubt is above this probability."""


class NewWordAnswer(NamedTuple):
    """Answers of N rows with words that were taught once.

    Attributes:
        words: the most likely word for the thing in view, '' if "no word" is more likely.
        sure: its probability, float64 [N].
        cells: the most likely cell of the picture, counted row by row, int64 [N].
        cells_sure: its probability, float64 [N].
        nearest: the most likely word, even if "no word" is more likely; '' if no word was recalled.
        doubt: the probability that `nearest` is wrong, float64 [N].
    """

    words: list[str]
    sure: np.ndarray
    cells: np.ndarray
    cells_sure: np.ndarray
    nearest: list[str]
    doubt: np.ndarray

    @property
    def asks(self) -> np.ndarray:
        """Whether the agent asks what the thing in view is: no word is more likely right than wrong, bool [N]."""
        return self.doubt > DOUBT


def where(name: str) -> str:
    """The question for a thing's place: 'where is the zib?'"""
    return f"where is the {name}?"


def look(sight: Sense, name: str) -> dict[str, Sense]:
    """The senses that memory stores of one look at a named thing."""
    return {SIGHT: sight, TEXT: teaching(name)}


def answers_by_looks(agent: Agent) -> bool:
    """Whether the agent has the two heads and the senses that they need."""
    return {RECOGNISED, SOUGHT} <= set(agent.heads) and {SIGHT, TEXT} <= set(agent.encoders)


def memories_of(agent: Agent, memories: Sequence[Memory], hashes: Mapping[str, str] | None = None) -> OwnMemories:
    """Recall of taught words: only examples of a name, searched by sight."""
    return OwnMemories(agent, memories, (SIGHT,), hashes, named=True)


def ask(agent: Agent, recall: OwnMemories | None, sight: np.ndarray, said: Sequence[str]) -> NewWordAnswer:
    """Ask the agent N questions, each with an empty state.

    Args:
        recall: from `memories_of`; None: nothing is recalled.
        sight: uint8 [N, 64, 64, 3].
        said: the question of each row.
    """
    actor = Actor(agent, len(said), effectors=(), heads=(RECOGNISED, SOUGHT), recall=recall)
    outputs: Any = actor.act(collate_tick({SIGHT: sight, TEXT: list(said)}, np.ones(len(said), bool))).outputs
    shares = outputs[RECOGNISED].logits.double().softmax(-1).cpu().numpy()
    entries = recall.entries if recall is not None else [[] for _ in said]
    word_shares = [_words(row, found) for row, found in zip(shares, entries, strict=True)]
    words, nearest = ([_likeliest(of) for of in each] for each in (word_shares, [_named(of) for of in word_shares]))
    cells = outputs[SOUGHT].logits.double().softmax(-1).cpu()
    likeliest = torch.max(cells, -1)
    return NewWordAnswer(
        [word for word, _ in words],
        np.array([sure for _, sure in words]),
        likeliest.indices.numpy(),
        likeliest.values.numpy(),
        [word for word, _ in nearest],
        np.array([1.0 - share for _, share in nearest]),
    )


def _words(shares: np.ndarray, entries: Sequence[Entry]) -> dict[str, float]:
    """Probabilities by word, from those [R + 1] of memories, the last of which is none ('' here).

    Memories of the same word add up.
    """
    of = {"": float(shares[-1])}
    for entry, share in zip(entries, shares, strict=False):
        of[entry.name or ""] = of.get(entry.name or "", 0.0) + float(share)
    return of


def _named(of: Mapping[str, float]) -> dict[str, float]:
    return {word: share for word, share in of.items() if word}


def _likeliest(of: Mapping[str, float]) -> tuple[str, float]:
    """The most likely word and its probability; '' and 0 if there is no word."""
    word = max(of, key=of.__getitem__, default="")
    return word, of.get(word, 0.0)
