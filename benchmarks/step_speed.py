"""How fast an agent steps, reacts and trains: p50 milliseconds on one thread, and training Moments a second.

CPU time is the cost of the work, wall time what a user waits; on a busy machine only the first can be compared.

    OMP_NUM_THREADS=1 python benchmarks/step_speed.py --size nursery
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from devmind.agent.agent import Agent
from devmind.agent.batch import Batch, collate
from devmind.agent.config import SIZES, AgentConfig
from devmind.agent.threads import stepping_threads, training_threads
from devmind.moment import Moment

ARC = ("sight", "sound")
GOALS_MS = {"step, 22 tokens": 20.0, "arc's head": 0.3, "arc with its encoders": 3.0}


def make_agent(size: str, slots: int | None = None) -> Agent:
    """A child with four senses (22 tokens per Moment, 23 with the readout), an arc and a trunk head."""
    agent = Agent(AgentConfig(size=size, slots=slots))
    for sense in ("sight", "periphery", "sound", "body"):
        agent.add_encoder(sense)
    agent.add_head("look_arc", "head.normal", tap=ARC, effector="look", options={"size": 2})
    agent.add_head("look_sight", "head.normal", tap="sight", options={"size": 2})
    agent.add_head("look_trunk", "head.normal", effector="reach", options={"size": 4})
    agent.add_head("depth", "head.dense", tap="sight")
    return agent.eval()


def make_moment(rng: np.random.Generator, t: int) -> Moment:
    """A Moment of noise with the nursery's shapes."""
    senses: dict[str, np.ndarray] = {
        "sight": rng.integers(0, 256, (64, 64, 3), dtype=np.uint8),
        "periphery": rng.random((1, 16, 16), dtype=np.float32),
        "sound": rng.normal(0, 0.1, (2, 1600)).astype(np.float32),
        "body": rng.normal(0, 1, 12).astype(np.float32),
    }
    return Moment(t / 10, senses, first=t == 0)


class Cost(NamedTuple):
    """Medians of one call: process time over all threads, and wall time, in milliseconds."""

    cpu_ms: float
    wall_ms: float


def cost_of(work: Callable[[], object], repeats: int) -> Cost:
    """Median cost of `work`, after three calls that do not count."""
    costs = []
    for i in range(repeats + 3):
        cpu_s, wall_s = time.process_time(), time.perf_counter()
        work()
        if i >= 3:
            costs.append((1e3 * (time.process_time() - cpu_s), 1e3 * (time.perf_counter() - wall_s)))
    return Cost(*np.median(costs, axis=0).tolist())


def stepping(agent: Agent, repeats: int) -> dict[str, Cost]:
    """p50 of stepping one agent with a full window, and of its arcs."""
    rng = np.random.default_rng(0)
    moments = [make_moment(rng, t) for t in range(agent.config.window + 4)]
    state = agent.new_state()
    for moment in moments:
        state, _ = agent.step(state, agent.encode(state, moment))
    percepts = agent.encode(state, moments[-1])
    raw = {name: x[:, 0] for name, x in percepts.batch["senses"].items()}
    previous = {"sight": (raw["sight"], torch.ones(1, dtype=torch.bool))}

    def react(names: tuple[str, ...], head: str) -> None:
        agent.run_heads([head], agent.encode_senses(raw, previous=previous, names=names))

    with torch.inference_mode():
        return {
            "step, 22 tokens": cost_of(lambda: agent.step(state, percepts), repeats),
            "encode, four senses and keys": cost_of(lambda: agent.encode(state, moments[-1]), repeats),
            "arc's head": cost_of(lambda: agent.run_heads(["look_arc"], percepts.seen), repeats),
            "arc with its encoders": cost_of(lambda: react(ARC, "look_arc"), repeats),
            "arc on sight alone, with its encoder": cost_of(lambda: react(("sight",), "look_sight"), repeats),
        }


def training(agent: Agent, rows: int, length: int, heads: list[str], repeats: int) -> Cost:
    """Cost of one update: forward, backward and an AdamW step on the parameters that `heads` need."""
    agent.train()
    rng = np.random.default_rng(0)
    batch: Batch = collate([[make_moment(rng, t) for t in range(length)] for _ in range(rows)])
    optimizer = torch.optim.AdamW(agent.parameters(), lr=1e-4)

    def update() -> None:
        outputs = agent.forward(batch, heads)
        loss = sum((output.mode().square().mean() for output in outputs.values()), torch.zeros(()))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return cost_of(update, repeats)


def main() -> None:
    """Print every figure, with its goal where there is one (at nursery size)."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", default="nursery", choices=sorted(SIZES))
    parser.add_argument("--slots", type=int, default=None, help="0: none; default: the size's own")
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--threads", type=int, default=None, help="threads of training; default: all cores")
    arguments = parser.parse_args()
    agent = make_agent(arguments.size, arguments.slots)
    config = agent.config
    print(f"{config.size}: {agent.num_parameters():,} parameters, window {config.window} Moments, {config.slots} slots")
    with stepping_threads():
        for name, cost in stepping(agent, arguments.repeats).items():
            goal = f", goal {GOALS_MS[name]:g}" if name in GOALS_MS else ""
            print(f"  {name:<40} {cost.cpu_ms:8.2f} ms CPU, {cost.wall_ms:8.2f} ms wall{goal}")
    with training_threads(arguments.threads):
        for name, rows, length, heads in (
            ("training the trunk, 8 rows of 32", 8, 32, ["look_trunk"]),
            ("training the trunk, 4 rows of 128", 4, 128, ["look_trunk"]),
            ("training sight and depth, 64 rows of 1", 64, 1, ["depth"]),
            ("training the arc with its encoders", 64, 1, ["look_arc"]),
        ):
            cost = training(agent, rows, length, heads, max(3, arguments.repeats // 20))
            cpu, wall = (1e3 * rows * length / spent for spent in cost)
            print(f"  {name:<40} {cpu:8.0f} Moments/CPU-s, {wall:8.0f} Moments/s, {torch.get_num_threads()} threads")


if __name__ == "__main__":
    main()
