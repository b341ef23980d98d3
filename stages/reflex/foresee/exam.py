"""The exam of foresee: the trunk's error in predicting how tokens change, relative to predicting no change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.agent.batch import map_tensors
from devmind.curriculum.episodes import of_worlds
from devmind.curriculum.exam import Exam, Measure
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds
from stages.reflex.foresee.lesson import LEVELS, rows, squares
from stages.reflex.parts import FORESEEN

GATE = Gate(
    [
        Threshold(f"foresee/{sense}", 0.85, lower_is_better=True, goal=sense == "sound", beats_twin=True)
        for sense in FORESEEN.values()
    ]
)
EPISODES, AT_ONCE = 1000, 50


def examine(agent: Agent, context: Context) -> Exam:
    """Squared error of the predicted changes, divided by the true changes', over all rows; and by level."""
    n = context.episodes(EPISODES)
    names = [name for name in FORESEEN if name in agent.heads]
    residuals_by_name: dict[str, list[tuple[Tensor, Tensor]]] = {name: [] for name in names}
    episodes, each = [], -(-n // len(LEVELS))
    for kind in LEVELS:
        seeds = exam_seeds(each, context.seed, "foresee", kind)
        episodes.append(of_worlds(context.make_world, "nursery", kind, seeds))
        batch = rows(context, kind, seeds, "foresee exam")
        for name, pair in _squares(agent, names, batch).items():
            residuals_by_name[name].append(pair)
    return Exam(
        [
            replace(_measure(agent, name, pairs), episodes=np.concatenate(episodes))
            for name, pairs in residuals_by_name.items()
        ]
    )


def _squares(agent: Agent, names: Sequence[str], batch: Mapping[str, Any]) -> dict[str, tuple[Tensor, Tensor]]:
    """Of all rows of a batch as in `squares`, some rows at once, so that memory does not grow with them."""
    parts: dict[str, list[tuple[Tensor, Tensor]]] = {name: [] for name in names}
    for start in range(0, len(batch["first"]), AT_ONCE):
        some = map_tensors(batch, lambda x, start=start: x[start : start + AT_ONCE])
        seen = agent.perceive(some, [agent.tap_of(name) for name in names])
        for name, pair in squares(agent, agent.run_heads(names, seen), seen, some).items():
            parts[name].append(pair)
    return {name: (torch.cat([off for off, _ in p]), torch.cat([of for _, of in p])) for name, p in parts.items() if p}


def _measure(agent: Agent, name: str, pairs: Sequence[tuple[Tensor, Tensor]]) -> Measure:
    sense = FORESEEN[name]
    off, change = (torch.cat(parts).double().cpu().numpy() for parts in zip(*pairs, strict=True))
    return Measure(
        f"foresee/{sense}",
        "squared error of the tokens' change, divided by that of predicting no change",
        relative(off, change),
        chance=1.0,
        ceiling=0.0,
        floors={"no change": 1.0},
        higher_is_better=False,
        rows={f"in {kind}": float(o.sum() / c.sum()) for kind, (o, c) in zip(LEVELS, pairs, strict=True)},
        note=f"whitened changes of tokens of the encoder {agent.sha256(f'encoders.{sense}.')[:12]}, which the lesson "
        "does not teach; a predictor without a trunk is what --ablate trains",
    )


def relative(off: np.ndarray, change: np.ndarray) -> np.ndarray:
    """The sum of `off` [n] over that of `change` [n] as one value a row, whose mean it is.

    Each value tells how far its row moves the ratio (the delta method's pseudo-values): rows with a bang change much
    and are missed by much, so errors over a mean change that is taken for certain would vary ten times as much.
    """
    mean = max(float(change.mean()), 1e-9)
    ratio = float(off.mean()) / mean
    return np.asarray(ratio + (off - ratio * change) / mean)
