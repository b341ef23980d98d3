"""A made-up market in a process of its own: an agent elsewhere trades it, and learns from it. It needs no torch.

python docs/feed_market.py 127.0.0.1:4711 spool/token 20 worth.csv [LEVEL]

Forty accounts trade 20 episodes of 256 ticks. What to trade is asked of the feed, as `devmind feed serve --agent`
answers; without an answer within 0.2 s nothing is traded. Every Moment is pushed with what was done. `worth.csv`
tells, 16 times an episode, the mean logarithm of net worth, all sold, after fees and taxes: of the agent, of buying and
holding, and of a rule, on the same prices. Cash is 0. What an episode grew is kept for the next.
"""

import sys
import time
from pathlib import Path

import numpy as np

from devmind.feed import Acting, Client, Row
from devmind.moment import Action, Moment
from devmind.worlds.market import SCALE, TICKS, MarketRules

ACCOUNTS, TICK_S, WITHIN_S = 40, 0.04, 0.2


def rule(senses: dict[str, np.ndarray]) -> np.ndarray:
    """Buy all when the price is half a standard deviation below its mean of 32 ticks, sell all when above."""
    price = np.cumsum(senses["returns"] / SCALE, axis=1)
    z = (price[:, -1] - price.mean(1)) / np.maximum(price.std(1), 1e-9)
    return np.where(z < -0.5, 1.0, np.where(z > 0.5, -1.0, 0.0))[:, None]


def follow(senses: dict[str, np.ndarray]) -> np.ndarray:
    """Buy all while the mean of the last 2 prices is above that of the last 16, sell all while below."""
    price, age = np.cumsum(senses["returns"] / SCALE, axis=1), np.arange(32)[::-1]
    quick, slow = (price @ (np.exp(-age / span) / np.exp(-age / span).sum()) for span in (2, 16))
    return np.where(quick > slow, 1.0, -1.0)[:, None]


def main(address: str, token: str, episodes: str, table: str, level: str = "reverting") -> None:
    rules, by_rule = MarketRules(level), rule if level == "reverting" else follow
    earlier, due_s = np.zeros((3, ACCOUNTS)), time.time()
    with Client(address, "market", token=Path(token), world="market") as feed, open(table, "w", buffering=1) as out:
        out.write("seconds,ticks,answered,agent,hold,rule\n")
        acting = Acting(feed.connection, "market", effectors=["trade"])
        for episode in range(int(episodes)):
            # Seeds of exams, so lessons have not seen them; each path is traded before it is learned from.
            start = rules.initial(np.arange(ACCOUNTS) + 1_000_000 + episode * ACCOUNTS)
            accounts, before = [start, start, start], acting.answered
            for tick in range(TICKS + 1):
                due_s = max(due_s + TICK_S, time.time())
                time.sleep(max(0.0, due_s - time.time()))
                outcome, senses = rules.outcome(accounts[0]), rules.observe(accounts[0])
                moments = [
                    Moment(
                        tick / 10,
                        {n: x[i] for n, x in senses.items()},
                        float(outcome.reward[i]),
                        tick == 0,
                        tick == TICKS,
                    )
                    for i in range(ACCOUNTS)
                ]
                if tick % 16 == 0:
                    worth = earlier + np.log([rules.net_worth(one) for one in accounts])
                    row = f"{time.time():.2f},{episode * TICKS + tick},{acting.answered - before}"
                    out.write(row + "".join(f",{mean:.5f}" for mean in worth.mean(1)) + "\n")
                    before = acting.answered
                if tick == TICKS:
                    feed.push([Row(i, moments[i], Action()) for i in range(ACCOUNTS)])
                    break
                answer = acting.act([Row(i, moments[i], Action()) for i in range(ACCOUNTS)], WITHIN_S)
                trade = np.zeros((ACCOUNTS, 1), np.float32) if answer is None else answer["trade"]
                feed.push([Row(i, moments[i], Action({"trade": trade[i]})) for i in range(ACCOUNTS)])
                others = (np.ones((ACCOUNTS, 1)), by_rule(rules.observe(accounts[2])))
                accounts = [rules.step(a, {"trade": t}) for a, t in zip(accounts, (trade, *others), strict=True)]
            earlier = worth
        feed.flush()
        print(feed.status(), f"answered {acting.answered:,}, late {acting.unanswered:,}", acting.latency_ms())


main(*sys.argv[1:])
