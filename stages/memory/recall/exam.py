"""The exam of recall: a thing is named once, met again when the window no longer holds it, and called by its name.

Every life is played tick by tick: each thing is shown once with its name and written to that life's own memory; other
things follow for longer than the window; then things are met again with another look. The entries recalled by the
look's keys go to the trunk, and two heads answer: `called`, by one of eight names that it knows, and `copied`, by
pointing at the memory with the name, so that in other lives every thing has an invented word that no lesson said.
In lives of doubles (`doubles.py`) neither sight nor sound alone tells which thing it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch

from devmind.acting import Actor
from devmind.acting.recall import OwnMemories, keys_of, recalled_tokens
from devmind.agent.agent import Agent
from devmind.agent.batch import collate
from devmind.agent.device import place
from devmind.agent.pointing import pointed_at
from devmind.agent.taps import Percepts
from devmind.curriculum.exam import Exam, Measure, Parts, held_out_rows, in_parts
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.memory import Memory, open_store
from devmind.moment import TICK_HZ, Moment, Sense
from devmind.seeding import exam_seeds, numpy_rng
from stages.memory.recall.doubles import BY_ONE_SENSE, GROUP, Doubles, doubles
from stages.memory.recall.lesson import COPIED, HEAD, THINGS, most_alike, tensors
from stages.memory.recall.things import (
    BOTH,
    HELD_OUT,
    NAMES,
    Lives,
    invent_words,
    lives,
    looks,
    nearest_raw,
    not_joined,
    pairs_left_out,
)

LIVES = 400
TOGETHER = 50
ASKED = 2
"""Things asked in a life; a life's value is the share called correctly."""
STRANGERS = 4
"""Further things of a life that are never named: they fill the time in between."""
MORE = 4
"""Ticks beyond the window between the last name and the first question."""
NEW = "recall/new words"
DOUBLES, DOUBLED = "recall/both senses", 200
"""Measured without a gate, in full exams alone: lives of doubles, and their number."""
GATE = Gate([Threshold("recall", 0.9, beats_twin=True), Threshold(NEW, 0.9)])


@dataclass
class Answers:
    """The answers in lives, a word for each question, str [N, questions].

    Attributes:
        said: the name by heart.
        copied: the word of the memory that was pointed at; "" for none.
        nearest: by rule, the word of the nearest memory.
    """

    said: np.ndarray
    copied: np.ndarray
    nearest: np.ndarray


def examine(agent: Agent, context: Context) -> Exam:
    """The share called correctly with both memories; rows with each of them, with none, and by one sense alone."""
    n = context.episodes(LIVES, LIVES // 2)
    note = f"{THINGS} things a life; the window and {MORE} ticks more lie between; {ASKED} questions a life; "
    note += "combinations of shape, colour and texture that no lesson of names showed"
    known = lives(exam_seeds(n, context.seed, "recall"), THINGS + STRANGERS, HELD_OUT)
    new = lives(exam_seeds(n, context.seed, NEW), THINGS + STRANGERS, HELD_OUT)
    new_words, of_new = (
        invent_words(new.seed, THINGS, exam=True),
        f"{note}; each thing has its own word, which no lesson has",
    )
    return Exam.joined(
        (
            _exam("recall", agent, known, "said", np.array(NAMES)[known.answer], note),
            _exam(NEW, agent, new, "copied", new_words, of_new),
            Exam([], lambda: [_of_doubles(agent, context, note)]),
        )
    )


@in_parts
def _exam(name: str, agent: Agent, of: Lives, head: str, words: np.ndarray, note: str) -> Parts:
    """One value a life, the share of the asked things that are called correctly.

    Args:
        head: which of `Answers` counts; words: of every thing, str [N, at least THINGS].
    """
    targets = words[:, :ASKED]
    both = play(agent, of, short=True, long=True, words=words, strangers=head == "copied")
    right = (getattr(both, head)[:, :ASKED] == targets).astype(np.float64)
    chance = 1 / (len(NAMES) if head == "said" else THINGS)
    measure = Measure(name, "called correctly", right.mean(1), chance, 1.0, note=note, episodes=of.episodes(THINGS))
    yield [measure]
    rows = _rows(agent, of, words, head)
    if head == "copied":
        rows |= {"points at nothing for things never named": float((both.copied[:, ASKED:] == "").mean())}
    elif pairs_left_out(agent.config.trained_on):
        left = not_joined(of.colour, of.answer)[:, :ASKED]
        rows |= held_out_rows(right.reshape(-1), left.reshape(-1), "of names with a colour")
    floors = {
        "most frequent name": _right(_most_frequent(words), targets),
        "name of the nearest key": _right(both.nearest[:, :ASKED], targets),
        **_without_learning(agent, of, words),
    }
    yield [replace(measure, floors=floors, rows=rows)]


def _of_doubles(agent: Agent, context: Context, note: str) -> Measure:
    """The share called correctly where each thing looks like one other and sounds like a third; without a gate."""
    seeds = exam_seeds(context.episodes(DOUBLED), context.seed, DOUBLES)
    of = doubles(seeds, THINGS // GROUP, STRANGERS)
    words = np.array(NAMES)[of.answer]
    asked = words[:, :ASKED]
    both = play(agent, of, short=True, long=True, words=words)
    half = max(8, len(of.seed) // 2)
    alone = {
        f"both, by {sense} alone": _right(
            play(agent, of.first(half), True, True, (sense,), words[:half]).said, asked[:half]
        )
        for sense in BOTH
    }
    pointed = {"the name of the memory that is pointed at": _right(both.copied, asked)}
    floors = {
        "name of the nearest key": _right(both.nearest, asked),
        **{f"name of the nearest key by {sense} alone": _by_one(agent, of, words, sense) for sense in BOTH},
        **_without_learning(agent, of, words),
    }
    note += f"; doubles: each looks like one other and sounds like a third, so one sense alone tells {BY_ONE_SENSE:.0%}"
    right = (both.said == asked).astype(np.float64).mean(1)
    return Measure(
        DOUBLES,
        "called correctly",
        right,
        1 / len(NAMES),
        1.0,
        floors,
        rows=alone | pointed,
        note=note,
        episodes=of.episodes(THINGS),
    )


@torch.no_grad()
def _by_one(agent: Agent, of: Doubles, words: np.ndarray, sense: str) -> float:
    """The share of correct names of the nearest key of one sense."""
    at = []
    for start in range(0, len(of.seed), TOGETHER):
        some = of.part(start, start + TOGETHER)
        kept, seen = _met(some, (sense,))
        at.append(most_alike(agent, tensors(seen), tensors(kept))[..., 0].numpy())
    return _right(np.take_along_axis(words, np.concatenate(at), 1), words[:, :ASKED])


def _rows(agent: Agent, of: Lives, words: np.ndarray, head: str) -> dict[str, float]:
    """The same questions under other conditions, on a quarter of the lives."""
    few = of.first(max(8, len(of.seed) // 4))
    words = words[: len(few.seed)]
    conditions: Mapping[str, tuple[bool, bool, Sequence[str]]] = {
        "memory off": (False, False, BOTH),
        "short-term only": (True, False, BOTH),
        "long-term only": (False, True, BOTH),
        "both, by sight alone": (True, True, ("sight",)),
        "both, by sound alone": (True, True, ("sound",)),
    }
    return {
        name: _right(getattr(play(agent, few, short, long, senses, words), head), words[:, :ASKED])
        for name, (short, long, senses) in conditions.items()
    }


@torch.no_grad()
def _without_learning(agent: Agent, of: Lives, words: np.ndarray) -> dict[str, float]:
    """Share of correct names of the nearest thing, by untaught keys and by raw input."""
    untaught = place(Agent(agent.config), agent.device).eval()
    chosen: dict[str, list[np.ndarray]] = {}
    for start in range(0, len(of.seed), TOGETHER):
        part = of.part(start, start + TOGETHER)
        stored, queries = _met(part)
        nearest_of = {
            "name of the nearest key, untaught": most_alike(untaught, tensors(queries), tensors(stored))[
                ..., 0
            ].numpy(),
            "name of the nearest raw picture and sound": nearest_raw(queries, stored),
            "name of the nearest raw sound": nearest_raw({"sound": queries["sound"]}, stored),
        }
        for name, at in nearest_of.items():
            chosen.setdefault(name, []).append(at)
    return {
        name: _right(np.take_along_axis(words, np.concatenate(at), 1), words[:, :ASKED]) for name, at in chosen.items()
    }


def _met(of: Lives, senses: Sequence[str] = BOTH) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The looks at the things when they are named, [N, THINGS, ...], and asked for, [N, ASKED, ...]."""
    named, asked = (
        looks(of, np.tile(np.arange(count), (len(of.seed), 1)), look, senses)
        for count, look in ((THINGS, "named"), (ASKED, "asked"))
    )
    return named, asked


def _right(names: np.ndarray, targets: np.ndarray) -> float:
    return float((names == targets).mean())


def _most_frequent(words: np.ndarray) -> np.ndarray:
    """The name that most things of the life have; a tie is broken at random."""
    rng, often = numpy_rng("exam", "recall", "most frequent name"), []
    for row in words[:, :THINGS].tolist():
        counts = Counter(row)
        often.append(rng.choice([name for name, count in counts.items() if count == max(counts.values())]))
    return np.repeat(np.array(often)[:, None], ASKED, 1)


def play(
    agent: Agent,
    of: Lives,
    short: bool,
    long: bool,
    senses: Sequence[str] = BOTH,
    words: np.ndarray | None = None,
    strangers: bool = False,
) -> Answers:
    """Play all lives, some side by side.

    Args:
        short: carry window and slots; without, each Moment stands alone.
        long: give recalled memories with the questions.
        senses: by which things are met again; they are shown with both.
        words: what each thing is called, str [N, at least THINGS]; by default by its number among NAMES.
        strangers: add as many questions about things that were met and never named.
    """
    words = np.array(NAMES)[of.answer] if words is None else words
    parts = []
    for start in range(0, len(of.seed), TOGETHER):
        rows = slice(start, start + TOGETHER)
        group = _Group(agent, of.part(rows.start, rows.stop), short, long, senses, words[rows])
        parts.append(group.play(strangers))
    return Answers(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Answers)))


class _Group:
    """N lives that are stepped together, each with a memory of its own in RAM."""

    def __init__(
        self, agent: Agent, of: Lives, short: bool, long: bool, senses: Sequence[str], words: np.ndarray
    ) -> None:
        self.agent, self.of, self.short, self.long, self.senses, self.words = agent, of, short, long, senses, words
        self.n, self.tick = len(of.seed), 0
        memories = [Memory(open_store(None), clock=lambda: self.tick / TICK_HZ) for _ in range(self.n)]
        self.recall = OwnMemories(agent, memories, BOTH)
        self.actor = Actor(agent, self.n, effectors=(), heads=(HEAD, COPIED), short_term=short)

    def play(self, strangers: bool = False) -> Answers:
        """Show, let time pass, ask."""
        named, between = self._looks(np.arange(THINGS), "named"), self._looks(THINGS + np.arange(STRANGERS), "between")
        for thing in range(THINGS):
            self._show(named, thing)
        # Without a state nothing in between can change an answer.
        pause = self.agent.config.window + MORE if self.short else 0
        seen: list[Percepts] = []
        for tick in range(pause):
            # The looks repeat, each behind the same one, so after a round nothing new is encoded.
            if tick <= STRANGERS:
                at = tick % STRANGERS
                seen.append(self._encode([{name: x[row, at] for name, x in between.items()} for row in range(self.n)]))
            self._step(seen[tick if tick <= STRANGERS else 1 + (tick - 1) % STRANGERS])
        self.tick += 0 if self.short else self.agent.config.window + MORE
        things = np.concatenate([np.arange(ASKED), THINGS + np.arange(ASKED if strangers else 0)])
        again = self._looks(things, "asked")
        answers = [
            self._ask([{s: again[s][row, at] for s in self.senses} for row in range(self.n)])
            for at in range(len(things))
        ]
        for memory in self.recall.memories:
            memory.store.close()
        return Answers(*(np.stack(column, 1) for column in zip(*answers, strict=True)))

    def _looks(self, things: np.ndarray, look: str) -> dict[str, np.ndarray]:
        return looks(self.of, np.tile(things, (self.n, 1)), look)

    def _show(self, senses: Mapping[str, np.ndarray], thing: int) -> None:
        """One tick: each row senses a thing and hears its name; its memory keeps both."""
        rows: list[dict[str, Sense]] = [
            {**{name: x[row, thing] for name, x in senses.items()}, "words": str(self.words[row, thing])}
            for row in range(self.n)
        ]
        percepts = self._encode(rows)
        self._step(percepts)
        every = keys_of(self.agent, percepts, BOTH, self.recall.hashes)
        for row, (memory, keys) in enumerate(zip(self.recall.memories, every, strict=True)):
            memory.write(Moment(0.0, rows[row]), keys, importance=1.0)

    def _encode(self, rows: Sequence[Mapping[str, Sense]]) -> Percepts:
        """What all rows sense in this tick, encoded."""
        moments = [[Moment(self.tick / TICK_HZ, senses, first=self.tick == 0)] for senses in rows]
        return self.actor.encode(collate(moments))

    def _step(self, percepts: Percepts, ask: bool = False) -> Mapping[str, Any]:
        """One tick of all rows: the heads' outputs."""
        entries = self.recall.find(percepts) if ask else []
        output = self.actor.step(percepts, recalled_tokens(self.agent, entries) if self.long else None)
        self.tick += 1
        return output.outputs

    def _ask(self, rows: Sequence[Mapping[str, Sense]]) -> tuple[list[str], list[str], list[str]]:
        """One tick with a question: the names by heart, the copied ones, and those of the nearest keys."""
        outputs = self._step(self._encode(rows), ask=True)
        candidates = [[str(entry.senses["words"]) for entry in entries] for entries in self.recall.entries]
        copied = [
            "" if at is None else words[at] for at, words in zip(pointed_at(outputs[COPIED]), candidates, strict=True)
        ]
        return [NAMES[at] for at in outputs[HEAD].mode().tolist()], copied, [words[0] for words in candidates]
