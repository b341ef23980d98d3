"""Connect-4: moves that lose value by minutes of the lesson, beside AlphaZero.jl's iterations.

    OMP_NUM_THREADS=1 python benchmarks/connect4_curve.py --data FOLDER [--steps 300] [--every 60] [--positions 400]
        [--simulations 200] [--searched 1] [--agent DIR] [--sets L2_R2] [--device cuda] [--quick]

The stage's lesson `connect4` is taught alone, to a newborn of `--size` or to `--agent`, in `--steps` steps. Its
learning rates fall to zero by the last step, so a shorter lesson is not the beginning of a longer one. After every
`--every` steps, the search and the network alone answer positions of Pascal Pons' sets L2_R2, L3_R1, L1_R1
(`--positions 0`: all thousand of each). Searching takes a hundred times as long as asking the network alone, so
`--searched N` searches only at the first point, at every Nth point after it and at the last. Minutes are CPU time of
one thread without the exams; on a GPU (`--device cuda`) of the thread beside it. With `--steps 0` nothing is taught and
the agent is examined as it is.

Floors are measured on the same positions: the most central column, minimax of depth 5, the same search before any
teaching (step 0), and a search by rules alone, UCT with random games, with the same number of simulations and with the
same time per move as the agent (`--quick` omits the latter, which takes as long as the agent's search). AlphaZero.jl's
figures are read from a plot in its documentation (1.6 million parameters, 600 simulations, one to two hours an
iteration on an RTX 2070).
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from devmind import worlds
from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.agent.threads import intra_op_threads
from devmind.config import load
from devmind.curriculum.exam import wilson
from devmind.curriculum.examining import examination
from devmind.curriculum.machine import gflops
from devmind.curriculum.stage import Context
from devmind.errors import ConfigError
from devmind.worlds.boards import MnkRules
from stages.reasoning import parts
from stages.reasoning.connect4.exam import DEPTH, centre_most
from stages.reasoning.connect4.positions import FOLDER, SETS, load_positions, rated_positions
from stages.reasoning.games import CONNECT4
from stages.reasoning.judged import RatedPositions, mistakes
from stages.reasoning.lessons import lessons
from stages.reasoning.random_games import visits
from stages.reasoning.solver import minimax

ALL = 1000
ALPHAZERO: Mapping[str, Mapping[str, float]] = {
    "L2_R2": {"0": 0.11, "3": 0.075, "5": 0.038, "15": 0.027},
    "L3_R1": {"0": 0.010, "3": 0.003, "5": 0.0, "15": 0.0},
    "L1_R1": {"0": 0.037, "3": 0.007, "5": 0.0, "15": 0.0},
}
"""Mistakes after iterations of AlphaZero.jl; 0 is its untrained network with 600 simulations."""


def main() -> None:
    """Teach, examine and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with games/connect4/*.tsv; else ends of games, solved here")
    parser.add_argument("--agent", type=Path, metavar="DIR", help="agent to start from; default: a newborn of --size")
    parser.add_argument("--size", default="nursery")
    parser.add_argument("--steps", type=int, help="steps of the lesson; default: as many as the stage plans")
    parser.add_argument("--every", type=int, default=60, help="steps between two points of the curve")
    parser.add_argument("--positions", type=int, default=400, help="positions of each set; 0: all")
    parser.add_argument("--simulations", type=int, default=200)
    parser.add_argument("--searched", type=int, default=1, metavar="N", help="search at every Nth point and the last")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu", help="device of the network: cpu, cuda")
    parser.add_argument(
        "--quick", action="store_true", help="omit the random games that take as long as the agent's search"
    )
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS, help="sets of positions")
    parser.add_argument("--tiny", action="store_true", help="only show that everything runs, on two positions")
    asked = parser.parse_args()
    if asked.tiny:
        asked.size, asked.steps, asked.every, asked.positions, asked.simulations = "tiny", 1, 1, 2, 4
        asked.quick, asked.sets = True, ["L2_R2"]
    if min(asked.every, asked.simulations, asked.searched) < 1 or min(asked.positions, asked.steps or 0) < 0:
        raise ConfigError(
            "Expected one step between points, one simulation and one of --searched at least, and steps and positions "
            "of 0 and more."
        )
    with tempfile.TemporaryDirectory() as folder, intra_op_threads(1):
        curve(asked, Path(folder))


def curve(asked: argparse.Namespace, folder: Path) -> None:
    """Teach; print the points and the floors."""
    if asked.data is None:
        sets = rated_positions(None, asked.positions or ALL, asked.seed)
    else:
        sets = [
            load_positions(asked.data / FOLDER / f"{name}.tsv", asked.positions or ALL)
            for name in SETS
            if name in asked.sets
        ]
    names = [one.name for one in sets]
    size = Agent.from_pretrained(asked.agent).config.size if asked.agent else asked.size
    config = load(size, sets=[f"device={asked.device}", "threads=1", "loggers=[]"])
    context = Context(config, asked.seed, asked.device, folder, worlds.make)
    agent = Agent.from_pretrained(asked.agent) if asked.agent else Agent(AgentConfig(size=size, seed=asked.seed))
    parts.admit(agent)
    agent.to(asked.device)
    # As in a run of the stage: parts of earlier stages learn more slowly.
    agent.config.stages = [*(stage for stage in agent.config.stages if stage != parts.NAME), parts.NAME]
    lesson = next(one for one in lessons(context) if one.name == CONNECT4.name)
    steps = lesson.steps if asked.steps is None else asked.steps
    learner, batches = lesson.make_learner(agent, context), lesson.make_batches(agent, context, steps)
    learner.steps = steps
    n = len(sets[0].best)
    print(f"one core of {gflops():.0f} GFLOP/s (float32); {size}, seed {asked.seed}, {steps} steps; n {n} a set,")
    print(f"{asked.simulations} simulations; shares of moves that lose value: search / network alone")
    print(f"{'step':>5} {'CPU min':>8}  " + "  ".join(f"{name:>15}" for name in names), end="")
    print(f"   {names[0]}, search (or alone), 95 %")
    point(agent, sets, asked.simulations, 0, 0.0)
    points, spent_s = 1, 0.0
    for step in range(steps):
        begun_s = time.process_time()
        agent.train()
        torch.manual_seed(step)
        learner.update(batches.make(step), step)
        spent_s += time.process_time() - begun_s
        if (step + 1) % asked.every == 0 or step + 1 == steps:
            searches = step + 1 == steps or points % asked.searched == 0
            point(agent, sets, asked.simulations if searches else 0, step + 1, spent_s / 60)
            points += 1
    floors_of(agent, sets, asked)


def point(agent: Agent, sets: Sequence[RatedPositions], simulations: int, step: int, minutes: float) -> None:
    """Examine the agent and print a line of the table: mistakes of the search (with no simulations none) and of the
    network, and the interval of the first set."""
    with examination(agent):
        searched = {one.name: float(mistakes(one, agent, simulations).mean()) for one in sets if simulations}
        alone = {one.name: float(mistakes(one, agent, 0).mean()) for one in sets}
    n = len(sets[0].best)
    low, high = wilson(round(next(iter((searched or alone).values())) * n), n)
    cells = [f"{searched[name]:7.3f}" if searched else f"{'-':>7}" for name in alone]
    scores = "  ".join(f"{cell} /{share:6.3f}" for cell, share in zip(cells, alone.values(), strict=True))
    print(f"{step:5} {minutes:8.2f}  {scores}   [{low:.3f}, {high:.3f}]", flush=True)


def floors_of(agent: Agent, sets: Sequence[RatedPositions], asked: argparse.Namespace) -> None:
    """Print floors; none of them was taught."""
    rules = CONNECT4.rules
    assert isinstance(rules, MnkRules)
    budgets, note = [asked.simulations], ""
    if not asked.quick:
        of_a_move_s, as_long = as_long_as(agent, rules, sets[0].first(20), asked)
        budgets.append(as_long)
        note = f"(the second takes as long as the agent's search of a move, {1000 * of_a_move_s:.0f} ms of CPU time)\n"
    by_rules = {
        f"random games, {many:,} simulations": lambda one, many=many: visits(rules, one.board, many, asked.seed).argmax(
            -1
        )
        for many in budgets
    }
    players = {
        "centre-most column": centre_most,
        f"minimax depth {DEPTH}": lambda one: minimax(rules, one.board, DEPTH).argmax(-1),
        **by_rules,
    }
    found = {who: {one.name: float(one.mistakes(play(one)).mean()) for one in sets} for who, play in players.items()}
    found["by chance"] = {one.name: one.by_chance for one in sets}
    print(f"\n{'floors':42} " + "  ".join(f"{one.name:>7}" for one in sets))
    for who, each in found.items():
        print(f"{who:42} " + "  ".join(f"{each[one.name]:7.3f}" for one in sets))
    print(note)
    for iteration in ALPHAZERO["L2_R2"]:
        shares = "  ".join(f"{ALPHAZERO[one.name][iteration]:7.3f}" for one in sets if one.name in ALPHAZERO)
        print(f"{f'AlphaZero.jl, iteration {iteration}':42} {shares}", flush=True)


def as_long_as(agent: Agent, rules: MnkRules, some: RatedPositions, asked: argparse.Namespace) -> tuple[float, int]:
    """CPU seconds of the agent's search of a move, and how many random games take as long."""
    begun_s = time.process_time()
    with examination(agent):
        for row in range(len(some.best)):
            mistakes(RatedPositions(CONNECT4, "", some.board.take([row]), some.best[[row]]), agent, asked.simulations)
    of_a_move_s = (time.process_time() - begun_s) / len(some.best)
    visits(rules, some.board, 10, asked.seed)
    begun_s = time.process_time()
    visits(rules, some.board, 2000, asked.seed)
    return of_a_move_s, max(1, round(2000 * len(some.best) * of_a_move_s / (time.process_time() - begun_s)))


if __name__ == "__main__":
    main()
