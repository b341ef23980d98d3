"""The lesson manipulate: rooms as the agent sees them, with the hand anywhere, and a script's plan from there on.

The script takes things to be where the head reads them, not where they are. With the true places, each point of a plan
would differ from the read places by an error of its own, and a pushing hand would miss its line. For the same reason
the read places may be moved at random before the script plans; a few thousand rooms alone are soon known by heart.

Each room is seen once, and a random command is given in it for a tick: that teaches inverse dynamics. Where things are
is taught too, as these rooms are seen from other places than those in which reflexes learned to read them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.acting import rollout
from devmind.agent.agent import Agent
from devmind.agent.batch import clip, encode_words
from devmind.agent.config import by_size
from devmind.agent.heads import SCALE_DEG
from devmind.curriculum.stage import Context, Lesson
from devmind.learners.gradient import gradient_lesson, slower, sum_losses
from devmind.learners.muon import MuonLearner
from devmind.seeding import lesson_seeds, numpy_rng
from devmind.worlds.nursery.handling import ASKED, BOX_COLOUR, GOAL, PILLAR_COLOUR, PUSH, TASKS, held_out
from devmind.worlds.nursery.state import COLOUR_NAMES, HAND_HIGH, HAND_LOW
from devmind.worlds.nursery.truth import places_by_colour
from stages.planning import parts
from stages.planning.manipulate.demonstrations import CHANNELS, HORIZON, plans, units
from stages.planning.manipulate.head import in_room, reading_losses

NAME = "manipulate"
STEPS = {"tiny": 12, "nursery": 1800, "child": 6000, "adult": 12000}
ROWS = 48
ROOMS = by_size(1_500, tiny=24)
"""Rooms of each task."""
AT_REST = 0.4
"""Share of rooms in which the hand is where episodes begin; in the others it is anywhere."""
MINUTES = 5
READING_RATE = 0.3
"""Learning rate of the part that reads places, as a share of the lesson's; reflexes have taught it already."""
MOVED, MOVED_DEG, MOVED_LOG = 8, 5.0, 0.1
"""Plans for each room of a batch, and the standard deviations by which read places are moved: of directions, and of the
logarithm of the distance."""
GOAL_COLOUR = {task: PILLAR_COLOUR if task == PUSH else BOX_COLOUR for task in TASKS}
HEAD = f"heads.{parts.MANIPULATE}."
TRAINS: Sequence[str] = (HEAD,)


class ManipulateLearner(MuonLearner):
    """Muon on the denoiser's linear maps."""

    orthogonal, muon_betas = (HEAD + "imaginer.",), (0.9, 0.95)


def lesson(context: Context) -> Lesson:
    """Single Moments of rooms of all three tasks."""
    rooms = ROOMS[context.config.size]

    def make(agent: Agent, context: Context, update: int, rows: int, steps: int = 0) -> dict[str, Any]:
        return batch(context.seed, rooms, update, rows, context.make_world)

    taught = gradient_lesson(
        context, NAME, loss, make, steps=STEPS, rows=ROWS, learning_rate=2e-3, minutes=MINUTES,
        trains=lambda agent: TRAINS, learner=ManipulateLearner, prefetch=True, skills=(NAME,),
    )  # fmt: skip
    return slower(taught, {HEAD + "read.": READING_RATE})


@lru_cache(maxsize=2)
def rooms(seed: int, n: int, make_world: Callable[..., Any]) -> dict[str, np.ndarray]:
    """Senses and targets of `n` rooms of each task, without those held out; arrays [up to 3 n, ...]."""
    parts_of_rooms: list[dict[str, np.ndarray]] = []
    for task in TASKS:
        rng = numpy_rng(seed, NAME, task)
        world = make_world("nursery", f"handle/{task}", lesson_seeds(n, seed, NAME, task))
        state = world.state()
        anywhere = rng.uniform(HAND_LOW, HAND_HIGH, (n, 3))
        state.hand = np.where(rng.random((n, 1)) < AT_REST, state.hand, anywhere)
        senses = world.restore(state)
        parts_of_rooms.append(_demonstration(world, senses, task, rng))
    return {name: np.concatenate([each[name] for each in parts_of_rooms]) for name in parts_of_rooms[0]}


def _demonstration(world: Any, senses: Mapping[str, Any], task: str, rng: np.random.Generator) -> dict[str, np.ndarray]:
    truth = world.truth()
    n, in_lessons = len(truth["target"]), ~held_out(truth)
    symbols = plans(truth, task)[1]
    places = places_by_colour(truth)
    colour = truth["colour"][:, ASKED]
    places = np.concatenate((places, places[np.arange(n), colour][:, None]), 1)
    names = np.stack([encode_words(name) for name in COLOUR_NAMES])
    command = rng.uniform(-1, 1, (n, 4)).astype(np.float32)
    for _ in rollout(lambda senses, first: {"reach": command}, world, 1):
        pass
    arrays = {
        "sight": senses["sight"], "body": senses["body"], "named": names[colour], "words": symbols,
        "task": np.full(n, TASKS.index(task)), "size": truth["size"],
        "places": places, "command": command, "hand": units(world.truth()["hand"]).astype(np.float32),
    }  # fmt: skip
    return {name: np.asarray(value)[in_lessons] for name, value in arrays.items()}


def batch(seed: int, n: int, update: int, rows: int, make_world: Callable[..., Any]) -> dict[str, Any]:
    """`rows` Moments [B, 1] of rooms, with `task`, `size` and `places`, and with `words`, `command` and `hand` as in
    `Manipulating.losses`.
    """
    data = rooms(seed, n, make_world)
    rows_of_data = numpy_rng(seed, NAME, update).integers(0, len(data["sight"]), rows)
    tensors = {name: torch.from_numpy(value[rows_of_data])[:, None] for name, value in data.items()}
    senses = {"sight": tensors.pop("sight"), "body": tensors.pop("body"), "words": tensors.pop("named")}
    return clip(senses) | tensors


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Losses of noised points and masked symbols, of read places, and of inverse dynamics."""
    output: Any = agent.forward(dict(batch), [parts.MANIPULATE])[parts.MANIPULATE]
    read = reading_losses(output.places, batch["places"].to(agent.device))

    def often(value: Tensor) -> Tensor:
        return value.to(agent.device).repeat_interleave(MOVED, 0)

    target = {name: often(batch[name]) for name in ("words", "command", "hand")}
    every = replace(output, **{name: often(getattr(output, name)) for name in ("condition", "present", "here", "body")})
    places = often(output.places.detach())
    far = torch.tensor([0.0, MOVED_DEG / SCALE_DEG, MOVED_DEG / SCALE_DEG, MOVED_LOG], device=agent.device)
    places = places + far * torch.randn_like(places)
    points = plan_points(places, every.body, often(batch["task"]), often(batch["size"]))
    losses = every.imagining(places).losses(target | {"points": points}) | read
    return sum_losses(losses)


def plan_points(places: Tensor, body: Tensor, task: Tensor, size: Tensor) -> Tensor:
    """Points [B, 1, H, 5] of the script's plan for each room, with things at `places` [B, 1, COLOURS + 1, 4].

    Args:
        task: int64 [B, 1]; size: of the goal and of the thing asked for, m, by slot [B, 1, slots].
    """
    read = in_room(places, body)[:, 0].double().cpu().numpy()
    points = np.zeros((len(read), HORIZON, CHANNELS), np.float32)
    for number, name in enumerate(TASKS):
        rows = (task[:, 0] == number).cpu().numpy()
        position = np.zeros((int(rows.sum()), 2, 3))
        position[:, ASKED], position[:, GOAL] = read[rows, -1], read[rows, GOAL_COLOUR[name]]
        points[rows] = plans({"position": position, "size": size[:, 0].cpu().numpy()[rows]}, name)[0]
    return torch.from_numpy(points)[:, None].to(places.device)
