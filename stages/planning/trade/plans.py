"""Plans of trades: what they are made of, what one comes to on prices that were imagined, and the best plan there is.

A plan is a trade for each of the next `HORIZON` ticks: buy for all cash, sell all units, or hold what one has. What it
comes to is told by the market's own account (`bought`, `sold`), fees, slippage and tax taken off, as for an episode
that ends where the plan does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from devmind.worlds.market import SCALE, SEEN, TICKS, Account, Costs, buy, sell
from stages.planning.imagining import Form
from stages.planning.trade import HORIZON
from stages.planning.trade.head import HELD, LEFT

SYMBOLS = ("hold", "buy", "sell")
HOLD, BUY, SELL = range(len(SYMBOLS))
SHARE = np.array([0.0, 1.0, -1.0])
"""What each of them tells the effector `trade`."""
GAIN = 1
"""Where the gain that is not realised stands in what is read of the account; see HELD and LEFT."""
ACCOUNT = 3
"""Numbers of an account."""
WINDOWS, LAGS = (4, 8, 16, 32), (2, 4, 8, 16)
"""Of what is told of returns besides themselves: how far the price is from its mean of the last ticks, and whether sums
of so many returns vary more than these alone do (`scene`)."""
FEATURES = SEEN + len(WINDOWS) + len(LAGS) + 1 + ACCOUNT
"""Numbers of what a plan is imagined of."""
FORM = Form(channels=1, horizon=HORIZON, words=len(SYMBOLS), told_by=1, pointed=0)
LEAST = 1e-4
"""Volatility of a tick below which prices count as standing still."""
MOST = 5.0
"""Returns further out than so many times their volatility are told as this."""
CALM = -4.0
"""Near the logarithm of the volatility of a usual tick, 0.018: what is told of it is told from there."""


def volatility(returns: Tensor) -> Tensor:
    """Of a tick, in log returns [...], by returns as they are seen [..., SEEN]."""
    return returns.std(-1, correction=0).clamp_min(SCALE * LEAST) / SCALE


def scene(returns: Tensor, account: Tensor) -> Tensor:
    """What a plan is imagined of, [..., 1, FEATURES], by returns [..., SEEN] as they are seen and the account [..., 3].

    Returns are told in units of their volatility; besides them how far the price is from its mean over some windows,
    variance ratios (Lo and MacKinlay 1988: above 0 where moves go on, below where they come back), the volatility, and
    the account.
    """
    spread = volatility(returns)[..., None]
    scaled_returns = (returns / (SCALE * spread)).clamp(-MOST, MOST)
    back, path = scaled_returns.flip(-1).cumsum(-1), F.pad(scaled_returns.cumsum(-1), (1, 0))
    away = [back[..., :window].mean(-1) / window**0.5 for window in WINDOWS]
    ratios = [(path[..., lag:] - path[..., :-lag]).square().mean(-1) / lag - 1 for lag in LAGS]
    summary = torch.stack((*away, *ratios), -1)
    return torch.cat((scaled_returns, summary, spread.log() - CALM, account), -1)[..., None, :]


def holding(account: np.ndarray, each: int) -> Account:
    """Accounts whose net wealth is 1, by what is sensed of them [B, 3], each so many times, in a row; the price is 1.

    Losses that can still be set off are no sense of the market's, so none are counted: a plan's gain is taxed in full.
    """
    account = np.asarray(account, np.float64).repeat(each, 0)
    held, one, none = account[:, HELD].clip(0.0, 1.0), np.ones(len(account)), np.zeros(len(account))
    cost = (held - account[:, GAIN]).clip(0.0)
    # The price of now is all that `bought` and `sold` ask for: it stands where tick -SEEN is looked for.
    now = np.full(len(account), -SEEN)
    return Account(one[:, None], now, 1 - held, held, cost, none, one, one, none > 0)


def account_after_trade(account: Account, price: np.ndarray, share: np.ndarray, costs: Costs) -> Account:
    """What one has after trading at this price [N]: `share` [N] of the cash is spent, or of the units sold (negative),
    as `MarketRules.step` does it."""
    account = replace(account, price=price[:, None])
    return buy(sell(account, (-share).clip(0.0), costs), share.clip(0.0), costs)


def prices(steps: np.ndarray, left: np.ndarray) -> np.ndarray:
    """Prices [B, N, H + 1] from 1 on, by log returns [B, N, H]; they stand still behind an episode's end, of which the
    share `left` [B] is to come."""
    ticks = np.rint(left * TICKS)[:, None, None]
    steps = np.where(np.arange(steps.shape[-1]) < ticks, steps, 0.0)
    return np.exp(np.pad(np.cumsum(steps, -1), ((0, 0), (0, 0), (1, 0))))


def log_growth(symbols: np.ndarray, steps: np.ndarray, account: np.ndarray, costs: Costs) -> np.ndarray:
    """What the logarithm of net worth grows by, float64 [B, P, N], by each of P plans on each of N paths.

    Args:
        symbols: plans int64 [B, P, H]; steps: log returns of paths [B, N, H]; account: as it is sensed [B, 3].
    """
    (b, p, h), n = symbols.shape, steps.shape[1]
    price = prices(np.asarray(steps, np.float64), account[:, LEFT])
    share = np.where(np.arange(h) < np.rint(account[:, LEFT] * TICKS)[:, None, None], SHARE[symbols], 0.0)
    one = holding(account, p * n)
    before = sell(one, 1.0, costs).cash
    for tick in range(h):
        at = np.broadcast_to(price[:, None, :, tick], (b, p, n)).ravel()
        one = account_after_trade(one, at, share[:, :, tick].repeat(n, 1).ravel(), costs)
    end = np.broadcast_to(price[:, None, :, h], (b, p, n)).ravel()
    worth = sell(replace(one, price=end[:, None]), 1.0, costs).cash
    return np.asarray(np.log(worth / before)).reshape(b, p, n)


def _pairs(h: int) -> np.ndarray:
    """Ticks [P, 2] of two trades at most, one behind the other; H is none. That nothing is traded comes first."""
    return np.array([(h, h), *((first, then) for first in range(h) for then in range(first + 1, h + 1))])


def best(steps: np.ndarray, account: np.ndarray, fees: Sequence[Costs]) -> np.ndarray:
    """Of all plans with two trades at most the one whose net worth grows most on average over paths, int64 [B, H].

    Args:
        steps: log returns of paths [B, N, H]; account: as it is sensed [B, 3]; fees: the costs of each row.
    """
    (b, n, h), pairs = steps.shape, _pairs(steps.shape[-1])
    p = len(pairs)
    price = prices(np.asarray(steps, np.float64), account[:, LEFT])
    each = {name: np.array([getattr(one, name) for one in fees]).repeat(p * n) for name in ("fee", "slippage", "tax")}
    costs: Any = Costs(**each)  # type: ignore[arg-type]
    buys = account[:, HELD] < 0.5
    one = holding(account, p * n)
    for number, sign in enumerate((1.0, -1.0)):
        tick = pairs[:, number]
        share = np.where(tick < h, sign * np.where(buys, 1.0, -1.0)[:, None], 0.0)
        at = price[:, :, tick.clip(max=h)].transpose(0, 2, 1)
        one = account_after_trade(one, at.ravel(), share.repeat(n, 1).ravel(), costs)
    end = np.broadcast_to(price[:, None, :, h], (b, p, n)).ravel()
    worth = np.asarray(sell(replace(one, price=end[:, None]), 1.0, costs).cash).reshape(b, p, n)
    best_pairs = pairs[np.log(worth).mean(-1).argmax(1)]
    symbols = np.full((b, h + 1), HOLD)
    rows = np.arange(b)
    symbols[rows, best_pairs[:, 0]] = np.where(buys, BUY, SELL)
    symbols[rows, best_pairs[:, 1]] = np.where(buys, SELL, BUY)
    return symbols[:, :h]
