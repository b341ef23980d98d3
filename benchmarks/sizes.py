"""Real steps of every lesson of every stage, at a size and on a device: the requirements for a machine.

A newborn of the size gets the parts of all stages, and the runner's own Trainer teaches each lesson a few steps in its
precision, without rehearsals. Printed are the seconds per step (the first one separately: it makes worlds and data),
the trained parameters, and the device's peak memory. A lesson that fails is reported with its error, and the next one
follows.

    python benchmarks/sizes.py --size child --device auto
    python benchmarks/sizes.py --size adult --device cuda --stages language voice --steps 5

With `--fake` no step is taken: its peak memory is predicted on fake tensors (`devmind.curriculum.cost`), for sizes that
the machine could not hold. A lesson that cannot be predicted says so.

    python benchmarks/sizes.py --fake --size adult --stages planning --lessons arrange criticise
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

import torch

from devmind import plugins, worlds
from devmind.agent.agent import Agent
from devmind.agent.config import SIZES, AgentConfig
from devmind.agent.device import pick_device, place, wait_for
from devmind.config import load
from devmind.curriculum.cost import cost_of_step, fake_newborn
from devmind.curriculum.runner import in_order
from devmind.curriculum.stage import Context, Lesson
from devmind.curriculum.start import load_stage
from devmind.curriculum.teaching import LessonModule, fit, trained_by
from devmind.curriculum.timing import Stopwatch, TimedBatches

TINY = ["planning"], ["criticise"]
"""Stages and lessons of `--tiny`."""


class TimedModule(LessonModule):
    """A lesson whose steps are timed until the device has finished them."""

    seconds: list[float]

    def training_step(self, batch: Any, batch_idx: int) -> None:
        """One update, its seconds, and whether its scalars are finite."""
        wait_for(self.device)
        began = time.perf_counter()
        scalars = self.learner.update(batch, self.steps)
        wait_for(self.device)
        self.seconds.append(time.perf_counter() - began)
        unlike = [name for name, value in scalars.items() if not math.isfinite(float(value))]
        if unlike:
            raise ValueError(f"Expected finite numbers of a step; {', '.join(unlike)} are not.")


def peak_gb(device: torch.device, reset: bool = False) -> float:
    """Peak memory of tensors on the device since the last reset, in GB; NaN on a CPU."""
    if device.type == "cpu":
        return math.nan
    if reset:
        torch.accelerator.reset_peak_memory_stats(device)
    return torch.accelerator.max_memory_allocated(device) / 1e9


def taught(lesson: Lesson, agent: Agent, context: Context, steps: int) -> dict[str, Any]:
    """Teach `steps` steps of a lesson; return its row of the table."""
    device = pick_device(context.device)
    peak_gb(device, reset=True)
    began = time.perf_counter()
    learner = lesson.make_learner(place(agent, device), context)
    batches = lesson.make_batches(agent, context, steps)
    learner.steps, module = steps, TimedModule(learner, batches)
    module.seconds = []
    fit(module, TimedBatches(batches, Stopwatch()), context, [], steps, [])
    rest = sorted(module.seconds[1:]) or module.seconds
    return {
        "seconds a step": rest[len(rest) // 2],
        "first step": module.seconds[0],
        "whole": time.perf_counter() - began,
        "peak GB": peak_gb(device),
        "parameters": sum(trained_by(learner).values()),
    }


def foretold(lesson: Lesson, agent: Agent, context: Context) -> dict[str, Any]:
    """The row of a lesson, in GB."""
    cost = cost_of_step(lesson, agent, context)
    sizes = {"predicted peak": cost.peak, "weights": cost.weights, "saved for backward": cost.saved}
    return {f"{name} GB": size / 1e9 for name, size in (sizes | {"optimizer": cost.optimizer}).items()}


def main() -> None:
    """Print a row per lesson; exit code 1 if one failed."""
    stages = sorted(plugins.available("stages"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", default="child", choices=sorted(SIZES))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--stages", nargs="*", default=stages, choices=stages)
    parser.add_argument("--lessons", nargs="*", default=[], help="only these lessons; default: all")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--fake", action="store_true", help="predict the peak memory of a step, on any machine")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--tiny", action="store_true", help="only show that everything runs: one lesson of size tiny")
    arguments = parser.parse_args()
    if arguments.tiny:
        arguments.size, arguments.device, arguments.stages, arguments.lessons = "tiny", "cpu", *TINY
    config = load(arguments.size, sets=[f"device={'cpu' if arguments.fake else arguments.device}"])
    agent = fake_newborn(arguments.size, stages) if arguments.fake else Agent(AgentConfig(size=arguments.size))
    for name in in_order([] if arguments.fake else stages):
        load_stage(name).admit(agent)
    device, rows = pick_device(config.device), dict[str, Any]()
    print(f"{arguments.size}: {agent.num_parameters() / 1e6:,.1f} M parameters on {device}, {config.precision}")
    with tempfile.TemporaryDirectory() as folder:
        context = Context(config, config.seed, str(device), Path(folder), worlds.make)
        for stage in arguments.stages:
            for lesson in load_stage(stage).lessons(context):
                if arguments.lessons and lesson.name not in arguments.lessons:
                    continue
                try:
                    row = (
                        foretold(lesson, agent, context)
                        if arguments.fake
                        else taught(lesson, agent, context, arguments.steps)
                    )
                    summary = ", ".join(f"{name} {value:,.3g}" for name, value in row.items())
                except Exception as error:
                    traceback.print_exc()
                    row = {"error": f"{type(error).__name__}: {str(error)[:300]}"}
                    summary = row["error"]
                rows[f"{stage}/{lesson.name}"] = row
                print(f"{stage}/{lesson.name}: {summary}", flush=True)
    if arguments.json:
        found = {"device": str(device), "size": arguments.size, "lessons": rows}
        arguments.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
    raise SystemExit(any("error" in row for row in rows.values()))


if __name__ == "__main__":
    main()
