"""The lesson trade: the gradient of growth through the costs, on paths that nobody moves.

What a path comes to is a function of the shares that were held along it, known down to fees and tax. So net worth is
differentiated by them, and no reward is ever estimated (Moody and Saffell 2001, "Learning to trade via direct
reinforcement", IEEE Transactions on Neural Networks 12).

So it matters to nobody who traded on a path: a feed's episodes of `market` are paths, whatever was done in them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.acting import Senses
from devmind.acting.rollout import Actions
from devmind.agent.agent import Agent
from devmind.agent.rows import initial_carry
from devmind.agent.taps import Tapped
from devmind.curriculum.stage import Context, Lesson
from devmind.errors import WorldError
from devmind.learners.gradient import gradient_lesson
from devmind.learners.population import Genome, Niche, evolution_lesson
from devmind.seeding import lesson_seeds
from devmind.worlds.adapter import VectorWorld
from devmind.worlds.fed import Episode
from devmind.worlds.market import LEVELS, SCALE, SEEN, TICKS, Account, Costs, MarketRules, buy, sell
from stages.planning import parts
from stages.planning.trade.head import HELD, LEFT, TradeHead, command

NAME = "trade"
STEPS = {"tiny": 20, "nursery": 400, "child": 400, "adult": 400}
LAST_LAYER = ("read.4.",)
"""What a population searches of the head, 130 of 18,818 numbers at size nursery: a search slows down with their number,
and what all members share is computed once."""
GENERATIONS = {"tiny": 3, "nursery": 100, "child": 200, "adult": 200}
"""Of a population, in place of steps."""
PATHS = 24
"""Of each level in a batch; of a feed, which has one market, in a batch."""
FED_AGAIN = 4
"""Batches in a row that learn from one path of a feed, which comes no faster than its market trades."""
OPEN = 0.02
"""Weight of a barrier that keeps the band's edges off 0 and 1, where they would feel no gradient any more: the first
thing that is learned of a coin is to stay away from it."""


def lesson(context: Context) -> Lesson:
    """Paths of all levels; which one it is nobody says."""
    said = context.config.lessons.get(NAME)
    if said is not None and said.learner == "population":
        size = context.config.size
        members, episodes = (24, 2) if size == "tiny" else (256, 4)
        where, search = (parts.TRADE, MarketRules.name, tuple(LEVELS), NAME, LAST_LAYER), (members, episodes, 0.1)
        niche = Niche(*where, *search, "genetic", Traders, volatility, fed_market)
        return evolution_lesson(
            context, NAME, niche, steps=GENERATIONS[size], minutes=9.0, skills=(NAME,), settings=tuple(COSTS)
        )
    return gradient_lesson(
        context, NAME, loss, make, steps=STEPS, rows=PATHS, learning_rate=1e-2, minutes=3.0,
        trains=lambda agent: TRAINS, skills=(NAME,), prefetch=context.feed_of(MarketRules.name) is None,
        settings=("batch", "learning_rate", *COSTS), learners=("population",),
    )  # fmt: skip


TRAINS = (f"encoders.{parts.RETURNS}.", f"heads.{parts.TRADE}.")
COSTS = asdict(Costs())
"""What a feed's market charges, by option of the lesson; no sense tells it."""


def make(agent: Agent, context: Context, update: int, rows: int, steps: int = 0) -> dict[str, Any]:
    """Prices float32 [B, SEEN + TICKS + 1] of `rows` paths a level, or of a feed, and costs [B] by name."""
    if (feed := context.feed_of(MarketRules.name)) is not None:
        first = update * max(1, rows // FED_AGAIN)
        return fed_paths(feed.episodes(first, rows), Costs(**context.options(NAME, COSTS)))
    return paths({level: lesson_seeds(rows, context.seed, NAME, level, update) for level in LEVELS})


def paths(seeds: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Paths of these seeds by level, one level behind the other."""
    rules = {level: MarketRules(level) for level in seeds}
    price = np.concatenate([rules[level].initial(of).price for level, of in seeds.items()])
    each = [rules[level].costs for level, of in seeds.items() for _ in of]
    costs = {name: torch.tensor([getattr(one, name) for one in each]) for name in COSTS}
    return {"price": torch.from_numpy(price).float(), "levels": tuple(seeds), **costs}


def fed_paths(episodes: Sequence[Episode], costs: Costs) -> dict[str, Any]:
    """The paths along which these episodes traded; those that were broken off are left out.

    Raises:
        WorldError: all of them were.
    """
    whole = [one.senses[parts.RETURNS] for one in episodes if len(one) == TICKS + 1]
    if not whole:
        raise WorldError(f"An episode of 'market' has {TICKS + 1} Moments; of {len(episodes)} in the feed none has.")
    seen = np.stack([np.append(returns[0], returns[1:, -1]) for returns in whole]) / SCALE
    price = np.exp(np.pad(np.cumsum(seen, 1, dtype=np.float64), ((0, 0), (1, 0))))
    same = {name: torch.full((len(whole),), value) for name, value in asdict(costs).items()}
    return {"price": torch.from_numpy(price).float(), "levels": (MarketRules.name,), **same}


class Traders:
    """Copies of the head that trades, as a policy (`Members`): nobody moves the prices, so each member's band along
    whole paths is told at once, and what all members share is computed once."""

    def __init__(self, of: Genome, effector: str, members: Tensor, begun: VectorWorld[Any]) -> None:
        price = torch.from_numpy(begun.truth()["price"]).float().to(of.device)
        with torch.no_grad():
            seen, left = told_along(of.agent, price)
        account = torch.zeros_like(seen)
        account[..., LEFT] = left
        tokens = torch.stack((seen, account), -2)
        present = torch.ones(tokens.shape[:-1], dtype=torch.bool, device=of.device)
        carry = initial_carry(of.head.carry_spec, len(price), of.device)
        found, _ = of.answer(members, lambda output: output.numbers(), Tapped(tokens, present), carry, each=False)
        self.bands, self.tick = found.flatten(0, 1).unbind(1), 0

    def __call__(self, senses: Senses, first: np.ndarray) -> Actions:
        low, high = self.bands[self.tick].unbind(-1)
        held = torch.from_numpy(senses[parts.ACCOUNT][:, HELD]).to(low.device)
        self.tick += 1
        return {parts.TRADE: command(low, high, held)[:, None].cpu().numpy()}


def volatility(begun: VectorWorld[Any]) -> np.ndarray:
    """Of the paths [E], over an episode: the unit in which `loss` measures growth, too."""
    return np.diff(np.log(begun.truth()["price"])).std(1) * TICKS**0.5


def fed_market(context: Context, generation: int, episodes: int) -> dict[str, VectorWorld[Any]] | None:
    """A market on paths of the run's feed, with the costs told to the lesson; None without one."""
    if (feed := context.feed_of(MarketRules.name)) is None:
        return None
    first = generation * max(1, episodes // FED_AGAIN)
    rules: Any = MarketRules()
    rules.costs = Costs(**context.options(NAME, COSTS))
    price = fed_paths(feed.episodes(first, episodes), rules.costs)["price"].double().numpy()
    world: VectorWorld[Any] = VectorWorld(rules, len(price))
    world.restore(replace(rules.initial(np.arange(len(price))), price=price))
    return {MarketRules.name: world}


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Minus what the logarithm of net worth grows by in an episode, in units of the path's volatility, on average: a
    coin moves 25 times as far as a trend, and would be all that is learned."""
    price = batch["price"].to(agent.device)
    costs = Costs(*(batch[name].to(agent.device) for name in COSTS))
    low, high = bands(agent, price)
    grown = growth(low, high, price, costs)
    levels = batch["levels"]
    growth_of_level = {level: one.mean().detach() for level, one in zip(levels, grown.chunk(len(levels)), strict=True)}
    sharpe = (grown / price.log().diff(dim=1).std(1)).mean() / TICKS**0.5
    open_to_change = torch.cat((low, 1 - low, high, 1 - high)).clamp_min(1e-6).log().mean()
    return -sharpe - OPEN * open_to_change, growth_of_level


def bands(agent: Agent, price: Tensor) -> tuple[Tensor, Tensor]:
    """The edges [B, TICKS] that the agent's head says along paths [B, SEEN + TICKS + 1]."""
    head: Any = agent.head(parts.TRADE)
    assert isinstance(head, TradeHead)
    low, high, _ = head.bands(*told_along(agent, price))
    return low, high


def told_along(agent: Agent, price: Tensor) -> tuple[Tensor, Tensor]:
    """The tokens [B, TICKS, D] of the returns seen along paths, and what is left of the episode [B, TICKS]."""
    past = price.log().diff(dim=1).unfold(1, SEEN, 1)[:, :TICKS]
    tokens = agent.encoder(parts.RETURNS)(SCALE * past).tokens[:, :, 0]
    left = 1 - torch.arange(TICKS, device=price.device) / TICKS
    return tokens.float(), left.expand(len(price), -1)


def growth(low: Tensor, high: Tensor, price: Tensor, costs: Costs) -> Tensor:
    """What the logarithm of net worth grows by [B] for who stays between `low` and `high` [B, TICKS]: the market's own
    account, of tensors."""
    one, none = torch.ones_like(price[:, 0]), torch.zeros_like(price[:, 0])
    at: Any = np.zeros(len(price), np.int64)
    account: Any = Account(price, at, one, none, none, none, one, one, at)  # type: ignore[arg-type]
    lows, highs = low.unbind(1), high.unbind(1)
    for tick in range(TICKS):
        account = replace(account, tick=at + tick)
        worth = account.units * account.now
        trade = command(lows[tick], highs[tick], worth / (account.cash + worth))
        account = buy(sell(account, (-trade).relu(), costs), trade.relu(), costs)
    account = sell(replace(account, tick=at + TICKS), 1.0, costs)
    grown: Tensor = account.cash.log()
    return grown
