"""Connect-4: moves that lose value by minutes of the lesson, beside AlphaZero.jl's iterations; a table and an SVG.

    OMP_NUM_THREADS=1 python benchmarks/connect4_curve.py --data FOLDER [--steps 300] [--every 60] [--positions 400]
        [--simulations 200] [--searched 1] [--agent DIR] [--out curve.svg] [--folder DIR [--minutes 10]] [--sets L2_R2]
        [--device cuda] [--quick]

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

The whole run takes hours on one core. With `--folder` the state is saved after every point, so a stopped run resumes
there, bit for bit. `--minutes` ends a part at the first point after that many CPU minutes of teaching, and the same
command continues.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from devmind import worlds
from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.agent.threads import intra_op_threads
from devmind.checkpointing import bundle
from devmind.config import load
from devmind.curriculum.exam import wilson
from devmind.curriculum.examining import examination
from devmind.curriculum.machine import gflops
from devmind.curriculum.stage import Context
from devmind.errors import ConfigError
from devmind.worlds.boards import MnkRules
from stages.reasoning import parts
from stages.reasoning.connect4.exam import DEPTH, centre_most
from stages.reasoning.connect4.positions import FOLDER, SETS, read
from stages.reasoning.games import CONNECT4
from stages.reasoning.judged import Judged, mistakes
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


class Row(NamedTuple):
    """One point of a curve: minutes taught and, by set, mistakes of the search (empty if unasked) and the network."""

    step: int
    minutes: float
    searched: dict[str, float]
    alone: dict[str, float]


def main() -> None:
    """Teach, examine, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with games/connect4/*.tsv")
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
    parser.add_argument("--out", type=Path, metavar="FILE.svg")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="folder to save to and resume from")
    parser.add_argument("--minutes", type=float, metavar="M", help="approximate CPU minutes of teaching in this part")
    asked = parser.parse_args()
    if min(asked.every, asked.simulations, asked.searched) < 1 or min(asked.positions, asked.steps or 0) < 0:
        raise ConfigError(
            "Expected one step between points, one simulation and one of --searched at least, and steps and positions "
            "of 0 and more."
        )
    if asked.minutes is not None and (asked.folder is None or asked.minutes <= 0):
        raise ConfigError("A part of --minutes above 0 has to be kept: give --folder DIR.")
    asked.sets = [name for name in SETS if name in asked.sets]
    with tempfile.TemporaryDirectory() as folder, intra_op_threads(1):
        rows, floors = curve(asked, Path(folder))
    if floors is None:
        print(f"not done: {rows[-1].step} steps so far; run the same command to continue")
    elif asked.out:
        asked.out.write_text(plot(rows, floors, asked), encoding="utf-8")
        print(f"plot: {asked.out}")


def curve(asked: argparse.Namespace, folder: Path) -> tuple[list[Row], dict[str, dict[str, float]] | None]:
    """Print and return the points, and return floors by set, or None if the part ended before the lesson."""
    sets = [read(asked.data / FOLDER / f"{name}.tsv", asked.positions or ALL) for name in asked.sets]
    size = Agent.from_pretrained(asked.agent).config.size if asked.agent else asked.size
    context = Context(
        load(size, sets=[f"device={asked.device}", "threads=1", "loggers=[]"]),
        asked.seed,
        asked.device,
        folder,
        worlds.make,
    )
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
    print(f"{'step':>5} {'CPU min':>8}  " + "  ".join(f"{name:>15}" for name in asked.sets), end="")
    print(f"   {asked.sets[0]}, search (or alone), 95 %")
    settings = {"agent": str(asked.agent), "size": size, "seed": asked.seed, "steps": steps, "every": asked.every}
    settings |= {"positions": asked.positions, "simulations": asked.simulations, "sets": asked.sets}
    settings |= {"searched": asked.searched}
    rows, spent_s = gone_on(asked.folder, settings, agent, learner)
    for row in rows:
        print_row(row, n)
    if not rows:
        rows.append(point(agent, sets, asked.simulations, 0, 0.0))
    ends_s = spent_s + 60 * (asked.minutes or float("inf"))
    for step in range(rows[-1].step, steps):
        begun_s = time.process_time()
        agent.train()
        torch.manual_seed(step)
        learner.update(batches.make(step), step)
        spent_s += time.process_time() - begun_s
        if (step + 1) % asked.every == 0 or step + 1 == steps:
            searches = step + 1 == steps or len(rows) % asked.searched == 0
            rows.append(point(agent, sets, asked.simulations if searches else 0, step + 1, spent_s / 60))
            keep(asked.folder, settings, agent, learner, rows)
            if spent_s > ends_s and step + 1 < steps:
                return rows, None
    return rows, floors_of(agent, sets, asked)


def keep(folder: Path | None, settings: Mapping[str, Any], agent: Agent, learner: Any, rows: Sequence[Row]) -> None:
    """Save everything that the next step depends on, and the points so far; do nothing without a folder."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        weights = dict(agent.state_dict())
        points = [list(row) for row in rows]
        state = {"settings": dict(settings), "agent": weights, "learner": learner.state_dict(), "rows": points}
        bundle.save(folder / f"{rows[-1].step:05d}", state)
        bundle.retire(folder)


def gone_on(folder: Path | None, settings: Mapping[str, Any], agent: Agent, learner: Any) -> tuple[list[Row], float]:
    """The points of earlier parts and the CPU seconds of teaching so far; restores agent and learner.

    Raises:
        ConfigError: the saved state has other settings.
    """
    newest = bundle.newest(folder) if folder is not None and folder.is_dir() else None
    if newest is None:
        return [], 0.0
    state = bundle.load(newest)
    if state["settings"] != dict(settings):
        raise ConfigError(f"{folder} has a curve of other settings: {state['settings']}; give another --folder.")
    agent.load_state_dict(state["agent"])
    learner.load_state_dict(state["learner"])
    rows = [Row(*row) for row in state["rows"]]
    return rows, 60 * rows[-1].minutes


def point(agent: Agent, sets: Sequence[Judged], simulations: int, step: int, minutes: float) -> Row:
    """Examine the agent; with no simulations, only the network."""
    with examination(agent):
        searched = {one.name: float(mistakes(one, agent, simulations).mean()) for one in sets if simulations}
        alone = {one.name: float(mistakes(one, agent, 0).mean()) for one in sets}
    row = Row(step, minutes, searched, alone)
    print_row(row, len(sets[0].best))
    return row


def print_row(row: Row, n: int) -> None:
    """Print a line of the table; the interval is that of the first set."""
    low, high = wilson(round(next(iter((row.searched or row.alone).values())) * n), n)
    searched = {name: f"{row.searched[name]:7.3f}" if row.searched else f"{'-':>7}" for name in row.alone}
    scores = "  ".join(f"{searched[name]} /{alone:6.3f}" for name, alone in row.alone.items())
    print(f"{row.step:5} {row.minutes:8.2f}  {scores}   [{low:.3f}, {high:.3f}]", flush=True)


def floors_of(agent: Agent, sets: Sequence[Judged], asked: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Floors by name and set; none of them was taught."""
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
    print(f"\n{'floors':42} " + "  ".join(f"{name:>7}" for name in asked.sets))
    for who, each in found.items():
        print(f"{who:42} " + "  ".join(f"{each[name]:7.3f}" for name in asked.sets))
    print(f"{note}\n{'AlphaZero.jl, iteration':42} " + "  ".join(f"{name:>7}" for name in asked.sets))
    for iteration in ALPHAZERO["L2_R2"]:
        print(f"{iteration:42} " + "  ".join(f"{ALPHAZERO[name][iteration]:7.3f}" for name in asked.sets), flush=True)
    return found


def as_long_as(agent: Agent, rules: MnkRules, some: Judged, asked: argparse.Namespace) -> tuple[float, int]:
    """CPU seconds of the agent's search of a move, and how many random games take as long."""
    begun_s = time.process_time()
    with examination(agent):
        for row in range(len(some.best)):
            mistakes(Judged(CONNECT4, "", some.board.take([row]), some.best[[row]]), agent, asked.simulations)
    of_a_move_s = (time.process_time() - begun_s) / len(some.best)
    visits(rules, some.board, 10, asked.seed)
    begun_s = time.process_time()
    visits(rules, some.board, 2000, asked.seed)
    return of_a_move_s, max(1, round(2000 * len(some.best) * of_a_move_s / (time.process_time() - begun_s)))


WIDTH, HEIGHT, LEFT, TOP, BOTTOM, RIGHT = 320, 260, 44, 40, 44, 62
COLOURS = {"search": "#1f5fbf", "network alone": "#c0561f"}


def plot(rows: Sequence[Row], floors: Mapping[str, Mapping[str, float]], asked: argparse.Namespace) -> str:
    """A panel for each set, with AlphaZero.jl's iterations as dashed lines; a self-contained SVG."""
    title = (
        f"Connect-4: share of moves that lose value, {asked.simulations} simulations, n {asked.positions or ALL} a set"
    )
    panels = "".join(panel(name, rows, floors, number * WIDTH) for number, name in enumerate(asked.sets))
    width = WIDTH * len(asked.sets)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" font-family="sans-serif" '
        f'font-size="11"><rect width="100%" height="100%" fill="white"/><text x="{LEFT}" y="14">{title}</text>'
        f"{panels}</svg>\n"
    )


def panel(name: str, rows: Sequence[Row], floors: Mapping[str, Mapping[str, float]], left: int) -> str:
    """The mistakes of one set over minutes."""
    shares = {
        who: [(row.minutes, each[name]) for row in rows if (each := row.searched if who == "search" else row.alone)]
        for who in COLOURS
    }
    deepest = max(
        floors[f"minimax depth {DEPTH}"][name], 0.01, *(share for line in shares.values() for _, share in line)
    )
    longest = max(rows[-1].minutes, 1e-9)
    x0, x1, y0, y1 = left + LEFT, left + WIDTH - RIGHT, HEIGHT - BOTTOM, TOP

    def x(minutes: float) -> float:
        return x0 + (x1 - x0) * minutes / longest

    def y(share: float) -> float:
        return y0 + (y1 - y0) * min(share, deepest) / deepest

    drawn = [f'<path d="M{x0} {y1}V{y0}H{x1}" fill="none" stroke="black"/>']
    drawn += [
        f'<text x="{x0}" y="{y1 - 8}">{name}</text>',
        f'<text x="{x1}" y="{y0 + 28}" text-anchor="end">CPU minutes</text>',
    ]
    for share in (0.0, deepest / 2, deepest):
        drawn.append(f'<text x="{x0 - 4}" y="{y(share) + 4:.1f}" text-anchor="end">{100 * share:.3g} %</text>')
    for minutes in (0.0, longest / 2, longest):
        drawn.append(f'<text x="{x(minutes):.1f}" y="{y0 + 14}" text-anchor="middle">{minutes:.3g}</text>')
    lines = {f"AZ.jl it. {it}": share for it, share in ALPHAZERO[name].items()}
    lines[f"minimax {DEPTH}"] = floors[f"minimax depth {DEPTH}"][name]
    taken = list[float]()
    for label, share in lines.items():
        if share > deepest:
            continue
        at = y(share)
        drawn.append(f'<path d="M{x0} {at:.1f}H{x1}" stroke="#888" stroke-dasharray="3 3"/>')
        if all(abs(at - other) > 10 for other in taken):
            drawn.append(f'<text x="{x1 + 3}" y="{at + 4:.1f}" font-size="9" fill="#555">{label}</text>')
            taken.append(at)
    for number, (who, colour) in enumerate(COLOURS.items()):
        points = [(f"{x(minutes):.1f}", f"{y(share):.1f}") for minutes, share in shares[who]]
        way = " ".join(map(",".join, points))
        drawn += [f'<circle cx="{across}" cy="{down}" r="2.5" fill="{colour}"/>' for across, down in points]
        drawn.append(f'<polyline points="{way}" fill="none" stroke="{colour}" stroke-width="2"/>')
        drawn.append(f'<text x="{x1}" y="{y1 - 8 + 12 * number}" text-anchor="end" fill="{colour}">{who}</text>')
    return "".join(drawn)


if __name__ == "__main__":
    main()
