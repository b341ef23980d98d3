"""The exam sliding: 8-puzzles by Q*, compared with exact distances and A* with Manhattan; and 15-puzzles of a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from devmind import bounds
from devmind.agent.agent import Agent
from devmind.agent.config import by_size
from devmind.bounds import data_files
from devmind.curriculum.episodes import identities
from devmind.curriculum.exam import Measure, Parts, in_parts
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.errors import ConfigError
from devmind.seeding import EXAM_SEEDS_FROM, numpy_rng
from devmind.worlds.sliding import MOVES
from stages.reasoning import parts
from stages.reasoning.beam import beam
from stages.reasoning.paired import ratio
from stages.reasoning.puzzles.lesson import for_exams
from stages.reasoning.q_star import Guide, SolveResult, follow, q_star
from stages.reasoning.sliding import patterns
from stages.reasoning.sliding.lesson import MOST, costs, mix_boards, perimeter, rules

PUZZLES, BUDGET = 1000, 2000
NODES = by_size(BUDGET, tiny=400)
"""8-puzzles, and states of each that Q may evaluate; A* with Manhattan needs 1,000 on average. An agent of size tiny,
which claims nothing, would use up 2,000 on nearly every puzzle, and most of the exam's time with them.
"""
CAREFUL = 1.05
"""Weight of the search for a shortest solution: above 1 it tolerates a Q that overestimates a little."""
FARTHEST = 31
"""The most moves that any 8-puzzle takes."""
LEVELS = {3: 2 * FARTHEST, 4: 160}
"""Levels of a beam: twice the most moves of any board (80 for 4 x 4; Bruengger and others 1999)."""
FIFTEENS, FIFTEEN_NODES = 64, 5000
FIFTEEN_FILE = "puzzles/puzzle15.tsv"
"""A line for each puzzle: sixteen tiles row by row, 0 the free place; a tab; the fewest moves."""
WEIGHT, BATCH = 0.6, 8
"""Weight and batch of the search for any solution."""
SEARCHED = 100_000
"""States that A* may evaluate as a comparison."""
FEWER = 0.2
GATE = Gate(
    [
        Threshold("sliding", 0.995),  # what a thousand of a thousand show
        Threshold("sliding/shortest", 0.98),
        Threshold("sliding/nodes", FEWER, lower_is_better=True),
        Threshold("sliding/15", 0.95, goal=True, when_absent="skip"),
        Threshold("sliding/15 length", 1.15, lower_is_better=True, goal=True, when_absent="skip"),
    ]
)
HAND, TABLED = "A* with Manhattan", "A* with pattern databases"


@in_parts
def examine(agent: Agent, context: Context) -> Parts:
    """The share solved within the budget; in full also by a shortest solution, the nodes, and the 15-puzzle."""
    n, budget = context.episodes(PUZZLES), NODES[context.config.size]
    tiles, fewest = puzzles(n, context.seed)
    guide = lambda states: costs(agent, 3, states)  # noqa: E731
    ways, episodes = search(3, tiles, guide, budget, CAREFUL), identities({"tiles": tiles})
    measure = Measure(
        "sliding", "solved", is_solved(ways), chance=0.0, ceiling=1.0, rate=True, episodes=episodes,
        reference="breadth-first search solves all in the fewest moves",
        note=f"8-puzzles that no lesson showed; Q is evaluated on at most {budget} states a puzzle",
    )  # fmt: skip
    yield [measure]
    few = slice(max(8, n // 5))
    by_hand = search(3, tiles[few], lambda states: manhattan(3, states), SEARCHED)
    within = search(3, tiles[few], lambda states: manhattan(3, states), budget)
    floors = {f"{HAND}, {budget} nodes": float(is_solved(within).mean())}
    shortest = np.array(
        [way.actions is not None and len(way.actions) == k for way, k in zip(ways, fewest, strict=True)]
    )
    nodes, hands = (np.array([way.nodes for way in each], float) for each in (ways[few], by_hand))
    yield [
        replace(measure, floors=floors, rows=_rows(agent, tiles, budget)),
        Measure(
            "sliding/shortest", "solved in the fewest moves", shortest.astype(float), chance=0.0, ceiling=1.0,
            floors=floors, rate=True, episodes=episodes, reference=f"{HAND} always, without a limit",
        ),
        Measure(
            "sliding/nodes", f"nodes, divided by those of {HAND}", ratio(nodes, hands, FEWER),
            chance=budget / hands.mean(), ceiling=float(fewest.mean() / hands.mean()), floors={HAND: 1.0},
            higher_is_better=False, episodes=episodes[few],
            note=f"{nodes.mean():.0f} by {hands.mean():.0f}; an unsolved puzzle counts its budget of {budget}",
        ),
        *fifteens(agent, context),
    ]  # fmt: skip


def lesson_episodes(context: Context, n: int) -> np.ndarray:
    """The identities of lesson boards, int64 [n]."""
    rng = numpy_rng("lesson", "sliding", context.seed, "episodes")
    return identities({"tiles": mix_boards(3, n, MOST[3], rng, held_out=False)[0]})


def distances() -> tuple[np.ndarray, np.ndarray]:
    """Every solvable 8-puzzle, tiles int8 [181440, 9], and its fewest moves int64 [181440], by breadth-first search."""
    all_boards = perimeter(3)
    return all_boards.tiles, all_boards.fewest


def puzzles(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """`n` different held-out boards, drawn uniformly: tiles int8 [n, 9], fewest moves int64 [n]."""
    tiles, fewest = distances()
    rows = np.flatnonzero(for_exams(tiles) & (fewest > 0))
    at = numpy_rng("exam", EXAM_SEEDS_FROM, "sliding", seed).permutation(rows)[:n]
    return tiles[at], fewest[at]


def search(
    side: int, tiles: np.ndarray, guide: Guide, nodes: int = BUDGET, weight: float = 1.0, batch: int = 1
) -> list[SolveResult]:
    """Q* on each puzzle."""
    return q_star(tiles, rules(side).slid, rules(side).solved, guide, nodes=nodes, batch=batch, weight=weight)


def beam_search(side: int, tiles: np.ndarray, guide: Guide, width: int, nodes: int = BUDGET) -> list[SolveResult]:
    """A beam search on each puzzle, at most LEVELS deep."""
    return beam(tiles, rules(side).slid, rules(side).solved, guide, width=width, depth=LEVELS[side], nodes=nodes)


def manhattan(side: int, tiles: np.ndarray) -> np.ndarray:
    """A guide by hand that never overestimates: a lower bound on the cost of each move, float [N, 4]."""
    return rules(side).manhattan(tiles)


def pattern_bounds(tiles: np.ndarray) -> np.ndarray:
    """The same for 15-puzzles by the lessons' pattern databases, int8 [N, 16] to float [N, 4]."""
    reached = rules(4).slid(np.repeat(tiles, len(MOVES), 0), np.tile(np.arange(len(MOVES)), len(tiles)))
    return np.asarray(1.0 + patterns.moves_left(reached).reshape(-1, len(MOVES)))


def proving(side: int) -> tuple[str, Guide]:
    """The best guide known here that never overestimates, and its name."""
    return (TABLED, pattern_bounds) if side == patterns.SIDE else (HAND, lambda states: manhattan(side, states))


def is_solved(ways: Sequence[SolveResult]) -> np.ndarray:
    """Whether each was solved, float [N]."""
    return np.array([way.actions is not None for way in ways], float)


def _rows(agent: Agent, tiles: np.ndarray, nodes: int) -> dict[str, float]:
    """The rows of every searched skill: without search, and with an untrained network."""
    newborn, few = parts.untrained_agent(agent), tiles[: max(8, len(tiles) // 20)]
    alone = follow(tiles, rules(3).slid, rules(3).solved, lambda states: costs(agent, 3, states), most=FARTHEST)
    untrained = search(3, few, lambda states: costs(newborn, 3, states), nodes, CAREFUL)
    return {"network alone": float(alone.mean()), "untrained, with search": float(is_solved(untrained).mean())}


def fifteens(agent: Agent, context: Context) -> list[Measure]:
    """Measures of the 15-puzzles in the data folder's file; none without the file."""
    files = data_files(context.data, FIFTEEN_FILE)
    if not files:
        return []
    file = files[0]
    tiles, fewest = read_boards(file, context.episodes(FIFTEENS))
    nodes = context.episodes(FIFTEEN_NODES)
    guides: dict[str, Guide] = {
        HAND: lambda states: manhattan(4, states),
        TABLED: pattern_bounds,
        "agent": lambda states: costs(agent, 4, states),
    }
    ways = {player: search(4, tiles, guide, nodes, WEIGHT, BATCH) for player, guide in guides.items()}
    note = f"{nodes} nodes each, weight {WEIGHT}; {file.name}"
    both = [one.nodes / other.nodes for one, other in zip(ways["agent"], ways[TABLED], strict=True) if other.actions]
    measures = [
        Measure(
            "sliding/15", "solved", is_solved(ways["agent"]), chance=0.0, ceiling=1.0, rate=True, note=note,
            floors={hand: float(is_solved(ways[hand]).mean()) for hand in (HAND, TABLED)},
            reference="DeepCubeA, 3.3 million nodes each: all",
            rows={"nodes, divided by those of pattern databases, median": float(np.median(both or [1.0]))},
        )
    ]  # fmt: skip
    longer, *by_hand = (
        [len(way.actions) / k for way, k in zip(ways[player], fewest, strict=True) if way.actions is not None]
        for player in ("agent", HAND, TABLED)
    )
    if longer:
        measures.append(
            Measure(
                "sliding/15 length", "moves, divided by the fewest", np.array(longer), chance=3.0, ceiling=1.0,
                floors={
                    hand: float(np.mean(ratios or [3.0])) for hand, ratios in zip((HAND, TABLED), by_hand, strict=True)
                },
                higher_is_better=False,
                note="of solved puzzles, each by its own fewest",
            )
        )  # fmt: skip
    return measures


def read_boards(file: Path, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Tiles int8 [n, 16] and fewest moves int64 [n] of the first `n` lines of a file.

    Raises:
        ConfigError: a line is not a 15-puzzle followed by a number.
    """
    boards = []
    for number, line in enumerate(bounds.read_text(file, ConfigError).splitlines()[:n], 1):
        tiles, _, fewest = line.partition("\t")
        numbers = [int(tile) for tile in tiles.split() if tile.isdecimal() and len(tile) < 3]
        if sorted(numbers) != list(range(16)) or not (fewest.strip().isdecimal() and len(fewest.strip()) < 4):
            raise ConfigError(
                f"Line {number} of '{file}' should be the numbers 0 to 15, a tab, the fewest moves; got '{line[:60]}'."
            )
        boards.append((numbers, int(fewest)))
    return np.array([one for one, _ in boards], np.int8), np.array([k for _, k in boards])
