"""Positions whose moves a solver has judged: of ends of games solved here, or read from files. Exams ask about them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from devmind.agent.agent import Agent
from devmind.seeding import EXAM_SEEDS_FROM, numpy_rng
from devmind.worlds.boards import Board
from stages.reasoning.games import Game, Judge, moves
from stages.reasoning.solver import solve

TOGETHER = 100
"""Ends of games that are solved at once."""


@dataclass(frozen=True)
class RatedPositions:
    """N positions and their best moves.

    Attributes:
        name: of the set.
        board: the positions, all unfinished.
        best: bool [N, choices], moves that lose none of the game's value (won, drawn, lost).
    """

    game: Game
    name: str
    board: Board
    best: np.ndarray

    @property
    def episodes(self) -> np.ndarray:
        """The identity of each position, int64 [N]; a position and its mirror image are the same."""
        return self.game.canonical(self.board.marks)[0]

    def first(self, n: int) -> RatedPositions:
        """The first `n` positions, at least one."""
        return RatedPositions(self.game, self.name, self.board.take(slice(max(1, n))), self.best[: max(1, n)])

    def mistakes(self, moves: np.ndarray) -> np.ndarray:
        """Which of these moves int64 [N] lose value, float [N]."""
        return 1.0 - self.best[np.arange(len(self.best)), moves]

    @property
    def by_chance(self) -> float:
        """The share of mistakes of random legal moves."""
        legal = self.game.rules.legal(self.board)["place"]
        return float(1 - (self.best.sum(-1) / legal.sum(-1)).mean())


def mistakes(one: RatedPositions, agent: Agent, simulations: int) -> np.ndarray:
    """Which of an agent's moves lose value, float [N]."""
    return one.mistakes(moves(Judge(agent, one.game), one.board, simulations))


def endings(game: Game, n: int, moves: int, seed: int) -> RatedPositions:
    """`n` different positions after `moves` random moves, solved exactly; in each some moves lose value."""
    rng, rules = numpy_rng("exam", EXAM_SEEDS_FROM, game.name, seed), game.rules
    boards, best = list[Board](), list[np.ndarray]()
    while sum(map(len, boards)) < n:
        starts = rules.of(rng.permutation(np.unique(by_chance(game, min(n, TOGETHER), moves, rng), axis=0)))
        solved = solve(rules, starts)
        here = np.arange(len(starts))
        matters = solved.best[here].sum(-1) < rules.legal(starts)["place"].sum(-1)
        boards.append(starts.take(here[matters]))
        best.append(solved.best[here[matters]])
    return RatedPositions(game, "endings", Board.concat(boards).take(slice(n)), np.concatenate(best)[:n])


def by_chance(game: Game, n: int, moves: int, rng: np.random.Generator) -> np.ndarray:
    """Marks int8 [about n, cells] of games that are unfinished after `moves` random moves."""
    rules = game.rules
    boards = np.zeros((0, rules.cells), np.int8)
    while len(boards) < n:
        board = rules.initial(np.zeros(8 * n))
        for _ in range(moves):
            among = np.where(rules.legal(board)["place"], rng.random((len(board), rules.choices)), -1)
            board = rules.step(board, {"place": among.argmax(-1)})
            board = board.take(~rules.outcome(board).terminal)
        boards = np.concatenate([boards, board.marks])
    return boards[:n]
