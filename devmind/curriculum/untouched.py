"""Whether a stage has left everything that was there before as it was: then nothing that was learned can be lost.

A stage that trains only its own parts and layers changes nothing that earlier stages use. Their exams would show that
episode by episode, at the price of the stage's lessons; equal tensors show it for every episode there is. Compared are
the agent that was handed to the stage and the one that it made. Every tensor that was there is equal to the bit, and so
are the settings that all parts share; what is new is the stage's own; no head of the stage answers, without being
named, for an effector that was there; and every earlier lesson that can be rehearsed gives the same losses to the bit,
so that nothing the stage added stands in the way of what was there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from devmind.agent.agent import Agent
from devmind.agent.batch import to_device
from devmind.curriculum.stage import ROWS_SHARE, Context, Learner, Lesson, Stage
from devmind.learners.gradient import grown_layers, owned_parts
from devmind.seeding import derive_seed

SETTINGS = ("window", "window_tokens", "slots", "slots_every", "tracker")
"""Of an agent's config, what every part's answers hang on."""
BATCHES = 3
"""Of each lesson: those whose batches take turns have further parts in the next ones."""


@dataclass(frozen=True)
class Untouched:
    """What was found equal: tensors that were there, and earlier lessons by their losses."""

    tensors: int
    lessons: int

    def plain(self) -> dict[str, Any]:
        """As results.json has it."""
        return asdict(self)


def untouched(given: Agent, agent: Agent, stage: Stage, earlier: Sequence[Stage], context: Context) -> Untouched | None:
    """What of `agent` is as it was in `given`, the agent that was handed to `stage`; None: something differs, or a loss
    does not come out the same when it is asked twice.
    """
    tensors = _equal_tensors(given, agent, stage.name)
    if not tensors or _answers_too(agent, stage.name):
        return None
    if any(getattr(given.config, name) != getattr(agent.config, name) for name in SETTINGS):
        return None
    lessons = [one for before in earlier for one in before.lessons(context) if not one.unrehearsed]
    return Untouched(tensors, len(lessons)) if all(_same(one, given, agent, context) for one in lessons) else None


def _equal_tensors(given: Agent, agent: Agent, stage: str) -> int:
    """How many tensors there were, where all of them are equal and what is new is the stage's own; else 0.

    Of an agent that has been through the stage before, its parts were there too: a later stage may read them.
    """
    own = (*grown_layers(agent, {stage}), *owned_parts(agent, stage))
    before, after = given.state_dict(), agent.state_dict()
    added = after.keys() - before.keys()
    equal = before.keys() <= after.keys() and all(torch.equal(before[k].cpu(), after[k].cpu()) for k in before)
    return len(before) if equal and all(name.startswith(own) for name in added) else 0


def _answers_too(agent: Agent, stage: str) -> bool:
    """Whether a head of the stage is asked, without being named, for an effector that an earlier head answers for."""
    of = {entry["name"]: entry["stage"] for entry in agent.config.heads}
    asked = [{of[name] == stage for name in agent.heads_of(effector)} for effector in agent.effectors]
    return any(len(mine) > 1 for mine in asked)


def _same(lesson: Lesson, given: Agent, agent: Agent, context: Context) -> bool:
    """Whether both agents have the same losses of a lesson's first batches behind its end, as rehearsals have them.

    What the lesson's learner notes of an agent is noted of `given`, and held against both.
    """
    fewer = replace(context, rows_share=ROWS_SHARE)
    learners = [lesson.make_learner(one, fewer) for one in (given, agent)]
    for learner in learners:
        learner.steps = lesson.steps
    learners[0].remember()
    learners[1].load_state_dict(learners[0].state_dict())
    return torch.equal(*(_losses(lesson, learner, fewer) for learner in learners))


def _losses(lesson: Lesson, learner: Learner, context: Context) -> torch.Tensor:
    """Of BATCHES batches [B], on the CPU."""
    agent, found = learner.agent, []
    batches, training = lesson.make_batches(agent, context, lesson.steps), agent.training
    agent.eval()
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            for number in range(BATCHES):
                torch.manual_seed(derive_seed("untouched", lesson.name, context.seed, number))
                found.append(learner.rehearse(to_device(batches.rehearsal(number), agent.device))[0].detach().cpu())
    finally:
        agent.train(training)
    return torch.stack(found)
