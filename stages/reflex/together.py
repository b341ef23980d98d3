"""Together: the trunk imitates the arcs while they act, and goes on predicting; encoders and arcs stay as they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.agent.batch import collate_tick
from devmind.agent.prediction import prediction_loss
from devmind.curriculum.stage import Context
from devmind.seeding import lesson_seeds
from stages.reflex import speech
from stages.reflex.batches import as_tensors, clip

TRAINS = (
    "trunk.",
    "readout",
    "heads.next_",
    "heads.look_trunk",
    "heads.reach_trunk",
    "heads.move_trunk",
    "heads.spoken",
)
LEVELS = ("orient/sight", "track", "orient/sound", "reach", "orient/motion", "startle")
TICKS = 10
EFFECTORS = ("look", "reach", "move")


def lesson_batch(agent: Agent, context: Context, update: int, size: int) -> dict[str, Any]:
    """`size` children of one level for ten ticks, moved by their arcs, with what those did; or speech, when given."""
    if update % 4 == 3 and speech.taught(context):
        return {"speech": speech.lesson_batch(context, update, size)}
    level = LEVELS[update % len(LEVELS)]
    world = context.make_world("nursery", level, lesson_seeds(size, context.seed, "together", update))
    state, first = agent.new_state(size), np.ones(size, bool)
    rows: dict[str, list[Tensor]] = {}
    done: dict[str, list[Tensor]] = {name: [] for name in EFFECTORS}
    observation = world.observe()
    for _ in range(TICKS):
        for name, value in as_tensors(observation).items():
            rows.setdefault(name, []).append(value)
        percepts = agent.encode(state, collate_tick(observation, first))
        state, step = agent.step(state, percepts, effectors=EFFECTORS, trunk=False)
        actions = {}
        for name in EFFECTORS:
            moved = torch.where(step.acted[name][:, None], step.action[name].reshape(size, -1), torch.zeros(()))
            width = world.single_action_space[name].shape[0]
            moved = moved if moved.shape[1] == width else torch.zeros(size, width)
            done[name].append(moved.cpu())
            actions[name] = moved.cpu().numpy()
        observation, first = world.step(actions)[0], np.zeros(size, bool)
    batch = clip({name: torch.stack(values, 1) for name, values in rows.items()})
    return batch | {"done": {name: torch.stack(values, 1).clamp(-1, 1) for name, values in done.items()}}


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Negative log-likelihood (or squared error) of the arcs' actions, and the prediction loss of watching."""
    if "speech" in batch:
        return speech.loss(agent, batch["speech"])
    outputs = agent(batch, ["look_trunk", "reach_trunk", "move_trunk"])
    imitation = {}
    for name in EFFECTORS:
        told, wanted = outputs[f"{name}_trunk"].mode(), batch["done"][name]
        imitation[f"imitate_{name}"] = (told - wanted).square().mean()
    predicted, scalars = prediction_loss(agent, batch)
    total = sum(imitation.values(), start=torch.zeros(())) + 0.2 * predicted
    return total, {**scalars, **{name: value.detach() for name, value in imitation.items()}}
