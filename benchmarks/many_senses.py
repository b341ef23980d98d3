"""Many senses in one step, or one sense after the other: from one agent, at equal steps and as many examples of each.

    OMP_NUM_THREADS=1 python benchmarks/many_senses.py AGENT --steps 120

`together`: the lesson `senses`, all weights 1. `balanced`: the same with weights that make the parts' gradients on the
trunk equally large, by their norms in the first steps of `together`. `in turn`: a third of the steps each for sight,
hearing and reading; what has both senses in `together` is shared among the first two. Each is asked the same things of
held-out pairs and the same pages of held-out text; differences are paired, with 95 % intervals over what was asked.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from devmind import worlds
from devmind.agent.agent import Agent
from devmind.config import load
from devmind.curriculum.examining import examination
from devmind.curriculum.stage import Context, Scalars
from devmind.learners.joint import JointLearner, JointLoss
from devmind.seeding import exam_seeds
from stages.language import parts
from stages.language.answering import answers
from stages.language.caregiver.grammar import a
from stages.language.caregiver.scene import COLOURS, HELD_OUT, NOUNS
from stages.language.name.lesson import COLOUR, KIND
from stages.language.parts import SIGHT, SOUND, TEXT
from stages.language.read.corpus import as_bytes, corpus
from stages.language.read.pages import LENGTHS, page_batch, telling
from stages.language.senses.lesson import BOTH, LOSSES, ROWS, THINGS, lesson_batch, part_batch, sounding

TURNS = (SIGHT, SOUND, TEXT)
TELL = 20
LONGEST = 12
"""Bytes of an answer."""
FIRST = 20
"""Steps of `together` by whose norms the weights are balanced."""


def taught(start: Agent, context: Context, steps: int, rate: float, way: str, weights: dict[str, float]) -> Any:
    """The agent that comes of one way of teaching, and what was told of each step."""
    agent = copy.deepcopy(start).train()
    loss, trains = JointLoss(LOSSES, weights), parts.trained(agent)
    learner = JointLearner(agent, loss, seed=context.seed, learning_rate=rate, trains=trains)
    learner.steps, told = steps, list[Scalars]()
    learner.begin(0)
    began_s = time.process_time()
    for step in range(steps):
        part = TURNS[min(step * len(TURNS) // steps, len(TURNS) - 1)]
        rows = 3 * ROWS // 4 if part == TEXT else 9 * ROWS // 8  # as many of each as three steps of `together` have
        batch = part_batch(context, step, rows, part) if way == "in turn" else lesson_batch(context, step, ROWS)
        told.append({name: float(value) for name, value in learner.update(batch, step).items()})
        if step % TELL == 0 or step == steps - 1:
            shown = {name: round(value, 3) for name, value in told[-1].items()}
            print(way, step, f"{time.process_time() - began_s:.0f} s", json.dumps(shown), flush=True)
    learner.end()
    return agent.eval(), told


def asked(agent: Agent, context: Context, n: int) -> dict[str, np.ndarray]:
    """One value for each thing that was asked: whether the answer was right; and nats a byte of each page."""
    of = sounding(context, exam_seeds(n, context.seed, "senses"), HELD_OUT)
    senses = {SIGHT: of.shown.sight, SOUND: of.sound}
    colours, nouns = of.shown.pairs[:, 0].T
    right = {}
    for part, kept in THINGS.items():
        said = answers(agent, {**{name: senses[name] for name in kept}, TEXT: [KIND] * n}, LONGEST)
        right[f"form by {part}"] = [text == f" {a(NOUNS[noun])}." for text, noun in zip(said, nouns, strict=True)]
    for part in (SIGHT, BOTH):
        said = answers(agent, {**{name: senses[name] for name in THINGS[part]}, TEXT: [COLOUR] * n}, LONGEST)
        right[f"colour by {part}"] = [text == f" {COLOURS[at]}." for text, at in zip(said, colours, strict=True)]
    text, length = as_bytes(corpus(context).held_out), LENGTHS[context.config.size]
    pages = text[: len(text) // length * length].reshape(-1, length)[: n // 4]
    with torch.no_grad():
        nats = telling(agent, page_batch(pages)).mean(1).numpy()
    return {name: np.array(each, float) for name, each in right.items()} | {"nats a byte": nats}


def compared(name: str, one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    """Paired differences."""
    print(f"\n{name}: mean difference +- 1.96 standard errors")
    for what, values in one.items():
        apart = values - other[what]
        half = 1.96 * apart.std(ddof=1) / np.sqrt(len(apart))
        means = f"{values.mean():.3f} and {other[what].mean():.3f}"
        print(f"  {what}: {means}; {apart.mean():+.3f} +- {half:.3f} (n = {len(apart)})")


def main() -> None:
    """Teach each way, ask, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("agent", type=Path)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--n", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ways", nargs="+", default=["together", "balanced", "in turn"])
    given = parser.parse_args()
    context = Context(load("nursery"), given.seed, "cpu", Path("."), worlds.make)
    start = Agent.from_pretrained(given.agent)
    with examination(start):
        found = {"before": asked(start, context, given.n)}
    weights = dict.fromkeys((*THINGS, TEXT), 1.0)
    for way in given.ways:
        agent, told = taught(start, context, given.steps, given.rate, way, weights)
        with examination(agent):
            found[way] = asked(agent, context, given.n)
        print(way, {name: round(float(each.mean()), 3) for name, each in found[way].items()}, flush=True)
        if way == "together":
            names = {name for scalars in told for name in scalars if name.startswith("cosine/") or "norm" in name}
            means = {name: np.mean([each[name] for each in told if name in each]) for name in sorted(names)}
            print("means:", {name: round(float(value), 3) for name, value in means.items()})
            norms = {part: np.mean([x[f"{part}/gradient norm"] for x in told[:FIRST]]) for part in weights}
            weights = {part: float(np.mean(list(norms.values())) / norm) for part, norm in norms.items()}
            print("weights that balance:", {part: round(value, 2) for part, value in weights.items()})
    for name, value in found.items():
        for other in list(found)[: list(found).index(name)]:
            compared(f"{name} and {other}", value, found[other])


if __name__ == "__main__":
    main()
