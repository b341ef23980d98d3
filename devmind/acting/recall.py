"""Recall: from what is sensed to keys, from keys to memories, from memories to tokens of the trunk.

Lessons' rollouts, exams, sleep, the live loop and the replay check all recall in this way. A memory that holds an
example of a taught name comes back with that name as words, so a trunk that has learned to copy a recalled name can
copy the names that people taught.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import torch

from devmind.agent.agent import Agent
from devmind.agent.batch import RECALLED_BUDGET, Recall, collate_recalled, last_tick
from devmind.agent.describing import encoder_hashes
from devmind.agent.encoders import Encoded
from devmind.agent.taps import Percepts
from devmind.agent.text import from_bytes
from devmind.memory import Entry, Filters, Key, Memory
from devmind.memory.entry import BEFORE, LOOKED, VIEWS
from devmind.moment import Sense

SAID, PAGE = "words", "text"
"""The sense that says what a memory is of, and that of what is said to the agent."""


def payload(entry: Entry) -> dict[str, Sense]:
    """An entry's senses as they come back: of a longer sound the last tick, the name as words where none were heard.

    Of what a press stored besides, the look at the thing comes back as sight; the crop, further views and the scene
    before it only serve to tell names.
    """
    said = {} if entry.name is None or entry.senses.get(SAID) else {SAID: entry.name}
    senses = {sense: value for sense, value in entry.senses.items() if sense not in (VIEWS, BEFORE, LOOKED)}
    seen = {"sight": entry.senses[LOOKED]} if LOOKED in entry.senses else {}
    return {**last_tick(senses), **seen, **said}


def said_in(entry: Entry) -> str:
    """The words that an entry holds, such as a name that was heard; '' where there are none."""
    said = entry.senses.get(SAID, "")
    return said if isinstance(said, str) else ""


def as_recall(entry: Entry, now_s: float) -> Recall:
    """An entry as the agent gets it back, with its age in seconds."""
    return payload(entry), max(0.0, now_s - entry.time_s)


@torch.no_grad()
def recalled_tokens(agent: Agent, rows: Sequence[Sequence[Recall]]) -> Encoded | None:
    """Tokens [N, R, D] of what was recalled for N rows, for `Agent.step`; None where nothing was for any.

    Senses that this agent has no encoder for are left out.
    """
    known = set(agent.sense_order)
    kept = [[({s: v for s, v in senses.items() if s in known}, age_s) for senses, age_s in row] for row in rows]
    if not any(senses for row in kept for senses, _ in row):
        return None
    return agent.encode_recalled(collate_recalled(kept))


def keys_of(
    agent: Agent, percepts: Percepts, senses: Iterable[str], hashes: Mapping[str, str] | None = None
) -> list[dict[str, Key]]:
    """Each row's keys by sense: memory is asked with them, and a Moment is stored under them.

    Args:
        senses: which of those that are present may ask.
        hashes: `encoder_hashes(agent)`, where the caller has them: they take a while.
    """
    hashes = encoder_hashes(agent) if hashes is None else hashes
    wanted = set(senses)
    present, keys = percepts.batch["present"], percepts.keys
    return [
        {
            name: Key(key[row].cpu().numpy(), hashes[name])
            for name, key in keys.items()
            if name in wanted and bool(present[name][row, 0])
        }
        for row in range(len(percepts.batch["first"]))
    ]


def names_in(text: str, known: Iterable[str]) -> list[str]:
    """Names of `known` that stand in the text as whole words, whatever their case, in the order of `known`."""
    return [name for name in known if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE)]


def brought_back(
    memory: Memory,
    keys: Mapping[str, Key],
    said: str = "",
    budget: int = RECALLED_BUDGET,
    named: bool | None = None,
) -> list[Entry]:
    """At most `budget` memories: for each taught name in `said` its example most like what is sensed, then other
    memories, the most alike first; with `named` only examples of a name.
    """
    names = names_in(said, memory.index.update().known) if said else []
    meant = [entry for name in names for entry in memory.recall(keys, 1, Filters(name=name))][:budget]
    alike = memory.recall(keys, budget, Filters(named=named))
    return [*meant, *(entry for entry in alike if entry.id not in {one.id for one in meant})][:budget]


class OwnMemories:
    """Recall for N rows that have a memory each, for an Actor: called with the percepts of a tick, gives tokens.

    A name in what is said to a row, a page of text, brings back what was taught by it before all else.

    Args:
        memories: one for each row.
        senses: by which they are asked.
        hashes: `encoder_hashes(agent)`, where the caller has them: they take a while.
        named: only examples of a name come to mind.

    Attributes:
        entries: what came back last, by row.
    """

    def __init__(
        self,
        agent: Agent,
        memories: Sequence[Memory],
        senses: Iterable[str],
        hashes: Mapping[str, str] | None = None,
        named: bool | None = None,
    ) -> None:
        self.agent, self.memories, self.senses, self.named = agent, list(memories), tuple(senses), named
        self.hashes = encoder_hashes(agent) if hashes is None else hashes
        self.entries: list[list[Entry]] = [[] for _ in memories]

    def find(self, percepts: Percepts) -> list[list[Recall]]:
        """The memories nearest to what each row senses, with their ages by each memory's own clock."""
        keys, batch = keys_of(self.agent, percepts, self.senses, self.hashes), percepts.batch
        heard = [""] * len(keys)
        if PAGE in batch["senses"] and batch["senses"][PAGE].dtype == torch.uint8:
            pages, here = from_bytes(batch["senses"][PAGE][:, 0]), batch["present"][PAGE][:, 0].tolist()
            heard = [page if present else "" for page, present in zip(pages, here, strict=True)]
        self.entries = [
            brought_back(memory, own, said, named=self.named)
            for memory, own, said in zip(self.memories, keys, heard, strict=True)
        ]
        return [
            [as_recall(entry, memory.now_s) for entry in found]
            for memory, found in zip(self.memories, self.entries, strict=True)
        ]

    def __call__(self, percepts: Percepts) -> Encoded | None:
        """Tokens [N, R, D], or None where nothing came back."""
        return recalled_tokens(self.agent, self.find(percepts))
