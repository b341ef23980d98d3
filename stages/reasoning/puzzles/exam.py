"""The exam puzzles: Lights Out 5 x 5 by Q*, compared with algebra mod 2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from devmind.agent.agent import Agent
from devmind.curriculum.episodes import identities
from devmind.curriculum.exam import Measure, Parts, in_parts
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.seeding import EXAM_SEEDS_FROM, numpy_rng
from stages.reasoning import parts
from stages.reasoning.beam import beam
from stages.reasoning.puzzles.algebra import Algebra
from stages.reasoning.puzzles.lesson import MOST, RULES, costs, out, press_lights, scrambles
from stages.reasoning.puzzles.reading import SIDE
from stages.reasoning.q_star import Guide, SolveResult, follow, q_star

PUZZLES = 400
NODES = 1000
"""States of one puzzle that Q may evaluate."""
WEIGHT, BATCH = 0.8, 4
GATE = Gate([Threshold("puzzles", 0.95)])


@in_parts
def examine(agent: Agent, context: Context) -> Parts:
    """The share solved within the budget, the share solved by a shortest solution, and the states evaluated."""
    lit = puzzles(context.episodes(PUZZLES), context.seed)
    fewest = Algebra.of(SIDE).shortest(lit).sum(-1)
    ways = search(lit, lambda states: costs(agent, states))
    episodes = identities({"lit": lit})
    solved = Measure(
        "puzzles",
        "solved",
        np.array([way.actions is not None for way in ways], float),
        chance=0.0,
        rate=True,
        reference="algebra mod 2 solves all of them in the fewest presses",
        note=f"scrambles of 1 to {MOST} presses that no lesson showed; Q is evaluated on at most {NODES} states a "
        "puzzle",
        episodes=episodes,
    )
    if context.one_in > 1:
        yield [solved]
        return
    shortest = Measure(
        "puzzles/shortest", "solved in the fewest moves", _shortest(ways, fewest), chance=0.0, ceiling=1.0, rate=True,
        episodes=episodes,
    )  # fmt: skip
    nodes = Measure(
        "puzzles/nodes", "states visited", np.array([way.nodes for way in ways], float), chance=float(NODES),
        ceiling=1.0, higher_is_better=False, episodes=episodes, note=f"an unsolved puzzle counts its budget of {NODES}",
    )  # fmt: skip
    yield [solved, shortest, nodes]
    floors, rows = _floors(lit, context.seed), _rows(agent, lit)
    by_hand, hand = search(lit, lights_left), "A* on lights left"
    yield [
        replace(solved, chance=floors["random presses"], floors=floors, rows=rows),
        replace(shortest, floors={hand: float(_shortest(by_hand, fewest).mean())}),
        replace(nodes, floors={hand: float(np.mean([way.nodes for way in by_hand]))}),
    ]


def lesson_episodes(context: Context, n: int) -> np.ndarray:
    """The identities of lesson patterns, int64 [n]."""
    return identities(
        {"lit": scrambles(n, numpy_rng("lesson", "puzzles", context.seed, "episodes"), held_out=False)[0]}
    )


def puzzles(n: int, seed: int) -> np.ndarray:
    """`n` different held-out patterns, lights int8 [n, 25]."""
    lit, _ = scrambles(2 * n, numpy_rng("exam", EXAM_SEEDS_FROM, "puzzles", seed), held_out=True)
    _, first = np.unique(lit, axis=0, return_index=True)
    return lit[np.sort(first)[:n]]


def search(lit: np.ndarray, guide: Guide, nodes: int = NODES) -> list[SolveResult]:
    """Q* on each puzzle."""
    return q_star(lit, press_lights, out, guide, nodes=nodes, batch=BATCH, weight=WEIGHT)


def beam_search(lit: np.ndarray, guide: Guide, width: int, nodes: int = NODES) -> list[SolveResult]:
    """A beam search on each puzzle, as deep as there are lights: no shortest solution presses a light twice."""
    return beam(lit, press_lights, out, guide, width=width, depth=RULES.cells, nodes=nodes)


def _shortest(ways: Sequence[SolveResult], fewest: np.ndarray) -> np.ndarray:
    """Whether each was solved in the fewest moves, float [N]."""
    return np.array(
        [way.actions is not None and len(way.actions) == k for way, k in zip(ways, fewest, strict=True)], float
    )


def _solved(ways: Sequence[SolveResult]) -> float:
    return float(np.mean([way.actions is not None for way in ways]))


def lights_left(lit: np.ndarray) -> np.ndarray:
    """A guide by hand that never overestimates, float [N, 25]: a press turns at most five lights."""
    after = lit[:, None] ^ RULES.turns
    return np.asarray(1 + after.sum(-1) / 5.0)


def solved_greedily(lit: np.ndarray, guide: Guide, presses: int = 2 * MOST) -> float:
    """The share solved by always taking the cheapest press by the guide, without search."""
    return float(follow(lit, press_lights, out, guide, presses).mean())


def _floors(lit: np.ndarray, seed: int) -> dict[str, float]:
    rng = numpy_rng("exam", "puzzles", seed, "random")
    return {
        "random presses": solved_greedily(lit, lambda states: rng.random(states.shape)),
        "greedy on lights left": solved_greedily(lit, lights_left),
        "A* on lights left": _solved(search(lit, lights_left)),
    }


def _rows(agent: Agent, lit: np.ndarray) -> dict[str, float]:
    """The rows of every searched skill: without search, and with an untrained network."""
    newborn = parts.untrained_agent(agent)
    few = lit[: max(8, len(lit) // 4)]
    return {
        "network alone": solved_greedily(lit, lambda states: costs(agent, states)),
        "untrained, with search": _solved(search(few, lambda states: costs(newborn, states))),
    }
