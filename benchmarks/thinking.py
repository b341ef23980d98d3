"""Score against time per move: simulations where the policy is uncertain, beside the same number for every move.

Positions are those of the exams: every one of tic-tac-toe, Pascal Pons' L2_R2 of Connect-4 (`--data`), otherwise
endings of games solved here. The score is the share of moves that lose none of the game's value. Simulations are summed
over all rounds of a move. Milliseconds are for moves asked one at a time, each by a judge with an empty cache, as in
play: CPU time of one thread, on the first `--timed` positions in a random order that all players share.

    OMP_NUM_THREADS=1 python benchmarks/thinking.py --agent DIR [--game connect4 --simulations 200 --data FOLDER]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from devmind.agent.agent import Agent
from devmind.agent.threads import stepping_threads
from devmind.curriculum.exam import Measure
from devmind.seeding import numpy_rng
from stages.reasoning.connect4.positions import judged
from stages.reasoning.games import CONNECT4, GAMES, OTHELLO, TICTACTOE, Judge
from stages.reasoning.judged import Judged, endings
from stages.reasoning.othello.exam import MADE
from stages.reasoning.solver import solve
from stages.reasoning.thinking import think

SURE = (0.5, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
SHARES = (0, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1)
"""Of the budget, that every move is given where there is no dial."""


def positions(game: str, data: Path | None, n: int, seed: int) -> Judged:
    """The positions in random order: at most `n`, but all of tic-tac-toe."""
    if game == TICTACTOE.name:
        solved = solve(TICTACTOE.rules)
        asked = np.flatnonzero(~solved.ended)
        one = Judged(TICTACTOE, "every position", solved.board.take(asked), solved.best[asked])
    else:
        one = judged(data, n, seed)[0] if game == CONNECT4.name else endings(OTHELLO, n, MADE, seed)
    order = numpy_rng("thinking", seed).permutation(len(one.best))
    return Judged(one.game, one.name, one.board.take(order), one.best[order])


def ms_a_move(agent: Agent, one: Judged, simulations: int, sure: float | None) -> float:
    """Mean over these positions, each thought about by itself."""
    began_s = time.process_time()
    for row in range(len(one.best)):
        think(Judge(agent, one.game), one.board.take([row]), simulations, sure)
    return 1000 * (time.process_time() - began_s) / len(one.best)


def row(agent: Agent, one: Judged, timed: int, simulations: int, sure: float | None) -> str:
    """One player, as a line of the table."""
    judge = Judge(agent, one.game)
    thought = think(judge, one.board, simulations, sure)
    kept = Measure(
        one.name, "", 1 - one.mistakes(thought.action), chance=1 - one.by_chance, ceiling=1.0, rate=True,
        exhaustive=one.game is TICTACTOE, episodes=None if one.game is TICTACTOE else one.episodes,
    )  # fmt: skip
    low, high = kept.interval()
    dial = "   -" if sure is None else f"{sure:4.2f}"
    return (
        f"{dial} {simulations:6} {kept.score:8.4f} [{low:.3f}, {high:.3f}] {thought.simulations.mean():9.1f} "
        f"{np.mean(thought.simulations == 0):8.2f} {ms_a_move(agent, one.first(timed), simulations, sure):8.1f}"
    )


def main() -> None:
    """Examine and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agent", type=Path, required=True, help="a milestone that has been through reasoning")
    parser.add_argument("--game", choices=sorted(GAMES), default=TICTACTOE.name)
    parser.add_argument("--simulations", type=int, default=32, help="the budget of a move")
    parser.add_argument("--data", type=Path, default=None, help="folder with games/connect4/*.tsv")
    parser.add_argument("--positions", type=int, default=400, help="number of positions; always all of tic-tac-toe")
    parser.add_argument("--timed", type=int, default=60, help="positions timed one at a time")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    agent = Agent.from_pretrained(options.agent).eval()
    one = positions(options.game, options.data, options.positions, options.seed)
    print(f"{options.game}, {one.name}: n {len(one.best)}, chance {1 - one.by_chance:.3f}; timed {options.timed}")
    print("sure budget    score         95 %   simulations at once  ms a move")
    with stepping_threads():
        ms_a_move(agent, one.first(3), 1, None)  # compilation and loading in the first moves do not count
        for budget in sorted({round(share * options.simulations) for share in SHARES}):
            print(row(agent, one, options.timed, budget, None), flush=True)
        for sure in SURE:
            print(row(agent, one, options.timed, options.simulations, sure), flush=True)


if __name__ == "__main__":
    main()
