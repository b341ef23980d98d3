"""The A-not-B error by age: how the answers of the exam `permanence` change while the lesson `hidden` is taught.

The given agent has been through the reflex stage. It is admitted to the memory stage and taught `things` and `beliefs`,
then `hidden`; it is examined in `--rooms` rooms of each level before the first step and then every `--every` steps.
Steps are those of the lesson `hidden`. Rehearsals and the stage's earlier lessons other than these are left out, so the
figures show this lesson alone.

    OMP_NUM_THREADS=1 python benchmarks/a_not_b.py --agent checkpoints/.../milestones/01-reflex
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from devmind import worlds
from devmind.agent.agent import Agent
from devmind.config import RunConfig
from devmind.curriculum.stage import Context
from devmind.learners.gradient import Loss, schedule, trainable
from devmind.worlds.nursery.hiding import AFTER_LOOKING, BEFORE_LOOKING
from stages.memory import parts
from stages.memory.lessons import STEPS, hidden_batch
from stages.memory.permanence import detections, exam, lesson

KINDS = ("unmoved", "moved", "swapped", "a-not-b")


def teach(
    agent: Agent, loss: Loss, make: Callable[[int], Any], steps: range, total: int, rate: float, trains: tuple[str, ...]
) -> torch.optim.Optimizer:
    """Take `steps` of a lesson of `total` steps as its learner does; return the optimizer."""
    for name, parameter in agent.named_parameters():
        parameter.requires_grad_(name.startswith(trains))
    mine = [parameter for parameter in agent.parameters() if parameter.requires_grad]
    kept: torch.optim.Optimizer | None = getattr(agent, "_lesson", None)
    optimizer = kept or torch.optim.AdamW(mine, lr=rate, betas=(0.9, 0.95), weight_decay=0.02)
    for update in steps:
        for group in optimizer.param_groups:
            group["lr"] = rate * schedule(update, total)
        value, _ = loss(agent, make(update))
        optimizer.zero_grad()
        value.backward()
        torch.nn.utils.clip_grad_norm_(mine, 1.0)
        optimizer.step()
    agent.requires_grad_(True)
    return optimizer


def row(agent: Agent, context: Context, steps: int, n: int) -> str:
    """One line: the share right in `unmoved`, before and after the look in `moved` and `swapped`, and the A-not-B
    error.
    """
    found = {kind: exam.answers(agent, context, kind, n, full=False) for kind in KINDS}
    cells = [f"{steps:5d}"]
    for kind, answers in found.items():
        who = exam.BOTH
        if kind == "a-not-b":
            cells.append(f"{answers.share(who, BEFORE_LOOKING, answers.at_first):.3f}")
        else:
            cells.append(f"{answers.share(who, BEFORE_LOOKING, answers.true):.3f}")
            cells.append(f"{answers.share(who, AFTER_LOOKING, answers.true):.3f}")
    return " | ".join(cells)


def main() -> None:
    """Teach, examine and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agent", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=240)
    parser.add_argument("--every", type=int, default=40)
    parser.add_argument("--rooms", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="folder to save the taught agent in")
    given = parser.parse_args()
    context = Context(RunConfig(), given.seed, "cpu", Path("unused"), worlds.make)
    agent = Agent.from_pretrained(given.agent).float()
    parts.admit(agent)
    n = STEPS["things"]["nursery"]
    teach(
        agent, detections.loss, lambda u: detections.lesson_batch(context, u, 64), range(n), n, 2e-3, detections.TRAINS
    )
    n = STEPS["beliefs"]["nursery"]
    believed = lambda u: lesson.beliefs_batch(agent, context, u, 256)  # noqa: E731
    teach(agent, lesson.beliefs_loss, believed, range(n), n, 3e-3, lesson.BELIEFS_TRAIN)
    print("steps | unmoved before | after | moved before | after | swapped before | after | A-not-B error", flush=True)
    optimizer = None
    for start in range(0, given.steps + 1, given.every):
        print(row(agent, context, start, given.rooms), flush=True)
        if start < given.steps:
            object.__setattr__(agent, "_lesson", optimizer)
            optimizer = teach(
                agent,
                lesson.loss,
                lambda u: hidden_batch(agent, context, u, 8, given.steps),
                range(start, min(start + given.every, given.steps)),
                given.steps,
                1e-3,
                trainable(agent, parts.NAME),
            )
    if given.out:
        agent.save_pretrained(given.out)


if __name__ == "__main__":
    main()
