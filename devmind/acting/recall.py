"""Recall: from senses to keys, from keys to memories, and from memories to tokens of the trunk.

The rollouts of lessons, exams, sleep, the live loop and the replay check all recall in this way. An example of a taught
name is recalled with that name as words. So a trunk that has learned to copy recalled names can copy those that people
taught.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch

from devmind.acting.sentences import names_in
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
"""The sense with the words of a memory, and the sense with what is said to the agent."""


def payload(entry: Entry) -> dict[str, Sense]:
    """An entry's senses as they are recalled: as `last_tick` has them, and the name as words if none were heard.

    If the entry holds the look at a thing that was named by a press, that picture is the sight. The crop, the further
    views and the scene before the press serve only naming.
    """
    name_words = {} if entry.name is None or entry.senses.get(SAID) else {SAID: entry.name}
    senses = {sense: value for sense, value in entry.senses.items() if sense not in (VIEWS, BEFORE, LOOKED)}
    seen = {"sight": entry.senses[LOOKED]} if LOOKED in entry.senses else {}
    return {**last_tick({**senses, **seen}), **name_words}


def said_in(entry: Entry) -> str:
    """The words in an entry, such as a name that was heard; '' if there are none."""
    words = entry.senses.get(SAID, "")
    return words if isinstance(words, str) else ""


def as_recall(entry: Entry, now_s: float) -> Recall:
    """An entry as it is recalled, with its age in seconds."""
    return payload(entry), max(0.0, now_s - entry.time_s)


@torch.no_grad()
def recalled_tokens(agent: Agent, rows: Sequence[Sequence[Recall]]) -> Encoded | None:
    """Tokens [N, R, D] of the recalled entries of N rows, for `Agent.step`; None if no row has any.

    Senses without an encoder are left out.
    """
    known = set(agent.sense_order)
    encodable = [[({s: v for s, v in senses.items() if s in known}, age_s) for senses, age_s in row] for row in rows]
    if not any(senses for row in encodable for senses, _ in row):
        return None
    return agent.encode_recalled(collate_recalled(encodable))


def keys_of(
    agent: Agent, percepts: Percepts, senses: Iterable[str], hashes: Mapping[str, str] | None = None
) -> list[dict[str, Key]]:
    """The keys of each row by sense, with which memory is searched and Moments are stored.

    Args:
        senses: the senses to use; absent ones are left out.
        hashes: `encoder_hashes(agent)`, if the caller has them already, since they take a while.
    """
    hashes = encoder_hashes(agent) if hashes is None else hashes
    chosen = set(senses)
    present, keys = percepts.batch["present"], percepts.keys
    return [
        {
            name: Key(key[row].cpu().numpy(), hashes[name])
            for name, key in keys.items()
            if name in chosen and bool(present[name][row, 0])
        }
        for row in range(len(percepts.batch["first"]))
    ]


def brought_back(
    memory: Memory,
    keys: Mapping[str, Key],
    said: str = "",
    budget: int = RECALLED_BUDGET,
    named: bool | None = None,
) -> list[Entry]:
    """The recalled entries, at most `budget`.

    First comes, for each taught name in `said`, its example that is most similar to what is sensed; then all others,
    the most similar first.

    Args:
        named: True: only examples of a name; False: only entries without one; None: both.
    """
    names = names_in(said, memory.index.update().known) if said else []
    meant = [entry for name in names for entry in memory.recall(keys, 1, Filters(name=name))][:budget]
    alike = memory.recall(keys, budget, Filters(named=named))
    return [*meant, *(entry for entry in alike if entry.id not in {one.id for one in meant})][:budget]


class OwnMemories:
    """Recall of an Actor with N rows that have a memory each: called with the percepts of a tick, it gives tokens.

    If a page of text names a taught thing, its example is recalled first.

    Args:
        memories: one for each row.
        senses: the senses with which memory is searched.
        hashes: `encoder_hashes(agent)`, if the caller has them already, since they take a while.
        named: as for `brought_back`.

    Attributes:
        entries: by row, what was recalled last.
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
        """The recalled memories of each row, with their ages by each memory's own clock."""
        keys, batch = keys_of(self.agent, percepts, self.senses, self.hashes), percepts.batch
        heard = [""] * len(keys)
        if PAGE in batch["senses"] and batch["senses"][PAGE].dtype == torch.uint8:
            pages, has_page = from_bytes(batch["senses"][PAGE][:, 0]), batch["present"][PAGE][:, 0].tolist()
            heard = [page if present else "" for page, present in zip(pages, has_page, strict=True)]
        self.entries = [
            brought_back(memory, own, page_text, named=self.named)
            for memory, own, page_text in zip(self.memories, keys, heard, strict=True)
        ]
        return [
            [as_recall(entry, memory.now_s) for entry in row_entries]
            for memory, row_entries in zip(self.memories, self.entries, strict=True)
        ]

    def __call__(self, percepts: Percepts) -> Encoded | None:
        """Tokens [N, R, D], or None if nothing was recalled."""
        return recalled_tokens(self.agent, self.find(percepts))
