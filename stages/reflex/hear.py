"""Hear: what kind of sound it is, in the nursery; and spoken digits, when the run was given recordings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.acting import observations
from devmind.agent.agent import Agent
from devmind.agent.features import log_mel
from devmind.algorithms.ridge import fit_ridge_classifier
from devmind.curriculum.episodes import of_worlds
from devmind.curriculum.exam import Exhibit, Measure
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds, lesson_seeds
from stages.reflex.batches import clip
from stages.reflex.evidence import wav
from stages.reflex.parts import on_trunk

TICKS = 5
CLASSES = ("quiet", "sphere tone", "box tone", "cylinder tone", "voice", "bang", "contact")


def sounds(context: Context, seeds: np.ndarray) -> tuple[Tensor, np.ndarray]:
    """(sound float32 [N, 5, 2, 1600], class int64 [N]) of the nursery's level `hear`."""
    world = context.make_world("nursery", "hear", seeds)
    ticks = [senses["sound"] for senses in observations(world, TICKS)]
    return torch.from_numpy(np.stack(ticks, 1)), world.truth()["sound_class"]


def lesson_batch(context: Context, update: int, size: int) -> dict[str, Any]:
    """`size` clips of half a second, with the class at every tick."""
    heard, kind = sounds(context, lesson_seeds(size, context.seed, "hear", update))
    return clip({"sound": heard}) | {"kind": torch.from_numpy(kind)[:, None].expand(-1, TICKS)}


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Cross-entropy of the class, tick by tick."""
    value = agent(batch, ["hear"])["hear"].loss(batch["kind"])
    return value, {"hear": value.detach()}


def examine(agent: Agent, context: Context, level: str) -> Sequence[Measure]:
    """Share of unseen sounds whose class is named; a clip's answer is the class likeliest over its ticks."""
    n = context.episodes(600) // (5 if level == "glimpse" else 1)
    seeds = exam_seeds(n, context.seed, "hear")
    heard, kind = sounds(context, seeds)
    chosen = _named(agent, "hear", heard)
    right = chosen == kind
    full = level == "full"
    measures = [
        Measure(
            "hear/sounds",
            "sounds named rightly",
            right.astype(np.float64),
            chance=1 / len(CLASSES),
            ceiling=1.0,
            rate=True,
            floors={"log-mel + ridge": _floor(context, heard, kind)} if full else {},
            exhibits=_exhibits(heard, kind, chosen) if full else (),
            episodes=of_worlds(context.make_world, "nursery", "hear", seeds),
        )
    ]
    if own := on_trunk(agent, "hear"):
        by_itself = (_named(agent, own, heard) == kind).astype(np.float64)
        measures.append(replace(measures[0], name="hear/sounds/hear_trunk", values=by_itself, exhibits=()))
    return measures


def _named(agent: Agent, head: str, heard: Tensor) -> np.ndarray:
    """The class likeliest over each clip's ticks, as `head` hears [N, 5, 2, 1600]; int64 [N]."""
    told = [agent(clip({"sound": part}), [head])[head].logits.log_softmax(-1).sum(1) for part in heard.split(100)]
    return torch.cat(told).argmax(-1).cpu().numpy()


def _exhibits(heard: Tensor, kind: np.ndarray, chosen: np.ndarray) -> tuple[Exhibit, ...]:
    """One sound of each class that was named rightly, and up to six that were not."""
    right = chosen == kind
    examples = [int(np.flatnonzero(right & (kind == k))[0]) for k in np.unique(kind[right])]
    played = [("example", i, CLASSES[kind[i]]) for i in examples if CLASSES[kind[i]] != "quiet"]
    wrong = np.flatnonzero(~right)[:6]
    played += [("failure", int(i), f"{CLASSES[kind[i]]}, taken for {CLASSES[chosen[i]]}") for i in wrong]
    return tuple(
        Exhibit(what, text, wav=wav(np.concatenate(heard[i].numpy(), 1)))  # type: ignore[arg-type]
        for what, i, text in played
    )


def _floor(context: Context, heard: Tensor, kind: np.ndarray) -> float:
    taught, labels = sounds(context, lesson_seeds(600, context.seed, "hear", "floor"))
    x, y = (log_mel(s.mean(2).flatten(1), 512, 400, 40).flatten(1).numpy() for s in (taught, heard))
    return float((fit_ridge_classifier(x, labels).predict(y) == kind).mean())
