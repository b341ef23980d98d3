"""The exam puzzles: Lights Out 5 x 5 by Q*, compared with algebra mod 2."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from devmind.agent.agent import Agent
from devmind.curriculum.episodes import identities
from devmind.curriculum.exam import Measure
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.seeding import EXAM_SEEDS_FROM, numpy_rng
from stages.reasoning import parts
from stages.reasoning.beam import beam
from stages.reasoning.puzzles.algebra import Algebra
from stages.reasoning.puzzles.lesson import MOST, RULES, costs, out, scrambles, turned
from stages.reasoning.puzzles.reading import SIDE
from stages.reasoning.q_star import Guide, Way, follow, q_star

PUZZLES = 400
NODES = 1000
"""States of one puzzle that Q may evaluate."""
WEIGHT, BATCH = 0.8, 4
GATE = Gate([Threshold("puzzles", 0.95)])


def examine(agent: Agent, context: Context, level: str) -> Sequence[Measure]:
    """The share solved within the budget, the share solved by a shortest solution, and the states evaluated."""
    n, full, whole = context.episodes(PUZZLES), level == "full", level != "glimpse"
    lit = puzzles(n if whole else max(8, n // 5), context.seed)
    fewest = Algebra.of(SIDE).shortest(lit).sum(-1)
    ways = search(lit, lambda states: costs(agent, states))
    solved = np.array([way.actions is not None for way in ways], float)
    shortest = np.array(
        [way.actions is not None and len(way.actions) == k for way, k in zip(ways, fewest, strict=True)]
    )
    floors, rows = (_floors(lit, context.seed), _rows(agent, lit)) if full else ({}, {})
    note = f"scrambles of 1 to {MOST} presses that no lesson showed; Q is evaluated on at most {NODES} states a puzzle"
    measures = [
        Measure(
            "puzzles",
            "solved",
            solved,
            chance=floors.get("random presses", 0.0),
            ceiling=1.0,
            floors=floors,
            rate=True,
            reference="algebra mod 2 solves all of them in the fewest presses",
            note=note,
            rows=rows,
            episodes=identities({"lit": lit}),
        )
    ]
    if whole:
        nodes = np.array([way.nodes for way in ways], float)
        by_hand = search(lit, lights_left) if full else []
        hand = "A* on lights left"
        measures += [
            Measure(
                "puzzles/shortest", "solved in the fewest moves", shortest.astype(float), chance=0.0, ceiling=1.0,
                floors={hand: _share_shortest(by_hand, fewest)} if full else {}, rate=True,
                episodes=measures[0].episodes,
            ),
            Measure(
                "puzzles/nodes", "states visited", nodes, chance=float(NODES), ceiling=1.0,
                floors={hand: float(np.mean([way.nodes for way in by_hand]))} if full else {}, higher_is_better=False,
                episodes=measures[0].episodes, note=f"an unsolved puzzle counts its budget of {NODES}",
            ),
        ]  # fmt: skip
    return measures


def taught(context: Context, n: int) -> np.ndarray:
    """The identities of lesson patterns, int64 [n]."""
    return identities(
        {"lit": scrambles(n, numpy_rng("lesson", "puzzles", context.seed, "episodes"), held_out=False)[0]}
    )


def puzzles(n: int, seed: int) -> np.ndarray:
    """`n` different held-out patterns, lights int8 [n, 25]."""
    lit, _ = scrambles(2 * n, numpy_rng("exam", EXAM_SEEDS_FROM, "puzzles", seed), held_out=True)
    _, first = np.unique(lit, axis=0, return_index=True)
    return lit[np.sort(first)[:n]]


def search(lit: np.ndarray, guide: Guide, nodes: int = NODES) -> list[Way]:
    """Q* on each puzzle."""
    return q_star(lit, turned, out, guide, nodes=nodes, batch=BATCH, weight=WEIGHT)


def beamed(lit: np.ndarray, guide: Guide, width: int, nodes: int = NODES) -> list[Way]:
    """A beam search on each puzzle, as deep as there are lights: no shortest solution presses a light twice."""
    return beam(lit, turned, out, guide, width=width, depth=RULES.cells, nodes=nodes)


def _share_shortest(ways: Sequence[Way], fewest: np.ndarray) -> float:
    right = [way.actions is not None and len(way.actions) == k for way, k in zip(ways, fewest, strict=True)]
    return float(np.mean(right))


def _solved(ways: Sequence[Way]) -> float:
    return float(np.mean([way.actions is not None for way in ways]))


def lights_left(lit: np.ndarray) -> np.ndarray:
    """A guide by hand that never overestimates, float [N, 25]: a press turns at most five lights."""
    after = lit[:, None] ^ RULES.turns
    return np.asarray(1 + after.sum(-1) / 5.0)


def followed(lit: np.ndarray, guide: Guide, presses: int = 2 * MOST) -> float:
    """The share solved by always taking the cheapest press by the guide, without search."""
    return float(follow(lit, turned, out, guide, presses).mean())


def _floors(lit: np.ndarray, seed: int) -> dict[str, float]:
    rng = numpy_rng("exam", "puzzles", seed, "random")
    return {
        "random presses": followed(lit, lambda states: rng.random(states.shape)),
        "greedy on lights left": followed(lit, lights_left),
        "A* on lights left": _solved(search(lit, lights_left)),
    }


def _rows(agent: Agent, lit: np.ndarray) -> dict[str, float]:
    """The rows of every searched skill: without search, and with an untrained network."""
    newborn = parts.untrained(agent)
    few = lit[: max(8, len(lit) // 4)]
    return {
        "network alone": followed(lit, lambda states: costs(agent, states)),
        "untrained, with search": _solved(search(few, lambda states: costs(newborn, states))),
    }
