"""Whose layers the plan denoiser runs: its own, or the trunk's, in both directions (`PlannerHead`'s option
`layers_of`).

    python benchmarks/plan_layers.py [--agent after-reasoning] [--steps 300] [--rows 256] [--pairs 100] [--seed 0]
        [--device cuda]

An agent after reasoning gets a planner of each kind, which is taught paths through the maze `medium` by the lesson's
own learner and batches, queried with numbers alone. The trunk's layers are used once as they are, so that nothing that
was learned before changes, and once trained too, which no lesson does. Then each planner plans between the same pairs
of places. Printed are how many of the followed plans cross no wall (Wilson's 95 % interval), the same for all
candidates, and the pairs that only one kind gets right.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import torch
from planning import First, first_plans
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.agent.batch import to_device
from devmind.agent.device import pick_device, place
from devmind.agent.threads import intra_op_threads
from devmind.curriculum.exam import wilson
from devmind.raised import raised
from devmind.seeding import exam_seeds, numpy_rng
from stages.planning import parts
from stages.planning.route import lesson, trips

MAZE = "medium"
TAUGHT = {"own": ("own", False), "the trunk's": ("trunk", False), "the trunk's, taught along": ("trunk", True)}
"""By kind: whose layers, and whether lessons change the trunk."""


def main() -> None:
    """Teach and examine, one row of the table each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agent", default="after-reasoning", choices=sorted(raised()))
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--rows", type=int, default=256, help="plans per step")
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--kinds", nargs="+", default=list(TAUGHT), choices=list(TAUGHT), help="kinds of layers; default: all"
    )
    parser.add_argument("--device", default="cpu", help="device of lessons and plans")
    asked = parser.parse_args()
    shown = trips.made(MAZE, asked.seed, lesson.ORACLE_TICKS["nursery"])
    ways = [trips.joined(shown, lesson.JOINED["nursery"], numpy_rng(asked.seed, "joined", MAZE))]
    batches = [
        trips.batch(ways, 1, 1, asked.rows, numpy_rng(asked.seed, "plan layers", step))["asked"]
        for step in range(asked.steps)
    ]
    print(f"{asked.steps} steps of {asked.rows} plans, {asked.pairs} pairs of places, {MAZE}, seed {asked.seed}")
    print(
        f"{'layers':26} {'taught':>9} {'loss':>6} {'hold':>6} {'95 %':>16} {'of all':>7} {'CPU s':>6} {'ms a plan':>9}"
    )
    first: First | None = None
    with intra_op_threads(1):
        for name in asked.kinds:
            layers_of, along = TAUGHT[name]
            agent = Agent.from_pretrained(raised()[asked.agent]).float()
            parts.admit(agent, layers_of=layers_of)
            place(agent, pick_device(asked.device))
            begun_s = time.process_time()
            count, loss = teach(agent, batches, asked, along)
            spent_s = time.process_time() - begun_s
            begun_s = time.process_time()
            came = first_plans(agent.head(parts.ROUTE), MAZE, exam_seeds(asked.pairs, asked.seed, "plan layers"))
            plan_ms = 1000 * (time.process_time() - begun_s) / asked.pairs
            low, high = wilson(int(came.chosen.sum()), asked.pairs)
            print(
                f"{name:26} {count:9,} {loss:6.3f} {came.chosen.mean():6.3f}   [{low:.3f}, {high:.3f}] "
                f"{came.candidates.mean():7.3f} {spent_s:6.0f} {plan_ms:9.1f}",
                flush=True,
            )
            if first is not None:
                gained, lost = (came.chosen & ~first.chosen).sum(), (first.chosen & ~came.chosen).sum()
                print(f"{'':26} {gained} pairs only by this kind, and {lost} only by the first kind", flush=True)
            first = first or came


def teach(agent: Agent, batches: list[Any], asked: argparse.Namespace, along: bool) -> tuple[int, float]:
    """Teach the planner; return the number of trained parameters and the mean loss of the last tenth of the steps."""
    trains = (f"heads.{parts.ROUTE}.", *(("trunk.decoder.layers.",) if along else ()))
    learner = lesson.RouteLearner(agent, loss, seed=asked.seed, learning_rate=lesson.LEARNING_RATE, trains=trains)
    learner.steps, losses = asked.steps, []
    torch.manual_seed(asked.seed)
    agent.train()
    for step, drawn in enumerate(batches):
        losses.append(float(learner.update(drawn, step)["loss"]))
    agent.eval()
    count = sum(value.numel() for name, value in agent.named_parameters() if name.startswith(trains))
    return count, float(np.mean(losses[-max(1, asked.steps // 10) :]))


def loss(agent: Agent, batch: Any) -> tuple[Tensor, dict[str, Tensor]]:
    """The planner's loss on plans given by numbers alone."""
    head: Any = agent.head(parts.ROUTE)
    batch = to_device(batch, agent.device)
    of = {name: batch[name] for name in ("plan", "symbols", "ahead", "walk")}
    losses = head.thinking(batch["body"], batch["goal"], batch["maze"]).losses(of)
    whole = torch.stack(list(losses.values())).sum()
    return whole, {"loss": whole.detach()}


if __name__ == "__main__":
    main()
