"""Thinking before acting: the agent searches where its policy is unsure, and moves at once where it is sure.

The dial `sure` is a probability. A move is made as soon as the policy gives one action that much. The check comes
before any search (the network's own policy) and after each round of it (the improved policy `Found.weights`), so
simulations go to positions whose best moves are close. Each round is a search of its own, with several times the
simulations of the one before, because sequential halving divides a budget that is known at the start. A `Judge` keeps
the network's answers from round to round, so only the trees grow anew. At a table, which keeps the trees too, a round
continues the tree of the one before.
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
"""The name of this player as a row of an exam."""
LEAST, GROWTH = 4, 4
"""The least simulations of the first round, and the factor from round to round."""


Search = Callable[[Judge, Board, int], Found[Board]]
"""A search from B positions with a number of simulations."""


@dataclass(frozen=True)
class Thought:
    """The result of thinking about B positions.

    Attributes:
        action: int64 [B], the move.
        simulations: int64 [B], of all rounds together; 0: moved at once.
        value: float [B], the expected value to the player to move; exact where `proven` bool [B].
        sure: float [B], the probability of the likeliest action in the last policy that was asked.
        policy: float [B, choices], of the network alone.
        visits: int64 [B, choices], of the last round, and of the tree that it continued.
        q: float [B, choices], of visited moves to the player who makes them; exact where `known` bool [B, choices].
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
    """Find the moves of B unfinished positions; each is treated as if it were alone.

    Args:
        simulations: of the last round, at most; 0: the network alone answers.
        sure: probability of a move from which it is made without (further) search; None: always one search of all
            simulations.
        by: the search: exams search anew in each round, a table continues the earlier tree.

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
        result = by(judge, board.take(left), budget)
        thought.action[left], thought.value[left], thought.proven[left] = (
            result.action,
            result.value,
            result.proven,
        )
        thought.simulations[left] += result.simulations
        thought.visits[left], thought.q[left] = result.visits, result.q
        thought.known[left] = legal[left] & (result.tree.nodes.child_lower[:, 0] == result.tree.nodes.child_upper[:, 0])
        thought.sure[left] = np.where(result.proven, 1.0, result.weights.max(-1))
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
            "With 0 simulations the network alone answers, so a threshold of its probability has no effect: "
            "give one of the two, or a budget of one simulation and more."
        )


def rounds(simulations: int) -> list[int]:
    """Budgets of the rounds, growing up to `simulations`: [8, 32] for 32, [12, 50, 200] for 200."""
    budgets = [simulations]
    while budgets[0] // GROWTH >= LEAST:
        budgets.insert(0, budgets[0] // GROWTH)
    return budgets
