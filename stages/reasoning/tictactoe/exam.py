"""The exam tictactoe: every position, and every game as either side, compared with a solver of the whole game."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from devmind.agent.agent import Agent
from devmind.curriculum.exam import Measure, Parts, in_parts
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.seeding import numpy_rng
from devmind.worlds.boards import MnkRules
from stages.reasoning import parts
from stages.reasoning.games import SIMULATIONS as FEW
from stages.reasoning.games import TICTACTOE, Judge, moves
from stages.reasoning.solver import SolvedGame, solve
from stages.reasoning.thinking import SURE, THINKING, think

GATE = Gate([Threshold("tictactoe", 1.0), Threshold("tictactoe/games", 1.0)])
SIMULATIONS = 128
GLIMPSE_PLIES = 4
"""A glimpse asks about positions of at most this many moves."""
ORDER = (4, 0, 2, 6, 8, 1, 3, 5, 7)
"""The cells in the rule's order: centre, corners, sides."""
TAUGHT, ALONE, UNTRAINED = "trained, with search", "network alone", "untrained, with search"
HASTY = f"trained, with {FEW} simulations"


@in_parts
def examine(agent: Agent, context: Context) -> Parts:
    """The share of positions played without losing value; except in a glimpse, also of games that are not lost."""
    game, whole = solve(TICTACTOE.rules), context.one_in == 1
    rows = np.flatnonzero(~game.ended & ((game.ply <= GLIMPSE_PLIES) | whole))
    judge = Judge(agent, TICTACTOE)
    choice = player_moves(game, judge, SIMULATIONS, rows)
    chance = game.best[rows].sum(-1) / (game.child[rows] >= 0).sum(-1)
    right = game.best[rows, choice[rows]]
    optimal = Measure(
        "tictactoe",
        "value-optimal",
        right,
        rows={TAUGHT: float(right.mean())},
        chance=float(chance.mean()),
        exhaustive=True,
        reference="perfect play: a solver of the whole game",
        note=f"{len(rows):,} positions: all{'' if whole else ' of few moves'}; {SIMULATIONS} simulations",
    )
    if not whole:
        yield [optimal]
        return
    not_lost = unlost(game, choice)
    games = Measure(
        "tictactoe/games",
        "not lost",
        not_lost,
        rows={TAUGHT: float(not_lost.mean())},
        chance=float(np.mean([(game.endings(side=side) >= 0).mean() for side in (0, 1)])),
        exhaustive=True,
        reference="perfect play never loses",
        note="every game as either side against all replies; chance counts all 255,168 games",
    )
    yield [optimal, games]
    thought = think(judge, game.board.take(rows), SIMULATIONS, SURE)
    players = {
        TAUGHT: choice,
        ALONE: player_moves(game, judge, 0, rows),
        HASTY: player_moves(game, judge, FEW, rows),
        THINKING: place_moves(game, rows, thought.action),
    }
    newborn = Judge(parts.untrained_agent(agent), TICTACTOE)
    floors = {
        "random": random(game, context.seed),
        "win, block, centre, corner": by_rule(game),
        UNTRAINED: player_moves(game, newborn, SIMULATIONS, rows),
    }
    share = {name: game.best[rows, moves[rows]] for name, moves in (players | floors).items()}
    unlost_share = {name: unlost(game, moves) for name, moves in (players | floors).items()}
    note = f"{optimal.note}, where unsure {thought.simulations.mean():.1f}"
    yield [
        replace(optimal, floors=_means(share, floors), rows=_means(share, players), note=note),
        replace(games, floors=_means(unlost_share, floors), rows=_means(unlost_share, players)),
    ]


def _means(values: dict[str, np.ndarray], names: Sequence[str] | dict[str, np.ndarray]) -> dict[str, float]:
    return {name: float(values[name].mean()) for name in names}


def player_moves(game: SolvedGame, judge: Judge, simulations: int, rows: np.ndarray) -> np.ndarray:
    """The moves int64 [n] of a player; 0 where it is not asked."""
    return place_moves(game, rows, moves(judge, game.board.take(rows), simulations))


def place_moves(game: SolvedGame, rows: np.ndarray, chosen_moves: np.ndarray) -> np.ndarray:
    """Moves `chosen_moves` in the positions `rows`, int64 [n] of all positions; 0 elsewhere."""
    choice = np.zeros(len(game), np.int64)
    choice[rows] = chosen_moves
    return choice


def unlost(game: SolvedGame, choice: np.ndarray) -> np.ndarray:
    """Whether each game as either side with these moves is not lost, bool [games]."""
    return np.concatenate([game.endings(choice, side) >= 0 for side in (0, 1)])


def random(game: SolvedGame, seed: int) -> np.ndarray:
    """A random legal move for each position, int64 [n]."""
    rng = numpy_rng(seed, "tictactoe", "random")
    return np.where(game.child >= 0, rng.random(game.child.shape), -1.0).argmax(-1)


def by_rule(game: SolvedGame) -> np.ndarray:
    """Win if possible, else block, else the centre, a corner, a side: int64 [n]."""
    rules, legal, marks = game.rules, game.child >= 0, game.board.marks
    assert isinstance(rules, MnkRules)
    lines = rules.lines
    score = np.zeros(game.child.shape)
    score[:, ORDER] = np.linspace(0.9, 0.1, len(ORDER))
    for player, worth in ((1, 10.0), (-1, 5.0)):
        two = (marks[:, lines] == player).sum(-1) == rules.k - 1
        for line, cells in enumerate(lines):
            score[:, cells] += worth * two[:, line, None]
    return np.where(legal, score, -1.0).argmax(-1)
