"""The exam of trade: five kinds of market that no lesson showed, mixed and not named, against the best filter that
knows as little as the agent.

What it misses of the filter's growth is paired: on each path, what the filter's net worth, costs and tax taken off,
came to above what the agent's came to. Paths count alike whatever their volatility, as in the lesson: a coin moves 25
times as far as a trend, and would be all that is examined.

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
from devmind.curriculum.exam import Measure, Parts, in_parts
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds
from devmind.worlds.market import LEVELS, TICKS
from stages.planning import parts
from stages.planning.trade import rules
from stages.planning.trade.rules import Rule, mixture_rule

NAME = "trade"
EPISODES = 1_000
PREDICTED = ("trend", "reverting", "shocks")
"""Levels in which there is something to predict."""
PLANNED, PATHS = f"{NAME}/planned ", 20
"""The prefix of a level in the measure's name; and how many price paths are traded by plans, which take time."""
MISSED = 0.075
"""The share of the filter's growth that may be missed at most."""
GATE = Gate(
    [
        Threshold(NAME, MISSED, beats_floor=True, lower_is_better=True),
        *(Threshold(PLANNED + level, 0.0, beats_floor=True, goal=True) for level in PREDICTED),
    ]
)
HOLD, NOTHING, AGENT, FILTER = "buy and hold", "cash", "the agent", "the filter"
Rules = Mapping[str, Callable[[], Rule]]
EVERYWHERE: Rules = {NOTHING: rules.nothing, HOLD: rules.hold, "moving average of 32": rules.moving_average}


FLOORS: Rules = {
    **EVERYWHERE,
    "chance": rules.chance,
    "momentum": partial(rules.momentum, 16, -0.02, 0.02),
    "averages that cross": partial(rules.averages, 2, 16),
    "z-score of 32": partial(rules.reversion, 32, -0.5, 0.5),
    "Kelly by estimated drift": partial(rules.kelly, 32, 32, 0.5),
}
"""What anybody would try who is not told which kind of market it is, with numbers that were best on a level that it
suits."""


@dataclass(frozen=True)
class Market:
    """How a level is examined.

    Attributes:
        rules: by name, the rules that were best here on paths of lessons, and those to be tried `EVERYWHERE`.
        against: the one of them that plans are measured against.
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
    """What came of paths, float64 [N]: growth of the logarithm of net worth; the deepest fall of net worth below its
    highest so far, as a share of it; and how far the logarithm of the price goes in an episode by its volatility."""

    growth: np.ndarray
    drawdown: np.ndarray
    spread: np.ndarray


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
    spread = np.diff(np.log(world.truth()["price"])).std(1)
    return Traded(np.log(worth), fall, spread * TICKS**0.5)


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


def _planned(agent: Agent, context: Context, kind: str, seeds: np.ndarray, traded: Traded) -> Measure:
    """Growth by plans on the first paths, above the agent's own trades of one tick each (`traded`)."""
    few, market = seeds[: context.episodes(PATHS)], MARKETS[kind]
    by_rule = partial(_by_rule, context.make_world, kind, seeds=tuple(seeds.tolist()))
    done = {AGENT: traded, **{name: by_rule(rule) for name, rule in market.rules.items()}}
    informed = by_rule(market.informed)
    actor, name = planner(agent, len(few)), PLANNED + kind
    ours = trade_paths(actor, context, kind, few)
    own = done[AGENT].growth[: len(few)]
    rows = {"net worth, plans": float(np.exp(ours.growth.mean())), "drawdown, plans": float(ours.drawdown.mean())}
    for beside in (HOLD, *([market.against] if market.against != HOLD else [])):
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
def examine(agent: Agent, context: Context) -> Parts:
    """The share of the filter's growth that the agent misses, all markets mixed; in full also growth by its plans."""
    seeds = {kind: exam_seeds(context.episodes(EPISODES), context.seed, NAME, kind) for kind in MARKETS}

    def by_rule(rule: Callable[[], Rule]) -> dict[str, Traded]:
        return {kind: _by_rule(context.make_world, kind, rule, tuple(of.tolist())) for kind, of in seeds.items()}

    best = by_rule(mixture_rule)
    own = {kind: trade_paths(_policy(agent, len(of), kind), context, kind, of) for kind, of in seeds.items()}
    whole = np.mean([(one.growth / one.spread).mean() for one in best.values()])

    def missed(done: Mapping[str, Traded]) -> dict[str, np.ndarray]:
        return {kind: (best[kind].growth - one.growth) / one.spread / whole for kind, one in done.items()}

    measure = Measure(
        NAME,
        "share of the filter's growth that is missed",
        np.concatenate(list(missed(own).values())),
        chance=1.0,
        ceiling=0.0,
        higher_is_better=False,
        episodes=np.concatenate([of_worlds(context.make_world, "market", kind, of) for kind, of in seeds.items()]),
        reference="a Bayesian filter that is told every process and not which of them it meets (`rules.Mixture`)",
        note="paired on each price path, growth in units of the path's volatility; 0: the filter's, 1: cash; net "
        "worth: geometric mean after costs and tax, from 1; drawdown: mean of each path's largest; the arc alone",
    )
    yield [measure]
    tried = {name: by_rule(rule) for name, rule in FLOORS.items()}
    rows = {f"{kind} alone": float(values.mean()) for kind, values in missed(own).items()}
    for name, done in {AGENT: own, FILTER: best, HOLD: tried[HOLD]}.items():
        for kind, one in done.items():
            rows[f"net worth, {name}, {kind}"] = float(np.exp(one.growth.mean()))
            rows[f"drawdown, {name}, {kind}"] = float(one.drawdown.mean())
    floors = {name: float(np.concatenate(list(missed(done).values())).mean()) for name, done in tried.items()}
    full = [replace(measure, floors=floors, rows=rows)]
    if parts.TRADE_PLAN in agent.heads:
        full += [_planned(agent, context, kind, of, own[kind]) for kind, of in seeds.items()]
    yield full
