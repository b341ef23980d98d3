"""A rule that is told by which processes prices are drawn, but not which of them it meets.

Our agent learns the same from paths of lessons, so what this rule comes to is a fairer ceiling than that of a rule that
knows its market. It believes in each market by the likelihood of the returns seen so far, and does what the rule of the
most probable one does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from devmind.worlds.market import COIN_STEP, LEVELS
from stages.planning.trade import rules
from stages.planning.trade.rules import Rule

RULES: Mapping[str, Callable[[], Rule]] = {
    "random": rules.hold,
    "trend": lambda: rules.filtered(0.3, 0.7),
    "reverting": lambda: rules.anchored(-0.02, 0.02),
    "shocks": lambda: rules.filtered(0.4, 0.6, True),
    "coin": rules.coin,
}
"""By level, the rule for who knows it."""
PRIOR = {"trend": 3.0}
"""How much more probable a level is taken to be. It is dearer to take a trend for chance than chance for a trend.
Chosen on paths of lessons."""
LEAST = 1e-300
"""Likelihood at least, as 0 would never be forgotten."""


def told_all() -> Rule:
    """The rule, as one that remembers."""
    by_level = {level: RULES[level]() for level in LEVELS}
    trend, shocks = rules.Regimes(), rules.Regimes(shocks=True)
    away, evidence = np.zeros(0), np.zeros((0, 0))

    def rule(returns: np.ndarray, held: np.ndarray, first: np.ndarray) -> np.ndarray:
        nonlocal away, evidence
        if first.all():
            trend.begin(len(first))
            shocks.begin(len(first))
            away = np.zeros(len(first))
            evidence = np.tile(np.log([PRIOR.get(level, 1.0) for level in LEVELS]), (len(first), 1))
        for seen in rules.news(returns, first):
            likely = {
                "random": rules.normal(seen, 0.0006, 0.01),
                "trend": trend.see(seen),
                "reverting": rules.normal(seen, -0.1 * away, 0.02),
                "shocks": shocks.see(seen),
                "coin": 1e3 * np.isclose(np.abs(np.expm1(seen)), COIN_STEP, atol=1e-4),
            }
            evidence = evidence + np.log(np.maximum(np.stack([likely[level] for level in LEVELS], 1), LEAST))
            away = away + seen
        shares = np.stack([by_level[level](returns, held, first) for level in LEVELS], 1)
        return shares[np.arange(len(held)), evidence.argmax(1)]

    return rule
