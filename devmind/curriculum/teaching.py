"""Teaching one lesson: a fresh Lightning Trainer, checkpoints inside the lesson, and an exact way back into it."""

from __future__ import annotations

import logging
import signal
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lightning import Trainer
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger, WandbLogger

from devmind.agent.agent import Agent
from devmind.agent.device import pick_device, place, trainer_device
from devmind.checkpointing import bundle
from devmind.curriculum.journal import Journal
from devmind.curriculum.progress import LessonProgress
from devmind.curriculum.rehearsal import Rehearsal, mixed
from devmind.curriculum.stage import Context, Lesson
from devmind.curriculum.timing import Stopwatch, TimedBatches, shares
from devmind.learners.gradient import Learner

TELL_EVERY_S = 1.0
"""How often progress is written to the journal and shown."""


class Interrupted(Exception):  # noqa: N818 - it is no error
    """The run was asked to stop and has saved its position; `signal_number` says how it was asked."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal.Signals(signal_number).name)
        self.signal_number = signal_number


@dataclass
class Taught:
    """How a lesson went: `status` is 'done', or 'cut' when the user ended it; `share` is of the time, by what it was
    spent in.
    """

    steps: int
    seconds: float
    status: str
    share: dict[str, float]


class Stoppable(Callback):
    """A fit that SIGTERM or Ctrl-C stops after the step that it is at; `stopped_by` is the signal's number then."""

    def __init__(self) -> None:
        self.stopped_by: int | None = None
        self._handlers: dict[int, Any] = {}

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        """Take over the signals, as late as possible: Lightning sets its own before."""
        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                self._handlers[number] = signal.signal(number, self._stop)
            except ValueError:  # not the main thread: whoever runs us there handles signals
                break

    def _stop(self, number: int, frame: Any) -> None:
        self.stopped_by = number
        signal.signal(number, signal.default_int_handler)

    def on_train_end(self, trainer: Trainer, pl_module: Any) -> None:
        """Give the signals back."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """After each step."""
        if self.stopped_by:
            trainer.should_stop = True


class LessonRun(Stoppable):
    """Watches one fit: checkpoints by the clock, and progress. No clock ends it."""

    def __init__(
        self,
        lesson: Lesson,
        learner: Learner,
        context: Context,
        journal: Journal,
        attempt: int,
        seconds: float,
        scores: Mapping[str, float],
        watch: Stopwatch,
    ) -> None:
        super().__init__()
        self.lesson, self.learner, self.journal, self.attempt = lesson, learner, journal, attempt
        self.folder, self.every_s = context.out / "checkpoints", context.config.checkpoint_every_s
        self.seconds_before, self.watch = seconds, watch
        self.progress = LessonProgress(lesson.name, learner.steps, learner.update, scores)

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        """Begin to count the time."""
        super().on_train_start(trainer, pl_module)
        self.since = self.saved_at = self.told_at = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds this lesson has taken, interrupted parts included."""
        return self.seconds_before + time.monotonic() - self.since

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Tell and save. Callbacks run before the module's own hook, which counts the step: it is added here."""
        done, now = self.learner.update + 1, time.monotonic()
        if now - self.told_at > TELL_EVERY_S or done in (1, self.learner.steps):
            self.told_at = now
            scalars = {k: round(float(v), 5) for k, v in trainer.callback_metrics.items()}
            self.journal.write(
                "progress", lesson=self.lesson.name, step=done, seconds=round(self.seconds, 2), scalars=scalars
            )
            self.progress.show(done, scalars.get("loss"))
        super().on_train_batch_end(trainer, pl_module, outputs, batch, batch_idx)
        ends = self.stopped_by or done == self.learner.steps
        if ends or now - self.saved_at > self.every_s:
            self.save(trainer, done)
            self.saved_at = time.monotonic()

    def save(self, trainer: Trainer, done: int) -> None:
        """A bundle with all that the next step depends on."""
        name = f"{self.attempt}-{self.lesson.name}-{done:08d}"
        state = {
            "lesson": self.lesson.name,
            "attempt": self.attempt,
            "update": done,
            "seconds": self.seconds,
            "spent_s": dict(self.watch.seconds),
            "agent": self.learner.agent.state_dict(),
            "learner": self.learner.extra_state(),
            "optimizers": [optimizer.state_dict() for optimizer in trainer.optimizers],
        }
        bundle.save(self.folder / name, state)
        self.journal.write("checkpoint", lesson=self.lesson.name, step=done, name=name)
        bundle.retire(self.folder, keep=2)


def position(folder: Path) -> dict[str, Any] | None:
    """The newest checkpoint that verifies, loaded, or None when there is none."""
    newest = bundle.newest(folder)
    return bundle.load(newest) if newest else None


def teach(
    lesson: Lesson,
    steps: int,
    agent: Agent,
    context: Context,
    journal: Journal,
    *,
    attempt: int = 0,
    rehearsal: Sequence[Rehearsal] = (),
    resume: Mapping[str, Any] | None = None,
    scores: Mapping[str, float] | None = None,
    cut: bool = False,
) -> Taught:
    """Run one lesson to its end, however long it takes, or to a request to stop.

    Args:
        resume: the position in this lesson to go on from.
        cut: the lesson ends where `resume` is, without another step.

    Raises:
        Interrupted: asked to stop; the position is saved.
    """
    learner: Learner = lesson.make_learner(agent, context)  # type: ignore[assignment]
    learner.steps, watch = steps, Stopwatch()
    batches = mixed(lesson, learner, agent, context, steps, rehearsal)
    seconds = 0.0
    if resume:
        agent.load_state_dict(resume["agent"])
        learner.load_extra_state(resume["learner"])
        learner.update, seconds = int(resume["update"]), float(resume["seconds"])
        batches.load_state_dict({"update": learner.update})
        learner.resumed_optimizers = resume["optimizers"]
        watch.seconds |= resume.get("spent_s", {})
    run = LessonRun(lesson, learner, context, journal, attempt, seconds, scores or {}, watch)
    if learner.update < steps and not cut:
        with run.progress, watch.watching(agent):
            data = TimedBatches(batches, watch)
            fit(learner, data, context, [run], steps - learner.update, _loggers(context, lesson.name))
        seconds = run.seconds
    if run.stopped_by:
        raise Interrupted(run.stopped_by)
    return Taught(learner.update, seconds, "cut" if learner.update < steps else "done", shares(watch.seconds, seconds))


def fit(
    learner: Learner, data: TimedBatches, context: Context, callbacks: list[Callback], steps: int, loggers: list[Logger]
) -> None:
    """`steps` steps of `learner` on `data`, by a Trainer of its own."""
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    device = pick_device(context.device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = Trainer(
            max_epochs=1,
            limit_train_batches=steps,
            logger=loggers,
            callbacks=callbacks,
            precision=context.config.precision,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            log_every_n_steps=10,
            use_distributed_sampler=False,
            **trainer_device(device),  # type: ignore[arg-type]
        )
        try:
            trainer.fit(learner, train_dataloaders=data)
        finally:
            data.close()
    place(learner.agent, device)  # Lightning brings its module back to the CPU


def _loggers(context: Context, lesson: str) -> list[Logger]:
    folder = context.out / "logs"
    made: list[Logger] = []
    for kind in context.config.loggers:
        if kind == "csv":
            made.append(CSVLogger(folder, name="csv", version=lesson))
        elif kind == "tensorboard":
            made.append(TensorBoardLogger(folder, name="tensorboard", version=lesson))
        else:
            made.append(WandbLogger(project="devmind", name=f"{context.out.name}-{lesson}", save_dir=folder))
    return made
