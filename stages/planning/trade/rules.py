"""Rules that trade: what anybody would try first, with the best numbers that lessons' paths gave them; and rules that
know by which process prices are drawn, as a ceiling.

Each is `(returns [N, 32], held [N], first [N]) -> share of wealth to hold [N]`, made by a function so that one that
remembers begins anew. Numbers were chosen on 1,000 paths of lessons for each level
(`git show af69618b:benchmarks/trade.py`, `--tune`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from devmind.acting import Policy, Senses
from devmind.acting.rollout import Actions
from devmind.worlds.market import COIN_STEP, LEVELS, SCALE, coin_share
from stages.planning.parts import TRADE

Rule = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def command(share: np.ndarray, held: np.ndarray) -> np.ndarray:
    """What is told to `trade` [N] to bring the share of wealth that is held from `held` to `share`, fees aside."""
    buys, sells = (share - held) / np.maximum(1 - held, 1e-6), (share - held) / np.maximum(held, 1e-6)
    return np.clip(np.where(share > held, buys, sells), -1.0, 1.0)


def by(rule: Rule) -> Policy:
    """A rule as a policy."""

    def policy(senses: Senses, first: np.ndarray) -> Actions:
        held = np.clip(np.asarray(senses["account"], np.float64)[:, 0], 0.0, 1.0)
        returns = np.asarray(senses["returns"], np.float64) / SCALE
        return {TRADE: command(rule(returns, held, first), held)[:, None]}

    return policy


def between(signal: np.ndarray, low: float, high: float, held: np.ndarray) -> np.ndarray:
    """All in above `high`, out below `low`, else what is held."""
    return np.where(signal > high, 1.0, np.where(signal < low, 0.0, held))


def nothing() -> Rule:
    """Cash."""
    return lambda returns, held, first: np.zeros(len(held))


def hold() -> Rule:
    """Buy all at once, and keep it."""
    return lambda returns, held, first: np.ones(len(held))


def moving_average(window: int = 32, width: float = 0.0) -> Rule:
    """In while the price is above the mean of the last `window`, with a band of `width` around it."""

    def rule(returns: np.ndarray, held: np.ndarray, first: np.ndarray) -> np.ndarray:
        back = np.cumsum(returns[:, :-window - 1:-1], axis=1).mean(1)  # fmt: skip
        return between(back, -width, width, held)

    return rule


def momentum(window: int = 32, low: float = 0.0, high: float = 0.0) -> Rule:
    """In after a rise by more than `high` over the last `window` ticks, out after one by less than `low`."""
    return lambda returns, held, first: between(returns[:, -window:].sum(1), low, high, held)


def reversion(window: int = 32, low: float = -1.0, high: float = 1.0) -> Rule:
    """In where the z-score of the price in the last `window` is below `low`, out above `high`."""

    def rule(returns: np.ndarray, held: np.ndarray, first: np.ndarray) -> np.ndarray:
        price = np.cumsum(returns[:, -window:], axis=1)
        z = (price[:, -1] - price.mean(1)) / np.maximum(price.std(1), 1e-9)
        return between(-z, -high, -low, held)

    return rule


def kelly(window: int = 32, prior: float = 0.0, width: float = 0.0) -> Rule:
    """Drift by variance of the last `window` returns, as if `prior` more of them had been 0; who holds another share
    keeps it where that is no further away than `width`."""

    def rule(returns: np.ndarray, held: np.ndarray, first: np.ndarray) -> np.ndarray:
        recent = returns[:, -window:]
        variance = np.maximum(recent.var(1), 1e-9)
        share = np.clip(recent.sum(1) / (window + prior) / variance + 0.5, 0.0, 1.0)
        return np.where(np.abs(share - held) > width, share, held)

    return rule


def averages(fast: float = 4.0, slow: float = 16.0, width: float = 0.0) -> Rule:
    """In while the fast exponential mean of the price is above the slow one (a crossing of averages)."""

    def rule(returns: np.ndarray, held: np.ndarray, first: np.ndarray) -> np.ndarray:
        price = np.cumsum(returns, axis=1)
        age = np.arange(price.shape[1])[::-1]
        quick, late = (np.exp(-age / span) / np.exp(-age / span).sum() for span in (fast, slow))
        return between(price @ (quick - late), -width, width, held)

    return rule


def news(returns: np.ndarray, first: np.ndarray) -> Iterable[np.ndarray]:
    """The returns [N] that were not seen before: of [N, 32] all at an episode's beginning, then the last alone."""
    return returns.T if first.all() else returns.T[-1:]


def normal(seen: np.ndarray, mean: float | np.ndarray, spread: float | np.ndarray) -> np.ndarray:
    """The density of a normal distribution, but for a factor that is the same for all."""
    return np.asarray(np.exp(-(((seen - mean) / spread) ** 2) / 2) / spread)


class Regimes:
    """Beliefs [N, S] of who knows how trends turn, and how volatility and falls come and go in "shocks" (Hamilton 1989,
    "A new approach to the economic analysis of nonstationary time series and the business cycle")."""

    def __init__(self, shocks: bool = False) -> None:
        wild = np.array([0.75, 2.0] if shocks else [1.0])
        self.side, self.size = (grid.ravel() for grid in np.meshgrid(np.array([-1.0, 1.0]), wild, indexing="ij"))
        turns = np.array([[0.98, 0.02], [0.02, 0.98]])
        self.moves = np.kron(turns, np.array([[0.97, 0.03], [0.03, 0.97]])) if shocks else turns
        self.shocks = shocks

    def begin(self, n: int) -> None:
        """Know nothing of `n` new paths."""
        self.belief = np.full((n, len(self.side)), 1 / len(self.side))

    def see(self, seen: np.ndarray) -> np.ndarray:
        """Go on by one return [N]; gives its density [N] by what was believed."""
        seen, mean, spread = seen[:, None], 0.004 * self.side * self.size, 0.01 * self.size
        likely = normal(seen, mean, spread)
        if self.shocks:
            likely = 63 / 64 * likely + normal(seen, mean - 0.03, np.hypot(spread, 0.05)) / 64
        belief = self.belief * np.maximum(likely, 1e-12)
        density: np.ndarray = belief.sum(1)
        self.belief = belief / density[:, None] @ self.moves
        return density

    def up(self) -> np.ndarray:
        """The belief [N] that drift is up."""
        return np.asarray(self.belief[:, self.side > 0].sum(1))


def filter_rule(low: float = 0.5, high: float = 0.5, shocks: bool = False) -> Rule:
    """In while its belief in a drift up is above `high`, out while below `low` (`Regimes`)."""
    regimes = Regimes(shocks)

    def rule(returns: np.ndarray, held: np.ndarray, first: np.ndarray) -> np.ndarray:
        if first.all():
            regimes.begin(len(first))
        for seen in news(returns, first):
            regimes.see(seen)
        return between(regimes.up(), low, high, held)

    return rule


def anchor_rule(low: float = -0.05, high: float = 0.05) -> Rule:
    """Knows the mean to which prices come back, as it is where the first known price was: in below `low`, out above
    `high`."""
    away = np.zeros(0)

    def rule(returns: np.ndarray, held: np.ndarray, first: np.ndarray) -> np.ndarray:
        nonlocal away
        away = returns.sum(1) if first.all() else away + returns[:, -1]
        return between(-away, -high, -low, held)

    return rule


def coin() -> Rule:
    """Kelly's share of the level "coin"."""
    return lambda returns, held, first: coin_share(returns[:, -1] > 0)


RULES: Mapping[str, Callable[[], Rule]] = {
    "random": hold,
    "trend": lambda: filter_rule(0.3, 0.7),
    "reverting": lambda: anchor_rule(-0.02, 0.02),
    "shocks": lambda: filter_rule(0.4, 0.6, True),
    "coin": coin,
}
"""By level, the rule for who knows it."""
PRIOR = {"trend": 3.0}
"""How much more probable a level is taken to be. It is dearer to take a trend for chance than chance for a trend.
Chosen on paths of lessons."""
LEAST = 1e-300
"""Likelihood at least, as 0 would never be forgotten."""


def oracle_rule() -> Rule:
    """Who is told by which processes prices are drawn, but not which of them it meets; as a rule that remembers.

    Our agent learns the same from paths of lessons, so what this rule comes to is a fairer ceiling than that of a rule
    that knows its market. It believes in each market by the likelihood of the returns seen so far, and does what the
    rule of the most probable one does.
    """
    by_level = {level: RULES[level]() for level in LEVELS}
    trend, shocks = Regimes(), Regimes(shocks=True)
    away, evidence = np.zeros(0), np.zeros((0, 0))

    def rule(returns: np.ndarray, held: np.ndarray, first: np.ndarray) -> np.ndarray:
        nonlocal away, evidence
        if first.all():
            trend.begin(len(first))
            shocks.begin(len(first))
            away = np.zeros(len(first))
            evidence = np.tile(np.log([PRIOR.get(level, 1.0) for level in LEVELS]), (len(first), 1))
        for seen in news(returns, first):
            likely = {
                "random": normal(seen, 0.0006, 0.01),
                "trend": trend.see(seen),
                "reverting": normal(seen, -0.1 * away, 0.02),
                "shocks": shocks.see(seen),
                "coin": 1e3 * np.isclose(np.abs(np.expm1(seen)), COIN_STEP, atol=1e-4),
            }
            evidence = evidence + np.log(np.maximum(np.stack([likely[level] for level in LEVELS], 1), LEAST))
            away = away + seen
        shares = np.stack([by_level[level](returns, held, first) for level in LEVELS], 1)
        return shares[np.arange(len(held)), evidence.argmax(1)]

    return rule
