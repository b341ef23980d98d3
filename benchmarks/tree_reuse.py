"""Network evaluations per move in games of Connect-4, with a new tree for each move and with the last tree's subtree.

    OMP_NUM_THREADS=1 python benchmarks/tree_reuse.py [--agent DIR] [--games 4] [--simulations 64]

The agent plays both sides by Gumbel search, from openings of four random moves that all players share. No evaluation is
cached between calls, so each one is counted; positions that a tree still holds are not evaluated again.

- **new**: each move has a new tree.
- **reused**: each search makes as many simulations on the subtree of the moves that were made, so its root has more.
- **filled up**: it makes only the simulations that the subtree lacks (at least one), so it evaluates less.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.agent.threads import intra_op_threads
from devmind.algorithms.tree_search import Tree, rerooted
from devmind.seeding import numpy_rng
from devmind.worlds.boards import Board
from stages.reasoning import parts
from stages.reasoning.games import CONNECT4, Judge, search_by

OPENING = 4
RULES = CONNECT4.rules


class Counted:
    """Judges boards by an agent without a cache, and counts them in `asked`."""

    def __init__(self, agent: Agent) -> None:
        self.agent, self.asked = agent, 0

    def __call__(self, board: Board) -> tuple[np.ndarray, np.ndarray]:
        judge = Judge(self.agent, CONNECT4)
        found = judge(board)
        self.asked += judge.asked
        return found


def opened(number: int) -> Board:
    """A game after its opening."""
    rng, board = numpy_rng("tree reuse", number), RULES.initial(np.zeros(1))
    for _ in range(OPENING):
        among = np.where(RULES.legal(board)["place"], rng.random((1, RULES.choices)), -1)
        board = RULES.step(board, {"place": among.argmax(-1)})
    return board


def played(agent: Agent, games: int, simulations: int, player: str) -> tuple[int, int, int, int]:
    """Evaluations, visits of roots, visits that were there before, and moves, of some games."""
    judge, visits, kept, moves = Counted(agent), 0, 0, 0
    for number in range(games):
        board, tree = opened(number), None
        while not RULES.outcome(board).terminal[0]:
            there = 0 if tree is None else int(tree.nodes.child_visits[:, 0].sum())
            budget = simulations if player != "filled up" else max(1, simulations - there)
            found = search_by(RULES, judge, board, budget, tree=tree)  # type: ignore[arg-type]
            visits, kept, moves = visits + int(found.visits.sum()), kept + there, moves + 1
            board = RULES.step(board, {"place": found.action})
            tree = followed(found.tree, found.action) if player != "new" else None
    return judge.asked, visits, kept, moves


def followed(tree: Tree[Board], action: np.ndarray) -> Tree[Board] | None:
    """The part of a tree that is kept; None where that is empty."""
    below = rerooted(tree, action)
    return below if below.size[0] else None


def main() -> None:
    """Play and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agent", type=Path, metavar="DIR", help="default: an untaught agent of size nursery")
    parser.add_argument("--games", type=int, default=4)
    parser.add_argument("--simulations", type=int, default=64, help="simulations per move")
    args = parser.parse_args()
    if args.agent is None:
        agent = Agent(AgentConfig(size="nursery"))
        parts.admit(agent)
    else:
        agent = Agent.from_pretrained(args.agent)
    print(f"a move of Connect-4, {args.simulations} simulations")
    print(f"{'tree':10} {'moves':>6} {'evaluations':>12} {'visits':>8} {'kept':>7}")
    with intra_op_threads(1):
        for player in ("new", "reused", "filled up"):
            asked, visits, kept, moves = played(agent.eval(), args.games, args.simulations, player)
            print(f"{player:10} {moves:6} {asked / moves:12.1f} {visits / moves:8.1f} {kept / moves:7.1f}", flush=True)


if __name__ == "__main__":
    main()
