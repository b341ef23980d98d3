"""Where the seconds of reflex's lessons go, by operation: python benchmarks/lesson_profile.py [--lessons perceive gaze]

A few steps of each lesson of a newborn at size nursery, on one thread, under torch.profiler. A lesson's seconds are the
process's CPU seconds: first for making its batch (stepping and rendering the nursery, converting arrays to tensors),
then for learning from it. In learning, each torch operation has its own time, without that of the operations it calls;
the rest is Python between them. Two steps warm up before counting starts, and the profiler's overhead is removed by a
second, unprofiled run of the same batches: shares are of that run.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from devmind import worlds
from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.config import load
from devmind.curriculum.stage import Context, Lesson
from stages.reflex.stage import ReflexStage

STEPS = {"watch": 2, "perceive": 28, "gaze": 14, "motor": 3, "together": 1}
"""Of each lesson: a whole cycle of its tasks and levels, where it has one. `motor`, whose updates are hundreds of
passes of a small arc and fill the profiler, is seen at a pole, a gaze and a hand.
"""
MAKING, PYTHON = "making batches", "Python between operations"
OPERATIONS = {
    "convolution": ("mkldnn_convolution", "_slow_conv2d_forward", "thnn_conv2d", "convolution"),
    "convolution, backward": ("convolution_backward", "_slow_conv2d_backward"),
    "matrix products": ("mm", "addmm", "bmm", "baddbmm", "linear", "matmul", "addmv", "dot"),
    "attention": ("_scaled_dot_product", "_flash_attention", "_softmax"),
    "optimizer": ("Optimizer.step", "_fused_adam", "_foreach"),
    "Fourier transforms": ("_fft",),
    "interpolation, pooling": ("upsample", "max_pool", "adaptive_avg", "pixel_"),
    "copies, gathering": ("copy_", "cat", "index", "gather", "stack", "clone", "fill_", "zero_", "select_backward"),
}
"""What each row of the table takes together: parts of the names of torch's operations."""


def context_of(out: Path) -> Context:
    """The default run of size nursery."""
    return Context(load("nursery"), 0, "cpu", out, worlds.make)


def kind_of(name: str) -> str:
    """The table row of a torch operation."""
    name = name.removeprefix("aten::")
    found = [kind for kind, parts in OPERATIONS.items() for part in parts if part in name]
    exact = [kind for kind, parts in OPERATIONS.items() if name in parts]
    return (exact or found or ["elementwise and the rest"])[-1]


def measured(lesson: Lesson, agent: Agent, context: Context, steps: int) -> Counter[str]:
    """CPU seconds per step by row of the table."""
    learner = lesson.make_learner(agent, context)
    learner.steps = lesson.steps
    learner.begin(0)
    batches = lesson.make_batches(agent, context, lesson.steps)

    def learn(update: int, batch: Any) -> float:
        torch.manual_seed(update)
        begun = time.process_time()
        learner.update(batch, update)
        return time.process_time() - begun

    for update in range(2):
        learn(update, batches.make(update))
    begun = time.process_time()
    made = [batches.make(2 + update) for update in range(steps)]
    found = Counter({MAKING: time.process_time() - begun})
    whole = sum(learn(2 + update, batch) for update, batch in enumerate(made))
    begun = time.perf_counter()
    with profile(activities=[ProfilerActivity.CPU]) as watched:
        for update, batch in enumerate(made):
            learn(2 + update, batch)
        watching = time.perf_counter() - begun  # the profiler measures operations in wall time too
    learner.end()
    own: Counter[str] = Counter()
    for event in watched.key_averages():
        own[kind_of(event.key)] += event.self_cpu_time_total / 1e6
    own[PYTHON] = max(0.0, watching - sum(own.values()))
    total = sum(own.values())
    found.update({kind: whole * seconds / total for kind, seconds in own.items()})
    return Counter({kind: seconds / steps for kind, seconds in found.items()})


def table(rows: dict[str, tuple[Counter[str], int]]) -> str:
    """Shares of seconds by operation, one column per lesson, and of all lessons weighted by their steps."""
    every: Counter[str] = Counter()
    for found, steps in rows.values():
        every.update({kind: seconds * steps for kind, seconds in found.items()})
    columns = {name: found for name, (found, _) in rows.items()} | {"all": every}
    lines = ["| operation, share of seconds | " + " | ".join(columns) + " |", "|---" * (1 + len(columns)) + "|"]
    for kind, _ in every.most_common():
        shares = (f"{found[kind] / found.total():.3f}" for found in columns.values())
        lines.append(f"| {kind} | " + " | ".join(shares) + " |")
    ms = [f"{1000 * found.total():.0f}" for found, _ in rows.values()]
    lines.append(f"| **CPU milliseconds a step** | {' | '.join(ms)} | {every.total() / 60:.1f} min |")
    return "\n".join(lines)


def main() -> None:
    """Print the table after each lesson."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lessons", nargs="+", choices=list(STEPS), default=list(STEPS))
    asked = parser.parse_args()
    torch.set_num_threads(1)
    rows = {}
    with TemporaryDirectory() as folder:
        context, agent = context_of(Path(folder)), Agent(AgentConfig(size="nursery", seed=0))
        ReflexStage().admit(agent)
        agent.config.stages.append(ReflexStage.name)
        for lesson in ReflexStage().lessons(context):
            if lesson.name in asked.lessons:
                rows[lesson.name] = measured(lesson, agent, context, STEPS[lesson.name]), lesson.steps
                print(f"\n{table(rows)}", flush=True)


if __name__ == "__main__":
    main()
