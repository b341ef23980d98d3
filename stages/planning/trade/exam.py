"""The exam of trade: five kinds of market that no lesson showed, against the rules that anybody would try first.

All values are paired: what the agent's net worth, costs and tax taken off, came to on a path above what a rule's came
to on the same path. Where there is something to predict that is the rule which was best on paths of lessons; it was
told which kind of market it is in, the agent was not.

On the first of the same paths, plans of several trades (`plan_head`) are compared with the agent's own trades of one
tick each. Only the full exam measures them, and only goals depend on them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from devmind.acting import Actor, Policy, rollout
from devmind.agent.agent import Agent
from devmind.curriculum.episodes import of_lessons, of_worlds
from devmind.curriculum.exam import Exam, Measure, Parts, in_parts
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds
from devmind.worlds.market import LEVELS, TICKS, coin_growth
from stages.planning import parts
from stages.planning.trade import rules
from stages.planning.trade.rules import Rule, oracle_rule

NAME = "trade"
EPISODES = 1_000
RANDOM, COIN = f"{NAME}/random", f"{NAME}/coin"
PREDICTED = ("trend", "reverting", "shocks")
"""Levels in which there is something to predict."""
PLANNED, PATHS = f"{NAME}/planned ", 20
"""The prefix of a level in the measure's name; and how many price paths are traded by plans, which take time."""
GATE = Gate(
    [
        *(Threshold(f"{NAME}/{level}", 0.0, beats_floor=True) for level in PREDICTED),
        Threshold(RANDOM, float(np.log(0.98))),
        Threshold(COIN, 0.9),
        *(Threshold(PLANNED + level, 0.0, beats_floor=True, goal=True) for level in PREDICTED),
    ]
)
HOLD, NOTHING, AGENT = "buy and hold", "cash", "the agent"
TOLD_ALL = "who is told every process, not which"
Rules = Mapping[str, Callable[[], Rule]]
EVERYWHERE: Rules = {NOTHING: rules.nothing, HOLD: rules.hold, "moving average of 32": rules.moving_average}


@dataclass(frozen=True)
class Market:
    """How a level is examined.

    Attributes:
        rules: by name, the rules that were best here on paths of lessons, and those to be tried `EVERYWHERE`.
        against: the one of them that the agent is measured against.
        informed: knows by which process prices are drawn.
    """

    rules: Rules
    against: str
    informed: Callable[[], Rule]


MARKETS: Mapping[str, Market] = {
    "random": Market(
        {**EVERYWHERE, "momentum": partial(rules.momentum, 4, -0.1, 0.02)}, against=HOLD, informed=rules.hold
    ),
    "trend": Market(
        {
            **EVERYWHERE,
            "moving average of 16": partial(rules.moving_average, 16, 0.01),
            "averages that cross": partial(rules.averages, 2, 16),
            "momentum": partial(rules.momentum, 16, -0.02, 0.02),
            "Kelly by estimated drift": partial(rules.kelly, 16, 0, 0.9),
        },
        against="averages that cross",
        informed=partial(rules.filter_rule, 0.3, 0.7),
    ),
    "reverting": Market(
        {
            **EVERYWHERE,
            "z-score of 32": partial(rules.reversion, 32, -0.5, 0.5),
            "momentum": partial(rules.momentum, 1, -0.06, 0.06),
        },
        against="z-score of 32",
        informed=partial(rules.anchor_rule, -0.02, 0.02),
    ),
    "shocks": Market(
        {
            **EVERYWHERE,
            "averages that cross": partial(rules.averages, 2, 16),
            "momentum": partial(rules.momentum, 16, -0.02, 0.02),
            "Kelly by estimated drift": partial(rules.kelly, 16, 32),
        },
        against="averages that cross",
        informed=partial(rules.filter_rule, 0.4, 0.6, True),
    ),
    "coin": Market(
        {
            **EVERYWHERE,
            "all in after a rise": partial(rules.momentum, 1),
            "Kelly by estimated drift": partial(rules.kelly, 32, 32, 0.5),
        },
        against=HOLD,
        informed=rules.coin,
    ),
}
"""By level."""


@dataclass(frozen=True)
class Traded:
    """What came of paths: growth of the logarithm of net worth, and the deepest fall of net worth below its highest so
    far, as a share of it; float64 [N]."""

    growth: np.ndarray
    drawdown: np.ndarray


def examine(agent: Agent, context: Context) -> Exam:
    """Growth by the agent's trades in each kind of market; in full also by its plans."""
    return Exam.joined(_market(agent, context, kind) for kind in MARKETS)


def lesson_episodes(context: Context, n: int) -> np.ndarray:
    """Paths that the lesson may show."""
    return of_lessons(context.make_world, n, context.seed, "market", list(LEVELS))


def trade_paths(policy: Policy, context: Context, kind: str, seeds: np.ndarray) -> Traded:
    """Let a policy trade a path of each seed to its end."""
    return _gone(policy, context.make_world, kind, seeds)


def _gone(policy: Policy, make_world: Callable[..., Any], kind: str, seeds: np.ndarray) -> Traded:
    world = make_world("market", kind, seeds)
    highest, fall = np.ones(len(seeds)), np.zeros(len(seeds))
    for _ in rollout(policy, world):
        worth = world.truth()["worth"]
        highest = np.maximum(highest, worth)
        fall = np.maximum(fall, 1 - worth / highest)
    return Traded(np.log(worth), fall)


def _policy(agent: Agent, n: int, kind: str) -> Policy:
    """The agent, which is not told what kind of market it is in; its arc alone is asked."""
    return Actor(agent, n, effectors=[parts.TRADE], trunk=False)


@lru_cache(maxsize=64)
def _by_rule(make_world: Callable[..., Any], kind: str, rule: Callable[[], Rule], seeds: tuple[int, ...]) -> Traded:
    """What a rule's trades come to: the same whoever is examined, and as often as that is asked."""
    return _gone(rules.by(rule()), make_world, kind, np.array(seeds))


def planner(agent: Agent, n: int) -> Actor:
    """The agent, trading by its head `trade_plan` alone."""
    return Actor(agent, n, effectors=[parts.TRADE], trunk=False, standing={parts.TRADE: (parts.TRADE_PLAN,)})


def _planned(
    agent: Agent, context: Context, kind: str, seeds: np.ndarray, done: Mapping[str, Traded], informed: Traded
) -> Measure:
    """Growth by plans on the first paths, above the agent's own trades of one tick each (in `done`, by name)."""
    few = seeds[: context.episodes(PATHS)]
    actor, name = planner(agent, len(few)), PLANNED + kind
    ours = trade_paths(actor, context, kind, few)
    own = done[AGENT].growth[: len(few)]
    rows = {"net worth, plans": float(np.exp(ours.growth.mean())), "drawdown, plans": float(ours.drawdown.mean())}
    for beside in (HOLD, *([MARKETS[kind].against] if MARKETS[kind].against != HOLD else [])):
        apart = Measure(name, "", ours.growth - done[beside].growth[: len(few)], 0.0, 1.0)
        low, high = apart.interval()
        rows |= {f"above {beside}": apart.score, f"above {beside}, from": low, f"above {beside}, to": high}
    return Measure(
        name,
        "growth of log net worth above the agent's trades of one tick each",
        ours.growth - own,
        chance=float(-own.mean()),
        ceiling=float((informed.growth[: len(few)] - own).mean()),
        floors={rule: float((one.growth[: len(few)] - own).mean()) for rule, one in done.items()},
        episodes=of_worlds(context.make_world, "market", kind, few),
        rows=rows,
        answered=actor.counts,
        note="paired on each price path; plans are judged by the usual costs, as no sense tells what a market charges",
    )


@in_parts
def _market(agent: Agent, context: Context, kind: str) -> Parts:
    seeds, market = exam_seeds(context.episodes(EPISODES), context.seed, NAME, kind), MARKETS[kind]
    by_rule = partial(_by_rule, context.make_world, kind, seeds=tuple(seeds.tolist()))
    own = trade_paths(_policy(agent, len(seeds), kind), context, kind, seeds)
    best, informed = by_rule(market.rules[market.against]), by_rule(market.informed)

    def value(one: Traded) -> np.ndarray:
        if kind == "coin":
            # Of the optimum's growth; what luck gave both on a path is taken off.
            return 1 + (one.growth - informed.growth) / (TICKS * coin_growth())
        return one.growth - best.growth

    cash = Traded(np.zeros(len(seeds)), np.zeros(len(seeds)))
    measure = Measure(
        f"{NAME}/{kind}",
        "share of the optimum's growth" if kind == "coin" else f"growth of log net worth above {market.against}",
        value(own),
        chance=float(value(cash).mean()),
        ceiling=float(value(informed).mean()),
        episodes=of_worlds(context.make_world, "market", kind, seeds),
        reference="Kelly (1956): no other share of wealth grows faster" if kind == "coin" else "",
        note="paired on each price path; net worth: geometric mean after costs and tax, from 1; drawdown: mean of each "
        "path's largest; the arc trades alone, without the trunk",
    )
    yield [measure]
    tried = {name: by_rule(rule) for name, rule in market.rules.items()}
    floors = {name: float(value(one).mean()) for name, one in tried.items()}
    policies = {AGENT: own, HOLD: tried[HOLD], market.against: best, TOLD_ALL: by_rule(oracle_rule)}
    policies["the informed rule"] = informed
    rows = {f"score, {TOLD_ALL}": float(value(policies[TOLD_ALL]).mean())}
    for name, one in policies.items():
        rows[f"net worth, {name}"] = float(np.exp(one.growth.mean()))
        rows[f"drawdown, {name}"] = float(one.drawdown.mean())
    full = [replace(measure, floors=floors, rows=rows)]
    if parts.TRADE_PLAN in agent.heads:
        full.append(_planned(agent, context, kind, seeds, {AGENT: own, **tried}, informed))
    yield full
