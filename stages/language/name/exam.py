"""The skill `name`: held-out pairs of a colour and a noun, named in writing and found by their name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from devmind.acting import Actor
from devmind.agent.agent import Agent
from devmind.agent.batch import collate_tick
from devmind.algorithms.calibration import calibration_error
from devmind.curriculum.episodes import identities
from devmind.curriculum.exam import Exhibit, Measure, Parts, in_parts
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.moment import SIGHT_SIZE
from devmind.report.exhibits import png
from devmind.seeding import exam_seeds, lesson_seeds
from stages.language.answering import SURE, answers, answers_with_confidence
from stages.language.caregiver.scene import HELD_OUT, PAIRS, TAUGHT
from stages.language.eye import SIDE
from stages.language.hand_rules import CLASSIFIERS, CutOuts
from stages.language.name.lesson import answer
from stages.language.name.scenes import THINGS, Scenes, scenes
from stages.language.parts import POINT, SIGHT, TEXT
from stages.language.seeing import centres
from stages.language.taught_words import WHAT, where

SAY, FIND = "name/say", "name/find"
GATE = Gate([Threshold(SAY, 0.90), Threshold(FIND, 0.90)])
EPISODES = 500
EXAMPLES = 800
"""Lesson scenes of four things each, on which the baselines are fitted."""
UNNAMED = "where is that?"
"""The question of the row in which the name is left out."""
OF_CELL = "calibration error of the cell pointed at"
LONGEST = 24
"""Bytes of an answer: the longest name has 18."""
NOTE = "six pairs of colour and noun that no lesson showed, each beside one of its colour and one of its noun"


@in_parts
def examine(agent: Agent, context: Context) -> Parts:
    """Say: the name of the thing looked at, in writing. Find: the named one of four things, by pointing."""
    n = context.episodes(EPISODES)
    seeds = exam_seeds(n, context.seed, "name")
    looked_at, ahead = (scenes(context, seeds, HELD_OUT, PAIRS, np.full(n, near)) for near in (True, False))
    (replies, confidence), (pointed_at, of_cell) = says(agent, looked_at.sight), finds(agent, ahead)
    right = np.array([one == answer(name) for one, name in zip(replies, looked_at.names, strict=True)])
    say_episodes, find_episodes = (identities({"sight": some_scenes.sight}) for some_scenes in (looked_at, ahead))
    said = Measure(
        SAY, "named correctly", right.astype(float), 1 / len(HELD_OUT), 1.0, rate=True, note=NOTE, episodes=say_episodes
    )
    found = Measure(
        FIND, "found", (pointed_at == ahead.target).astype(float), 1 / THINGS, 1.0, rate=True, episodes=find_episodes,
        note=f"{NOTE}; the thing nearest to the cell pointed at counts",
    )  # fmt: skip
    yield [said, found]
    floors = _floors(context, looked_at, ahead)
    blind = finds(agent, ahead, [UNNAMED] * n)[0] == ahead.target
    rows = _rows(replies, looked_at, blind, answers(agent, {TEXT: [WHAT] * n}, LONGEST))
    rows[SAY][SURE] = calibration_error(confidence, right)
    rows[FIND][OF_CELL] = calibration_error(of_cell, pointed_at == ahead.target)
    yield [
        replace(said, floors=floors[SAY], rows=rows[SAY], exhibits=_mistakes(looked_at, right, replies)),
        replace(found, floors=floors[FIND], rows=rows[FIND]),
    ]


def shown_in_lessons(context: Context, n: int) -> np.ndarray:
    """Pictures of lessons, int64 [n]."""
    seeds = lesson_seeds(n, context.seed, "name", "episodes")
    sights = [scenes(context, part, TAUGHT, TAUGHT, np.arange(len(part)) % 2 == 0).sight
             for part in np.array_split(seeds, -(-n // 1000))]  # fmt: skip
    return np.concatenate([identities({"sight": sight}) for sight in sights])


def says(agent: Agent, sight: np.ndarray) -> tuple[list[str], np.ndarray]:
    """What the agent writes behind "what is that?", up to a full stop, and its confidence, float64 [N]."""
    return answers_with_confidence(agent, {SIGHT: sight, TEXT: [WHAT] * len(sight)}, LONGEST)


def finds(agent: Agent, drawn_scenes: Scenes, questions: Sequence[str] | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The thing nearest to the cell pointed at when asked where the meant one is, int64 [N], and the probability of
    that cell, float64 [N].
    """
    texts = [where(name) for name in drawn_scenes.names] if questions is None else list(questions)
    actor = Actor(agent, len(texts), effectors=(), heads=(POINT,))
    output = actor.act(collate_tick({SIGHT: drawn_scenes.sight, TEXT: texts}, np.ones(len(texts), bool)))
    pointed = output.outputs[POINT]
    confidence = pointed.numbers().double().softmax(-1).amax(-1).flatten()
    return nearest(pointed.mode().cpu().numpy(), drawn_scenes.boxes), confidence.cpu().numpy()


def nearest(cell: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Which of the things with boxes [N, K, 4] has its centre nearest to the centre of a cell int64 [N]."""
    point = (np.stack([cell % SIDE, cell // SIDE], 1) + 0.5) * (SIGHT_SIZE / SIDE)
    return np.linalg.norm(centres(boxes) - point[:, None], axis=-1).argmin(1)


def _rows(replies: list[str], looked_at: Scenes, blind: np.ndarray, unseen: list[str]) -> dict[str, dict[str, float]]:
    """Rows: each of the two words, names without a picture, and things found without a name."""
    words = [[*text.strip().rstrip(".").split(), "", "", ""][1:3] for text in replies]
    targets = [name.split() for name in looked_at.names]
    share = lambda at: float(np.mean([one[at] == other[at] for one, other in zip(words, targets, strict=True)]))  # noqa: E731
    off = np.mean([one == answer(name) for one, name in zip(unseen, looked_at.names, strict=True)])
    return {
        SAY: {"the colour right": share(0), "the noun right": share(1), "sight off": float(off)},
        FIND: {f"asked '{UNNAMED}'": float(blind.mean())},
    }


def _floors(context: Context, looked_at: Scenes, ahead: Scenes) -> dict[str, dict[str, float]]:
    """Baselines on raw pixels, which are told where each thing is.

    Classifiers of colours and of nouns, fitted apart on scenes of lessons; and the thing nearest to a known one of that
    colour and to a known one of that noun. (The nearest picture gives no name: its pair is one that lessons have.)
    """
    n = context.episodes(EXAMPLES)
    known = scenes(context, lesson_seeds(n, context.seed, "name", "floors"), TAUGHT, TAUGHT, np.ones(n, bool))
    rules = CutOuts.of(known)
    crops = looked_at.crops()[np.arange(len(looked_at.target)), looked_at.target]
    share = lambda fits: float((fits.argmax(1) == ahead.target).mean())  # noqa: E731
    found = {name: share(rule.fits(ahead.crops(), ahead.meant)) for name, rule in rules.items()}
    near = share(rules[CLASSIFIERS].likeness(ahead.crops(), ahead.meant))
    return {
        SAY: {name: float((rule.called(crops) == looked_at.meant).all(1).mean()) for name, rule in rules.items()},
        FIND: found | {"nearest neighbours on cut-out pixels": near},
    }


def _mistakes(drawn_scenes: Scenes, right: np.ndarray, replies: list[str]) -> tuple[Exhibit, ...]:
    wrong = np.flatnonzero(~right)[:6]
    return tuple(
        Exhibit(
            "failure",
            f"the {drawn_scenes.names[i]} in the middle, called '{replies[i].strip()}'",
            png=png(drawn_scenes.sight[i]),
        )
        for i in wrong
    )
