"""The skill `converse`: games with the caregiver about pairs that no lesson showed.

One is won by pointing at what she means, and by asking when, and only when, her words leave it open. Whether it asks
what a thing is that nobody ever named stands beside it (`asking.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from devmind.agent.agent import Agent
from devmind.agent.batch import Batch, collate_tick
from devmind.agent.writing import Conversation
from devmind.algorithms.calibration import calibration_error
from devmind.curriculum.episodes import identities
from devmind.curriculum.exam import Exhibit, Measure
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds, lesson_seeds, numpy_rng
from stages.language.answering import TOGETHER, png
from stages.language.caregiver.scene import HELD_OUT, PAIRS, TAUGHT, name_of
from stages.language.converse import asking
from stages.language.converse.asking import ASKS
from stages.language.converse.games import SAID, Games, games
from stages.language.converse.lesson import THERE, WHICH, repaired
from stages.language.hand_rules import CutOuts
from stages.language.name.exam import EXAMPLES, nearest
from stages.language.name.scenes import THINGS, scenes
from stages.language.new_words import lesson as new_words_lesson
from stages.language.parts import POINT, SIGHT, TEXT

CONVERSE = "converse"
GATE = Gate([Threshold(CONVERSE, 0.90), Threshold(ASKS, 0.90, goal=True)])
EPISODES = 500
LONGEST = len(WHICH) + 4
CHANCE = 1 / (2 * THINGS)
NOTE = "right when the thing she means is pointed at, and it asked if, and only if, her first words fit several things"


@dataclass
class Played:
    """How N games went: whether it asked, how sure it was that it must, and which thing it pointed at in the end."""

    asked: np.ndarray
    sure: np.ndarray
    found: np.ndarray

    def won(self, shown: Games) -> np.ndarray:
        """One value a game, float64 [N]."""
        return ((self.found == shown.target) & (self.asked == ~shown.clear)).astype(float)


def examine(agent: Agent, context: Context, level: str) -> Sequence[Measure]:
    """One value a game; the floors are two rules that are told where each thing is, and play with one habit each."""
    n = context.episodes(EPISODES if level != "glimpse" else EPISODES // 5)
    full = level == "full"
    shown = games(context, exam_seeds(n, context.seed, CONVERSE), HELD_OUT, PAIRS)
    played = play(agent, shown)
    won = played.won(shown)
    return [
        Measure(
            CONVERSE, "games won", won, CHANCE, 1.0, _floors(context, shown) if full else {}, rate=True, note=NOTE,
            episodes=identities({SIGHT: shown.sight, TEXT: shown.openings}),
            rows=_rows(agent, shown, played) if full else {},
            exhibits=_lost(shown, played, won) if full else (),
        ),
        *asking.measures(agent, context, level),
    ]  # fmt: skip


def shown_in_lessons(context: Context, n: int) -> np.ndarray:
    """Pictures and first words of lessons' games, and lives of lessons, int64 [about 2 n]."""
    seeds = lesson_seeds(n, context.seed, CONVERSE, "episodes")
    every = [games(context, part, TAUGHT, TAUGHT) for part in np.array_split(seeds, -(-n // 1000))]
    met = [identities({SIGHT: one.sight, TEXT: one.openings}) for one in every]
    return np.concatenate([*met, new_words_lesson.taught(context, n)])


def play(agent: Agent, shown: Games) -> Played:
    """Each game by the agent: her first words, what it writes behind them, and her answer where it asked."""
    parts = [_played(agent, shown, rows) for rows in _parts(len(shown.target))]
    return Played(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("asked", "sure", "found")))


def _parts(n: int) -> list[np.ndarray]:
    return np.array_split(np.arange(n), -(-n // TOGETHER))


def _played(agent: Agent, shown: Games, rows: np.ndarray) -> Played:
    talk = Conversation(agent, len(rows))
    first = talk.turn(heard(shown, rows, shown.openings, first=True), LONGEST, [POINT])
    asked = np.array([text.strip().startswith("which") for text in first.texts])
    found = _thing(first.outputs[POINT].mode().cpu().numpy(), shown, rows)
    told = ["yes."] * len(shown.target)
    for row in rows[asked]:
        told[row] = shown.completions[row]
    second = talk.turn(heard(shown, rows, told), LONGEST, [POINT])
    then = _thing(second.outputs[POINT].mode().cpu().numpy(), shown, rows)
    return Played(asked, np.where(asked, first.sure, 1 - np.array(first.sure)), np.where(asked, then, found))


def heard(shown: Games, rows: np.ndarray, words: Sequence[str], first: bool = False) -> Batch:
    """A turn of hers in these of the games: the picture, and her words."""
    return collate_tick({SIGHT: shown.sight[rows], TEXT: [words[row] for row in rows]}, np.full(len(rows), first))


def _thing(cell: np.ndarray, shown: Games, rows: np.ndarray) -> np.ndarray:
    """Which thing lies nearest to the cell pointed at, int64 [n]."""
    return nearest(cell, shown.boxes[rows])


def put_right(agent: Agent, shown: Games, before: bool = True) -> np.ndarray:
    """Where her words left it open and it did not ask: whether "no, the red one." makes it find what she means, float64
    [M] of M such games; all of them are made so, whatever it would have answered.

    Args:
        before: False takes the first turn away, so that nobody can know both words.
    """
    right = list[np.ndarray]()
    for rows in _parts(len(shown.target)):
        rows, talk = rows[~shown.clear[rows]], Conversation(agent, int((~shown.clear[rows]).sum()))
        if before:
            talk.turn(heard(shown, rows, [f"{said}{THERE}" for said in shown.openings], first=True), 0)
        turn = talk.turn(
            heard(shown, rows, [repaired(said) for said in shown.completions], first=not before), 0, [POINT]
        )
        right.append(_thing(turn.outputs[POINT].mode().cpu().numpy(), shown, rows) == shown.target[rows])
    return np.concatenate(right).astype(float)


def _rows(agent: Agent, shown: Games, played: Played) -> dict[str, float]:
    """What its score is made of, and what is won by who is shown black pictures."""
    opened, found = ~shown.clear, played.found == shown.target
    return {
        "asked where the words left it open": float(played.asked[opened].mean()),
        "asked where they did not": float(played.asked[~opened].mean()),
        "calibration error of asking": calibration_error(played.sure, opened),
        "found where it asked": float(found[played.asked].mean()) if played.asked.any() else 0.0,
        "found where it did not": float(found[~played.asked].mean()) if not played.asked.all() else 0.0,
        "put right by 'no, the ...'": float(put_right(agent, shown).mean()),
        "the same without the first turn": float(put_right(agent, shown, before=False).mean()),
        "sight off": float(play(agent, replace(shown, sight=np.zeros_like(shown.sight))).won(shown).mean()),
    }


def _floors(context: Context, shown: Games) -> dict[str, float]:
    """Two classifiers on cut-out pixels, fitted on lessons' scenes apart, say which things her words fit."""
    n = context.episodes(EXAMPLES)
    known = scenes(context, lesson_seeds(n, context.seed, CONVERSE, "floors"), TAUGHT, TAUGHT, np.ones(n, bool))
    crops = shown.crops()
    called = CutOuts.of(known).called(crops.reshape(-1, crops.shape[-1])).reshape(shown.pairs.shape)
    meant = shown.pairs[np.arange(len(shown.target)), shown.target][:, None]
    rng = numpy_rng(context.seed, CONVERSE, "rules")
    said = np.array([[word in words for word in (0, 1)] for words, _, _ in SAID])[shown.kind][:, None]
    alike = called == meant
    fits, whole = (alike | ~said).all(-1), alike.all(-1)

    def one_of(fit: np.ndarray) -> np.ndarray:
        return np.where(fit, 1 + rng.random(fit.shape), rng.random(fit.shape)).argmax(-1)

    several, guess, told = fits.sum(-1) > 1, one_of(fits), one_of(whole)
    habits = {"never asks": np.zeros_like(several), "always asks": ~np.zeros_like(several), "asks": several}
    right = {habit: Played(asks, asks, np.where(asks, told, guess)).won(shown) for habit, asks in habits.items()}
    names = {
        "never asks": "two classifiers on cut-out pixels that never ask",
        "always asks": "two classifiers on cut-out pixels that always ask",
        "asks": "two classifiers on cut-out pixels that ask where several fit",
    }
    return {names[habit]: float(value.mean()) for habit, value in right.items()}


def _lost(shown: Games, played: Played, won: np.ndarray) -> tuple[Exhibit, ...]:
    names = [[name_of(*pair) for pair in pairs] for pairs in shown.pairs.tolist()]
    return tuple(
        Exhibit(
            "failure",
            f"'{shown.openings[i]}' It {'asked' if played.asked[i] else 'did not ask'} and pointed at the "
            f"{names[i][played.found[i]]}; the {names[i][shown.target[i]]} was meant",
            png=png(shown.sight[i]),
        )
        for i in np.flatnonzero(won == 0)[:6]
    )
