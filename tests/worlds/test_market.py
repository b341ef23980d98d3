"""The market: costs and taxes by hand, no lookahead, floors, a known ceiling, and a frozen generator."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from devmind.errors import WorldError
from devmind.testing import check_world
from devmind.worlds.market import LEVELS, SEEN, TICKS, Account, Costs, MarketRules, coin_growth, coin_share
from devmind.worlds.ohlcv import read_closes

Trader = Callable[[dict[str, np.ndarray]], np.ndarray]
SEEDS = np.arange(2_000_000, 2_000_400)


def lived(rules: MarketRules, trader: Trader, seeds: np.ndarray = SEEDS) -> Account:
    """The accounts at the end."""
    state = rules.initial(seeds)
    for _ in range(TICKS):
        state = rules.step(state, {"trade": trader(rules.observe(state))[:, None]})
    return state


def held(share: np.ndarray, senses: dict[str, np.ndarray]) -> np.ndarray:
    """The trade that brings the held share of wealth to `share`."""
    now = senses["account"][:, 0].astype(float)
    buys = (share - now) / np.maximum(1 - now, 1e-9)
    return np.where(share > now, buys, (share - now) / np.maximum(now, 1e-9))


def buy_and_hold(senses: dict[str, np.ndarray]) -> np.ndarray:
    return np.ones(len(senses["returns"]))


def moving_average(senses: dict[str, np.ndarray]) -> np.ndarray:
    """Buy everything where the last price is above the mean of the last 32, else sell everything."""
    behind = np.cumsum(senses["returns"][:, ::-1], axis=1).mean(1)
    return np.where(behind > 0, 1.0, -1.0)


@pytest.mark.parametrize("level", LEVELS)
def test_the_market_keeps_the_laws_of_worlds(level: str) -> None:
    check_world(MarketRules(level))


@pytest.mark.parametrize("level", LEVELS)
def test_observations_do_not_depend_on_future_prices(level: str) -> None:
    rules, rng = MarketRules(level), np.random.default_rng(0)
    state = rules.initial(SEEDS[:8])
    trades = rng.uniform(-1, 1, (60, 8, 1))
    for tick, trade in enumerate(trades):
        if tick == 40:
            # Another future: all prices after this tick differ.
            other = state.copy()
            other.price[:, SEEN + tick + 1 :] *= 3.0
            for sense, value in rules.observe(state).items():
                np.testing.assert_array_equal(rules.observe(other)[sense], value)
            np.testing.assert_array_equal(rules.net_worth(other), rules.net_worth(state))
            traded, elsewhere = (rules.step(one, {"trade": trade}) for one in (state, other))
            np.testing.assert_array_equal(traded.units, elsewhere.units)
            np.testing.assert_array_equal(traded.cash, elsewhere.cash)
        state = rules.step(state, {"trade": trade})


def test_fees_slippage_and_tax_equal_a_hand_calculation() -> None:
    rules = MarketRules("trend")
    rules.costs = Costs(fee=0.01, slippage=0.02, tax=0.25)
    state = rules.initial(SEEDS[:1])
    state.price[:] = 10.0
    state.price[0, SEEN + 1 :] = [20.0, 5.0, 20.0] + [20.0] * (TICKS - 3)
    one, half = np.ones((1, 1)), np.full((1, 1), 0.5)
    # Half of the cash buys 0.5 * 0.99 / (10 * 1.01) units at a cost of 0.5.
    state = rules.step(state, {"trade": half})
    units = 0.5 * 0.99 / 10.1
    assert state.units[0] == pytest.approx(units)
    assert state.cash[0] == pytest.approx(0.5)
    # At 20, half of them are sold: slippage of half of 2 percent, the fee, and tax on the gain over half of the cost.
    got = 0.5 * units * 20 * 0.99 * 0.99
    state = rules.step(state, {"trade": -half})
    assert state.cash[0] == pytest.approx(0.5 + got - 0.25 * (got - 0.25))
    # At 5, the rest is sold at a loss, which is not taxed but carried forward.
    cash, less = state.cash[0], 0.5 * units * 5 * 0.98 * 0.99
    state = rules.step(state, {"trade": -one})
    assert state.cash[0] == pytest.approx(cash + less)
    assert state.losses[0] == pytest.approx(0.25 - less)
    assert state.worth[0] == pytest.approx(state.cash[0])


def test_a_loss_offsets_a_later_gain() -> None:
    rules = MarketRules("trend")
    rules.costs = Costs(0.0, 0.0, tax=0.25)
    state = rules.initial(SEEDS[:1])
    state.price[:] = 10.0
    state.price[0, SEEN + 1 : SEEN + 4] = [5.0, 10.0, 15.0]
    for trade in (1.0, -1.0):
        state = rules.step(state, {"trade": np.array([[trade]])})
    assert (state.cash[0], state.losses[0]) == (0.5, 0.5)  # bought at 10, sold at 5
    state.price[0, SEEN + 2 : SEEN + 4] = [10.0, 20.0]
    for trade in (1.0, -1.0):
        state = rules.step(state, {"trade": np.array([[trade]])})
    assert (state.cash[0], state.losses[0]) == (1.0, 0.0)  # the gain of 0.5 offsets the loss: no tax
    assert rules.outcome(rules.step(state, {})).reward[0] == 0.0


def test_holding_earns_the_price_change_less_costs_and_idling_earns_nothing() -> None:
    rules = MarketRules("random")
    state = lived(rules, buy_and_hold)
    grown = state.price[:, -1] / state.price[:, SEEN]
    gross = 0.999 / 1.0005 * grown * 0.9995 * 0.999
    np.testing.assert_allclose(state.worth, gross - 0.25 * np.maximum(gross - 1, 0), rtol=1e-9)
    still = lived(rules, lambda senses: np.zeros(len(senses["returns"])))
    np.testing.assert_array_equal(still.worth, 1.0)


def test_rewards_sum_to_the_growth_of_net_worth() -> None:
    rules, state, earned = MarketRules("shocks"), MarketRules("shocks").initial(SEEDS[:5]), np.zeros(5)
    for tick in range(TICKS + 3):
        state = rules.step(state, {"trade": np.full((5, 1), 1.0 if tick % 40 < 20 else -1.0)})
        earned += rules.outcome(state).reward
    np.testing.assert_allclose(earned, np.log(state.worth), atol=1e-4)


def test_the_best_share_of_the_coin_is_the_known_optimum() -> None:
    rules = MarketRules("coin")

    def growth(share: float) -> np.ndarray:
        def trader(senses: dict[str, np.ndarray]) -> np.ndarray:
            return held(np.where(senses["returns"][:, -1] > 0, share, 0.0), senses)

        return np.log(lived(rules, trader).worth) / TICKS

    best = growth(float(coin_share(np.array(True))))
    error = best.std() / np.sqrt(len(best))
    assert abs(best.mean() - coin_growth()) < 3 * error
    assert coin_growth() == pytest.approx(0.0100678, abs=1e-6)
    assert (best - growth(0.4)).mean() > 0
    assert (best - growth(1.0)).mean() > 0
    assert best.mean() > (np.log(lived(rules, buy_and_hold).worth) / TICKS).mean()


def test_trends_are_predictable_and_noise_is_not() -> None:
    def gain(level: str) -> tuple[float, float]:
        rules = MarketRules(level)
        rules.costs = replace(rules.costs, fee=0.0, slippage=0.0, tax=0.0)
        more = np.log(lived(rules, moving_average).worth) - np.log(lived(rules, buy_and_hold).worth)
        return float(more.mean()), float(more.std() / np.sqrt(len(more)))

    more, error = gain("trend")
    assert more > 3 * error
    less, error = gain("random")
    assert less < 2 * error


def test_the_generator_is_frozen() -> None:
    ends = {
        level: MarketRules(level).initial(np.array([7, 1_000_007])).price[:, -1].round(6).tolist() for level in LEVELS
    }
    assert ends == FROZEN


FROZEN = {
    "random": [1.482028, 1.178476],
    "trend": [0.871053, 0.270647],
    "reverting": [0.996736, 1.037765],
    "shocks": [0.249516, 0.470376],
    "coin": [9.2e-05, 0.042272],
}


HEADER = "Time,Open,High,Low,Close,Volume"


def written(tmp_path, n: int = 2_000, change: Callable[[list[str]], None] | None = None, header: str = HEADER) -> str:
    close = 100 * np.exp(np.cumsum(0.01 * np.random.default_rng(1).standard_normal(n)))
    lines = [f"{1_700_000_000 + 3600 * i},{c:.4f},{c * 1.01:.4f},{c * 0.99:.4f},{c:.4f},5" for i, c in enumerate(close)]
    if change:
        change(lines)
    path = tmp_path / "prices.csv"
    path.write_text("\n".join([header, *lines]) + "\n")
    return str(path)


def test_a_file_is_replayed_with_exams_after_lessons(tmp_path) -> None:
    path = written(tmp_path)
    rules = MarketRules(f"replay:{path}")
    check_world(rules)
    closes = np.loadtxt(path, delimiter=",", skiprows=1)[:, 4]

    def begins(seeds: np.ndarray) -> np.ndarray:
        ratio = np.diff(np.log(rules.initial(seeds).price), axis=1)
        windows = np.lib.stride_tricks.sliding_window_view(np.diff(np.log(closes)), ratio.shape[1])
        return np.array([np.abs(windows - row).max(1).argmin() for row in ratio])

    assert (begins(np.arange(50)) + SEEN + TICKS < 1400).all()
    assert (begins(np.arange(1_000_000, 1_000_050)) >= 1400).all()


def put(number: int, column: int, value: str) -> Callable[[list[str]], None]:
    def change(lines: list[str]) -> None:
        cells = lines[number].split(",")
        cells[column] = value
        lines[number] = ",".join(cells)

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (put(5, 4, "n/a"), "line 7: close is a number; got 'n/a'"),
        (put(5, 1, "nan"), "line 7: open is a positive number"),
        (put(5, 0, "yesterday"), "line 7: 'yesterday' is no time"),
        (put(5, 2, "1"), "does not hold open and close"),
        (lambda lines: lines.pop(9), "line 11: bars are 3600 s apart, this one 7200 s behind the last"),
        (lambda lines: lines.insert(9, lines[8]), "not later than the one before it"),
        (lambda lines: lines.__setitem__(3, "1,2"), "line 5: 6 cells are expected; it has 2"),
        (lambda lines: lines.__delitem__(slice(300, None)), "300 bars; 964 are needed"),
        (lambda lines: lines.clear(), "two bars at least"),
    ],
)
def test_an_unusable_file_is_refused_with_its_line(tmp_path, change, said: str) -> None:
    with pytest.raises(WorldError, match=said):
        MarketRules(f"replay:{written(tmp_path, change=change)}")


def test_empty_lines_at_the_end_of_a_file_are_no_bars(tmp_path) -> None:
    path = written(tmp_path)
    closes = read_closes(path)
    with open(path, "a", newline="") as file:
        file.write("\r\n\n")
    np.testing.assert_array_equal(read_closes(path), closes)


def test_missing_columns_files_and_levels_are_named(tmp_path) -> None:
    with pytest.raises(WorldError, match="lacks low, volume"):
        MarketRules(f"replay:{written(tmp_path, header='Time,Open,High,Lo,Close,Vol')}")
    with pytest.raises(WorldError, match=r"There is no file .*none\.csv"):
        MarketRules(f"replay:{tmp_path}/none.csv")
    with pytest.raises(WorldError, match="did you mean 'trend'"):
        MarketRules("trends")
    rules = MarketRules()
    state = rules.initial(np.array([0]))
    with pytest.raises(WorldError, match="NaN or infinity"):
        rules.step(state, {"trade": np.array([[np.nan]])})


def daily(form: str, bars: int = 1200) -> Callable[[list[str]], None]:
    def change(lines: list[str]) -> None:
        days = (datetime(2021, 1, 1, tzinfo=UTC) + timedelta(number) for number in range(bars))
        lines[:] = [f"{day.strftime(form)},{line.partition(',')[2]}" for day, line in zip(days, lines, strict=False)]

    return change


def test_dates_without_marks_are_dates(tmp_path) -> None:
    (tmp_path / "marked").mkdir()
    marked = read_closes(written(tmp_path / "marked", change=daily("%Y-%m-%d")))
    np.testing.assert_array_equal(read_closes(written(tmp_path, change=daily("%Y%m%d"))), marked)
    assert len(marked) == 1200
    with pytest.raises(WorldError, match="line 5: bars are 86400 s apart, this one 172800 s behind the last"):
        read_closes(written(tmp_path, change=lambda lines: (daily("%Y%m%d")(lines), lines.pop(3))))
    with pytest.raises(WorldError, match="line 4: '20210230' is no time"):
        read_closes(written(tmp_path, change=put(2, 0, "20210230")))


def test_prices_that_would_give_rewards_without_a_number_are_refused(tmp_path) -> None:
    def alternate(lines: list[str]) -> None:
        for number in range(len(lines)):
            price = ("1e-308", "1e308")[number % 2]
            lines[number] = ",".join([lines[number].partition(",")[0], price, price, price, price, "1"])

    with pytest.raises(WorldError, match=r"line 3: the close 1e\+308 follows 1e-308, and a bar changes it by"):
        read_closes(written(tmp_path, change=alternate))


def test_cells_of_strangers_are_shown_short_and_written_out(tmp_path) -> None:
    for cell in ("7" * 4400 + "x", "\x1b]0;title\x07"):
        for column in (0, 4):
            with pytest.raises(WorldError) as said:
                read_closes(written(tmp_path, change=put(5, column, cell)))
            assert "\x1b" not in str(said.value)
            assert len(str(said.value)) < 300
    with pytest.raises(WorldError) as said:
        read_closes(written(tmp_path, header="\x1b[2J,a,b,c,d,e"))
    assert "\x1b" not in str(said.value)


def test_what_is_no_table_is_refused_before_it_is_read(tmp_path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in ("/dev/zero", tmp_path / "pipe", tmp_path):
        with pytest.raises(WorldError, match="no plain file"):
            read_closes(path)
    with (tmp_path / "large.csv").open("wb") as file:
        file.truncate(200_000_001)
    with pytest.raises(WorldError, match="over 200,000,000 bytes"):
        read_closes(tmp_path / "large.csv")
    (tmp_path / "line.csv").write_text("," * 200_000)
    with pytest.raises(WorldError, match="a line of over 100,000 letters"):
        read_closes(tmp_path / "line.csv")


def test_a_table_takes_fifty_bytes_a_bar(tmp_path) -> None:
    path, bars = tmp_path / "long.csv", 40_000
    path.write_text("time,open,high,low,close,volume\n" + "".join(f"{60 * n},1,1,1,1,1\n" for n in range(bars)))
    tracemalloc.start()
    try:
        assert len(read_closes(path)) == bars
        assert tracemalloc.get_traced_memory()[1] < 60 * bars + 2_000_000
    finally:
        tracemalloc.stop()
