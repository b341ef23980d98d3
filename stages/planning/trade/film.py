"""An agent plans trades: candidates while they are denoised, how they were judged, and what came of it, for a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from devmind.acting import rollout
from devmind.agent.agent import Agent
from devmind.agent.batch import collate_tick
from devmind.worlds import make as make_world
from devmind.worlds.market import SEEN, Costs
from stages.planning.film import fill_page, refuse_gaps
from stages.planning.parts import TRADE, TRADE_PLAN
from stages.planning.trade import HORIZON, rules
from stages.planning.trade.exam import planner
from stages.planning.trade.plan_head import Weighed
from stages.planning.trade.plans import BUY, HOLD, SELL, SYMBOLS, volatility

WIDE, HIGH = 1.0, 0.6
"""How far a page shows ticks and prices, from its middle."""
RGB = {BUY: (21, 128, 61), SELL: (194, 65, 12)}


@dataclass
class Planned:
    """What was imagined of a market and what came of it.

    Attributes:
        frames: by step of denoising, logarithms of prices [N, H + 1] as they were noised, and symbols int64 [N, H].
        found: the first plan's candidates, of one row. costs: by which they were judged.
        came: logarithms of the prices that came [H + 1]; now is 0.
        plans: how many were made on the way. ticks: of the episode.
        worth, held: net worth in the end, by plans, and of who bought all at once and kept it; 1 as it began.
    """

    frames: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)
    found: Weighed | None = None
    costs: Costs = field(default_factory=Costs)
    came: np.ndarray = field(default_factory=lambda: np.zeros(HORIZON + 1))
    plans: int = 0
    ticks: int = 0
    worth: float = 1.0
    held: float = 1.0

    @property
    def weighed(self) -> Weighed:
        """The candidates, which are there once it has begun."""
        assert self.found is not None
        return self.found

    @property
    def chosen(self) -> int:
        """Which one was followed; the last is never to trade."""
        return int(self.weighed.chosen[0])

    @property
    def trades(self) -> list[tuple[int, int]]:
        """Ticks and symbols of the chosen plan that change what one has, who begins with cash."""
        trades, has = list[tuple[int, int]](), False
        for tick, symbol in enumerate(self.weighed.symbols[0, self.chosen].tolist()):
            if symbol != HOLD and has != (symbol == BUY):
                trades.append((tick, symbol))
                has = symbol == BUY
        return trades

    @property
    def said(self) -> str:
        """The chosen plan in words."""
        if self.chosen == self.weighed.steps.shape[1]:
            return "never trade"
        return ", ".join(f"{SYMBOLS[symbol]} at tick {tick + 1}" for tick, symbol in self.trades)

    @property
    def judged(self) -> str:
        """How it was chosen, in a sentence."""
        marks, n = self.weighed.marks[0], self.weighed.steps.shape[1]
        own = f"; the chosen one {self.weighed.alone[0, self.chosen]:+.2%} on its own path" if self.chosen < n else ""
        return (
            f"on the prices of all {n}, trades of candidates earn {marks[:n].min():+.2%} to {marks[:n].max():+.2%} "
            f"against never trading, after a fee of {self.costs.fee:.2%}, slippage of {self.costs.slippage:.2%} and "
            f"tax of {self.costs.tax:.0%}{own}"
        )


def plan_market(agent: Agent, level: str, seed: int) -> Planned:
    """Let the agent trade the market of a level and a seed by its plans.

    Raises:
        WorldError: there is no such level, or its file cannot be used.
    """
    world = make_world("market", level, [seed])
    head: Any = agent.head(TRADE_PLAN)
    actor, film = planner(agent, 1), Planned(costs=head.costs)

    def watch(number: int, x: torch.Tensor, clean: torch.Tensor, symbols: torch.Tensor) -> None:
        film.frames.append((_logs(spread * x[..., 0].cpu().numpy()), symbols.cpu().numpy()))

    spread = 1.0

    def going(senses: Mapping[str, Any], first: np.ndarray) -> dict[str, np.ndarray]:
        nonlocal spread
        refuse_gaps(senses)
        output = actor.act(collate_tick(senses, first))
        read: Any = output.outputs[TRADE_PLAN]
        if first.all():
            spread = float(volatility(read.returns)[0])
            film.found = read.weighed(torch.tensor([0]), torch.tensor([0]), None, watch)
        film.plans, film.ticks = int(read.carry["made"][0]), film.ticks + 1
        return {TRADE: output.action[TRADE].cpu().numpy()}

    with torch.inference_mode():
        for _ in rollout(going, world):
            pass
    truth = world.truth()
    film.worth = float(truth["worth"][0])
    film.came = np.log(truth["price"][0, SEEN : SEEN + HORIZON + 1] / truth["price"][0, SEEN])
    again = make_world("market", level, [seed])
    for _ in rollout(rules.by(rules.hold()), again):
        pass
    film.held = float(again.truth()["worth"][0])
    return film


def _logs(steps: np.ndarray) -> np.ndarray:
    """Logarithms of prices [..., H + 1] from 0 on, by log returns [..., H]."""
    return np.pad(np.cumsum(steps, -1), [(0, 0)] * (steps.ndim - 1) + [(1, 0)])


def page(film: Planned) -> str:
    """The page, whole: that of a maze, with ticks to the right and prices upwards."""
    weighed = film.weighed
    steps = weighed.steps[0].cpu().numpy()
    logs = _logs(np.concatenate((steps, steps.mean(0, keepdims=True))))
    high = max(np.abs(logs).max(), np.abs(film.came).max(), 1e-6)

    def seen(of: np.ndarray) -> list[Any]:
        """Logarithms of prices [..., H + 1] as places."""
        ticks = np.broadcast_to(np.linspace(-WIDE, WIDE, HORIZON + 1), of.shape)
        shown: list[Any] = np.stack((ticks, -HIGH / high * of), -1).round(3).tolist()
        return shown

    def with_mean(of: np.ndarray) -> np.ndarray:
        """Never to trade is drawn on the mean of all paths."""
        return np.concatenate((of, of.mean(0, keepdims=True)))

    def with_none(symbols: np.ndarray) -> list[Any]:
        shown: list[Any] = np.pad(symbols, ((0, 1), (0, 0)), constant_values=HOLD).tolist()
        return shown

    way, n = seen(logs[film.chosen]), len(steps)
    number = "no candidate" if film.chosen == n else f"number {film.chosen + 1}"
    return fill_page(
        {
            "box": [-1.1 * WIDE, -1.25 * HIGH, 2.2 * WIDE, 2.5 * HIGH],
            "unit": 0.05,
            "walls": [],
            "discs": [
                {"at": way[tick], "r": 0.02, "ring": False, "name": f"{SYMBOLS[symbol]}, tick {tick + 1}",
                 "rgb": list(RGB[symbol])}
                for tick, symbol in film.trades
            ],
            "words": list(SYMBOLS),
            "silent": HOLD,
            "frames": [
                {"places": seen(with_mean(noised)), "symbols": with_none(symbols)} for noised, symbols in film.frames
            ],
            "plans": seen(logs),
            "symbols": weighed.symbols[0].tolist(),
            "marks": (100 * weighed.marks[0]).round(3).tolist(),
            "marked": "mean growth above never trading, %, on the prices of all candidates",
            "names": [*range(1, n + 1), "never trade"],
            "chosen": film.chosen,
            "walked": seen(film.came),
            "gone": "the prices that came",
            "came": f"Chosen: {number} ({film.said}); {film.judged}. Net worth {film.worth:.3f} after "
            f"{film.ticks} ticks and {film.plans} plans, from 1; buying and holding: {film.held:.3f}. On paper.",
            "given": [],
            "kept": [],
        }
    )  # fmt: skip
