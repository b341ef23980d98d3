"""The skill `new_words`: a word that was taught once, with one look, is recognised among things in view.

Every life has a memory of its own. Four things are shown, one look each, with a sentence ("this is a zib."). The memory
stores the picture, the sentence, and the name in it, as the page of a life would find it. Nothing else remains: the
question comes to an agent with a new state. All four things are in view then, in another light and at other places.
Asked "what is that?" about the one it looks at, the agent says the word of the memory it points at; asked "where is the
zib?", it points at a cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from devmind.acting.recall import OwnMemories, keys_of
from devmind.agent.agent import Agent
from devmind.algorithms.calibration import calibration_error
from devmind.curriculum.exam import Exhibit, Measure, Parts, in_parts
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.memory import Memory, open_store
from devmind.moment import Moment
from devmind.report.exhibits import png
from devmind.seeding import exam_seeds, lesson_seeds
from stages.language.caregiver.scene import HELD_OUT, PAIRS, TAUGHT
from stages.language.hand_rules import CutOuts
from stages.language.name.exam import UNNAMED, nearest
from stages.language.name.scenes import THINGS, scenes
from stages.language.new_words.lives import Lives, lives
from stages.language.parts import SIGHT
from stages.language.taught_words import WHAT, NewWordAnswer, answers_by_looks, ask, look, memories_of, where

SAID, FOUND = "new_words/said", "new_words/found"
GATE = Gate([Threshold(SAID, 0.85), Threshold(FOUND, 0.85)])
EPISODES = 400
TOGETHER = 50
EXAMPLES = 500
"""Lesson scenes of four things each, on which the baselines' classifiers are fitted."""
LATER_S = 3600.0
"""How long ago the words were taught, in seconds."""
NOTE = (
    f"{THINGS} words a life, each said once with one look at its thing an hour before; words, and pairs of colour and "
    "form, that no lesson has; another size, texture, light and place"
)


@in_parts
def examine(agent: Agent, context: Context) -> Parts:
    """One value a life: whether the word is that of the thing; whether the thing nearest to the cell is the one meant.

    An agent without the two heads is not asked, and the gate says so.
    """
    if not answers_by_looks(agent):
        return
    n = context.episodes(EPISODES)
    seeds = exam_seeds(n, context.seed, "new_words")
    near, ahead = (
        lives(context, seeds, HELD_OUT, PAIRS, np.full(n, looked_at), exam=True) for looked_at in (True, False)
    )
    right_place = (NewWordLives(agent, ahead).found() == ahead.scenes.target).astype(float)
    found = Measure(FOUND, "found", right_place, 1 / THINGS, 1.0, rate=True, note=NOTE, episodes=ahead.episodes())
    answer = NewWordLives(agent, near).answered([WHAT] * n)
    words = np.array(answer.words)
    right = (words == near.asked).astype(float)
    said = Measure(SAID, "named correctly", right, 1 / THINGS, 1.0, rate=True, note=NOTE, episodes=near.episodes())
    yield [said, found]
    rules = Rules(context)
    mistakes, rows = _mistakes(near, right, words), _said_rows(agent, near, answer.sure, right)
    yield [
        replace(said, floors=rules.said(near), rows=rows, exhibits=mistakes),
        replace(found, floors=rules.found(ahead), rows=_found_rows(agent, ahead)),
    ]


class NewWordLives:
    """Lives that were taught their words, to be asked.

    Args:
        memory: whether anything is recalled.
        untaught: whether the thing asked for was never shown, for all lives or for each, bool [N].
    """

    def __init__(self, agent: Agent, of: Lives, memory: bool = True, untaught: bool | np.ndarray = False) -> None:
        self.agent, self.of, self.memory = agent, of, memory
        self.untaught = np.broadcast_to(untaught, len(of.words))

    def said(self) -> np.ndarray:
        """The word of the memory that each life points at when asked "what is that?", str [N]; "": no memory fits."""
        return np.array(self.answered([WHAT] * len(self.of.words)).words)

    def found(self, questions: Sequence[str] | None = None) -> np.ndarray:
        """Which thing lies nearest to the cell that each life points at when asked "where is the zib?", int64 [N]."""
        texts = [where(word) for word in self.of.asked] if questions is None else questions
        return nearest(self.answered(texts).cells, self.of.scenes.boxes)

    def answered(self, questions: Sequence[str]) -> NewWordAnswer:
        """What each life answers to its question, by the function that the page of a life calls."""
        parts = []
        for rows in np.array_split(np.arange(len(self.of.words)), -(-len(self.of.words) // TOGETHER)):
            recall = self._memories(rows) if self.memory else None
            parts.append(ask(self.agent, recall, self.of.scenes.sight[rows], [questions[row] for row in rows]))
        return join_groups(parts)

    def _memories(self, rows: np.ndarray) -> OwnMemories:
        """Memories of these lives, in which each word was taught once."""
        agent, now_s = self.agent, [0.0]
        recall = memories_of(agent, [Memory(open_store(None), clock=lambda: now_s[0]) for _ in rows])
        for thing in range(THINGS):
            sights, names = self.of.taught[rows, thing], self.of.words[rows, thing].tolist()
            moments = [Moment(0.0, look(sight, name)) for sight, name in zip(sights, names, strict=True)]
            percepts = agent.encode(agent.new_state(len(rows)), moments)
            keys = keys_of(agent, percepts, (SIGHT,), recall.hashes)
            for row, memory in enumerate(recall.memories):
                if self.untaught[rows[row]] and thing == self.of.scenes.target[rows[row]]:
                    continue
                memory.write(moments[row], keys[row], importance=1.0, name=names[row])
        now_s[0] = LATER_S
        return recall


def join_groups(parts: Sequence[NewWordAnswer]) -> NewWordAnswer:
    """What several groups of lives answered, as of one."""
    of: dict[str, list[Any]] = {name: [getattr(part, name) for part in parts] for name in NewWordAnswer._fields}
    whole: dict[str, Any] = {
        name: np.concatenate(column)
        if isinstance(column[0], np.ndarray)
        else [word for words in column for word in words]
        for name, column in of.items()
    }
    return NewWordAnswer(**whole)


class Rules:
    """Baselines that are told where each thing is and which look belongs to which word: the most similar raw pixels,
    and the scores of classifiers of colours and of forms, fitted apart on scenes of lessons.
    """

    def __init__(self, context: Context) -> None:
        n = context.episodes(EXAMPLES)
        known = scenes(context, lesson_seeds(n, context.seed, "new_words", "floors"), TAUGHT, TAUGHT, np.ones(n, bool))
        self.cut_outs = CutOuts.of(known)

    def said(self, of: Lives) -> dict[str, float]:
        """The share of lives in which the look that best fits the thing looked at is its own."""
        return {name: float((fits[:, 0].argmax(1) == of.scenes.target).mean()) for name, fits in self.fits(of, True)}

    def found(self, of: Lives) -> dict[str, float]:
        """The share of lives in which the thing in view that best fits the word's look is the one meant."""
        return {name: float((fits[:, 0].argmax(1) == of.scenes.target).mean()) for name, fits in self.fits(of, False)}

    def fits(self, of: Lives, looked_at: bool) -> list[tuple[str, np.ndarray]]:
        """How well the target's cut-out (as `looked_at`, else as taught) fits the other cut-out of each thing."""
        rows = np.arange(len(of.words)), of.scenes.target
        taught_crops, later_crops = of.looks.crops()[:, 0].reshape(*of.words.shape, -1), of.scenes.crops()
        one, others = (later_crops[rows], taught_crops) if looked_at else (taught_crops[rows], later_crops)
        found = [("nearest neighbour on cut-out pixels", _likeness(one[:, None], others))]
        for name, rule in self.cut_outs.items():
            found.append((name, _likeness(rule.scores(one)[:, None], rule.scores(others))))
        return found


def _likeness(one: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Minus the squared distance of [N, 1, P] to [N, K, P], [N, 1, K]."""
    return -((one - others) ** 2).sum(-1)[:, None]


def _said_rows(agent: Agent, of: Lives, confidence: np.ndarray, right: np.ndarray) -> dict[str, float]:
    """Rows of a quarter of the lives: what is said without memory, and of a thing that was never shown; and the
    calibration error of all.
    """
    calibration, of = calibration_error(confidence, right), of.first(_some(of))
    unknown = NewWordLives(agent, of, untaught=True).said()
    return {
        "memory off": float((NewWordLives(agent, of, memory=False).said() == of.asked).mean()),
        "says no word for a thing that was never shown": float((unknown == "").mean()),
        "calibration error of what it says": calibration,
    }


def _some(of: Lives) -> int:
    return max(8, len(of.words) // 4)


def _found_rows(agent: Agent, of: Lives) -> dict[str, float]:
    """Rows of a quarter of the lives: what is found without memory, and without the word."""
    of = of.first(_some(of))
    share = lambda pointed_at: float((pointed_at == of.scenes.target).mean())  # noqa: E731
    return {
        "memory off": share(NewWordLives(agent, of, memory=False).found()),
        f"asked '{UNNAMED}'": share(NewWordLives(agent, of).found([UNNAMED] * len(of.words))),
    }


def _mistakes(of: Lives, right: np.ndarray, words: np.ndarray) -> tuple[Exhibit, ...]:
    wrong = np.flatnonzero(right == 0)[:6]
    return tuple(
        Exhibit("failure", f"the {of.scenes.names[i]} in the middle, taught as '{of.asked[i]}', called '{words[i]}'",
                png=png(of.scenes.sight[i]))
        for i in wrong
    )  # fmt: skip
