"""Together: the trunk imitates the arcs while they act, and goes on predicting; encoders and arcs stay as they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.acting import Actor, Senses, rollout
from devmind.acting.rollout import Actions
from devmind.agent.agent import Agent
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
    space, actor = world.single_action_space, Actor(agent, effectors=EFFECTORS, trunk=False)

    def moved(senses: Senses, first: np.ndarray) -> Actions:
        # An arc that answers in another width than this world's effector has moves nothing here.
        actions = {name: value.reshape(size, -1) for name, value in actor(senses, first).items()}
        widths = {name: space[name].shape[0] for name in EFFECTORS}
        nothing = {name: np.zeros((size, width), np.float32) for name, width in widths.items()}
        return nothing | {name: value for name, value in actions.items() if value.shape[1] == widths[name]}

    rows: dict[str, list[Tensor]] = {}
    done: dict[str, list[Tensor]] = {name: [] for name in EFFECTORS}
    for tick in rollout(moved, world, TICKS):
        for name, value in as_tensors(tick.senses).items():
            rows.setdefault(name, []).append(value)
        for name in EFFECTORS:
            done[name].append(torch.from_numpy(tick.actions[name]))
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
