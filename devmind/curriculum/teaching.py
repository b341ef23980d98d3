"""Teaching one lesson: a fresh Lightning Trainer, checkpoints inside the lesson, and exact resumption.

Only this file knows Lightning: `LessonModule` wraps a Learner of any kind as a module with manual optimisation, so that
precision, devices, loggers and callbacks are the Trainer's.
"""

from __future__ import annotations

import logging
import signal
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from lightning import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger, WandbLogger
from lightning.pytorch.strategies import DDPStrategy, ModelParallelStrategy
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.agent.device import pick_device, place, trainer_device
from devmind.agent.precision import DOUBLE, InDouble
from devmind.checkpointing import generations
from devmind.checkpointing.engine import Every, Saved, SavingEngine
from devmind.checkpointing.lock import lock_folder
from devmind.checkpointing.shards import write_shards
from devmind.curriculum import ranks
from devmind.curriculum.finished import shelves
from devmind.curriculum.journal import Journal
from devmind.curriculum.pinned import pinned_settings
from devmind.curriculum.progress import LessonProgress, say
from devmind.curriculum.rehearsal import Mixed, Rehearsal, mix_rehearsal
from devmind.curriculum.sharding import ShardedAgent, shard_optimizer, why_whole
from devmind.curriculum.stage import Batches, Context, Learner, Lesson, Rehearsed
from devmind.curriculum.timing import Stopwatch, TimedBatches, shares
from devmind.errors import CheckpointError, ConfigError
from devmind.learners.gradient import GradientLearner
from devmind.seeding import derive_seed

TELL_EVERY_S = 1.0
"""Seconds between two writes of progress to the journal and the bar."""


class Interrupted(Exception):  # noqa: N818 - it is no error
    """The run was asked to stop, by the signal `signal_number`, and has saved its position."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal.Signals(signal_number).name)
        self.signal_number = signal_number


@dataclass
class LessonResult:
    """The result of a lesson.

    Attributes:
        steps: own steps that were made.
        rehearsals: rehearsals among them.
        status: 'done', or 'cut' if the user ended it.
        share: shares of the time, by part.
        rehearsal_share: the share of the time that rehearsals took, including the wait for their batches.
        trained: how many numbers of each part of the agent the learner may change.
        busy: the shares of the time in which the device learned, the host summed and the disk wrote.
    """

    steps: int
    seconds: float
    status: str
    share: dict[str, float]
    rehearsals: int
    rehearsal_share: float
    trained: dict[str, int]
    busy: dict[str, float] = field(default_factory=dict)


class LessonModule(LightningModule):
    """A Learner as a module for the Trainer.

    Attributes:
        updates: batches since the lesson began, rehearsals included; the learner's step counts only the lesson's own.
    """

    def __init__(
        self,
        learner: Learner,
        batches: Batches,
        updates: int = 0,
        state: Mapping[str, Any] | None = None,
        precision: str = "32-true",
    ) -> None:
        super().__init__()
        # Lightning's own 64-true would change torch's default type, also for the threads that make batches.
        self.is_double = precision == DOUBLE
        self.computing = ExitStack()
        self.automatic_optimization = False
        # As a part of this module, the agent moves to the device and to training mode.
        self.learner, self.agent = learner, learner.agent
        self.batches, self.updates, self._state = batches, updates, state
        self._sharded: ShardedAgent | None = None

    def configure_model(self) -> None:
        """Shard the agent, if all ranks are to hold it together."""
        if isinstance(self.trainer.strategy, ModelParallelStrategy):
            others = [one.learner for one in self.batches.others] if isinstance(self.batches, Mixed) else []
            mesh = self.trainer.strategy.device_mesh["data_parallel"]
            assert isinstance(self.learner, GradientLearner)  # `why_whole`
            self._sharded = ShardedAgent(self.learner, others, mesh)
            self.agent = self._sharded.agent

    @property
    def steps(self) -> int:
        """The number of the lesson's own steps so far."""
        return self.batches.own_steps(self.updates)

    def on_fit_start(self) -> None:
        """Put the agent, which is on its device now, into training mode.

        A loaded agent is in eval mode, and Lightning would leave it there. Then dropout would do nothing, and no
        recurrent layer could learn on a GPU.
        """
        self._came_training = self.agent.training
        self.agent.train()
        if isinstance(self.trainer.strategy, DDPStrategy):
            self.learner.backward = self.manual_backward
        if self.is_double:
            self.agent.double()
        self.learner.begin(self.updates)
        if self.is_double:  # what `begin` made too
            self.agent.double()
            self.computing.enter_context(InDouble())
        state = self._state
        if state is not None and self._sharded and isinstance(self.learner, GradientLearner):
            state = shard_optimizer(state, self.learner)
        if state is not None:
            self.learner.load_state_dict(state)

    def on_fit_end(self) -> None:
        """The lesson has ended or was stopped: the agent returns to its earlier mode."""
        self.learner.end()
        self.learner.backward = lambda loss: loss.backward()
        if self._sharded:
            self.agent, self._sharded = self._sharded.close(), None
        self.agent.train(self._came_training)

    def configure_optimizers(self) -> None:
        """No optimizer for Lightning: a learner keeps its own, if it has one."""

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        """Seed the random numbers of this update."""
        # The class's name is part of the seed, so a renamed learner draws other numbers.
        name = type(self.learner).__name__
        path = ("rehearsal", self.updates) if isinstance(batch, Rehearsed) else (self.steps,)
        others = ("rank", ranks.rank()) if ranks.rank() else ()
        torch.manual_seed(derive_seed(self.learner.seed, name, *path, *others))

    def training_step(self, batch: Any, batch_idx: int) -> None:
        """Make one update, and log its scalars."""
        # A rehearsal has the number of the step before it.
        step = self.steps - isinstance(batch, Rehearsed)
        scalars = dict(self.learner.update(batch, step))
        check_scalars(scalars)
        self.log_dict(scalars, on_step=True, on_epoch=False, batch_size=1)

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Count the update."""
        self.updates += 1

    def transfer_batch_to_device(self, batch: Any, device: torch.device, dataloader_idx: int) -> Any:
        """Move tensors (nested in dicts) to the device; other values stay."""
        if isinstance(batch, Tensor):
            return batch.to(device)
        if isinstance(batch, Mapping):
            return {key: self.transfer_batch_to_device(value, device, dataloader_idx) for key, value in batch.items()}
        if isinstance(batch, Rehearsed):
            return Rehearsed(batch.learner, self.transfer_batch_to_device(batch.batch, device, dataloader_idx))
        return batch


class Stoppable(Callback):
    """Lets SIGTERM or Ctrl-C stop a fit after its current step; then `stopped_by` is the signal's number.

    Args:
        shared: other ranks make the same steps, and stop with this one.
    """

    def __init__(self, shared: bool = False) -> None:
        self.stopped_by: int | None = None
        self.shared = shared
        self._handlers: dict[int, Any] = {}

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        """Take over the signals, as late as possible: Lightning sets its own before."""
        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                self._handlers[number] = signal.signal(number, self._stop)
            except ValueError:  # not the main thread: its owner handles signals
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
        if self.shared:
            self.stopped_by = ranks.most(self.stopped_by or 0) or None
        if self.stopped_by:
            trainer.should_stop = True


class LessonRun(Stoppable):
    """One lesson from its first step, or from where it was stopped, to its last: progress is shown and checkpoints are
    saved by the clock, but no clock ends it.

    Args:
        steps: own steps of the lesson.
        every: one of so many updates is one of `rehearsal`; by default as often as the lesson says.
        resume: the position in this lesson to continue from.
        scores: of the latest exams, for the bar.
        until: end it after this own step; it counts as cut.
        shared: all ranks teach it (`devmind.curriculum.ranks`), each with batches of its own; only rank 0 writes.
    """

    def __init__(
        self,
        lesson: Lesson,
        steps: int,
        agent: Agent,
        context: Context,
        journal: Journal,
        *,
        attempt: int = 0,
        rehearsal: Sequence[Rehearsal] = (),
        every: int | None = None,
        resume: Mapping[str, Any] | None = None,
        scores: Mapping[str, float] | None = None,
        until: int | None = None,
        shared: bool = False,
    ) -> None:
        super().__init__(shared)
        self.lesson, self.context, self.journal, self.attempt = lesson, context, journal, attempt
        self.until = steps if until is None else until
        self.rehearsal, self.watch, self.pinned = list(rehearsal), Stopwatch(), pinned_settings(journal)
        self.seconds, self.rehearsal_s = 0.0, 0.0
        learner = lesson.make_learner(agent, context)
        learner.steps = steps
        every = lesson.rehearsal_every if every is None else every
        of = (ranks.rank(), ranks.world()) if shared else (0, 1)
        batches = mix_rehearsal(lesson, learner, context, steps, rehearsal, every, of)
        if resume:
            self.module = self._resumed(resume, learner, batches)
        else:
            self.module = LessonModule(learner, batches, precision=context.config.precision)
            if isinstance(batches, Mixed):
                for other in {id(one.learner): one.learner for one in rehearsal}.values():
                    other.remember()
        self.progress = LessonProgress(lesson.name, steps, self.module.steps, scores or {})
        shelf, backup = shelves(context.out, context.config)
        self.engine = SavingEngine(
            shelf, _every(context.config.checkpoint.every), backup, saved=self._note_saved, failed=self._note_fault
        )
        self._unsaid: Saved | None = None
        self.sharded = shared and context.config.strategy == "fsdp"
        why = "it is computed in float64" if self.module.is_double else why_whole(learner, batches)
        if self.sharded and why:
            self.sharded = False
            say(f"The lesson '{lesson.name}' is not sharded, as {why}; every process holds the whole agent.")

    def _resumed(self, resume: Mapping[str, Any], learner: Learner, batches: Batches) -> LessonModule:
        """Restore the position `resume`: the agent, all learners, the batches and the time spent."""
        precision = self.context.config.precision
        module = LessonModule(learner, batches, int(resume["updates"]), resume["learner"], precision)
        if module.is_double:  # else what was saved would be rounded
            learner.agent.double()
        learner.agent.load_state_dict(resume["agent"])
        batches.load_state_dict({"update": module.updates})
        for one, state in zip(self.rehearsal, resume["rehearsed"], strict=True):
            one.learner.load_state_dict(state)
        self.watch.seconds |= resume["spent_s"]
        self.seconds, self.rehearsal_s = float(resume["seconds"]), float(resume["rehearsal_s"])
        return module

    def run(self, cut: bool = False) -> LessonResult:
        """Teach what is left of the lesson, however long it takes; with `cut` end it where it is.

        Raises:
            Interrupted: asked to stop; the position is saved.
        """
        module, batches = self.module, self.module.batches
        left, busy = len(batches) - module.updates, dict[str, float]()
        if left and not cut:
            with self.progress, self.watch.watching(module.agent), self.engine:
                loggers = _loggers(self.context, self.lesson.name)
                fit(module, TimedBatches(batches, self.watch), self.context, [self], left, loggers, self._strategy())
                busy = self.engine.busy()
            self.seconds = time.monotonic() - self._began_s
        self._say_saved()
        if self.stopped_by:
            raise Interrupted(self.stopped_by)
        share = shares(self.watch.seconds, self.seconds)
        if busy:
            busy = {"device": max(0.0, round(1 - busy.pop("stalled") - share["data"], 4)), **busy}
        return LessonResult(
            module.steps,
            self.seconds,
            "cut" if module.updates < len(batches) else "done",
            share,
            module.updates - module.steps,
            round(self.rehearsal_s / max(self.seconds, 1e-9), 4),
            trained_by(module.learner),
            busy,
        )

    def follow(self) -> None:
        """Teach what is left of it beside rank 0, which alone writes.

        Raises:
            Interrupted: rank 0 was asked to stop.
        """
        left = len(self.module.batches) - self.module.updates
        stop, batches = Following(self), TimedBatches(self.module.batches, self.watch)
        fit(self.module, batches, self.context, [stop], left, [], self._strategy())
        if stop.stopped_by:
            raise Interrupted(stop.stopped_by)

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        """Begin to count the time."""
        super().on_train_start(trainer, pl_module)
        self.told_at = time.monotonic()
        self._began_s = self.told_at - self.seconds  # interrupted parts included
        self._ended_s = time.perf_counter()

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Show progress and save. Callbacks run before the module's hook, which counts the update, so add it here."""
        updates, now = self.module.updates + 1, time.monotonic()
        self.seconds = now - self._began_s
        if isinstance(batch, Rehearsed):  # the time since the last update ended, the batch included
            self.rehearsal_s += time.perf_counter() - self._ended_s
        done = self.module.batches.own_steps(updates)
        ends = updates == len(self.module.batches) or done >= self.until < self.module.learner.steps
        trainer.should_stop |= ends
        if now - self.told_at > TELL_EVERY_S or updates == 1 or ends:
            self.told_at = now
            scalars = {k: round(float(v), 5) for k, v in trainer.callback_metrics.items()}
            self.journal.write(
                "progress",
                lesson=self.lesson.name,
                attempt=self.attempt,
                step=done,
                seconds=round(self.seconds, 2),
                scalars=scalars,
            )
            self._say_saved()
            self.progress.show(done, scalars.get("loss"))
        super().on_train_batch_end(trainer, pl_module, outputs, batch, batch_idx)
        if self.sharded:
            self.save_together(updates, done, bool(self.stopped_by or ends or self.engine.is_due(updates)))
        elif self.stopped_by or ends:
            self.engine.finish(self._state(updates, done), self._about(updates, done))
        elif self.engine.is_due(updates):
            self.engine.snapshot(self._state(updates, done), self._about(updates, done))
        self._ended_s = time.perf_counter()

    def save_together(self, updates: int, done: int, wanted: bool = False) -> None:
        """If rank 0 wants it, all ranks write their shards of a checkpoint, while learning stands still."""
        number = ranks.most(self.engine.number * wanted)
        if number:
            state, about = self._state(updates, done), self._about(updates, done)
            with self.engine.writing_itself(about):
                write_shards(self.engine.shelf / generations.name_of(number), self.engine.backup, state, about)

    def _strategy(self) -> str:
        return "fsdp" if self.sharded else "ddp" if self.shared else ""

    def _state(self, updates: int, done: int) -> dict[str, Any]:
        """Everything that the next step depends on."""
        learner = self.module.learner
        return {
            "run": self.pinned,
            "lesson": self.lesson.name,
            "attempt": self.attempt,
            "update": done,
            "updates": updates,
            "seconds": self.seconds,
            "rehearsal_s": self.rehearsal_s,
            "spent_s": dict(self.watch.seconds),
            "agent": learner.agent.state_dict(),
            "learner": learner.state_dict(),
            "rehearsed": [one.learner.state_dict() for one in self.rehearsal],
        }

    def _about(self, updates: int, done: int) -> dict[str, Any]:
        """What a person, and the choice of a checkpoint, needs to know of it. Batches and random numbers follow from
        the seed and `updates`."""
        return {
            "lesson": self.lesson.name,
            "attempt": self.attempt,
            "step": done,
            "steps": self.module.learner.steps,
            "updates": updates,
            "seed": self.context.seed,
            "ranks": ranks.world() if self.shared else 1,
            "time": round(time.time(), 3),
            "versions": (self.pinned or {}).get("versions"),
        }

    def _note_saved(self, saved: Saved) -> None:
        """A checkpoint is on the disk: the journal says so at once in the end, and else with the next progress."""
        self._unsaid, self.progress.fault = saved, ""

    def _say_saved(self) -> None:
        if self._unsaid:
            about, self.progress.skipped = self._unsaid.about, self.engine.skipped
            self.journal.write(
                "checkpoint",
                lesson=about["lesson"],
                step=about["step"],
                name=self._unsaid.name,
                saved=self.engine.count,
                skipped=self.engine.skipped,
            )
            self._unsaid = None

    def _note_fault(self, sentence: str) -> None:
        """Nothing could be written: bar and journal say it at once, though the lesson goes on for a while."""
        if sentence != self.progress.fault:
            self.progress.fault = sentence
            say(sentence)
            with suppress(CheckpointError):  # the journal may lie on the disk that is full
                self.journal.write("checkpoint_failed", lesson=self.lesson.name, fault=sentence)


class Following(Stoppable):
    """A rank that writes nothing but its shards."""

    def __init__(self, run: LessonRun) -> None:
        super().__init__(shared=True)
        self.run = run

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """After each step."""
        super().on_train_batch_end(trainer, pl_module, outputs, batch, batch_idx)
        if self.run.sharded:
            updates = self.run.module.updates + 1
            self.run.save_together(updates, self.run.module.batches.own_steps(updates))


def _every(text: str) -> Every:
    """How often is saved, as the configuration says it ('continuous', '10 steps', '20 s')."""
    number, _, unit = text.partition(" ")
    return Every() if not unit else Every(seconds=float(number)) if unit == "s" else Every(updates=int(number))


ORPHAN_S = 60.0
"""Seconds to wait for the writer of a killed run, which has a last checkpoint in hand."""


def position(context: Context) -> dict[str, Any] | None:
    """The newest checkpoint of a run that verifies, loaded; None if there is none. If a newer one does not, a sentence
    says which and why.

    Raises:
        CheckpointError: another process writes there, or an earlier devmind has.
    """
    shelf, backup = shelves(context.out, context.config)
    if not shelf.is_dir() and not (backup and backup.is_dir()):
        return None
    with lock_folder(shelf, ORPHAN_S):
        found: dict[str, Any] | None = generations.load_newest(shelf, backup, say)
    return found


def teach(lesson: Lesson, steps: int, agent: Agent, context: Context, journal: Journal, **how: Any) -> LessonResult:
    """Run one lesson to its end; `how` are further arguments of `LessonRun`."""
    return LessonRun(lesson, steps, agent, context, journal, **how).run()


def trained_by(learner: Learner) -> dict[str, int]:
    """How many numbers a learner may change, buffers included, by part of the agent ("trunk", "heads.choose")."""
    parts: dict[str, int] = {}
    for name, value in learner.agent.state_dict().items():
        if name.startswith(learner.trains):
            part = part_of(name)
            parts[part] = parts.get(part, 0) + value.numel()
    return parts


def part_of(name: str) -> str:
    """The part of an agent that a parameter belongs to: "encoders.sight", "heads.choose", "trunk", "readout"."""
    kind, *rest = name.split(".")
    return f"{kind}.{rest[0]}" if kind in ("encoders", "heads") else kind


def fit(
    module: LessonModule,
    data: TimedBatches,
    context: Context,
    callbacks: list[Callback],
    updates: int,
    loggers: list[Logger],
    strategy: str = "",
) -> None:
    """Learn from `updates` batches of `data` with a new Trainer; with a `strategy` all ranks do, by 'ddp' or 'fsdp'."""
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    device = pick_device(context.device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = Trainer(
            max_epochs=1,
            limit_train_batches=updates,
            logger=loggers,
            callbacks=callbacks,
            precision="32-true" if module.is_double else context.config.precision,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            log_every_n_steps=10,
            use_distributed_sampler=False,
            **(_all_devices(device, strategy) if strategy else trainer_device(device)),  # type: ignore[arg-type]
        )
        try:
            trainer.fit(module, train_dataloaders=data)
        except SystemExit as end:  # Lightning turns Ctrl-C into exit code 1, which would mean that a gate failed
            raise KeyboardInterrupt from end
        finally:
            data.close()
            module.computing.close()
            if module.is_double:
                module.agent.float()
    place(module.agent, device)  # Lightning moves its module back to the CPU


def _all_devices(device: torch.device, strategy: str) -> dict[str, object]:
    """Arguments of the Trainer for one process a device. A lesson uses some of the agent's parts, so most get no
    gradient."""
    nodes = ranks.world() // ranks.local()
    sharded = ModelParallelStrategy(data_parallel_size=ranks.world(), tensor_parallel_size=1)
    how = sharded if strategy == "fsdp" else DDPStrategy(find_unused_parameters=True)
    return trainer_device(device) | {"devices": ranks.local(), "num_nodes": nodes, "strategy": how}


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


def check_scalars(scalars: Mapping[str, Any]) -> None:
    """Check that a learner reports one number by name.

    Raises:
        ConfigError: a tensor has several.
    """
    for name, value in scalars.items():
        if isinstance(value, Tensor) and value.numel() != 1:
            raise ConfigError(
                f"A learner reports one number by name; '{name}' has shape {list(value.shape)}. Report its mean."
            )
