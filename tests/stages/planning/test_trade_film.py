"""`devmind plan market:...`: the shown plan is the followed one, and bad inputs get a sentence."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from devmind import make_world
from devmind.acting import rollout
from devmind.agent.agent import Agent
from devmind.cli import app
from devmind.testing import tiny_agent
from devmind.testing.laws import ATOL
from devmind.worlds.market import SEEN, TICKS
from stages.planning import parts
from stages.planning.trade import film
from stages.planning.trade.exam import planner
from stages.planning.trade.plan_head import Weighed
from stages.planning.trade.plans import BUY, HOLD, HORIZON, SELL


def command(*words: str) -> tuple[int, str]:
    came = CliRunner().invoke(app, ["plan", "market", *words])
    return came.exit_code, " ".join((came.output + str(came.exception or "")).split())


def test_the_pages_plan_is_the_one_in_the_state(agent: Agent) -> None:
    actor = planner(agent, 1)
    for _ in rollout(actor, make_world("market", "shocks", [7]), 1):
        kept = actor.state.carry["head.trade_plan"]
    found = film.plan_market(agent, "shocks", 7)
    assert torch.equal(found.weighed.symbols[0, found.chosen], kept["symbols"][0])
    assert torch.equal(found.weighed.path, kept["plan"][..., 0])
    assert float(kept["mark"][0]) == pytest.approx(found.weighed.marks[0].max(), abs=ATOL)
    assert found.ticks == TICKS
    assert found.plans == TICKS / 8
    price = make_world("market", "shocks", [7]).truth()["price"][0]
    np.testing.assert_allclose(np.exp(found.came), price[SEEN : SEEN + HORIZON + 1] / price[SEEN])


def told(chosen: int) -> film.Planned:
    """Two candidates and never trading, of which one was chosen."""
    symbols = torch.full((1, 3, HORIZON), HOLD)
    symbols[0, 0, [0, 2, 3, 9]] = torch.tensor([SELL, BUY, BUY, SELL])
    steps = 0.01 * torch.ones(1, 2, HORIZON)
    steps[0, 1] *= -1
    marks = np.array([[0.012, -0.03, 0.0]])
    weighed = Weighed(steps, symbols, marks, np.array([[0.05, -0.1, 0.0]]), torch.tensor([chosen]), torch.zeros(1, 3))
    return film.Planned(found=weighed, plans=32, ticks=TICKS, worth=1.1, held=0.9)


def test_a_plan_is_described_by_its_trades_and_its_judgement() -> None:
    """An account without units sells nothing, and one without cash buys no more."""
    assert told(0).trades == [(2, BUY), (9, SELL)]
    assert told(0).said == "buy at tick 3, sell at tick 10"
    assert told(0).judged == (
        "on the prices of all 2, trades of candidates earn -3.00% to +1.20% against never trading, after a fee of "
        "0.10%, slippage of 0.05% and tax of 25%; the chosen one +5.00% on its own path"
    )
    assert told(2).said == "never trade"
    assert "own path" not in told(2).judged
    for chosen in (0, 2):
        data = json.loads(re.search(r"const data = (\{.*\})", film.page(told(chosen)))[1])  # type: ignore[index]
        assert [one["name"] for one in data["discs"]] == ["buy, tick 3", "sell, tick 10"] * (chosen == 0)
        assert data["names"] == [1, 2, "never trade"]
        assert data["marks"] == [1.2, -3.0, 0.0]
        assert len(data["plans"]) == 3
        assert data["plans"][0][-1] == [1.0, -0.6], "the highest price is at the upper edge"
        assert {tuple(place) for place in data["plans"][2]} == {(x, 0.0) for x, _ in data["plans"][0]}
    assert "net worth 1.100 after 256 ticks" in film.page(told(0)).lower()


def test_the_command_prints_and_shows_the_plan_and_refuses_untradable_inputs(agent: Agent, tmp_path: Path) -> None:
    agent.save_pretrained(tmp_path / "agent")
    of, page = ("--agent", str(tmp_path / "agent")), tmp_path / "plan.html"
    code, said = command("reverting", "--seed", "1000003", "--show", str(page), *of)
    assert code == 0, said
    assert re.search(r"4 candidates, and never trading; on the prices of all 4, trades of candidates earn", said)
    assert re.search(r"chosen: (never trade|(buy|sell) at tick \d+)", said)
    assert re.search(
        r"net worth [\d.]+ after 256 ticks and 32 plans, from 1, on paper; buying and holding: [\d.]+", said
    )
    text = page.read_text()
    assert not re.findall(r"(?:src|href)=|@import|https?://(?!www\.w3\.org/2000/svg)", text)
    data = json.loads(re.search(r"const data = (\{.*\})", text)[1])  # type: ignore[index]
    assert len(data["frames"]) == 2 + 2  # symbols first
    assert len(data["plans"]) == len(data["marks"]) == len(data["frames"][0]["places"]) == 5
    assert data["marks"][data["chosen"]] == max(data["marks"])
    untaught = tmp_path / "untaught"
    tiny_agent().save_pretrained(untaught)
    close = 100 * np.exp(np.cumsum(0.01 * np.random.default_rng(1).standard_normal(1_200)))
    lines = [f"{1_700_000_000 + 60 * i},{c:.4f},{c * 1.01:.4f},{c * 0.99:.4f},{c:.4f},5" for i, c in enumerate(close)]
    gap, words, short = (tmp_path / name for name in ("gap.csv", "words.csv", "short.csv"))
    for file, bars in (
        (gap, lines[:500] + lines[501:]), (words, [*lines[:9], lines[9].replace(",5", ",many"), *lines[10:]]),
        (short, lines[:300]),
    ):  # fmt: skip
        file.write_text("\n".join(["time,open,high,low,close,volume", *bars]) + "\n")
    for given, says in (
        (["trnd", *of], "no level 'trnd'; did you mean 'trend'"),
        ([f"replay:{gap}", *of], "fill the gap from the source"),
        ([f"replay:{words}", *of], "line 11: volume is a number; got 'many'"),
        ([f"replay:{short}", *of], "has 300 bars"),
        (["replay:nowhere.csv", *of], "give a table of prices (CSV)"),
        (["trend", "--show", str(tmp_path), *of], "is a folder"),
        (["trend", "--agent", str(untaught)], "never taught to plan trades"),
    ):  # fmt: skip
        code, said = command(*given)
        assert code == 2, said
        assert says in said, said
        assert "candidates" not in said


def test_a_file_is_traded_by_plans(agent: Agent, tmp_path: Path) -> None:
    close = 100 * np.exp(np.cumsum(0.01 * np.random.default_rng(1).standard_normal(1_200)))
    lines = [f"{1_700_000_000 + 60 * i},{c:.4f},{c * 1.01:.4f},{c * 0.99:.4f},{c:.4f},5" for i, c in enumerate(close)]
    path = tmp_path / "prices.csv"
    path.write_text("\n".join(["time,open,high,low,close,volume", *lines]) + "\n")
    found = film.plan_market(agent, f"replay:{path}", 1_000_000)
    assert np.isfinite(found.worth)
    assert parts.TRADE_PLAN in agent.heads
