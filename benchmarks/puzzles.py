"""Puzzles beyond the exams: Lights Out 7 x 7, 15- and 24-puzzles, Rubik's cube and Sokoban, by A* and by Q*.

Puzzles that an agent is taught are also searched by Q*, A* with V and a beam on the same states.

    OMP_NUM_THREADS=1 python benchmarks/puzzles.py [--data FOLDER] [--agent DIR] [--n 20] [--nodes 5000] [--only cube]

A row is a puzzle, the guide of its search, and the search. Columns: the share of `--n` solved within `--nodes` states
each; for the solved ones, the expanded states, the states that the guide evaluated, the moves, and the moves divided by
the fewest where these are known; the CPU seconds of all `--n` together, and evaluated states per second. Hand-made
guides are admissible: lights left divided by five; Manhattan; the turns that a cube's corners need alone, from a table;
the pushes that each box needs alone. A weight below 1 on the moves made makes a search greedier: paths are then longer
and prove nothing. `--agent DIR`, a folder or the name of a packaged agent, adds its guide where its head fits: by Q*,
by A* with V, which is the least of its Q over a state's actions and is evaluated for each child, and by a beam of
`--beam` states. It was taught sliding puzzles and Lights Out 5 x 5, and neither cube nor Sokoban; those rows say so.
8-puzzles and Lights Out 5 x 5 are the exams', which no lesson shows.

Data: `puzzles/lightsout7.tsv` and `puzzles/puzzle15.tsv` in the folder; the others, and these without it, are made from
exam seeds by random moves.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from devmind.agent.agent import Agent
from devmind.agent.threads import intra_op_threads
from devmind.cli.agents import named_agent
from devmind.curriculum.exam import wilson
from devmind.curriculum.machine import gflops
from devmind.errors import ConfigError
from devmind.seeding import EXAM_SEEDS_FROM, numpy_rng
from devmind.worlds.cube import CubeRules
from devmind.worlds.lights_out import LightsOutRules
from devmind.worlds.sliding import SlidingRules
from devmind.worlds.sokoban import SokobanRules, Warehouse
from stages.reasoning.a_star import a_star
from stages.reasoning.beam import beam
from stages.reasoning.best_first import Guide, Solved, Step, Way
from stages.reasoning.puzzles.algebra import Algebra
from stages.reasoning.puzzles.exam import lights_left as fewest_lights
from stages.reasoning.puzzles.exam import puzzles as scrambles
from stages.reasoning.puzzles.lesson import costs as press_costs
from stages.reasoning.puzzles.lesson import out, turned
from stages.reasoning.puzzles.reading import SIDE
from stages.reasoning.q_star import q_star
from stages.reasoning.sliding.exam import FIFTEEN_FILE, manhattan, puzzles, read
from stages.reasoning.sliding.lesson import costs

LIGHTS_FILE = Path("puzzles", "lightsout7.tsv")
CUBE_TURNS = (4, 6, 8, 20)
CORNERS_DEPTH = {2: 8, 3: 6}
"""Turns of which all positions of the corners are known: of more it is only known that they take more."""
WEIGHTS = ((1.0, 1), (0.6, 8))
"""Weight of moves made, and what is taken from the queue at once."""
DEPTH = 200
"""Levels of a beam."""
Search = Callable[["Puzzle", Guide, int], list[Way]]
"""`(puzzle, guide, nodes) -> ways`."""


@dataclass(frozen=True)
class Puzzle:
    """Instances of one puzzle, as Q* takes them; `fewest` int64 [P] where known, `taught` an agent's guide."""

    name: str
    starts: np.ndarray
    step: Step
    solved: Solved
    guides: dict[str, Guide]
    fewest: np.ndarray | None = None
    untaught: str = ""
    taught: Guide | None = None


def main() -> None:
    """Search, and print each row at once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with puzzles/*.tsv")
    parser.add_argument("--agent", type=Path, metavar="DIR", help="an agent that has been through reasoning")
    parser.add_argument("--beam", type=int, default=100, help="states per level of the beam")
    parser.add_argument("--n", type=int, default=20, help="instances of each puzzle")
    parser.add_argument("--nodes", type=int, default=5000, help="most states of each search")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=sorted(MAKERS), default=list(MAKERS))
    asked = parser.parse_args()
    if asked.n < 1:
        raise ConfigError(f"--n asks for one instance at least; got {asked.n}.")
    folder = named_agent(asked.agent)
    agent = Agent.from_pretrained(folder).eval() if folder else None
    print(f"one core of {gflops():.0f} GFLOP/s (float32); n {asked.n}, at most {asked.nodes:,} states each")
    head = f"{'puzzle, guide, search':64} {'solved':>6} {'95 %':>14} {'expanded':>8} {'asked':>8} {'moves':>6}"
    print(f"{head} {'by fewest':>9} {'CPU s':>8} {'asked/s':>8}")
    with intra_op_threads(1):
        for kind in asked.only:
            for puzzle in MAKERS[kind](asked, agent):
                show(puzzle, asked.nodes, asked.beam)


def searches(taught: bool, width: int) -> dict[str, Search]:
    """By name, the searches for a guide; an admissible guide that was not taught is used by Q* alone."""
    found: dict[str, Search] = {}
    for name, by in {"Q*": q_star, "A* with V": a_star}.items() if taught else {"": q_star}.items():
        for weight, batch in WEIGHTS:
            found[f"{name} weight {weight}".strip()] = lambda of, guide, nodes, by=by, weight=weight, batch=batch: by(
                of.starts, of.step, of.solved, guide, nodes=nodes, batch=batch, weight=weight
            )
    if taught:
        found[f"beam of {width}"] = lambda of, guide, nodes: beam(
            of.starts, of.step, of.solved, guide, width=width, depth=DEPTH, nodes=nodes
        )
    return found


def show(puzzle: Puzzle, nodes: int, width: int) -> None:
    """Print a row for each guide and search, and what could not be done."""
    guides = [(name, guide, searches(False, width)) for name, guide in puzzle.guides.items()]
    if puzzle.taught is not None:
        guides.append(("agent", puzzle.taught, searches(True, width)))
    for guided, guide, tried in guides:
        for name, search in tried.items():
            begun_s = time.process_time()
            ways = search(puzzle, guide, nodes)
            took_s = time.process_time() - begun_s
            print(f"{f'{puzzle.name}, {guided}, {name}':64} {summary(ways, puzzle.fewest, took_s)}", flush=True)
    if puzzle.untaught:
        print(f"  {puzzle.untaught}", flush=True)


def summary(ways: Sequence[Way], fewest: np.ndarray | None, took_s: float) -> str:
    """The columns of a row."""
    done = np.array([way.actions is not None for way in ways])
    low, high = wilson(int(done.sum()), len(done))
    row = f"{done.mean():6.2f} [{low:.3f}, {high:.3f}]"
    if done.any():
        expanded, asked = (
            np.mean([getattr(way, what) for way in ways if way.actions is not None]) for what in ("expanded", "nodes")
        )
        length = np.array([len(way.actions or []) for way in ways])
        row += f" {expanded:8.0f} {asked:8.0f} {length[done].mean():6.1f}"
        # Solved starts take no moves, so they have no ratio.
        far = done & (fewest > 0) if fewest is not None else done
        row += f" {(length[far] / fewest[far]).mean():9.3f}" if fewest is not None else f" {'-':>9}"
    else:
        row += f" {'-':>8} {'-':>8} {'-':>6} {'-':>9}"
    return f"{row} {took_s:8.2f} {sum(way.nodes for way in ways) / took_s:8,.0f}"


def taught_lights(asked: argparse.Namespace, agent: Agent | None) -> Iterator[Puzzle]:
    """5 x 5, scrambles of the exam; algebra gives the length of each."""
    lit = scrambles(asked.n, asked.seed)
    guides: dict[str, Guide] = {"A* on lights left": fewest_lights}
    fewest = Algebra.of(SIDE).shortest(lit).sum(-1)
    taught = partial(press_costs, agent) if agent else None
    yield Puzzle("Lights Out 5x5", lit, turned, out, guides, fewest, taught=taught)


def lights_out(asked: argparse.Namespace, agent: Agent | None) -> Iterator[Puzzle]:
    """7 x 7, from the file or any pattern; algebra gives the length of each."""
    rules, file = LightsOutRules("7"), asked.data / LIGHTS_FILE if asked.data else None
    if file is not None and file.is_file():
        lines = file.read_text(encoding="utf-8").splitlines()[: asked.n]
        lit = np.array([[int(word) for word in line.split()[: rules.cells]] for line in lines], np.int8)
    else:
        rng = numpy_rng("exam", EXAM_SEEDS_FROM, "lights 7", asked.seed)
        lit = rng.integers(0, 2, (asked.n, rules.cells)).astype(np.int8)
    begun_s = time.process_time()
    algebra = Algebra.of(7)
    if not algebra.solvable(lit).all():
        raise ConfigError("A pattern of 7 x 7 lights can always be put out; this file's cannot.")
    fewest = algebra.shortest(lit).sum(-1)
    took_ms = 1000 * (time.process_time() - begun_s)
    print(f"Lights Out 7x7: algebra mod 2 solves all by the fewest presses, {fewest.mean():.1f}, in {took_ms:.0f} ms")
    few = np.zeros((asked.n, rules.cells), np.int8)
    rng = numpy_rng("exam", EXAM_SEEDS_FROM, "lights 7 few", asked.seed)
    for row in few:
        row[rng.permutation(rules.cells)[:6]] = 1
    untaught = f"agent: not asked, its head is of {SIDE} x {SIDE} lights" if agent else ""
    guide = {"A* on lights left": partial(lights_left, rules)}
    step, solved = (lambda s, a: s ^ rules.turns[a]), (lambda s: ~s.any(-1))
    begun = rules.pressed(np.zeros_like(few), few)
    yield Puzzle("Lights Out 7x7, 6 presses", begun, step, solved, guide, algebra.shortest(begun).sum(-1))
    yield Puzzle("Lights Out 7x7", lit, step, solved, guide, fewest, untaught)


def lights_left(rules: LightsOutRules, lit: np.ndarray) -> np.ndarray:
    """The guide by lights left, as a press turns five lights at most, float [N, presses]."""
    return np.asarray(1 + (lit[:, None] ^ rules.turns).sum(-1) / 5.0)


def sliding(side: int, asked: argparse.Namespace, agent: Agent | None) -> Iterator[Puzzle]:
    """8-puzzles of the exam, 15-puzzles of the file; otherwise scrambled at random."""
    file, rules, fewest = asked.data / FIFTEEN_FILE if asked.data else None, SlidingRules(str(side)), None
    if side == 3:
        tiles, fewest = puzzles(asked.n, asked.seed)
    elif side == 4 and file is not None and file.is_file():
        tiles, fewest = read(file, asked.n)
    else:
        tiles, _ = rules.mixed(np.full(asked.n, 1000), numpy_rng("exam", EXAM_SEEDS_FROM, f"tiles {side}", asked.seed))
    guides: dict[str, Guide] = {"A* with Manhattan": partial(manhattan, side)}
    taught = partial(costs, agent, side) if agent else None
    yield Puzzle(f"{side**2 - 1}-puzzle", tiles, rules.slid, rules.solved, guides, fewest, taught=taught)


def cube(asked: argparse.Namespace, agent: Agent | None) -> Iterator[Puzzle]:
    """Cubes of both sizes, after few turns and after many."""
    for side in (2, 3):
        rules = CubeRules(str(side))
        for count in CUBE_TURNS:
            rng = numpy_rng("exam", EXAM_SEEDS_FROM, f"cube {side}", count, asked.seed)
            colours, _ = rules.mixed(np.full(asked.n, count), rng)
            last = (side, count) == (3, CUBE_TURNS[-1])
            untaught = "agent: not asked, no lesson teaches cubes" if agent and last else ""
            name, guide = f"cube {side}, {count} turns by chance", {"A* with patterns": partial(cube_guide, rules)}
            yield Puzzle(name, colours, rules.turned, rules.solved, guide, None, untaught)


def cube_guide(rules: CubeRules, colours: np.ndarray) -> np.ndarray:
    """The cost of each turn: one, plus the larger of what its corners alone need and the wrong stickers divided by
    those that one turn moves: float [N, turns].
    """
    n, many = len(colours), len(rules.names)
    reached = rules.turned(np.repeat(colours, many, 0), np.tile(np.arange(many), n))
    wrong = (reached != rules.goal).sum(-1) / (rules.moves[0] != np.arange(rules.cells)).sum()
    (keys, turns), own = corners(rules.side), _corner_keys(rules, reached)
    at = np.minimum(np.searchsorted(keys, own), len(keys) - 1)
    deep = np.where(keys[at] == own, turns[at], CORNERS_DEPTH[rules.side] + 1)
    return np.asarray(1.0 + np.maximum(np.ceil(wrong), deep)).reshape(n, many)


def _corner_keys(rules: CubeRules, colours: np.ndarray) -> np.ndarray:
    """A number for the state of each cube's corners, int64 [N]."""
    side = rules.side
    places = np.concatenate(
        [face * side**2 + np.array([0, side - 1, side**2 - side, side**2 - 1]) for face in range(6)]
    )
    drawn = numpy_rng("corners", 24).integers(0, 2**63, (24, 6), dtype=np.int64)
    return np.bitwise_xor.reduce(drawn[np.arange(24), colours[:, places]], -1)


@lru_cache
def corners(side: int) -> tuple[np.ndarray, np.ndarray]:
    """Keys of all corner states within CORNERS_DEPTH turns, sorted, and the fewest turns of each; breadth first."""
    rules = CubeRules(str(side))
    level = rules.goal[None]
    keys, depths = [_corner_keys(rules, level)], [np.zeros(1, np.int64)]
    for depth in range(1, CORNERS_DEPTH[side] + 1):
        n, many = len(level), len(rules.names)
        reached = rules.turned(np.repeat(level, many, 0), np.tile(np.arange(many), n))
        found, first = np.unique(_corner_keys(rules, reached), return_index=True)
        new = ~np.isin(found, np.concatenate(keys))
        level = reached[first[new]]
        keys.append(found[new])
        depths.append(np.full(len(level), depth))
    every, deep = np.concatenate(keys), np.concatenate(depths)
    order = every.argsort()
    return every[order], deep[order]


def sokoban(asked: argparse.Namespace, agent: Agent | None) -> Iterator[Puzzle]:
    """Levels of exam seeds; each is searched by moves, with its walls and goals in its own state."""
    for level in ("7-1", "8-2", "10-4"):
        rules = SokobanRules(level)
        state = rules.initial(EXAM_SEEDS_FROM + np.arange(asked.n) + 1000 * asked.seed)
        far = rules.pushes(state)
        starts = rows_of(rules, state, np.arange(asked.n))
        guides: dict[str, Guide] = {"A* with pushes": partial(sokoban_guide, rules, state, far)}
        untaught = "agent: not asked, no lesson teaches Sokoban" if agent and level == "10-4" else ""
        step: Step = partial(sokoban_step, rules, state)
        yield Puzzle(
            f"Sokoban {level}", starts, step, lambda rows, state=state, rules=rules: done(rules, state, rows), guides,
            None, untaught,
        )  # fmt: skip


def rows_of(rules: SokobanRules, state: Warehouse, level: np.ndarray) -> np.ndarray:
    """The variable part of a state as a row for Q*, int32 [N, cells + 2]: boxes, player's cell, number of the level."""
    return np.concatenate([state.box, state.player[:, None], level[:, None]], 1).astype(np.int32)


def state_of(rules: SokobanRules, state: Warehouse, rows: np.ndarray) -> Warehouse:
    """The inverse of `rows_of`."""
    found = state.take(rows[:, -1])
    found.box, found.player = rows[:, : rules.cells].astype(bool), rows[:, -2].astype(np.int64)
    return found


def sokoban_step(rules: SokobanRules, state: Warehouse, rows: np.ndarray, moves: np.ndarray) -> np.ndarray:
    """An illegal move leaves the state unchanged, so the search drops it as a known state."""
    here = state_of(rules, state, rows)
    able = rules.able(here)[np.arange(len(rows)), moves]
    after = rows.copy()
    if able.any():
        after[able] = rows_of(rules, rules.step(here.take(able), {"walk": moves[able]}), rows[able, -1])
    return after


def done(rules: SokobanRules, state: Warehouse, rows: np.ndarray) -> np.ndarray:
    """Whether every box is on a goal."""
    return rules.solved(state_of(rules, state, rows))


def sokoban_guide(rules: SokobanRules, state: Warehouse, far: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """One plus the pushes that every box needs alone, float [N, 4]; a thousand for an illegal move or a lost box."""
    n, many = len(rows), len(rules.steps)
    repeated, moves = np.repeat(rows, many, 0), np.tile(np.arange(many), n)
    able = rules.able(state_of(rules, state, rows)).reshape(-1)
    reached = sokoban_step(rules, state, repeated, moves)
    pushes = far[reached[:, -1]]
    boxes = reached[:, : rules.cells].astype(bool)
    lost = (boxes & (pushes < 0)).any(-1) | ~able
    return np.where(lost, 1000.0, 1.0 + np.where(boxes, np.maximum(pushes, 0), 0).sum(-1)).reshape(n, many)


MAKERS: dict[str, Callable[[argparse.Namespace, Agent | None], Iterator[Puzzle]]] = {
    "lights5": taught_lights, "lights": lights_out, "8-puzzle": partial(sliding, 3), "15-puzzle": partial(sliding, 4),
    "24-puzzle": partial(sliding, 5), "cube": cube, "sokoban": sokoban,
}  # fmt: skip


if __name__ == "__main__":
    main()
