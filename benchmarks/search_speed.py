"""Simulations a second of devmind's searches beside mctx (JAX on CPU) and OpenSpiel's, and where their time goes.

    OMP_NUM_THREADS=1 python benchmarks/search_speed.py [--agent DIR] [--turns 5] [--only model rules agent q_star]

Needs the extras `bench` (mctx, JAX) and `games` (OpenSpiel). This process is bound to one core, so all use that core;
rates are per CPU second, the best of some turns taken alternately, so that other work on the machine affects them
least.

**model**: a learned model (latents of 64 numbers, two layers, the same weights in float32 everywhere: 18.6 kFLOP an
evaluation) is searched by Gumbel and by PUCT, with 64 simulations. mctx compiles the model with the search; ours calls
it in numpy once per simulation. The share of roots with equal visits is printed.
**rules**: Connect-4 by its rules. OpenSpiel's C++ accepts no evaluator except random games, one per leaf, so the
compiled rollout search stands beside it, and the tree search with a free evaluator. With one and the same network
(torch, 2 x 42 -> 64 -> 64 -> 7 + 1, one call for each policy and for each value) there is OpenSpiel's search in Python.
**agent**: an agent's heads judge Connect-4; the share of time outside the network, and the functions that take it.
**q_star**: states per second of 15-puzzles with Manhattan's guide and with a free one.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.agent.threads import intra_op_threads
from devmind.algorithms.tree_search import Expanded, Roots, gumbel_search, puct_search
from devmind.curriculum.machine import gflops
from devmind.seeding import numpy_rng
from devmind.worlds.boards import Board, MnkRules
from stages.reasoning import parts
from stages.reasoning.games import CONNECT4, Judge, search, search_by
from stages.reasoning.q_star import q_star
from stages.reasoning.random_games import visits as random_games
from stages.reasoning.sliding.exam import manhattan
from stages.reasoning.sliding.lesson import rules as sliding_rules

BATCHES = (1, 64, 256)
SIMULATIONS = 64
LATENT, ACTIONS = 64, 7
GOAL_RULES, GOAL_OUTSIDE = 18.0, 0.30
PROFILED = (
    "evaluate", "expand", "_expand", "_evaluate", "descend", "back_up", "step", "outcome", "__call__", "legal",
)  # fmt: skip
"""Functions of devmind whose share of a search's time is told."""


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
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--only", nargs="+", default=["model", "rules", "agent", "q_star"])
    asked = parser.parse_args()
    core = min(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    if core is not None:
        os.sched_setaffinity(0, {core})
    print(f"one core of {gflops():.0f} GFLOP/s (float32); load {os.getloadavg()[0]:.1f}; best of {asked.turns} turns\n")
    with intra_op_threads(1):
        for part in asked.only:
            {"model": model, "rules": rules, "agent": partial(agent, asked.agent), "q_star": states}[part](asked.turns)
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


def model(turns: int) -> None:
    """Ours and mctx's on one learned model."""
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
    for name in ("gumbel", "puct"):
        for batch in BATCHES:
            latents = numpy_rng("search speed", batch).normal(size=(batch, LATENT)).astype(np.float32)
            said = latents @ w["heads"]
            start = said[:, :ACTIONS], np.tanh(said[:, -1])
            mine = Roots(Latents(latents), *start, np.ones((batch, ACTIONS), bool))
            logits, value = map(jnp.asarray, start)
            root = mctx.RootFnOutput(prior_logits=logits, value=value, embedding=jnp.asarray(latents))
            policy: Any = (
                partial(mctx.gumbel_muzero_policy, gumbel_scale=0.0)
                if name == "gumbel"
                else partial(mctx.muzero_policy, dirichlet_fraction=0.0, temperature=0.0)
            )
            compiled = jax.jit(lambda p, k, r, policy=policy: policy(p, k, r, step, num_simulations=SIMULATIONS))
            key, params = jax.random.PRNGKey(0), {k: jnp.asarray(v) for k, v in w.items()}
            theirs = partial(compiled, params, key, root)
            ours = partial(gumbel_search if name == "gumbel" else puct_search, mine, expand, SIMULATIONS)
            same = (ours().visits == np.asarray(theirs().search_tree.summary().visit_counts)).all(-1).mean()
            much = batch * SIMULATIONS
            found = rates(
                turns, [("o", much, ours), ("m", much, lambda theirs=theirs: jax.block_until_ready(theirs()))]
            )
            o, m = found["o"], found["m"]
            print(f"{f'{name}, batch {batch}':24} {o:9,.0f} {m:9,.0f} {o / m:10.2f}   {same:.2f}", flush=True)


def begun(batch: int) -> Board:
    """Positions of Connect-4 after six random moves, none of them over."""
    rng, board = numpy_rng("search speed", "positions"), CONNECT4.rules.initial(np.zeros(2 * batch))
    for _ in range(6):
        among = np.where(CONNECT4.rules.legal(board)["place"], rng.random((len(board), CONNECT4.rules.choices)), -1)
        board = CONNECT4.rules.step(board, {"place": among.argmax(-1)})
    return board.take(np.flatnonzero(~CONNECT4.rules.outcome(board).terminal)[:batch])


def rules(turns: int) -> None:
    """Ours and OpenSpiel's, from the empty board with random games; then with networks."""
    import pyspiel

    game = pyspiel.load_game("connect_four")
    empty, four = CONNECT4.rules.initial(np.zeros(1)), CONNECT4.rules
    assert isinstance(four, MnkRules)
    print(f"{'rules, simulations/s':46} {'ours':>10} {'OpenSpiel':>10} {'ratio':>6}")
    for many in (500, 2000):
        bot = pyspiel.MCTSBot(
            game, pyspiel.RandomRolloutEvaluator(1, 0), 1.0, many, 1000, False, 0, False,
            pyspiel.ChildSelectionPolicy.UCT,
        )  # fmt: skip
        found = rates(
            turns,
            [
                ("o", 10 * many, lambda many=many: [random_games(four, empty, many, n) for n in range(10)]),
                ("s", many, lambda bot=bot: bot.mcts_search(game.new_initial_state())),
            ],
        )
        o, s = found["o"], found["s"]
        goal = f"  goal >= {GOAL_RULES:.0f}: {'reached' if o / s >= GOAL_RULES else 'missed'}"
        print(f"{f'one random game a leaf, {many} (C++)':46} {o:10,.0f} {s:10,.0f} {o / s:6.1f}{goal}", flush=True)
    free: Any = lambda board: (np.zeros((len(board), ACTIONS)), np.zeros(len(board)))  # noqa: E731
    for batch in BATCHES:
        boards = begun(batch)
        found = rates(turns, [("o", batch * SIMULATIONS, partial(search_by, four, free, boards, SIMULATIONS))])
        print(f"{f'tree search, free evaluator, batch {batch}':46} {found['o']:10,.0f}", flush=True)
    network = torch.nn.Sequential(
        torch.nn.Linear(84, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 8)
    )
    other = rates(turns, [("s", SIMULATIONS, partial(python_search, game, network))])["s"]
    for batch in BATCHES:
        boards, judge = begun(batch), partial(judged, network)
        found = rates(turns, [("o", batch * SIMULATIONS, partial(search_by, four, judge, boards, SIMULATIONS))])
        o, what = found["o"], f"one network in torch, batch {batch} (theirs Python, 1)"
        print(f"{what:46} {o:10,.0f} {other:10,.0f} {o / other:6.1f}", flush=True)


@torch.inference_mode()
def judged(network: torch.nn.Module, board: Board) -> tuple[np.ndarray, np.ndarray]:
    """The network's output for boards."""
    seen = CONNECT4.rules.observe(board)["position"].reshape(len(board), -1)
    said = network(torch.from_numpy(seen).float()).numpy()
    return said[:, :7], np.tanh(said[:, 7])


def python_search(game: Any, network: torch.nn.Module) -> Any:
    """OpenSpiel's search in Python with the network: planes of the player to move and of the other, as in ours."""
    from open_spiel.python.algorithms import mcts

    class Net(mcts.Evaluator):
        @torch.inference_mode()
        def said(self, state: Any) -> np.ndarray:
            seen = np.array(state.observation_tensor(state.current_player()), np.float32)[:84]
            return np.asarray(network(torch.from_numpy(seen[None])).numpy()[0])

        def evaluate(self, state: Any) -> np.ndarray:
            worth = float(np.tanh(self.said(state)[7])) * (1 if state.current_player() == 0 else -1)
            return np.array([worth, -worth])

        def prior(self, state: Any) -> list[tuple[int, float]]:
            logits, legal = self.said(state), state.legal_actions()
            powers = np.exp(logits[legal])
            return list(zip(legal, powers / powers.sum(), strict=True))

    bot = mcts.MCTSBot(
        game, 1.25, SIMULATIONS, Net(), child_selection_fn=mcts.SearchNode.puct_value, solve=True,
        random_state=np.random.RandomState(0),
    )  # fmt: skip
    return bot.mcts_search(game.new_initial_state())


def agent(folder: Path | None, turns: int) -> None:
    """An agent's evaluations a second, and the share of a search's time outside of them."""
    if folder is None:
        one = Agent(AgentConfig(size="nursery"))
        parts.admit(one)
        one.eval()
    else:
        one = Agent.from_pretrained(folder).eval()
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
    for batch in BATCHES:
        boards, rows = begun(batch), list[tuple[float, float, float]]()
        search(Judge(one, CONNECT4), boards, 4)
        for _ in range(max(1, turns if batch < 256 else turns // 2)):
            judge, spent, begun_s = Judge(one, CONNECT4), 0.0, time.process_time()
            search(judge, boards, SIMULATIONS)
            took = time.process_time() - begun_s
            rows.append((took, spent, judge.asked))
        took, within, many = min(rows)
        share, goal = 1 - within / took, ""
        if batch == 64:
            goal = f"  goal < {GOAL_OUTSIDE:.2f}: {'reached' if share < GOAL_OUTSIDE else 'missed'}"
        print(
            f"{f'batch {batch}':24} {many / within:14,.0f} {batch * SIMULATIONS / took:14,.0f} {share:8.3f}{goal}",
            flush=True,
        )
    profiled(one)


def profiled(one: Agent) -> None:
    """Where the time of one search at batch 64 goes: functions by their cumulative share."""
    profile = cProfile.Profile()
    profile.runcall(search, Judge(one, CONNECT4), begun(64), SIMULATIONS)
    stats = pstats.Stats(profile)
    print("cumulative shares of a search at batch 64, profiled:")
    shares = [
        (row[3] / stats.total_tt, f"{Path(file).name}:{name}")  # type: ignore[attr-defined]
        for (file, _, name), row in stats.stats.items()  # type: ignore[attr-defined]
        if name in PROFILED and ("devmind" in file or "stages" in file)
    ]
    for share, name in sorted(shares, reverse=True)[:10]:
        print(f"  {share:6.3f} {name}")


def states(turns: int) -> None:
    """For Q*, the states that the guide evaluates per second."""
    four = sliding_rules(4)
    for problems, batch in ((1, 1), (1, 64), (64, 1), (64, 8)):
        tiles, _ = four.mixed(np.full(problems, 200), numpy_rng("search speed", "tiles"))
        nodes, row = 4000 if problems == 1 else 500, list[float]()
        for guide in (partial(manhattan, 4), lambda states: np.ones((len(states), 4))):
            looked = partial(q_star, tiles, four.slid, four.solved, guide, nodes=nodes, batch=batch, weight=0.6)
            many = sum(way.nodes for way in looked())
            row.append(rates(turns, [("q", many, looked)])["q"])
        name = f"Q*, {problems} problem(s), batch {batch}"
        print(f"{name:30} {row[0]:9,.0f} states/s with Manhattan {row[1]:9,.0f} with a free guide", flush=True)


if __name__ == "__main__":
    main()
