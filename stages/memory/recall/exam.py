"""The exam of recall: named once, met again when the window holds it no more, and called by its name.

Every life is lived tick by tick: each thing is shown once with its name and written to a memory of that life's own;
other things follow for longer than the window; then things are met again at another look. What is recalled by the
look's keys is given to the trunk, and the head `called` answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from devmind.acting import Actor
from devmind.acting.recall import OwnMemories, keys_of, recalled_tokens
from devmind.agent.agent import Agent
from devmind.agent.batch import collate
from devmind.curriculum.exam import Measure
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.memory import Key, Memory, open_store
from devmind.moment import TICK_HZ, Moment, Sense
from devmind.seeding import exam_seeds
from stages.memory.recall.lesson import HEAD, THINGS
from stages.memory.recall.things import BOTH, HELD_OUT, NAMES, Lives, lives, looks

LIVES = 400
TOGETHER = 50
ASKED = 2
"""Things asked in a life; a life's value is the share called rightly."""
STRANGERS = 4
"""Further things of a life that were never named: they fill the time between."""
MORE = 4
"""So many ticks more than the window lie between the last name and the first question."""
GATE = Gate([Threshold("recall", 0.9)])


@dataclass
class Answers:
    """What came of lives: names given int64 [N, ASKED], and the nearest memory's name by rule."""

    said: np.ndarray
    nearest: np.ndarray


def examine(agent: Agent, context: Context, level: str) -> Sequence[Measure]:
    """The share called rightly with both memories; rows with each of them, with none, and by one sense alone."""
    n = context.episodes(LIVES) if level != "glimpse" else max(8, context.episodes(LIVES) // 10)
    of = lives(exam_seeds(n, context.seed, "recall"), THINGS + STRANGERS, HELD_OUT)
    asked = of.answer[:, :ASKED]
    both = play(agent, of, short=True, long=True)
    rows, floors = {}, {}
    if level == "full":
        rows = _rows(agent, of)
        floors = {"most frequent name": _most_frequent(of), "name of the nearest key": _right(both.nearest, asked)}
    values = (both.said == asked).mean(1)
    note = f"{THINGS} things a life; the window and {MORE} ticks more lie between; {ASKED} questions a life; "
    note += "combinations of shape, colour and texture that no lesson of names showed"
    return [
        Measure(
            "recall", "called rightly", values, 1 / len(NAMES), 1.0, floors, rows=rows, note=note,
            episodes=of.episodes(),
        )
    ]  # fmt: skip


def _rows(agent: Agent, of: Lives) -> dict[str, float]:
    """The same questions under other conditions, on a quarter of the lives."""
    some = of.first(max(8, len(of.seed) // 4))
    conditions: Mapping[str, tuple[bool, bool, Sequence[str]]] = {
        "memory off": (False, False, BOTH),
        "short-term only": (True, False, BOTH),
        "long-term only": (False, True, BOTH),
        "both, by sight alone": (True, True, ("sight",)),
        "both, by sound alone": (True, True, ("sound",)),
    }
    return {
        name: _right(play(agent, some, short, long, senses).said, some.answer[:, :ASKED])
        for name, (short, long, senses) in conditions.items()
    }


def _right(said: np.ndarray, wanted: np.ndarray) -> float:
    return float((said == wanted).mean())


def _most_frequent(of: Lives) -> float:
    """Always the name that most things of the life have."""
    named = of.answer[:, :THINGS]
    often = np.array([Counter(row).most_common(1)[0][0] for row in named.tolist()])
    return _right(np.repeat(often[:, None], ASKED, 1), of.answer[:, :ASKED])


def play(agent: Agent, of: Lives, short: bool, long: bool, senses: Sequence[str] = BOTH) -> Answers:
    """Live all lives, some side by side.

    Args:
        short: the window and slots are carried; without, each Moment stands alone.
        long: memories come back with the questions.
        senses: by which things are met again; they are shown with both.
    """
    parts = [
        _Group(agent, of.part(start, start + TOGETHER), short, long, senses).play()
        for start in range(0, len(of.seed), TOGETHER)
    ]
    return Answers(np.concatenate([part.said for part in parts]), np.concatenate([part.nearest for part in parts]))


class _Group:
    """N lives that are stepped together, each with a memory of its own in RAM."""

    def __init__(self, agent: Agent, of: Lives, short: bool, long: bool, senses: Sequence[str]) -> None:
        self.agent, self.of, self.short, self.long, self.senses = agent, of, short, long, senses
        self.n, self.tick = len(of.seed), 0
        memories = [Memory(open_store(None), clock=lambda: self.tick / TICK_HZ) for _ in range(self.n)]
        self.recall = OwnMemories(agent, memories, BOTH)
        self.actor = Actor(agent, self.n, effectors=(), heads=(HEAD,), short_term=short)

    def play(self) -> Answers:
        """Show, let time pass, ask."""
        shown, between = self._looks(np.arange(THINGS), "named"), self._looks(THINGS + np.arange(STRANGERS), "between")
        for thing in range(THINGS):
            self._show(shown, thing)
        # Without a state nothing that lies between can change an answer.
        pause = self.agent.config.window + MORE if self.short else 0
        for tick in range(pause):
            self._step([{name: x[row, tick % STRANGERS] for name, x in between.items()} for row in range(self.n)])
        self.tick += 0 if self.short else self.agent.config.window + MORE
        again = self._looks(np.arange(ASKED), "asked")
        answers = [
            self._ask([{s: again[s][row, at] for s in self.senses} for row in range(self.n)]) for at in range(ASKED)
        ]
        for memory in self.recall.memories:
            memory.store.close()
        return Answers(*(np.stack(column, 1) for column in zip(*answers, strict=True)))

    def _looks(self, things: np.ndarray, look: str) -> dict[str, np.ndarray]:
        return looks(self.of, np.tile(things, (self.n, 1)), look)

    def _show(self, shown: Mapping[str, np.ndarray], thing: int) -> None:
        """One tick: each child senses a thing and hears its name; its memory keeps both."""
        rows: list[dict[str, Sense]] = [
            {**{name: x[row, thing] for name, x in shown.items()}, "words": NAMES[self.of.answer[row, thing]]}
            for row in range(self.n)
        ]
        for row, (memory, keys) in enumerate(zip(self.recall.memories, self._step(rows)[1], strict=True)):
            memory.write(Moment(0.0, rows[row]), keys, importance=1.0)

    def _step(self, rows: Sequence[Mapping[str, Sense]], ask: bool = False) -> tuple[np.ndarray, list[dict[str, Key]]]:
        """One tick of all: what the head says, and the keys of what was sensed."""
        moments = [[Moment(self.tick / TICK_HZ, senses, first=self.tick == 0)] for senses in rows]
        percepts = self.actor.encode(collate(moments))
        found = self.recall.find(percepts) if ask else []
        said = self.actor.step(percepts, recalled_tokens(self.agent, found) if self.long else None).outputs[HEAD].mode()
        self.tick += 1
        return said.cpu().numpy(), keys_of(self.agent, percepts, BOTH, self.recall.hashes)

    def _ask(self, rows: Sequence[Mapping[str, Sense]]) -> tuple[np.ndarray, np.ndarray]:
        """One tick with a question: the names given [N], and those of the nearest keys."""
        said, _ = self._step(rows, ask=True)
        return said, np.array([NAMES.index(str(found[0].senses["words"])) for found in self.recall.entries])
