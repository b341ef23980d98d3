"""Sleep: memories are replayed into the weights until these answer without the memory; then known memories may be
pruned.

A sleep is a run of one lesson, planned and taught like any other: steps and rehearsals are decided once, with one
Trainer.fit, checkpoints and exact resumption. A reservoir of fixed size keeps numbers of memories that were slept on,
so that later nights repeat them.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from devmind import bounds
from devmind.agent.agent import Agent
from devmind.agent.saving import seal
from devmind.checkpointing.files import make_folder
from devmind.curriculum.journal import Journal
from devmind.curriculum.pinned import own
from devmind.curriculum.plan import LessonPlan
from devmind.curriculum.stage import Batches, Context, Lesson, Stage
from devmind.curriculum.teaching import LessonResult, position
from devmind.errors import CheckpointError, ConfigError
from devmind.learners.replay import Replay, candidates
from devmind.learners.sleeping import SleepLearner, heads_to_sleep
from devmind.memory import Memory
from devmind.memory.sampling import Reservoir

LESSON = "sleep"
STEPS = {"tiny": 40, "nursery": 320, "child": 1336, "adult": 2672}
MINUTES = 4.0
"""About the minutes that these steps take at size nursery, without rehearsals."""
MOMENTS = {"tiny": 16, "nursery": 64, "child": 64, "adult": 64}
"""Most questions in a step. There are never more than ASKED for each memory, or a night over few memories would repeat
the same questions in every step.
"""
ASKED = 2
LEARNING_RATE = {"tiny": 1e-2, "nursery": 1e-3, "child": 5e-4, "adult": 2e-4}
REHEARSAL_EVERY = 3
"""One of so many updates is a rehearsal, however long it takes. With one in four and twice the rate, a night cost 0.39
of the skill score of the short-term tests.
"""
FEW = 2
"""A night whose memories do not fill a step has its own steps divided by this, and as many rehearsals. With all steps,
twelve memories were each asked 640 times, and in three nights of ten the agent unlearned the turn at a corridor's end.
"""
LIMIT = 2048
"""Most memories of one night."""
MEASURED = 64
"""Memories with which the speed of a night is measured."""
CONSOLIDATED = 1024
"""Most memories of earlier nights that are repeated."""
VIEWS = 4
"""Views of a memory, none of them replayed. A memory is known if all are answered as the awake agent answered."""
SURE = 0.5
"""Least certainty (1 - entropy / log classes) of the awake agent for an answer to count."""
STATE = "sleep.json"


@dataclass(frozen=True)
class Slept:
    """The result of a sleep.

    Args:
        steps: steps of the learner.
        seconds: whole duration.
        status: 'done', or 'cut' by the user.
        asked: number of memories that can be asked and were slept on.
        before, after: share of them that the agent answers without memory as it does awake, on views never replayed.
        known: numbers of the memories that are answered so on every view, with what the memory itself says.
        consolidated: memories that the next night should repeat.
    """

    steps: int
    seconds: float
    status: str
    asked: int
    before: float
    after: float
    known: tuple[int, ...]
    consolidated: Reservoir = field(repr=False)


def sleep(
    agent: Agent,
    memory: Memory,
    context: Context,
    *,
    earlier: Sequence[Stage] = (),
    heads: Sequence[str] | None = None,
    steps: int | None = None,
    measure: bool = False,
    cut: bool = False,
    consolidated: Reservoir | None = None,
    rehearsed: dict[str, Batches] | None = None,
    save: Callable[[Slept], None] = lambda slept: None,
) -> Slept:
    """Replay `memory` into the weights of `agent`, which is changed in place; nothing is deleted.

    After a kill, a call with the same agent, memory and `context.out` continues exactly.

    Args:
        context: its `out` is the folder of journal and checkpoints; its seed and size decide the night.
        earlier: stages whose lessons are rehearsed.
        heads: the heads that answer; by default those that were taught to answer from memory.
        steps: steps of the learner; by default those of the size, or as many as fit the configuration's minutes.
        measure: whether to measure the duration on this machine, for the forecast and for `minutes`; not in an exam.
        cut: end a stopped night where it is.
        consolidated: memories of earlier nights.
        rehearsed: batches of earlier stages' lessons that several nights of the same agent share (`LessonPlan.kept`).
        save: stores the result before the night counts as ended, so that a kill loses nothing.

    Raises:
        StoreError: nothing in the memory can be asked.
        ConfigError: the agent has no such head, or there is nothing to cut.
        Interrupted: asked to stop; the position is saved.
    """
    make_folder(context.out)
    journal, names = Journal(context.out / "journal.jsonl"), list(heads or heads_to_sleep(agent))
    consolidated = Reservoir(CONSOLIDATED, context.seed, "slept on") if consolidated is None else consolidated
    begun = _unfinished_night(journal, agent, names, context)
    ids = begun or candidates(memory, LIMIT, agent.sense_order, (context.seed, consolidated.seen), consolidated.items)
    replay = Replay(agent, memory, ids, names, seed=context.seed, moments=_moments(context, len(ids)))
    _check_or_note(replay, begun, agent, context, journal)
    before = float(known_views(replay, agent).mean())
    saved = own(position(context), journal, context.out) if begun else None
    night = lesson(replay, context, steps)
    if cut and saved is None:
        raise nothing_to_cut(context.out)
    plan = LessonPlan(LESSON, [night], earlier, context, journal)
    plan.kept = plan.kept if rehearsed is None else rehearsed
    plan.later = consolidated.seen  # each night of an agent rehearses other batches than the one before
    if measure and not cut:
        _measure(plan, agent, memory, saved, names, steps)
    else:
        plan.fix(agent)
    taught = plan.teach(night, agent, resume=saved, cut=cut)
    slept = _slept(taught, replay, before, known_views(replay, agent), consolidated)
    save(slept)
    fields = {name: value for name, value in vars(slept).items() if name != "consolidated"}
    journal.write("slept", **fields | {"known": list(slept.known)})
    return slept


def _moments(context: Context, memories: int) -> int:
    """Questions in a step of a night over so many memories."""
    return min(MOMENTS[context.config.size], ASKED * memories)


def _measure(
    plan: LessonPlan,
    agent: Agent,
    memory: Memory,
    saved: dict[str, Any] | None,
    heads: Sequence[str],
    steps: int | None,
) -> None:
    """Settle the plan with a copy of the agent and a few memories, because measuring changes priorities and weights."""
    awake, context = copy.deepcopy(agent), plan.context
    few = candidates(memory, MEASURED, agent.sense_order, (context.seed,))
    replay = Replay(awake, memory, few, heads, seed=context.seed, moments=_moments(context, len(few)))
    trial = LessonPlan(LESSON, [lesson(replay, context, steps)], plan.earlier, context, plan.journal)
    trial.begin(trial.lessons, saved, lambda: awake)
    plan.steps, plan.every, plan.speed = trial.steps, trial.every, trial.speed


def _check_or_note(replay: Replay, begun: list[int] | None, agent: Agent, context: Context, journal: Journal) -> None:
    """Note the memories of a new night; for a night in progress, check that they all still exist."""
    ids = replay.ids.tolist()
    if not begun:
        journal.write("sleep", ids=ids, heads=replay.heads, agent=agent.sha256(), seed=context.seed)
    elif begun != ids:
        raise CheckpointError(
            f"Some memories of the night in '{context.out}' were forgotten since it began; give another --out."
        )


def _slept(taught: LessonResult, replay: Replay, before: float, right: np.ndarray, consolidated: Reservoir) -> Slept:
    """The result of a night, from what is known after it, `right` bool [VIEWS, n]; also updates `consolidated`."""
    ids = replay.ids.tolist()
    consolidated.offer(ids)
    learned = tuple(replay.ids[right.all(0) & replay.memory_is_right].tolist())
    return Slept(
        taught.steps, taught.seconds, taught.status, len(ids), before, float(right.mean()), learned, consolidated
    )


def _unfinished_night(journal: Journal, agent: Agent, heads: Sequence[str], context: Context) -> list[int] | None:
    """The memories of the night that was begun in this folder and has not ended; None if there is none."""
    begun = journal.last("sleep")
    if begun is None:
        return None
    if journal.last("slept"):
        raise has_ended(context.out)
    mine = {"heads": list(heads), "agent": agent.sha256(), "seed": context.seed}
    changed = [name for name, value in mine.items() if begun[name] != value]
    if changed:
        raise CheckpointError(
            f"'{context.out}' holds a night with another {' and '.join(changed)}; give another --out, or the same ones "
            "to continue it."
        )
    return [int(number) for number in begun["ids"]]


def has_ended(out: Path) -> CheckpointError:
    """The error for a folder whose night has ended."""
    return CheckpointError(f"The night in '{out}' has ended; give another --out for the next one.")


def nothing_to_cut(out: Path) -> ConfigError:
    """The error for `--cut` in a folder in which no night was stopped."""
    return ConfigError(f"--cut ends a night that was stopped, and there is none in '{out}'; leave --cut out.")


def slept_in(journal: Journal, saved: Path) -> Slept | None:
    """The result of this journal's night, whose agent is saved in `saved`; None if it has not ended."""
    event, consolidated = journal.last("slept"), load_state(saved)
    if event is None or consolidated is None:
        return None
    fields = {name: event[name] for name in ("steps", "seconds", "status", "asked", "before", "after")}
    return Slept(**fields, known=tuple(event["known"]), consolidated=consolidated)


def lesson(replay: Replay, context: Context, steps: int | None = None) -> Lesson:
    """The night as a lesson, with the size's steps unless `steps` is given; divided by `FEW` over few memories."""

    def learner(agent: Agent, context: Context) -> SleepLearner:
        return SleepLearner(agent, replay, seed=context.seed, learning_rate=LEARNING_RATE[context.config.size])

    def batches(agent: Agent, context: Context, steps: int) -> Batches:
        return Batches(lambda update: replay.batch(update, steps), steps)

    size = context.config.size
    fewer = FEW if replay.moments < MOMENTS[size] else 1
    return Lesson(
        LESSON, learner, batches, steps or STEPS[size] // fewer, MINUTES / fewer,
        rehearsed=False, rehearsal_every=1 + (REHEARSAL_EVERY - 1) // fewer, rehearsal_share=1.0,
    )  # fmt: skip


def known_views(replay: Replay, agent: Agent) -> np.ndarray:
    """Whether `agent` answers without memory as it did awake, on views that were never replayed: bool [VIEWS, n].

    Only heads of which the awake agent was sure count; if it was sure of none, the memory is not known.
    """
    rows = []
    for view in range(VIEWS):
        alone = replay.alone(agent, replay.ids, view)
        right, asked = np.ones(len(replay.ids), bool), np.zeros(len(replay.ids), bool)
        for head, wanted in replay.wanted.items():
            sure = (replay.sure[head] >= SURE).cpu().numpy()
            same = (alone[head].argmax(-1) == wanted.argmax(-1)).reshape(len(sure), -1).all(1).cpu().numpy()
            right &= same | ~sure
            asked |= sure
        rows.append(right & asked)
    return np.stack(rows)


def prune(memory: Memory, slept: Slept, journal: Journal) -> list[int]:
    """Delete the memories that the weights know now; returns their numbers.

    Examples of names are kept, as names are fitted on them. This is not forgetting on purpose: recordings that these
    memories point into do not change.
    """
    facts = memory.store.facts()
    of = dict(zip(facts.ids.tolist(), facts.names, strict=True))
    gone = [number for number in slept.known if number in of and of[number] is None]
    memory.store.delete(gone, erase=False)
    slept.consolidated.discard(gone)
    journal.write("pruned", ids=gone, kept=len(of) - len(gone))
    return gone


def save_state(folder: Path, consolidated: Reservoir) -> None:
    """Store with an agent the memories that it has slept on."""
    seal(folder, STATE, json.dumps(consolidated.state_dict()).encode())


def carry_state(source: Path, folder: Path) -> None:
    """Copy what the agent in `source` has slept on to the agent that it became, in `folder`."""
    if (consolidated := load_state(source)) is not None:
        save_state(folder, consolidated)


def load_state(folder: Path) -> Reservoir | None:
    """The memories that the agent in `folder` has slept on; None if it never slept.

    Raises:
        CheckpointError: the file is damaged.
    """
    if not (folder / STATE).is_file():
        return None
    consolidated = Reservoir(1)
    sentence = f"'{folder / STATE}' is damaged ({{}}); delete it, and earlier nights are not repeated."
    state = bounds.parse_json(bounds.read_file(folder / STATE, CheckpointError, 1 << 30), CheckpointError, sentence)
    with bounds.damage(CheckpointError, sentence):
        consolidated.load_state_dict(state)
    return consolidated
