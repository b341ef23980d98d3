"""Measures this machine: one number to compare machines by, and the speed of each lesson."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch

from devmind.agent.device import wait_for
from devmind.agent.threads import cores, intra_op_threads
from devmind.curriculum.stage import Batches, Context, Learner, Lesson
from devmind.curriculum.teaching import Interrupted, LessonModule, Stoppable, fit
from devmind.curriculum.timing import Stopwatch, TimedBatches
from devmind.errors import ConfigError
from devmind.report.words import machine

if TYPE_CHECKING:
    from devmind.agent.agent import Agent

PRODUCT = 256
"""Rows and columns of the multiplied matrices. They fit into a core's cache, and a product takes less time than a turn
of the scheduler, so the fastest of many was not interrupted.
"""
PRODUCTS, PRODUCTS_S = 5, 0.3
"""Least number of products, and least seconds: the first product also warms up and can be slow on a busy machine."""
LESSON_S = 5.0
"""About how many seconds the speed of one lesson is measured, without its warm-up."""
MOST_RUNS = 16
RUN = 4
"""Consecutive steps of one measured run. The first is left out: it waits for a batch that no thread has prepared, and
for what a lesson makes once for several batches.
"""
GOLDEN = 0.6180339887498949
"""The fractional parts of its multiples fill 0..1 evenly, and no lesson's turns have their period."""


@dataclass(frozen=True)
class Machine:
    """The machine of a run.

    Args:
        device: torch's name of the device.
        cores: cores that this process may use.
        threads: threads that training uses.
        gflops: float32 GFLOP/s of one core, or of the whole device if it is not a CPU.
    """

    device: str
    cores: int
    threads: int
    gflops: float

    def __str__(self) -> str:
        return machine(self.device, self.cores, self.threads, [self.gflops])


def measure_machine(device: str) -> Machine:
    """This machine, measured in less than a second."""
    return Machine(device, cores(), torch.get_num_threads(), round(gflops(device), 1))


def gflops(device: str = "cpu", threads: int = 1) -> float:
    """GFLOP/s of the fastest of many float32 matrix products; other work slows some of them, but not the fastest."""
    best_s, size = float("inf"), PRODUCT if torch.device(device).type == "cpu" else 16 * PRODUCT
    a, b = torch.rand(2, size, size, device=device)
    with intra_op_threads(threads):
        until_s, done = time.perf_counter() + PRODUCTS_S, 0
        while done < PRODUCTS or time.perf_counter() < until_s:
            begun_s = time.perf_counter()
            a @ b
            wait_for(device)
            best_s, done = min(best_s, time.perf_counter() - begun_s), done + 1
    return 2 * size**3 / best_s / 1e9


def step_s(lesson: Lesson, agent: Agent, context: Context, steps: int) -> float:
    """Seconds a step of a lesson of `steps` steps, measured on short runs of steps from all parts of the lesson.

    The agent learns meanwhile and should be thrown away.

    Raises:
        Interrupted: asked to stop.
        ConfigError: the lesson gives no Learner.
    """
    batches, learner = lesson.make_batches(agent, context, steps), lesson.make_learner(agent, context)
    if not isinstance(learner, Learner):
        raise ConfigError(
            f"make_learner of the lesson '{lesson.name}' gives a Learner; got a {type(learner).__name__}."
        )
    learner.steps = steps

    def measured(first: int, some: int) -> list[float]:
        taken = Batches(lambda update: batches.make(_place(update, steps)), first + some, batches.prefetch)
        taken.load_state_dict({"update": first})
        return _seconds(learner, context, taken, first)

    of_one_s = measured(0, 2)[-1]
    if of_one_s * steps < LESSON_S:
        return of_one_s  # for a short lesson one step is enough
    # The same learner continues: a learner that first plays games to learn from does so only once.
    each_s = measured(RUN, RUN * max(1, min(MOST_RUNS, int(LESSON_S / of_one_s / RUN))))
    return sum(each_s) / len(each_s)


def _place(update: int, steps: int) -> int:
    """The lesson's step from which a measured step is taken."""
    run, at = divmod(update, RUN)
    return int(max(0, steps - RUN) * ((0.5 + GOLDEN * run) % 1)) + at


def _seconds(learner: Learner, context: Context, batches: Batches, first: int) -> list[float]:
    """Seconds of each batch from `first` on, including the wait for it, without the first of each run."""
    clock, module = _Clock(context.device), LessonModule(learner, batches, first, None, context.config.precision)
    fit(module, TimedBatches(batches, Stopwatch()), context, [clock], len(batches) - first, [])
    if clock.stopped_by:
        raise Interrupted(clock.stopped_by)
    each_s = [max(1e-9, after - before) for before, after in pairwise(clock.times)]
    return [seconds for number, seconds in enumerate(each_s) if number % RUN]


class _Clock(Stoppable):
    """The times at which the first step began and each step ended."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.device = device
        self.times: list[float] = []

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        super().on_train_start(trainer, pl_module)
        self.times.append(time.perf_counter())

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        super().on_train_batch_end(trainer, pl_module, outputs, batch, batch_idx)
        wait_for(self.device)
        self.times.append(time.perf_counter())
