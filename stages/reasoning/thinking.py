"""Thinking before acting: a move is searched for where the policy is unsure, and made at once where it is sure.

One dial, `sure`, between 0 and 1: a move is made as soon as the policy gives one action so much. It is asked before any
search (the network's own policy) and after each round of it (the policy that the search has improved, `Found.weights`),
so simulations go where the best moves are close. Rounds are searches of their own, each with several times the
simulations of the one before: sequential halving divides a budget that it is told at the start. What the network has
said of a position is kept from round to round (`Judge`), so only the trees are grown anew; at a table, which keeps
those too, a round goes on with that of the one before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from devmind.algorithms.selection import softmax
from devmind.algorithms.tree_search import Found
from devmind.errors import ConfigError
from devmind.worlds.boards import Board
from stages.reasoning.games import Judge, search

SURE = 0.9
"""The dial in exams."""
THINKING = "trained, searching where unsure"
"""The player of this file, as a row of an exam."""
LEAST, GROWTH = 4, 4
"""Simulations of the first round, at least, and how many times more the next one has."""


Search = Callable[[Judge, Board, int], Found[Board]]
"""What is found from B positions with so many simulations."""


@dataclass(frozen=True)
class Thought:
    """What was thought of B positions.

    Attributes:
        action: int64 [B], the move.
        simulations: int64 [B], of all rounds together; 0: made at once.
        value: float [B], what is expected, to the player to move; exact where `proven` bool [B].
        sure: float [B], what the last policy that was asked gives its likeliest action.
        policy: float [B, choices], what the network alone gives each move.
        visits: int64 [B, choices], of the last round, and of what it went on with.
        q: float [B, choices], of visited moves to who makes them, exact where `known` bool [B, choices].
    """

    action: np.ndarray
    simulations: np.ndarray
    value: np.ndarray
    proven: np.ndarray
    sure: np.ndarray
    policy: np.ndarray
    visits: np.ndarray
    q: np.ndarray
    known: np.ndarray


def think(judge: Judge, board: Board, simulations: int, sure: float | None = None, by: Search = search) -> Thought:
    """The moves of B positions that have not ended; each position is thought about as if alone.

    Args:
        simulations: of the last round, at most; 0: the network alone answers.
        sure: from what probability of one move on it is made without (further) search; None: one search of all
            simulations, however sure.
        by: how positions are searched: in exams anew in each round, at a table on from what was found before.

    Raises:
        ConfigError: `sure` is not above 0 and at most 1, the budget is below 0, or there is a dial and no budget.
    """
    check(simulations, sure)
    logits, value = judge(board)
    legal = judge.game.rules.legal(board)["place"]
    policy = softmax(logits, legal)
    n, nothing = len(policy), np.zeros(policy.shape)
    thought = Thought(
        policy.argmax(-1), np.zeros(n, np.int64), value.copy(), np.zeros(n, bool), policy.max(-1),
        policy, nothing.astype(np.int64), nothing, nothing.astype(bool),
    )  # fmt: skip
    enough = np.inf if sure is None else sure
    left = np.flatnonzero(thought.sure < enough)
    for budget in rounds(simulations) if sure is not None else [simulations] * (simulations > 0):
        if not len(left):
            break
        found = by(judge, board.take(left), budget)
        thought.action[left], thought.value[left], thought.proven[left] = found.action, found.value, found.proven
        thought.simulations[left] += found.simulations
        thought.visits[left], thought.q[left] = found.visits, found.q
        thought.known[left] = legal[left] & (found.tree.child_lower[:, 0] == found.tree.child_upper[:, 0])
        thought.sure[left] = np.where(found.proven, 1.0, found.weights.max(-1))
        left = left[thought.sure[left] < enough]
    return thought


def check(simulations: int, sure: float | None) -> None:
    """Refuse budgets and dials that mean nothing, with a sentence."""
    if simulations < 0:
        raise ConfigError(f"A budget is 0 simulations (the network alone) or more; got {simulations}.")
    if sure is None:
        return
    if not 0 < sure <= 1:
        raise ConfigError(
            f"How sure a policy has to be is a probability above 0 and at most 1, such as 0.9; got {sure}."
        )
    if not simulations:
        raise ConfigError(
            "With 0 simulations the network alone answers, so how sure it has to be decides nothing: "
            "give one of the two, or a budget of one simulation and more."
        )


def rounds(simulations: int) -> list[int]:
    """Budgets of searches, growing up to `simulations`: [8, 32] of 32, [12, 50, 200] of 200."""
    budgets = [simulations]
    while budgets[0] // GROWTH >= LEAST:
        budgets.insert(0, budgets[0] // GROWTH)
    return budgets
