"""Simulations a second of devmind's searches beside mctx (JAX on CPU) and OpenSpiel's, and where their time goes.

    OMP_NUM_THREADS=1 python benchmarks/search_speed.py [model] [rules] [agent] [q_star] [--agent DIR]

Needs the extras `bench` (mctx, JAX) and `games` (OpenSpiel). This process is bound to one core, so all use that core;
rates are per CPU second, the best of some turns taken alternately, so that other work on the machine affects them
least.

**model**: a learned model (latents of 64 numbers, two layers, the same weights in float32 everywhere: 18.6 kFLOP an
evaluation) is searched by Gumbel, with 64 simulations. mctx compiles the model with the search; ours calls it in numpy
once per simulation. The share of roots with equal visits is printed.
**rules**: Connect-4 by its rules. OpenSpiel's C++ accepts no evaluator except random games, one per leaf, so the
compiled rollout search stands beside it, and the tree search with a free evaluator.
**agent**: an agent's heads judge Connect-4; the share of time outside the network.
**q_star**: states per second of 15-puzzles with Manhattan's guide and with a free one.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.agent.threads import intra_op_threads
from devmind.algorithms.tree_search import Expanded, Roots, gumbel_search
from devmind.curriculum.machine import gflops
from devmind.seeding import numpy_rng
from devmind.worlds.boards import Board, MnkRules
from stages.reasoning import parts
from stages.reasoning.games import CONNECT4, Judge, search, search_by
from stages.reasoning.q_star import q_star
from stages.reasoning.random_games import visits as random_games
from stages.reasoning.sliding.exam import manhattan
from stages.reasoning.sliding.lesson import rules as sliding_rules

LATENT, ACTIONS = 64, 7
GOAL_RULES, GOAL_OUTSIDE = 18.0, 0.30


@dataclass
class Latents:
    """Latents float32 [N, 64] as rows of a tree."""

    rows: np.ndarray

    def take(self, index: Any) -> Latents:
        return Latents(self.rows[index])

    def put(self, index: Any, other: Latents) -> None:
        self.rows[index] = other.rows


def main() -> None:
    """Measure, and print each row at once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agent", type=Path, metavar="DIR", help="default: an untaught agent of size nursery")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; default: all")
    parser.add_argument("--size", default="nursery", help="of the untaught agent")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 64, 256])
    parser.add_argument("--simulations", type=int, default=64)
    parser.add_argument("--tiny", action="store_true", help="only show that everything runs, on any core")
    asked = parser.parse_args()
    if asked.tiny:
        asked.size, asked.turns, asked.batches, asked.simulations = "tiny", 1, [2], 4
    elif hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    print(f"one core of {gflops():.0f} GFLOP/s (float32); load {os.getloadavg()[0]:.1f}; best of {asked.turns} turns\n")
    with intra_op_threads(1):
        for name in asked.parts or PARTS:
            PARTS[name](asked)
            print(flush=True)


def rates(turns: int, work: Sequence[tuple[str, int, Callable[[], Any]]]) -> dict[str, float]:
    """The rate of each per CPU second, the best of `turns` turns: (name, work of one call, the call)."""
    best = {name: 0.0 for name, *_ in work}
    for _, _, call in work:
        call()  # the compilation in the first call does not count
    for _ in range(turns):
        for name, much, call in work:
            begun_s = time.process_time()
            call()
            best[name] = max(best[name], much / (time.process_time() - begun_s))
    return best


def weights() -> dict[str, np.ndarray]:
    """Weights of the searched model."""
    rng = numpy_rng("search speed")

    def drawn(*shape: int) -> np.ndarray:
        return (rng.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32)

    return {"in": drawn(LATENT, LATENT), "of": drawn(ACTIONS, LATENT), "out": drawn(LATENT, LATENT),
            "heads": drawn(LATENT, ACTIONS + 2)}  # fmt: skip


def model(asked: argparse.Namespace) -> None:
    """Ours and mctx's on one learned model."""
    if importlib.util.find_spec("mctx") is None:
        print("mctx is not installed: install the extra 'bench' to search one model with both.")
        return
    import jax
    import jax.numpy as jnp
    import mctx

    w = weights()

    def step(params: Any, key: Any, action: Any, latent: Any) -> Any:
        following = jnp.tanh(jnp.tanh(latent @ params["in"] + params["of"][action]) @ params["out"])
        said = following @ params["heads"]
        reward, value = 0.1 * jnp.tanh(said[:, -2]), jnp.tanh(said[:, -1])
        turned = jnp.full(len(action), -1.0)
        found = mctx.RecurrentFnOutput(reward=reward, discount=turned, prior_logits=said[:, :ACTIONS], value=value)
        return found, following

    def expand(states: Latents, actions: np.ndarray) -> Expanded[Latents]:
        following = np.tanh(np.tanh(states.rows @ w["in"] + w["of"][actions]) @ w["out"])
        said, n = following @ w["heads"], len(actions)
        return Expanded(
            Latents(following), said[:, :ACTIONS], np.tanh(said[:, -1]), np.ones((n, ACTIONS), bool),
            0.1 * np.tanh(said[:, -2]), np.full(n, -1.0), np.zeros(n, bool),
        )  # fmt: skip

    print(f"{'model, simulations/s':24} {'ours':>9} {'mctx':>9} {'ours/mctx':>10}   same visits")
    for batch in asked.batches:
        latents = numpy_rng("search speed", batch).normal(size=(batch, LATENT)).astype(np.float32)
        said = latents @ w["heads"]
        start = said[:, :ACTIONS], np.tanh(said[:, -1])
        mine = Roots(Latents(latents), *start, np.ones((batch, ACTIONS), bool))
        logits, value = map(jnp.asarray, start)
        root = mctx.RootFnOutput(prior_logits=logits, value=value, embedding=jnp.asarray(latents))
        policy = partial(
            mctx.gumbel_muzero_policy, gumbel_scale=0.0, num_simulations=asked.simulations, recurrent_fn=step
        )
        compiled = jax.jit(lambda p, k, r, policy=policy: policy(p, k, r))
        params = {name: jnp.asarray(value) for name, value in w.items()}
        theirs = partial(compiled, params, jax.random.PRNGKey(0), root)
        ours = partial(gumbel_search, mine, expand, asked.simulations)
        same = (ours().visits == np.asarray(theirs().search_tree.summary().visit_counts)).all(-1).mean()
        much = batch * asked.simulations
        found = rates(
            asked.turns, [("o", much, ours), ("m", much, lambda theirs=theirs: jax.block_until_ready(theirs()))]
        )
        o, m = found["o"], found["m"]
        print(f"{f'gumbel, batch {batch}':24} {o:9,.0f} {m:9,.0f} {o / m:10.2f}   {same:.2f}", flush=True)


def begun(batch: int) -> Board:
    """Positions of Connect-4 after six random moves, none of them over."""
    rng, board = numpy_rng("search speed", "positions"), CONNECT4.rules.initial(np.zeros(2 * batch))
    for _ in range(6):
        among = np.where(CONNECT4.rules.legal(board)["place"], rng.random((len(board), CONNECT4.rules.choices)), -1)
        board = CONNECT4.rules.step(board, {"place": among.argmax(-1)})
    return board.take(np.flatnonzero(~CONNECT4.rules.outcome(board).terminal)[:batch])


def rules(asked: argparse.Namespace) -> None:
    """Ours and OpenSpiel's, from the empty board with random games; then with networks."""
    import pyspiel

    game = pyspiel.load_game("connect_four")
    empty, four = CONNECT4.rules.initial(np.zeros(1)), CONNECT4.rules
    assert isinstance(four, MnkRules)
    print(f"{'rules, simulations/s':46} {'ours':>10} {'OpenSpiel':>10} {'ratio':>6}")
    for many in (10,) if asked.tiny else (500, 2000):
        bot = pyspiel.MCTSBot(
            game, pyspiel.RandomRolloutEvaluator(1, 0), 1.0, many, 1000, False, 0, False,
            pyspiel.ChildSelectionPolicy.UCT,
        )  # fmt: skip
        found = rates(
            asked.turns,
            [
                ("o", 10 * many, lambda many=many: [random_games(four, empty, many, n) for n in range(10)]),
                ("s", many, lambda bot=bot: bot.mcts_search(game.new_initial_state())),
            ],
        )
        o, s = found["o"], found["s"]
        goal = f"  goal >= {GOAL_RULES:.0f}: {'reached' if o / s >= GOAL_RULES else 'missed'}"
        print(f"{f'one random game a leaf, {many} (C++)':46} {o:10,.0f} {s:10,.0f} {o / s:6.1f}{goal}", flush=True)
    free: Any = lambda board: (np.zeros((len(board), ACTIONS)), np.zeros(len(board)))  # noqa: E731
    for batch in asked.batches:
        boards = begun(batch)
        found = rates(
            asked.turns, [("o", batch * asked.simulations, partial(search_by, four, free, boards, asked.simulations))]
        )
        print(f"{f'tree search, free evaluator, batch {batch}':46} {found['o']:10,.0f}", flush=True)


def agent(asked: argparse.Namespace) -> None:
    """An agent's evaluations a second, and the share of a search's time outside of them."""
    if asked.agent is None:
        one = Agent(AgentConfig(size=asked.size))
        parts.admit(one)
        one.eval()
    else:
        one = Agent.from_pretrained(asked.agent).eval()
    print(f"{'agent, Connect-4':24} {'evaluations/s':>14} {'simulations/s':>14} {'outside':>8}")
    spent = 0.0
    inner = one.evaluate

    def counted(*given: Any, **more: Any) -> Any:
        nonlocal spent
        begun_s = time.process_time()
        found = inner(*given, **more)
        spent += time.process_time() - begun_s
        return found

    one.evaluate = counted  # type: ignore[method-assign]
    for batch in asked.batches:
        boards, rows = begun(batch), list[tuple[float, float, float]]()
        search(Judge(one, CONNECT4), boards, 4)
        for _ in range(max(1, asked.turns if batch < 256 else asked.turns // 2)):
            judge, spent, begun_s = Judge(one, CONNECT4), 0.0, time.process_time()
            search(judge, boards, asked.simulations)
            took = time.process_time() - begun_s
            rows.append((took, spent, judge.asked))
        took, within, many = min(rows)
        share, goal = 1 - within / took, ""
        if batch == 64:
            goal = f"  goal < {GOAL_OUTSIDE:.2f}: {'reached' if share < GOAL_OUTSIDE else 'missed'}"
        rate = batch * asked.simulations / took
        print(f"{f'batch {batch}':24} {many / within:14,.0f} {rate:14,.0f} {share:8.3f}{goal}", flush=True)


def states(asked: argparse.Namespace) -> None:
    """For Q*, the states that the guide evaluates per second."""
    four = sliding_rules(4)
    for problems, batch in ((2, 1),) if asked.tiny else ((1, 1), (1, 64), (64, 1), (64, 8)):
        tiles, _ = four.mixed(np.full(problems, 200), numpy_rng("search speed", "tiles"))
        nodes, row = 4000 if problems == 1 else 500, list[float]()
        for guide in (partial(manhattan, 4), lambda states: np.ones((len(states), 4))):
            looked = partial(q_star, tiles, four.slid, four.solved, guide, nodes=nodes, batch=batch, weight=0.6)
            many = sum(way.nodes for way in looked())
            row.append(rates(asked.turns, [("q", many, looked)])["q"])
        name = f"Q*, {problems} problem(s), batch {batch}"
        print(f"{name:30} {row[0]:9,.0f} states/s with Manhattan {row[1]:9,.0f} with a free guide", flush=True)


PARTS: dict[str, Callable[[argparse.Namespace], None]] = dict(model=model, rules=rules, agent=agent, q_star=states)

if __name__ == "__main__":
    main()
