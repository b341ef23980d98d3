"""The exam connect4: the share of moves that lose value, on positions that a solver has judged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from devmind.agent.agent import Agent
from devmind.curriculum.exam import Measure, Parts, elsewhere, in_parts
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.seeding import EXAM_SEEDS_FROM
from devmind.worlds.boards import MnkRules
from stages.reasoning import parts
from stages.reasoning.connect4.positions import BEGINNINGS, SETS, rated_positions
from stages.reasoning.games import CONNECT4, Judge
from stages.reasoning.judged import RatedPositions, mistakes
from stages.reasoning.paired import ratio
from stages.reasoning.random_games import visits
from stages.reasoning.solver import minimax
from stages.reasoning.thinking import SURE, THINKING, think

POSITIONS = 400
"""Positions of each set."""
SIMULATIONS = 200
DEPTH = 5
LESS = 0.75
"""The trained search may make this share of the untrained search's mistakes."""
OF_CENTRE = 0.7
"""The network alone is to make this share of the mistakes of the centre-most column, at the beginning of games."""
GATE = Gate(
    [
        Threshold("connect4/alone", None, beats_floor=True, lower_is_better=True),
        # Search alone makes no mistakes at the end of games, so without Pons' positions there is nothing to compare.
        Threshold("connect4/learned", LESS, lower_is_better=True, when_absent="skip"),
        Threshold("connect4", 0.075, lower_is_better=True, goal=True),
        Threshold("connect4/L3_R1", 0.003, lower_is_better=True, goal=True, when_absent="skip"),
        Threshold("connect4/L1_R1", 0.007, lower_is_better=True, goal=True, when_absent="skip"),
        Threshold("connect4/elsewhere/gain", None, beats_floor=True, lower_is_better=True, when_absent="skip"),
        Threshold("connect4/elsewhere/ratio", OF_CENTRE, lower_is_better=True, goal=True, when_absent="skip"),
        Threshold("connect4/elsewhere/searched/gain", 0.0, lower_is_better=True, goal=True, when_absent="skip"),
    ]
)
TAUGHT, ALONE, UNTRAINED = "trained, with search", "network alone", "untrained, with search"
MINIMAX, CENTRE = f"minimax depth {DEPTH}", "centre-most column"
RANDOM_GAMES = f"{SIMULATIONS} random games, no network"
REFERENCE = (
    "AlphaZero.jl (15 to 30 h on a GPU): 0.027 on L2_R2, its third iteration 0.075, 0.003 and 0.007 on L3_R1 and L1_R1"
)


@in_parts
def examine(agent: Agent, context: Context) -> Parts:
    """Mistakes on the deciding set; in full on all sets, also for search alone, the network alone and rules."""
    deciding, *others = rated_positions(context.data, context.scaled(POSITIONS), context.seed)
    positions = deciding.first(context.episodes(POSITIONS))
    measure = _measure("connect4", positions, mistakes(positions, agent, SIMULATIONS))
    yield [measure]
    newborn = parts.untrained_agent(agent)
    players, rules, full = _beside(agent, newborn, measure, deciding)
    measures = [full, _alone(deciding, players[ALONE], rules[CENTRE])]
    if deciding.name == SETS[0]:
        measures.append(_learned(deciding, players[TAUGHT], players[UNTRAINED]))
    for one in others:
        own = _measure(f"connect4/{one.name}", one, mistakes(one, agent, SIMULATIONS))
        players, rules, full = _beside(agent, newborn, own, one)
        measures += [full, *(_elsewhere(one, players, rules) if one.name == BEGINNINGS else [])]
    yield measures


def _beside(
    agent: Agent, newborn: Agent, measure: Measure, one: RatedPositions
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], Measure]:
    """Mistakes of other players and of rules on the same positions, by name, and the measure beside them."""
    board_rules = CONNECT4.rules
    assert isinstance(board_rules, MnkRules)
    thought = think(Judge(agent, CONNECT4), one.board, SIMULATIONS, SURE)
    players = {
        TAUGHT: measure.values,
        ALONE: mistakes(one, agent, 0),
        UNTRAINED: mistakes(one, newborn, SIMULATIONS),
        THINKING: one.mistakes(thought.action),
    }
    looked = minimax(board_rules, one.board, DEPTH).argmax(-1)
    rules = {MINIMAX: one.mistakes(looked), CENTRE: one.mistakes(centre_most(one))}
    floors, rows = ({name: float(lost.mean()) for name, lost in of.items()} for of in (rules, players))
    note = f"{measure.note}, where unsure {thought.simulations.mean():.1f}"
    return players, rules, replace(measure, floors=floors, rows=rows, note=note)


def centre_most(one: RatedPositions) -> np.ndarray:
    """The column nearest to the middle that is not full, the left one of two, int64 [N]."""
    distance = abs(np.arange(CONNECT4.rules.choices) - CONNECT4.rules.columns // 2)
    return np.where(CONNECT4.rules.legal(one.board)["place"], distance, np.inf).argmin(-1)


def _measure(name: str, one: RatedPositions, lost: np.ndarray) -> Measure:
    pons = (
        f"{one.name} of Pascal Pons' positions"
        if one.name in SETS
        else "ends of games solved here; give --data for Pons'"
    )
    return Measure(
        name,
        "moves that lose value",
        lost,
        chance=one.by_chance,
        ceiling=0.0,
        rate=True,
        higher_is_better=False,
        reference=REFERENCE if one.name in SETS else "a solver makes none",
        note=f"{pons}; {SIMULATIONS} simulations",
        episodes=one.episodes,
    )


def _alone(one: RatedPositions, lost: np.ndarray, by_centre: np.ndarray) -> Measure:
    """Paired: a bound below 0 means that the network alone is better than the rule."""
    rule, unit = float(by_centre.mean()), "mistakes minus those of the centre-most column"
    return Measure(
        "connect4/alone", unit, lost - by_centre, chance=one.by_chance - rule,
        ceiling=-rule, floors={CENTRE: 0.0}, higher_is_better=False, episodes=one.episodes,
        note=f"the network without search, on {one.name}, position by position",
    )  # fmt: skip


def _elsewhere(one: RatedPositions, players: dict[str, np.ndarray], rules: dict[str, np.ndarray]) -> Iterator[Measure]:
    """Beginnings of games, of which the lessons' own games are a small part: the network alone beside the column, and
    with search beside minimax and as many random games."""
    board_rules = CONNECT4.rules
    assert isinstance(board_rules, MnkRules)
    played = visits(board_rules, one.board, SIMULATIONS, seed=EXAM_SEEDS_FROM).argmax(-1)
    rules = rules | {RANDOM_GAMES: one.mistakes(played)}
    for name, player, beside in (
        ("connect4/elsewhere", ALONE, (CENTRE,)),
        ("connect4/elsewhere/searched", TAUGHT, (MINIMAX, RANDOM_GAMES)),
    ):
        measure = replace(_measure(name, one, players[player]), reference="", note=f"{player}, on {one.name}")
        yield from elsewhere(measure, {rule: rules[rule] for rule in beside})
    yield Measure(
        "connect4/elsewhere/ratio",
        f"mistakes, divided by those of the {CENTRE}",
        ratio(players[ALONE], rules[CENTRE], OF_CENTRE),
        chance=one.by_chance / max(rules[CENTRE].mean(), 1e-6),
        ceiling=0.0,
        floors={CENTRE: 1.0},
        higher_is_better=False,
        episodes=one.episodes,
        note=f"paired, the network without search, on {one.name}",
    )


def _learned(one: RatedPositions, lost: np.ndarray, untrained: np.ndarray) -> Measure:
    """Paired: a bound below LESS means that the trained search makes fewer than LESS times the untrained one's
    mistakes.
    """
    return Measure(
        "connect4/learned", "mistakes, divided by those of an untrained search", ratio(lost, untrained, LESS),
        chance=1.0, ceiling=0.0, higher_is_better=False, episodes=one.episodes,
        note=f"paired, {SIMULATIONS} simulations each, on {one.name}",
    )  # fmt: skip
