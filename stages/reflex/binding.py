"""Bind: which of four visible objects made this sound; and the auxiliary task of hearing where a sound comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.acting import observations, scripted
from devmind.agent.agent import Agent
from devmind.curriculum.episodes import of_worlds
from devmind.curriculum.exam import Measure
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.moment import SIGHT_SIZE
from devmind.seeding import exam_seeds, lesson_seeds, numpy_rng
from stages.reflex.batches import clip, one_tick
from stages.reflex.evidence import picture_exhibits
from stages.reflex.parts import on_trunk

TICKS = 3
CELLS = 8
CELL_PX = SIGHT_SIZE // CELLS
GATE = Gate([Threshold("bind", 0.90), Threshold("bind/bind_trunk", 0.90, goal=True)])


def scenes(context: Context, seeds: np.ndarray, ticks: int) -> tuple[dict[str, Tensor], dict[str, np.ndarray]]:
    """(sight and sound [N, ticks, ...], truth at the last tick) of the level `bind`."""
    world = context.make_world("nursery", "bind", seeds)
    shown = list(observations(world, ticks))
    return {name: torch.from_numpy(np.stack([s[name] for s in shown], 1)) for name in ("sight", "sound")}, world.truth()


def centres(boxes: np.ndarray) -> np.ndarray:
    """Middles of boxes [..., 4] in pixels, [..., 2] (x, y)."""
    return (boxes[..., :2] + boxes[..., 2:]) / 2


def lesson_batch(context: Context, update: int, size: int) -> dict[str, Any]:
    """`size` pictures with a sound, and the cell of the object that made it; the same sounds with their direction."""
    senses, truth = scenes(context, lesson_seeds(size, context.seed, "bind", update), 1)
    at = centres(truth["boxes"])[np.arange(size), truth["target"]]
    cell = np.clip((at // CELL_PX).astype(np.int64), 0, CELLS - 1)
    return clip(senses) | {"cell": torch.from_numpy(cell[:, 1] * CELLS + cell[:, 0])[:, None]}


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Cross-entropy of the cell."""
    value = agent(batch, ["bind"])["bind"].loss(batch["cell"])
    return value, {"bind": value.detach()}


def direction_batch(context: Context, update: int, size: int) -> dict[str, Any]:
    """Sounds from all around, with sine and cosine of their azimuth from the turned head."""
    world = context.make_world("nursery", "orient/sound", lesson_seeds(size, context.seed, "direction", update))
    look = numpy_rng(context.seed, "direction", update).uniform(-1, 1, (size, 2)).astype(np.float32)
    *_, senses = observations(world, 2, scripted(look))
    truth = world.truth()
    azimuth = np.deg2rad(truth["target_azimuth_deg"] - truth["pan_deg"])
    wanted = torch.from_numpy(np.stack([np.sin(azimuth), np.cos(azimuth)], 1).astype(np.float32))
    return one_tick({"sound": torch.from_numpy(senses["sound"])}) | {"direction": wanted[:, None]}


def direction_loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Squared error of sine and cosine."""
    value = agent(batch, ["sound_direction"])["sound_direction"].loss(batch["direction"])
    return value, {"direction": value.detach()}


def examine(agent: Agent, context: Context, level: str) -> Sequence[Measure]:
    """Share of scenes in which the object nearest to the answered place is the one that sounded."""
    n = context.episodes(500) // (5 if level == "glimpse" else 1)
    seeds = exam_seeds(n, context.seed, "bind")
    senses, truth = scenes(context, seeds, TICKS)
    middle = centres(truth["boxes"])[:, :4]
    right = _answers(agent, "bind", senses, middle) == truth["target"]
    full = level == "full"
    shown = senses["sight"][:, -1].numpy()
    wrong = np.flatnonzero(~right)[:6]
    captions = [f"object {truth['target'][i] + 1} of 4 sounded; another was chosen" for i in wrong]
    silent = {"sight": senses["sight"], "sound": torch.zeros_like(senses["sound"])}
    nearest = np.linalg.norm(truth["position"][:, :4], axis=-1).argmin(1)
    measures = [
        Measure(
            "bind",
            "sounds bound rightly",
            right.astype(np.float64),
            chance=0.25,
            ceiling=1.0,
            rate=True,
            floors={"the nearest object": float((nearest == truth["target"]).mean())} if full else {},
            rows={"sound off": float((_answers(agent, "bind", silent, middle) == truth["target"]).mean())}
            if full
            else {},
            exhibits=picture_exhibits("failure", shown[wrong], captions) if full else (),
            episodes=of_worlds(context.make_world, "nursery", "bind", seeds),
        )
    ]
    if own := on_trunk(agent, "bind"):
        by_itself = (_answers(agent, own, senses, middle) == truth["target"]).astype(np.float64)
        measures.append(replace(measures[0], name="bind/bind_trunk", values=by_itself, rows={}, exhibits=()))
    return measures


def _answers(agent: Agent, head: str, senses: Mapping[str, Tensor], middle: np.ndarray) -> np.ndarray:
    """The candidate nearest to the likeliest cell over the ticks, int [N]; middle [N, 4, 2] px."""
    cells = []
    for start in range(0, len(middle), 100):
        part = clip({name: value[start : start + 100] for name, value in senses.items()})
        cells.append(agent(part, [head])[head].logits.log_softmax(-1).sum(1).argmax(-1))
    cell = torch.cat(cells).cpu().numpy()
    point = (np.stack([cell % CELLS, cell // CELLS], 1) + 0.5) * CELL_PX
    return np.linalg.norm(middle - point[:, None], axis=-1).argmin(1)
