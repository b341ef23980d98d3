"""A market as Rules: one asset, whose price trades do not move, and an account that pays fees, slippage and tax.

Prices come from one of a few processes, or from any file of open, high, low, close and volume. Trading is on paper:
nothing here can place an order. Observations are made of prices up to the present tick. The state also holds later
prices, as the seed decides them all, but only `truth` reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from gymnasium import spaces

from devmind.errors import WorldError, nearest
from devmind.seeding import EXAM_SEEDS_FROM, numpy_rng
from devmind.worlds.ohlcv import read_closes
from devmind.worlds.rules import Outcome, Struct
from devmind.worlds.spaces import effector

TICKS = 256
"""Ticks of an episode."""
SEEN = 32
"""Ticks before an episode with known prices, and the number of returns seen at each tick."""
SCALE = 50.0
"""Factor of log returns in the sense, so that two percent are a 1."""
LESSONS_SHARE = 0.7
"""The first share of a file's bars is for lessons, the rest for exams (walk-forward)."""
REPLAY = "replay:"
"""Prefix of a level that is the path of a file."""


@dataclass(frozen=True)
class Costs:
    """fee: share of the traded amount; slippage: share by which the price moves against a trader who trades everything,
    in proportion for smaller trades; tax: on realised gains, after losses that were not yet set off."""

    fee: float = 0.001
    slippage: float = 0.0005
    tax: float = 0.25


FREE = Costs(0.0, 0.0, 0.0)
Returns = Callable[[np.random.Generator, int], np.ndarray]
"""`(rng, n) -> log returns float64 [n]`."""


def _random(rng: np.random.Generator, n: int) -> np.ndarray:
    """Drift and noise without memory: nothing can be predicted."""
    return 0.0006 + 0.01 * rng.standard_normal(n)


def _trend(rng: np.random.Generator, n: int) -> np.ndarray:
    """Drift up or down, which lasts for 50 ticks on average."""
    side = np.where(np.cumsum(rng.random(n) < 0.02) % 2 == rng.integers(2), 1.0, -1.0)
    return 0.004 * side + 0.01 * rng.standard_normal(n)


def _reverting(rng: np.random.Generator, n: int) -> np.ndarray:
    """The logarithm of the price returns to its mean by a tenth a tick."""
    away, shocks = np.zeros(n + 1), 0.02 * rng.standard_normal(n)
    for tick in range(n):
        away[tick + 1] = 0.9 * away[tick] + shocks[tick]
    return np.diff(away)


def _shocks(rng: np.random.Generator, n: int) -> np.ndarray:
    """Trends with waves of volatility, and falls of several percent now and then."""
    wild = np.where(np.cumsum(rng.random(n) < 0.03) % 2 == 1, 2.0, 0.75)
    calm = _trend(rng, n)
    return calm * wild + np.where(rng.random(n) < 1 / 64, 0.05 * rng.standard_normal(n) - 0.03, 0.0)


COIN_STEP, COIN_STAYS = 0.25, 0.6
"""Of the level "coin": the step of the price, and the probability that a tick repeats the direction before."""


def _coin(rng: np.random.Generator, n: int) -> np.ndarray:
    """A quarter up or down; solved by Kelly's rule (`coin_share`, `coin_growth`)."""
    turns = rng.random(n) >= COIN_STAYS
    side = np.where((np.cumsum(turns) + rng.integers(2)) % 2 == 0, 1.0, -1.0)
    return np.log1p(COIN_STEP * side)


LEVELS: dict[str, tuple[Returns, Costs]] = {
    "random": (_random, Costs()),
    "trend": (_trend, Costs()),
    "reverting": (_reverting, Costs()),
    "shocks": (_shocks, Costs()),
    "coin": (_coin, FREE),
}
"""Processes and costs by level. They are frozen: a test holds their numbers, as scores are compared over time."""


def coin_share(rose: np.ndarray) -> np.ndarray:
    """The share of wealth [...] to hold in the level "coin" after a rise, or a fall: the one for which the logarithm of
    wealth grows fastest (Kelly 1956)."""
    up = np.where(rose, COIN_STAYS, 1 - COIN_STAYS)
    return np.clip((2 * up - 1) / COIN_STEP, 0.0, 1.0)


def coin_growth() -> float:
    """The best growth of the logarithm of wealth a tick in the level "coin"; half of the ticks follow a rise."""
    stake = float(coin_share(np.array(True))) * COIN_STEP
    return 0.5 * float(COIN_STAYS * np.log1p(stake) + (1 - COIN_STAYS) * np.log1p(-stake))


@dataclass
class Account(Struct):
    """price float64 [N, SEEN + TICKS + 1]; tick int64 [N]; float64 [N]: cash, units held, cost (the cost
    basis of the units), losses not yet set off, net worth at this tick and before it; over bool [N]: it had ended
    before this tick."""

    price: np.ndarray
    tick: np.ndarray
    cash: np.ndarray
    units: np.ndarray
    cost: np.ndarray
    losses: np.ndarray
    before: np.ndarray
    worth: np.ndarray
    over: np.ndarray

    @property
    def now(self) -> np.ndarray:
        """The price [N] of this tick."""
        return self.price[np.arange(len(self)), SEEN + self.tick]


def buy(state: Account, share: Any, costs: Costs) -> Account:
    """The account after buying for this share [N] of the cash."""
    spent = share * state.cash
    units = spent * (1 - costs.fee) / (state.now * (1 + costs.slippage * share))
    return replace(state, cash=state.cash - spent, units=state.units + units, cost=state.cost + spent)


def sell(state: Account, share: Any, costs: Costs) -> Account:
    """The account after selling this share [N] of the units, tax paid.

    As in `buy`, arrays may be tensors, and costs may differ by row, so that the result can be differentiated.
    """
    got = share * state.units * state.now * (1 - costs.slippage * share) * (1 - costs.fee)
    gain = got - share * state.cost
    return replace(
        state,
        cash=state.cash + got - costs.tax * (gain - state.losses).clip(0.0),
        units=state.units * (1 - share),
        cost=state.cost * (1 - share),
        losses=(state.losses - gain).clip(0.0),
    )


class MarketRules:
    """`returns` float32 [32]: the last log returns, the latest last; 0.02 is a 1. `account` float32 [3]: the share of
    wealth in the asset, its unrealised gain divided by wealth, and the remaining share of the episode. `trade` [1]
    buys for that share of the cash (if positive), or sells that share of the units; then the price moves.

    The reward is the growth of the logarithm of net worth: cash after selling everything, minus costs and tax. An
    episode begins with cash of 1 and takes 256 ticks.

    Args:
        level: a process of `LEVELS`; or "replay:" and the path of a file (`devmind.worlds.ohlcv`). Each seed takes
            another cut of the file: lessons from earlier bars, exams from later ones.

    Raises:
        WorldError: there is no such level, or the file cannot be used, with the reason.
    """

    name = "market"
    horizon = TICKS

    def __init__(self, level: str = "trend") -> None:
        self.level = level
        self.closes: np.ndarray | None = None
        self.costs = Costs()
        if level.startswith(REPLAY):
            self.closes = read_closes(level.removeprefix(REPLAY))
            need = int(np.ceil((SEEN + TICKS + 1) / (1 - LESSONS_SHARE)))
            if len(self.closes) < need:
                raise WorldError(
                    f"'{level.removeprefix(REPLAY)}' has {len(self.closes)} bars; {need} are needed, so that lessons "
                    f"and exams get separate cuts of {SEEN + TICKS + 1}."
                )
        elif level in LEVELS:
            self.costs = LEVELS[level][1]
        else:
            raise WorldError(f"The world 'market' has no level '{level}'{nearest(level, [*LEVELS, REPLAY + 'FILE'])}")
        returns = spaces.Box(-np.inf, np.inf, (SEEN,), np.float32)
        account = spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.observation_space = spaces.Dict({"returns": returns, "account": account})
        self.action_space = spaces.Dict({"trade": effector(1)})

    def initial(self, seeds: np.ndarray) -> Account:
        """Prices of each seed, and cash of 1."""
        n = len(seeds)
        one, none = np.ones(n), np.zeros(n)
        price = np.stack([self._prices(int(seed)) for seed in seeds]) if n else np.zeros((0, SEEN + TICKS + 1))
        ticks, over = np.zeros(n, np.int64), np.zeros(n, bool)
        return Account(price, ticks, one, none, none.copy(), none.copy(), one.copy(), one.copy(), over)

    def _prices(self, seed: int) -> np.ndarray:
        n, rng = SEEN + TICKS, numpy_rng("market", self.level.split(":")[0], seed)
        if self.closes is None:
            return np.exp(np.append(0.0, np.cumsum(LEVELS[self.level][0](rng, n))))
        border = int(LESSONS_SHARE * len(self.closes))
        cut = self.closes[border:] if seed >= EXAM_SEEDS_FROM else self.closes[:border]
        begin = int(rng.integers(len(cut) - n))
        return cut[begin : begin + n + 1] / cut[begin]

    def legal(self, state: Account) -> Mapping[str, np.ndarray]:
        """Every trade is legal: a share cannot exceed what is there."""
        return {}

    def step(self, state: Account, actions: Mapping[str, np.ndarray]) -> Account:
        """Trade at this tick's price, then the price moves; without an action nothing is traded."""
        over = self._ended(state)
        trade = np.asarray(actions.get("trade", np.zeros((len(state), 1))), np.float64)[:, 0]
        if not np.isfinite(trade).all():
            raise WorldError("A command `trade` is one finite number in -1..1 a row; got NaN or infinity.")
        trade = np.where(over, 0.0, np.clip(trade, -1.0, 1.0))
        after = buy(sell(state.copy(), (-trade).clip(0.0), self.costs), trade.clip(0.0), self.costs)
        after = replace(after, tick=state.tick + ~over, over=over, before=state.worth.copy())
        return replace(after, worth=self.net_worth(after))

    def net_worth(self, state: Account) -> np.ndarray:
        """Cash after selling everything, minus costs and tax, [N]."""
        return np.asarray(sell(state, 1.0, self.costs).cash)

    def outcome(self, state: Account) -> Outcome:
        """Growth of the logarithm of net worth; an episode is cut after 256 ticks."""
        grown = np.where(state.over, 0.0, np.log(state.worth / state.before))
        return Outcome(grown.astype(np.float32), np.zeros(len(state), bool), state.tick >= TICKS)

    def observe(self, state: Account) -> dict[str, Any]:
        """Past returns and the account."""
        at = state.tick[:, None] + np.arange(SEEN + 1)
        past = np.diff(np.log(np.take_along_axis(state.price, at, 1)), axis=1)
        held = state.units * state.now
        wealth = np.maximum(state.cash + held, 1e-12)
        account = np.stack((held / wealth, (held - state.cost) / wealth, 1 - state.tick / TICKS), 1)
        return {"returns": (SCALE * past).astype(np.float32), "account": account.astype(np.float32)}

    def truth(self, state: Account) -> dict[str, np.ndarray]:
        """All prices, net worth and the units held, in full precision."""
        return {"price": state.price.copy(), "worth": state.worth.copy(), "units": state.units.copy()}

    def _ended(self, state: Account) -> np.ndarray:
        return state.tick >= TICKS
