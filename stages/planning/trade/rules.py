"""Rules that trade: what anybody would try first, with the best numbers that lessons' paths gave them; and rules that
know by which process prices are drawn, as a ceiling.

Each is `(returns [N, 32], held [N], first [N]) -> share of wealth to hold [N]`, made by a function so that one that
remembers begins anew. Numbers were chosen on 1,000 paths of lessons for each level
(`git show af69618b:benchmarks/trade.py`, `--tune`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from devmind.acting import Policy, Senses
from devmind.acting.rollout import Actions
from devmind.seeding import numpy_rng
from devmind.worlds.market import COIN_STEP, LEVELS, SCALE, TICKS, coin_share
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


def chance() -> Rule:
    """A share of wealth at random, each tick anew."""
    rng = numpy_rng("market", "chance")

    def rule(returns: np.ndarray, held: np.ndarray, first: np.ndarray) -> np.ndarray:
        nonlocal rng
        if first.all():
            rng = numpy_rng("market", "chance")
        return rng.random(len(held))

    return rule


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

    def rises(self, falls: float) -> np.ndarray:
        """Expected rise of the logarithm of the price over the next 1, 2, ... ticks from each state [AHEAD, S].

        Args:
            falls: what sudden falls add to each tick on average.
        """
        drift, mean = 0.004 * self.side * self.size + falls, np.zeros(len(self.side))
        found = list[np.ndarray]()
        for _ in range(AHEAD):
            mean = drift + self.moves @ mean
            found.append(mean)
        return np.array(found)

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


AHEAD = 128
"""Ticks that the filter looks ahead: by then a trend is forgotten, and so is a distance from the mean."""
PAYS = 0.01
"""The rise of the logarithm of the price that is worth buying for, and the fall that is worth selling for. Costs of
both ways are 0.003, and of a gain tax takes a quarter. Chosen on 150 paths of lessons of each level, where 0.003 in its
place comes to 0.99 of the growth."""
LEAST = 1e-300
"""Likelihood at least, as 0 would never be forgotten."""
COIN_DENSITY = 1e3
"""Of the coin's two steps, which no other process makes but by chance."""


class Mixture:
    """What can be known of a path by who is told every process that lessons draw, but not which one it is.

    An exact Bayesian filter: the processes are equally probable at first, as lessons show as many paths of each, and
    their numbers are fixed, so what is hidden is which process it is and its state: how a trend stands, how wild it is
    (`Regimes`), how far the price is from its mean, and which way the coin fell. A state is followed in each process,
    and a process believed in by the likelihood of all returns.
    """

    def __init__(self) -> None:
        self.trend, self.shocks = Regimes(), Regimes(shocks=True)
        ticks = np.arange(1, AHEAD + 1)
        self.rises = {
            "random": 0.0006 * ticks,
            "trend": self.trend.rises(0.0),
            "reverting": -(1 - 0.9**ticks),
            "shocks": self.shocks.rises(-0.03 / 64),
        }
        """Expected rise of the logarithm of the price over the next ticks [AHEAD], or of each state [AHEAD, S]; in
        "reverting" for each unit of distance."""

    def begin(self, n: int) -> None:
        """Know nothing of `n` new paths."""
        self.trend.begin(n)
        self.shocks.begin(n)
        self.away, self.rose, self.evidence = np.zeros(n), np.zeros(n, bool), np.zeros((n, len(LEVELS)))

    def see(self, seen: np.ndarray) -> None:
        """Go on by one return [N]."""
        likely = {
            "random": normal(seen, 0.0006, 0.01),
            "trend": self.trend.see(seen),
            "reverting": normal(seen, -0.1 * self.away, 0.02),
            "shocks": self.shocks.see(seen),
            "coin": COIN_DENSITY * np.isclose(np.abs(np.expm1(seen)), COIN_STEP, atol=1e-4),
        }
        self.evidence += np.log(np.maximum(np.stack([likely[level] for level in LEVELS], 1), LEAST))
        self.away, self.rose = self.away + seen, seen > 0

    def processes(self) -> dict[str, np.ndarray]:
        """By level, the belief [N] that the path is of it."""
        odds = np.exp(self.evidence - self.evidence.max(1, keepdims=True))
        return dict(zip(LEVELS, (odds / odds.sum(1, keepdims=True)).T, strict=True))

    def forecast(self) -> np.ndarray:
        """Expected rise of the logarithm of the price over the next 1, 2, ... ticks [N, AHEAD], the coin left out."""
        belief, state = self.processes(), {"trend": self.trend.belief, "shocks": self.shocks.belief}
        state |= {"random": np.ones((len(self.away), 1)), "reverting": self.away[:, None]}
        return sum(
            belief[level][:, None] * (one @ self.rises[level].reshape(AHEAD, -1).T) for level, one in state.items()
        )


def mixture_rule() -> Rule:
    """The best that is known for who knows as little as the agent: all in where `Mixture` expects a rise that pays, out
    where it expects a fall that does, by the nearer of them in doubt; on a coin Kelly's share.

    A share of wealth between the two would be right only where drift by variance is below 1 (Kelly), as on the coin:
    elsewhere it is above 6 for each process.
    """
    mixture, tick = Mixture(), 0

    def rule(returns: np.ndarray, held: np.ndarray, first: np.ndarray) -> np.ndarray:
        nonlocal tick
        if first.all():
            mixture.begin(len(first))
            tick = 0
        for seen in news(returns, first):
            mixture.see(seen)
        ahead = mixture.forecast()[:, : max(1, TICKS - tick)]
        tick += 1
        rise, fall = ahead.max(1), -ahead.min(1)
        share = np.where(np.maximum(rise, fall) > PAYS, rise > fall, held)
        return np.where(mixture.processes()["coin"] > 0.5, coin_share(mixture.rose), share)

    return rule
