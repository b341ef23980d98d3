"""Whether a stage has left all that was there before as it was: then nothing that was learned can be lost.

A stage that trains parts and layers of its own alone changes nothing of what earlier stages use. Their exams would say
so again, episode by episode, at the price of its lessons; equal tensors say it of every episode there is. Three things
make sure of it: every tensor that is not the stage's own is equal to the bit; no head of the stage answers by itself
for an effector that was there; and every earlier lesson that can be rehearsed gives the same loss to the bit on a
batch, so that what the stage added does not stand in the way of what was there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from devmind.agent.agent import Agent
from devmind.curriculum.stage import ROWS_SHARE, Context, Lesson, Stage
from devmind.learners.gradient import grown_layers, owned_parts
from devmind.seeding import derive_seed


@dataclass(frozen=True)
class Untouched:
    """What was found equal: tensors that are not the stage's own, and the losses of earlier lessons."""

    tensors: int
    lessons: int

    def plain(self) -> dict[str, Any]:
        """As results.json has it."""
        return asdict(self)


def untouched(start: Agent, agent: Agent, stage: Stage, earlier: Sequence[Stage], context: Context) -> Untouched | None:
    """What of `agent` is as it was in `start`, the same agent before it was taught `stage`; None: something differs,
    or a loss does not come out the same when it is asked twice.
    """
    tensors = _equal_tensors(start, agent, stage.name)
    if not tensors or _answers_too(agent, stage.name):
        return None
    lessons = [one for before in earlier for one in before.lessons(context) if not one.unrehearsed]
    same = all(torch.equal(_loss(lesson, start, context), _loss(lesson, agent, context)) for lesson in lessons)
    return Untouched(tensors, len(lessons)) if same else None


def _equal_tensors(start: Agent, agent: Agent, stage: str) -> int:
    """How many tensors are not the stage's own, where all of them are equal; else 0."""
    own = (*grown_layers(agent, {stage}), *owned_parts(agent, stage))
    before, after = ({k: v for k, v in one.state_dict().items() if not k.startswith(own)} for one in (start, agent))
    equal = before.keys() == after.keys() and all(torch.equal(before[k].cpu(), after[k].cpu()) for k in before)
    return len(before) if equal else 0


def _answers_too(agent: Agent, stage: str) -> bool:
    """Whether a head of the stage is asked, without being named, for an effector that an earlier head answers for."""
    of = {entry["name"]: entry["stage"] for entry in agent.config.heads}
    asked = [{of[name] == stage for name in agent.heads_of(effector)} for effector in agent.effectors]
    return any(len(mine) > 1 for mine in asked)


def _loss(lesson: Lesson, agent: Agent, context: Context) -> torch.Tensor:
    """Of a lesson's first batch behind its end, as a rehearsal has it, on the CPU."""
    fewer = replace(context, rows_share=ROWS_SHARE)
    training = agent.training
    agent.eval()
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(derive_seed("untouched", lesson.name, context.seed))
            learner = lesson.make_learner(agent, fewer)
            learner.steps = lesson.steps
            learner.remember()
            loss, _ = learner.rehearse(lesson.make_batches(agent, fewer, lesson.steps).rehearsal(0))
            return loss.detach().cpu()
    finally:
        agent.train(training)
