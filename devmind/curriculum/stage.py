"""Stage, Skill, Lesson and Learner, which a plugin provides, and Context, its only way to reach the outside."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from devmind.config import RunConfig
from devmind.curriculum.episodes import MakeWorld
from devmind.curriculum.exam import Exam
from devmind.curriculum.gate import Gate
from devmind.curriculum.prefetch import Prefetch
from devmind.errors import ConfigError, nearest

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from devmind.agent.agent import Agent
    from devmind.worlds.fed import FedWorld


def names_in(what: str, given: Sequence[str]) -> tuple[str, ...]:
    """The names as a tuple; `what` says whose they are.

    Raises:
        ConfigError: it is one text, whose letters would be taken for names: ("walk") is no tuple.
    """
    if isinstance(given, str):
        raise ConfigError(f"{what} are names in a tuple; got the text '{given}'. Write ('{given}',).")
    return tuple(given)


Scalars = Mapping[str, "Tensor | float"]
"""The numbers that a step reports, by name; `devmind watch` and the report draw them."""
ROWS_SHARE = 0.25
"""The share of a lesson's rows that its rehearsals have."""


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
        make_world: `devmind.worlds.make(name, level, seeds)`, or its replacement in a live room.
        feed: what other processes push (`--experience feed:PLACE`), or None; `make_world` gives its world too.
        rows_share: the share of a batch's rows; below 1 if a lesson is only rehearsed.
        one_in: an exam has one in so many of its episodes.
    """

    config: RunConfig
    seed: int
    device: str
    out: Path
    make_world: MakeWorld
    data: Path | None = None
    sessions: tuple[Path, ...] = ()
    rows_share: float = 1.0
    one_in: int = 1
    feed: FedWorld | None = None

    def rows(self, n: int) -> int:
        """The rows of a batch of `n` rows in this context, at least one; a rehearsal has fewer than the lesson."""
        return max(1, round(n * self.rows_share))

    def changed(self, lesson: str, rows: int, learning_rate: float) -> tuple[int, float]:
        """Rows of a batch and learning rate of a lesson: those of the configuration, else those given."""
        said = self.config.lessons.get(lesson)
        return (said and said.batch) or rows, (said and said.learning_rate) or learning_rate

    def feed_of(self, world: str) -> FedWorld | None:
        """What is pushed of this world; None if nothing is, or of another one."""
        return self.feed if self.feed is not None and self.feed.world == world else None

    def options(self, lesson: str, own: Mapping[str, Any]) -> dict[str, Any]:
        """A lesson's options: its `own` values, replaced by those of the configuration (`Lesson.settings`).

        Raises:
            ConfigError: a value has another type than the lesson's own, such as text for a number.
        """
        said = self.config.lessons.get(lesson)
        found = dict(own)
        for name, value in (said.options if said else {}).items():
            if name not in own:  # check_lessons refuses it
                continue
            kind = type(own[name])
            if type(value) is not kind and not (kind is float and type(value) is int):
                raise ConfigError(
                    f"lessons.{lesson}.options.{name} is {own[name]!r} by default, and takes a value of that type; "
                    f"got {value!r}."
                )
            found[name] = kind(value)
        return found

    def episodes(self, n: int, glimpse_of: int | None = None) -> int:
        """The episodes of an exam of `n` in this configuration, at least 8; a glimpse: a fifth, or of `glimpse_of`."""
        whole = n if glimpse_of is None or self.one_in == 1 else glimpse_of
        return max(8, self.scaled(whole) // self.one_in)

    def scaled(self, n: int) -> int:
        """`n` in this configuration, at least 8, also in a glimpse: of what a floor or a judge is fitted on."""
        return max(8, round(n * self.config.exam.episodes_scale))

    def glimpse(self) -> Context:
        """The context of exams with a fifth of their episodes."""
        return replace(self, one_in=5)


class Batches:
    """An exactly resumable stream of batches: batch `update` is `make(update)` and depends on nothing else.

    Args:
        make: the batch of an update.
        steps: steps of the whole lesson.
        prefetch: a thread makes the next batch while the agent learns from the current one. Only for a `make` that
            reads nothing which learning changes: neither the agent nor global random numbers.
        kept: number of batches that rehearsals of this lesson make once and reuse in turn, for batches that cost more
            to make than to learn from; 0: every rehearsal is new. `make` must be as for `prefetch`.
    """

    def __init__(self, make: Callable[[int], Any], steps: int, prefetch: bool = False, kept: int = 0) -> None:
        self.make, self.steps, self.prefetch, self.update = make, steps, prefetch, 0
        self.kept, self._kept = kept, dict[int, Any]()

    def rehearsal(self, number: int, make: Callable[[int], Any] | None = None) -> Any:
        """Batch `number` after the lesson's end: new to the agent, and as hard as the lesson's last ones."""
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
        """How many of the first `updates` batches are the lesson's own: all, unless there are rehearsals among them."""
        return updates

    def __len__(self) -> int:
        """Batches of the whole lesson; a known length also prevents Lightning from fetching one batch ahead."""
        return self.steps

    def state_dict(self) -> dict[str, int]:
        """The position: the number of batches given so far."""
        return {"update": self.update}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Continue after the batches given so far."""
        self.update = int(state["update"])


class Learner(ABC):
    """Improves an agent by one batch after another: by gradient, by reward, in closed form, or in a table.

    The runner calls `begin`, then `update` for each batch, then `end`. It saves `state_dict` together with the agent's
    weights and buffers and the position. **Law**: an update is a function of (batch, step, agent, `state_dict`), so a
    killed lesson resumes bit for bit. Before each update the runner seeds torch's global random numbers by seed and
    position. `devmind.testing.check_learner` checks this.

    Args:
        agent: the agent to improve, on its device.
        seed: root of the learner's random numbers.
        trains: prefixes of names in the agent's `state_dict`, parameters and buffers: nothing else may change.

    Attributes:
        steps: steps of the whole lesson, without rehearsals; set by the runner before the first one.
        again: whether this is a later round of a lesson that is taught in rounds, with others between them; set by the
            code that teaches in rounds. A learner that prepares the agent in `begin` must do so in the first round
            only, because it would undo what was learned. If a failed stage is taught again, its learners prepare the
            agent anew, because the parts that its lessons build on have changed.
        backward: computes gradients from a loss; where several processes learn together, also averages them.
        distributes: whether several processes may learn together: `update` calls `backward` once, whatever the batch.
        mixes: whether `update` also takes a `Rehearsed` batch. If not, a run that has something to rehearse is refused.
    """

    mixes: ClassVar[bool] = False
    distributes: bool = False

    def __init__(self, agent: Agent, *, seed: int, trains: Sequence[str]) -> None:
        self.backward: Callable[[Tensor], object] = lambda loss: loss.backward()
        self.agent, self.seed, self.trains, self.steps = agent, seed, names_in("What a learner `trains`", trains), 0
        self.again = False

    @abstractmethod
    def update(self, batch: Any, step: int) -> Scalars:
        """Learn from one batch.

        Args:
            batch: a batch of the lesson, or a `Rehearsed` one if the learner `mixes`.
            step: number of the lesson's own step, from 0; learning rates are functions of `step / steps`. A rehearsal
                has the number of the step before it.
        """

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """The state on which the next update depends besides the agent, the batch and the step.

        It consists of tensors, numbers, strings, None, and lists, tuples and dicts of these: an optimizer's state, a
        replay buffer, sums.
        """

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `state_dict`, before the first update."""

    @abstractmethod
    def rehearse(self, batch: Any) -> tuple[Tensor, Scalars]:
        """The loss that holds the agent to what this lesson taught, with a gradient, and scalars to report.

        Another lesson's learner calls it with batches of this lesson from after its end. A learner without such a loss
        raises, and says so if it trains the trunk: `Lesson(rehearsed=False)`.
        """

    def remember(self) -> None:  # noqa: B027 - most learners note nothing
        """Store what the agent does now, if `rehearse` needs it; called once, before a lesson that rehearses this one.

        The stored answers must be in `state_dict`. Nothing by default: new batches suffice.
        """

    def begin(self, step: int) -> None:
        """Prepare for training at the lesson's start (step 0; see `again`) or after a stop.

        Only the parameters that `trains` names get a gradient.

        Raises:
            ConfigError: `trains` names a head or an encoder that the agent does not have, so it would never be taught.
        """
        known = {
            f"{kind}.{entry['name']}"
            for kind, entries in (("heads", self.agent.config.heads), ("encoders", self.agent.config.encoders))
            for entry in entries
        }
        for part in (".".join(prefix.split(".")[:2]) for prefix in self.trains if prefix.count(".") > 1):
            if part.startswith(("heads.", "encoders.")) and part not in known:
                raise ConfigError(f"The learner is to train '{part}', which this agent lacks{nearest(part, known)}")
        for name, parameter in self.agent.named_parameters():
            parameter.requires_grad_(name.startswith(self.trains))

    def end(self) -> None:
        """Let every parameter have a gradient again, for later lessons."""
        self.agent.requires_grad_(True)


class Rehearsed(NamedTuple):
    """A batch of another lesson than the current one, and the learner whose `rehearse` knows its loss."""

    learner: Learner
    batch: Any


@dataclass(frozen=True)
class Lesson:
    """One thing to teach, as data.

    What its learner trains (`Learner.trains`) decides what goes with what (`devmind.curriculum.rehearsal`). A lesson
    that changes anything besides the parts and layers of its own stage can undo earlier stages, and rehearses their
    lessons. A lesson that changes no layer of the trunk is undone by no later one, and is not rehearsed.

    Args:
        name: unique within the stage.
        make_learner: `(agent, context) -> Learner` that improves the agent.
        make_batches: `(agent, context, steps) -> Batches`. If `context.rows(n)` decides the rows of a batch, later
            lessons rehearse this one in smaller batches, and can do so more often.
        steps: its steps by default, at the context's size, without rehearsals.
        minutes: how long those steps take at size nursery on two cores of 100 GFLOP/s each in float32, without
            rehearsals. `stage show` shows it, and it decides how often the lesson rehearses, but nothing else.
        rehearsed: whether later stages rehearse it; by default if it trains a layer of the trunk. False where another
            lesson goes over what it teaches; True for a head on the trunk that is to be held when others change that.
        compared: measurements against another way to teach the same, as sentences. The report shows them.
        rehearses: earlier lessons of its own stage that it rehearses too; one named twice comes twice as often. These
            and the lessons of earlier stages take turns.
        rehearsal_every: at most one in so many updates is a rehearsal; 0: none.
        rehearsal_share: largest share of the time for rehearsals; if they would take more, they come less often. 1: as
            often as `rehearsal_every` says, however long they take.
        rehearsal_cost: how long another lesson's rehearsal of this one takes, as a share of one of its own steps (with
            a quarter of the rows 0.3 to 0.4, measured over a whole stage at size nursery).
        skills: names of the skills that it should improve (shown while it runs).
        learns_from: groups of files (speakers, sources) that it uses; they are listed in the agent's `trained_on`.
        settings: what a configuration may set besides the steps: `batch` and `learning_rate`, unless the lesson has
            several of its own or none, and names of options (`Context.options`); others are refused.
        control: the twin of `--ablate`, whose trunk passes all tokens through and does not learn, is taught the lesson
            too: all that is not shared (`devmind.curriculum.ablation`), and these further prefixes, mostly none. None:
            it is not. If no lesson of a stage has a control, the twin has a fresh trunk and all lessons.
        learners: kinds of learners besides its own that a configuration may choose (`LessonConfig.learner`).
        instead_of: steps down a gradient that its steps stand for, if it is taught without; the report says what they
            would have taken more.
    """

    name: str
    make_learner: Callable[[Agent, Context], Learner]
    make_batches: Callable[[Agent, Context, int], Batches]
    steps: int
    minutes: float
    rehearsed: bool | None = None
    compared: str = ""
    rehearses: tuple[str, ...] = ()
    rehearsal_every: int = 3
    rehearsal_share: float = 0.2
    rehearsal_cost: float = 0.35
    skills: tuple[str, ...] = ()
    learns_from: tuple[str, ...] = ()
    settings: tuple[str, ...] = ("batch", "learning_rate")
    control: tuple[str, ...] | None = None
    learners: tuple[str, ...] = ()
    instead_of: int = 0

    def __post_init__(self) -> None:
        for member in ("rehearses", "skills", "learns_from", "settings", "learners"):
            names_in(f"`{member}` of the lesson '{self.name}'", getattr(self, member))


@dataclass(frozen=True)
class Skill:
    """One measurable ability with its gate.

    Args:
        name: unique within the stage.
        examine: `(agent, context) -> Exam` holds the exam. Its measures are of the agent alone: retention needs no
            more, nor does a glimpse, whose context has a fifth of the episodes. A full exam is completed.
        gate: the gate that decides on the measures, or a function of the context that gives it.
        about: one line for `stage show` and the report.
        taught: `(context, n) -> int64 [about n]`, episodes that lessons show, named like those of its measures
            (`devmind.curriculum.episodes`). `check_stage` searches them for the exam's episodes, and requires this
            function unless all measures are exhaustive.
        unretained: why later stages do not repeat its exam, as a sentence; "" if they do.
    """

    name: str
    examine: Callable[[Agent, Context], Exam]
    gate: Gate | Callable[[Context], Gate]
    about: str = field(default="")
    taught: Callable[[Context, int], np.ndarray] | None = None
    unretained: str = ""

    def gate_in(self, context: Context) -> Gate:
        """The gate; some gates are stricter if the run has recordings."""
        return self.gate if isinstance(self.gate, Gate) else self.gate(context)


class Stage(Protocol):
    """A plugin with five members, and no hooks.

    The first paragraph of the class's docstring says in one line what an agent can do after it; the live page shows it.
    A stage that teaches to write may have two methods more: `taught_text(context) -> str`, the text of its lessons, and
    `questions() -> Mapping[str, Sequence[str]]`, by kind all questions that its lessons ask in writing, the plainest
    first. Where it has the second, a life answers no other question in the agent's own words.

    A stage with encoders or heads of its own names their classes by the class attribute `part_classes`, part ->
    "module:Class", written out as a literal: it is read without importing the stage, and a saved agent finds its parts
    by it.

    Arcs that have to be fast, and stay arcs in one mind (`agent.one_mind`), are named by its `reflexes`, if any.
    """

    name: str
    requires: tuple[str, ...]
    skills: Sequence[Skill]

    def admit(self, agent: Agent) -> None:
        """Add the stage's parts to the agent (idempotent); the agent may grow."""
        ...

    def lessons(self, context: Context) -> Sequence[Lesson]:
        """The lessons in order, with budgets for the context's size."""
        ...


def checked_lessons(stage: Stage, context: Context) -> list[Lesson]:
    """The lessons of a stage.

    Raises:
        ConfigError: two have one name, so a run would take one's checkpoints for the other's; one has no steps; or one
            names a skill that the stage lacks, so nothing would be examined after it.
    """
    lessons, skills = list(stage.lessons(context)), [skill.name for skill in stage.skills]
    names = [lesson.name for lesson in lessons]
    for lesson in lessons:
        where = f"The lesson '{lesson.name}' of stage '{stage.name}'"
        if names.count(lesson.name) > 1:
            raise ConfigError(f"{where} is there {names.count(lesson.name)} times; give each lesson its own name.")
        if lesson.steps < 1:
            raise ConfigError(f"{where} has {lesson.steps} steps; expected at least one.")
        if unknown := [name for name in lesson.skills if name not in skills]:
            raise ConfigError(f"{where} improves the skill '{unknown[0]}', which is none{nearest(unknown[0], skills)}")
    return lessons


def check_lessons(stages: Sequence[Stage], context: Context) -> None:
    """Refuse a configuration that names a lesson which all of `stages` lack, or a setting which that lesson lacks.

    Raises:
        ConfigError: it names one; the message names the nearest lesson or option. Or a stage's own lessons have a fault
            (`checked_lessons`).
    """
    known, learners = dict[str, tuple[str, ...]](), dict[str, tuple[str, ...]]()
    for lesson in (lesson for stage in stages for lesson in checked_lessons(stage, context)):
        # Several stages may have a lesson of that name; a setting means something if one of them takes it.
        known[lesson.name] = (*known.get(lesson.name, ()), *lesson.settings)
        learners[lesson.name] = (*learners.get(lesson.name, ()), *lesson.learners)
    for name, said in context.config.lessons.items():
        if name not in known:
            of = " or ".join(f"'{stage.name}'" for stage in stages)
            raise ConfigError(f"Stage {of} has no lesson '{name}'{nearest(name, known)}")
        if said.learner and said.learner not in learners[name]:
            others = f", or one by {' or '.join(learners[name])}" if learners[name] else " alone"
            raise ConfigError(
                f"The lesson '{name}' has no learner '{said.learner}'; it has its own{others}. Leave "
                f"lessons.{name}.learner out."
            )
        usual = ("batch", "learning_rate")
        for setting in usual:
            if setting not in known[name] and getattr(said, setting) is not None:
                raise ConfigError(
                    f"The lesson '{name}' has no {setting} that can be set: it has several of its own, or none; leave "
                    f"lessons.{name}.{setting} out."
                )
        options = [setting for setting in known[name] if setting not in usual]
        for option in said.options:
            if option not in options:
                hint = nearest(option, options) if options else ": it has none."
                raise ConfigError(f"The lesson '{name}' has no option '{option}'{hint}")
