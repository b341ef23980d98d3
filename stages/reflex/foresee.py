"""Foresee: how the tokens of sight and sound will change until the next Moment, without labels.

Wanted are the changes of the agent's own encoder tokens, whitened (`NextTokensHead`); the lesson leaves encoders as
they are, so nothing can be gained by dull tokens. Errors are relative to foreseeing no change: 1 means nothing was
learned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.acting import observations
from devmind.agent.agent import Agent
from devmind.agent.heads import NextTokensHead
from devmind.agent.output import Output
from devmind.agent.prediction import Missed
from devmind.agent.taps import Perceived
from devmind.curriculum.episodes import of_worlds
from devmind.curriculum.exam import Measure
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds, lesson_seeds, numpy_rng
from stages.reflex.batches import as_tensors, clip
from stages.reflex.parts import FORESEEN
from stages.reflex.trials import episodes
from stages.reflex.watch import babbling

LEVELS = ("room", "orient/motion", "orient/sound", "track")
TICKS = 10
MEASURED = 24
"""Rows a level, by which the whitening is measured."""


def rows(context: Context, level: str, seeds: Any, name: str) -> dict[str, Any]:
    """Ten Moments of children in `level` whose gaze and hand drift."""
    world = context.make_world("nursery", level, seeds)
    act = babbling(len(seeds), numpy_rng(context.seed, name, level))
    kept: dict[str, list[Tensor]] = {}
    for senses in observations(world, TICKS, act):
        for sense, value in as_tensors(senses).items():
            kept.setdefault(sense, []).append(value)
    return clip({sense: torch.stack(values, 1) for sense, values in kept.items()})


def judged(batch: Mapping[str, Any], sense: str) -> Tensor:
    """Which Moments are followed by one of the same episode, both with the sense: bool [B, T - 1]."""
    present = batch["present"][sense]
    here: Tensor = batch["valid"][:, 1:] & ~batch["first"][:, 1:] & present[:, 1:] & present[:, :-1]
    return here


@torch.no_grad()
def measure_whitening(agent: Agent, context: Context) -> None:
    """Let each head measure by how the tokens of its sense change in rooms of the lesson."""
    n = MEASURED if context.config.size != "tiny" else 4
    for name, sense in FORESEEN.items():
        changes = []
        for level in LEVELS:
            batch = rows(context, level, lesson_seeds(n, context.seed, "foresee", level), "foresee")
            tokens = agent.perceive(batch, [sense]).encoded[sense].tokens
            changes.append((tokens[:, 1:] - tokens[:, :-1])[judged(batch, sense).to(tokens.device)].flatten(0, -2))
        head = agent.head(name)
        assert isinstance(head, NextTokensHead)
        head.set_whitening(torch.cat(changes))


def squares(
    agent: Agent, outputs: Mapping[str, Output], seen: Perceived, batch: Mapping[str, Any]
) -> dict[str, tuple[Tensor, Tensor]]:
    """By head, sums of squares of each row [B]: of what it missed, and of the change there was."""
    found = {}
    for name, sense in FORESEEN.items():
        if name not in outputs or sense not in seen.encoded:
            continue
        head, tokens = agent.head(name), seen.encoded[sense].tokens
        assert isinstance(head, NextTokensHead)
        change = head.changes(tokens[:, :-1], tokens[:, 1:])
        here = judged(batch, sense).to(change.device)[..., None, None]
        off = outputs[name].mode()[:, :-1] - change
        found[name] = ((off.square() * here).sum((1, 2, 3)), (change.square() * here).sum((1, 2, 3)))
    return found


def missed(agent: Agent, outputs: Mapping[str, Output], seen: Perceived, batch: Mapping[str, Any]) -> dict[str, Missed]:
    """By head, what was missed and the change there was, over all rows."""
    every = squares(agent, outputs, seen, batch)
    return {name: Missed(off.sum(), change.sum()) for name, (off, change) in every.items()}


GATE = Gate([Threshold(f"foresee/{sense}", 0.85, lower_is_better=True, goal=True) for sense in FORESEEN.values()])
EPISODES = 200


def examine(agent: Agent, context: Context, level: str) -> Sequence[Measure]:
    """What is missed of each row's changes, relative to the mean change of all rows; and by level."""
    n = episodes(context, level, EPISODES)
    names = [name for name in FORESEEN if name in agent.heads]
    found: dict[str, list[tuple[Tensor, Tensor]]] = {name: [] for name in names}
    met, each = [], -(-n // len(LEVELS))
    for kind in LEVELS:
        seeds = exam_seeds(each, context.seed, "foresee", kind)
        met.append(of_worlds(context.make_world, "nursery", kind, seeds))
        batch = rows(context, kind, seeds, "foresee exam")
        seen = agent.perceive(batch, [agent.tap_of(name) for name in names])
        for name, pair in squares(agent, agent.run_heads(names, seen), seen, batch).items():
            found[name].append(pair)
    return [replace(_measure(agent, name, pairs), episodes=np.concatenate(met)) for name, pairs in found.items()]


def _measure(agent: Agent, name: str, pairs: Sequence[tuple[Tensor, Tensor]]) -> Measure:
    sense = FORESEEN[name]
    off, change = (torch.cat(parts).double().cpu().numpy() for parts in zip(*pairs, strict=True))
    return Measure(
        f"foresee/{sense}",
        "squared error of the tokens' change, over that of foreseeing none",
        off / max(float(change.mean()), 1e-9),
        chance=1.0,
        ceiling=0.0,
        floors={"no change": 1.0},
        higher_is_better=False,
        rows={f"in {kind}": float(o.sum() / c.sum()) for kind, (o, c) in zip(LEVELS, pairs, strict=True)},
        note=f"whitened changes of tokens of the encoder {agent.sha256(f'encoders.{sense}.')[:12]}, which the lesson "
        "does not teach; a predictor without a trunk is what --ablate trains",
    )
