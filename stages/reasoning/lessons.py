"""The lessons of the stage in order, with the budgets of self-play: steps by size, minutes at size nursery.

Self-play teaches policy and value of a game. The costs of puzzle actions, and Q-learning, have lessons in folders of
their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from devmind.agent.agent import Agent
from devmind.curriculum.stage import Batches, Context, Lesson
from devmind.learners.gradient import slower
from devmind.learners.review import review
from devmind.seeding import numpy_rng
from devmind.worlds.minigrid import minigrid_installed
from stages.reasoning import parts
from stages.reasoning.explain import lesson as explain
from stages.reasoning.games import CONNECT4, OTHELLO, TICTACTOE, Game
from stages.reasoning.imagine import lesson as imagine
from stages.reasoning.judged import by_chance
from stages.reasoning.navigate import lesson as navigate
from stages.reasoning.procedures import lesson as procedures
from stages.reasoning.puzzles import lesson as puzzles
from stages.reasoning.selfplay import Play, SelfPlay, SelfPlayByMuon
from stages.reasoning.sliding import lesson as sliding
from stages.reasoning.values import lesson as values

STEPS: Mapping[str, Mapping[str, int]] = {
    "tictactoe": {"tiny": 30, "nursery": 180, "child": 300, "adult": 600},
    "connect4": {"tiny": 20, "nursery": 600, "child": 2000, "adult": 6000},
    "othello": {"tiny": 10, "nursery": 60, "child": 4000, "adult": 12000},
}
PLAY: Mapping[str, Play] = {
    "tictactoe": Play(games=40, again=40, opening=7, remembered=100),
    "connect4": Play(games=128, again=0, opening=24, capacity=100_000, rollouts=2000, by_glances=True),
    "othello": Play(games=32, again=16, opening=20, capacity=40_000),
}
"""Games begin anywhere in their first half, because good players meet few of the positions that an exam asks about.

At nursery the network does not play Connect-4. In the lesson's minutes it would find some 20,000 positions with values
that say little, while UCT of 2,000 random games judges one in 0.7 ms (docs/decisions.md, 2026-11-26).
"""
TINY_ROWS = 64
TINY: Mapping[str, Any] = {"games": 8, "again": 8, "simulations": 8, "remembered": 0}
TINY_ROLLOUTS = 40
"""Changes of `Play` at size tiny, which shows that everything runs and teaches nothing."""
CARD = ("child", "adult")
CARD_GAMES: Mapping[str, Play] = {
    "connect4": Play(games=1024, again=512, opening=24, capacity=120_000, by_glances=True)
}
CARD_ROWS, CARD_RATE = 3072, 5e-4
"""Rows and rate of CARD_GAMES, at the sizes for a graphics card. At nursery's rate, 2e-3, the policy of `child` learned
nothing in 300 s. Seven minutes of half a card with these rows and games brought the network alone from 0.448 to 0.263
of L2_R2; AdamW and one step of the sense brought it to 0.370 (docs/log.md, 2026-11-27).
"""
REVIEW = {"tiny": 5, "nursery": 520, "child": 2000, "adult": 6000}
"""Steps of the lesson `review`."""
FORMED: Mapping[str, float] = {f"encoders.{parts.POSITION}.": 0.3}
"""The share of its rate at which the sense of positions learns after the lessons that form it. Every game reads this
sense, and what one lesson changes in it is lost to the others (docs/log.md, 2026-11-25).
"""
OFTEN = frozenset({"tictactoe", "explain"})
"""Lessons that come twice in a round of the review: later lessons undid most of them (docs/log.md, 2026-11-24)."""


def lessons(context: Context) -> Sequence[Lesson]:
    """The lessons of the stage in order; they train nothing that an earlier stage uses.

    First come cells of rooms (if MiniGrid is installed), puzzles and values, with senses and heads that no later lesson
    changes. Two games then form the sense of positions. Another game, a learned model, procedures and sentences about
    lines of play change this sense little. Each lesson rehearses the earlier ones that it can undo; the review repeats
    all of these in turn.

    `explain` is last before the review: what is taught last is kept best, and `explain` asks for most.

    Each lesson has a control, also those of arcs, so the twin of `--ablate` learns everything of the stage anew.
    """
    rooms = [navigate.lesson(context)] if minigrid_installed() else []
    apart = [*rooms, puzzles.lesson(context), sliding.lesson(context), *values.lessons(context)]
    forming = [
        selfplay_lesson(context, TICTACTOE, rows=96, learning_rate=3e-3, minutes=1.2),
        selfplay_lesson(context, CONNECT4, rows=128, learning_rate=2e-3, minutes=7.0, rehearsal_every=2),
    ]
    formed = [
        # Enough games to play, but not to play well.
        selfplay_lesson(context, OTHELLO, rows=128, learning_rate=2e-3, minutes=1.6),
        imagine.lesson(context),
        procedures.lesson(context),
        explain.lesson(context),
    ]
    ordered, undone = [*apart], list[str]()
    for lesson in (*forming, *(slower(one, FORMED) for one in formed)):
        ordered.append(lesson)
        if lesson.name not in (imagine.NAME, procedures.NAME):  # these change neither the sense nor the trunk
            ordered[-1] = replace(lesson, rehearses=tuple(undone))
        if lesson.name != procedures.NAME:
            undone.append(lesson.name)
    turns = [*undone, *(name for name in undone if name in OFTEN)]
    steps = REVIEW[context.config.size]
    last = review(
        ordered,
        turns,
        steps=steps,
        minutes=0.5,
        learning_rate=1e-3,
        trains=parts.trained_weights,
        control=explain.WRITES,
    )
    return [*ordered, slower(last, FORMED)]


def selfplay_lesson(context: Context, game: Game, *, rows: int, learning_rate: float, **more: Any) -> Lesson:
    """A lesson of self-play, named after its game. The configuration may change its rows, its learning rate and, as
    options, all fields of `Play`.

    Args:
        rows: positions to learn from in an update; TINY_ROWS at size tiny, CARD_ROWS of CARD_GAMES at larger ones.
        more: further arguments of Lesson.
    """
    size, play = context.config.size, PLAY[game.name]
    if size == "tiny":
        rows, play = TINY_ROWS, replace(play, **TINY, rollouts=min(play.rollouts, TINY_ROLLOUTS))
    elif size in CARD and game.name in CARD_GAMES:
        rows, learning_rate, play = CARD_ROWS, CARD_RATE, CARD_GAMES[game.name]
    count, rate = context.changed(game.name, rows, learning_rate)
    fields = asdict(play)
    play = Play(**context.options(game.name, fields))

    def learner(agent: Agent, context: Context) -> SelfPlay:
        kind = SelfPlayByMuon if play.by_glances else SelfPlay
        return kind(agent, game, play, seed=context.seed, learning_rate=rate, trains=parts.trained_weights(agent))

    def batches(agent: Agent, context: Context, steps: int) -> Batches:
        return Batches(lambda update: {"update": update, "rows": context.rows(count)}, steps)

    return Lesson(
        game.name, learner, batches, STEPS[game.name][size], skills=(game.name,),
        settings=("batch", "learning_rate", *fields), control=(), **more,
    )  # fmt: skip


def lesson_episodes(context: Context, n: int, game: Game) -> np.ndarray:
    """Positions in which games of lessons begin, int64 [n]; the agent itself chooses the positions after these."""
    rng = numpy_rng("lesson", game.name, context.seed, "episodes")
    return game.canonical(by_chance(game, n, PLAY[game.name].opening, rng))[0]
