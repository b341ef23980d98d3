"""The lessons of the stage in order, and the budgets of those of self-play: steps by size, minutes of nursery.

Self-play teaches policy and value of a game; what a press or a move of a puzzle costs, and what Q-learning
teaches, has a lesson in a folder of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np

from devmind.agent.agent import Agent
from devmind.curriculum.stage import Batches, Context, Lesson
from devmind.learners.gradient import slower
from devmind.learners.review import review
from devmind.seeding import numpy_rng
from devmind.worlds.minigrid import installed
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
    "tictactoe": Play(games=40, again=40, opening=7, remembered=100, careful=128),
    "connect4": Play(
        games=128,
        again=0,
        opening=24,
        capacity=100_000,
        by="rollouts",
        rollouts=2000,
        tempered=3,
        moves=4,
        handed=True,
        glances=8,
        muon=True,
    ),
    "othello": Play(games=32, again=16, opening=20, capacity=40_000),
}
"""Games begin anywhere in their first half: good players meet few of the positions that an exam asks about.

Connect-4 is not played by the network at nursery: in its minutes that finds some 20,000 positions with values that say
little, and UCT of 2,000 random games judges one in 0.7 ms (docs/decisions.md, 2026-11-26)."""
TINY_ROWS = 64
TINY: Mapping[str, Any] = {
    "games": 8, "again": 8, "simulations": 8, "rollouts": 40, "glances": 4, "remembered": 0, "careful": 0
}  # fmt: skip
"""Of games at size tiny, which shows that all of it runs and teaches nothing."""
CARD = ("child", "adult")
CARD_GAMES: Mapping[str, Play] = {
    "connect4": Play(
        games=1024, again=512, opening=24, capacity=120_000, handed=True, glances=8, muon=True
    )
}  # fmt: skip
CARD_ROWS, CARD_RATE = 3072, 5e-4
"""Of these games at the sizes that take a graphics card. At nursery's rate, 2e-3, the policy of `child` learned nothing
in 300 s. In seven minutes of half a card so many rows and games brought the network alone from 0.448 to 0.263 of L2_R2,
by AdamW and one step of the sense to 0.370 (docs/log.md, 2026-11-27)."""
REVIEW = {"tiny": 5, "nursery": 520, "child": 2000, "adult": 6000}
"""Steps of the lesson `review`."""
FORMED: Mapping[str, float] = {f"encoders.{parts.POSITION}.": 0.3}
"""At what share of their rate the sense of positions learns in lessons behind those that form it: all games read it,
and what each lesson bends it to is undone in the others (docs/log.md, 2026-11-25)."""
OFTEN = frozenset({"tictactoe", "explain"})
"""What a review goes over twice in a round: later lessons undid most of these (docs/log.md, 2026-11-24)."""


def lessons(context: Context) -> Sequence[Lesson]:
    """What cells hold, which needs MiniGrid, puzzles, and values: senses and heads of their own, which nothing behind
    them changes. Two games, which form the sense of positions; another one, a learned model, procedures and a line of
    play in words, by which that sense is changed little; each rehearsing those before it that it can undo; then all of
    these in turn. Nothing is trained that an earlier stage uses.

    `explain` is last before the review, as what is taught last is kept best and it asks for most.

    Each has a control, those of arcs too: so all that the stage has taught begins anew in the twin of `--ablate`.
    """
    seen = [navigate.lesson(context)] if installed() else []
    apart = [*seen, puzzles.lesson(context), sliding.lesson(context), values.lesson(context)]
    forming = [
        selfplay_lesson(context, TICTACTOE, rows=96, learning_rate=3e-3, minutes=1.2),
        selfplay_lesson(context, CONNECT4, rows=128, learning_rate=2e-3, minutes=7.0, rehearsal_every=2),
    ]
    formed = [
        # Enough games to play, not to play well.
        selfplay_lesson(context, OTHELLO, rows=128, learning_rate=2e-3, minutes=1.6),
        imagine.lesson(context),
        procedures.lesson(context),
        explain.lesson(context),
    ]
    found: list[Lesson] = []
    for lesson in (*apart, *forming, *(slower(one, FORMED) for one in formed)):
        before = lesson.rehearses or tuple(one.name for one in found if not one.unrehearsed)
        found.append(replace(lesson, rehearses=before, undoes_earlier=False))
    undone = [lesson.name for lesson in found if not lesson.unrehearsed]
    turns = [*undone, *(name for name in undone if name in OFTEN)]
    steps = REVIEW[context.config.size]
    last = review(
        found, turns, steps=steps, minutes=0.5, learning_rate=1e-3, trains=parts.trained,
        control_trains=explain.trained_without_trunk,
    )  # fmt: skip
    return [*found, replace(slower(last, FORMED), undoes_earlier=False)]


def selfplay_lesson(context: Context, game: Game, *, rows: int, learning_rate: float, **more: Any) -> Lesson:
    """A lesson of self-play, named as its game; the configuration may change its rows, its learning rate, and how it is
    played (fields of `Play`, as options).

    Args:
        rows: positions to learn from in an update; TINY_ROWS at size tiny, CARD_ROWS of CARD_GAMES at larger ones.
        more: further arguments of Lesson.
    """
    size, play = context.config.size, PLAY[game.name]
    if size == "tiny":
        rows, play = TINY_ROWS, replace(play, **TINY)
    elif size in CARD and game.name in CARD_GAMES:
        rows, learning_rate, play = CARD_ROWS, CARD_RATE, CARD_GAMES[game.name]
    count, rate = context.changed(game.name, rows, learning_rate)
    fields = asdict(play)
    play = Play(**context.options(game.name, fields))

    def learner(trains: Callable[[Agent], Sequence[str]], agent: Agent, context: Context) -> SelfPlay:
        kind = SelfPlayByMuon if play.muon else SelfPlay
        return kind(agent, game, play, seed=context.seed, learning_rate=rate, trains=trains(agent))

    def batches(agent: Agent, context: Context, steps: int) -> Batches:
        return Batches(lambda update: {"update": update, "rows": context.rows(count)}, steps)

    return Lesson(
        game.name, partial(learner, parts.trained), batches, STEPS[game.name][size], skills=(game.name,),
        options=tuple(fields), control=partial(learner, parts.trained_without_trunk), **more,
    )  # fmt: skip


def taught(context: Context, n: int, game: Game) -> np.ndarray:
    """Positions that games of lessons begin with, int64 [n]: what is met further on is the agent's own choice."""
    rng = numpy_rng("lesson", game.name, context.seed, "episodes")
    return game.canonical(by_chance(game, n, PLAY[game.name].opening, rng))[0]
