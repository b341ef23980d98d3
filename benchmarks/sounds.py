"""Kinds of sounds, all three folds in turn: the exam's questions to agents that were taught on the other two.

    OMP_NUM_THREADS=1 python benchmarks/sounds.py --data FOLDER [--folds 0 1 2] [--trunk STEPS]

Each agent is a newborn of size nursery with the parts of the stage: the whole lesson `sounds` is taught and, with
`--trunk`, that many steps of `kinds`, without the rehearsal of other lessons. A fold's seed is its number plus the
first seed.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from devmind import config
from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.agent.threads import intra_op_threads
from devmind.curriculum.exam import Measure, wilson
from devmind.curriculum.examining import examination
from devmind.curriculum.stage import Context, Lesson
from devmind.worlds import make
from stages.voice import parts
from stages.voice.sounds import exam, lesson, recorded


def context_of(data: Path, seed: int, out: Path) -> Context:
    """A run of size nursery with these recordings."""
    settings = config.load("nursery", sets=("device=cpu", "threads=1"))
    return Context(settings, seed, "cpu", out, make, data=data)


def teach(agent: Agent, context: Context, one: Lesson, steps: int) -> float:
    """Teach one lesson without rehearsals; return CPU seconds."""
    began, learner = time.process_time(), one.make_learner(agent, context)
    learner.steps = steps
    learner.begin(0)
    agent.train()
    for step, batch in zip(range(steps), one.make_batches(agent, context, steps), strict=False):
        torch.manual_seed(1000 * context.seed + step)
        scalars = learner.update(batch, step)
        if step % 50 == 49:
            print(
                f"  {one.name} {step + 1}",
                {name: round(float(value), 3) for name, value in scalars.items()},
                flush=True,
            )
    learner.end()
    agent.eval()
    return time.process_time() - began


def fold(given: argparse.Namespace, seed: int, out: Path) -> dict[str, Any]:
    """Teach an agent on all folds but one and examine it on that."""
    context = context_of(given.data, seed, out)
    agent = Agent(AgentConfig(size="nursery", seed=seed))
    parts.admit(agent)
    seconds = {}
    arc = lesson.arc_lesson(context)
    for one, steps in ((arc, arc.steps), (lesson.lesson(context), given.trunk)):
        if not steps:
            continue
        seconds[one.name] = teach(agent, context, one, steps)
        agent.config.trained_on = [*agent.config.trained_on, *one.learns_from]
    with examination(agent):
        measures = {measure.name: measure for measure in exam.examine(agent, context, "full")}
    return {"fold": seed % recorded.FOLDS, "seed": seed, "cpu_s": seconds, "measures": measures}


def line_of(measure: Measure) -> str:
    """Score, interval, floors and rows in a line."""
    low, high = measure.interval()
    beside = {name: round(value, 3) for name, value in {**measure.floors, **measure.rows}.items()}
    return f"{measure.name} {measure.score:.3f} [{low:.3f}, {high:.3f}] n={measure.distinct} {beside}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="sounds/esc10/CLASS/*.wav")
    parser.add_argument("--folds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--seed", type=int, default=0, help="the first seed; a multiple of 3 keeps the folds' numbers")
    parser.add_argument("--trunk", type=int, default=0, help="steps of the trunk's lesson; 0: only the arc is taught")
    given = parser.parse_args()
    summed: dict[str, float] = {}
    n = 0
    with tempfile.TemporaryDirectory() as folder, intra_op_threads(1):
        for number in given.folds:
            found = fold(given, given.seed + number, Path(folder))
            print(json.dumps({"fold": found["fold"], "cpu_s": found["cpu_s"]}), flush=True)
            for measure in found["measures"].values():
                print(" ", line_of(measure), flush=True)
            esc = found["measures"][exam.ESC]
            n += esc.n
            for name, value in {"trunk": esc.score, **esc.floors, **esc.rows}.items():
                summed[name] = summed.get(name, 0.0) + value * esc.n
    for name, value in summed.items():
        low, high = wilson(round(value), n)
        print(f"{name}: {round(value)} of {n}, {value / n:.3f} [{low:.3f}, {high:.3f}]")


if __name__ == "__main__":
    main()
