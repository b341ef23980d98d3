"""Rehearsal: a lesson mixes batches of earlier lessons into its own, so that the agent keeps what those taught.

Rehearsed batches come after a lesson's last step and have a quarter of the rows: the agent has not met them, and they
are as hard as the lesson's last ones. A run goes on through them: each lesson continues where the rehearsals of the
lesson before it ended (`made_by`). Batches that are expensive to make are made once in a run and reused
(`Batches.kept`). Rehearsals come between a lesson's own steps and do not count as steps. They take about a fifth of the
time at most. How often they come follows from the minutes that lessons declare (`rehearsal_rate`), not from a clock, so
the same command teaches the same on every machine. The report shows the time that they took.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from devmind.agent.agent import Agent
from devmind.curriculum.prefetch import Prefetch
from devmind.curriculum.stage import ROWS_SHARE, Batches, Context, Learner, Lesson, Rehearsed, Stage
from devmind.curriculum.start import load_stage
from devmind.errors import ConfigError, PluginError
from devmind.learners.gradient import SHARED, grown_layers, owned_parts


@dataclass(frozen=True)
class Rehearsal:
    """A lesson to rehearse: the learner that knows its loss, and batches like its own, with fewer rows.

    Attributes:
        begin: number of the first batch after the lesson's end that is rehearsed; earlier ones the run has had.
    """

    lesson: Lesson
    learner: Learner
    batches: Batches
    begin: int = 0


class Mixed(Batches):
    """The batches of a lesson, and after every `every - 1` of them one batch of another lesson, of each lesson in turn.

    Each lesson's batches come in order and none is skipped. Batches that can be prefetched are, by one thread for each
    lesson. Batches that need the weights are made in their turn and delay no other lesson's.

    Args:
        own: the lesson's own batches, all of which are given.
        every: one of so many batches is another lesson's; at least 2.
    """

    def __init__(self, own: Batches, others: Sequence[Rehearsal], every: int) -> None:
        super().__init__(self._made, own.steps + own.steps // (every - 1))
        self.own, self.others, self.every = own, list(others), every
        # A lesson that is named twice continues from one turn to the other.
        self._turns = [
            (
                sum(one.lesson is other.lesson for other in others[:at]),
                sum(one.lesson is other.lesson for other in others),
            )
            for at, one in enumerate(others)
        ]
        self._makers = [batches.make for batches in (own, *(other.batches for other in others))]

    def __iter__(self) -> Generator[Any, None, None]:
        plain = self._makers
        with ExitStack() as stack:
            ends = [o.batches.steps + o.begin + self.steps for o in self.others]
            streams = [(self.own, self.own.steps), *zip((o.batches for o in self.others), ends, strict=True)]
            self._makers = [self._maker(batches, last, stack) for batches, last in streams]
            try:
                yield from super().__iter__()
            finally:
                self._makers = plain

    def _maker(self, batches: Batches, last: int, stack: ExitStack) -> Any:
        if not batches.prefetch:
            return batches.make
        return stack.enter_context(closing(Prefetch(batches.make, last)))

    def own_steps(self, updates: int) -> int:
        return updates - updates // self.every

    def _made(self, update: int) -> object:
        turn, at = divmod(update, self.every)
        if at < self.every - 1:
            return self._makers[0](update - turn)
        number, which = divmod(turn, len(self.others))
        other, (turn_of, turns) = self.others[which], self._turns[which]
        at = other.begin + number * turns + turn_of
        return Rehearsed(other.learner, other.batches.rehearsal(at, self._makers[1 + which]))


def mix_rehearsal(
    lesson: Lesson,
    learner: Learner,
    context: Context,
    steps: int,
    rehearsal: Sequence[Rehearsal],
    every: int,
    of: tuple[int, int] = (0, 1),
) -> Batches:
    """The batches of `steps` own steps of a lesson, mixed with those of `rehearsal`.

    Args:
        every: one of so many batches is a rehearsal; 0: none.
        of: number of the process, and how many of them take every batch of the lesson in turn.

    Raises:
        ConfigError: the lesson makes another number of batches than it has steps, so it would end early.
    """
    rank, world = of
    own = lesson.make_batches(learner.agent, context, steps * world)
    if len(own) != steps * world:
        raise ConfigError(
            f"The lesson '{lesson.name}' makes {len(own)} batches for {steps * world} steps; let its make_batches give "
            "Batches(make, steps) with the steps that it is given."
        )
    own.steps = steps
    for batches in {id(one): one for one in (own, *(other.batches for other in rehearsal))}.values():
        batches.make = partial(_make_every, batches.make, rank, world) if world > 1 else batches.make
    if not (rehearsal and every):
        return own
    return Mixed(own, rehearsal, max(2, every))


def _make_every(make: Callable[[int], Any], rank: int, world: int, update: int) -> Any:
    return make(update * world + rank)


def rehearsals(
    lesson: Lesson,
    before: Sequence[Lesson],
    earlier: Sequence[Stage],
    agent: Agent,
    context: Context,
    kept: dict[str, Batches] | None = None,
    begin: Mapping[tuple[str, str], int] | None = None,
) -> list[Rehearsal]:
    """The lessons that `lesson` rehearses (`rehearsed_by`), each with its learner and batches.

    Args:
        before: the earlier lessons of its own stage.
        kept: by lesson of earlier stages, the batches that another lesson of this run has rehearsed already.
        begin: by stage ("" for its own) and lesson, the number of the first batch to rehearse; by default 0.

    Raises:
        ConfigError: it names a lesson that is not in `before`, or its learner takes no rehearsals.
    """
    named = rehearsed_by(lesson, before, earlier, agent, context)
    others = [other for _, other in named]
    if others and not (learner := lesson.make_learner(agent, context)).mixes:
        raise ConfigError(
            f"The lesson '{lesson.name}' should rehearse '{others[0].name}', but its learner "
            f"({type(learner).__name__}) takes no rehearsals. Let its update take a Rehearsed batch (mixes = True), or "
            "let it train nothing but its stage's own parts and layers (`trains`), if it changes nothing else."
        )
    fewer = replace(context, rows_share=ROWS_SHARE)
    # A lesson that is named twice has one learner, which remembers once.
    learners = {id(other): other.make_learner(agent, fewer) for other in others}
    kept, made = {} if kept is None else kept, []
    for name, other in named:
        batches = kept.get(f"{name}/{other.name}") or other.make_batches(agent, fewer, other.steps)
        if name and batches.kept:
            kept[f"{name}/{other.name}"] = batches
        made.append(Rehearsal(other, learners[id(other)], batches, (begin or {}).get((name, other.name), 0)))
    return made


def undoes_earlier(lesson: Lesson, agent: Agent, context: Context) -> bool:
    """Whether a lesson of the agent's present stage trains what earlier stages use: anything but the parts and layers
    that its stage has added, and what its twin's control trains further.
    """
    stage = agent.config.stages[-1] if agent.config.stages else ""
    own = (*grown_layers(agent, {stage}), *owned_parts(agent, stage), *(lesson.control or ()))
    return not all(prefix.startswith(own) for prefix in lesson.make_learner(agent, context).trains)


def unrehearsed_why(lesson: Lesson, agent: Agent, context: Context) -> str:
    """Why later stages do not rehearse `lesson`, as a sentence; "" if they do (`Lesson.rehearsed`)."""
    if lesson.rehearsed:
        return ""
    if lesson.rehearsed is False:
        return "Another lesson goes over what it teaches."
    if any(prefix.startswith(SHARED) or not prefix for prefix in lesson.make_learner(agent, context).trains):
        return ""
    return "It trains parts of its own and no layer of the trunk, and no later lesson changes those."


def rehearsed_by(
    lesson: Lesson, before: Sequence[Lesson], earlier: Sequence[Stage], agent: Agent, context: Context
) -> list[tuple[str, Lesson]]:
    """The lessons that `lesson` rehearses, each with the name of its stage: those of earlier stages that are rehearsed
    (`unrehearsed_why`), if it may undo them, then the lessons of its own stage that it names, with "".

    Raises:
        ConfigError: it names a lesson that is not in `before`.
    """
    if not lesson.rehearsal_every:
        return []
    own = {other.name: other for other in before}
    if missing := [name for name in lesson.rehearses if name not in own]:
        raise ConfigError(
            f"The lesson '{lesson.name}' rehearses '{missing[0]}', which is not taught before it; "
            f"{', '.join(own) or 'none'} is."
        )
    named = [("", own[name]) for name in lesson.rehearses]
    if not earlier or not undoes_earlier(lesson, agent, context):
        return named
    past = [(stage.name, other) for stage in earlier for other in stage.lessons(context)]
    return [*((stage, other) for stage, other in past if not unrehearsed_why(other, agent, context)), *named]


def made_by(steps: int, every: int, others: Sequence[tuple[str, Lesson]]) -> Counter[tuple[str, str]]:
    """How many rehearsals of each of `others` a lesson of `steps` own steps makes, by stage and lesson (`Mixed`)."""
    made = Counter[tuple[str, str]]()
    if every and others:
        rounds, more = divmod(steps // (max(2, every) - 1), len(others))
        for at, (stage, other) in enumerate(others):
            made[stage, other.name] += rounds + (at < more)
    return made


def rehearsal_rate(lesson: Lesson, others: Sequence[Lesson]) -> tuple[int, float]:
    """`every`, of which one update is a rehearsal (0: none), and the planned share of the time of rehearsals.

    The lesson's `rehearsal_every` applies, or a larger number if rehearsals would take more than `rehearsal_share`. For
    a lesson without minutes `rehearsal_every` always applies.

    Args:
        others: the lessons that it rehearses in turn.
    """
    every = lesson.rehearsal_every
    if not (every and others):
        return 0, 0.0
    own = lesson.minutes / lesson.steps
    rehearsal = sum(other.rehearsal_cost * other.minutes / other.steps for other in others) / len(others)
    if not own:
        return every, 0.0
    if lesson.rehearsal_share < 1:
        least = rehearsal / own * (1 - lesson.rehearsal_share) / lesson.rehearsal_share
        every = max(every, 1 + math.ceil(round(least, 6)))
    return every, rehearsal / (rehearsal + (every - 1) * own)


def stages_of(agent: Agent) -> list[Stage]:
    """The installed ones of the stages that this agent has been through."""
    found: list[Stage] = []
    for name in agent.config.stages:
        try:
            found.append(load_stage(name))
        except PluginError as error:
            warnings.warn(f"The stage '{name}' is not rehearsed: {error}", stacklevel=2)
    return found
