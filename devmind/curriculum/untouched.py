"""Checks whether a stage left everything that was there before unchanged; then nothing learned can be lost.

A stage that trains only its own parts and layers changes nothing that earlier stages use. Their exams would show that
for some episodes, and could take as long as the stage's lessons; equal tensors show it for every episode. The check
compares the agent that the stage was given with the agent that it made:

- every earlier tensor, and every setting that all parts share, is equal to the bit;
- every new part belongs to the stage;
- no head of the stage answers for an earlier effector without being named;
- every earlier lesson that can be rehearsed gives the same losses, to the bit, so no addition disturbs earlier parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from devmind.agent.agent import Agent
from devmind.agent.batch import to_device
from devmind.curriculum.rehearsal import unrehearsed_why
from devmind.curriculum.stage import ROWS_SHARE, Context, Learner, Lesson, Stage
from devmind.learners.gradient import grown_layers, owned_parts
from devmind.report.results import Untouched
from devmind.seeding import derive_seed

SETTINGS = ("window", "window_tokens", "slots", "slots_every", "tracker")
"""The settings of an agent's config on which every part's answers depend."""
BATCHES = 3
"""Batches of each lesson: in lessons whose parts take turns, further parts come in the next batches."""


def find_untouched(
    before_agent: Agent, agent: Agent, stage: Stage, earlier: Sequence[Stage], context: Context
) -> Untouched | None:
    """What is equal in `agent` and in `before_agent`, the agent that `stage` was given.

    None if something differs, or if a loss differs when it is computed twice.
    """
    tensors = _equal_tensors(before_agent, agent, stage.name)
    if not tensors or _answers_too(agent, stage.name):
        return None
    if any(getattr(before_agent.config, name) != getattr(agent.config, name) for name in SETTINGS):
        return None
    learned = [one for before in earlier for one in before.lessons(context)]
    lessons = [one for one in learned if not unrehearsed_why(one, agent, context)]
    if not all(_same(one, before_agent, agent, context) for one in lessons):
        return None
    return Untouched(tensors=tensors, lessons=len(lessons))


def _equal_tensors(before_agent: Agent, agent: Agent, stage: str) -> int:
    """The number of earlier tensors, if all of them are equal and every new one is the stage's; else 0.

    If the agent has been through the stage before, the stage's parts count as earlier: a later stage may read them.
    """
    own = (*grown_layers(agent, {stage}), *owned_parts(agent, stage))
    before, after = before_agent.state_dict(), agent.state_dict()
    added = after.keys() - before.keys()
    equal = before.keys() <= after.keys() and all(torch.equal(before[k].cpu(), after[k].cpu()) for k in before)
    return len(before) if equal and all(name.startswith(own) for name in added) else 0


def _answers_too(agent: Agent, stage: str) -> bool:
    """Whether a head of the stage answers, without being named, for an effector that has an earlier head."""
    of = {entry["name"]: entry["stage"] for entry in agent.config.heads}
    asked = [{of[name] == stage for name in agent.heads_of(effector)} for effector in agent.effectors]
    return any(len(mine) > 1 for mine in asked)


def _same(lesson: Lesson, before_agent: Agent, agent: Agent, context: Context) -> bool:
    """Whether both agents have the same losses on the first batches after a lesson's end, as in rehearsals.

    What the lesson's learner stores of an agent comes from `before_agent`, for both.
    """
    fewer = replace(context, rows_share=ROWS_SHARE)
    learners = [lesson.make_learner(one, fewer) for one in (before_agent, agent)]
    for learner in learners:
        learner.steps = lesson.steps
    learners[0].remember()
    learners[1].load_state_dict(learners[0].state_dict())
    return torch.equal(*(_losses(lesson, learner, fewer) for learner in learners))


def _losses(lesson: Lesson, learner: Learner, context: Context) -> torch.Tensor:
    """The losses of BATCHES batches [B], on the CPU."""
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
