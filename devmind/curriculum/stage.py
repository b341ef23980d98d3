"""Stage, Skill, Lesson and Context: what a plugin gives, and the only way it reaches the outside."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from devmind.config import RunConfig
from devmind.curriculum.ahead import Ahead
from devmind.curriculum.exam import Measure
from devmind.curriculum.gate import Gate

if TYPE_CHECKING:
    from lightning import LightningModule

    from devmind.agent.agent import Agent

MakeWorld = Callable[..., Any]


@dataclass(frozen=True)
class Context:
    """Everything a stage may use besides the agent.

    Args:
        config: the run's configuration.
        seed: root of the run's random numbers.
        device: torch device name.
        out: folder of this run.
        data: folder of labelled recordings, or None.
        sessions: recorded sessions given with `--experience`.
        make_world: `devmind.worlds.make(name, level, seeds)`, or what a live room puts in its place.
    """

    config: RunConfig
    seed: int
    device: str
    out: Path
    make_world: MakeWorld
    data: Path | None = None
    sessions: tuple[Path, ...] = ()

    def episodes(self, n: int) -> int:
        """How many episodes an exam of `n` runs under this configuration (at least 8)."""
        return max(8, round(n * self.config.exam.episodes_scale))


class Batches:
    """An endless, exactly resumable stream: batch `update` is `make(update)` and nothing else decides it.

    Args:
        make: the batch of an update.
        steps: of the whole lesson.
        ahead: a thread makes the next batch while the current one is learned. Only for a `make` that reads nothing
            which learning changes: not the agent, and no global random numbers.
    """

    def __init__(self, make: Callable[[int], Any], steps: int, ahead: bool = False) -> None:
        self.make, self.steps, self.ahead, self.update = make, steps, ahead, 0

    def __iter__(self) -> Generator[Any, None, None]:
        maker = Ahead(self.make, self.steps) if self.ahead else None
        make = maker or self.make
        try:
            while self.update < self.steps:
                batch = make(self.update)
                self.update += 1
                yield batch
        finally:
            if maker:
                maker.close()

    def __len__(self) -> int:
        """Steps of the whole lesson: a known length also keeps Lightning from fetching one batch ahead."""
        return self.steps

    def state_dict(self) -> dict[str, int]:
        """The position: how many batches were given."""
        return {"update": self.update}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on behind the batches that were given."""
        self.update = int(state["update"])


@dataclass(frozen=True)
class Lesson:
    """One thing to teach, as data.

    Args:
        name: unique within the stage.
        make_learner: `(agent, context) -> LightningModule` that improves the agent.
        make_batches: `(agent, context, steps) -> Batches`; rehearsals are not counted among its steps.
        steps: optimizer steps by default, at the context's size.
        minutes: what those steps take at size nursery on two cores of 100 GFLOP/s each in float32, told by
            `stage describe`. Nothing is decided by it: a run measures its machine.
        rehearse: later stages mix this lesson's batches into theirs.
        rehearses: lessons of its own stage, taught before it, that it mixes in too; one named twice comes twice as
            often. Each of these and of what earlier stages have to rehearse comes in turn.
        rehearsal_every: one of so many steps is a rehearsal; 0: none, where nothing is trained that an earlier lesson
            uses: there is nothing to keep then, and a rehearsal would have no gradient.
        skills: names of the skills it should improve (shown while it runs).
        learns_from: groups of files (speakers, sources) it uses; they are listed in the agent's `trained_on`.
        control: as `make_learner`, but the trunk lets all tokens through and does not learn: how `--ablate` teaches the
            twin. Without one in any lesson of a stage the twin has a fresh trunk and all lessons.
    """

    name: str
    make_learner: Callable[[Agent, Context], LightningModule]
    make_batches: Callable[[Agent, Context, int], Batches]
    steps: int
    minutes: float
    rehearse: bool = False
    rehearses: tuple[str, ...] = ()
    rehearsal_every: int = 4
    skills: tuple[str, ...] = ()
    learns_from: tuple[str, ...] = ()
    control: Callable[[Agent, Context], LightningModule] | None = None


@dataclass(frozen=True)
class Skill:
    """One measurable ability with its gate.

    Args:
        name: unique within the stage.
        examine: `(agent, context, level) -> measures`; level 'full' or 'glimpse' (a fifth of the episodes, no floors).
        gate: decides on the measures, or a function of the context that gives such a gate.
        about: one line for `stage describe` and the report.
    """

    name: str
    examine: Callable[[Agent, Context, str], Sequence[Measure]]
    gate: Gate | Callable[[Context], Gate]
    about: str = field(default="")

    def gate_in(self, context: Context) -> Gate:
        """The gate; some are stricter when a run was given recordings."""
        return self.gate if isinstance(self.gate, Gate) else self.gate(context)


class Stage(Protocol):
    """A plugin with five members, and no hooks."""

    name: str
    requires: tuple[str, ...]
    skills: Sequence[Skill]

    def admit(self, agent: Agent) -> None:
        """Add the stage's parts to the agent (idempotent); the agent may grow."""
        ...

    def lessons(self, context: Context) -> Sequence[Lesson]:
        """The lessons in order, with budgets for the context's size."""
        ...
