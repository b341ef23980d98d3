"""The lesson trade as planned at size nursery, and its full exam, for several seeds; and the parameters of its rules.

    OMP_NUM_THREADS=1 python benchmarks/trade.py --seeds 100 101 102 103 104
    OMP_NUM_THREADS=1 python benchmarks/trade.py --tune

`--tune` tries each rule's parameters on paths of lessons and prints the best three of each level, which are those in
`stages.planning.trade.exam.MARKETS`. An exam's paths are never used.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import torch

from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.agent.threads import stepping_threads
from devmind.config import RunConfig
from devmind.curriculum.examining import examination
from devmind.curriculum.stage import Context
from devmind.seeding import lesson_seeds
from devmind.testing import tiny_context
from devmind.worlds import make as make_world
from devmind.worlds.market import LEVELS
from stages.planning import parts
from stages.planning.trade import exam, lesson, rules
from stages.planning.trade.rules import Rule

TUNING = 1_000
"""Paths of lessons of each level."""
NUMBERS: dict[Callable[..., Rule], dict[str, tuple[float, ...]]] = {
    rules.moving_average: {"window": (8, 12, 16, 24, 32), "width": (0.0, 0.005, 0.01, 0.02, 0.03)},
    rules.momentum: {
        "window": (1, 4, 8, 16, 24, 32),
        "low": (-0.1, -0.06, -0.02, 0.0),
        "high": (0.0, 0.02, 0.04, 0.06),
    },
    rules.averages: {"fast": (1, 2, 4), "slow": (12, 16, 24, 32), "width": (0.0, 0.003, 0.006)},
    rules.reversion: {"window": (16, 24, 32), "low": (-1.5, -1.0, -0.5, 0.0), "high": (0.0, 0.5, 1.0, 1.5)},
    rules.kelly: {"window": (8, 16, 32), "prior": (0, 16, 32, 64), "width": (0.0, 0.5, 0.9)},
    rules.filtered: {"low": (0.2, 0.3, 0.4, 0.5), "high": (0.5, 0.6, 0.7, 0.8), "shocks": (False, True)},
    rules.anchored: {"low": (-0.04, -0.03, -0.02, -0.01, 0.0), "high": (-0.01, 0.0, 0.01, 0.02, 0.03)},
}


def context_of(seed: int, folder: Path) -> Context:
    """A run of size nursery."""
    return Context(RunConfig(size="nursery", seed=seed), seed, "cpu", folder, make_world)


def taught(context: Context) -> Agent:
    """An agent with the stage's parts after this lesson alone."""
    agent = Agent(AgentConfig(size=context.config.size, seed=context.seed))
    parts.admit(agent)
    agent.config.stages = [parts.NAME]
    one = lesson.lesson(context)
    learner = one.make_learner(agent, context)
    learner.steps = one.steps
    learner.begin(0)
    agent.train()
    for step, batch in enumerate(one.make_batches(agent, context, one.steps)):
        scalars = learner.update(batch, step)
        if step % 50 == 49:
            print(f"  step {step + 1}: " + ", ".join(f"{name} {float(value):.3f}" for name, value in scalars.items()))
    learner.end()
    return agent.eval()


def tried(kind: str, folder: Path) -> Iterator[tuple[float, str]]:
    """Each rule with all of its parameters: mean growth on lessons' paths, and its description."""
    context, seeds = tiny_context(folder), lesson_seeds(TUNING, 0, "trade", "tuning", kind)
    for rule, numbers in NUMBERS.items():
        for chosen in product(*numbers.values()):
            given = dict(zip(numbers, chosen, strict=True))
            yield (
                float(exam.traded(rules.by(rule(**given)), context, kind, seeds).growth.mean()),
                f"{rule.__name__} {given}",
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--tune", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, stepping_threads():
        for kind in LEVELS if asked.tune else ():
            for growth, rule in sorted(tried(kind, Path(folder)), reverse=True)[:3]:
                print(f"{kind}: {growth:.4f} {rule}", flush=True)
        for seed in () if asked.tune else asked.seeds:
            context, began = context_of(seed, Path(folder)), time.process_time()
            torch.manual_seed(seed)
            agent = taught(context)
            print(f"seed {seed}: taught in {time.process_time() - began:.0f} CPU s", flush=True)
            with examination(agent):
                measures = {measure.name: measure for measure in exam.examine(agent, context, "full")}
            for measure in measures.values():
                low, high = measure.interval()
                print(f"{measure.name}: {measure.score:.4f} [{low:.4f}, {high:.4f}], n = {measure.distinct}")
                print("  floors", {name: round(value, 4) for name, value in measure.floors.items()})
                print(
                    f"  ceiling {measure.ceiling:.4f}", {name: round(value, 3) for name, value in measure.rows.items()}
                )
            for decision in exam.GATE.judge(measures).decisions:
                print(f"{decision.verdict}: {decision.reason}", flush=True)


if __name__ == "__main__":
    main()
