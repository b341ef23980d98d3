"""A lesson taught by several processes: `python -m tests.curriculum.rank_lesson OUT RANKS [STRATEGY [FAULT]]`.

RANKS is 1 where torchrun begins the processes. FAULT `dies` ends rank 1 at its fourth batch; `goes on` is none: the
newest checkpoint is taken up.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import torch

from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.agent.threads import stepping_threads
from devmind.checkpointing import generations
from devmind.curriculum import ranks
from devmind.curriculum.journal import Journal
from devmind.curriculum.stage import Batches, Context, Lesson
from devmind.curriculum.start import make_context
from devmind.curriculum.teaching import LessonRun
from devmind.errors import CheckpointError
from devmind.learners.gradient import GradientLearner
from devmind.seeding import lesson_seeds
from tests.curriculum.lamp_stage import LampStage, shown
from tests.curriculum.test_run import config

STAGE, STEPS = LampStage(), 8


def make_learner(agent: Agent, context: Context) -> GradientLearner:
    return GradientLearner(agent, STAGE.loss, seed=context.seed, learning_rate=2e-2)


def rows(update: int) -> dict[str, torch.Tensor]:
    batch, lit = shown(lesson_seeds(16, 0, "one", update))
    return batch | {"lit": lit[:, None]}


def double(update: int) -> Any:
    """The batches of two ranks as one."""
    return joined_rows(rows(2 * update), rows(2 * update + 1))


def joined_rows(one: Any, other: Any) -> Any:
    if isinstance(one, dict):
        return {name: joined_rows(value, other[name]) for name, value in one.items()}
    return torch.cat([one, other]) if isinstance(one, torch.Tensor) else one


def teach(
    out: Path, count: int, strategy: str = "ddp", fault: str = "", resume: Any = None, one_batch: bool = False
) -> Agent:
    agent = Agent(AgentConfig(size="tiny", seed=3))
    STAGE.admit(agent)
    agent.config.stages = ["lamps"]

    def make(update: int) -> Any:
        if fault == "dies" and ranks.rank() and update >= 7:
            os._exit(9)
        return double(update) if one_batch else rows(update)

    lesson = Lesson("one", make_learner, lambda agent, context, steps: Batches(make, steps, prefetch=True), STEPS, 1.0)
    context = make_context(config(checkpoint={"every": "1 steps"}, strategy=strategy), out, None, ())
    if fault == "goes on":
        resume = generations.load_newest(out / "checkpoints", None, print)
    with stepping_threads(), ranks.joined(count, out):
        run = LessonRun(
            lesson, STEPS, agent, context, Journal(out / "journal.jsonl"), resume=resume, shared=ranks.world() > 1
        )
        if ranks.rank():
            run.follow()
            sys.exit()
        run.run()
    return agent


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    try:
        teach(folder, int(sys.argv[2]), *sys.argv[3:]).save_pretrained(folder / "agent")
    except CheckpointError as error:
        print(error)
        sys.exit(2)
