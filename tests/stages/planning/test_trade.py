"""What trade learns from and is judged by: the account as tensors, no lookahead, who passes and who does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import norm

from devmind import make_world
from devmind.acting import Actor, Policy, rollout
from devmind.agent.agent import Agent
from devmind.agent.heads import Inlet
from devmind.curriculum.exam import Measure
from devmind.errors import ConfigError, WorldError
from devmind.learners.gradient import GradientLearner
from devmind.learners.population import EvolutionLearner, Members, fitness
from devmind.testing import check_head, check_learner, tiny_agent, tiny_context
from devmind.worlds.market import LEVELS, SEEN, TICKS, Costs, MarketRules
from stages.planning import parts
from stages.planning.trade import exam, lesson, rules
from stages.planning.trade.head import TradeHead, command
from stages.planning.trade.rules import Mixture, Regimes, mixture_rule

SEEDS = np.arange(2_000_000, 2_000_024)


def head_of(agent: Agent) -> TradeHead:
    head: Any = agent.head(parts.TRADE)
    return head


def trader(agent: Agent, n: int) -> Actor:
    return Actor(agent, n, effectors=[parts.TRADE], trunk=False)


def shaken(agent: Agent) -> Agent:
    """An agent whose bands differ from tick to tick, so that it trades."""
    with torch.no_grad():
        for parameter in head_of(agent).parameters():
            parameter += 0.5 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(parameter.numel()))
    return agent


def test_the_head_keeps_the_laws_of_heads(agent: Agent) -> None:
    check_head(head_of(agent))
    with pytest.raises(ConfigError, match="one token, and a raw account"):
        TradeHead(Inlet(16, 1))


def test_a_population_of_traders_is_a_lesson_and_earns_what_each_earns_alone(agent: Agent, tmp_path: Path) -> None:
    context = tiny_context(tmp_path, "lessons.trade.learner=population", "lessons.trade.options.members=5")
    one = lesson.lesson(context)
    check_learner(one, agent, context)
    learner = one.make_learner(shaken(agent), context)
    assert isinstance(learner, EvolutionLearner)
    crowd, of, members = learner.niche, learner.of, learner.members + torch.randn(5, 1)
    paths = make_world("market", "shocks", SEEDS[:3])
    together = fitness(crowd, of, members, paths)
    stepped = fitness(replace(crowd, crowd=lambda *given: Members(*given[:3])), of, members, paths)
    np.testing.assert_allclose(together, stepped, atol=1e-5)
    for member in (0, 4):
        of.write(members[member])
        alone = exam.trade_paths(trader(agent, 3), context, "shocks", SEEDS[:3]).growth
        np.testing.assert_allclose(together[member], alone, atol=1e-5)
    assert np.ptp(together, 0).min() > 1e-3
    assert set(learner.update({}, 0)) > {f"{level}/the best one's return" for level in LEVELS}


def test_the_command_leads_to_the_nearer_edge_of_the_band_and_is_zero_inside() -> None:
    held = torch.tensor([0.0, 0.2, 0.5, 0.9, 1.0])
    told = command(torch.full((5,), 0.4), torch.full((5,), 0.6), held)
    cash, units = 1 - held, held
    after = units + told.clamp_min(0) * cash + told.clamp_max(0) * units
    torch.testing.assert_close(after, torch.tensor([0.4, 0.4, 0.5, 0.6, 0.6]))
    assert told[2] == 0.0
    assert (command(torch.tensor(0.0), torch.tensor(1.0), held) == 0).all()


@pytest.mark.parametrize("level", LEVELS)
def test_growth_as_tensors_equals_the_markets_in_a_life(agent: Agent, level: str) -> None:
    shaken(agent)
    batch = lesson.paths({level: SEEDS})
    with torch.no_grad():
        low, high = lesson.bands(agent, batch["price"])
        told = lesson.growth(low, high, batch["price"], Costs(batch["fee"], batch["slippage"], batch["tax"]))  # type: ignore[arg-type]
    world = make_world("market", level, SEEDS)
    shares = []
    for tick in rollout(trader(agent, len(SEEDS)), world):
        shares.append(tick.following["account"][:, 0])
    assert np.abs(np.diff(shares, axis=0)).max() > 0.05, "it trades"
    np.testing.assert_allclose(told.numpy(), np.log(world.truth()["worth"]), atol=5e-3)


def test_the_gradient_of_growth_equals_finite_differences() -> None:
    batch = lesson.paths({"trend": SEEDS[:2]})
    price = batch["price"].double()
    costs: Any = Costs(*(batch[name].double() for name in ("fee", "slippage", "tax")))
    draws = np.random.default_rng(0).uniform(size=(2, TICKS))
    low = torch.from_numpy(0.5 * draws).requires_grad_()
    high = (low + 0.1).detach().requires_grad_()
    lesson.growth(low, high, price, costs).sum().backward()
    assert low.grad is not None
    for row, tick in ((0, 3), (1, 40), (0, 200)):
        step = torch.zeros_like(low)
        step[row, tick] = 1e-6
        with torch.no_grad():
            more, less = (lesson.growth(low + s, high, price, costs).sum() for s in (step, -step))
        assert low.grad[row, tick].item() == pytest.approx(((more - less) / 2e-6).item(), abs=1e-6)


def test_the_agent_does_not_look_ahead(agent: Agent) -> None:
    shaken(agent)
    price = lesson.paths({"trend": SEEDS})["price"]
    other = price.clone()
    other[:, SEEN + 101 :] *= 3.0
    with torch.no_grad():
        (low, high), (low_other, high_other) = (lesson.bands(agent, one) for one in (price, other))
    torch.testing.assert_close(low[:, :101], low_other[:, :101])
    torch.testing.assert_close(high[:, :101], high_other[:, :101])
    assert not torch.allclose(low[:, 101:], low_other[:, 101:])
    # And in life: another future follows the tick at which it trades.
    done = []
    for ahead in (1.0, 3.0):
        world = make_world("market", "trend", SEEDS)
        state = world.state()
        state.price[:, SEEN + 61 :] *= ahead
        world.restore(state)
        done.append([tick.actions[parts.TRADE] for tick in rollout(trader(agent, len(SEEDS)), world, 64)])
    np.testing.assert_array_equal(done[0][:61], done[1][:61])
    assert not np.array_equal(done[0][61:], done[1][61:])


def test_rules_do_not_look_ahead_and_forget_earlier_episodes() -> None:
    for market, kind in ((market, kind) for kind, market in exam.MARKETS.items()):
        for name, rule in {**market.rules, "informed": market.informed, "filter": mixture_rule, **exam.FLOORS}.items():
            policy, done = rules.by(rule()), []
            for _ in range(2):
                world = make_world("market", kind, SEEDS[:4])
                done.append([tick.actions[parts.TRADE] for tick in rollout(policy, world, 20)])
            np.testing.assert_array_equal(done[0], done[1], err_msg=f"{kind}: {name}")
            world = make_world("market", kind, SEEDS[:4])
            state = world.state()
            state.price[:, SEEN + 20 :] *= 2.0
            world.restore(state)
            other = [tick.actions[parts.TRADE] for tick in rollout(policy, world, 20)]
            np.testing.assert_array_equal(done[0], other, err_msg=f"{kind}: {name}")


def of(policy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: bool = False) -> dict[str, Measure]:
    """The exam of the policy made by `policy(n, kind)`, on a hundred paths of each market."""
    monkeypatch.setattr(exam, "_policy", lambda agent, n, kind: policy(n, kind))
    held = exam.examine(tiny_agent(), tiny_context(tmp_path, "exam.episodes_scale=0.1"))
    return {measure.name: measure for measure in (held.in_full() if full else held.alone())}


def passes(measures: Mapping[str, Measure]) -> bool:
    return exam.GATE.judge(measures).passed


def test_the_filter_passes_and_rules_chance_and_shuffled_answers_fall(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    best = of(lambda n, kind: rules.by(mixture_rule()), tmp_path, monkeypatch, full=True)
    (measure,) = best.values()
    assert passes(best)
    assert not measure.values.any(), "nothing of its own growth is missed"
    assert measure.n == 5 * 100
    assert measure.floors[exam.NOTHING] == pytest.approx(1.0)
    assert set(exam.FLOORS) == set(measure.floors)
    assert min(measure.floors.values()) > 5 * exam.MISSED, "no rule passes: neither who holds, nor chance, nor momentum"
    assert measure.rows["drawdown, the filter, trend"] < measure.rows["drawdown, buy and hold, trend"]
    rng = np.random.default_rng(5)

    def shuffled(n: int, kind: str) -> Policy:
        told = rules.by(mixture_rule())
        order = rng.permutation(n)
        return lambda senses, first: {parts.TRADE: told(senses, first)[parts.TRADE][order]}

    worse = of(shuffled, tmp_path, monkeypatch)
    assert not passes(worse)
    assert worse[exam.NAME].score > 0.9


def test_the_gate_asks_for_every_market(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who trades one kind of market by a rule that suits another, and all others as the filter does, fails."""
    for wrong in ("trend", "reverting", "coin"):
        suited = "reverting" if wrong != "reverting" else "trend"

        def mixed(n: int, kind: str, wrong: str = wrong, suited: str = suited) -> Policy:
            return rules.by(exam.MARKETS[suited].informed() if kind == wrong else mixture_rule())

        assert not passes(of(mixed, tmp_path, monkeypatch))


@pytest.mark.parametrize("level", LEVELS)
def test_the_filter_finds_out_which_market_it_meets(tmp_path: Path, level: str) -> None:
    context, seeds = tiny_context(tmp_path), np.arange(2_000_000, 2_000_100)
    knows = exam.trade_paths(rules.by(exam.MARKETS[level].informed()), context, level, seeds).growth
    finds = exam.trade_paths(rules.by(mixture_rule()), context, level, seeds).growth
    others = [
        exam.trade_paths(rules.by(exam.MARKETS[other].informed()), context, level, seeds).growth.mean()
        for other in LEVELS
        if (other, level) not in (("trend", "shocks"), ("shocks", "trend"))  # one rule does for both
    ]
    assert finds.mean() > knows.mean() - 0.025
    assert finds.mean() > sorted(others)[-2]
    mixture = Mixture()
    mixture.begin(len(seeds))
    for seen in np.diff(np.log(MarketRules(level).initial(seeds).price)).T:
        mixture.see(seen)
    assert mixture.processes()[level].mean() > 0.95


def test_the_filters_beliefs_are_those_of_a_sum_over_all_hidden_ways() -> None:
    """A second implementation: every way in which sides and waves may have gone, one by one."""
    seen = np.array([0.012, -0.004, 0.009, 0.021, -0.05])
    mixture = Mixture()
    mixture.begin(1)
    for one in seen:
        mixture.see(np.array([one]))

    def hidden(sizes: tuple[float, ...], wave: float, falls: float) -> float:
        total = 0.0
        states = list(product((-1.0, 1.0), sizes))
        for way in product(states, repeat=len(seen)):
            chance = 1 / len(states)
            for (side, size), (then, grown) in pairwise(way):
                chance *= (0.98 if side == then else 0.02) * ((1 - wave if size == grown else wave) if wave else 1.0)
            for one, (side, size) in zip(seen, way, strict=True):
                mean, spread = 0.004 * side * size, 0.01 * size
                fallen = norm.pdf(one, mean - 0.03, np.hypot(spread, 0.05))
                chance *= (1 - falls) * norm.pdf(one, mean, spread) + falls * fallen
            total += chance
        return total

    away = np.append(0.0, np.cumsum(seen)[:-1])
    likely = {
        "random": norm.pdf(seen, 0.0006, 0.01).prod(),
        "trend": hidden((1.0,), 0.0, 0.0),
        "reverting": norm.pdf(seen, -0.1 * away, 0.02).prod(),
        "shocks": hidden((0.75, 2.0), 0.03, 1 / 64),
        "coin": 0.0,
    }
    for level, belief in mixture.processes().items():
        assert belief.item() == pytest.approx(likely[level] / sum(likely.values()), abs=1e-9)
    # And its forecasts: a trend that turns once in 50 ticks, a price that comes back by a tenth.
    ticks = np.arange(1, rules.AHEAD + 1)
    np.testing.assert_allclose(Regimes().rises(0.0)[:, 1], 0.004 * (1 - 0.96**ticks) / 0.04)
    mixture.evidence[:] = np.where(np.array(list(LEVELS)) == "reverting", 0.0, -1e3)
    np.testing.assert_allclose(mixture.forecast()[0], -seen.sum() * (1 - 0.9**ticks))


def of_an_untaught_agent(measures: Mapping[str, Measure]) -> None:
    assert not any(decision.passed for decision in exam.GATE.judge(measures).decisions)


@pytest.mark.slow
def test_mean_reversion_is_learned(agent: Agent, tmp_path: Path) -> None:
    """At size tiny, on one level alone: from prices to shares of wealth, against cash and holding on other paths."""
    held_out = lesson.paths({"reverting": np.arange(1_000_000, 1_000_200)})

    def grown(batch: Any) -> torch.Tensor:
        costs = Costs(*(batch[name] for name in ("fee", "slippage", "tax")))
        return lesson.growth(*lesson.bands(agent, batch["price"]), batch["price"], costs)

    def loss(agent: Agent, batch: Any) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        return -10 * grown(batch).mean(), {}

    with torch.no_grad():
        before = grown(held_out).mean()
    learner = GradientLearner(agent, loss, seed=0, learning_rate=1e-2, trains=lesson.TRAINS)
    learner.steps = 60
    learner.begin(0)
    for step in range(learner.steps):
        learner.update(lesson.paths({"reverting": 1_000 * step + np.arange(32)}), step)
    with torch.no_grad():
        after = grown(held_out)
    assert before < 0.05
    assert after.mean() - 2 * after.std() / len(after) ** 0.5 > 0.1


def test_a_file_is_traded_and_an_unusable_one_is_refused(agent: Agent, tmp_path: Path) -> None:
    close = 100 * np.exp(np.cumsum(0.01 * np.random.default_rng(1).standard_normal(1_200)))
    lines = [f"{1_700_000_000 + 60 * i},{c:.4f},{c * 1.01:.4f},{c * 0.99:.4f},{c:.4f},5" for i, c in enumerate(close)]
    path = tmp_path / "prices.csv"
    path.write_text("\n".join(["time,open,high,low,close,volume", *lines]) + "\n")
    world = make_world("market", f"replay:{path}", SEEDS[:3])
    for _ in rollout(trader(shaken(agent), 3), world):
        pass
    assert np.isfinite(world.truth()["worth"]).all()
    path.write_text(path.read_text().replace(lines[9], "nonsense"))
    with pytest.raises(WorldError, match="line 11"):
        make_world("market", f"replay:{path}", SEEDS[:3])


def test_unknown_prices_or_account_do_not_cause_wild_trades(agent: Agent) -> None:
    """NaN in a sense of a life counts as absent, as everywhere; the command stays a number in -1..1."""
    rule = MarketRules("trend")
    senses = rule.observe(rule.initial(SEEDS[:2]))
    senses["returns"][0, :5], senses["account"][1, 0] = np.nan, np.nan
    told = trader(agent, 2)(senses, np.ones(2, bool))[parts.TRADE]
    assert np.isfinite(told).all()
    assert (np.abs(told) <= 1).all()
    state = replace(rule.initial(SEEDS[:2]))
    assert np.isfinite(rule.net_worth(rule.step(state, {"trade": told}))).all()
