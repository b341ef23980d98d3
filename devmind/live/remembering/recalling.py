"""Recalling while living: memories like this Moment, and the choice of Moments to keep. Never in the loop's thread.

The loop hands over each Moment and takes the latest result, about a tick later. A Moment that comes during a recall
replaces the one that waits. Results are encoded here too, so the loop only passes tokens on. Other weights make other
tokens: `changed` drops everything encoded before.

A Moment is kept when nothing like it is remembered (its nearest memory's cosine is below 1 - novelty), and its
importance is that novelty. After a while a Moment is kept anyway, so that a quiet hour leaves traces too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from devmind.acting.recall import as_recall, recalled_tokens, said_in
from devmind.agent.agent import Agent
from devmind.agent.encoders import Encoded
from devmind.agent.pointing import Pointed
from devmind.agent.threads import stepping_threads
from devmind.config import MemoryConfig
from devmind.live.remembering.show_and_tell import ShowAndTell
from devmind.memory import Entry, Filters, Key, Pointer, Weights
from devmind.memory.scoring import passing
from devmind.moment import Moment
from devmind.worker import Worker

KEPT = ("sight", "sound", "words", "body")
"""The senses of a Moment that are kept; change in the wide view means little later."""
STAGE = "memory"
"""Agents that have been admitted to this stage have learned to use recalled entries."""
WRITE_DOWN_S = 10.0
STALE_S = 1.0
"""Older results belong to another situation."""


@dataclass(frozen=True)
class Recalled:
    """The result of a recall for a Moment.

    Attributes:
        entries: with scores, the highest first; ages_s: age of each at that time, in seconds.
        tokens: for `Agent.step`; None where the agent does not use them.
        moment_s: time of the Moment, on the room's clock.
        by: the agent that made the tokens.
    """

    entries: tuple[Entry, ...]
    ages_s: tuple[float, ...]
    tokens: Encoded | None
    moment_s: float
    by: Agent | None = None

    def note(self) -> dict[str, Any]:
        """What a recording keeps of it, so that a check can step with it again."""
        return {"ids": [entry.id for entry in self.entries], "ages_s": list(self.ages_s)}

    def shown(self) -> list[dict[str, Any]]:
        """What the page highlights."""
        return [
            {"id": entry.id, "name": entry.name or "", "time_s": entry.time_s, "score": round(entry.score or 0.0, 3)}
            for entry in self.entries
        ]

    def pointed_note(self, pointed: Pointed) -> dict[str, Any]:
        """What a recording keeps of the memory pointed at: a number, never a name."""
        entry = self._pointed(pointed)
        return {"id": entry and entry.id, "share": pointed.share}

    def pointed_shown(self, pointed: Pointed) -> dict[str, Any]:
        """What the page shows of it: the memory, None for none; its name, '' without one; the probability."""
        entry = self._pointed(pointed)
        name = "" if entry is None else entry.name or said_in(entry)
        return {"id": entry and entry.id, "name": name, "share": round(pointed.share, 3)}

    def _pointed(self, pointed: Pointed) -> Entry | None:
        """The memory of a token: tokens are in the order of the entries."""
        return None if pointed.at is None else self.entries[pointed.at]


class Recalling(Worker[Moment]):
    """Only its thread waits for memory's disk.

    Args:
        child: describes, and holds the memory.
        config: weights of the score, the number of entries, and when to keep a Moment.
        keeps: whether Moments may be kept now: nothing from a camera reaches a disk without a request.
        recorded: where the Moments between two times were recorded, if they were; it may wait for the disk.
        clock: seconds since 1970, as the memory's.

    Attributes:
        written: number of Moments kept so far.
    """

    failed = "Recalling failed ({kind}: {error}); it goes on with the next Moment. Please report it."

    def __init__(
        self,
        child: ShowAndTell,
        config: MemoryConfig,
        keeps: Callable[[], bool],
        clock: Callable[[], float] = time.time,
        recorded: Callable[[float, float], Pointer | None] = lambda since_s, until_s: None,
    ) -> None:
        super().__init__("recalling", idle_s=WRITE_DOWN_S)
        self.child, self.config, self.written = child, config, 0
        self._keeps, self._recorded, self._clock = keeps, recorded, clock
        self._weights = Weights(config.relevance, config.recency, config.importance, config.half_life_h)
        self._found: Recalled | None = None
        self._generation = 0
        self._kept_at_s, self._written_at_s, self._last_ids = -float("inf"), 0.0, frozenset[int]()
        # Both are tried only now and then: their faults stay until they succeed, or nobody could read them.
        self._unkept = self._unwritten = ""

    # -- in the loop's thread ------------------------------------------------------------------------------------

    def take(self, now_s: float) -> Recalled | None:
        """The latest result, if it is not stale at `now_s` on the room's clock; returns at once."""
        recalled = self._found
        return recalled if recalled and recalled.entries and now_s - recalled.moment_s <= STALE_S else None

    def latest(self) -> Recalled | None:
        """The latest result, however old; from any thread."""
        return self._found

    def changed(self) -> None:
        """Other weights act from here on."""
        with self._wake:
            self._generation, self._found = self._generation + 1, None

    # -- in its own thread ---------------------------------------------------------------------------------------

    def _run(self) -> None:
        with stepping_threads():
            super()._run()
            self._written_at_s = float("-inf")  # what is left is written down at the end
            self.idle()

    def work(self, item: Moment) -> None:
        failed = ""
        try:
            self._ask(item)
        except Exception as error:  # catch everything: what is kept is written down all the same
            failed = self.complaint(error)
        self._write_down()
        self.fault = failed or self._unkept or self._unwritten

    def idle(self) -> None:
        self._write_down()
        self.fault = self._unkept or self._unwritten

    def _ask(self, moment: Moment) -> None:
        generation = self._generation
        agent, keys = self.child.agent, self._keys(moment)
        if not keys:
            return
        assert isinstance(agent, Agent), "recalled entries are used in a step, which needs a whole agent"
        memory = self.child.memory
        table = memory.index.update()
        due_s = abs(self._clock() - self._kept_at_s)  # also after the clock was set back
        keeps = self._keeps()
        self._unkept = self._unkept if keeps else ""
        relevance = table.relevance(keys) if keeps and due_s >= self.config.shortest_s else None
        if self.config.recalled:
            scores = memory.nearest(table, keys, self.config.recalled, Filters(), self._weights)
            self._publish(moment, agent, memory.get(scores), scores, generation)
        if relevance is not None:
            likest = float(relevance[passing(table, Filters())].max(initial=-1.0))
            self._keep(moment, keys, max(0.0, 1 - likest), due_s)

    def _keys(self, moment: Moment) -> dict[str, Key]:
        found = self.child.describe({sense: moment.senses[sense] for sense in KEPT if sense in moment.senses})
        return {sense: Key(key.vector, key.encoder) for sense, key in found.items()}  # features are for names

    def _publish(
        self, moment: Moment, agent: Agent, entries: list[Entry], scores: Mapping[int, float], generation: int
    ) -> None:
        now_s = self._clock()
        entries = [replace(entry, score=scores[entry.id]) for entry in entries if entry.senses]
        ages_s = tuple(max(0.0, now_s - entry.time_s) for entry in entries)
        tokens = None
        if entries and (self.config.use == "always" or STAGE in agent.config.stages):
            tokens = recalled_tokens(agent, [[as_recall(entry, now_s) for entry in entries]])
        found = Recalled(tuple(entries), ages_s, tokens, moment.time_s, agent)
        with self._wake:
            if generation == self._generation:
                self._found = found
        ids = frozenset(entry.id for entry in entries)
        self.child.memory.count(ids - self._last_ids)  # an entry that stays in mind is counted once
        self._last_ids = ids

    def _keep(self, moment: Moment, keys: Mapping[str, Key], novelty: float, due_s: float) -> None:
        longest_s = self.config.longest_s
        if novelty < self.config.novelty and not (longest_s is not None and due_s >= longest_s):
            return
        kept = {sense: moment.senses[sense] for sense in KEPT if sense in moment.senses}
        self._kept_at_s = self._clock()  # set when refused too: not every tick shall try again
        try:
            pointer = self._recorded(moment.time_s, moment.time_s)
            self.child.memory.write(Moment(moment.time_s, kept), keys, importance=min(1.0, novelty), pointer=pointer)
        except Exception as error:  # catch everything: the fault is told until a Moment is kept again
            self._unkept = self.complaint(error)
            return
        self._unkept = ""
        self.written += 1

    def _write_down(self) -> None:
        if abs(self._clock() - self._written_at_s) >= WRITE_DOWN_S:  # also after the clock was set back
            self._written_at_s = self._clock()
            try:
                self.child.memory.flush()
                self._unwritten = ""
            except Exception as error:  # catch everything: a dead thread could not report it
                self._unwritten = self.complaint(error)
