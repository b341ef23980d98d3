"""The skill `new_words`: a word that was taught once, by one look, is known again among things in view.

Every life has a memory of its own. Four things are shown, one look each, with a sentence ("this is a zib."), and each
is kept: the picture, what was said, and the name in it, which is the one that the page of a life would find there.
Nothing else remains: the question comes to an agent that begins anew. It is asked of all four in view, in another light
and another place, "what is that?" of the one it looks at, and says the word of the memory it points at; and "where is
the zib?", and points at a cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from devmind.acting import Actor
from devmind.acting.recall import OwnMemories, keys_of
from devmind.agent.agent import Agent
from devmind.agent.batch import collate_tick
from devmind.agent.pointing import pointed_at
from devmind.curriculum.exam import Exhibit, Measure
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.memory import Memory, open_store
from devmind.moment import Moment
from devmind.seeding import exam_seeds, lesson_seeds
from stages.language.answering import png
from stages.language.caregiver.scene import HELD_OUT, PAIRS, TAUGHT
from stages.language.hand_rules import CutOuts
from stages.language.name.exam import UNNAMED, nearest
from stages.language.name.lesson import WHAT, where
from stages.language.name.scenes import THINGS, scenes
from stages.language.new_words.lives import Lives, lives, teaching
from stages.language.parts import RECOGNISED, SIGHT, SOUGHT, TEXT

SAID, FOUND = "new_words/said", "new_words/found"
GATE = Gate([Threshold(SAID, 0.85), Threshold(FOUND, 0.85)])
EPISODES = 400
TOGETHER = 50
EXAMPLES = 500
"""Lesson scenes, of four things each, from which the floors' classifiers are fitted."""
LATER_S = 3600.0
"""How long ago it was taught."""
NOTE = (
    f"{THINGS} words a life, each said once with one look at its thing an hour before; words, and pairs of colour and "
    "form, that no lesson has; another size, texture, light and place"
)


def examine(agent: Agent, context: Context, level: str) -> Sequence[Measure]:
    """One value a life: the word that is said is the thing's own; what lies nearest to the cell pointed at is meant.

    An agent that was through this stage before it had the two heads is not asked, which the gate says.
    """
    if not {SOUGHT, RECOGNISED} <= set(agent.heads):
        return []
    n = context.episodes(EPISODES if level != "glimpse" else EPISODES // 5)
    full, seeds = level == "full", exam_seeds(n, context.seed, "new_words")
    near, ahead = (lives(context, seeds, HELD_OUT, PAIRS, np.full(n, looks), exam=True) for looks in (True, False))
    rules = Rules(context) if full else None
    found = (Asked(agent, ahead).found() == ahead.met.target).astype(float)
    measures = [
        Measure(FOUND, "found", found, 1 / THINGS, 1.0, rules.found(ahead) if rules else {}, rate=True, note=NOTE,
                episodes=ahead.episodes(), rows=_found_rows(agent, ahead) if full else {})
    ]  # fmt: skip
    said = Asked(agent, near).said()
    right = (said == near.asked).astype(float)
    return [
        Measure(SAID, "named rightly", right, 1 / THINGS, 1.0, rules.said(near) if rules else {}, rate=True, note=NOTE,
                episodes=near.episodes(), rows=_said_rows(agent, near) if full else {},
                exhibits=_mistakes(near, right, said) if full else ()),
        *measures,
    ]  # fmt: skip


class Asked:
    """Lives that were taught their words, and are asked.

    Args:
        memory: whether anything comes to mind.
        untaught: the thing that is asked for was never shown.
    """

    def __init__(self, agent: Agent, of: Lives, memory: bool = True, untaught: bool = False) -> None:
        self.agent, self.of, self.memory, self.untaught = agent, of, memory, untaught

    def said(self) -> np.ndarray:
        """The word of the memory that each life points at when asked "what is that?", str [N]; "": it fits none."""
        words: list[str] = []
        for part in self._parts():
            actor, recall = self._taught(part)
            recognised: Any = actor.act(_tick(self.of.met.sight[part], [WHAT] * len(part))).outputs[RECOGNISED]
            for entries, at in zip(recall.entries, pointed_at(recognised), strict=True):
                words.append("" if at is None else entries[at].name or "")
        return np.array(words)

    def found(self, questions: Sequence[str] | None = None) -> np.ndarray:
        """Which thing lies nearest to the cell that each life points at when asked "where is the zib?", int64 [N]."""
        asked = [where(word) for word in self.of.asked] if questions is None else list(questions)
        found = []
        for part in self._parts():
            actor, _ = self._taught(part)
            output = actor.act(_tick(self.of.met.sight[part], [asked[row] for row in part]))
            found.append(nearest(output.outputs[SOUGHT].mode().cpu().numpy(), self.of.met.boxes[part]))
        return np.concatenate(found)

    def _parts(self) -> list[np.ndarray]:
        rows = np.arange(len(self.of.words))
        return np.array_split(rows, -(-len(rows) // TOGETHER))

    def _taught(self, rows: np.ndarray) -> tuple[Actor, OwnMemories]:
        """Memories of these lives, in which each word was taught once, and who is asked by them."""
        agent, now_s = self.agent, [0.0]
        memories = [Memory(open_store(None), clock=lambda: now_s[0]) for _ in rows]
        recall = OwnMemories(agent, memories, (SIGHT,))
        for thing in range(THINGS):
            said = [teaching(word) for word in self.of.words[rows, thing]]
            looks = self.of.taught[rows, thing]
            percepts = agent.encode(agent.new_state(len(rows)), _tick(looks, said))
            keys = keys_of(agent, percepts, (SIGHT,), recall.hashes)
            for row, memory in enumerate(memories):
                if self.untaught and thing == self.of.met.target[rows[row]]:
                    continue
                kept = Moment(0.0, {SIGHT: looks[row], TEXT: said[row]})
                memory.write(kept, keys[row], importance=1.0, name=str(self.of.words[rows[row], thing]))
        now_s[0] = LATER_S
        recalls = recall if self.memory else None
        return Actor(agent, len(rows), effectors=(), heads=(SOUGHT, RECOGNISED), recall=recalls), recall


class Rules:
    """Floors, which are told where each thing is and which look was which word's: raw pixels that are most alike, and
    what a classifier of colours and one of forms, fitted apart on lessons' scenes, make of both.
    """

    def __init__(self, context: Context) -> None:
        n = context.episodes(EXAMPLES)
        known = scenes(context, lesson_seeds(n, context.seed, "new_words", "floors"), TAUGHT, TAUGHT, np.ones(n, bool))
        self.cut_outs = CutOuts.of(known)

    def said(self, of: Lives) -> dict[str, float]:
        """The share of lives in which, of the looks, the one that fits best to what is looked at is its own."""
        return {name: float((fits[:, 0].argmax(1) == of.met.target).mean()) for name, fits in self._fits(of, True)}

    def found(self, of: Lives) -> dict[str, float]:
        """The share of lives in which, of the things in view, the one that fits best to the word's look is meant."""
        return {name: float((fits[:, 0].argmax(1) == of.met.target).mean()) for name, fits in self._fits(of, False)}

    def _fits(self, of: Lives, met: bool) -> list[tuple[str, np.ndarray]]:
        """How well the target's own cut-out (as it is `met`, else as it was taught) fits to each thing's other one."""
        rows = np.arange(len(of.words)), of.met.target
        taught, seen = of.looks.crops()[:, 0].reshape(*of.words.shape, -1), of.met.crops()
        one, others = (seen[rows], taught) if met else (taught[rows], seen)
        called = [self.cut_outs.scores(each) for each in (one, others)]
        return [("nearest neighbour on cut-out pixels", _likeness(one[:, None], others)),
                ("two classifiers on cut-out pixels", _likeness(called[0][:, None], called[1]))]  # fmt: skip


def _likeness(one: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Minus the squared distance of [N, 1, P] to [N, K, P], [N, 1, K]."""
    return -((one - others) ** 2).sum(-1)[:, None]


def _tick(sight: np.ndarray, said: Sequence[str]) -> dict[str, torch.Tensor]:
    return collate_tick({SIGHT: sight, TEXT: list(said)}, np.ones(len(said), bool))


def _said_rows(agent: Agent, of: Lives) -> dict[str, float]:
    """What is said when nothing comes to mind, and of what was never shown; of a quarter of the lives."""
    of = of.first(_some(of))
    unknown = Asked(agent, of, untaught=True).said()
    return {
        "memory off": float((Asked(agent, of, memory=False).said() == of.asked).mean()),
        "says no word for what was never shown": float((unknown == "").mean()),
    }


def _some(of: Lives) -> int:
    return max(8, len(of.words) // 4)


def _found_rows(agent: Agent, of: Lives) -> dict[str, float]:
    """What is found when nothing comes to mind, and without the word; in a quarter of the lives."""
    of = of.first(_some(of))
    share = lambda found: float((found == of.met.target).mean())  # noqa: E731
    return {
        "memory off": share(Asked(agent, of, memory=False).found()),
        f"asked '{UNNAMED}'": share(Asked(agent, of).found([UNNAMED] * len(of.words))),
    }


def _mistakes(of: Lives, right: np.ndarray, said: np.ndarray) -> tuple[Exhibit, ...]:
    wrong = np.flatnonzero(right == 0)[:6]
    return tuple(
        Exhibit("failure", f"the {of.met.names[i]} in the middle, taught as '{of.asked[i]}', called '{said[i]}'",
                png=png(of.met.sight[i]))
        for i in wrong
    )  # fmt: skip
