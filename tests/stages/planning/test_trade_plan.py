"""Plans of trades: their outcome, judgement, following and replanning, what teaches them, and who passes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from devmind import make_world
from devmind.acting import Actor, rollout
from devmind.agent.agent import Agent
from devmind.agent.heads import Inlet
from devmind.algorithms.diffusion.pipeline import SampledPlans
from devmind.errors import ConfigError
from devmind.seeding import numpy_rng
from devmind.testing import check_head, check_learner, tiny_agent, tiny_context
from devmind.testing.laws import ATOL
from devmind.worlds.market import LEVELS, SCALE, SEEN, TICKS, Account, Costs, MarketRules
from stages.planning import parts
from stages.planning.imagining import Imaginer
from stages.planning.stage import PlanningStage
from stages.planning.trade import exam, plan_lesson
from stages.planning.trade.plan_head import TradePlan, TradePlanHead
from stages.planning.trade.plans import BUY, HOLD, HORIZON, SELL, best, holding, log_growth, scene, volatility

SEEDS = np.arange(2_000_000, 2_000_012)


def head_of(agent: Agent) -> TradePlanHead:
    head: Any = agent.head(parts.TRADE_PLAN)
    return head


def read(agent: Agent, returns: Tensor, account: Tensor) -> TradePlan:
    """The head's output for rows with these senses."""
    batch: Any = plan_lesson.clip({parts.RETURNS: returns[:, None], parts.ACCOUNT: account[:, None]})
    found: Any = agent.forward(batch, [parts.TRADE_PLAN])[parts.TRADE_PLAN]
    return found.flattened()


def test_the_head_keeps_the_laws_of_heads(agent: Agent) -> None:
    target = {"steps": 0.01 * torch.randn(3, 2, 4, HORIZON), "words": torch.randint(0, 3, (3, 2, HORIZON))}
    check_head(head_of(agent), target)
    with pytest.raises(ConfigError, match=r"taps \('raw:returns', 'raw:account'\)"):
        TradePlanHead(Inlet(16, 2))
    with pytest.raises(ConfigError, match="an even number of candidates"):
        TradePlanHead(Inlet(SEEN, 2), candidates=3)
    with pytest.raises(ConfigError, match="for 1 to 16 ticks"):
        TradePlanHead(Inlet(SEEN, 2), follow=17)


def test_the_head_reads_both_raw_senses_whole(agent: Agent) -> None:
    """At size tiny, tokens are narrower than the returns; raw inputs alone are as wide as the longest of them."""
    returns, account = torch.randn(3, SEEN), torch.rand(3, 3)
    found = read(agent, returns, account)
    torch.testing.assert_close(found.returns, returns)
    torch.testing.assert_close(found.account, account)
    torch.testing.assert_close(found.condition, scene(returns, account))
    assert found.here.all()


def begun(kind: str, ticks: int, bought_at: int) -> tuple[MarketRules, Account]:
    """Accounts at a tick: every other one has bought, at another tick; none has sold."""
    rules = MarketRules(kind)
    state = rules.initial(SEEDS)
    for tick in range(ticks):
        buys = (np.arange(len(SEEDS)) % 2 == 0) & (tick == bought_at)
        state = rules.step(state, {"trade": np.where(buys, 0.9, 0.0)[:, None]})
    return rules, state


@pytest.mark.parametrize(("kind", "ticks"), [("trend", 40), ("shocks", 100), ("coin", 60), ("reverting", TICKS - 5)])
def test_the_outcome_of_a_plan_equals_the_markets(kind: str, ticks: int) -> None:
    """Step by step in the world itself; of the last plan's 16 ticks the episode has five."""
    rules, state = begun(kind, ticks, ticks - 7)
    rng = np.random.default_rng(3)
    plans = rng.integers(0, 3, (len(SEEDS), 4, HORIZON))
    at = SEEN + ticks + np.arange(HORIZON + 1).clip(max=TICKS - ticks)
    steps = np.diff(np.log(state.price[:, at]), axis=1)
    told = log_growth(plans, steps[:, None], rules.observe(state)["account"], rules.costs)
    moved = np.where(np.arange(HORIZON) < TICKS - ticks, steps, 0.1)  # an imagined path goes on behind the end
    again = log_growth(plans, moved[:, None], rules.observe(state)["account"], rules.costs)
    np.testing.assert_array_equal(again, told)
    for number in range(plans.shape[1]):
        after = state
        for tick in range(HORIZON):
            share = np.array([0.0, 1.0, -1.0])[plans[:, number, tick]]
            after = rules.step(after, {"trade": share[:, None]})
        paid = np.log(after.worth / rules.net_worth(state))
        np.testing.assert_allclose(told[:, number, 0], paid, atol=ATOL)
    assert np.abs(told).max() > 0.01


def test_the_best_plan_is_the_best_of_all_with_at_most_two_trades() -> None:
    """Each is stepped through tick by tick, with and without holdings and costs."""
    rng, h = np.random.default_rng(4), 5
    steps = 0.03 * rng.standard_normal((8, 6, h))
    account = np.array([[0.0, 0.0, 0.9], [1.0, 0.03, 0.9]] * 4)
    fees = [Costs()] * 4 + [Costs(0.0, 0.0, 0.0)] * 4
    found = best(steps, account, fees)
    every = np.stack([np.array(plan) for plan in np.ndindex(*(3,) * h) if np.count_nonzero(plan) <= 2])
    for row in range(8):
        one = slice(row, row + 1)
        marks = log_growth(every[None], steps[one], account[one], fees[row]).mean(-1)[0]
        mark = log_growth(found[None, one], steps[one], account[one], fees[row]).mean()
        assert mark == pytest.approx(marks.max(), abs=1e-12)
    assert len(np.unique(found, axis=0)) > 2


def test_a_history_continues_as_its_process_in_mirrored_pairs() -> None:
    for kind, (process, _) in LEVELS.items():
        at = SEEN + int(numpy_rng(plan_lesson.NAME, "long", kind, 7).integers(plan_lesson.LONGEST))
        seen, ways = plan_lesson.continue_history(kind, 7, 6)
        # Drawn from the same generator without another future; only the count of random numbers differs.
        rng = numpy_rng(plan_lesson.NAME, kind, 7)
        np.testing.assert_array_equal(seen, process(rng, at + HORIZON)[at - SEEN : at], err_msg=kind)
        assert len(np.unique(ways.round(12), axis=0)) == 6, kind
    _, ways = plan_lesson.continue_history("random", 7, 6)
    np.testing.assert_allclose(ways[0] + ways[1], 2 * 0.0006, atol=1e-12)
    # The mean of many is the process's own: it reverts by a tenth a tick, from where the history left it.
    _, ways = plan_lesson.continue_history("reverting", 11, 400)
    mean = ways.mean(0)
    assert mean[1:5] / mean[:4] == pytest.approx(np.full(4, 0.9), abs=1e-9)


def test_plans_and_imagined_prices_do_not_depend_on_the_future(agent: Agent) -> None:
    """Another future after tick 61: trades, plans and what was imagined with them are bit-equal until then."""
    done: list[Any] = []
    for ahead in (1.0, 3.0):
        world = make_world("market", "trend", SEEDS)
        state = world.state()
        state.price[:, SEEN + 61 :] *= ahead
        world.restore(state)
        actor, ticks, kept = exam.planner(agent, len(SEEDS)), [], []
        for tick in rollout(actor, world, 72):
            ticks.append(tick.actions[parts.TRADE])
            kept.append({name: value.clone() for name, value in actor.state.carry["head.trade_plan"].items()})
        done.append((ticks, kept))
    (one, kept), (other, kept_other) = done
    np.testing.assert_array_equal(one[:61], other[:61])
    for at in range(61):
        for name, value in kept[at].items():
            assert torch.equal(value, kept_other[at][name]), (at, name)
    assert any(not torch.equal(kept[at]["plan"], kept_other[at]["plan"]) for at in range(61, 72))


def test_a_plan_is_kept_followed_for_its_stride_and_replaced(agent: Agent) -> None:
    world, head = make_world("market", "shocks", SEEDS), head_of(agent)
    actor: Actor = exam.planner(agent, len(SEEDS))
    made, symbols, plans = [], [], []
    for tick in rollout(actor, world, 3 * head.follow):
        kept = actor.state.carry["head.trade_plan"]
        made.append(kept["made"].tolist())
        plans.append(kept["symbols"].clone())
        at = tick.tick % head.follow
        symbols.append(kept["symbols"][:, at])
        told = torch.tensor([0.0, 1.0, -1.0])[kept["symbols"][:, at]]
        np.testing.assert_array_equal(tick.actions[parts.TRADE][:, 0], told.numpy())
        assert (kept["at"] == at + 1).all()
    assert made == [[1 + tick // head.follow] * len(SEEDS) for tick in range(3 * head.follow)]
    for first in range(0, 3 * head.follow, head.follow):
        assert all(torch.equal(plans[first], one) for one in plans[first : first + head.follow])
    assert not torch.equal(plans[0], plans[head.follow])
    assert actor.counts == {parts.TRADE: {parts.TRADE_PLAN: 3 * head.follow * len(SEEDS)}}


class Imagined:
    """Stands for what is learned: prices and symbols of each row, or by chance.

    Attributes:
        steps: log returns that follow [B, H], the same for each candidate; None: noise, whose pairs add up to zero.
        symbols: int64 [B, H] of each candidate; None: drawn.
        others: what each row gets from another row, "symbols", or the "steps" of the price as well.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: Any = None
        self.symbols: Any = None
        self.world: Any = None
        self.others: tuple[str, ...] = ()
        monkeypatch.setattr(Imaginer, "drawn", lambda imaginer, *given, **more: self.drawn(*given, **more))
        sensed = TradePlan.sensed
        monkeypatch.setattr(TradePlan, "sensed", lambda plan: self.look(plan, sensed))

    def look(self, plan: TradePlan, sensed: Any) -> Tensor:
        if self.world is not None:
            state = self.world.state()
            at = SEEN + (state.tick[:, None] + np.arange(HORIZON + 1)).clip(max=TICKS)
            self.steps = np.diff(np.log(np.take_along_axis(state.price, at, 1)), axis=1)
            self.symbols = best(self.steps[:, None], plan.account.numpy(), [Costs()] * len(at))
        self.spread = volatility(plan.returns)
        return sensed(plan)

    def drawn(self, condition: Tensor, chance: tuple[Tensor, Tensor], **more: Any) -> SampledPlans:
        noise, luck = chance
        told = {"steps": noise[..., 0], "symbols": luck.argmax(-1)}
        for name, drawn in tuple(told.items()):
            if (known := getattr(self, name)) is not None:
                rows = torch.as_tensor(known) / (self.spread[:, None] if name == "steps" else 1)
                rows = rows.roll(1, 0) if name in self.others else rows
                told[name] = rows.to(drawn.dtype).repeat_interleave(len(noise) // len(rows), 0)
        return SampledPlans(told["steps"][..., None], told["symbols"], torch.zeros(len(noise)))


@pytest.fixture
def imagined(monkeypatch: pytest.MonkeyPatch) -> Imagined:
    return Imagined(monkeypatch)


def test_an_agent_without_price_knowledge_never_trades(agent: Agent, imagined: Imagined) -> None:
    """Pure chance, whose paths add up to zero: any trade costs fees, slippage and tax."""
    rules = MarketRules("trend")
    senses = rules.observe(rules.initial(SEEDS))
    found = read(agent, *(torch.from_numpy(senses[name]) for name in (parts.RETURNS, parts.ACCOUNT)))
    n = head_of(agent).candidates
    weighed = found.weighed(torch.arange(len(SEEDS)), torch.zeros(len(SEEDS), dtype=torch.int64))
    assert (weighed.symbols[:, :n] == BUY).any(-1).all(), "candidates do trade"
    assert (weighed.chosen == n).all()
    assert (weighed.marks[:, :n] < 0).all()
    # A plan judged only on its own lucky path would trade.
    assert (weighed.alone.max(1) > 0).mean() > 0.5
    torch.testing.assert_close(weighed.path.abs().amax(1), torch.zeros(len(SEEDS)), atol=ATOL, rtol=0)
    assert (found.mode() == 0).all()


def test_a_known_rise_buys_and_a_known_fall_sells(agent: Agent, imagined: Imagined) -> None:
    rules = MarketRules("trend")
    returns = torch.from_numpy(rules.observe(rules.initial(SEEDS[:4]))["returns"])
    account = torch.tensor([[0.0, 0.0, 0.5], [0.0, 0.0, 0.5], [1.0, 0.0, 0.5], [1.0, 0.0, 0.5]])
    imagined.steps = np.array([0.01, -0.01, 0.01, -0.01])[:, None].repeat(HORIZON, 1)
    imagined.symbols = np.full((4, HORIZON), HOLD)
    imagined.symbols[:, 0] = BUY, BUY, SELL, SELL
    found = read(agent, returns, account)
    assert found.mode()[:, 0].tolist() == [1.0, 0.0, 0.0, -1.0]
    assert found.carry["mark"].tolist()[0] > 0.08
    assert found.carry["mark"].tolist()[1:3] == [0.0, 0.0]


def test_losses_are_computed_on_the_normalised_plan(agent: Agent) -> None:
    """A plan's points are log returns in units of the observed volatility."""
    batch = plan_lesson.histories({"random": np.arange(6), "coin": np.arange(6)}, shown=2)
    captured: dict[str, Tensor] = {}

    def losses(condition: Tensor, points: Tensor, words: Tensor, *rest: Any) -> dict[str, Tensor]:
        captured.update(points=points, words=words, condition=condition)
        return {}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(head_of(agent).imaginer, "losses", losses)
        seen: Any = agent.forward(batch, [parts.TRADE_PLAN])[parts.TRADE_PLAN]
        seen.losses({name: batch[name] for name in ("steps", "words")})
    returns = batch["senses"][parts.RETURNS][:, 0]
    expected = batch["steps"][:, 0] / (returns / SCALE).std(-1, correction=0)[:, None, None]
    torch.testing.assert_close(captured["points"], expected.flatten(0, 1)[..., None])
    assert torch.equal(captured["words"], batch["words"][:, 0].repeat_interleave(2, 0))
    assert captured["points"].std() == pytest.approx(1.0, abs=0.35)


def test_the_lesson_is_the_last_resumes_and_changes_only_its_head(tmp_path: Path) -> None:
    stage, agent, context = PlanningStage(), tiny_agent(), tiny_context(tmp_path)
    stage.admit(agent)
    agent.config.stages = [stage.name]
    one = stage.lessons(context)[-1]
    assert one.name == plan_lesson.NAME
    check_learner(one, agent, context, steps=2)
    learner: Any = one.make_learner(agent, context)
    trained = {name for name, _ in learner.trained_parameters()}
    assert trained == {name for name, _ in agent.named_parameters() if name.startswith("heads.trade_plan.")}
    assert list(agent.heads)[-1] == parts.TRADE_PLAN
    assert agent.heads_of(parts.TRADE) == [parts.TRADE], "it stands by"


@pytest.mark.slow
def test_the_next_steps_of_mean_reversion_are_learned(agent: Agent) -> None:
    """At size tiny, on one level alone: the mean of what is imagined, and the outcome of plans, on other histories."""
    held_out = plan_lesson.histories({"reverting": np.arange(1_000_000, 1_000_080)}, shown=8)
    steps = held_out["steps"][:, 0].numpy()
    returns, account = (held_out["senses"][name][:, 0] for name in (parts.RETURNS, parts.ACCOUNT))
    rows = torch.arange(len(steps))

    def asked() -> tuple[float, np.ndarray]:
        """The agreement of the imagined and the true mean of a path's end, and what plans gain on true paths."""
        found = read(agent, returns, account).weighed(rows, torch.zeros_like(rows))
        told = found.steps.mean(1).sum(-1).numpy()
        chosen = found.symbols[rows, found.chosen].numpy()
        both = np.stack((chosen, np.zeros_like(chosen)), 1)
        growth = log_growth(both, steps, account.numpy(), Costs()).mean(-1)
        return float(np.corrcoef(told, steps.mean(1).sum(-1))[0, 1]), growth[:, 0] - growth[:, 1]

    with torch.no_grad():
        before, _ = asked()
    learner = plan_lesson.TradePlanLearner(
        agent, plan_lesson.loss, seed=0, learning_rate=5e-3, trains=(plan_lesson.HEAD,)
    )
    learner.steps = 260
    learner.begin(0)
    for step in range(learner.steps):
        learner.update(plan_lesson.histories({"reverting": 1_000 * step + np.arange(24)}, shown=2), step)
    with torch.no_grad():
        after, above = asked()
    assert before < 0.5
    assert after > 0.6
    assert above.mean() - 2 * above.std() / len(above) ** 0.5 > 0.0


@pytest.mark.slow
def test_known_prices_reach_the_goal_and_shuffled_plans_fall(
    agent: Agent, imagined: Imagined, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    market = replace(exam.MARKETS["reverting"], rules={exam.HOLD: exam.EVERYWHERE[exam.HOLD]}, against=exam.HOLD)
    monkeypatch.setattr(exam, "MARKETS", {"reverting": market})
    trade = exam.trade_paths

    def traded(policy: Any, context: Any, kind: str, seeds: np.ndarray) -> exam.Traded:
        class Watched:
            def make_world(watched, *given: Any) -> Any:  # noqa: N805
                imagined.world = context.make_world(*given)
                return imagined.world

        watched: Any = Watched() if isinstance(policy, Actor) and policy.standing else context
        return trade(policy, watched, kind, seeds)

    monkeypatch.setattr(exam, "trade_paths", traded)
    context = tiny_context(tmp_path, "exam.episodes_scale=0.5")
    name, found = exam.PLANNED + "reverting", list[Any]()
    for others in ((), ("symbols",), ("symbols", "steps")):
        imagined.others = others
        measures = {one.name: one for one in exam.examine(agent, context).in_full()}
        found.append(measures[name])
        verdict = {one.measure: one for one in exam.GATE.judge(measures).decisions}[name]
        assert verdict.goal
        # Another row's trades alone are still judged on the right prices, so losing ones are not made.
        assert verdict.passed == ("steps" not in others)
    knows, shuffled, misled = found
    assert knows.score > knows.ceiling, "who knows the prices does better than who knows the process"
    assert knows.score > shuffled.score + 0.5
    assert shuffled.score > misled.score
    assert knows.rows[f"above {exam.HOLD}, from"] > 0 > misled.rows[f"above {exam.HOLD}, from"]
    assert knows.n == 10
    assert not [one for one in exam.examine(agent, context).alone() if one.name == name]


def test_unknown_prices_or_account_do_not_cause_trades(agent: Agent) -> None:
    """NaN in a sense of a life: that row is not answered, and its neighbours plan as before."""
    rules, n = MarketRules("trend"), 3
    senses = rules.observe(rules.initial(SEEDS[:n]))
    whole = exam.planner(agent, n)
    whole(senses, np.ones(n, bool))
    broken = {name: value.copy() for name, value in senses.items()}
    broken[parts.RETURNS][0, 5], broken[parts.ACCOUNT][1, 2] = np.nan, np.inf
    actor = exam.planner(agent, n)
    told = actor(broken, np.ones(n, bool))[parts.TRADE]
    kept, as_before = (one.state.carry["head.trade_plan"] for one in (actor, whole))
    assert told[:2].tolist() == [[0.0], [0.0]]
    assert kept["made"].tolist() == [0, 0, 1]
    assert torch.equal(kept["symbols"][2], as_before["symbols"][2])
    without = exam.planner(agent, n)
    without({parts.RETURNS: senses[parts.RETURNS]}, np.ones(n, bool))
    assert without.state.carry["head.trade_plan"]["made"].tolist() == [0, 0, 0]


def test_an_account_is_rebuilt_from_its_sense() -> None:
    rules, state = begun("trend", 30, 12)
    account = rules.observe(state)["account"]
    one = holding(account, 2)
    wealth = state.cash + state.units * state.now
    for name, value in (("cash", state.cash), ("cost", state.cost), ("units", state.units * state.now)):
        np.testing.assert_allclose(getattr(one, name), (value / wealth).repeat(2), atol=ATOL, err_msg=name)
