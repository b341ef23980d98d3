"""The long night: lessons of all stages at once teach one mind what a specialist's stages learned apart.

It is a run of one lesson, planned, saved and resumed as any other (`devmind.curriculum.plan`). Its batches are those
that later stages rehearse: from after each lesson's end, with a quarter of the rows. A lesson whose batches can be
neither compared nor asked for their own loss is left out, and the journal says why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from devmind.agent.agent import Agent
from devmind.agent.device import place
from devmind.agent.one_mind import OneMind, one_mind, weights_by_room
from devmind.agent.threads import training_threads
from devmind.checkpointing.files import make_folder
from devmind.checkpointing.lock import lock_folder
from devmind.config import RunConfig
from devmind.curriculum.finished import path_from_run
from devmind.curriculum.journal import Journal
from devmind.curriculum.pinned import check_pins, own, pins, recorded_threads, refuse_leftovers
from devmind.curriculum.plan import LessonPlan
from devmind.curriculum.progress import say
from devmind.curriculum.rehearsal import stages_of
from devmind.curriculum.stage import ROWS_SHARE, Batches, Context, Lesson, Stage
from devmind.curriculum.start import make_context
from devmind.curriculum.teaching import position
from devmind.errors import CheckpointError, ConfigError, DevmindError, nearest
from devmind.learners.consolidation import (
    FEATURES,
    ConsolidationLearner,
    Taught,
    as_it_was,
    askable,
    distances,
    is_ordinary,
    modality_of,
)
from devmind.seeding import derive_seed

LESSON, JOURNAL, MILESTONE = "consolidation", "journal.jsonl", "one-mind"
STEPS = {"tiny": 40, "nursery": 500, "child": 4000, "adult": 12_000}
MINUTES = 60.0
"""Minutes that these steps may take at size nursery on two cores: a step of the newborn's two modalities takes 4 s."""
LEARNING_RATE = {"tiny": 1e-2, "nursery": 2e-3, "child": 5e-4, "adult": 2e-4}
HELD_OUT = 2
"""Batches of each lesson, from behind all that are taught, on which errors are measured before and after."""
FAULTS = (DevmindError, NotImplementedError, RuntimeError, KeyError, AttributeError, TypeError, ValueError, IndexError)
"""What a lesson's own code raises if it cannot be asked about an agent of another form."""


@dataclass(frozen=True)
class Consolidation:
    """The result of a long night.

    Attributes:
        agent: the folder of the one mind.
        rooms: weights by room of the specialist and of the one mind.
        stays: why heads stayed as they are; left_out: why lessons were; unreached: heads that no lesson reached.
        before, after: errors on held-out batches, by "STAGE/LESSON/TERM".
        means: of losses, gradient norms and cosines by modality, over all steps.
    """

    agent: Path
    rooms: tuple[Mapping[str, int], Mapping[str, int]]
    stays: Mapping[str, str]
    left_out: Mapping[str, str]
    unreached: Sequence[str]
    before: Mapping[str, float]
    after: Mapping[str, float]
    means: Mapping[str, float]


def consolidate(
    folder: Path,
    out: Path,
    *,
    steps: int | None = None,
    width: int | None = None,
    layers: int | None = None,
    seed: int = 0,
    twin: bool = False,
    without: Sequence[str] = (),
) -> Consolidation:
    """Teach one mind what the agent in `folder` can do; after a kill, a call with the same `out` continues exactly.

    Args:
        out: folder for the journal, checkpoints, and the new agent below `milestones`.
        steps: of the learner, each with a batch of every modality; by default those of the size.
        width, layers: of the trunk.
        twin: the trunk's layers stay the identity: what this agent can do too, needs no mind.
        without: lessons, as "STAGE/LESSON", that are left out, such as those whose batches take a search to make.

    Raises:
        ConfigError: the agent has been through no stage, or the trunk cannot be built.
        CheckpointError: the folder holds another night, or one that has ended.
        Interrupted: asked to stop; the position is saved.
    """
    specialist = Agent.from_pretrained(folder)
    stages = stages_of(specialist)
    if not stages:
        raise ConfigError(
            "This agent has been through no stage, so there is nothing to teach to one mind; raise it with "
            "'devmind stage run reflex' first."
        )
    reflexes = {name for stage in stages for name in getattr(stage, "reflexes", ())}
    mind = one_mind(specialist, reflexes, width=width, layers=layers, seed=seed)
    config = RunConfig.model_validate({"size": specialist.config.size, "seed": seed, "loggers": ()})
    context = make_context(config, out, None, ())
    make_folder(out)
    journal = Journal(out / JOURNAL)
    trunk = mind.agent.trunk.decoder.config
    begun = {
        "agent": path_from_run(folder, out),
        "sha256": specialist.sha256(),
        "twin": twin,
        "steps": steps,
        "without": sorted(without),
    }
    begun |= {"width": trunk.hidden_size, "layers": trunk.num_hidden_layers, "seed": seed}
    with lock_folder(out), training_threads(recorded_threads(journal)):
        _check_begun(journal, begun, context, specialist)
        return _night(specialist, mind, stages, context, journal, steps, twin, without)


def _check_begun(journal: Journal, begun: Mapping[str, Any], context: Context, specialist: Agent) -> None:
    """Note a new night, or check that the one in the folder is the same."""
    before = journal.last("consolidation")
    if before is None:
        refuse_leftovers(context.out)
        journal.write("consolidation", **begun, pinned=pins(context, specialist.config.stages))
        return
    if journal.last("consolidation_done"):
        raise CheckpointError(f"The long night in '{context.out}' has ended; give another --out for the next one.")
    changed = [name for name, value in begun.items() if before[name] != value]
    if changed:
        raise CheckpointError(
            f"'{context.out}' holds a long night with another {' and '.join(changed)}; give another --out, or the same "
            "ones to continue it."
        )
    check_pins(journal, context.out, context)


def _night(
    specialist: Agent,
    mind: OneMind,
    stages: Sequence[Stage],
    context: Context,
    journal: Journal,
    steps: int | None,
    twin: bool,
    without: Sequence[str],
) -> Consolidation:
    agent = mind.agent
    place(specialist, context.device)
    place(agent, context.device)
    taught, left_out = lessons_of(specialist, agent, stages, context, without)
    night, learner_of = lesson(specialist, taught, steps, twin)
    saved = own(position(context), journal, context.out)
    plan = LessonPlan(LESSON, [night], (), context, journal)
    plan.fix(agent)
    total = plan.steps[LESSON]
    held_out = [(at, held) for at in range(len(taught)) for held in _held_out(taught, at, total)]
    before = (journal.last("errors_before") or {}).get("errors")
    if before is None:
        before = learner_of(agent, context).errors(held_out)
        journal.write("errors_before", errors=before, left_out=left_out, stays=dict(mind.stays))
    plan.teach(night, agent, resume=saved)
    learner = learner_of(agent, context)
    after, learned = learner.errors(held_out), {*as_it_was(agent, specialist), *learner.reached}
    unreached = [name for name in agent.heads if name not in learned]
    rooms = (weights_by_room(specialist), weights_by_room(agent))
    new = context.out / "milestones" / f"{len(agent.config.stages):02d}-{'twin' if twin else MILESTONE}"
    agent.save_pretrained(new)
    journal.write("consolidation_done", rooms=rooms, after=after, means=learner.means(), unreached=unreached)
    return Consolidation(new, rooms, mind.stays, left_out, unreached, before, after, learner.means())


def lessons_of(
    specialist: Agent, agent: Agent, stages: Sequence[Stage], context: Context, without: Sequence[str] = ()
) -> tuple[list[Taught], dict[str, str]]:
    """The lessons of all stages that the night goes over, and why others, by "STAGE/LESSON", are left out.

    Each is tried with one batch, since only a lesson's own code knows what it can be asked.
    """
    fewer = replace(context, rows_share=ROWS_SHARE)
    taught, left_out = list[Taught](), dict.fromkeys(without, "as asked")
    every = {f"{stage.name}/{each.name}": (stage, each) for stage in stages for each in stage.lessons(context)}
    if unknown := [name for name in without if name not in every]:
        raise ConfigError(f"There is no lesson '{unknown[0]}' to leave out{nearest(unknown[0], every)}")
    for name, (stage, each) in every.items():
        if name not in left_out:
            say(f"Trying '{name}' on one mind: its first batch can take a while.")
            try:
                batches = each.make_batches(specialist, fewer, each.steps)
                torch.manual_seed(derive_seed(context.seed, stage.name, each.name, "try"))
                taught.append(_try(specialist, agent, stage.name, each, batches, fewer))
            except FAULTS as error:
                left_out[name] = f"{type(error).__name__}: {error}".split("\n")[0]
    return taught, left_out


def _try(specialist: Agent, agent: Agent, stage: str, lesson: Lesson, batches: Batches, context: Context) -> Taught:
    """What of a lesson can be taught: its heads' answers and the trunk's features; else, or for a head that generates,
    its own loss."""
    batch = batches.rehearsal(0)
    heads = askable(agent, specialist, stage) if is_ordinary(batch) else ()
    found = distances(agent, specialist, heads, batch) if is_ordinary(batch) else {}
    generates = {f"heads.{name}." for name, head in agent.heads.items() if head.generates and name not in found}
    of_stage = {f"heads.{entry['name']}." for entry in agent.config.heads if entry["stage"] == stage}
    learner = why = None
    reached = frozenset[str]()
    try:
        learner = lesson.make_learner(specialist, context)
        learner.remember()
        own = not is_ordinary(batch) or bool(generates & of_stage & set(learner.trains))
        learner.agent = agent
        reached = _reached(agent, learner.rehearse(batch)[0]) if own else reached
        if not reached:
            learner, why = None, "its own loss does not reach the one mind"
    except FAULTS as error:
        learner, why = None, f"{type(error).__name__}: {error}".split("\n")[0]
    if not found and learner is None:
        raise ConfigError(f"its batches cannot be compared, and {why}")
    return Taught(stage, lesson.name, batches, learner, heads, modality_of(batch), reached)


def _reached(agent: Agent, loss: torch.Tensor) -> frozenset[str]:
    """The heads of `agent` that a loss teaches."""
    names, parameters = zip(*agent.named_parameters(), strict=True)
    found = torch.autograd.grad(loss, parameters, allow_unused=True) if loss.requires_grad else [None] * len(names)
    pairs = zip(names, found, strict=True)
    return frozenset(
        name.split(".")[1] for name, gradient in pairs if name.startswith("heads.") and gradient is not None
    )


def lesson(specialist: Agent, taught: Sequence[Taught], steps: int | None, twin: bool) -> tuple[Lesson, Any]:
    """The night as a lesson, and what gives its one learner."""
    made = dict[int, ConsolidationLearner]()

    def learner(agent: Agent, context: Context) -> ConsolidationLearner:
        rate = LEARNING_RATE[context.config.size]
        if id(agent) not in made:
            made[id(agent)] = ConsolidationLearner(
                agent, specialist, taught, seed=context.seed, learning_rate=rate, twin=twin
            )
        return made[id(agent)]

    def batches(agent: Agent, context: Context, steps: int) -> Batches:
        return Batches(lambda update: step_of(taught, update), steps)

    count = steps or STEPS[specialist.config.size]
    return Lesson(LESSON, learner, batches, count, MINUTES, rehearsed=False, rehearsal_every=0), learner


def step_of(taught: Sequence[Taught], update: int) -> dict[str, dict[str, Any]]:
    """A batch of each modality, of its lessons in turn."""
    found = {}
    for modality in sorted({one.modality for one in taught}):
        mine = [at for at, one in enumerate(taught) if one.modality == modality]
        turn, which = divmod(update, len(mine))
        found[modality] = {"lesson": mine[which], "batch": taught[mine[which]].batches.rehearsal(turn)}
    return found


def _held_out(taught: Sequence[Taught], at: int, steps: int) -> list[Any]:
    """Batches of a lesson from behind all that the night takes of it, if the agents can be run on them."""
    one = taught[at]
    return [one.batches.make(one.batches.steps + steps + n) for n in range(HELD_OUT)] if one.heads else []


def by_stage(errors: Mapping[str, float]) -> dict[str, float]:
    """By stage, the mean error of features over its lessons, of errors by "STAGE/LESSON/TERM"."""
    found = dict[str, list[float]]()
    for name, value in errors.items():
        stage, _, term = name.split("/", 2)
        if term == FEATURES:
            found.setdefault(stage, []).append(value)
    return {stage: sum(values) / len(values) for stage, values in found.items()}
