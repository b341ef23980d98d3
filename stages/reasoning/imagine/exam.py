"""The exam imagine: moves in tic-tac-toe and pushes of a cart, found by a search in the learned model.

The measures are reported, not gated. The question is what the search adds to the network alone. The rules give only the
moves that are legal now.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from devmind.acting import Policy, Senses
from devmind.acting.carts import MOST, balance_ticks, carts
from devmind.acting.rollout import Actions
from devmind.agent.agent import Agent
from devmind.curriculum.exam import Exam, Measure, Parts, in_parts
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds, lesson_seeds, numpy_rng
from stages.reasoning import parts
from stages.reasoning.games import TICTACTOE
from stages.reasoning.imagine.search import DOMAINS, choose_actions
from stages.reasoning.solver import SolvedGame, solve
from stages.reasoning.tictactoe.exam import GLIMPSE_PLIES, by_rule, place_moves, random
from stages.reasoning.values.exam import by_angle, episode_names

BOARD, GAMES, CARTPOLE = "imagine", "imagine/games", "imagine/cartpole"
EPISODES = 100
GATE = Gate([Threshold(name, None, beats_floor=True, goal=True) for name in (BOARD, GAMES, CARTPOLE)])
TAUGHT, ALONE, UNTAUGHT = "search in the learned model", "network alone", "untaught model"


def examine(agent: Agent, context: Context) -> Exam:
    """Every position and every game of tic-tac-toe, and carts of CartPole-v1."""
    return Exam.joined((_games(agent, context), _cartpole(agent, context)))


def lesson_episodes(context: Context, n: int) -> np.ndarray:
    """Carts as the lesson begins them, int64 [n]; of tic-tac-toe the exam asks every position."""
    seeds = lesson_seeds(n, context.seed, "imagine", "cartpole", "episodes")
    return episode_names(context.make_world("cartpole", "", seeds))


@in_parts
def _games(agent: Agent, context: Context) -> Parts:
    game, whole = solve(TICTACTOE.rules), context.one_in == 1
    rows = np.flatnonzero(~game.ended & ((game.ply <= GLIMPSE_PLIES) | whole))
    simulations = DOMAINS["tictactoe"].simulations
    choice = _played(agent, game, rows, simulations)
    chance = game.best[rows].sum(-1) / (game.child[rows] >= 0).sum(-1)
    optimal = Measure(
        BOARD, "value-optimal", game.best[rows, choice[rows]], chance=float(chance.mean()), ceiling=1.0,
        exhaustive=True, reference="a perfect player; search by the rules themselves: the skill tictactoe",
        note=f"{len(rows):,} positions; {simulations} simulations in a learned model",
    )  # fmt: skip
    if not whole:
        yield [optimal]
        return
    by_chance = np.concatenate([(game.endings(side=side) + 1) / 2 for side in (0, 1)])
    won = Measure(
        GAMES, "won 1, drawn 0.5", result(game, choice), chance=float(by_chance.mean()), ceiling=1.0,
        exhaustive=True, reference="a perfect player never loses",
        note="every game as either side against all replies, each counted once",
    )  # fmt: skip
    yield [optimal, won]
    others = {
        ALONE: _played(agent, game, rows, 0),
        UNTAUGHT: _played(parts.untrained_agent(agent), game, rows, simulations),
        "random": random(game, context.seed),
        "win, block, centre, corner": by_rule(game),
    }
    positions = {name: float(game.best[rows, moves[rows]].mean()) for name, moves in others.items()}
    games = {name: float(result(game, moves).mean()) for name, moves in others.items()}
    yield [replace(optimal, floors=positions), replace(won, floors=games)]


def _played(agent: Agent, game: SolvedGame, rows: np.ndarray, simulations: int) -> np.ndarray:
    """The moves int64 [n] of an agent; 0 where it is not asked."""
    domain, board = DOMAINS["tictactoe"], game.board.take(rows)
    observed = np.asarray(game.rules.observe(board)[domain.sense])
    return place_moves(
        game, rows, choose_actions(agent, domain, observed, domain.legal(game.rules, board), simulations)
    )


def result(game: SolvedGame, choice: np.ndarray) -> np.ndarray:
    """The result of every game as either side with these moves: won 1, drawn 0.5, lost 0, float [games]."""
    return np.concatenate([(game.endings(choice, side) + 1) / 2 for side in (0, 1)])


@in_parts
def _cartpole(agent: Agent, context: Context) -> Parts:
    n = context.episodes(EPISODES)
    seeds, simulations = exam_seeds(n, context.seed, CARTPOLE), DOMAINS["cartpole"].simulations
    measure = Measure(
        CARTPOLE, "return of CartPole-v1", balance_ticks(seeds, partial(_push, agent, simulations)), chance=22.0,
        ceiling=MOST, episodes=episode_names(carts(seeds)), reference="CartPole-v1 counts as solved at 475",
        note=f"{simulations} simulations in a learned model, on the body's numbers",
    )  # fmt: skip
    yield [measure]
    rng = numpy_rng(context.seed, CARTPOLE, "random")
    players: dict[str, Policy] = {
        ALONE: partial(_push, agent, 0),
        UNTAUGHT: partial(_push, parts.untrained_agent(agent), simulations),
        "random": lambda senses, first: {"push": rng.integers(0, 2, n)},
        "the sign of angle and turn": by_angle,
    }
    floors = {name: float(balance_ticks(seeds, policy).mean()) for name, policy in players.items()}
    yield [replace(measure, chance=floors["random"], floors=floors)]


def _push(agent: Agent, simulations: int, senses: Senses, first: np.ndarray) -> Actions:
    domain = DOMAINS["cartpole"]
    observed = np.asarray(senses[domain.sense])
    legal = np.ones((len(observed), domain.choices), bool)
    return {domain.effector: choose_actions(agent, domain, observed, legal, simulations)}
