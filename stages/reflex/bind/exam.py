"""The exam of bind: which of four visible objects made this sound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.agent.batch import clip
from devmind.curriculum.episodes import of_worlds
from devmind.curriculum.exam import Measure
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds
from stages.reflex.bind.lesson import CELL_PX, CELLS, centres, scenes
from stages.reflex.exhibits import picture_exhibits
from stages.reflex.parts import on_trunk

TICKS = 3
GATE = Gate([Threshold("bind", 0.90), Threshold("bind/bind_trunk", 0.90, goal=True)])


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
    deaf = {"sight": senses["sight"]}
    nearest = np.linalg.norm(truth["position"][:, :4], axis=-1).argmin(1)
    measures = [
        Measure(
            "bind",
            "sounds bound rightly",
            right,
            chance=0.25,
            ceiling=1.0,
            rate=True,
            floors={"the nearest object": float((nearest == truth["target"]).mean())} if full else {},
            rows={"sound off": float((_answers(agent, "bind", deaf, middle) == truth["target"]).mean())}
            if full
            else {},
            exhibits=picture_exhibits("failure", shown[wrong], captions) if full else (),
            episodes=of_worlds(context.make_world, "nursery", "bind", seeds),
        )
    ]
    if own := on_trunk(agent, "bind"):
        by_itself = _answers(agent, own, senses, middle) == truth["target"]
        measures.append(measures[0].of("bind/bind_trunk", by_itself))
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
