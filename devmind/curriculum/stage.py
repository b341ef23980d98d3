"""Stage, Skill, Lesson, Learner and Context: what a plugin gives, and the only way it reaches the outside."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from devmind.config import RunConfig
from devmind.curriculum.episodes import MakeWorld
from devmind.curriculum.exam import Measure
from devmind.curriculum.gate import Gate
from devmind.curriculum.prefetch import Prefetch
from devmind.errors import ConfigError, nearest

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from devmind.agent.agent import Agent

Scalars = Mapping[str, "Tensor | float"]
"""What a step reports, by name: it is drawn by `devmind watch` and the report."""
ROWS_SHARE = 0.25
"""Of a lesson's rows, in a rehearsal of it."""


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
        rows_share: of a batch's rows; below 1 where a lesson is only rehearsed.
    """

    config: RunConfig
    seed: int
    device: str
    out: Path
    make_world: MakeWorld
    data: Path | None = None
    sessions: tuple[Path, ...] = ()
    rows_share: float = 1.0

    def rows(self, n: int) -> int:
        """How many rows a batch of `n` has here, at least one: fewer in a rehearsal than in the lesson itself."""
        return max(1, round(n * self.rows_share))

    def changed(self, lesson: str, rows: int, learning_rate: float) -> tuple[int, float]:
        """Rows of a batch and learning rate of a lesson: as the configuration says of it, or as given."""
        said = self.config.lessons.get(lesson)
        return (said and said.batch) or rows, (said and said.learning_rate) or learning_rate

    def options(self, lesson: str, own: Mapping[str, Any]) -> dict[str, Any]:
        """A lesson's options: its `own` values, replaced where the configuration says so (`Lesson.options`).

        Raises:
            ConfigError: a value is of another kind than the lesson's own, such as words for a number.
        """
        said = self.config.lessons.get(lesson)
        found = dict(own)
        for name, value in (said.options if said else {}).items():
            if name not in own:  # check_lessons refuses it
                continue
            kind = type(own[name])
            if type(value) is not kind and not (kind is float and type(value) is int):
                raise ConfigError(
                    f"lessons.{lesson}.options.{name} is {own[name]!r} unless told otherwise, and takes such a value; "
                    f"got {value!r}."
                )
            found[name] = kind(value)
        return found

    def episodes(self, n: int, level: str = "full") -> int:
        """How many episodes an exam of `n` runs under this configuration, at least 8: a fifth of them in a glimpse."""
        whole = max(8, round(n * self.config.exam.episodes_scale))
        return max(8, whole // 5) if level == "glimpse" else whole


class Batches:
    """An endless, exactly resumable stream: batch `update` is `make(update)` and nothing else decides it.

    Args:
        make: the batch of an update.
        steps: of the whole lesson.
        prefetch: a thread makes the next batch while the current one is learned. Only for a `make` that reads nothing
            which learning changes: not the agent, and no global random numbers.
        kept: where this lesson is rehearsed, so many batches are made, kept and come again in turn, as making them
            costs more than learning from them; 0: every rehearsal is new. For a `make` as with `prefetch`.
    """

    def __init__(self, make: Callable[[int], Any], steps: int, prefetch: bool = False, kept: int = 0) -> None:
        self.make, self.steps, self.prefetch, self.update = make, steps, prefetch, 0
        self.kept, self._kept = kept, dict[int, Any]()

    def rehearsal(self, number: int, make: Callable[[int], Any] | None = None) -> Any:
        """Batch `number` from behind the lesson's end: not met while it was taught, and as hard as its last ones."""
        make = make or self.make
        if not self.kept:
            return make(self.steps + number)
        number %= self.kept
        if number not in self._kept:
            self._kept[number] = make(self.steps + number)
        return self._kept[number]

    def __iter__(self) -> Generator[Any, None, None]:
        maker = Prefetch(self.make, self.steps) if self.prefetch else None
        make = maker or self.make
        try:
            while self.update < self.steps:
                batch = make(self.update)
                self.update += 1
                yield batch
        finally:
            if maker:
                maker.close()

    def own_steps(self, updates: int) -> int:
        """How many of the first `updates` batches are the lesson's own: all, unless rehearsals stand among them."""
        return updates

    def __len__(self) -> int:
        """Batches of the whole lesson: a known length also keeps Lightning from fetching one batch ahead."""
        return self.steps

    def state_dict(self) -> dict[str, int]:
        """The position: how many batches were given."""
        return {"update": self.update}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on behind the batches that were given."""
        self.update = int(state["update"])


class Learner(ABC):
    """What improves an agent by one batch after another: by gradient, by reward, in closed form, in a table.

    The runner calls `begin`, then `update` for each batch, then `end`; it saves `state_dict` together with the agent's
    weights and buffers and the position. **Law**: an update is a function of (batch, step, agent, `state_dict`), so a
    lesson that was killed goes on bit for bit. Before each update torch's global random numbers are seeded by seed and
    position. `devmind.testing.check_learner` holds a learner to this.

    Args:
        agent: the one to improve, on its device.
        seed: root of the learner's random numbers.
        trains: prefixes of names in the agent's `state_dict`, parameters and buffers: nothing else may change.

    Attributes:
        steps: of the whole lesson, rehearsals not counted; set by the runner before the first.
        again: whether this is a later round of a lesson that is taught in rounds, with others between them; set by
            whoever teaches in rounds. A learner that prepares the agent in `begin` does so in the first round only, as
            it would undo what was learned. A stage that is taught again because it failed is prepared anew: what its
            lessons build on has moved.
        mixes: whether `update` takes a `Rehearsed` batch too. A lesson whose learner does not says
            `Lesson(rehearsal_every=0)`, or a run that has something to rehearse is refused.
    """

    mixes: ClassVar[bool] = False

    def __init__(self, agent: Agent, *, seed: int, trains: Sequence[str]) -> None:
        self.agent, self.seed, self.trains, self.steps = agent, seed, tuple(trains), 0
        self.again = False

    @abstractmethod
    def update(self, batch: Any, step: int) -> Scalars:
        """Learn from one batch.

        Args:
            batch: of the lesson; or a `Rehearsed` one where the learner `mixes`.
            step: number of the lesson's own step, from 0; learning rates are functions of `step / steps`. A rehearsal
                has the number of the step before it.
        """

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """What besides the agent, the batch and the step the next update depends on.

        Tensors, numbers, strings, None, lists, tuples and dicts of these: an optimizer's state, a replay buffer, sums.
        """

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` gave, before the first update."""

    @abstractmethod
    def rehearse(self, batch: Any) -> tuple[Tensor, Scalars]:
        """The loss that holds the agent to what this lesson taught it, with a gradient, and scalars to report.

        Asked by another lesson's learner, for batches of this lesson from behind its end. A learner that has no such
        loss raises, and its lesson says why it is not rehearsed: `Lesson(unrehearsed=...)`.
        """

    def remember(self) -> None:  # noqa: B027 - most learners note nothing
        """Note what the agent does now, where `rehearse` needs it; called once, before a lesson that rehearses this.

        What is noted belongs into `state_dict`. Nothing by default: batches made anew say enough.
        """

    def begin(self, step: int) -> None:
        """Get ready to train, at the lesson's start (step 0; see `again`) or behind a stop: only what `trains` names
        gets a gradient.
        """
        for name, parameter in self.agent.named_parameters():
            parameter.requires_grad_(name.startswith(self.trains))

    def end(self) -> None:
        """Give every parameter its gradient back for the lessons to come."""
        self.agent.requires_grad_(True)


class Rehearsed(NamedTuple):
    """A batch of another lesson than the one that is taught, and the learner whose `rehearse` knows its loss."""

    learner: Learner
    batch: Any


@dataclass(frozen=True)
class Lesson:
    """One thing to teach, as data.

    Args:
        name: unique within the stage.
        make_learner: `(agent, context) -> Learner` that improves the agent.
        make_batches: `(agent, context, steps) -> Batches`. Where `context.rows(n)` says how many rows a batch has,
            later lessons rehearse this one in smaller batches, and can do so more often.
        steps: its own by default, at the context's size; rehearsals are not counted.
        minutes: how long those steps take at size nursery on two cores of 100 GFLOP/s each in float32, without
            rehearsals. `stage describe` shows it; how often the lesson rehearses follows from it, and nothing else
            does.
        unrehearsed: why later stages do not rehearse this lesson, as a sentence; "" where they do. The report shows it.
        compared: what was measured of it beside another way to teach the same, as sentences. The report shows it.
        rehearses: lessons of its own stage, taught before it, that it mixes in too; one named twice comes twice as
            often. These and the lessons of earlier stages take turns.
        rehearsal_every: at most one in so many updates is a rehearsal. 0: none, for a lesson that trains nothing that
            an earlier lesson uses: nothing can be lost then, and a rehearsal would have no gradient.
        undoes_earlier: whether it trains something that an earlier stage uses. If not, it rehearses lessons of its own
            stage only.
        rehearsal_share: the largest share of the time that rehearsals may take; they become rarer where they would take
            more. 1: as often as `rehearsal_every` says, however long they take.
        rehearsal_cost: how long a rehearsal of this lesson by another takes, as a share of one of its own steps (with a
            quarter of the rows 0.3 to 0.4, measured over a whole stage at size nursery).
        skills: names of the skills it should improve (shown while it runs).
        learns_from: groups of files (speakers, sources) it uses; they are listed in the agent's `trained_on`.
        options: names of further settings that a configuration may give it (`Context.options`); others are refused.
        control: like `make_learner`, for a trunk that lets all tokens through and does not learn: `--ablate` teaches
            the twin by it. If no lesson of a stage has one, the twin has a fresh trunk and all lessons.
    """

    name: str
    make_learner: Callable[[Agent, Context], Learner]
    make_batches: Callable[[Agent, Context, int], Batches]
    steps: int
    minutes: float
    unrehearsed: str = ""
    compared: str = ""
    rehearses: tuple[str, ...] = ()
    rehearsal_every: int = 3
    undoes_earlier: bool = True
    rehearsal_share: float = 0.2
    rehearsal_cost: float = 0.35
    skills: tuple[str, ...] = ()
    learns_from: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    control: Callable[[Agent, Context], Learner] | None = None


@dataclass(frozen=True)
class Skill:
    """One measurable ability with its gate.

    Args:
        name: unique within the stage.
        examine: `(agent, context, level) -> measures`. Level 'full' is everything; 'retention' asks the agent as it is
            in the same episodes, with no floors, rows or exhibits; 'glimpse' in a fifth of them.
        gate: decides on the measures, or a function of the context that gives such a gate.
        about: one line for `stage describe` and the report.
        taught: `(context, n) -> int64 [about n]`, episodes that lessons show, named like those of its measures
            (`devmind.curriculum.episodes`). `check_stage` searches them for the exam's episodes, and requires this
            function unless all measures are exhaustive.
        unretained: why later stages do not sit its exam again, as a sentence; "" where they do.
    """

    name: str
    examine: Callable[[Agent, Context, str], Sequence[Measure]]
    gate: Gate | Callable[[Context], Gate]
    about: str = field(default="")
    taught: Callable[[Context, int], np.ndarray] | None = None
    unretained: str = ""

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


def check_lessons(stage: Stage, context: Context) -> None:
    """Refuse a configuration that changes a lesson which the stage does not have, or what that lesson cannot be told.

    Raises:
        ConfigError: it does; the nearest lesson or option is named.
    """
    known = {lesson.name: lesson for lesson in stage.lessons(context)}
    for name, said in context.config.lessons.items():
        if name not in known:
            raise ConfigError(f"Stage '{stage.name}' has no lesson '{name}'{nearest(name, known)}")
        options = known[name].options
        for option in said.options:
            if option not in options:
                hint = nearest(option, options) if options else ": it has none."
                raise ConfigError(f"The lesson '{name}' has no option '{option}'{hint}")
